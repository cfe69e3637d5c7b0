//! Memory: every allocation that has an address, of devices and pinned on the host.
//!
//! Device addresses lie above what a host address can be and are never given out twice, so that a
//! stale or foreign address is seen. Host memory has its own address on every device (unified
//! addressing).

pub mod accesses;
mod advice;
pub mod bytes;
mod pool;
mod rows;
mod shadow;
mod space;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUresult};

pub(crate) use advice::{Location, PageAdvice};
pub(crate) use bytes::SharedBytes;
pub(crate) use pool::Pool;
pub(crate) use space::{Allocation, AllocationKind, Place, Space};

use crate::context::Context;
use crate::handle::Id;
use crate::live::LiveObjects;

/// The alignment of device allocations.
pub(crate) const ALIGNMENT: usize = 512;

/// Why an access cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Illegal(pub(crate) String);

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The memory of a simulation.
pub(crate) struct Memory {
    /// Replaced on change, so that a kernel reads its own picture without a lock.
    space: RwLock<Arc<Space>>,
    /// The bytes of each device.
    device_bytes: Vec<usize>,
    /// Whether it is known of device memory which bytes were written.
    shadowed: bool,
}

impl Memory {
    /// Nothing allocated.
    pub(crate) fn new(device_bytes: Vec<usize>, shadowed: bool) -> Memory {
        let space = Space::new(device_bytes.len());
        Memory { space: RwLock::new(Arc::new(space)), device_bytes, shadowed }
    }

    /// Fresh bytes of a device.
    fn fresh(&self, len: usize) -> Result<SharedBytes, CUresult> {
        let bytes = SharedBytes::try_new(len).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        Ok(if self.shadowed { bytes.shadowed() } else { bytes })
    }

    /// The allocations as they are now.
    pub(crate) fn snapshot(&self) -> Arc<Space> {
        self.space.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change<R>(&self, change: impl FnOnce(&mut Space) -> R) -> R {
        let mut space = self.space.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut space))
    }

    /// Allocates zeroed memory on a device, from a pool where given. 1 for no bytes, 2 where there is no room.
    pub(crate) fn allocate(
        &self,
        kind: AllocationKind,
        device: usize,
        context: Option<Id<Context>>,
        pool: Option<Id<Pool>>,
        len: usize,
    ) -> Result<u64, CUresult> {
        if len == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if self.free_bytes(device) < len {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let bytes = self.fresh(len)?;
        if kind == AllocationKind::Global {
            // A variable without a value of its own starts as zero.
            bytes.set_written();
        }
        self.change(|space| {
            let start = space.next_address(device, len).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
            let allocation = Allocation::new(kind, start, Arc::new(bytes), device, context);
            space.insert(allocation.of_pool(pool));
            Ok(start)
        })
    }

    /// The bytes in use of a pool.
    pub(crate) fn used_of(&self, pool: Id<Pool>) -> usize {
        self.snapshot().used_of(pool)
    }

    /// Allocates zeroed host memory that devices reach at its own address.
    pub(crate) fn allocate_host(
        &self,
        kind: AllocationKind,
        device: usize,
        context: Option<Id<Context>>,
        len: usize,
        flags: u32,
    ) -> Result<u64, CUresult> {
        if len > 1 << 46 {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let bytes = SharedBytes::try_new(len).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let start = bytes.as_ptr().expose_provenance() as u64;
        self.change(|space| {
            let allocation = Allocation::new(kind, start, Arc::new(bytes), device, context);
            space.insert(allocation.with_flags(flags));
        });
        Ok(start)
    }

    /// Sets an address aside for memory that [`back`](Memory::back) provides later.
    pub(crate) fn reserve(&self, device: usize, len: usize) -> Result<u64, CUresult> {
        self.change(|space| space.next_address(device, len)).ok_or(CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Provides zeroed memory at an address that was set aside, unless there is some already.
    pub(crate) fn back(&self, start: u64, len: usize, device: usize) -> Result<(), CUresult> {
        if self.find(start).is_some() {
            return Ok(());
        }
        if self.free_bytes(device) < len {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let bytes = self.fresh(len)?;
        let kind = AllocationKind::Graph;
        self.change(|space| {
            space.insert(Allocation::new(kind, start, Arc::new(bytes), device, None));
        });
        Ok(())
    }

    /// Makes memory of the program reachable from devices.
    pub(crate) fn register(
        &self,
        bytes: SharedBytes,
        device: usize,
        context: Option<Id<Context>>,
        flags: u32,
    ) -> Result<(), CUresult> {
        let start = bytes.as_ptr().expose_provenance() as u64;
        self.change(|space| {
            let pinned = |found: &Arc<Allocation>| found.kind != AllocationKind::Registered;
            if space.find(start).is_some_and(pinned) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            if space.overlaps(start, bytes.len()) {
                return Err(grapture_sys::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
            }
            let kind = AllocationKind::Registered;
            let allocation = Allocation::new(kind, start, Arc::new(bytes), device, context);
            space.insert(allocation.with_flags(flags));
            Ok(())
        })
    }

    /// Ends the allocation that starts at an address. What still uses it keeps its bytes.
    pub(crate) fn free(&self, start: u64) -> Option<Arc<Allocation>> {
        self.change(|space| space.remove(start))
    }

    /// As [`free`](Memory::free), unless it is to be kept. That is asked while nobody else can
    /// change what there is.
    pub(crate) fn free_unless(&self, start: u64, keep: impl FnOnce() -> bool) {
        self.change(|space| if keep() { None } else { space.remove(start) });
    }

    /// The allocation that an address lies in.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Allocation>> {
        self.space.read().unwrap_or_else(PoisonError::into_inner).find(address).cloned()
    }

    /// Whether an address is that of memory of the program that no device reaches.
    pub(crate) fn is_pageable(&self, address: u64) -> bool {
        matches!(self.snapshot().place(address, 0), Ok(Place::Host))
    }

    /// Whether all of a range lies in one allocation.
    pub(crate) fn covers(&self, address: u64, len: usize) -> bool {
        self.find(address).is_some_and(|found| found.covers(address, len))
    }

    /// The bytes of a device.
    pub(crate) fn total_bytes(&self, device: usize) -> usize {
        self.device_bytes.get(device).copied().unwrap_or(0)
    }

    /// The free bytes of a device.
    pub(crate) fn free_bytes(&self, device: usize) -> usize {
        let space = self.space.read().unwrap_or_else(PoisonError::into_inner);
        self.total_bytes(device).saturating_sub(space.used(device))
    }

    /// Takes away what a context owns.
    pub(crate) fn free_of(&self, context: Id<Context>) {
        self.change(|space| space.remove_where(|allocation| allocation.context == Some(context)));
    }

    /// Reads allocated memory.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Illegal> {
        match self.snapshot().place(address, into.len())? {
            Place::Allocated { bytes, offset } => {
                bytes.read(offset, into).map_err(|reason| Illegal(reason.to_string()))
            }
            Place::Host => Err(unallocated(address)),
        }
    }

    /// Writes allocated memory.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<(), Illegal> {
        match self.snapshot().place(address, from.len())? {
            Place::Allocated { bytes, offset } => {
                bytes.write(offset, from).map_err(|reason| Illegal(reason.to_string()))
            }
            Place::Host => Err(unallocated(address)),
        }
    }

    /// As [`read`](Memory::read), also from memory of the program that the driver knows nothing
    /// of.
    pub(crate) fn read_any(&self, address: u64, into: &mut [u8]) -> Result<(), Illegal> {
        if let Place::Allocated { .. } = self.snapshot().place(address, into.len())? {
            return self.read(address, into);
        }
        let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: the address is below those of devices and in no allocation, so it is the
        // program's: the caller of the copy function gave it as host memory of this length that
        // stays valid and is not written until the copy is done. `into` is our own buffer.
        unsafe { std::ptr::copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// As [`write`](Memory::write), also to memory of the program that the driver knows nothing
    /// of.
    pub(crate) fn write_any(&self, address: u64, from: &[u8]) -> Result<(), Illegal> {
        if let Place::Allocated { .. } = self.snapshot().place(address, from.len())? {
            return self.write(address, from);
        }
        let into = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: as in `read_any`: the caller of the copy function gave the address as host
        // memory of this length that stays valid and is not used until the copy is done.
        unsafe { std::ptr::copy(from.as_ptr(), into, from.len()) };
        Ok(())
    }

    /// Adds what is alive to the count.
    pub(crate) fn count(&self, live: &mut LiveObjects) {
        for allocation in self.snapshot().iter() {
            if !allocation.kind.counts() {
                continue;
            }
            if allocation.kind.is_host() {
                live.pinned += 1;
                live.pinned_bytes += allocation.len();
            } else {
                live.device_allocations += 1;
                live.device_bytes += allocation.len();
            }
        }
    }
}

fn unallocated(address: u64) -> Illegal {
    Illegal(format!("{address:#x} is in no allocation that a device can reach"))
}
