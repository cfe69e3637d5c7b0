//! As much of a graph as the gate needs.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GraphKey(u64);

impl GraphKey {
    /// The numbers say nothing but which is which, so loom need not follow them.
    pub(crate) fn new() -> GraphKey {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        GraphKey(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
