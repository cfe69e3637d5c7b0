//! [`CaptureError`]: why a capture failed, from its first cause.

use std::fmt;
use std::panic::Location;

use grapture_sys::{
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, CUresult,
};

use crate::error::write_code;
use crate::operation::{Operation, OperationKind};
use crate::stream::Stream;

/// A capture that could not be ended well. The stream is usable again, and nothing was leaked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError {
    pub(crate) code: u32,
    pub(crate) first_failure: Option<FailedOperation>,
    pub(crate) last_operation: Option<LoggedOperation>,
    pub(crate) forks: Vec<Fork>,
}

/// An operation that a capture logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOperation {
    index: usize,
    kind: OperationKind,
    location: &'static Location<'static>,
}

impl LoggedOperation {
    pub(crate) fn new(index: usize, operation: &Operation) -> LoggedOperation {
        LoggedOperation { index, kind: operation.kind, location: operation.location }
    }

    /// Its place among the capture's operations, counted from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its kind.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The line of the program that submitted it.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

impl fmt::Display for LoggedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} ({}, {})", self.index, self.kind, self.location)
    }
}

/// The first operation that the driver refused in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedOperation {
    pub(crate) operation: LoggedOperation,
    pub(crate) code: u32,
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
}

/// A stream that joined a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    stream: Stream,
    location: &'static Location<'static>,
}

impl Fork {
    pub(crate) fn new(stream: &Stream, operation: &Operation) -> Fork {
        Fork { stream: stream.clone(), location: operation.location }
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The line of the program by which it joined.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

impl CaptureError {
    /// The driver's code.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The first operation that the driver refused in the capture, if one was.
    pub fn first_failure(&self) -> Option<&FailedOperation> {
        self.first_failure.as_ref()
    }

    /// The last operation that was recorded well.
    pub fn last_operation(&self) -> Option<&LoggedOperation> {
        self.last_operation.as_ref()
    }

    /// The streams that had joined the capture.
    pub fn forks(&self) -> &[Fork] {
        &self.forks
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the capture failed: ")?;
        write_code(f, self.code)?;
        if let Some(last) = &self.last_operation {
            write!(f, "; valid after {last}")?;
        }
        if let Some(failure) = &self.first_failure {
            write!(f, "; broken by {}, which the driver answered with ", failure.operation)?;
            write_code(f, failure.code)?;
        } else if CUresult(self.code) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED {
            f.write_str(
                "; no operation that went through this library broke it: look for a call that is \
                 not permitted in a capture, on this stream by other hands or on another thread",
            )?;
        }
        if CUresult(self.code) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED {
            for fork in &self.forks {
                write!(
                    f,
                    "; a stream joined at {}: record an event on it and wait for that on the \
                     stream that began the capture",
                    fork.location
                )?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for CaptureError {}
