//! How a capture is made.

use crate::capture::escape::EscapePolicy;
use crate::capture::fork::JoinPolicy;
use crate::capture::mode::CaptureMode;

/// How a capture is made: for [`Stream::capture_with`](crate::Stream::capture_with) and
/// [`StreamGraphCapture::begin_with`](crate::StreamGraphCapture::begin_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    mode: CaptureMode,
    escapes: EscapePolicy,
    joins: JoinPolicy,
}

impl From<CaptureMode> for CaptureOptions {
    fn from(mode: CaptureMode) -> CaptureOptions {
        CaptureOptions::new(mode)
    }
}

impl CaptureOptions {
    /// A capture in a mode, which warns of work that escapes from it, and whose forks must be
    /// joined.
    pub fn new(mode: CaptureMode) -> CaptureOptions {
        let (escapes, joins) = (EscapePolicy::default(), JoinPolicy::default());
        CaptureOptions { mode, escapes, joins }
    }

    /// What becomes of work that the capturing thread submits to a stream outside of the capture
    /// meanwhile: it runs at once, and the graph does not have it.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let (stream, other) = (Stream::new(&context)?, Stream::new(&context)?);
    /// # let mut word = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let strict = CaptureOptions::new(CaptureMode::ThreadLocal).escapes(EscapePolicy::Error);
    /// let error = stream.capture_with(strict, |_| word.fill(1, &other)).unwrap_err();
    /// assert!(error.to_string().contains("missing from the graph: fill of 4 bytes"));
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn escapes(mut self, policy: EscapePolicy) -> CaptureOptions {
        self.escapes = policy;
        self
    }

    /// What becomes of streams that joined the capture and were not joined back.
    pub fn join_policy(mut self, policy: JoinPolicy) -> CaptureOptions {
        self.joins = policy;
        self
    }

    pub(crate) fn joins(self) -> JoinPolicy {
        self.joins
    }

    pub(crate) fn mode(self) -> CaptureMode {
        self.mode
    }

    pub(crate) fn policy(self) -> EscapePolicy {
        self.escapes
    }
}
