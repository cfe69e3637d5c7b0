//! [`Launching`]: what a launch of a graph has to look to first for the graph's memory.

use std::sync::Arc;

use grapture_sys::CUDA_ERROR_NOT_SUPPORTED;

use crate::error::{CudaError, CudaResult};
use crate::graph::launch_into_capture;
use crate::memory::PoolUse;
use crate::memory::graph_pool::Turns;
use crate::memory::launch_memory::{LaunchMemory, Life};
use crate::stream::Stream;

/// Memory that bears on when a graph can be launched.
#[derive(Clone)]
pub(crate) enum AtLaunch {
    /// It allocates this.
    Memory(Arc<LaunchMemory>),
    /// It uses a pool.
    Pool(Arc<PoolUse>),
    /// A node that was built allocates memory, and another one frees it.
    Built,
}

impl AtLaunch {
    pub(crate) fn memory(&self) -> Option<&Arc<LaunchMemory>> {
        match self {
            AtLaunch::Memory(memory) => Some(memory),
            AtLaunch::Pool(_) | AtLaunch::Built => None,
        }
    }

    pub(crate) fn pool(&self) -> Option<&Arc<PoolUse>> {
        match self {
            AtLaunch::Memory(_) | AtLaunch::Built => None,
            AtLaunch::Pool(used) => Some(used),
        }
    }

    /// Whether a launch has something to do for it: not for what the graph frees itself.
    pub(crate) fn is_for_launches(&self) -> bool {
        match self {
            AtLaunch::Memory(memory) => memory.is_left(),
            AtLaunch::Pool(_) => true,
            AtLaunch::Built => false,
        }
    }

    /// Whether the graph allocates it.
    pub(crate) fn allocates(&self) -> bool {
        !matches!(self, AtLaunch::Pool(_))
    }
}

/// A launch of a graph that leaves memory or uses a pool. The launch is made while it lives.
#[must_use = "the launch is made while it lives"]
pub(crate) struct Launching<'a> {
    /// Each with what it was before.
    begun: Vec<(&'a LaunchMemory, Life)>,
    turns: Option<Turns<'a>>,
}

impl<'a> Launching<'a> {
    /// Begins a launch on the stream; refused while what the last one has left is somebody's.
    pub(crate) fn begin(
        first: impl Iterator<Item = &'a AtLaunch> + Clone,
        stream: &Stream,
        frees_itself: bool,
    ) -> CudaResult<Launching<'a>> {
        let mut launch = Launching { begun: Vec::new(), turns: None };
        if first.clone().next().is_none() {
            return Ok(launch);
        }
        if stream.is_capturing() {
            return Err(launch_into_capture());
        }
        for memory in first.clone().filter_map(AtLaunch::memory) {
            if stream.is_default() {
                return Err(default_stream());
            }
            launch.begun.push((memory, memory.before_launch(stream, frees_itself)?));
        }
        launch.turns = Some(Turns::begin(first.filter_map(AtLaunch::pool), stream)?);
        Ok(launch)
    }

    /// The launch was made.
    pub(crate) fn launched(&mut self, stream: &Stream) {
        for (memory, _) in self.begun.drain(..) {
            memory.left_on(stream);
        }
        if let Some(turns) = &mut self.turns {
            turns.launched(stream);
        }
    }
}

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        // The launch was not made.
        for (memory, before) in self.begun.drain(..) {
            memory.put_back(before);
        }
    }
}

#[cold]
fn default_stream() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_NOT_SUPPORTED,
        "stream",
        "it is a default stream, on which what the graph leaves could not be released at any \
         moment: launch on a stream of your own",
    )
}
