//! [`RawEvent`]: the driver's event, which [`Event`](crate::Event) wraps, and which marks the end of
//! launches and of uses of memory.

use grapture_sys::{CU_EVENT_DISABLE_TIMING, CU_EVENT_WAIT_DEFAULT, CUevent, CUresult, Functions};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::stream::Stream;

/// An event of the driver. Nothing here looks whether a stream captures: who records or waits does.
pub(crate) struct RawEvent {
    raw: CUevent,
    context: Context,
}

// SAFETY: a `CUevent` belongs to no thread, and it is only passed to driver calls, by value.
unsafe impl Send for RawEvent {}
// SAFETY: the driver's calls on an event lock it themselves.
unsafe impl Sync for RawEvent {}

impl RawEvent {
    /// An event without timing.
    pub(crate) fn new(context: &Context) -> CudaResult<RawEvent> {
        RawEvent::with_flags(context, CU_EVENT_DISABLE_TIMING.0)
    }

    pub(crate) fn with_flags(context: &Context, flags: u32) -> CudaResult<RawEvent> {
        let mut raw = std::ptr::null_mut();
        context.enter(|functions| {
            // SAFETY: the out-pointer is a live local.
            check(unsafe { (functions.cuEventCreate)(&mut raw, flags) })
        })?;
        Ok(RawEvent { raw, context: context.clone() })
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> CUevent {
        self.raw
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn record(&self, stream: &Stream) -> CudaResult<()> {
        // SAFETY: a live event and a live stream of one context.
        stream.with(|functions, raw| unsafe { (functions.cuEventRecord)(self.raw, raw) })
    }

    pub(crate) fn wait_on(&self, stream: &Stream) -> CudaResult<()> {
        // SAFETY: a live event and a live stream.
        stream.with(|functions, raw| unsafe {
            (functions.cuStreamWaitEvent)(raw, self.raw, CU_EVENT_WAIT_DEFAULT.0)
        })
    }

    /// Whether the last record is reached. One that was never recorded is.
    pub(crate) fn is_complete(&self) -> CudaResult<bool> {
        // SAFETY: a live event.
        let asked = self.relaxed(|functions| unsafe { (functions.cuEventQuery)(self.raw) });
        match asked {
            Ok(()) => Ok(true),
            Err(CudaError::NotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn synchronize(&self) -> CudaResult<()> {
        // SAFETY: a live event.
        self.relaxed(|functions| unsafe { (functions.cuEventSynchronize)(self.raw) })
    }

    /// A query or a wait for an event breaks the captures of this thread, and global ones of
    /// others, unless the thread's mode is relaxed (measured).
    pub(crate) fn relaxed(&self, call: impl FnOnce(&Functions) -> CUresult) -> CudaResult<()> {
        self.context.driver().relaxed(|functions| check(call(functions)))
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: made here, and the last use. NVIDIA: an event that is recorded and not reached
        // yet is released when it is, and waits for it stand.
        let code = unsafe { (self.context.functions().cuEventDestroy_v2)(self.raw) };
        report("cuEventDestroy", check(code));
    }
}
