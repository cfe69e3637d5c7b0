//! Memory that is allocated and released in the order of a stream.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grapture_sys::{
    CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUdeviceptr, Function,
};

use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};
use crate::memory::launch_memory::LaunchMemory;
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
    /// The graph whose launch has left it.
    graph: Option<Arc<LaunchMemory>>,
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
        let made =
            home.driver().with_room(|| home.driver().relaxed(|_| home.outside_capture(&mut alloc)));
        report("cuMemFreeAsync", freed);
        made?.ok_or_else(captured_allocation)?;
        let ordered = Ordered {
            home: home.clone(),
            allocated,
            ready: AtomicBool::new(false),
            others: Mutex::default(),
            graph: None,
        };
        Ok((address, ordered))
    }

    /// Takes what the last launch of a graph has left, in the order of the stream of that launch.
    pub(crate) fn take_from_graph(memory: &Arc<LaunchMemory>) -> CudaResult<Ordered> {
        memory.take(|home| {
            let allocated = RawEvent::new(home.context())?;
            let recorded = home.outside_capture(|| allocated.record(home))?;
            recorded.ok_or_else(captured_launch)?;
            Ok(Ordered {
                home: home.clone(),
                allocated,
                ready: AtomicBool::new(false),
                others: Mutex::default(),
                graph: Some(memory.clone()),
            })
        })
    }

    #[inline]
    pub(crate) fn note_use(&self, stream: &Stream) -> CudaResult<()> {
        let home = stream == &self.home;
        if home && !stream.is_capturing() { Ok(()) } else { self.note_elsewhere(stream, home) }
    }

    #[cold]
    fn note_elsewhere(&self, stream: &Stream, home: bool) -> CudaResult<()> {
        if stream.is_default() {
            return Err(on_a_default_stream());
        }
        if home || stream.is_capturing() {
            // The graph may run on any stream, and its nodes cannot wait for an event of outside.
            self.wait_until_ready()?;
        }
        if home {
            return Ok(());
        }
        // Also in a capture: another thread may end it before the operation is submitted.
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.iter().any(|other| other.is_same(stream)) {
            return Ok(());
        }
        if !self.ready.load(Ordering::Acquire) {
            let ordered = stream.outside_capture(|| self.allocated.wait_on(stream))?;
            if ordered.is_none() {
                self.wait_until_ready()?;
            }
        }
        others.push(stream.clone());
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
        Release { home: self.home.clone(), others, address, graph: self.graph.take() }.make();
    }
}

/// A release that is to be made.
pub(super) struct Release {
    home: Stream,
    others: Vec<Stream>,
    address: CUdeviceptr,
    /// Who is to know of it.
    graph: Option<Arc<LaunchMemory>>,
}

impl Release {
    /// That of what a launch on the stream has left.
    pub(super) fn of_graph(home: Stream, address: CUdeviceptr) -> Release {
        Release { home, others: Vec::new(), address, graph: None }
    }

    /// Makes it, now or when no stream of it captures any more.
    pub(super) fn make(self) {
        let reclaimer = self.home.driver().clone();
        if let Some(later) = self.now() {
            reclaimer.reclaimer().handle().defer(Box::new(ReleaseLater(Some(later))));
        }
    }

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
            Ok(Some(())) => {
                if let Some(graph) = &self.graph {
                    graph.given_back(&self.home);
                }
                None
            }
            Ok(None) => Some(self),
            Err(error) => {
                report("cuMemFreeAsync", Err(error));
                None
            }
        }
    }

    /// Has the home stream wait for what was submitted to `other`. False: one of them captures.
    fn after(&self, other: &Stream) -> CudaResult<bool> {
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

/// Which stream that is depends on the thread, and nothing else could wait for all that it may be:
/// a wait for the context would break captures.
#[cold]
fn on_a_default_stream() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_NOT_SUPPORTED,
        "memory",
        "it was allocated in the order of a stream, and its release could not be ordered behind a \
         use on a default stream: use it on a stream of your own, or allocate it with \
         `DeviceBuffer::alloc`",
    )
}

#[cold]
fn captured_allocation() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and a buffer is not part of a graph: allocate with \
         `StreamGraphCapture::alloc_temporary` what lives within the graph, or with \
         `DeviceBuffer::alloc`, which may be called while a capture is open",
    )
}

#[cold]
fn captured_launch() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "output",
        "the stream of the launch is capturing now, and the result is in its order: take it before \
         the capture begins, or after it has ended",
    )
}
