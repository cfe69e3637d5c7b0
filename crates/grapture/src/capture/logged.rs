//! Operations as a failed capture tells of them.

use std::fmt;
use std::panic::Location;

use grapture_sys::{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUresult};

use crate::capture::info::CaptureStatus;
use crate::operation::{Line, OperationKind, OperationSite};
use crate::stream::{Stream, WeakStream};

/// An operation that a capture logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOperation {
    pub(super) index: usize,
    pub(super) site: OperationSite,
    pub(super) stream: WeakStream,
    /// The line by which its stream joined the capture.
    pub(super) joined: Option<&'static Location<'static>>,
}

impl LoggedOperation {
    /// Its place among the capture's operations, counted from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What it does, and the line of the program that submitted it.
    pub fn site(&self) -> &OperationSite {
        &self.site
    }

    /// Its kind.
    pub fn kind(&self) -> OperationKind {
        self.site.kind()
    }

    /// The name of the kernel, for a kernel launch.
    pub fn name(&self) -> Option<&str> {
        self.site.name()
    }

    /// The line of the program that submitted it.
    pub fn location(&self) -> &'static Location<'static> {
        self.site.location()
    }

    /// The stream that it was submitted to, if that is still there.
    pub fn stream(&self) -> Option<Stream> {
        self.stream.upgrade()
    }
}

impl fmt::Display for LoggedOperation {
    /// The place, what it does and where: "op 41 (`axpy`, src/model.rs:88)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op {} (", self.index)?;
        self.site.write_what(f)?;
        write!(f, ", {}", Line(self.site.location()))?;
        if let Some(joined) = self.joined {
            write!(f, ", on the stream that joined at {}", Line(joined))?;
        }
        f.write_str(")")
    }
}

/// The first operation with which a capture was no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedOperation {
    pub(super) operation: LoggedOperation,
    pub(super) code: u32,
    pub(super) after: Option<CaptureStatus>,
}

impl FailedOperation {
    /// The operation.
    pub fn operation(&self) -> &LoggedOperation {
        &self.operation
    }

    /// What the driver answered.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The state of the capture before the call: [`Invalidated`](CaptureStatus::Invalidated) if it
    /// was broken since the operation before, by something that is not in the log.
    pub fn before(&self) -> CaptureStatus {
        match self.after {
            _ if CUresult(self.code) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => {
                CaptureStatus::Invalidated
            }
            Some(CaptureStatus::None) => CaptureStatus::None,
            _ => CaptureStatus::Active,
        }
    }

    /// The state after the call, as the driver tells it; none if it cannot.
    pub fn after(&self) -> Option<CaptureStatus> {
        self.after
    }

    /// Whether this call broke the capture, and not something before it.
    pub fn broke_it(&self) -> bool {
        self.before() == CaptureStatus::Active
    }
}

/// A stream that joined a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    pub(super) stream: Stream,
    pub(super) location: &'static Location<'static>,
    pub(super) unjoined: Option<LoggedOperation>,
}

impl Fork {
    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The line of the program by which it joined.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// Whether the stream that began the capture waits for all that was recorded on it.
    pub fn is_joined(&self) -> bool {
        self.unjoined.is_none()
    }

    /// The last operation that was recorded on it, if nothing joins it back.
    pub fn unjoined(&self) -> Option<&LoggedOperation> {
        self.unjoined.as_ref()
    }
}
