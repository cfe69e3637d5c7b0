//! Memory that is allocated and released in the order of a stream.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use grapture_sys::{
    CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUdeviceptr, Function,
};

use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};
use crate::raw_event::RawEvent;
use crate::reclaim::Deferred;
use crate::stream::Stream;

/// How an allocation lies in the order of streams.
///
/// The driver hands the memory out again as soon as the home stream passes the release, and the
/// release waits for no other stream (measured: unlike `cuMemFree`). So a use on another stream
/// first waits for the allocation, and the release first waits for that stream.
pub(crate) struct Ordered {
    home: Stream,
    /// Reached when the home stream passes the allocation.
    allocated: RawEvent,
    /// Whether it was seen reached.
    ready: AtomicBool,
    others: Mutex<Vec<Stream>>,
}

impl Ordered {
    pub(crate) fn alloc(home: &Stream, bytes: usize) -> CudaResult<(CUdeviceptr, Ordered)> {
        if home.is_default() {
            return Err(CudaError::refused(
                CUDA_ERROR_NOT_SUPPORTED,
                "stream",
                "it is a default stream, on which the memory could not be released at any moment: \
                 allocate on a stream of your own",
            ));
        }
        if !home.driver().has(Function::cuMemAllocAsync) {
            return Err(CudaError::NotSupported);
        }
        let allocated = RawEvent::new(home.context())?;
        let (mut address, mut freed) = (0, Ok(()));
        let mut alloc = || {
            // SAFETY: a live stream, and the out-pointer is a live local.
            home.with(|functions, raw| unsafe {
                (functions.cuMemAllocAsync)(&mut address, bytes, raw)
            })?;
            allocated.record(home).inspect_err(|_| {
                // SAFETY: just allocated on this stream, and nothing uses it.
                freed =
                    home.with(|functions, raw| unsafe { (functions.cuMemFreeAsync)(address, raw) });
            })
        };
        // A capture of another stream bars the call (measured), so the thread's mode is relaxed
        // around it (O9).
        let made = home.driver().relaxed(|_| home.outside_capture(&mut alloc));
        report("cuMemFreeAsync", freed);
        made?.ok_or_else(captured_allocation)?;
        let ordered = Ordered {
            home: home.clone(),
            allocated,
            ready: AtomicBool::new(false),
            others: Mutex::default(),
        };
        Ok((address, ordered))
    }

    #[inline]
    pub(crate) fn note_use(&self, stream: &Stream) -> CudaResult<()> {
        let home = stream == &self.home;
        if home && !stream.is_capturing() { Ok(()) } else { self.note_elsewhere(stream, home) }
    }

    #[cold]
    fn note_elsewhere(&self, stream: &Stream, home: bool) -> CudaResult<()> {
        let capturing = stream.is_capturing();
        if home || capturing {
            // The graph may run on any stream, and its nodes cannot wait for an event of outside.
            self.wait_until_ready()?;
        }
        if home {
            return Ok(());
        }
        // Also in a capture: another thread may end it before the operation is submitted.
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let known = others.iter().any(|other| other.is_same(stream));
        // A stream has to wait once, but a default stream is another one on each thread.
        let waits = !known || stream.is_per_thread();
        if waits && !self.ready.load(Ordering::Acquire) {
            let ordered = stream.outside_capture(|| self.allocated.wait_on(stream))?;
            if ordered.is_none() {
                self.wait_until_ready()?;
            }
        }
        if !known {
            others.push(stream.clone());
        }
        Ok(())
    }

    /// Blocks until the home stream has passed the allocation.
    pub(crate) fn wait_until_ready(&self) -> CudaResult<()> {
        if !self.ready.load(Ordering::Acquire) {
            self.allocated.synchronize()?;
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Releases the memory in the order of the home stream, after the work on the other streams
    /// that use it. While one of them captures, that has to wait: nothing may be submitted there.
    pub(crate) fn release(&mut self, address: CUdeviceptr) {
        let others = mem::take(self.others.get_mut().unwrap_or_else(PoisonError::into_inner));
        let release = Release { home: self.home.clone(), others, address };
        if let Some(later) = release.now() {
            let reclaimer = self.home.driver().reclaimer().handle();
            reclaimer.defer(Box::new(ReleaseLater(Some(later))));
        }
    }
}

/// A release that is to be made.
struct Release {
    home: Stream,
    others: Vec<Stream>,
    address: CUdeviceptr,
}

impl Release {
    /// Makes it; gives back what is left of it if a stream captures.
    fn now(mut self) -> Option<Release> {
        while let Some(other) = self.others.last() {
            match self.after(other) {
                Ok(true) => self.others.pop(),
                Ok(false) => return Some(self),
                // Without an order the release would be early: the memory is leaked instead.
                Err(error) => {
                    report("cuMemFreeAsync", Err(error));
                    return None;
                }
            };
        }
        let free = || {
            // SAFETY: allocated by `cuMemAllocAsync`, and this is the last handle: no buffer has
            // it, and no graph that can run (O2). Work on the home stream comes before, and that
            // on other streams was just waited for there.
            self.home
                .with(|functions, raw| unsafe { (functions.cuMemFreeAsync)(self.address, raw) })
        };
        let freed = self.home.driver().relaxed(|_| self.home.outside_capture(free));
        match freed {
            Ok(Some(())) => None,
            Ok(None) => Some(self),
            Err(error) => {
                report("cuMemFreeAsync", Err(error));
                None
            }
        }
    }

    /// Has the home stream wait for what was submitted to `other`. False: one of them captures.
    fn after(&self, other: &Stream) -> CudaResult<bool> {
        if other.is_default() {
            // Of a per-thread stream it is not known which thread's it was, and the legacy one
            // must not be touched while a blocking stream captures: the whole context is waited
            // for, which is refused while any of its streams captures.
            let context = other.context();
            return match context.driver().relaxed(|_| context.finish()) {
                Ok(()) => Ok(true),
                Err(CudaError::Refused(_)) => Ok(false),
                Err(error) => Err(error),
            };
        }
        let done = RawEvent::new(self.home.context())?;
        if other.outside_capture(|| done.record(other))?.is_none() {
            return Ok(false);
        }
        Ok(self.home.outside_capture(|| done.wait_on(&self.home))?.is_some())
    }
}

/// A release that waits until no stream of it captures.
struct ReleaseLater(Option<Release>);

impl Deferred for ReleaseLater {
    fn is_due(&mut self) -> bool {
        self.0 = self.0.take().and_then(Release::now);
        self.0.is_none()
    }
}

#[cold]
fn captured_allocation() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and this library does not record allocations: allocate with \
         `DeviceBuffer::alloc`, which may be called while a capture is open",
    )
}
