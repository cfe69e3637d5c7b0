//! [`LiveObjects`]: what a program has not given back.

use std::fmt;

/// How many objects of each kind are alive, without those that the driver itself owns (default
/// streams, default pools).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveObjects {
    /// The retain counts of the primary contexts, added up.
    pub primary_retains: usize,
    /// Contexts that the program made itself.
    pub contexts: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Allocations on devices, of every way to allocate there.
    pub device_allocations: usize,
    /// Their bytes.
    pub device_bytes: usize,
    /// Pinned and registered regions of host memory.
    pub pinned: usize,
    /// Their bytes.
    pub pinned_bytes: usize,
    /// Modules.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Memory pools.
    pub pools: usize,
    /// Graphs, without those that live inside another graph.
    pub graphs: usize,
    /// Executable graphs.
    pub execs: usize,
    /// User objects.
    pub user_objects: usize,
    /// Streams that capture.
    pub captures: usize,
    /// Operations that are not done.
    pub pending: usize,
}

impl LiveObjects {
    fn counts(&self) -> [(&'static str, usize); 14] {
        [
            ("primary context retains", self.primary_retains),
            ("contexts", self.contexts),
            ("streams", self.streams),
            ("events", self.events),
            ("device allocations", self.device_allocations),
            ("pinned regions", self.pinned),
            ("modules", self.modules),
            ("libraries", self.libraries),
            ("pools", self.pools),
            ("graphs", self.graphs),
            ("executable graphs", self.execs),
            ("user objects", self.user_objects),
            ("captures", self.captures),
            ("pending operations", self.pending),
        ]
    }

    /// Whether nothing is alive.
    pub fn is_clean(&self) -> bool {
        self.counts().iter().all(|(_, count)| *count == 0)
    }
}

impl fmt::Display for LiveObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (what, count) in self.counts().iter().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("nothing alive") } else { Ok(()) }
    }
}
