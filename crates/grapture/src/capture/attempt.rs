//! Work that is captured, or is run if that fails.

use crate::capture::mode::CaptureMode;
use crate::capture::{StreamGraphCapture, check_begin, check_free};
use crate::error::{CudaError, CudaResult};
use crate::graph::Graph;
use crate::stream::Stream;
use crate::tell::contained;

/// What [`Stream::capture_or_run`] did.
#[allow(clippy::large_enum_variant, reason = "one is made for a capture, and taken apart at once")]
#[derive(Debug)]
#[must_use = "captured work has not run yet"]
pub enum CaptureOutcome {
    /// The work is captured, and has not run.
    Captured(Graph),
    /// The work could not be captured, and was submitted once to run.
    Ran(CudaError),
}

impl CaptureOutcome {
    /// Whether the work is captured.
    pub fn is_captured(&self) -> bool {
        matches!(self, CaptureOutcome::Captured(_))
    }

    /// The graph, if the work is captured.
    pub fn graph(self) -> Option<Graph> {
        match self {
            CaptureOutcome::Captured(graph) => Some(graph),
            CaptureOutcome::Ran(_) => None,
        }
    }

    /// Why the work could not be captured, if it ran.
    pub fn error(&self) -> Option<&CudaError> {
        match self {
            CaptureOutcome::Captured(_) => None,
            CaptureOutcome::Ran(error) => Some(error),
        }
    }
}

/// What the closure of [`Stream::capture_or_run`] submits its work to.
#[derive(Clone, Copy, Debug)]
pub enum Attempt<'a> {
    /// A capture is open on the stream.
    Capture(&'a StreamGraphCapture<'a>),
    /// The work runs.
    Run(&'a Stream),
}

impl<'a> Attempt<'a> {
    /// The stream.
    pub fn stream(&self) -> &'a Stream {
        match self {
            Attempt::Capture(capture) => capture.stream(),
            Attempt::Run(stream) => stream,
        }
    }

    /// The open capture, if the work is being captured.
    pub fn capture(&self) -> Option<&'a StreamGraphCapture<'a>> {
        match self {
            Attempt::Capture(capture) => Some(capture),
            Attempt::Run(_) => None,
        }
    }
}

impl Stream {
    /// Captures what `work` submits to the stream; if that fails, what was recorded is thrown away,
    /// and `work` is called again to run. Blocks only if `work` does.
    ///
    /// So `work` is called once or twice, and what it does besides submitting work it may do twice.
    /// Captured work has not run: the graph is there to be launched.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// # let mut word = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let outcome = stream.capture_or_run(CaptureMode::ThreadLocal, |attempt| {
    ///     word.fill(7, attempt.stream())?;
    ///     attempt.stream().synchronize() // not possible in a capture
    /// })?;
    /// match outcome {
    ///     CaptureOutcome::Captured(graph) => graph.instantiate()?.launch(&stream)?,
    ///     CaptureOutcome::Ran(error) => assert_eq!(error.code(), 900),
    /// }
    /// assert_eq!(word.to_vec(&stream)?, [7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `work` gives when it runs. [`Refused`](CudaError::Refused) if the stream captures
    /// already, so that the work cannot run, and nothing is called.
    /// [`ContextLost`](CudaError::ContextLost) of the capture, since nothing can run then.
    #[track_caller]
    pub fn capture_or_run<F>(&self, mode: CaptureMode, mut work: F) -> CudaResult<CaptureOutcome>
    where
        F: FnMut(Attempt<'_>) -> CudaResult<()>,
    {
        check_free(self)?;
        let captured = check_begin(self)
            .and_then(|()| self.capture(mode, |capture| work(Attempt::Capture(capture))));
        match captured {
            Ok(graph) => Ok(CaptureOutcome::Captured(graph)),
            Err(error @ CudaError::ContextLost(_)) => Err(error),
            Err(error) => {
                contained(|| tracing::debug!(%error, "the work could not be captured and runs"));
                work(Attempt::Run(self))?;
                Ok(CaptureOutcome::Ran(error))
            }
        }
    }
}
