//! [`Turns`]: graphs that share a pool run one after the other.

use std::sync::{Arc, MutexGuard, PoisonError};

use grapture_sys::{CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
use smallvec::SmallVec;

use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};
use crate::graph::launch_into_capture;
use crate::host_function;
use crate::memory::graph_pool::{PoolInner, PoolUse};
use crate::raw_event::RawEvent;
use crate::stream::Stream;

/// The last launch of a graph that uses a pool. It is marked at once: its stream may capture when
/// another one is to wait for it.
#[derive(Default)]
pub(super) struct LastTurn {
    /// None: there was none.
    on: Option<Stream>,
    /// Recorded behind the launch, unless the driver did not.
    mark: Option<RawEvent>,
    marked: bool,
}

/// A launch of a graph that uses pools. The launch is made while it lives, and no other that uses
/// one of them is made meanwhile.
pub(crate) struct Turns<'a> {
    taken: SmallVec<[MutexGuard<'a, LastTurn>; 1]>,
}

impl<'a> Turns<'a> {
    /// Has the stream wait for the last launch of each pool.
    pub(crate) fn begin(
        pools: impl Iterator<Item = &'a Arc<PoolUse>>,
        stream: &Stream,
    ) -> CudaResult<Turns<'a>> {
        let mut pools: SmallVec<[&PoolInner; 2]> = pools.map(|used| &**used.pool()).collect();
        // The launch that is being made may wait for a host function, which must not wait for it.
        if !pools.is_empty() && host_function::is_running() {
            return Err(in_a_host_function());
        }
        // Each once, and in one order for all launches, so that no two wait for each other.
        pools.sort_unstable_by_key(|pool| std::ptr::from_ref(*pool).addr());
        pools.dedup_by_key(|pool| std::ptr::from_ref(*pool).addr());
        let mut turns = Turns { taken: SmallVec::new() };
        for pool in pools {
            let mut last = pool.last_turn.lock().unwrap_or_else(PoisonError::into_inner);
            last.is_before(stream)?;
            turns.taken.push(last);
        }
        Ok(turns)
    }

    /// The launch was made, and its stream does not capture yet.
    pub(crate) fn launched(&mut self, stream: &Stream) {
        self.taken.iter_mut().for_each(|last| last.is_on(stream));
    }
}

impl LastTurn {
    /// Has the stream wait for it.
    fn is_before(&mut self, stream: &Stream) -> CudaResult<()> {
        let Some(on) = &self.on else { return Ok(()) };
        // A default stream is another one on another thread.
        if on.is_same(stream) && !stream.is_default() {
            return Ok(());
        }
        if !self.marked {
            if on.is_default() {
                return Err(unknown());
            }
            let mark = RawEvent::new(on.context())?;
            let recorded = on.outside_capture(|| mark.record(on))?;
            recorded.ok_or_else(stream_captures)?;
            (self.mark, self.marked) = (Some(mark), true);
        }
        let Some(mark) = &self.mark else { return Ok(()) };
        let waits = stream.outside_capture(|| mark.wait_on(stream))?;
        waits.ok_or_else(launch_into_capture)
    }

    /// Notes a launch that was just made.
    fn is_on(&mut self, stream: &Stream) {
        if self.on.as_ref() != Some(stream) {
            self.on = Some(stream.clone());
        }
        let context = stream.context();
        let known = self.mark.take().filter(|mark| mark.context().same(context));
        let mark = |known: Option<RawEvent>| {
            let mark = known.map_or_else(|| RawEvent::new(context), Ok)?;
            mark.record(stream).map(|()| mark)
        };
        // A second try: where it is not known, others may have to be refused.
        match mark(known).or_else(|_: CudaError| mark(None)) {
            Ok(mark) => (self.mark, self.marked) = (Some(mark), true),
            Err(error) => {
                report("cuEventRecord", Err(error));
                self.marked = false;
            }
        }
    }
}

#[cold]
fn in_a_host_function() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_NOT_PERMITTED,
        "exec",
        "a host function cannot launch it: CUDA allows no calls there",
    )
}

#[cold]
fn stream_captures() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "pool",
        "the driver did not mark the end of the last launch that uses it, and the stream of that \
         is capturing now: end the capture first",
    )
}

#[cold]
fn unknown() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "pool",
        "the driver did not mark the end of the last launch that uses it, on a default stream, so \
         nothing can wait for that: capture the graphs again with a new pool",
    )
}
