//! [`SegmentError`]: which piece of split work failed.

use std::fmt;
use std::panic::Location;

use crate::error::CudaError;
use crate::operation::Line;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    Graph,
    Eager,
}

impl fmt::Display for SegmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SegmentKind::Graph => "the graph that begins",
            SegmentKind::Eager => "the eager work",
        })
    }
}

/// A segment that could not be recorded, made executable, launched or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentError {
    index: usize,
    kind: SegmentKind,
    location: &'static Location<'static>,
    error: CudaError,
}

impl SegmentError {
    /// Says which segment an error is of. That of a context that is lost stays as it is: it is of
    /// no segment more than of another.
    #[cold]
    pub(super) fn of(
        index: usize,
        kind: SegmentKind,
        location: &'static Location<'static>,
        error: CudaError,
    ) -> CudaError {
        match error {
            error @ (CudaError::ContextLost(_) | CudaError::Segment(_)) => error,
            error => CudaError::Segment(Box::new(SegmentError { index, kind, location, error })),
        }
    }

    /// The number of the segment, counted from 0 over graphs and eager work.
    pub fn segment(&self) -> usize {
        self.index
    }

    /// Whether it is eager work, not a graph.
    pub fn is_eager(&self) -> bool {
        self.kind == SegmentKind::Eager
    }

    /// The line of the program where it begins.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// What went wrong.
    pub fn error(&self) -> &CudaError {
        &self.error
    }

    /// The driver's number for it.
    pub fn code(&self) -> u32 {
        self.error.code()
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentError { index, kind, location, error } = self;
        write!(f, "segment {index} ({kind} at {}): {error}", Line(location))
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
