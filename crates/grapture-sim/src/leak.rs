//! [`LiveObject`]: one thing that a program has not given back, and the call that made it.

use std::fmt;

use crate::handle::{Id, Object, Registry};
use crate::live::LiveObjects;
use crate::memory::{Allocation, AllocationKind, Memory};
use crate::origin::Origin;
use crate::sim::State;
use crate::stream::StreamKind;

/// One thing that is alive, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveObject {
    /// What it is, such as `stream` or `device allocation`.
    pub kind: &'static str,
    /// Its handle, or its address.
    pub handle: u64,
    /// Its bytes, where it is memory.
    pub bytes: Option<usize>,
    /// The call that made it; nothing where the simulation did by itself.
    pub origin: Option<Origin>,
}

impl fmt::Display for LiveObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#x}", self.kind, self.handle)?;
        if let Some(bytes) = self.bytes {
            write!(f, " of {bytes} bytes")?;
        }
        match &self.origin {
            Some(origin) => write!(f, ": {origin}"),
            None => f.write_str(": made by the simulation"),
        }
    }
}

/// What is alive, counted and one by one: a message for a test that expects nothing.
///
/// Its text begins with the counts, and has a line for each of the objects, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaks {
    /// How many of each kind.
    pub counts: LiveObjects,
    /// Each of them, the oldest first.
    pub objects: Vec<LiveObject>,
}

impl Leaks {
    /// Whether nothing is alive.
    pub fn is_empty(&self) -> bool {
        self.counts.is_clean()
    }
}

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.counts)?;
        self.objects.iter().try_for_each(|object| write!(f, "\n  {object}"))
    }
}

/// The objects of a registry, as far as they are the program's to give back.
fn list<T: Object>(
    registry: &Registry<T>,
    into: &mut Vec<LiveObject>,
    counts: impl Fn(&T) -> bool,
) {
    into.extend(registry.iter().filter(|(_, object)| counts(object)).map(|(id, _)| {
        let kind = T::KIND.name();
        LiveObject { kind, handle: address(id), bytes: None, origin: registry.origin(id) }
    }));
}

fn address<T: Object>(id: Id<T>) -> u64 {
    id.raw().addr() as u64
}

impl State {
    /// Lists what is alive. What is counted is said in [`State::count`].
    pub(crate) fn list(&self, into: &mut Vec<LiveObject>) {
        for device in &self.devices {
            let handle = device.primary.map_or(0, address);
            into.extend(device.retained_by.iter().map(|origin| LiveObject {
                kind: "primary context retain",
                handle,
                bytes: None,
                origin: *origin,
            }));
        }
        list(&self.contexts, into, |context| !context.primary);
        list(&self.streams, into, |stream| {
            matches!(stream.kind, StreamKind::Blocking | StreamKind::NonBlocking)
        });
        list(&self.events, into, |_| true);
        list(&self.modules, into, |module| !module.of_library);
        list(&self.libraries, into, |_| true);
        list(&self.pools, into, |pool| !pool.default);
        list(self.graphs.all(), into, |graph| graph.embedded_in.is_none());
        list(&self.graphs.execs, into, |_| true);
        list(&self.graphs.objects, into, |object| object.is_alive());
    }
}

impl Memory {
    /// Lists the allocations that are the program's to give back.
    pub(crate) fn list(&self, into: &mut Vec<LiveObject>) {
        into.extend(self.snapshot().iter().filter(|a| a.kind.counts()).map(|a| a.as_live_object()));
    }
}

impl Allocation {
    fn as_live_object(&self) -> LiveObject {
        let kind = match self.kind {
            AllocationKind::Device => "device allocation",
            AllocationKind::Pooled => "pool allocation",
            AllocationKind::Graph => "graph allocation",
            AllocationKind::Global => "module variable",
            AllocationKind::Pinned => "pinned allocation",
            AllocationKind::Registered => "registered region",
            AllocationKind::Managed => "managed allocation",
        };
        LiveObject { kind, handle: self.start, bytes: Some(self.len()), origin: self.origin }
    }
}
