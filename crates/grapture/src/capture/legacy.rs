//! [`LegacyBarrier`]: keeps work off the legacy default stream while a blocking stream of the
//! context captures, since the driver would answer it with 906 and invalidate the capture.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use grapture_sys::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;

use crate::error::{CudaError, CudaResult};

/// What the legacy stream of one of the driver's contexts may do. Other streams never come here.
#[derive(Default)]
pub(crate) struct LegacyBarrier {
    /// Held shared over a call on the legacy stream, and exclusively over one by which a blocking
    /// stream begins to capture.
    calls: RwLock<()>,
    /// How many blocking streams capture.
    captures: AtomicUsize,
}

impl LegacyBarrier {
    /// Makes the call by which a blocking stream begins to capture. No call is being made on the
    /// legacy stream meanwhile.
    pub(crate) fn begin<R>(&self, begin: impl FnOnce() -> CudaResult<R>) -> CudaResult<R> {
        let _none = self.calls.write().unwrap_or_else(PoisonError::into_inner);
        self.captures.fetch_add(1, Ordering::SeqCst);
        begin().inspect_err(|_| self.end())
    }

    /// A blocking stream captures no more.
    pub(crate) fn end(&self) {
        self.captures.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes a call on the legacy stream, unless a blocking stream captures.
    pub(crate) fn submit<R>(&self, call: impl FnOnce() -> CudaResult<R>) -> CudaResult<R> {
        let _call = self.calls.read().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        call()
    }

    /// Refuses a call on the legacy stream while a blocking stream captures. Enough for a call that
    /// waits: no capture should have to wait for that.
    pub(crate) fn check(&self) -> CudaResult<()> {
        if self.captures.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        Err(CudaError::refused(
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            "stream",
            "it is the legacy default stream, and a blocking stream of its context is capturing, \
             which work here would invalidate: capture a stream made with `Stream::new`, or use \
             another stream than the legacy one meanwhile",
        ))
    }
}
