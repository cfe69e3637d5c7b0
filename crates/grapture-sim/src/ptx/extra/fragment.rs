//! How a matrix lies in the registers of a warp.

use super::Env;
use crate::ptx::exec::registers::{LANES, Reg};

/// Which lane holds which element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As `mma` wants its left factor.
    Left,
    /// As `mma` wants its right factor.
    Right,
    /// As `mma` wants what it adds, and gives its result.
    Sum,
    /// As `wmma` leaves it open: row by row, and again from the start where there is more room.
    Rows,
}

/// A matrix in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Which lane holds which element.
    pub order: Order,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Bits of an element.
    pub bits: u32,
}

impl Fragment {
    /// Elements in one register.
    fn per_register(self) -> u32 {
        if self.bits == 64 { 1 } else { 32 / self.bits }
    }

    /// Registers of each lane that the order needs; `wmma` says itself how many it takes.
    pub fn registers(self) -> usize {
        (self.rows * self.columns / LANES as u32 / self.per_register()).max(1) as usize
    }

    /// The row and column of an element of a lane's register.
    fn place(self, lane: u32, register: u32, element: u32) -> (u32, u32) {
        let (group, within) = (lane >> 2, lane & 3);
        let per = self.per_register();
        let across = within * per + element;
        match self.order {
            Order::Left if self.rows == 8 => (group, across + 4 * per * register),
            Order::Left => (group + 8 * (register & 1), across + 4 * per * (register >> 1)),
            Order::Right => (across + 4 * per * register, group),
            Order::Sum => {
                let index = register * per + element;
                (group + 8 * (index >> 1), within * 2 + (index & 1))
            }
            Order::Rows => {
                let index = lane * per + register * per * LANES as u32 + element;
                let index = index % (self.rows * self.columns);
                (index / self.columns, index % self.columns)
            }
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The elements, row by row.
    pub(super) fn gather(self, env: &Env<'_, '_>, registers: &[Reg]) -> Vec<u64> {
        let mut elements = vec![0; (self.rows * self.columns) as usize];
        for (number, reg) in registers.iter().enumerate() {
            for lane in 0..LANES {
                let word = match self.bits {
                    64 => env.regs.wide.get(*reg)[lane],
                    _ => u64::from(env.regs.narrow.get(*reg)[lane]),
                };
                for element in 0..self.per_register() {
                    let (row, column) = self.place(lane as u32, number as u32, element);
                    let value = word >> (element * self.bits % 64) & self.mask();
                    if let Some(slot) = elements.get_mut((row * self.columns + column) as usize) {
                        *slot = value;
                    }
                }
            }
        }
        elements
    }

    /// Puts the elements into registers, in the lanes of `mask`.
    pub(super) fn scatter(
        self,
        env: &mut Env<'_, '_>,
        registers: &[Reg],
        elements: &[u64],
        mask: u32,
    ) {
        for (number, reg) in registers.iter().enumerate() {
            let word = |lane: usize| {
                (0..self.per_register()).fold(0_u64, |word, element| {
                    let (row, column) = self.place(lane as u32, number as u32, element);
                    let value = elements.get((row * self.columns + column) as usize);
                    word | (value.copied().unwrap_or(0) & self.mask()) << (element * self.bits % 64)
                })
            };
            let words: [u64; LANES] = std::array::from_fn(word);
            if self.bits == 64 {
                env.regs.wide.put(*reg, &words, mask);
            } else {
                env.regs.narrow.put(*reg, &words.map(|word| word as u32), mask);
            }
        }
    }
}
