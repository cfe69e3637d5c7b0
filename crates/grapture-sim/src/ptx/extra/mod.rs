//! Rare instructions, which the loop of the interpreter finds in a list of their module: matrices,
//! asynchronous copies, printing.

mod assert;
mod copy;
mod fragment;
mod matrix;
mod numbers;
mod print;
mod tensor;
mod tile;

use super::exec::local::Local;
use super::exec::memory::{LaneFault, Memory};
use super::exec::registers::{Frame, LANES, Reg, Registers};
use super::exec::special::Place;
use super::exec::warp::Machine;

pub use assert::Assert;
pub use copy::{AsyncCopy, Limit};
pub use fragment::{Fragment, Order};
pub use matrix::{Matrices, MatrixMove};
pub use numbers::Element;
pub use print::{Channel, Console, Print};
pub use tensor::{Accumulator, BitProduct, Mma};
pub use tile::Tile;

/// A rare instruction.
#[derive(Clone, Debug)]
pub enum Extra {
    /// `mma`, and the multiplication of `wmma`.
    Mma(Mma),
    /// `ldmatrix`, `stmatrix` and `movmatrix`.
    Matrices(Matrices),
    /// The loads and stores of `wmma`.
    Tile(Tile),
    /// `cp.async`
    AsyncCopy(AsyncCopy),
    /// `vprintf`
    Print(Print),
    /// `__assertfail`
    Assert(Assert),
}

/// What an instruction works on.
#[derive(Debug)]
pub struct Env<'e, 'm> {
    /// The launch.
    pub machine: &'e Machine<'e>,
    /// The registers of the warp.
    pub regs: &'e mut Registers,
    /// The local memory of its threads.
    pub local: &'e mut Local,
    /// The memory of its block.
    pub memory: &'e mut Memory<'m>,
    /// The frame of the function.
    pub frame: Frame,
    /// Where the warp is in its grid.
    pub place: &'e Place,
}

/// The registers of an instruction: those that it reads and those that it writes.
#[derive(Clone, Copy, Debug)]
struct Operands<'m> {
    reads: &'m [Reg],
    writes: &'m [Reg],
}

/// Runs a rare instruction in the lanes of `mask`.
pub fn run(
    mut env: Env<'_, '_>,
    what: u32,
    (list, reads, writes): (u32, u8, u8),
    mask: u32,
) -> Result<(), LaneFault> {
    let code = env.machine.code;
    // INVARIANT: lowering put the instruction and so many registers there.
    let registers = &code.registers[list as usize..][..usize::from(reads) + usize::from(writes)];
    let (reads, writes) = registers.split_at(usize::from(reads));
    let operands = Operands { reads, writes };
    match &code.extras[what as usize] {
        Extra::Mma(mma) => mma.run(&mut env, operands, mask),
        Extra::Matrices(matrices) => return matrices.run(&mut env, operands, mask),
        Extra::Tile(tile) => return tile.run(&mut env, operands, mask),
        Extra::AsyncCopy(copy) => return copy.run(&mut env, operands, mask),
        Extra::Print(print) => return print.run(&mut env, mask),
        Extra::Assert(assert) => return assert.run(&mut env, mask),
    }
    Ok(())
}

/// The lanes of a mask.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}
