//! What addresses mean: global memory of the caller, shared memory of a block, local memory of a
//! thread, parameters of the launch.

use std::sync::Arc;

use crate::memory::bytes::{AccessError, SharedBytes};
use crate::ptx::fault::FaultKind;
use crate::ptx::ir::{Address, Base, Element, NO_REG};
use crate::ptx::types::Space;

use super::registers::{FULL, LANES, Reg, Registers};

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

/// The regions used last, so that most accesses ask nobody.
struct Cache<'a> {
    memory: &'a dyn GlobalMemory,
    regions: [Option<Region>; 8],
    last: usize,
    next: usize,
}

impl Cache<'_> {
    /// The region of an access and the offset in its bytes.
    #[inline]
    fn find(&mut self, address: u64, len: u64) -> Option<(&SharedBytes, usize)> {
        let hit = |region: &Option<Region>| {
            region.as_ref().and_then(|region| region.offset(address, len))
        };
        if self.regions.get(self.last).and_then(hit).is_none() {
            match self.regions.iter().position(|region| hit(region).is_some()) {
                Some(index) => self.last = index,
                None => {
                    let region = self.memory.find(address)?;
                    region.offset(address, len)?;
                    self.last = self.next;
                    self.next = (self.next + 1) % self.regions.len();
                    if let Some(slot) = self.regions.get_mut(self.last) {
                        *slot = Some(region);
                    }
                }
            }
        }
        let region = self.regions.get(self.last)?.as_ref()?;
        Some((&region.bytes, region.offset(address, len)?))
    }
}

/// The local memory of a warp's threads.
pub type LocalMemory = [Vec<u8>; LANES];

/// The memory that a block sees.
pub struct Memory<'a> {
    global: Cache<'a>,
    /// Shared memory.
    pub shared: SharedBytes,
    params: &'a [u8],
}

impl std::fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The addresses of all lanes.
#[inline]
pub fn addresses(regs: &Registers, address: Address, frame: u32) -> [u64; LANES] {
    let offset = address.offset as u64;
    match address.base {
        Base::Absolute => [offset; LANES],
        Base::Frame => [offset.wrapping_add(u64::from(frame)); LANES],
        Base::Wide(reg) => {
            let base = regs.wide.get(reg);
            std::array::from_fn(|lane| base[lane].wrapping_add(offset))
        }
        Base::Narrow(reg) => {
            // Addresses of 32 bits wrap at 32 bits.
            let base = regs.narrow.get(reg);
            std::array::from_fn(|lane| u64::from(base[lane].wrapping_add(offset as u32)))
        }
    }
}

/// A fault and the lane that caused it.
pub type LaneFault = (FaultKind, u32);

impl<'a> Memory<'a> {
    /// The memory of a block with so much shared memory.
    pub fn new(memory: &'a dyn GlobalMemory, shared_bytes: usize, params: &'a [u8]) -> Self {
        let global = Cache { memory, regions: [const { None }; 8], last: 0, next: 0 };
        Self { global, shared: SharedBytes::new(shared_bytes), params }
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

    fn read(
        &mut self,
        local: &[u8],
        space: Space,
        address: u64,
        len: usize,
    ) -> Result<u64, FaultKind> {
        let (space, at) =
            if space == Space::Generic { classify(address) } else { (space, address) };
        let illegal = FaultKind::IllegalAddress { address, len, write: false };
        if at % len as u64 != 0 {
            return Err(FaultKind::Misaligned { address, len, write: false });
        }
        let plain = match space {
            Space::Local => local,
            Space::Param => self.params,
            _ => {
                let (bytes, offset) = self.find(space, at, len).map_err(|_| illegal)?;
                return match len {
                    1 => bytes.load_u8(offset).map(u64::from),
                    2 => bytes.load_u16(offset).map(u64::from),
                    4 => bytes.load_u32(offset).map(u64::from),
                    _ => bytes.load_u64(offset),
                }
                .map_err(|error| refused(error, address, len, false));
            }
        };
        let slice = range(at, len).and_then(|range| plain.get(range)).ok_or(illegal)?;
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(slice) {
            *to = *from;
        }
        Ok(u64::from_le_bytes(word))
    }

    fn write(
        &mut self,
        local: &mut [u8],
        space: Space,
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
            let slice = range(at, len).and_then(|range| local.get_mut(range)).ok_or(illegal)?;
            for (to, from) in slice.iter_mut().zip(value.to_le_bytes()) {
                *to = from;
            }
            return Ok(());
        }
        let (bytes, offset) = self.find(space, at, len).map_err(|_| illegal)?;
        match len {
            1 => bytes.store_u8(offset, value as u8),
            2 => bytes.store_u16(offset, value as u16),
            4 => bytes.store_u32(offset, value as u32),
            _ => bytes.store_u64(offset, value),
        }
        .map_err(|error| refused(error, address, len, true))
    }

    /// Whether all lanes access neighbouring global or shared memory; then the bytes and offset.
    #[inline]
    fn row(
        &mut self,
        space: Space,
        at: &[u64; LANES],
        len: usize,
    ) -> Option<(&SharedBytes, usize)> {
        let first = at[0];
        let mut neighbours = true;
        for (lane, address) in at.iter().enumerate() {
            neighbours &= *address == first.wrapping_add((lane * len) as u64);
        }
        if !neighbours {
            return None;
        }
        let (space, first) = if space == Space::Generic { classify(first) } else { (space, first) };
        if matches!(space, Space::Local | Space::Param) {
            return None;
        }
        self.find(space, first, LANES * len).ok()
    }

    /// Loads into a register, in the lanes of `mask`; `skip` bytes past each address.
    pub fn load(
        &mut self,
        regs: &mut Registers,
        local: &LocalMemory,
        (space, element, d): (Space, Element, Reg),
        at: &[u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        let len = usize::from(element.bytes);
        if mask == FULL
            && len >= 4
            && usize::from(element.width) == 8 * len
            && let Some((bytes, offset)) = self.row(space, at, len)
        {
            let loaded = if len == 4 {
                bytes.load_u32s(offset, regs.narrow.get_mut(d))
            } else {
                bytes.load_u64s(offset, regs.wide.get_mut(d))
            };
            if loaded.is_ok() {
                return Ok(());
            }
        }
        if mask == FULL && uniform_space(space, at[0]) && at.iter().all(|address| *address == at[0])
        {
            let value = self.read(&[], space, at[0], len).map_err(|kind| (kind, 0))?;
            let value = extend(value, element);
            match element.width {
                64 => *regs.wide.get_mut(d) = [value; LANES],
                _ => *regs.narrow.get_mut(d) = [value as u32; LANES],
            }
            return Ok(());
        }
        let mut rest = mask;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            let index = lane as usize;
            let value =
                self.read(&local[index], space, at[index], len).map_err(|kind| (kind, lane))?;
            let value = extend(value, element);
            match element.width {
                64 => regs.wide.get_mut(d)[index] = value,
                _ => regs.narrow.get_mut(d)[index] = value as u32,
            }
        }
        Ok(())
    }

    /// Stores a register, in the lanes of `mask`.
    pub fn store(
        &mut self,
        regs: &Registers,
        local: &mut LocalMemory,
        (space, element, a): (Space, Element, Reg),
        at: &[u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        let len = usize::from(element.bytes);
        if mask == FULL
            && len >= 4
            && usize::from(element.width) == 8 * len
            && let Some((bytes, offset)) = self.row(space, at, len)
        {
            let stored = if len == 4 {
                bytes.store_u32s(offset, regs.narrow.get(a))
            } else {
                bytes.store_u64s(offset, regs.wide.get(a))
            };
            if stored.is_ok() {
                return Ok(());
            }
        }
        let mut rest = mask;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            let index = lane as usize;
            let value = match element.width {
                64 => regs.wide.get(a)[index],
                _ => u64::from(regs.narrow.get(a)[index]),
            };
            self.write(&mut local[index], space, at[index], len, value)
                .map_err(|kind| (kind, lane))?;
        }
        Ok(())
    }
}

impl Memory<'_> {
    /// Loads neighbouring elements into the registers of a list; an absent register is skipped.
    pub fn load_list(
        &mut self,
        regs: &mut Registers,
        local: &LocalMemory,
        (space, element, list): (Space, Element, &[Reg]),
        mut at: [u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        aligned(&at, list.len() * usize::from(element.bytes), mask, false)?;
        for reg in list {
            if *reg != NO_REG {
                self.load(regs, local, (space, element, *reg), &at, mask)?;
            }
            at = at.map(|address| address.wrapping_add(u64::from(element.bytes)));
        }
        Ok(())
    }

    /// Stores the registers of a list as neighbouring elements.
    pub fn store_list(
        &mut self,
        regs: &Registers,
        local: &mut LocalMemory,
        (space, element, list): (Space, Element, &[Reg]),
        mut at: [u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        aligned(&at, list.len() * usize::from(element.bytes), mask, true)?;
        for reg in list {
            self.store(regs, local, (space, element, *reg), &at, mask)?;
            at = at.map(|address| address.wrapping_add(u64::from(element.bytes)));
        }
        Ok(())
    }
}

/// Whether every address is a multiple of the access size.
fn aligned(at: &[u64; LANES], len: usize, mask: u32, write: bool) -> Result<(), LaneFault> {
    let wrong =
        |lane: &u32| mask >> lane & 1 != 0 && !at[*lane as usize].is_multiple_of(len as u64);
    match (0..LANES as u32).find(wrong) {
        Some(lane) => Err((FaultKind::Misaligned { address: at[lane as usize], len, write }, lane)),
        None => Ok(()),
    }
}

/// Whether an address means the same to all threads of a block.
fn uniform_space(space: Space, address: u64) -> bool {
    let (space, _) = if space == Space::Generic { classify(address) } else { (space, address) };
    space != Space::Local
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

/// Extends a loaded value to its register.
#[inline]
fn extend(value: u64, element: Element) -> u64 {
    if !element.signed {
        return value;
    }
    let unused = 64 - 8 * u32::from(element.bytes);
    let extended = (((value << unused) as i64) >> unused) as u64;
    extended & (u64::MAX >> (64 - u32::from(element.width)))
}
