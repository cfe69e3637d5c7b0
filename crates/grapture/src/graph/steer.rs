//! The kernel of this library that has a word decide.

use crate::context::Context;
use crate::error::CudaResult;
use crate::graph::{Condition, WordCondition};
use crate::kernel::Kernel;
use crate::launch::LaunchBuilder;
use crate::stream::Stream;

const STEER: &str = include_str!("../../fixtures/steer.ptx");

/// The kernel that gives a condition the value of a word. It is loaded once for each context, as
/// long as a graph or a capture has it.
pub(crate) fn steering(context: &Context) -> CudaResult<Kernel> {
    context.steering(|| context.load_ptx(STEER)?.kernel("steer"))
}

/// The launch of it.
pub(crate) fn steer<'a>(
    kernel: &'a Kernel,
    condition: &Condition,
    word: &'a WordCondition,
) -> LaunchBuilder<'a> {
    kernel.launch_builder(1, 1).condition(condition).arg(word)
}

/// Launches it on a stream that captures.
#[track_caller]
pub(crate) fn launch_steering(
    condition: &Condition,
    word: &WordCondition,
    stream: &Stream,
) -> CudaResult<()> {
    let kernel = steering(stream.context())?;
    // SAFETY: the kernel takes a condition of the graph, which the stream's capture makes, and the
    // address of a word, which it reads.
    unsafe { steer(&kernel, condition, word).launch(stream) }
}
