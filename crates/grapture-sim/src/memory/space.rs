//! [`Space`]: which allocation an address lies in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::advice::Advice;
use super::{ALIGNMENT, Illegal, Pool, SharedBytes};
use crate::context::Context;
use crate::handle::Id;
use crate::origin::Origin;

/// No program has memory below this.
const HOST_BASE: u64 = 1 << 12;
/// Where the addresses of devices begin: above every address of a program.
const DEVICE_BASE: u64 = 1 << 50;
/// The addresses of one device.
const DEVICE_SPAN: u64 = 1 << 46;
/// How many freed ranges are remembered, to say of an address that it was freed.
const REMEMBERED: usize = 1024;

/// How an allocation came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocationKind {
    /// `cuMemAlloc`, `cuMemAllocPitch`.
    Device,
    /// `cuMemAllocAsync` and `cuMemAllocFromPoolAsync`.
    Pooled,
    /// An allocation node of a graph.
    Graph,
    /// A global variable of a module.
    Global,
    /// `cuMemHostAlloc`, `cuMemAllocHost`.
    Pinned,
    /// `cuMemHostRegister`.
    Registered,
    /// `cuMemAllocManaged`.
    Managed,
}

impl AllocationKind {
    /// Whether the bytes are the program's or reachable by it.
    pub(crate) fn is_host(self) -> bool {
        use AllocationKind::{Managed, Pinned, Registered};
        matches!(self, Pinned | Registered | Managed)
    }

    /// What made it, for a person.
    fn maker(self) -> &'static str {
        match self {
            AllocationKind::Device => "cuMemAlloc",
            AllocationKind::Pooled => "cuMemAllocAsync",
            AllocationKind::Graph => "an allocation node",
            AllocationKind::Global => "a module for a variable",
            AllocationKind::Pinned => "cuMemHostAlloc",
            AllocationKind::Registered => "cuMemHostRegister",
            AllocationKind::Managed => "cuMemAllocManaged",
        }
    }

    /// Whether the program has to give it back itself.
    pub(crate) fn counts(self) -> bool {
        self != AllocationKind::Global
    }
}

/// An allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// How it came to be.
    pub(crate) kind: AllocationKind,
    /// Its first address.
    pub(crate) start: u64,
    /// Its bytes.
    pub(crate) bytes: Arc<SharedBytes>,
    /// The device's ordinal.
    pub(crate) device: usize,
    /// The context that it was made in.
    pub(crate) context: Option<Id<Context>>,
    /// The pool that it came from.
    pub(crate) pool: Option<Id<Pool>>,
    /// A number that no other allocation has.
    pub(crate) id: u64,
    /// The call that made it.
    pub(crate) origin: Option<Origin>,
    /// The flags that host memory was made or registered with, as they are told back.
    pub(crate) flags: u32,
    /// Whether copies were asked to wait for their end.
    pub(crate) waits: AtomicBool,
    /// What was said of managed memory.
    pub(crate) advice: Mutex<Advice>,
    /// Whether a free of it is under way.
    doomed: AtomicBool,
}

impl Allocation {
    /// An allocation of these bytes at this address.
    pub(crate) fn new(
        kind: AllocationKind,
        start: u64,
        bytes: Arc<SharedBytes>,
        device: usize,
        context: Option<Id<Context>>,
    ) -> Allocation {
        let doomed = AtomicBool::new(false);
        Allocation {
            kind,
            start,
            bytes,
            device,
            context,
            pool: None,
            id: 0,
            origin: Origin::current(),
            flags: 0,
            waits: AtomicBool::new(kind == AllocationKind::Managed),
            advice: Mutex::default(),
            doomed,
        }
    }

    /// The same, from a pool.
    pub(super) fn of_pool(self, pool: Option<Id<Pool>>) -> Allocation {
        Allocation { pool, ..self }
    }

    /// The same, of host memory that was made with flags.
    pub(super) fn with_flags(self, flags: u32) -> Allocation {
        Allocation { flags, ..self }
    }

    /// Marks it as about to be freed; false if it was already.
    pub(crate) fn doom(&self) -> bool {
        !self.doomed.swap(true, Ordering::AcqRel)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all of a range lies in it.
    pub(crate) fn covers(&self, address: u64, len: usize) -> bool {
        let end = address.checked_add(len as u64);
        address >= self.start && end.is_some_and(|end| end <= self.end())
    }

    fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    /// Where and how large it is, and what made it.
    pub(crate) fn describe(&self) -> String {
        describe(self.start, self.len(), self.kind)
    }
}

fn describe(start: u64, len: usize, kind: AllocationKind) -> String {
    format!("{len} bytes at {start:#x} made by {}", kind.maker())
}

/// Where a range of addresses lies.
pub(crate) enum Place<'a> {
    /// In an allocation.
    Allocated {
        /// Its bytes.
        bytes: &'a Arc<SharedBytes>,
        /// The offset in them.
        offset: usize,
    },
    /// In memory of the program that no device reaches.
    Host,
}

/// All allocations, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    allocations: BTreeMap<u64, Arc<Allocation>>,
    /// Per device: the next address, and the bytes in use.
    next: Vec<u64>,
    used: Vec<usize>,
    freed: VecDeque<(u64, usize, AllocationKind)>,
    last_id: u64,
}

impl Space {
    /// An empty one.
    pub(super) fn new(devices: usize) -> Space {
        let next = (0..devices as u64).map(|device| DEVICE_BASE + device * DEVICE_SPAN).collect();
        Space { next, used: vec![0; devices], ..Space::default() }
    }

    /// An address for `len` bytes that was never given out, with a gap behind it.
    pub(super) fn next_address(&mut self, device: usize, len: usize) -> Option<u64> {
        let next = self.next.get_mut(device)?;
        let start = *next;
        let step = len.checked_add(2 * ALIGNMENT)? / ALIGNMENT * ALIGNMENT;
        let end = start.checked_add(step as u64)?;
        if end > DEVICE_BASE + (device as u64 + 1) * DEVICE_SPAN {
            return None;
        }
        *next = end;
        Some(start)
    }

    pub(super) fn insert(&mut self, mut allocation: Allocation) {
        self.last_id += 1;
        allocation.id = self.last_id;
        self.account(&allocation, usize::saturating_add);
        self.allocations.insert(allocation.start, Arc::new(allocation));
    }

    pub(super) fn remove(&mut self, start: u64) -> Option<Arc<Allocation>> {
        let allocation = self.allocations.remove(&start)?;
        self.account(&allocation, usize::saturating_sub);
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back((start, allocation.len(), allocation.kind));
        allocation.bytes.retire();
        Some(allocation)
    }

    pub(super) fn remove_where(&mut self, doomed: impl Fn(&Allocation) -> bool) {
        let starts: Vec<u64> =
            self.allocations.values().filter(|a| doomed(a)).map(|a| a.start).collect();
        for start in starts {
            self.remove(start);
        }
    }

    fn account(&mut self, allocation: &Allocation, change: fn(usize, usize) -> usize) {
        if !allocation.kind.is_host()
            && let Some(used) = self.used.get_mut(allocation.device)
        {
            *used = change(*used, allocation.len());
        }
    }

    /// The bytes in use on a device.
    pub(super) fn used(&self, device: usize) -> usize {
        self.used.get(device).copied().unwrap_or(0)
    }

    /// The bytes in use of a pool.
    pub(super) fn used_of(&self, pool: Id<Pool>) -> usize {
        self.allocations.values().filter(|a| a.pool == Some(pool)).map(|a| a.len()).sum()
    }

    /// All allocations.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.allocations.values()
    }

    /// The allocation that an address lies in; an empty one at its start.
    pub(crate) fn find(&self, address: u64) -> Option<&Arc<Allocation>> {
        let (_, below) = self.allocations.range(..=address).next_back()?;
        (address < below.end() || address == below.start).then_some(below)
    }

    pub(super) fn overlaps(&self, start: u64, len: usize) -> bool {
        let end = start.saturating_add(len as u64);
        let below = self.allocations.range(..end).next_back();
        below.is_some_and(|(_, allocation)| allocation.end() > start)
    }

    /// Where a range of addresses lies. An error says what is wrong with it.
    pub(crate) fn place(&self, address: u64, len: usize) -> Result<Place<'_>, Illegal> {
        match self.find(address) {
            Some(found) if found.covers(address, len) => {
                let offset = (address - found.start) as usize;
                Ok(Place::Allocated { bytes: &found.bytes, offset })
            }
            Some(found) => Err(Illegal(format!(
                "{len} bytes at {address:#x} reach past the end of the allocation of {}",
                found.describe()
            ))),
            None if !(HOST_BASE..DEVICE_BASE).contains(&address) => Err(self.lost(address, len)),
            None => Ok(Place::Host),
        }
    }

    /// The freed memory that an address lay in.
    fn was(&self, address: u64) -> Option<(u64, usize, AllocationKind)> {
        let held = |(start, size, _): &&(u64, usize, AllocationKind)| {
            (*start..*start + *size as u64).contains(&address)
        };
        self.freed.iter().rev().find(held).copied()
    }

    /// What an address lies in, or lay in.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        if let Some(found) = self.find(address) {
            return Some(found.describe());
        }
        let (start, size, kind) = self.was(address)?;
        Some(format!("{}, freed since", describe(start, size, kind)))
    }

    /// What can be said of an address that lies in nothing.
    pub(crate) fn lost(&self, address: u64, len: usize) -> Illegal {
        if let Some((start, size, kind)) = self.was(address) {
            return Illegal(format!(
                "{len} bytes at {address:#x} lie in memory that was freed: {}",
                describe(start, size, kind)
            ));
        }
        if let Some(found) = self.find(address) {
            return Illegal(format!(
                "{len} bytes at {address:#x} reach past the end of the allocation of {}",
                found.describe()
            ));
        }
        match self.allocations.range(..=address).next_back() {
            Some((_, below)) if address < below.end() => Illegal(format!(
                "{len} bytes at {address:#x} run past the end of the allocation of {} bytes at {:#x}",
                below.len(),
                below.start
            )),
            Some((_, below)) if address - below.end() < (ALIGNMENT * 2) as u64 => Illegal(format!(
                "{len} bytes at {address:#x} lie {} bytes past the end of the allocation of {}",
                address - below.end(),
                below.describe()
            )),
            _ => Illegal(format!("{len} bytes at {address:#x} lie in no allocation")),
        }
    }
}
