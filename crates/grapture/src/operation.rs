//! What a capture remembers of each operation: enough to name it when something goes wrong.

use std::fmt;
use std::panic::Location;

/// The kind of an operation that was submitted to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// A kernel launch.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A host function.
    HostFunction,
    /// An event record, which marks a point in the graph.
    EventRecord,
    /// A wait for an event, which adds a dependency.
    EventWait,
    /// A node that records an event at every launch.
    EventRecordExternal,
    /// A node that waits for an event at every launch.
    EventWaitExternal,
    /// A stream-ordered allocation.
    Allocation,
    /// A stream-ordered release.
    Free,
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OperationKind::Kernel => "kernel launch",
            OperationKind::Copy => "copy",
            OperationKind::Fill => "fill",
            OperationKind::HostFunction => "host function",
            OperationKind::EventRecord => "event record",
            OperationKind::EventWait => "event wait",
            OperationKind::EventRecordExternal => "external event record",
            OperationKind::EventWaitExternal => "external event wait",
            OperationKind::Allocation => "allocation",
            OperationKind::Free => "free",
        })
    }
}

/// One operation, as the log of a capture has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: OperationKind,
    pub(crate) location: &'static Location<'static>,
}

impl Operation {
    /// An operation at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn new(kind: OperationKind) -> Operation {
        Operation { kind, location: Location::caller() }
    }
}
