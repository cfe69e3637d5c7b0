//! What graphs use and keep alive: how captures and builders gather it, and how graphs and
//! executables own it together (O2).

mod held_memory;
mod last_launch;
mod retained;
mod retire;
mod share;

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::Arc;

use crate::error::CudaResult;
use crate::graph::NodeId;
use crate::memory::{AtLaunch, BufferInner, GraphMemory, LaunchMemory, PoolUse, not_in_capture};
use crate::pinned::PinnedInner;
use crate::slot::SlotNode;
use crate::stream::Stream;

pub use held_memory::HeldMemory;
pub(crate) use last_launch::LastLaunch;
pub(crate) use retained::{Retain, Value};
pub use retained::{Retained, RetainedKind};
pub(crate) use retire::{Part, Retired, keep_until_done};
pub(crate) use share::{Owned, Share};

/// A share in something that a graph's nodes use.
pub(crate) type Owner = Arc<dyn Retain>;

/// How many of the last owners are compared before one is added again: a chain of operations on
/// the same few buffers then costs no memory for each.
const RECENT: usize = 4;

/// An owner, and the line of the program by which it came.
#[derive(Clone)]
pub(crate) struct Held {
    owner: Owner,
    origin: &'static Location<'static>,
}

impl Held {
    /// The owner, if it is of that type.
    fn get<T: Any>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.owner;
        any.downcast_ref()
    }
}

/// The line by which owners come.
#[derive(Clone, Copy)]
struct Origin(&'static Location<'static>);

impl Default for Origin {
    /// That of a list which nothing was added to.
    fn default() -> Origin {
        Origin(Location::caller())
    }
}

/// The owners that a capture, or the making of a node, has gathered.
#[derive(Default)]
#[repr(C)] // What each operation changes comes first, and together.
pub(crate) struct Owners {
    list: Vec<Held>,
    origin: Origin,
    next: usize,
    recent: [usize; RECENT],
    pinned: Vec<PinnedUse>,
    /// What graphs own that are embedded.
    graphs: Vec<Share>,
    /// What the graph allocates itself, and the pools that it uses.
    allocations: Vec<AtLaunch>,
    /// Whether memory is among them that was allocated in the order of a stream.
    ordered: bool,
    /// Whether an operation uses what a capture allocates.
    temporary: bool,
    /// Whether a node with slots is among them.
    slotted: bool,
}

/// Pinned host memory that a graph uses, and whether the graph writes it.
#[derive(Clone)]
pub(crate) struct PinnedUse {
    pub(crate) memory: Arc<PinnedInner>,
    pub(crate) written: bool,
}

impl Owners {
    /// None yet, for a node that is made at the caller's line.
    #[track_caller]
    pub(crate) fn here() -> Owners {
        Owners { origin: Origin(Location::caller()), ..Owners::default() }
    }

    /// Has the owners that come next noted with this line.
    #[inline]
    pub(crate) fn come_from(&mut self, origin: &'static Location<'static>) {
        self.origin = Origin(origin);
    }

    /// Keeps `owner` alive.
    #[inline]
    pub(crate) fn retain<T: Retain>(&mut self, owner: &Arc<T>) {
        let address = Arc::as_ptr(owner) as usize;
        if self.recent.contains(&address) {
            return;
        }
        // INVARIANT: `next` is below `RECENT`.
        self.recent[self.next] = address;
        self.next = (self.next + 1) % RECENT;
        push(&mut self.list, owner.clone(), self.origin.0);
    }

    /// Takes the others, which are none then.
    pub(crate) fn append(&mut self, others: &mut Owners) {
        self.list.append(&mut others.list);
        self.graphs.append(&mut others.graphs);
        self.allocations.append(&mut others.allocations);
        self.ordered |= std::mem::take(&mut others.ordered);
        self.slotted |= std::mem::take(&mut others.slotted);
        others.forget_recent();
        for used in others.pinned.drain(..) {
            add_pinned(&mut self.pinned, &used);
        }
    }

    /// How many things are kept alive one by one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets what came after the first `len`: the operation that uses it was refused. What is
    /// marked beyond the list, such as pinned memory, may stay marked without harm.
    #[cold]
    pub(crate) fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
        // What is forgotten has to be added again when it comes again.
        self.forget_recent();
    }

    /// Keeps an allocation of device memory alive.
    #[inline]
    pub(crate) fn retain_memory(&mut self, memory: &Arc<BufferInner>) {
        if memory.is_plain() { self.retain(memory) } else { self.retain_other(memory) }
    }

    #[cold]
    fn retain_other(&mut self, memory: &Arc<BufferInner>) {
        // What the graph allocates itself is kept from its allocation on, and so is a pool.
        if memory.is_temporary() {
            self.temporary = true;
            return;
        }
        self.ordered = true;
        self.retain(memory);
    }

    /// Keeps what the graph allocates itself, as long as that can be allocated.
    pub(crate) fn retain_allocation(&mut self, memory: &Arc<LaunchMemory>) {
        self.retain(memory);
        self.allocations.push(AtLaunch::Memory(memory.clone()));
    }

    /// Keeps what is known of memory that a node allocates which was built.
    pub(crate) fn retain_built_allocation(&mut self, memory: &Arc<BufferInner>) {
        self.retain(memory);
        self.allocations.push(AtLaunch::Built);
    }

    /// Keeps a pool that the graph uses, and has every launch take its turn there.
    pub(crate) fn retain_pool(&mut self, used: &Arc<PoolUse>) {
        self.retain(used);
        self.allocations.push(AtLaunch::Pool(used.clone()));
    }

    /// Makes room for the first owners of a capture, so that the first operation need not. All that
    /// it changes is written to here: to count an owner waits for what was written before, and so for
    /// the cache.
    pub(crate) fn begin(&mut self) {
        self.forget_recent();
        self.list.reserve(2 * RECENT);
        let room = self.list.spare_capacity_mut();
        room.iter_mut().take(2 * RECENT).for_each(|room| *room = MaybeUninit::zeroed());
    }

    /// Keeps what a node with slots is to be given anew.
    #[cold]
    pub(crate) fn retain_slots(&mut self, node: &Arc<SlotNode>) {
        self.slotted = true;
        self.list.push(Held { owner: node.clone(), origin: self.origin.0 });
    }

    /// The nodes with slots among them.
    pub(crate) fn slot_nodes(&self) -> impl Iterator<Item = &SlotNode> {
        let list = if self.slotted { &self.list[..] } else { &[] };
        list.iter().filter_map(Held::get)
    }

    /// Says of the nodes with slots, which are those of a body, whose body that is.
    pub(crate) fn put_in_body_of(&mut self, node: NodeId) {
        if !self.slotted {
            return;
        }
        for held in &mut self.list {
            let Some(slots) = held.get::<SlotNode>() else { continue };
            let Some(place) = slots.place() else { continue };
            held.owner = SlotNode::at(place.in_body_of(node), slots.work().clone());
        }
    }

    /// Whether there are slots in what they belong to.
    pub(crate) fn have_slots(&self) -> bool {
        self.slotted || self.graphs.iter().any(Share::has_slots)
    }

    /// The pinned memory among them.
    pub(crate) fn pinned(&self) -> &[PinnedUse] {
        &self.pinned
    }

    /// Prepares what is used for an operation on the stream.
    pub(crate) fn note_use(&self, stream: &Stream) -> CudaResult<()> {
        let mut memory = self.list.iter().filter_map(Held::get);
        memory.try_for_each(|memory: &BufferInner| memory.note_use(stream))
    }

    /// Keeps a value alive that nothing else shares.
    pub(crate) fn retain_value<T: Send + 'static>(&mut self, value: T) {
        let owner = Arc::new(Value::new(value));
        self.list.push(Held { owner, origin: self.origin.0 });
    }

    /// Keeps pinned memory alive, and has every launch mark it as in use.
    pub(crate) fn retain_pinned(&mut self, memory: &Arc<PinnedInner>, written: bool) {
        let used = PinnedUse { memory: memory.clone(), written };
        if add_pinned(&mut self.pinned, &used) {
            self.list.push(Held { owner: memory.clone(), origin: self.origin.0 });
        }
    }

    /// Keeps alive what another graph owns, which is embedded.
    pub(crate) fn retain_graph(&mut self, share: Share) {
        for used in share.pinned() {
            add_pinned(&mut self.pinned, used);
        }
        self.graphs.push(share);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.pinned.is_empty() && self.graphs.is_empty()
    }

    /// The pools that embedded graphs use.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<PoolUse>> {
        self.graphs.iter().flat_map(Share::pools)
    }

    /// The memory among the owners that nodes of a graph allocate.
    pub(crate) fn graph_memory(&self) -> impl Iterator<Item = &GraphMemory> {
        let list = if self.ordered { &self.list[..] } else { &[] };
        list.iter().filter_map(Held::get).filter_map(BufferInner::graph_memory)
    }

    /// [`wait_until_there`](Owners::wait_until_there), for a node that is made by hand: refused is
    /// memory that exists only in the graph of a capture.
    pub(crate) fn wait_until_ready(&self) -> CudaResult<()> {
        if self.temporary { Err(not_in_capture()) } else { self.wait_until_there() }
    }

    /// Blocks until the memory among the owners is there: a graph may be launched on any stream,
    /// and what was in the order of another one when it was recorded is not in that stream's.
    pub(crate) fn wait_until_there(&self) -> CudaResult<()> {
        if self.ordered { wait_until_there(&self.list) } else { Ok(()) }
    }

    /// Whether there is more than the list.
    #[inline]
    fn has_more(&self) -> bool {
        // No branch but the caller's.
        !self.pinned.is_empty()
            | !self.graphs.is_empty()
            | !self.allocations.is_empty()
            | self.temporary
            | self.slotted
    }

    /// Has the next owners added whatever came before: those are not in the list any more.
    #[inline]
    fn forget_recent(&mut self) {
        (self.recent, self.next) = ([0; RECENT], 0);
    }
}

/// Adds to the list, without a copy on the stack as `Vec::push` makes one: to read that again waits
/// for all that was written before.
#[inline]
fn push(list: &mut Vec<Held>, owner: Owner, origin: &'static Location<'static>) {
    #[cold]
    fn grow(list: &mut Vec<Held>) {
        list.reserve(1);
    }
    let len = list.len();
    if len == list.capacity() {
        grow(list);
    }
    // SAFETY: there is room for one more behind the first `len`.
    let place = unsafe { list.as_mut_ptr().add(len) };
    // SAFETY: it is within the list's memory, and nothing is there.
    unsafe { place.write(Held { owner, origin }) };
    // SAFETY: it was just written.
    unsafe { list.set_len(len + 1) };
}

/// Blocks until the memory among the owners is there.
#[cold]
fn wait_until_there(list: &[Held]) -> CudaResult<()> {
    list.iter().filter_map(Held::get).try_for_each(BufferInner::wait_until_ready)
}

/// Adds a use of pinned memory to a list that has each memory once. Gives whether it is new.
fn add_pinned(list: &mut Vec<PinnedUse>, used: &PinnedUse) -> bool {
    if let Some(known) = list.iter_mut().find(|known| Arc::ptr_eq(&known.memory, &used.memory)) {
        known.written |= used.written;
        return false;
    }
    list.push(used.clone());
    true
}
