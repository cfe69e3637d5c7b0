//! Handles: the pointer values that the ABI gives out, and the registry behind them.
//!
//! A handle is never dereferenced. It packs what it is, whose it is and where it is:
//!
//! ```text
//! 63      56 55      48 47          28 27         4 3  0
//! | kind    | simulation | generation | index       | 0 |
//! ```
//!
//! so that a null, foreign, stale or mistyped handle is seen for what it is.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use crate::origin::Origin;

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 20;
const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Context = 0x21,
    Stream,
    Event,
    Module,
    Function,
    Library,
    Kernel,
    Pool,
    Graph,
    Node,
    Exec,
    UserObject,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Context,
        Kind::Stream,
        Kind::Event,
        Kind::Module,
        Kind::Function,
        Kind::Library,
        Kind::Kernel,
        Kind::Pool,
        Kind::Graph,
        Kind::Node,
        Kind::Exec,
        Kind::UserObject,
    ];

    /// The kind that a value claims, if it can be a handle at all.
    pub(crate) fn of(bits: u64) -> Option<Kind> {
        let claimed = |kind: &Kind| bits >> 56 == *kind as u64 && bits & 0xf == 0;
        Kind::ALL.into_iter().find(claimed)
    }

    /// What a person calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Context => "context",
            Kind::Stream => "stream",
            Kind::Event => "event",
            Kind::Module => "module",
            Kind::Function => "function",
            Kind::Library => "library",
            Kind::Kernel => "kernel",
            Kind::Pool => "pool",
            Kind::Graph => "graph",
            Kind::Node => "node",
            Kind::Exec => "executable graph",
            Kind::UserObject => "user object",
        }
    }
}

/// A thing that the ABI names by a handle.
pub(crate) trait Object {
    /// Its kind.
    const KIND: Kind;
    /// What the C handle points to: never defined.
    type Raw;
}

/// The identity of an object of type `T`.
pub(crate) struct Id<T> {
    bits: u64,
    _kind: PhantomData<fn() -> T>,
}

impl<T: Object> Id<T> {
    /// The C handle.
    pub(crate) fn raw(self) -> *mut T::Raw {
        std::ptr::without_provenance_mut(self.bits as usize)
    }

    /// The identity that a C handle claims, if it is of this kind at all.
    pub(crate) fn claimed(address: usize) -> Option<Id<T>> {
        let bits = address as u64;
        (bits >> 56 == T::KIND as u64 && bits & 0xf == 0).then_some(Id { bits, _kind: PhantomData })
    }

    fn new(simulation: u8, generation: u32, index: usize) -> Id<T> {
        let bits = (T::KIND as u64) << 56
            | u64::from(simulation) << 48
            | u64::from(generation) << (4 + INDEX_BITS)
            | (index as u64) << 4;
        Id { bits, _kind: PhantomData }
    }

    fn index(self) -> usize {
        (self.bits >> 4) as usize & ((1 << INDEX_BITS) - 1)
    }

    fn generation(self) -> u32 {
        (self.bits >> (4 + INDEX_BITS)) as u32 & GENERATION_MAX
    }

    fn simulation(self) -> u8 {
        (self.bits >> 48) as u8
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bits.cmp(&other.bits)
    }
}
impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits)
    }
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
    origin: Option<Origin>,
}

/// The live objects of one kind in one simulation.
pub(crate) struct Registry<T> {
    simulation: u8,
    entries: Vec<Entry<T>>,
    free: Vec<usize>,
    live: usize,
}

impl<T: Object> Registry<T> {
    /// An empty registry whose handles carry the number of the simulation.
    pub(crate) fn new(simulation: u8) -> Registry<T> {
        Registry { simulation, entries: Vec::new(), free: Vec::new(), live: 0 }
    }

    /// Adds an object.
    ///
    /// # Panics
    ///
    /// More than 16 million objects of a kind are alive.
    pub(crate) fn insert(&mut self, value: T) -> Id<T> {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.entries.len() < 1 << INDEX_BITS, "too many {:?} objects", T::KIND);
            self.entries.push(Entry { generation: 0, value: None, origin: None });
            self.entries.len() - 1
        });
        self.live += 1;
        // INVARIANT: the index is that of a freed entry or of the one pushed above.
        let entry = &mut self.entries[index];
        entry.value = Some(value);
        entry.origin = Origin::current();
        Id::new(self.simulation, entry.generation, index)
    }

    /// The object, if the handle is of this simulation and still good.
    pub(crate) fn get(&self, id: Id<T>) -> Option<&T> {
        let entry = self.entries.get(id.index())?;
        let current = entry.generation == id.generation() && self.simulation == id.simulation();
        entry.value.as_ref().filter(|_| current)
    }

    /// As [`get`](Registry::get), to change it.
    pub(crate) fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index())?;
        let current = entry.generation == id.generation() && self.simulation == id.simulation();
        entry.value.as_mut().filter(|_| current)
    }

    /// Whether the handle is good.
    pub(crate) fn contains(&self, id: Id<T>) -> bool {
        self.get(id).is_some()
    }

    /// The identity behind a C handle, if it is good.
    pub(crate) fn find(&self, address: usize) -> Option<Id<T>> {
        Id::claimed(address).filter(|id| self.contains(*id))
    }

    /// Takes the object out; its handle is stale from now on.
    pub(crate) fn remove(&mut self, id: Id<T>) -> Option<T> {
        self.get(id)?;
        let entry = self.entries.get_mut(id.index())?;
        let value = entry.value.take()?;
        self.live -= 1;
        // An entry whose generations are used up is never given out again.
        if entry.generation < GENERATION_MAX {
            entry.generation += 1;
            self.free.push(id.index());
        }
        Some(value)
    }

    /// The call that made an object.
    pub(crate) fn origin(&self, id: Id<T>) -> Option<Origin> {
        self.entries.get(id.index()).and_then(|entry| entry.origin)
    }

    /// How many objects are alive.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The live objects, oldest entry first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let id = Id::new(self.simulation, entry.generation, index);
            entry.value.as_ref().map(|value| (id, value))
        })
    }

    /// As [`iter`](Registry::iter), to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Id<T>, &mut T)> {
        let simulation = self.simulation;
        self.entries.iter_mut().enumerate().filter_map(move |(index, entry)| {
            let id = Id::new(simulation, entry.generation, index);
            entry.value.as_mut().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u32);
    impl Object for Thing {
        const KIND: Kind = Kind::Event;
        type Raw = u8;
    }
    struct Other;
    impl Object for Other {
        const KIND: Kind = Kind::Stream;
        type Raw = u8;
    }

    #[test]
    fn stale_foreign_and_mistyped_handles_are_not_found() {
        let mut mine = Registry::<Thing>::new(1);
        let mut theirs = Registry::<Thing>::new(2);
        let first = mine.insert(Thing(7));
        theirs.insert(Thing(8));
        assert_eq!(mine.get(first).map(|thing| thing.0), Some(7));
        assert!(theirs.get(first).is_none());
        assert!(Id::<Other>::claimed(first.raw().addr()).is_none());
        assert!(mine.find(0).is_none());
        assert!(mine.find(first.raw().addr() + 1).is_none());
        mine.remove(first);
        let second = mine.insert(Thing(9));
        assert!(mine.get(first).is_none());
        assert_ne!(first, second);
        assert_eq!((mine.len(), mine.find(second.raw().addr())), (1, Some(second)));
    }
}
