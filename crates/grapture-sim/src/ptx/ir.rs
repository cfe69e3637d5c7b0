//! The compact form that is executed: one entry per instruction, every operand a register.

mod operands;

pub use operands::Use;

use super::alu::{Alu1, Alu2, Alu3, Alu4, BoolOp, Compare, Test};
use super::exec::atomics::AtomicKind;
use super::exec::registers::{Frame, Reg};
use super::exec::special::Special;
use super::extra::Extra;
use super::types::Space;

/// Stands where an optional register is absent.
pub const NO_REG: Reg = Reg(u32::MAX);
/// Function number `n` has the address `FUNCTION_BASE + 16 * n`; no memory lies there.
pub const FUNCTION_BASE: u64 = 0xffff_f000_0000_0000;
/// The value of the conditional handle `n` of a launch has the address `CONDITIONAL_BASE + 4 * n`;
/// no memory lies there.
pub const CONDITIONAL_BASE: u64 = 0xffff_e000_0000_0000;

/// The predicate that an instruction runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate, or [`NO_REG`].
    pub pred: Reg,
    /// Whether it must not hold.
    pub negated: bool,
}

impl Guard {
    /// Runs always.
    pub const ALWAYS: Self = Self { pred: NO_REG, negated: false };
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// When it runs.
    pub guard: Guard,
    /// What it does.
    pub op: Op,
}

/// What an address is counted from.
#[derive(Clone, Copy, Debug)]
pub enum Base {
    /// Zero.
    Absolute,
    /// A 32-bit register.
    Narrow(Reg),
    /// A 64-bit register.
    Wide(Reg),
    /// The function's frame in local memory.
    Frame,
}

/// An address.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// What it is counted from.
    pub base: Base,
    /// The bytes past that.
    pub offset: i64,
}

/// What is loaded or stored, and the register for it.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// Bytes in memory.
    pub bytes: u8,
    /// Whether a load extends the sign.
    pub signed: bool,
    /// Bits of the register.
    pub width: u8,
    /// Whether it counts as atomic: volatile, relaxed, acquire or release.
    pub strong: bool,
}

impl Element {
    /// Whether it fills its register, of 32 or 64 bits, as it is in memory.
    #[inline(always)]
    pub fn fills(self) -> bool {
        self.bytes >= 4 && self.width == 8 * self.bytes
    }

    /// Extends a loaded value to its register.
    #[inline(always)]
    pub fn extend(self, value: u64) -> u64 {
        if !self.signed {
            return value;
        }
        let unused = 64 - 8 * u32::from(self.bytes);
        let extended = (((value << unused) as i64) >> unused) as u64;
        extended & (u64::MAX >> (64 - u32::from(self.width)))
    }
}

/// A bitwise operation on predicates.
#[derive(Clone, Copy, Debug)]
pub enum PredOp {
    /// `a & b`
    And,
    /// `a | b`
    Or,
    /// `a ^ b`
    Xor,
    /// `!a`
    Not,
    /// `a`
    Move,
    /// All lanes.
    True,
    /// No lane.
    False,
}

/// What threads do at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// Wait.
    Sync,
    /// Only say that they came.
    Arrive,
    /// Wait, and count the predicates that hold.
    Count,
    /// Wait, and learn whether all hold.
    All,
    /// Wait, and learn whether any holds.
    Any,
}

/// A vote among lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the modes of `vote`
pub enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

/// How a shuffle finds the lane to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the modes of `shfl`
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// A reduction among lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations of `redux`
pub enum Redux {
    Add,
    MinU,
    MaxU,
    MinS,
    MaxS,
    And,
    Or,
    Xor,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the fields are operands: `d` is written, `a`, `b`, `c` are read
pub enum Op {
    /// Computes.
    Alu1 { f: Alu1, d: Reg, a: Reg },
    /// Copies a register to another of the same file.
    Copy { d: Reg, a: Reg },
    /// Computes.
    Alu2 { f: Alu2, d: Reg, a: Reg, b: Reg },
    /// Computes.
    Alu3 { f: Alu3, d: Reg, a: Reg, b: Reg, c: Reg },
    /// Computes.
    Alu4 { f: Alu4, d: Reg, a: Reg, b: Reg, c: Reg, e: Reg },
    /// Compares into `d`, its complement into `q`.
    Compare { f: Compare, d: Reg, q: Reg, a: Reg, b: Reg },
    /// Compares, combined with the predicate `c`.
    CompareWith {
        f: Compare,
        d: Reg,
        q: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
        negated: bool,
        combine: BoolOp,
    },
    /// Tests.
    Test { f: Test, d: Reg, a: Reg },
    /// Computes on predicates.
    Pred { op: PredOp, d: Reg, a: Reg, b: Reg },
    /// `p ? a : b`
    Select { wide: bool, d: Reg, a: Reg, b: Reg, p: Reg, negated: bool },
    /// Reads a special register.
    Special { what: Special, wide: bool, d: Reg },
    /// The address of a place in the function's frame.
    FrameAddress { d: Reg, offset: u32, wide: bool },
    /// Loads.
    Load { space: Space, element: Element, d: Reg, address: Address },
    /// Stores.
    Store { space: Space, element: Element, a: Reg, address: Address },
    /// Loads into the registers of a list.
    LoadList { space: Space, element: Element, list: u32, count: u8, address: Address },
    /// Stores the registers of a list.
    StoreList { space: Space, element: Element, list: u32, count: u8, address: Address },
    /// Reads, changes and writes at once.
    Atomic { space: Space, kind: AtomicKind, d: Reg, a: Reg, b: Reg, address: Address },
    /// Orders memory accesses.
    Fence,
    /// Whether a generic address lies in a space.
    IsSpace { space: Space, d: Reg, a: Reg },
    /// Goes elsewhere.
    Branch { target: u32 },
    /// Goes to one of the places of a list.
    BranchTable { list: u32, count: u32, index: Reg },
    /// Calls.
    Call { site: u32 },
    /// Calls the function at an address.
    CallIndirect { site: u32, target: Reg },
    /// Returns.
    Return,
    /// Ends the thread.
    Exit,
    /// Ends the launch with an error.
    Trap,
    /// Meets the other threads of the block.
    Barrier { kind: BarrierKind, id: Reg, count: Reg, p: Reg, negated: bool, d: Reg },
    /// Meets the lanes of `members`.
    WarpSync { members: Reg },
    /// Votes.
    Vote { mode: Vote, d: Reg, p: Reg, negated: bool, members: Reg },
    /// Reads another lane's register.
    Shuffle { mode: Shuffle, d: Reg, p: Reg, a: Reg, b: Reg, c: Reg, members: Reg },
    /// The lanes with the same value.
    MatchAny { wide: bool, d: Reg, a: Reg, members: Reg },
    /// Whether all lanes have the same value.
    MatchAll { wide: bool, d: Reg, p: Reg, a: Reg, members: Reg },
    /// Reduces over lanes.
    Redux { mode: Redux, d: Reg, a: Reg, members: Reg },
    /// The lanes that run this.
    ActiveMask { d: Reg },
    /// Lets others go first.
    Yield,
    /// Does what the module's list of rare instructions says under this number, with the registers
    /// of a list: first those that are read, then those that are written.
    Extra { what: u32, list: u32, reads: u8, writes: u8 },
    /// Does nothing.
    Nop,
}

/// A parameter or return value: where it lies in the frame, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Bytes from the frame's start.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u32,
}

/// A call.
#[derive(Clone, Debug)]
pub struct CallSite {
    /// The function that calls.
    pub caller: u32,
    /// The function called; unused when it is called by its address.
    pub callee: u32,
    /// Where the arguments lie in the caller's frame.
    pub arguments: Vec<Slice>,
    /// Where the results go.
    pub results: Vec<Slice>,
}

/// A function's code and frame.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// Where its code starts.
    pub entry: u32,
    /// Whether it is defined here.
    pub defined: bool,
    /// The registers and local bytes that it needs.
    pub frame: Frame,
    /// Its parameters, in its frame.
    pub params: Vec<Slice>,
    /// What it returns, in its frame.
    pub returns: Vec<Slice>,
    /// Whether it calls functions by their address.
    pub indirect: bool,
    /// The functions that it calls or takes the address of.
    pub calls: Vec<u32>,
    /// The shared variables that it names.
    pub shared: Vec<u32>,
    /// What is run when a warp is made; empty unless it is a kernel.
    pub launch_ops: Vec<Op>,
    /// What is run when a warp starts a block; empty unless it is a kernel.
    pub block_ops: Vec<Op>,
    /// The registers that may be read before they are written.
    pub unset: Vec<Reg>,
}

/// A constant of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooled {
    /// A value.
    Bits(u64),
    /// The address of a global variable plus a number.
    Global(u32, i64),
    /// The address of a shared variable, in its space, plus a number.
    Shared(u32, i64),
}

/// The code of a module.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The instructions of all functions.
    pub insts: Vec<Inst>,
    /// The line of each instruction.
    pub lines: Vec<u32>,
    /// The functions.
    pub functions: Vec<FunctionInfo>,
    /// The calls.
    pub sites: Vec<CallSite>,
    /// Registers of vectors and of rare instructions.
    pub registers: Vec<Reg>,
    /// Targets of table branches.
    pub targets: Vec<u32>,
    /// The rare instructions.
    pub extras: Vec<Extra>,
    /// The 32-bit constants.
    pub narrow: Vec<Pooled>,
    /// The 64-bit constants.
    pub wide: Vec<Pooled>,
}
