//! What addresses mean: global memory of the caller, shared memory of a block, local memory of a
//! thread, parameters of the launch.

use std::sync::Arc;

use crate::memory::accesses::{AccessKind, Accesses};
use crate::memory::bytes::{AccessError, SharedBytes};
use crate::ptx::fault::FaultKind;
use crate::ptx::types::Space;

use super::local::Local;

/// Where shared memory starts among generic addresses; four gibibytes.
pub const SHARED_WINDOW: u64 = 0xffff_f100_0000_0000;
/// Where local memory starts among generic addresses.
pub const LOCAL_WINDOW: u64 = 0xffff_f200_0000_0000;
/// Where parameters start among generic addresses.
pub const PARAM_WINDOW: u64 = 0xffff_f300_0000_0000;

/// What is added to an address of a space to make it generic.
pub fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Generic | Space::Global | Space::Const => 0,
    }
}

/// The space that a generic address lies in, and the address there.
#[inline]
pub fn classify(address: u64) -> (Space, u64) {
    if address < SHARED_WINDOW {
        return (Space::Global, address);
    }
    match address & !0xffff_ffff {
        SHARED_WINDOW => (Space::Shared, address - SHARED_WINDOW),
        LOCAL_WINDOW => (Space::Local, address - LOCAL_WINDOW),
        PARAM_WINDOW => (Space::Param, address - PARAM_WINDOW),
        _ => (Space::Global, address),
    }
}

/// An allocation: the addresses from `base` on are the bytes from `start` on.
#[derive(Clone, Debug)]
pub struct Region {
    /// The first address.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The bytes, of which the allocation may be a part.
    pub bytes: Arc<SharedBytes>,
    /// Where in `bytes` it starts.
    pub start: usize,
}

impl Region {
    /// A region that is all of `bytes`.
    #[must_use]
    pub fn whole(base: u64, bytes: Arc<SharedBytes>) -> Self {
        Self { base, len: bytes.len() as u64, bytes, start: 0 }
    }

    /// Where in `bytes` an access lies.
    #[inline]
    fn offset(&self, address: u64, len: u64) -> Option<usize> {
        let offset = address.wrapping_sub(self.base);
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| self.start + offset as usize)
    }
}

/// What a kernel's global (and generic) addresses mean.
pub trait GlobalMemory: Sync {
    /// The allocation that contains `address`.
    fn find(&self, address: u64) -> Option<Region>;
}

/// Regions that are remembered.
const REMEMBERED: usize = 8;

/// The regions used last, so that most accesses ask nobody.
struct Cache<'a> {
    memory: &'a dyn GlobalMemory,
    regions: Vec<Region>,
    last: usize,
    next: usize,
}

impl Cache<'_> {
    /// The region of an access.
    #[inline(always)]
    fn region(&mut self, address: u64, len: u64) -> Option<&Region> {
        // Memory can be freed while the kernel runs.
        let holds =
            |region: &Region| region.offset(address, len).is_some() && !region.bytes.is_retired();
        if !self.regions.get(self.last).is_some_and(holds) {
            self.last = match self.regions.iter().position(holds) {
                Some(place) => place,
                None => self.remember(address, len)?,
            };
        }
        self.regions.get(self.last)
    }

    /// Asks for the region of an access; answers its place here.
    #[cold]
    fn remember(&mut self, address: u64, len: u64) -> Option<usize> {
        let region = self.memory.find(address)?;
        region.offset(address, len)?;
        let place = self.next;
        self.next = (place + 1) % REMEMBERED;
        match self.regions.get_mut(place) {
            Some(old) => *old = region,
            None => self.regions.push(region),
        }
        Some(place)
    }

    /// The bytes of an access and the offset in them.
    #[inline]
    fn find(&mut self, address: u64, len: u64) -> Option<(&SharedBytes, usize)> {
        let region = self.region(address, len)?;
        Some((&region.bytes, region.offset(address, len)?))
    }

    /// The region of an address, when it is all of its bytes.
    #[inline(always)]
    fn near(&mut self, address: u64) -> Option<Near<'_>> {
        let region = self.region(address, 1)?;
        if region.bytes.is_shadowed() {
            return None;
        }
        let whole = region.start == 0 && region.len == region.bytes.len() as u64;
        whole.then_some(Near { bytes: &region.bytes, base: region.base })
    }
}

/// The memory that a block sees.
pub struct Memory<'a> {
    global: Cache<'a>,
    /// Shared memory.
    pub shared: SharedBytes,
    params: &'a [u8],
    /// Where accesses to global memory are noted; then each is looked at for itself.
    noted: Option<Accesses>,
    /// The line of the instruction that runs, where accesses are noted.
    pub line: u32,
}

/// The bytes around an address, for accesses that stay near it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near<'m> {
    /// The bytes.
    pub bytes: &'m SharedBytes,
    /// The address of the first of them.
    pub base: u64,
}

impl std::fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// A fault and the lane that caused it.
pub type LaneFault = (FaultKind, u32);

impl<'a> Memory<'a> {
    /// The memory of a block with so much shared memory.
    pub fn new(
        memory: &'a dyn GlobalMemory,
        shared_bytes: usize,
        params: &'a [u8],
        notes: bool,
    ) -> Self {
        let global = Cache { memory, regions: Vec::new(), last: 0, next: 0 };
        let noted = notes.then(Accesses::default);
        Self { global, shared: SharedBytes::new(shared_bytes), params, noted, line: 0 }
    }

    /// Whether accesses to global memory are noted.
    #[inline(always)]
    pub fn notes(&self) -> bool {
        self.noted.is_some()
    }

    /// The accesses since it was asked last.
    pub fn take_notes(&mut self) -> Accesses {
        self.noted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes an access to global memory.
    pub fn note(&mut self, kind: AccessKind, space: Space, address: u64, len: usize) {
        if let (Some(noted), Space::Global | Space::Const) = (&mut self.noted, space) {
            noted.add(kind, self.line, address, len as u64);
        }
    }

    /// The bytes behind an address of global or shared memory.
    #[inline]
    pub fn find(
        &mut self,
        space: Space,
        address: u64,
        len: usize,
    ) -> Result<(&SharedBytes, usize), FaultKind> {
        let illegal = FaultKind::IllegalAddress { address, len, write: true };
        match space {
            Space::Global | Space::Const => self.global.find(address, len as u64).ok_or(illegal),
            Space::Shared => {
                let offset = usize::try_from(address).map_err(|_| illegal)?;
                Ok((&self.shared, offset))
            }
            _ => Err(illegal),
        }
    }

    /// What lies around an address of global or shared memory; `None` where each access has to be
    /// looked at for itself.
    #[inline(always)]
    pub(super) fn near(&mut self, space: Space, address: u64) -> Option<Near<'_>> {
        if self.noted.is_some() {
            return None;
        }
        match space {
            Space::Shared => Some(Near { bytes: &self.shared, base: 0 }),
            Space::Generic => match classify(address) {
                (Space::Shared, _) => Some(Near { bytes: &self.shared, base: SHARED_WINDOW }),
                (Space::Global, _) => self.global.near(address),
                _ => None,
            },
            Space::Global | Space::Const => self.global.near(address),
            Space::Local | Space::Param => None,
        }
    }

    /// Reads for one lane.
    pub(super) fn read(
        &mut self,
        (local, lane): (&Local, usize),
        (space, strong): (Space, bool),
        address: u64,
        len: usize,
    ) -> Result<u64, FaultKind> {
        let (space, at) =
            if space == Space::Generic { classify(address) } else { (space, address) };
        let illegal = FaultKind::IllegalAddress { address, len, write: false };
        if at % len as u64 != 0 {
            return Err(FaultKind::Misaligned { address, len, write: false });
        }
        match space {
            Space::Local => local.read(lane, at, len).ok_or(illegal),
            Space::Param => {
                let slice = range(at, len).and_then(|range| self.params.get(range));
                let mut word = [0; 8];
                for (to, from) in word.iter_mut().zip(slice.ok_or(illegal)?) {
                    *to = *from;
                }
                Ok(u64::from_le_bytes(word))
            }
            _ => {
                let (bytes, offset) = self.find(space, at, len).map_err(|_| illegal)?;
                let value = load(bytes, offset, len);
                let value = value.map_err(|error| refused(error, address, len, false))?;
                if !bytes.is_written(offset, len) {
                    return Err(FaultKind::Uninitialised { address, len });
                }
                self.note(weakly(AccessKind::Read, strong), space, at, len);
                Ok(value)
            }
        }
    }

    /// Writes for one lane.
    pub(super) fn write(
        &mut self,
        (local, lane): (&mut Local, usize),
        (space, strong): (Space, bool),
        address: u64,
        len: usize,
        value: u64,
    ) -> Result<(), FaultKind> {
        let (space, at) =
            if space == Space::Generic { classify(address) } else { (space, address) };
        let illegal = FaultKind::IllegalAddress { address, len, write: true };
        if at % len as u64 != 0 {
            return Err(FaultKind::Misaligned { address, len, write: true });
        }
        if space == Space::Local {
            return local.write(lane, at, len, value).ok_or(illegal);
        }
        let (bytes, offset) = self.find(space, at, len).map_err(|_| illegal)?;
        store(bytes, offset, len, value).map_err(|error| refused(error, address, len, true))?;
        self.note(weakly(AccessKind::Write, strong), space, at, len);
        Ok(())
    }
}

/// What a load or store is: one that is strong counts as atomic.
fn weakly(kind: AccessKind, strong: bool) -> AccessKind {
    if strong { AccessKind::Atomic } else { kind }
}

fn range(at: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(at).ok()?;
    Some(start..start.checked_add(len)?)
}

/// The fault that a refused access is.
pub fn refused(error: AccessError, address: u64, len: usize, write: bool) -> FaultKind {
    match error {
        AccessError::OutOfRange => FaultKind::IllegalAddress { address, len, write },
        AccessError::Misaligned => FaultKind::Misaligned { address, len, write },
    }
}

/// Loads 1, 2, 4 or 8 bytes.
#[inline(always)]
pub(super) fn load(bytes: &SharedBytes, offset: usize, len: usize) -> Result<u64, AccessError> {
    match len {
        1 => bytes.load_u8(offset).map(u64::from),
        2 => bytes.load_u16(offset).map(u64::from),
        4 => bytes.load_u32(offset).map(u64::from),
        _ => bytes.load_u64(offset),
    }
}

/// Stores 1, 2, 4 or 8 bytes.
#[inline(always)]
pub(super) fn store(
    bytes: &SharedBytes,
    offset: usize,
    len: usize,
    value: u64,
) -> Result<(), AccessError> {
    match len {
        1 => bytes.store_u8(offset, value as u8),
        2 => bytes.store_u16(offset, value as u16),
        4 => bytes.store_u32(offset, value as u32),
        _ => bytes.store_u64(offset, value),
    }
}
