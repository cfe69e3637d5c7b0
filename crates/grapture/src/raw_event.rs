//! [`RawEvent`]: an event of the driver, as [`Event`](crate::Event) has one, and as the library marks
//! the end of launches and of uses of memory with.

use std::time::Duration;

use grapture_sys::{CU_EVENT_DISABLE_TIMING, CU_EVENT_WAIT_DEFAULT, CUevent};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::host_function;
use crate::reclaim::release_elsewhere;
use crate::stream::Stream;

/// An event of the driver. Whoever records it or has a stream wait for it looks to captures; a query
/// or a wait is made with the thread's mode relaxed, since it breaks the captures of the thread, and
/// global ones of others, otherwise (measured).
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
        context.enter_relaxed(|functions| {
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

    /// Records it on a stream of its context that does not capture meanwhile.
    pub(crate) fn record(&self, stream: &Stream) -> CudaResult<()> {
        // SAFETY: a live event and a live stream of one context.
        stream.with(|functions, raw| unsafe { (functions.cuEventRecord)(self.raw, raw) })
    }

    /// Has a stream of its context wait for it that does not capture meanwhile.
    pub(crate) fn wait_on(&self, stream: &Stream) -> CudaResult<()> {
        // SAFETY: a live event and a live stream.
        stream.with(|functions, raw| unsafe {
            (functions.cuStreamWaitEvent)(raw, self.raw, CU_EVENT_WAIT_DEFAULT.0)
        })
    }

    /// Whether the last record is reached. One that was never recorded is.
    pub(crate) fn is_complete(&self) -> CudaResult<bool> {
        // SAFETY: a live event.
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuEventQuery)(self.raw) });
        match self.context.check(code) {
            Ok(()) => Ok(true),
            Err(CudaError::NotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The time from the last record of `start`, which is of the same context, to that of this one.
    /// Both have timing and are reached.
    pub(crate) fn elapsed_since(&self, start: &RawEvent) -> CudaResult<Duration> {
        let mut milliseconds = 0.0f32;
        self.context.driver().relaxed(|functions| {
            // SAFETY: two live events of one context, and the out-pointer is a live local.
            check(unsafe { (functions.cuEventElapsedTime)(&mut milliseconds, start.raw, self.raw) })
        })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    /// Blocks until it is reached.
    pub(crate) fn synchronize(&self) -> CudaResult<()> {
        // SAFETY: a live event.
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuEventSynchronize)(self.raw) });
        self.context.check(code)
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        if host_function::is_running() {
            let taken = RawEvent { raw: self.raw, context: self.context.clone() };
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        // SAFETY: made here, and the last use. NVIDIA: an event that is not reached yet is
        // released when it is, and waits for it stand.
        let code = unsafe { (self.context.functions().cuEventDestroy_v2)(self.raw) };
        report("cuEventDestroy", check(code));
    }
}
