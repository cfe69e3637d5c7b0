//! Tiles of a matrix between memory and registers, as `wmma` loads and stores them.

use super::fragment::Fragment;
use super::{Env, Operands};
use crate::memory::accesses::AccessKind;
use crate::ptx::exec::memory::{LaneFault, classify};
use crate::ptx::fault::FaultKind;
use crate::ptx::types::Space;

/// `wmma.load` or `wmma.store`: reads the address of the tile and the distance between its rows or
/// columns, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// How it lies in registers.
    pub fragment: Fragment,
    /// Whether it is stored.
    pub store: bool,
    /// Whether its columns lie in a row in memory.
    pub by_column: bool,
    /// Where it lies.
    pub space: Space,
}

impl Tile {
    pub(super) fn run(
        self,
        env: &mut Env<'_, '_>,
        operands: Operands<'_>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let [address, stride, registers @ ..] = operands.reads else { return Ok(()) };
        let lane = mask.trailing_zeros();
        let address = env.regs.wide.get(*address)[lane as usize];
        let stride = u64::from(env.regs.narrow.get(*stride)[lane as usize]);
        let (rows, columns) = (self.fragment.rows, self.fragment.columns);
        let mut elements =
            if self.store { self.fragment.gather(env, registers) } else { Vec::new() };
        for index in 0..rows * columns {
            let (row, column) = (u64::from(index / columns), u64::from(index % columns));
            let (line, within) = if self.by_column { (column, row) } else { (row, column) };
            let bit = (line * stride + within) * u64::from(self.fragment.bits);
            let at = address.wrapping_add(bit / 8);
            if self.store {
                let value = elements.get(index as usize).copied().unwrap_or(0);
                self.write(env, at, value).map_err(|kind| (kind, lane))?;
            } else {
                let value = self.read(env, at).map_err(|kind| (kind, lane))?;
                elements.push(value >> (bit % 8));
            }
        }
        if !self.store {
            self.fragment.scatter(env, operands.writes, &elements, mask);
        }
        Ok(())
    }

    /// Bytes of an element; of several that share a byte, of all.
    fn bytes(self) -> usize {
        (self.fragment.bits / 8).max(1) as usize
    }

    fn read(self, env: &mut Env<'_, '_>, address: u64) -> Result<u64, FaultKind> {
        let len = self.bytes();
        let illegal = FaultKind::IllegalAddress { address, len, write: false };
        let (space, place) = self.place(address);
        let (region, offset) = env.memory.find(space, place, len).map_err(|_| illegal)?;
        let mut bytes = [0; 8];
        let into = bytes.get_mut(..len).ok_or(illegal)?;
        if !region.is_written(offset, len) {
            return Err(FaultKind::Uninitialised { address, len });
        }
        region.read(offset, into).map_err(|_| illegal)?;
        env.memory.note(AccessKind::Read, space, place, len);
        Ok(u64::from_le_bytes(bytes))
    }

    fn write(self, env: &mut Env<'_, '_>, address: u64, value: u64) -> Result<(), FaultKind> {
        let len = self.bytes();
        let illegal = FaultKind::IllegalAddress { address, len, write: true };
        let (space, place) = self.place(address);
        let (region, offset) = env.memory.find(space, place, len).map_err(|_| illegal)?;
        let bytes = value.to_le_bytes();
        region.write(offset, bytes.get(..len).ok_or(illegal)?).map_err(|_| illegal)?;
        env.memory.note(AccessKind::Write, space, place, len);
        Ok(())
    }

    fn place(self, address: u64) -> (Space, u64) {
        if self.space == Space::Generic { classify(address) } else { (self.space, address) }
    }
}
