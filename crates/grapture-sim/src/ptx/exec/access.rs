//! Loads and stores of all lanes.
//!
//! What lanes do together is looked for first: neighbouring elements are copied as a block, one
//! address is read once, and lanes that stay in one allocation look it up once.

use super::local::Local;
use super::memory::{LaneFault, Memory, Near, load, store};
use super::registers::{FULL, LANES, Reg, Registers, blend};
use crate::ptx::fault::FaultKind;
use crate::ptx::ir::{Address, Base, Element, NO_REG};
use crate::ptx::types::Space;
use crate::ptx::vectors::{apart_32, apart_64};

/// The longest vector, in elements.
const LONGEST: usize = 8;

/// The addresses of an instruction.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // it lives on the stack, for one instruction
pub enum At {
    /// The same in every lane.
    Same(u64),
    /// By lane.
    Each([u64; LANES]),
}

impl At {
    /// What an address means in a frame of local memory that starts at `frame`.
    #[inline(always)]
    pub fn of(regs: &Registers, address: Address, frame: u32) -> Self {
        let offset = address.offset as u64;
        match address.base {
            Base::Absolute => Self::Same(offset),
            Base::Frame => Self::Same(offset.wrapping_add(u64::from(frame))),
            Base::Wide(reg) => {
                let base = regs.wide.get(reg);
                Self::Each(std::array::from_fn(|lane| base[lane].wrapping_add(offset)))
            }
            Base::Narrow(reg) => {
                // Addresses of 32 bits wrap at 32 bits.
                let base = regs.narrow.get(reg);
                let at = |lane: usize| u64::from(base[lane].wrapping_add(offset as u32));
                Self::Each(std::array::from_fn(at))
            }
        }
    }

    /// By lane.
    #[inline(always)]
    pub fn lanes(self) -> [u64; LANES] {
        match self {
            Self::Same(at) => [at; LANES],
            Self::Each(at) => at,
        }
    }

    fn plus(self, bytes: u64) -> Self {
        match self {
            Self::Same(at) => Self::Same(at.wrapping_add(bytes)),
            Self::Each(at) => Self::Each(at.map(|at| at.wrapping_add(bytes))),
        }
    }
}

/// Lanes that are looked at together when not all of a warp agree, as where a row of a block is
/// shorter than a warp.
const PART: usize = 8;

/// What the addresses of all lanes have in common.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Neighbours of the size of the access, from this address on.
    Row(u64),
    /// The same in all.
    Same(u64),
    /// Nothing that was looked for.
    None,
}

impl Pattern {
    #[inline(always)]
    fn of(regs: &Registers, address: Address, len: usize) -> Self {
        let offset = address.offset as u64;
        let rest = LANES as u64 - 1;
        match address.base {
            Base::Wide(reg) => {
                let base = regs.wide.get(reg);
                let (first, span) = (base[0].wrapping_add(offset), base[31].wrapping_sub(base[0]));
                // The ends are looked at first, because they mostly settle it.
                if span == rest * len as u64 && apart_64(base, len as u64) {
                    Self::Row(first)
                } else if span == 0 && apart_64(base, 0) {
                    Self::Same(first)
                } else {
                    Self::None
                }
            }
            Base::Narrow(reg) => {
                // A row that wraps at 32 bits lies beyond all shared memory, and is then not taken.
                let base = regs.narrow.get(reg);
                let first = u64::from(base[0].wrapping_add(offset as u32));
                let span = base[31].wrapping_sub(base[0]);
                if span == rest as u32 * len as u32 && apart_32(base, len as u32) {
                    Self::Row(first)
                } else if span == 0 && apart_32(base, 0) {
                    Self::Same(first)
                } else {
                    Self::None
                }
            }
            Base::Absolute | Base::Frame => Self::None,
        }
    }
}

/// The lanes of a mask.
#[inline(always)]
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < LANES as u32).then_some(lane as usize)
    })
}

impl Near<'_> {
    /// Loads for as many lanes of the mask as it can; answers which are left.
    #[inline(always)]
    fn gather(self, at: &[u64; LANES], len: usize, mask: u32, out: &mut [u64; LANES]) -> u32 {
        let mut left = 0;
        for lane in lanes(mask) {
            match load(self.bytes, self.offset(at[lane]), len) {
                Ok(value) => out[lane] = value,
                Err(_) => left |= 1 << lane,
            }
        }
        left
    }

    /// Loads 32-bit elements for all lanes, `past` their addresses, a part of the lanes at a time;
    /// whether that was possible.
    #[inline(always)]
    fn gather_parts(self, at: &[u64; LANES], past: u64, out: &mut [u32; LANES]) -> bool {
        let (at, _) = at.as_chunks::<PART>();
        let (out, _) = out.as_chunks_mut::<PART>();
        for (at, out) in at.iter().zip(out) {
            let offset = self.offset(at[0].wrapping_add(past));
            let step = at[1].wrapping_sub(at[0]);
            let done = if step == 4 && apart_64(at, 4) {
                self.bytes.load_u32s(offset, out)
            } else if step == 0 && apart_64(at, 0) {
                self.bytes.load_u32(offset).map(|value| *out = [value; PART])
            } else {
                let load = |(out, at): (&mut u32, &u64)| {
                    let offset = self.offset(at.wrapping_add(past));
                    self.bytes.load_u32(offset).map(|value| *out = value)
                };
                out.iter_mut().zip(at).try_for_each(load)
            };
            if done.is_err() {
                return false;
            }
        }
        true
    }

    /// Stores for as many lanes of the mask as it can; answers which are left.
    #[inline(always)]
    fn scatter(self, at: &[u64; LANES], len: usize, mask: u32, values: &[u64; LANES]) -> u32 {
        let mut left = 0;
        for lane in lanes(mask) {
            if store(self.bytes, self.offset(at[lane]), len, values[lane]).is_err() {
                left |= 1 << lane;
            }
        }
        left
    }

    /// Where an address lies in the bytes; beyond them when it lies elsewhere.
    #[inline(always)]
    fn offset(self, address: u64) -> usize {
        address.wrapping_sub(self.base) as usize
    }
}

impl Memory<'_> {
    /// Loads into a register, in the lanes of `mask`; the frame of local memory is at `frame`.
    #[inline(always)]
    pub fn load(
        &mut self,
        regs: &mut Registers,
        local: &Local,
        (space, element, d): (Space, Element, Reg),
        (address, frame): (Address, u32),
        mask: u32,
    ) -> Result<(), LaneFault> {
        if mask == FULL && element.fills() {
            match Pattern::of(regs, address, usize::from(element.bytes)) {
                Pattern::Row(first) if self.load_row(regs, space, element, d, first) => {
                    return Ok(());
                }
                Pattern::Same(at) if space != Space::Local => {
                    return self.load_same(regs, local, (space, element, d), at, mask);
                }
                Pattern::None if self.load_parts(regs, space, element, d, address) => {
                    return Ok(());
                }
                _ => {}
            }
        }
        self.load_at(regs, local, (space, element, d), &At::of(regs, address, frame), mask)
    }

    /// Loads neighbouring elements as a block; whether that was possible.
    #[inline(always)]
    fn load_row(
        &mut self,
        regs: &mut Registers,
        space: Space,
        element: Element,
        d: Reg,
        first: u64,
    ) -> bool {
        let Some(near) = self.near(space, first) else { return false };
        let offset = near.offset(first);
        let loaded = match element.width {
            64 => near.bytes.load_u64s(offset, regs.wide.get_mut(d)),
            _ => near.bytes.load_u32s(offset, regs.narrow.get_mut(d)),
        };
        loaded.is_ok()
    }

    /// Loads 32-bit elements at 64-bit addresses, a part of the lanes at a time; whether that was
    /// possible.
    #[inline(always)]
    fn load_parts(
        &mut self,
        regs: &mut Registers,
        space: Space,
        element: Element,
        d: Reg,
        address: Address,
    ) -> bool {
        let Base::Wide(reg) = address.base else { return false };
        if element.bytes != 4 {
            return false;
        }
        let offset = address.offset as u64;
        let at = regs.wide.get(reg);
        let Some(near) = self.near(space, at[0].wrapping_add(offset)) else { return false };
        near.gather_parts(at, offset, regs.narrow.get_mut(d))
    }

    /// Loads from addresses that are no row.
    #[inline(always)]
    fn load_at(
        &mut self,
        regs: &mut Registers,
        local: &Local,
        what: (Space, Element, Reg),
        at: &At,
        mask: u32,
    ) -> Result<(), LaneFault> {
        match at {
            At::Same(at) => self.load_same(regs, local, what, *at, mask),
            At::Each(at) if mask == FULL && what.0 != Space::Local && apart_64(at, 0) => {
                self.load_same(regs, local, what, at[0], mask)
            }
            At::Each(at) => self.load_each(regs, local, what, at, mask),
        }
    }

    /// Loads from one address for all lanes.
    fn load_same(
        &mut self,
        regs: &mut Registers,
        local: &Local,
        (space, element, d): (Space, Element, Reg),
        at: u64,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let (len, first) = (usize::from(element.bytes), mask.trailing_zeros());
        if matches!(space, Space::Local | Space::Generic) {
            if space == Space::Local
                && len == 4
                && element.fills()
                && at.is_multiple_of(4)
                && let Some(word) = local.word(at)
            {
                regs.narrow.put(d, word, mask);
                return Ok(());
            }
            return self.load_each(regs, local, (space, element, d), &[at; LANES], mask);
        }
        let value = self
            .read((local, 0), (space, element.strong), at, len)
            .map_err(|kind| (kind, first))?;
        let value = element.extend(value);
        match element.width {
            64 => regs.wide.put(d, &[value; LANES], mask),
            _ => regs.narrow.put(d, &[value as u32; LANES], mask),
        }
        Ok(())
    }

    /// Loads lane by lane.
    #[inline(always)]
    fn load_each(
        &mut self,
        regs: &mut Registers,
        local: &Local,
        (space, element, d): (Space, Element, Reg),
        at: &[u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        let first = at[mask.trailing_zeros() as usize % LANES];
        let near = self.near(space, first);
        if mask == FULL
            && element.bytes == 4
            && element.fills()
            && let Some(near) = near
            && near.gather_parts(at, 0, regs.narrow.get_mut(d))
        {
            return Ok(());
        }
        let mut out = [0; LANES];
        let left = match (near, element.bytes) {
            (None, _) => mask,
            // A copy of the loop for each size, so that none asks for it in every lane.
            (Some(near), 1) => near.gather(at, 1, mask, &mut out),
            (Some(near), 2) => near.gather(at, 2, mask, &mut out),
            (Some(near), 4) => near.gather(at, 4, mask, &mut out),
            (Some(near), _) => near.gather(at, 8, mask, &mut out),
        };
        for lane in lanes(left) {
            out[lane] = self
                .read((local, lane), (space, element.strong), at[lane], usize::from(element.bytes))
                .map_err(|kind| (kind, lane as u32))?;
        }
        for value in &mut out {
            *value = element.extend(*value);
        }
        if element.width == 64 {
            regs.wide.put(d, &out, mask);
        } else {
            regs.narrow.put(d, &std::array::from_fn(|lane| out[lane] as u32), mask);
        }
        Ok(())
    }

    /// Stores a register, in the lanes of `mask`; the frame of local memory is at `frame`.
    #[inline(always)]
    pub fn store(
        &mut self,
        regs: &Registers,
        local: &mut Local,
        (space, element, a): (Space, Element, Reg),
        (address, frame): (Address, u32),
        mask: u32,
    ) -> Result<(), LaneFault> {
        if mask == FULL
            && element.fills()
            && let Pattern::Row(first) = Pattern::of(regs, address, usize::from(element.bytes))
            && let Some(near) = self.near(space, first)
        {
            let offset = near.offset(first);
            let stored = match element.width {
                64 => near.bytes.store_u64s(offset, regs.wide.get(a)),
                _ => near.bytes.store_u32s(offset, regs.narrow.get(a)),
            };
            if stored.is_ok() {
                return Ok(());
            }
        }
        self.store_at(regs, local, (space, element, a), &At::of(regs, address, frame), mask)
    }

    /// Stores to addresses that are no row.
    #[inline(always)]
    fn store_at(
        &mut self,
        regs: &Registers,
        local: &mut Local,
        (space, element, a): (Space, Element, Reg),
        at: &At,
        mask: u32,
    ) -> Result<(), LaneFault> {
        if let At::Same(at) = at
            && space == Space::Local
            && element.bytes == 4
            && element.fills()
            && at.is_multiple_of(4)
            && let Some(word) = local.word_mut(*at)
        {
            blend(word, regs.narrow.get(a), mask);
            return Ok(());
        }
        self.store_each(regs, local, (space, element, a), &at.lanes(), mask)
    }

    /// Stores lane by lane.
    #[inline(always)]
    fn store_each(
        &mut self,
        regs: &Registers,
        local: &mut Local,
        (space, element, a): (Space, Element, Reg),
        at: &[u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        let values = match element.width {
            64 => *regs.wide.get(a),
            _ => regs.narrow.get(a).map(u64::from),
        };
        let first = at[mask.trailing_zeros() as usize % LANES];
        let left = match (self.near(space, first), element.bytes) {
            (None, _) => mask,
            (Some(near), 1) => near.scatter(at, 1, mask, &values),
            (Some(near), 2) => near.scatter(at, 2, mask, &values),
            (Some(near), 4) => near.scatter(at, 4, mask, &values),
            (Some(near), _) => near.scatter(at, 8, mask, &values),
        };
        for lane in lanes(left) {
            let len = usize::from(element.bytes);
            self.write((local, lane), (space, element.strong), at[lane], len, values[lane])
                .map_err(|kind| (kind, lane as u32))?;
        }
        Ok(())
    }

    /// Where the lists of all lanes lie one behind the other, each of `count` elements that fill a
    /// register, and the address of the first.
    fn row_of_lists(
        &mut self,
        (space, element): (Space, Element),
        at: &At,
        count: usize,
        mask: u32,
    ) -> Option<(Near<'_>, u64)> {
        let At::Each(at) = at else { return None };
        let list = count * usize::from(element.bytes);
        let row = mask == FULL && element.fills() && element.width == 32;
        if !row || !apart_64(at, list as u64) {
            return None;
        }
        Some((self.near(space, at[0])?, at[0]))
    }

    /// Loads neighbouring elements into the registers of a list; an absent register is skipped.
    pub fn load_list(
        &mut self,
        regs: &mut Registers,
        local: &Local,
        (space, element, list): (Space, Element, &[Reg]),
        (address, frame): (Address, u32),
        mask: u32,
    ) -> Result<(), LaneFault> {
        let at = At::of(regs, address, frame);
        let len = usize::from(element.bytes);
        aligned(&at, list.len() * len, mask, false)?;
        if let Some((near, start)) = self.row_of_lists((space, element), &at, list.len(), mask) {
            let mut all = [0; LANES * LONGEST];
            let (all, _) = all.split_at_mut(LANES * list.len().min(LONGEST));
            if near.bytes.load_u32s(near.offset(start), all).is_ok() {
                for (index, reg) in list.iter().enumerate().filter(|(_, reg)| **reg != NO_REG) {
                    let row = regs.narrow.get_mut(*reg);
                    for (value, element) in row.iter_mut().zip(all.chunks_exact(list.len())) {
                        *value = element[index];
                    }
                }
                return Ok(());
            }
        }
        for (index, reg) in list.iter().enumerate().filter(|(_, reg)| **reg != NO_REG) {
            let at = at.plus((index * len) as u64);
            self.load_at(regs, local, (space, element, *reg), &at, mask)?;
        }
        Ok(())
    }

    /// Stores the registers of a list as neighbouring elements.
    pub fn store_list(
        &mut self,
        regs: &Registers,
        local: &mut Local,
        (space, element, list): (Space, Element, &[Reg]),
        (address, frame): (Address, u32),
        mask: u32,
    ) -> Result<(), LaneFault> {
        let at = At::of(regs, address, frame);
        let len = usize::from(element.bytes);
        aligned(&at, list.len() * len, mask, true)?;
        if let Some((near, start)) = self.row_of_lists((space, element), &at, list.len(), mask) {
            let mut all = [0; LANES * LONGEST];
            let (all, _) = all.split_at_mut(LANES * list.len().min(LONGEST));
            for (index, reg) in list.iter().enumerate() {
                let row = regs.narrow.get(*reg);
                for (value, element) in row.iter().zip(all.chunks_exact_mut(list.len())) {
                    element[index] = *value;
                }
            }
            if near.bytes.store_u32s(near.offset(start), all).is_ok() {
                return Ok(());
            }
        }
        for (index, reg) in list.iter().enumerate() {
            let at = at.plus((index * len) as u64);
            self.store_at(regs, local, (space, element, *reg), &at, mask)?;
        }
        Ok(())
    }
}

/// Whether every address is a multiple of the access size.
fn aligned(at: &At, len: usize, mask: u32, write: bool) -> Result<(), LaneFault> {
    let at = at.lanes();
    let wrong = |lane: &usize| !at[*lane].is_multiple_of(len as u64);
    match lanes(mask).find(wrong) {
        Some(lane) => Err((FaultKind::Misaligned { address: at[lane], len, write }, lane as u32)),
        None => Ok(()),
    }
}
