//! [`LaunchMemory`]: what an allocation of a captured graph is from launch to launch.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUdeviceptr,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::host_function;
use crate::memory::ordered::Release;
use crate::raw_event::RawEvent;
use crate::reclaim::release_elsewhere;
use crate::stream::Stream;

/// The memory of an allocation node: one address, at which each launch allocates anew.
///
/// A graph frees it in the launch, or leaves it. What is left lives until it is freed by
/// other means, and no launch that would allocate it again is made before (measured: the driver
/// refuses it, unless the executable frees by itself).
pub(crate) struct LaunchMemory {
    context: Context,
    /// 0 until it is allocated.
    address: AtomicU64,
    bytes: usize,
    /// Whether a capture has recorded its allocation, and not its release.
    allocated: AtomicBool,
    /// Whether somebody can still ask for what a launch has left.
    claimable: AtomicBool,
    life: Mutex<Life>,
}

/// What the last launch has made of it.
pub(super) enum Life {
    /// It was never allocated.
    Never,
    /// A launch is being made.
    Launching,
    /// Allocated by a launch on this stream, and nobody's yet.
    Left(Stream),
    /// A buffer has it.
    Taken,
    /// Freed in the order of this stream.
    Freed(Stream),
}

impl LaunchMemory {
    pub(super) fn new(context: &Context, bytes: usize) -> LaunchMemory {
        LaunchMemory {
            context: context.clone(),
            address: AtomicU64::new(0),
            bytes,
            allocated: AtomicBool::new(false),
            claimable: AtomicBool::new(false),
            life: Mutex::new(Life::Never),
        }
    }

    /// The allocation is recorded.
    pub(super) fn allocated_at(&self, address: CUdeviceptr) {
        self.address.store(address, Ordering::Release);
        self.allocated.store(true, Ordering::Release);
    }

    /// The release is recorded.
    pub(super) fn freed_by_graph(&self) {
        self.allocated.store(false, Ordering::Release);
    }

    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether each launch leaves it.
    pub(crate) fn is_left(&self) -> bool {
        self.allocated.load(Ordering::Acquire)
    }

    /// Says whether somebody can ask for what a launch leaves. Nobody can from the start.
    pub(crate) fn set_claimable(&self, claimable: bool) {
        self.claimable.store(claimable, Ordering::Release);
    }

    /// Gives what the last launch has left, with the stream of that launch, in whose order it is.
    /// `prepare` is made with that stream before it is given away.
    pub(crate) fn take<R>(&self, prepare: impl FnOnce(&Stream) -> CudaResult<R>) -> CudaResult<R> {
        let mut life = self.lock();
        let Life::Left(stream) = &*life else { return Err(nothing_left(&life)) };
        let taken = prepare(stream)?;
        *life = Life::Taken;
        Ok(taken)
    }

    /// The buffer that had it is gone: it was freed in the order of the stream.
    pub(crate) fn given_back(&self, stream: &Stream) {
        *self.lock() = Life::Freed(stream.clone());
    }

    /// Has `stream` ready for a launch that allocates it.
    pub(super) fn before_launch(&self, stream: &Stream, frees_itself: bool) -> CudaResult<Life> {
        let mut life = self.lock();
        match &*life {
            Life::Never => {}
            Life::Freed(on) => order(stream, on)?,
            Life::Left(on) if frees_itself => order(stream, on)?,
            Life::Left(on) if !self.claimable.load(Ordering::Acquire) => {
                order(stream, on)?;
                self.free_on(stream)?;
                *life = Life::Freed(stream.clone());
            }
            Life::Left(_) | Life::Taken | Life::Launching => return Err(still_there(&life)),
        }
        Ok(mem::replace(&mut *life, Life::Launching))
    }

    /// The launch was made on the stream.
    pub(super) fn left_on(&self, stream: &Stream) {
        *self.lock() = Life::Left(stream.clone());
    }

    /// The launch was not made: it is what it was before.
    pub(super) fn put_back(&self, before: Life) {
        *self.lock() = before;
    }

    fn free_on(&self, stream: &Stream) -> CudaResult<()> {
        let free = || {
            // SAFETY: allocated by a launch that the stream comes after, and nobody has it.
            stream.with(|functions, raw| unsafe { (functions.cuMemFreeAsync)(self.address(), raw) })
        };
        let freed = stream.driver().relaxed(|_| stream.outside_capture(free))?;
        freed.ok_or_else(launch_stream_captures)
    }

    fn lock(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LaunchMemory {
    fn drop(&mut self) {
        let life = self.life.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Life::Left(stream) = mem::replace(life, Life::Never) else { return };
        if host_function::is_running() {
            let mut taken = LaunchMemory::new(&self.context, self.bytes);
            taken.address = AtomicU64::new(self.address());
            taken.life = Mutex::new(Life::Left(stream));
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        // Neither graph nor executable nor anybody else has it: the last launch on the stream is
        // the last use, and the release comes after it.
        Release::of_graph(stream, self.address()).make();
    }
}

/// Has `stream` wait for what `earlier` has now.
fn order(stream: &Stream, earlier: &Stream) -> CudaResult<()> {
    if stream.is_same(earlier) {
        return Ok(());
    }
    let mark = RawEvent::new(earlier.context())?;
    let recorded = earlier.outside_capture(|| mark.record(earlier))?;
    recorded.ok_or_else(launch_stream_captures)?;
    let waits = stream.outside_capture(|| mark.wait_on(stream))?;
    waits.ok_or_else(launch_stream_captures)
}

#[cold]
fn nothing_left(life: &Life) -> CudaError {
    let problem = match life {
        Life::Taken => "the last launch's is taken already: launch again once that is dropped",
        _ => "no launch has left it: launch the graph first",
    };
    CudaError::refused(CUDA_ERROR_ILLEGAL_STATE, "output", problem)
}

#[cold]
fn still_there(life: &Life) -> CudaError {
    let problem = match life {
        Life::Left(_) => {
            "what the last launch has left is not taken: take and drop it, drop its \
             `GraphOutput`, or instantiate with `AUTO_FREE_ON_LAUNCH`"
        }
        _ => "a buffer has what the last launch has left: drop it before the graph runs again",
    };
    // The driver's code for a launch over a living allocation (measured).
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "output", problem)
}

#[cold]
fn launch_stream_captures() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "output",
        "the stream of the launch before is capturing now, and nothing can wait for it: end that \
         capture first",
    )
}
