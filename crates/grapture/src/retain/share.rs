//! [`Share`]: what a graph or an executable owns.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, OnceLock};

use grapture_sys::CUfunction;

use crate::error::CudaResult;
use crate::graph::NodeId;
use crate::kernel::KernelInner;
use crate::memory::{AtLaunch, PoolUse};
use crate::module::Module;
use crate::retain::{Held, Owners, PinnedUse, Retained, add_pinned, wait_until_there};

/// What a capture as a whole, or one node that was made by hand, uses. It does not change.
#[derive(Default)]
pub(crate) struct Owned {
    held: Vec<Held>,
    /// Whether memory is among them that was allocated in the order of a stream.
    ordered: bool,
    /// What most have none of.
    more: Option<Box<More>>,
}

#[derive(Default)]
struct More {
    /// Host memory that is read or written, also by embedded graphs.
    pinned: Box<[PinnedUse]>,
    /// What embedded graphs own.
    graphs: Vec<Share>,
    /// What the graph allocates itself.
    allocates: bool,
    /// What of that each launch leaves, and the pools that it uses.
    at_launch: Box<[AtLaunch]>,
}

/// What a graph, or an executable, owns: what the capture retained, which is the graph's and every
/// executable's together, and what each node uses that was made or changed by hand.
///
/// A clone is a snapshot: it costs two counters, and what one of the two changes later is not the
/// other's. So whoever can run a node keeps what that node used when it was made executable, and
/// no longer than that: each part is let go of with the last snapshot that has it.
#[derive(Clone)]
pub(crate) struct Share {
    captured: Arc<Owned>,
    /// None as long as nothing was made or changed by hand.
    edited: Option<Arc<Edited>>,
}

#[derive(Clone, Default)]
struct Edited {
    nodes: HashMap<NodeId, Arc<Owned>>,
    /// What belongs to no node alone.
    more: Vec<Arc<Owned>>,
    /// All pinned memory, what was captured included; gathered when it is first asked for.
    pinned: OnceLock<Box<[PinnedUse]>>,
    /// All that launches look to, likewise.
    at_launch: OnceLock<Box<[AtLaunch]>>,
}

impl From<Owners> for Owned {
    fn from(mut owners: Owners) -> Owned {
        Owned::taken(&mut owners)
    }
}

impl Owned {
    /// Takes what was gathered: nothing is left, until the next capture begins.
    #[inline]
    fn taken(owners: &mut Owners) -> Owned {
        let more = if owners.has_more() { Some(More::taken(owners)) } else { None };
        let (held, ordered) = (mem::take(&mut owners.list), mem::take(&mut owners.ordered));
        Owned { held, ordered, more }
    }

    fn is_empty(&self) -> bool {
        let none = |more: &More| more.pinned.is_empty() && more.graphs.is_empty();
        self.held.is_empty() && self.more.as_deref().is_none_or(none)
    }

    #[inline]
    fn pinned(&self) -> &[PinnedUse] {
        self.more.as_ref().map_or(&[], |more| &more.pinned)
    }

    #[inline]
    fn at_launch(&self) -> &[AtLaunch] {
        self.more.as_ref().map_or(&[], |more| &more.at_launch)
    }

    fn graphs(&self) -> &[Share] {
        self.more.as_ref().map_or(&[], |more| &more.graphs)
    }

    fn allocates(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.allocates)
    }

    fn for_each(&self, look: &mut dyn FnMut(&Held)) {
        self.held.iter().for_each(&mut *look);
        for graph in self.graphs() {
            graph.for_each(look);
        }
    }
}

impl More {
    fn prepares(&self) -> bool {
        !self.pinned.is_empty() || !self.at_launch.is_empty()
    }

    #[cold]
    fn taken(owners: &mut Owners) -> Box<More> {
        let pinned = mem::take(&mut owners.pinned).into();
        let graphs = mem::take(&mut owners.graphs);
        let mut at_launch = mem::take(&mut owners.allocations);
        let allocates =
            at_launch.iter().any(AtLaunch::allocates) || graphs.iter().any(Share::allocates);
        at_launch.retain(AtLaunch::is_for_launches);
        // Those of graphs that are embedded.
        at_launch.extend(graphs.iter().flat_map(Share::at_launch).cloned());
        owners.temporary = false;
        Box::new(More { pinned, graphs, allocates, at_launch: at_launch.into() })
    }
}

impl Edited {
    fn parts(&self) -> impl Iterator<Item = &Arc<Owned>> {
        self.more.iter().chain(self.nodes.values())
    }

    fn at_launch(&self, captured: &Owned) -> &[AtLaunch] {
        self.at_launch.get_or_init(|| {
            let parts = self.parts().flat_map(|part| part.at_launch());
            captured.at_launch().iter().chain(parts).cloned().collect()
        })
    }

    fn pinned(&self, captured: &Owned) -> &[PinnedUse] {
        self.pinned.get_or_init(|| {
            let mut all = captured.pinned().to_vec();
            for used in self.parts().flat_map(|part| part.pinned()) {
                add_pinned(&mut all, used);
            }
            all.into()
        })
    }
}

impl Share {
    pub(crate) fn new(mut owners: Owners) -> Share {
        Share::taken(&mut owners)
    }

    /// Takes what a capture has gathered: nothing is left there.
    #[inline]
    pub(crate) fn taken(owners: &mut Owners) -> Share {
        Share { captured: Arc::new(Owned::taken(owners)), edited: None }
    }

    /// Whether there may be something to wait for until what a capture retained is there.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.captured.ordered
    }

    /// [`Owners::wait_until_there`], for what a capture retained.
    pub(crate) fn wait_until_there(&self) -> CudaResult<()> {
        if self.captured.ordered { wait_until_there(&self.captured.held) } else { Ok(()) }
    }

    /// The pinned memory that is used: each launch marks it as in use (O6).
    #[inline]
    pub(crate) fn pinned(&self) -> &[PinnedUse] {
        match &self.edited {
            None => self.captured.pinned(),
            Some(edited) => edited.pinned(&self.captured),
        }
    }

    /// Whether exactly this is what is kept for a node by itself.
    pub(crate) fn keeps(&self, node: NodeId, owners: &Owners) -> bool {
        let kept = self.edited.as_ref().and_then(|edited| edited.nodes.get(&node));
        kept.is_some_and(|kept| {
            let same = |(one, other): (&Held, &Held)| Arc::ptr_eq(&one.owner, &other.owner);
            kept.pinned().is_empty()
                && kept.graphs().is_empty()
                && owners.pinned.is_empty()
                && owners.graphs.is_empty()
                && kept.held.len() == owners.list.len()
                && kept.held.iter().zip(&owners.list).all(same)
        })
    }

    /// What each launch allocates and leaves, and the pools that it uses.
    #[inline]
    pub(crate) fn at_launch(&self) -> &[AtLaunch] {
        match &self.edited {
            None => self.captured.at_launch(),
            Some(edited) => edited.at_launch(&self.captured),
        }
    }

    /// The pools that are used.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<PoolUse>> {
        self.at_launch().iter().filter_map(AtLaunch::pool)
    }

    /// Those that something else uses than this node by itself.
    pub(crate) fn pools_beside(&self, node: Option<NodeId>) -> impl Iterator<Item = &Arc<PoolUse>> {
        let edited = self.edited.iter().flat_map(move |edited| {
            let nodes = edited.nodes.iter().filter(move |(key, _)| Some(**key) != node);
            edited.more.iter().chain(nodes.map(|(_, part)| part))
        });
        let parts = std::iter::once(&self.captured).chain(edited);
        parts.flat_map(|part| part.at_launch()).filter_map(AtLaunch::pool)
    }

    /// Whether a launch has something to do for them before it is made.
    #[inline]
    pub(crate) fn prepares(&self) -> bool {
        match &self.edited {
            None => self.captured.more.as_deref().is_some_and(More::prepares),
            Some(_) => !self.pinned().is_empty() || !self.at_launch().is_empty(),
        }
    }

    /// Whether a capture has recorded allocations of the graph.
    pub(crate) fn allocates(&self) -> bool {
        let edited = || self.edited.iter().flat_map(|edited| edited.parts());
        self.captured.allocates() || edited().any(|part| part.allocates())
    }

    /// Keeps what a node uses, made or changed by hand. Gives what it used before if that was known
    /// for itself: of a captured node it is not, and stays.
    #[must_use = "who runs it now may use it until the launch is done"]
    pub(crate) fn set(&mut self, node: NodeId, owners: Owners) -> Option<Arc<Owned>> {
        let owned = Arc::new(Owned::from(owners));
        let edited = self.edit();
        edited.at_launch = OnceLock::new();
        let pins = !owned.pinned().is_empty();
        let old = edited.nodes.insert(node, owned);
        if pins || old.as_ref().is_some_and(|old| !old.pinned().is_empty()) {
            edited.pinned = OnceLock::new();
        }
        old
    }

    /// Forgets a node that is no more. Gives what it used, as [`set`](Share::set) does.
    #[must_use = "who runs it now may use it until the launch is done"]
    pub(crate) fn remove(&mut self, node: NodeId) -> Option<Arc<Owned>> {
        if self.edited.as_ref().is_none_or(|edited| !edited.nodes.contains_key(&node)) {
            return None;
        }
        let edited = self.edit();
        (edited.pinned, edited.at_launch) = (OnceLock::new(), OnceLock::new());
        edited.nodes.remove(&node)
    }

    /// Keeps what belongs to no node alone.
    pub(crate) fn add(&mut self, owners: Owners) {
        let owned = Owned::from(owners);
        if !owned.is_empty() {
            let edited = self.edit();
            (edited.pinned, edited.at_launch) = (OnceLock::new(), OnceLock::new());
            edited.more.push(Arc::new(owned));
        }
    }

    /// The same for a copy of the graph, whose nodes have other names. A node without a name there
    /// keeps what it used, and so does the copy.
    pub(crate) fn renamed(&self, name: impl Fn(NodeId) -> Option<NodeId>) -> Share {
        let Some(edited) = &self.edited else { return self.clone() };
        let mut copy = Edited { more: edited.more.clone(), ..Edited::default() };
        for (node, owned) in &edited.nodes {
            match name(*node) {
                Some(node) => drop(copy.nodes.insert(node, owned.clone())),
                None => copy.more.push(owned.clone()),
            }
        }
        Share { captured: self.captured.clone(), edited: Some(Arc::new(copy)) }
    }

    /// The nodes that were made or changed by hand.
    pub(crate) fn edited_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.edited.iter().flat_map(|edited| edited.nodes.keys().copied())
    }

    fn edit(&mut self) -> &mut Edited {
        Arc::make_mut(self.edited.get_or_insert_default())
    }

    pub(super) fn for_each(&self, look: &mut dyn FnMut(&Held)) {
        self.captured.for_each(look);
        for part in self.edited.iter().flat_map(|edited| edited.parts()) {
            part.for_each(look);
        }
    }

    /// The name of the kernel with this handle, if it is among the owners.
    pub(crate) fn kernel_name(&self, raw: CUfunction) -> Option<String> {
        self.of_kernel(raw, |kernel| kernel.name().to_owned())
    }

    /// The sizes of its parameters, if they are known.
    pub(crate) fn kernel_parameters(&self, raw: CUfunction) -> Option<Box<[usize]>> {
        self.of_kernel(raw, |kernel| kernel.parameters().map(Box::from)).flatten()
    }

    /// The module of the kernel with this handle, if it is among the owners.
    pub(crate) fn kernel_module(&self, raw: CUfunction) -> Option<Module> {
        self.of_kernel(raw, |kernel| kernel.module().clone())
    }

    fn of_kernel<R>(&self, raw: CUfunction, get: impl Fn(&KernelInner) -> R) -> Option<R> {
        let mut found = None;
        self.for_each(&mut |held| {
            if found.is_none() {
                let kernel = held.get::<KernelInner>().filter(|kernel| kernel.raw() == raw);
                found = kernel.map(&get);
            }
        });
        found
    }

    /// What is kept, each thing once.
    pub(crate) fn retained(&self) -> Vec<Retained> {
        let mut list = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.for_each(&mut |held| {
            if seen.insert(Arc::as_ptr(&held.owner).cast::<()>()) {
                list.push(Retained::of(held));
            }
        });
        list
    }

    /// Whether both are the same snapshot.
    pub(crate) fn is_same(&self, other: &Share) -> bool {
        let edited = match (&self.edited, &other.edited) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        edited && Arc::ptr_eq(&self.captured, &other.captured)
    }

    /// Whether there is nothing to let go of.
    pub(crate) fn is_empty(&self) -> bool {
        self.captured.is_empty() && self.edited.is_none()
    }
}
