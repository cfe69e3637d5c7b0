//! What a capture remembers of each operation: enough to name it when something goes wrong.

use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use crate::event::EventInner;
use crate::kernel::KernelInner;
use crate::topology::CopyDirection;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kind of an operation that was submitted to a stream.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum OperationKind {
            $($(#[$doc])* $variant,)*
        }

        impl OperationKind {
            /// All kinds, each at its number.
            const ALL: &[OperationKind] = &[$(OperationKind::$variant,)*];
        }

        impl fmt::Display for OperationKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(OperationKind::$variant => $text,)*
                })
            }
        }
    };
}

kinds! {
    /// A kernel launch.
    Kernel = "kernel launch",
    /// A copy.
    Copy = "copy",
    /// A fill.
    Fill = "fill",
    /// A host function.
    HostFunction = "host function",
    /// The launch of an executable graph.
    GraphLaunch = "graph launch",
    /// An event record, which marks a point in the graph.
    EventRecord = "event record",
    /// A wait for an event, which adds a dependency.
    EventWait = "event wait",
    /// A node that records an event at every launch.
    EventRecordExternal = "external event record",
    /// A node that waits for an event at every launch.
    EventWaitExternal = "external event wait",
    /// A graph as one node.
    ChildGraph = "child graph",
    /// A stream-ordered allocation.
    Allocation = "allocation",
    /// A stream-ordered release.
    Free = "free",
    /// A conditional node.
    Conditional = "conditional node",
    /// A node that does nothing.
    Empty = "empty node",
    /// A batch of memory operations.
    MemoryBatch = "batch of memory operations",
    /// A change of what the next operation waits for.
    SetDependencies = "change of dependencies",
    /// An addition to what the next operation waits for.
    AddDependencies = "addition of dependencies",
}

impl OperationKind {
    /// Whether a capture makes a node of it.
    pub(crate) fn is_node(self) -> bool {
        !matches!(
            self,
            OperationKind::EventRecord
                | OperationKind::EventWait
                | OperationKind::SetDependencies
                | OperationKind::AddDependencies
        )
    }
}

/// One operation, as the log of a capture has it: two words, since it is written for each.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    /// What it is, by its lowest bits: `KERNEL` with the address of the kernel's `KernelInner`, a
    /// copy or `FILL` with the bytes, `RECORD` or `WAIT` with what tells events apart while the
    /// capture is open, `OTHER` with the kind.
    word: *const KernelInner,
    pub(crate) location: &'static Location<'static>,
}

const KERNEL: usize = 0;
const FROM_HOST: usize = 1;
const TO_HOST: usize = 2;
const ON_DEVICE: usize = 3;
const FILL: usize = 4;
const RECORD: usize = 5;
const WAIT: usize = 6;
const OTHER: usize = 7;

/// How many bits tell which.
const TAG_BITS: u32 = 3;
const TAG: usize = (1 << TAG_BITS) - 1;

// The addresses have zeros there.
const _: () = assert!(align_of::<KernelInner>() > TAG && align_of::<EventInner>() > TAG);

// SAFETY: the pointer is only followed by `site`, to a `KernelInner`, which is `Sync`.
unsafe impl Send for Operation {}

impl Operation {
    /// An operation at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn new(kind: OperationKind) -> Operation {
        Operation::tagged(OTHER, kind as usize)
    }

    /// The launch of a kernel at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn kernel(kernel: &Arc<KernelInner>) -> Operation {
        Operation { word: Arc::as_ptr(kernel), location: Location::caller() }
    }

    /// A copy at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn copy(direction: CopyDirection, bytes: usize) -> Operation {
        match direction {
            CopyDirection::HostToDevice => Operation::tagged(FROM_HOST, bytes),
            CopyDirection::DeviceToHost => Operation::tagged(TO_HOST, bytes),
            CopyDirection::DeviceToDevice => Operation::tagged(ON_DEVICE, bytes),
            _ => Operation::new(OperationKind::Copy),
        }
    }

    /// A fill at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn fill(bytes: usize) -> Operation {
        Operation::tagged(FILL, bytes)
    }

    /// A record of an event at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn record(event: &Arc<EventInner>) -> Operation {
        Operation::tagged(RECORD, Arc::as_ptr(event).addr() >> TAG_BITS)
    }

    /// A wait for an event at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn wait(event: &Arc<EventInner>) -> Operation {
        Operation::tagged(WAIT, Arc::as_ptr(event).addr() >> TAG_BITS)
    }

    #[inline]
    #[track_caller]
    fn tagged(tag: usize, value: usize) -> Operation {
        let word = ptr::without_provenance(value << TAG_BITS | tag);
        Operation { word, location: Location::caller() }
    }

    fn tag(&self) -> usize {
        self.word.addr() & TAG
    }

    fn value(&self) -> usize {
        self.word.addr() >> TAG_BITS
    }

    pub(crate) fn kind(&self) -> OperationKind {
        match self.tag() {
            KERNEL => OperationKind::Kernel,
            FROM_HOST | TO_HOST | ON_DEVICE => OperationKind::Copy,
            FILL => OperationKind::Fill,
            RECORD => OperationKind::EventRecord,
            WAIT => OperationKind::EventWait,
            // INVARIANT: `new` put the number of a kind there.
            _ => OperationKind::ALL[self.value()],
        }
    }

    /// What tells the event of a record or a wait from the others.
    pub(crate) fn event_id(&self) -> Option<usize> {
        matches!(self.tag(), RECORD | WAIT).then(|| self.value())
    }

    /// What it does, to keep.
    ///
    /// # Safety
    ///
    /// The kernel that it was made of is alive: in the call that submits the operation, by the
    /// caller's borrow; in the log of an open capture, by the owners there (O2).
    #[cold]
    pub(crate) unsafe fn site(&self) -> OperationSite {
        let direction = match self.tag() {
            FROM_HOST => Some(CopyDirection::HostToDevice),
            TO_HOST => Some(CopyDirection::DeviceToHost),
            ON_DEVICE => Some(CopyDirection::DeviceToDevice),
            _ => None,
        };
        let bytes = (direction.is_some() || self.tag() == FILL).then(|| self.value());
        let name = (self.tag() == KERNEL).then(|| {
            // SAFETY: only `kernel` makes this tag, and the kernel is alive: the caller's promise.
            let kernel = unsafe { &*self.word };
            kernel.name().into()
        });
        OperationSite { kind: self.kind(), name, direction, bytes, location: self.location }
    }
}

/// What an operation does, and the line of the program that submitted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationSite {
    kind: OperationKind,
    name: Option<Arc<str>>,
    direction: Option<CopyDirection>,
    bytes: Option<usize>,
    location: &'static Location<'static>,
}

impl OperationSite {
    /// Its kind.
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The name of the kernel, for a kernel launch.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// From where to where, for a copy.
    pub fn direction(&self) -> Option<CopyDirection> {
        self.direction
    }

    /// How much it moves or sets, in bytes, for a copy or a fill.
    pub fn bytes(&self) -> Option<usize> {
        self.bytes
    }

    /// The line of the program that submitted it.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// Writes what it does: a kernel by its name, a copy by what it moves.
    pub(crate) fn write_what(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            return write!(f, "`{name}`");
        }
        fmt::Display::fmt(&self.kind, f)?;
        let Some(bytes) = self.bytes else { return Ok(()) };
        write!(f, " of {bytes} byte{}", if bytes == 1 { "" } else { "s" })?;
        f.write_str(match self.direction {
            Some(CopyDirection::HostToDevice) => " from the host",
            Some(CopyDirection::DeviceToHost) => " to the host",
            Some(CopyDirection::DeviceToDevice) => " on the device",
            _ => "",
        })
    }
}

impl fmt::Display for OperationSite {
    /// What it does and where: "`axpy` (src/model.rs:88)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_what(f)?;
        write!(f, " ({})", Line(self.location))
    }
}

/// `file:line`
pub(crate) struct Line(pub(crate) &'static Location<'static>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

#[cfg(test)]
mod tests {
    use super::{Operation, OperationKind};
    use crate::topology::CopyDirection;

    #[test]
    fn a_word_tells_the_kind_and_the_size() {
        for (index, kind) in OperationKind::ALL.iter().copied().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(Operation::new(kind).kind(), kind);
        }
        for bytes in [0, 1, 4096, usize::MAX >> 3] {
            let operation = Operation::copy(CopyDirection::DeviceToHost, bytes);
            // SAFETY: it is no kernel.
            let site = unsafe { operation.site() };
            assert_eq!((site.kind(), site.bytes()), (OperationKind::Copy, Some(bytes)));
            assert_eq!(site.direction(), Some(CopyDirection::DeviceToHost));
        }
    }
}
