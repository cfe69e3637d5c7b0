//! Capture modes, and the guard for the calling thread's mode.

use std::fmt;
use std::marker::PhantomData;

use grapture_sys::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUstreamCaptureMode,
};

use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::CudaResult;

/// Which calls a capture forbids while it is open: those whose effect no stream shows, such as
/// allocating, freeing and waiting for other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// Every thread of the process whose own mode is global is barred from them.
    Global,
    /// Only the thread that captures is barred from them.
    ThreadLocal,
    /// No thread is barred, and any thread may end the capture.
    Relaxed,
}

impl CaptureMode {
    /// The driver's value.
    pub fn as_raw(self) -> CUstreamCaptureMode {
        match self {
            CaptureMode::Global => CU_STREAM_CAPTURE_MODE_GLOBAL,
            CaptureMode::ThreadLocal => CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            CaptureMode::Relaxed => CU_STREAM_CAPTURE_MODE_RELAXED,
        }
    }

    /// The mode with this value, if it is one.
    pub fn from_raw(raw: CUstreamCaptureMode) -> Option<CaptureMode> {
        [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed]
            .into_iter()
            .find(|mode| mode.as_raw() == raw)
    }
}

/// Holds the calling thread in a capture mode; on drop the mode from before is back, exactly.
///
/// A thread in [`CaptureMode::ThreadLocal`] or [`CaptureMode::Relaxed`] may allocate, free or wait
/// while another thread's global capture is open, without breaking it.
#[must_use = "the mode is put back when the guard is dropped"]
pub struct ThreadCaptureMode {
    driver: Driver,
    previous: CUstreamCaptureMode,
    // The mode belongs to the thread, so the guard must not leave it.
    _not_send: PhantomData<*const ()>,
}

impl ThreadCaptureMode {
    /// Sets the calling thread's mode. A new thread's mode is global.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](crate::CudaError::NotSupported): the driver is older than 10.1.
    #[doc(alias = "cuThreadExchangeStreamCaptureMode")]
    pub fn set(driver: &Driver, mode: CaptureMode) -> CudaResult<ThreadCaptureMode> {
        let previous = driver.exchange_capture_mode(mode.as_raw())?;
        Ok(ThreadCaptureMode { driver: driver.clone(), previous, _not_send: PhantomData })
    }

    /// The mode from before, which the drop restores; none if the driver gave a value that is no
    /// mode (the driver stores any number).
    pub fn previous(&self) -> Option<CaptureMode> {
        CaptureMode::from_raw(self.previous)
    }
}

impl Drop for ThreadCaptureMode {
    fn drop(&mut self) {
        let restored = self.driver.exchange_capture_mode(self.previous).map(|_| ());
        report("cuThreadExchangeStreamCaptureMode", restored);
    }
}

impl fmt::Debug for ThreadCaptureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadCaptureMode").field("previous", &self.previous()).finish()
    }
}
