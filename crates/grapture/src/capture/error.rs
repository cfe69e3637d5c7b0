//! [`CaptureError`]: why a capture failed, from its first cause.

use std::panic::Location;

use crate::capture::barred::BarredCall;
use crate::capture::escape::Escapes;
use crate::capture::logged::{FailedOperation, Fork, LoggedOperation};

/// A capture that failed: of the operation with which it became invalid, of each one after it, and
/// of the end. After the end, the stream is usable again and nothing was leaked.
///
/// Its text says after which operation the capture was valid, what broke it, and what to do:
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let (main, side) = (Stream::new(&context)?, Stream::new(&context)?);
/// # let mut word = DeviceBuffer::<u32>::zeroed(&context, 1)?;
/// # let event = Event::new(&context)?;
/// let error = main
///     .capture(CaptureMode::ThreadLocal, |_| {
///         event.record(&main)?;
///         event.wait(&side)?; // a fork, which nothing joins back
///         word.fill(1, &side)
///     })
///     .unwrap_err();
/// let CudaError::Capture(error) = error else { panic!() };
/// assert_eq!(error.code(), 904);
/// assert!(error.to_string().contains("was not joined back"));
/// let fork = error.forks().iter().find(|fork| !fork.is_joined()).unwrap();
/// assert_eq!(fork.stream(), &side);
/// assert_eq!(fork.unjoined().unwrap().kind(), OperationKind::Fill);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError {
    pub(super) code: u32,
    pub(super) recorded: usize,
    pub(super) last_operation: Option<LoggedOperation>,
    pub(super) first_failure: Option<FailedOperation>,
    pub(super) barred: Option<BarredCall>,
    pub(super) forks: Vec<Fork>,
    pub(super) escapes: Escapes,
    /// Where the capture was ended, if the end is what failed.
    pub(super) end: Option<&'static Location<'static>>,
    /// The driver gave a graph, and the escapes are why it is not handed out.
    pub(super) refused: bool,
}

impl CaptureError {
    /// The driver's code; that of [`StreamCaptureIsolation`](crate::CudaError::StreamCaptureIsolation)
    /// if work escaped from the capture and its options make that an error.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// How many operations were recorded.
    pub fn recorded(&self) -> usize {
        self.recorded
    }

    /// The first operation with which the capture was no longer valid. An operation that failed and
    /// left it valid is none, nor is one that the library refused.
    pub fn first_failure(&self) -> Option<&FailedOperation> {
        self.first_failure.as_ref()
    }

    /// The last operation that was recorded while the capture was valid. None also on a thread that
    /// did not begin the capture, if the thread that did recorded the last.
    pub fn last_operation(&self) -> Option<&LoggedOperation> {
        self.last_operation.as_ref()
    }

    /// A call of this library that is no operation and that the driver refused for the sake of a
    /// capture, while this one was open: the likely cause, if no operation is.
    pub fn barred_call(&self) -> Option<&BarredCall> {
        self.barred.as_ref()
    }

    /// The streams that had joined the capture. Told on the thread that began it.
    pub fn forks(&self) -> &[Fork] {
        &self.forks
    }

    /// What the thread submitted to other streams meanwhile.
    pub fn escapes(&self) -> &Escapes {
        &self.escapes
    }
}

impl std::error::Error for CaptureError {}
