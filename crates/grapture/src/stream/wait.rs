//! Waiting for a stream, and asking whether it is idle.

use std::panic::Location;

use grapture_sys::{CUDA_ERROR_NOT_READY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};

use crate::error::{CudaError, CudaResult, check};
use crate::operation::Line;
use crate::stream::Stream;

impl Stream {
    /// Blocks until all work submitted so far is done. A capture of the stream that another thread
    /// begins meanwhile begins after it.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] while the stream captures: there is nothing to wait for, and the
    /// driver would invalidate the capture; for the legacy stream also while a blocking stream of
    /// the context does. An error of earlier work.
    #[doc(alias = "cuStreamSynchronize")]
    #[track_caller]
    pub fn synchronize(&self) -> CudaResult<()> {
        let location = Location::caller();
        match self.completed(self.finish(), "Stream::synchronize", location)? {
            Some(()) => Ok(()),
            None => Err(self.is_captured(
                "Stream::synchronize",
                location,
                "a capturing stream cannot be waited on",
                "wait after the capture has ended",
            )),
        }
    }

    /// Whether all work submitted so far is done. Does not block.
    ///
    /// # Errors
    ///
    /// As [`synchronize`](Stream::synchronize).
    #[doc(alias = "cuStreamQuery")]
    #[track_caller]
    pub fn is_idle(&self) -> CudaResult<bool> {
        let location = Location::caller();
        self.ask_idle()?.ok_or_else(|| {
            self.is_captured(
                "Stream::is_idle",
                location,
                "a capturing stream cannot be asked whether it is idle",
                "ask after the capture has ended",
            )
        })
    }

    /// [`is_idle`](Stream::is_idle), with its failure taken down. None: the stream captures.
    #[track_caller]
    pub(crate) fn ask_idle(&self) -> CudaResult<Option<bool>> {
        self.completed(self.poll(), "Stream::is_idle", Location::caller())
    }

    /// Blocks until all work submitted so far is done. None: the stream captures.
    pub(crate) fn finish(&self) -> CudaResult<Option<()>> {
        // A capture of another stream bars the call, and has nothing to do with it (O9).
        self.outside_capture(|| self.driver().relaxed(|_| self.wait()))
    }

    /// Whether all work submitted so far is done. None: the stream captures.
    pub(crate) fn poll(&self) -> CudaResult<Option<bool>> {
        self.outside_capture(|| {
            let asked = self.driver().relaxed(|_| {
                // SAFETY: a live stream.
                self.with(|functions, raw| unsafe { (functions.cuStreamQuery)(raw) })
            });
            match asked {
                Ok(()) => Ok(true),
                Err(error) if error.code() == CUDA_ERROR_NOT_READY.0 => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Blocks until all work submitted so far is done. No capture of the stream is open.
    pub(crate) fn wait(&self) -> CudaResult<()> {
        if self.is_legacy() {
            // The barrier is not held over the wait: no capture should have to wait for that.
            self.context().legacy().check()?;
            return self.context().enter(|functions| {
                // SAFETY: a live stream, and its context is current.
                check(unsafe { (functions.cuStreamSynchronize)(self.inner.raw) })
            });
        }
        // SAFETY: a live stream.
        self.with(|functions, raw| unsafe { (functions.cuStreamSynchronize)(raw) })
    }

    /// The result of a wait or a query, with its failure taken down.
    fn completed<R>(
        &self,
        result: CudaResult<R>,
        function: &'static str,
        location: &'static Location<'static>,
    ) -> CudaResult<R> {
        result.map_err(|error| self.context().failed(error, function, location))
    }

    /// Refuses a call that the driver would answer by invalidating the stream's capture.
    #[cold]
    fn is_captured(
        &self,
        function: &'static str,
        location: &'static Location<'static>,
        rule: &'static str,
        or: &'static str,
    ) -> CudaError {
        let last = self.capture_log().and_then(|log| log.last());
        let after = last.map_or_else(String::new, |last| format!("after {last}, "));
        CudaError::refused(
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            "stream",
            format!(
                "it is capturing; {after}`{function}` ({}) was refused, and the capture is still \
                 valid: {rule}; record an event instead, or {or}",
                Line(location)
            ),
        )
    }
}
