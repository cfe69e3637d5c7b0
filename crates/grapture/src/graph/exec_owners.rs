//! [`ExecOwners`]: what an executable owns, from change to change (O2, O4).

use std::cell::RefCell;
use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use crate::driver::Driver;
use crate::error::CudaResult;
use crate::graph::NodeId;
use crate::memory::{AtLaunch, BufferInner};
use crate::raw_event::RawEvent;
use crate::reclaim::{drop_contained, release_elsewhere};
use crate::retain::{LastLaunch, Owners, Part, PinnedUse, Retired, Share};
use crate::stream::Stream;

/// What an executable owns, and since when.
///
/// A part that is replaced is let go of at once if no launch has used it, and else handed to
/// [`Retired`]. A launch has nothing to note for that: a change takes the mark of the last launch
/// away, and finds out at the next change whether there is one again.
pub(super) struct ExecOwners {
    /// What the nodes use now.
    share: Share,
    /// The last launch since the last change.
    last_launch: RefCell<LastLaunch>,
    /// What was replaced. None: there was no launch before the last change.
    retired: Option<Retired>,
    /// None: it is all fresh, and nothing is in doubt.
    changed: Option<Box<Changed>>,
}

/// What is known of the owners of an executable that was changed after a launch, or not wholly.
#[derive(Default)]
struct Changed {
    /// What it may use besides: an update failed, and it cannot be known how far it went.
    doubtful: Vec<Share>,
    /// What no launch has used.
    fresh: Fresh,
    /// The memory that slots were set to.
    bound: Vec<BoundMemory>,
    /// How many times it was found that there was a launch.
    launched: u64,
}

/// Memory that a slot was set to.
struct BoundMemory {
    slot: u64,
    memory: Arc<BufferInner>,
    /// How often a launch was found before it came.
    after: u64,
}

/// What of an executable's owners no launch has used.
#[derive(Default)]
enum Fresh {
    /// All of them: there was no launch since all of it was replaced.
    #[default]
    All,
    /// What these nodes use by themselves.
    Nodes(HashSet<NodeId>),
}

impl ExecOwners {
    pub(super) fn new(share: Share) -> ExecOwners {
        ExecOwners {
            share,
            last_launch: RefCell::new(LastLaunch::Never),
            retired: None,
            changed: None,
        }
    }

    /// What the nodes use now.
    pub(super) fn share(&self) -> &Share {
        &self.share
    }

    /// The pinned memory that the nodes use.
    pub(super) fn pinned(&self) -> &[PinnedUse] {
        self.share.pinned()
    }

    /// What each launch leaves, and the pools that it uses or may use.
    pub(super) fn at_launch(&self) -> impl Iterator<Item = &AtLaunch> + Clone {
        let doubtful = self.changed.iter().flat_map(|changed| &changed.doubtful);
        let doubtful = doubtful.flat_map(Share::at_launch);
        self.share.at_launch().iter().chain(doubtful.filter(|at| at.pool().is_some()))
    }

    /// Whether a launch has something to do for them before it is made.
    #[inline]
    pub(super) fn prepares(&self) -> bool {
        let doubtful = || self.at_launch().next().is_some();
        self.share.prepares() || self.changed.is_some() && doubtful()
    }

    /// All of them, out of an executable that is dropped.
    pub(super) fn take(&mut self) -> ExecOwners {
        mem::replace(self, ExecOwners::new(Share::new(Owners::here())))
    }

    /// Remembers a launch that was just made.
    #[inline]
    pub(super) fn note(&self, stream: &Stream) {
        self.last_launch.borrow_mut().note(stream);
    }

    /// Replaces all.
    pub(super) fn replace(&mut self, share: Share, driver: &Driver) {
        self.settle();
        let doubtful = self.changed.as_mut().map(|changed| mem::take(&mut changed.doubtful));
        for doubtful in doubtful.into_iter().flatten() {
            // A launch may have been made since it came, whatever is fresh.
            self.let_go(Part::All { _owned: doubtful }, true, driver);
        }
        let bound = self.changed.as_mut().map(|changed| mem::take(&mut changed.bound));
        for bound in bound.into_iter().flatten() {
            self.let_go_bound(bound, driver);
        }
        if self.share.is_same(&share) {
            return;
        }
        let old = mem::replace(&mut self.share, share);
        let fresh = self.changed.take().is_none_or(|changed| matches!(changed.fresh, Fresh::All));
        let used = !fresh && !old.is_empty();
        self.let_go(Part::All { _owned: old }, used, driver);
    }

    /// Replaces what a node uses. What the graph's capture retained for it is not known for
    /// itself, and stays until all is replaced.
    pub(super) fn set(&mut self, node: NodeId, owners: Owners, driver: &Driver) {
        if self.share.keeps(node, &owners) {
            // The usual change is one of values: it replaces nothing.
            return;
        }
        self.settle();
        let old = self.share.set(node, owners);
        let used = match self.changed.as_mut().map(|changed| &mut changed.fresh) {
            None | Some(Fresh::All) => false,
            Some(Fresh::Nodes(nodes)) => nodes.insert(node),
        };
        if let Some(old) = old {
            self.let_go(Part::Node { _owned: old }, used, driver);
        }
    }

    /// Forgets what a node uses by itself: it does something else now.
    pub(super) fn remove(&mut self, node: NodeId, driver: &Driver) {
        self.settle();
        let used = match self.changed.as_mut().map(|changed| &mut changed.fresh) {
            None | Some(Fresh::All) => false,
            Some(Fresh::Nodes(nodes)) => !nodes.remove(&node),
        };
        if let Some(old) = self.share.remove(node) {
            self.let_go(Part::Node { _owned: old }, used, driver);
        }
    }

    /// Whether it keeps this memory for the slot already.
    #[inline]
    pub(super) fn is_bound(&self, slot: u64, memory: &Arc<BufferInner>) -> bool {
        let is_bound =
            |bound: &BoundMemory| bound.slot == slot && Arc::ptr_eq(&bound.memory, memory);
        self.changed.as_ref().is_some_and(|changed| changed.bound.iter().any(is_bound))
    }

    /// Keeps the memory that a slot is set to, in the place of what it was set to before. What the
    /// graph owns is kept with that.
    pub(super) fn bind(&mut self, slot: u64, memory: Arc<BufferInner>, driver: &Driver) {
        self.settle();
        let changed = self.changed.get_or_insert_default();
        let new = BoundMemory { slot, memory, after: changed.launched };
        match changed.bound.iter_mut().find(|bound| bound.slot == slot) {
            Some(bound) => {
                let old = mem::replace(bound, new);
                self.let_go_bound(old, driver);
            }
            None => changed.bound.push(new),
        }
    }

    fn let_go_bound(&self, bound: BoundMemory, driver: &Driver) {
        let BoundMemory { memory, after, .. } = bound;
        let launched = self.changed.as_ref().map_or(0, |changed| changed.launched);
        match &self.retired {
            Some(retired) if after != launched => {
                retired.add(Part::Memory { _memory: memory }, driver);
            }
            // Its release would wait for what others have in flight, and a set does not.
            _ if Arc::strong_count(&memory) == 1 => release_elsewhere(driver, memory),
            _ => drop(memory),
        }
    }

    /// Keeps besides what nodes may have taken in an update that failed, until all is replaced.
    pub(super) fn keep(&mut self, share: Share) {
        self.changed.get_or_insert_default().doubtful.push(share);
    }

    /// Whether all launches are done.
    pub(super) fn is_done(&self) -> CudaResult<bool> {
        let mut last = self.last_launch.borrow_mut();
        match &*last {
            LastLaunch::Never => self.retired.as_ref().map_or(Ok(true), Retired::is_done),
            _ => last.is_done(),
        }
    }

    /// An event that is reached when the launches so far are done; none if they are.
    pub(super) fn end_of_launches(&mut self) -> CudaResult<Option<Arc<RawEvent>>> {
        self.settle();
        self.retired.as_ref().map_or(Ok(None), Retired::end_of_launches)
    }

    /// Lets go of everything, after the executable's end.
    pub(super) fn release(&mut self, driver: &Driver) {
        let empty = Share::new(Owners::here());
        self.replace(empty, driver);
    }

    /// Takes note of a launch since the last change.
    #[inline]
    fn settle(&mut self) {
        match mem::take(self.last_launch.get_mut()) {
            LastLaunch::Never => {}
            last => {
                self.retired.get_or_insert_default().launched(last);
                let changed = self.changed.get_or_insert_default();
                changed.launched += 1;
                match &mut changed.fresh {
                    fresh @ Fresh::All => *fresh = Fresh::Nodes(HashSet::new()),
                    Fresh::Nodes(nodes) => nodes.clear(),
                }
            }
        }
    }

    fn let_go(&self, part: Part, used: bool, driver: &Driver) {
        match &self.retired {
            Some(retired) if used => retired.add(part, driver),
            _ => drop_contained(part),
        }
    }
}
