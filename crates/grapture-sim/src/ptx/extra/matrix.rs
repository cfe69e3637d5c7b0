//! Matrices of 8 × 8 elements of 16 bits between shared memory and registers.

use super::{Env, Operands};
use crate::ptx::exec::memory::LaneFault;
use crate::ptx::exec::registers::LANES;
use crate::ptx::fault::FaultKind;
use crate::ptx::types::Space;

/// The bytes of a row.
const ROW: usize = 16;

/// Where the elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixMove {
    /// `ldmatrix`: reads the addresses of rows, writes a register for each matrix.
    Load,
    /// `stmatrix`: reads the addresses of rows and the registers.
    Store,
    /// `movmatrix`: from one register to another.
    Registers,
}

/// One of the three instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// Which.
    pub how: MatrixMove,
    /// How many matrices.
    pub count: u8,
    /// Whether rows and columns change places.
    pub transposed: bool,
}

/// The elements of a matrix, by row.
type Matrix = [[u16; 8]; 8];

impl Matrices {
    pub(super) fn run(
        self,
        env: &mut Env<'_, '_>,
        operands: Operands<'_>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let Some((first, rest)) = operands.reads.split_first() else { return Ok(()) };
        match self.how {
            MatrixMove::Registers => {
                let matrix = self.of_register(env.regs.narrow.get(*first));
                self.write_register(env, operands, 0, &transposed(&matrix), mask);
            }
            MatrixMove::Load => {
                let addresses = *env.regs.wide.get(*first);
                for number in 0..usize::from(self.count) {
                    let mut matrix = Matrix::default();
                    for (row, into) in matrix.iter_mut().enumerate() {
                        let lane = 8 * number + row;
                        let mut bytes = [0; ROW];
                        let (region, offset) = row_of(env, addresses[lane], lane, false)?;
                        region
                            .read(offset, &mut bytes)
                            .map_err(|_| illegal(addresses[lane], lane, false))?;
                        for (element, pair) in into.iter_mut().zip(bytes.chunks_exact(2)) {
                            *element =
                                pair.iter().rev().fold(0, |word, b| word << 8 | u16::from(*b));
                        }
                    }
                    let matrix = if self.transposed { transposed(&matrix) } else { matrix };
                    self.write_register(env, operands, number, &matrix, mask);
                }
            }
            MatrixMove::Store => {
                let addresses = *env.regs.wide.get(*first);
                for (number, reg) in rest.iter().enumerate() {
                    let matrix = self.of_register(env.regs.narrow.get(*reg));
                    let matrix = if self.transposed { transposed(&matrix) } else { matrix };
                    for (row, elements) in matrix.iter().enumerate() {
                        let lane = (8 * number + row) % LANES;
                        let mut bytes = [0; ROW];
                        for (pair, element) in bytes.chunks_exact_mut(2).zip(elements) {
                            pair.copy_from_slice(&element.to_le_bytes());
                        }
                        let (region, offset) = row_of(env, addresses[lane], lane, true)?;
                        region
                            .write(offset, &bytes)
                            .map_err(|_| illegal(addresses[lane], lane, true))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The matrix that a register holds: each lane has two neighbours of a row.
    fn of_register(self, words: &[u32; LANES]) -> Matrix {
        let mut matrix = Matrix::default();
        for (lane, word) in words.iter().enumerate() {
            matrix[lane / 4][lane % 4 * 2] = *word as u16;
            matrix[lane / 4][lane % 4 * 2 + 1] = (*word >> 16) as u16;
        }
        matrix
    }

    fn write_register(
        self,
        env: &mut Env<'_, '_>,
        operands: Operands<'_>,
        number: usize,
        matrix: &Matrix,
        mask: u32,
    ) {
        let words = std::array::from_fn(|lane| {
            let pair = &matrix[lane / 4][lane % 4 * 2..];
            u32::from(pair[1]) << 16 | u32::from(pair[0])
        });
        if let Some(reg) = operands.writes.get(number) {
            env.regs.narrow.put(*reg, &words, mask);
        }
    }
}

fn transposed(matrix: &Matrix) -> Matrix {
    std::array::from_fn(|row| std::array::from_fn(|column| matrix[column][row]))
}

fn illegal(address: u64, lane: usize, write: bool) -> LaneFault {
    (FaultKind::IllegalAddress { address, len: ROW, write }, lane as u32)
}

/// The bytes of a row whose address a lane gives.
fn row_of<'e>(
    env: &'e mut Env<'_, '_>,
    address: u64,
    lane: usize,
    write: bool,
) -> Result<(&'e crate::memory::bytes::SharedBytes, usize), LaneFault> {
    if !address.is_multiple_of(ROW as u64) {
        return Err((FaultKind::Misaligned { address, len: ROW, write }, lane as u32));
    }
    env.memory.find(Space::Shared, address, ROW).map_err(|_| illegal(address, lane, write))
}
