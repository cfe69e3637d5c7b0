//! [`Retained`]: what a graph keeps alive, to look at.

use std::any::{Any, type_name};
use std::fmt;
use std::panic::Location;
use std::sync::Mutex;

use crate::event::{EventInner, EventWait};
use crate::host_function::Call;
use crate::kernel::KernelInner;
use crate::memory::{BufferInner, LaunchMemory};
use crate::pinned::PinnedInner;
use crate::reclaim::Contained;
use crate::retain::Held;

/// What a graph can own.
pub(crate) trait Retain: Any + Send + Sync {
    /// What it is.
    fn kind(&self) -> RetainedKind;

    /// How much memory it has, in bytes.
    fn bytes(&self) -> usize {
        0
    }
}

impl Retain for BufferInner {
    fn kind(&self) -> RetainedKind {
        match self.graph_memory() {
            None => RetainedKind::DeviceMemory,
            Some(_) => RetainedKind::GraphMemory,
        }
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Retain for LaunchMemory {
    fn kind(&self) -> RetainedKind {
        RetainedKind::GraphMemory
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Retain for PinnedInner {
    fn kind(&self) -> RetainedKind {
        RetainedKind::PinnedMemory
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Retain for KernelInner {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Kernel(self.name().to_owned())
    }
}

impl Retain for EventInner {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Event
    }
}

impl Retain for EventWait {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Event
    }
}

impl Retain for Call {
    fn kind(&self) -> RetainedKind {
        RetainedKind::HostFunction
    }

    fn bytes(&self) -> usize {
        self.captured_bytes()
    }
}

/// A value of the user's. It is only dropped, so it needs no `Sync`: nobody reads it through the
/// owner.
pub(crate) struct Value<T>(Contained<Mutex<T>>);

impl<T> Value<T> {
    pub(crate) fn new(value: T) -> Value<T> {
        Value(Contained::new(Mutex::new(value)))
    }
}

impl<T: Send + 'static> Retain for Value<T> {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Value(type_name::<T>())
    }

    fn bytes(&self) -> usize {
        size_of::<T>()
    }
}

/// What [`Graph::retained`](crate::Graph::retained) lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetainedKind {
    /// An allocation of device memory.
    DeviceMemory,
    /// Device memory that the graph allocates when it runs.
    GraphMemory,
    /// What the graph uses of a [`GraphPool`](crate::GraphPool).
    PoolMemory,
    /// Page-locked host memory: a [`PinnedBuffer`](crate::PinnedBuffer)'s, or the graph's own copy
    /// of bytes that were in ordinary memory.
    PinnedMemory,
    /// A kernel of this name, with its module.
    Kernel(String),
    /// An event.
    Event,
    /// What a host function captured.
    HostFunction,
    /// What a node with slots is given anew when one of them is set.
    Slots,
    /// A value of this type that was given to `retain`.
    Value(&'static str),
}

impl fmt::Display for RetainedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetainedKind::DeviceMemory => f.write_str("device memory"),
            RetainedKind::GraphMemory => f.write_str("memory of the graph"),
            RetainedKind::PoolMemory => f.write_str("memory of a pool"),
            RetainedKind::PinnedMemory => f.write_str("pinned memory"),
            RetainedKind::Kernel(name) => write!(f, "kernel {name}"),
            RetainedKind::Event => f.write_str("event"),
            RetainedKind::HostFunction => f.write_str("host function"),
            RetainedKind::Slots => f.write_str("slots of a node"),
            RetainedKind::Value(name) => write!(f, "value of type {name}"),
        }
    }
}

/// One thing that a graph keeps alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    kind: RetainedKind,
    bytes: usize,
    origin: &'static Location<'static>,
}

impl Retained {
    pub(super) fn of(held: &Held) -> Retained {
        let (kind, bytes) = (held.owner.kind(), held.owner.bytes());
        Retained { kind, bytes, origin: held.origin }
    }

    /// What it is.
    pub fn kind(&self) -> &RetainedKind {
        &self.kind
    }

    /// How much memory it is, in bytes: the size of the allocation, or that of the value itself; 0
    /// for what only the driver knows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The line of the program that first recorded or added it.
    pub fn origin(&self) -> &'static Location<'static> {
        self.origin
    }
}

impl fmt::Display for Retained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Retained { kind, bytes, origin } = self;
        write!(f, "{kind}, {bytes} bytes, from {origin}")
    }
}
