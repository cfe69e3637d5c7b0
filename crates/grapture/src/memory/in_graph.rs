//! Memory that a graph allocates itself, each time it runs.

use std::mem;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use grapture_sys::{
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUdeviceptr, CUresult, CUstream, Function, Functions,
};

use crate::capture::{CaptureLog, has_ended};
use crate::device::DeviceAttribute;
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::memory::launch_memory::LaunchMemory;
use crate::operation::{Operation, OperationKind};
use crate::retain::Owners;
use crate::stream::Stream;

/// An allocation that an open capture has recorded, and how it lies in the order of the capture's
/// streams. Who has it borrows the capture, which cannot end before.
pub(crate) struct InGraph {
    log: CaptureLog,
    /// The stream that began the capture. It allocates and frees.
    home: Stream,
    /// Marks the allocation, and the last uses on other streams when it is freed.
    mark: Event,
    /// The other streams of the capture that use it. Each has waited for the allocation.
    others: Mutex<Vec<Stream>>,
    memory: Arc<LaunchMemory>,
    location: &'static Location<'static>,
}

impl InGraph {
    #[track_caller]
    pub(crate) fn alloc(
        log: &CaptureLog,
        home: &Stream,
        bytes: usize,
    ) -> CudaResult<(CUdeviceptr, InGraph)> {
        let location = Location::caller();
        let (context, driver) = (home.context(), home.driver());
        let pools = || context.device().attribute(DeviceAttribute::MEMORY_POOLS_SUPPORTED);
        // Before 11.4 a capture records no allocation.
        if !driver.has(Function::cuGraphAddMemAllocNode) || pools()? == 0 {
            return Err(CudaError::NotSupported);
        }
        let mark = Event::new(context)?;
        let memory = Arc::new(LaunchMemory::new(context, bytes));
        log.record(
            home,
            Operation::new(OperationKind::Allocation),
            |owners| owners.retain_allocation(&memory),
            || {
                let mut address = 0;
                // SAFETY: a live stream, and the out-pointer is a live local.
                home.with(|functions, raw| unsafe {
                    (functions.cuMemAllocAsync)(&mut address, bytes, raw)
                })?;
                memory.allocated_at(address);
                Ok(())
            },
        )
        .ok_or_else(has_ended)??;
        let address = memory.address();
        let (log, home) = (log.clone(), home.clone());
        let made = InGraph { log, home, mark, others: Mutex::default(), memory, location };
        if let Err(error) = made.record_mark(&made.home) {
            let _ = made.free();
            return Err(error);
        }
        Ok((address, made))
    }

    pub(crate) fn memory(&self) -> &Arc<LaunchMemory> {
        &self.memory
    }

    /// Prepares for an operation on the stream: it must be one of the capture, and come after the
    /// allocation.
    #[cold]
    pub(crate) fn note_use(&self, stream: &Stream) -> CudaResult<()> {
        let log = stream.capture_log().filter(|log| log.key() == self.log.key());
        if log.is_none() || stream.is_per_thread() && stream != &self.home {
            return Err(not_in_capture());
        }
        if stream.is_same(&self.home) {
            return Ok(());
        }
        // Over the call, so that nobody else on the stream takes it as waited for before it is.
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if !others.iter().any(|other| other.is_same(stream)) {
            self.wait_for_mark(stream)?;
            others.push(stream.clone());
        }
        Ok(())
    }

    /// Records the release behind all uses. Where that fails, the graph does not free the memory:
    /// it is released like one that outlives the launch.
    pub(crate) fn free(&self) -> CudaResult<()> {
        let others = mem::take(&mut *self.others.lock().unwrap_or_else(PoisonError::into_inner));
        for other in &others {
            self.record_mark(other)?;
            self.wait_for_mark(&self.home)?;
        }
        let address = self.memory.address();
        self.captured(Operation::new(OperationKind::Free), &self.home, |functions, raw| {
            // SAFETY: allocated by this capture, and freed once: by the last handle. All uses come
            // before, those on other streams by the marks that were just waited for.
            unsafe { (functions.cuMemFreeAsync)(address, raw) }
        })?;
        self.memory.freed_by_graph();
        Ok(())
    }

    fn record_mark(&self, stream: &Stream) -> CudaResult<()> {
        let mark = self.mark.as_raw();
        self.captured(Operation::record(self.mark.inner()), stream, |functions, raw| {
            // SAFETY: a live event, and a live stream of the capture.
            unsafe { (functions.cuEventRecord)(mark, raw) }
        })
    }

    fn wait_for_mark(&self, stream: &Stream) -> CudaResult<()> {
        let mark = self.mark.as_raw();
        self.captured(Operation::wait(self.mark.inner()), stream, |functions, raw| {
            // SAFETY: a live event that was recorded in this capture, and a live stream of it.
            unsafe { (functions.cuStreamWaitEvent)(raw, mark, 0) }
        })
    }

    /// Makes a call on a stream of the capture, which stays one: the capture cannot end now. The
    /// log tells events apart by their addresses, so the mark lives as long as that.
    fn captured(
        &self,
        mut operation: Operation,
        stream: &Stream,
        call: impl FnOnce(&Functions, CUstream) -> CUresult,
    ) -> CudaResult<()> {
        operation.location = self.location;
        let retain = |owners: &mut Owners| owners.retain(self.mark.inner());
        self.log.record(stream, operation, retain, || stream.with(call)).ok_or_else(has_ended)?
    }
}

#[cold]
pub(crate) fn not_in_capture() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        "memory",
        "it exists only within the graph that is being captured: use it on the streams of that \
         capture, forked ones included, but for the default streams of threads",
    )
}
