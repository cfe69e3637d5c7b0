//! Atomic operations on global and shared memory.

use super::memory::{LaneFault, Memory, classify, load, refused, store};
use super::registers::{LANES, Reg, Registers};
use crate::memory::accesses::AccessKind;
use crate::memory::bytes::{AccessError, SharedBytes};
use crate::ptx::alu::{self, flush, nan};
use crate::ptx::fault::FaultKind;
use crate::ptx::ir::NO_REG;
use crate::ptx::types::{Space, Type};

/// What is done to the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the operations of `atom`, by name
pub enum AtomicOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    Cas,
    Exch,
    And,
    Or,
    Xor,
}

impl AtomicOp {
    /// The operation of that name.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "add" => Self::Add,
            "min" => Self::Min,
            "max" => Self::Max,
            "inc" => Self::Inc,
            "dec" => Self::Dec,
            "cas" => Self::Cas,
            "exch" => Self::Exch,
            "and" => Self::And,
            "or" => Self::Or,
            "xor" => Self::Xor,
            _ => return None,
        })
    }
}

/// What the value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the PTX type of the same name; `B…` without a sign
pub enum AtomicType {
    B16,
    B32,
    S32,
    B64,
    S64,
    F32,
    F64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
}

impl AtomicType {
    /// The type of a legal pair of operation and type.
    pub fn of(op: AtomicOp, ty: Type) -> Option<Self> {
        use AtomicOp::{Add, And, Cas, Dec, Exch, Inc, Max, Min, Or, Xor};
        Some(match (op, ty) {
            (Cas, Type::B16) => Self::B16,
            (And | Or | Xor | Cas | Exch, Type::B32) | (Add | Inc | Dec | Min | Max, Type::U32) => {
                Self::B32
            }
            (And | Or | Xor | Cas | Exch, Type::B64) | (Add | Min | Max, Type::U64) => Self::B64,
            (Add | Min | Max, Type::S32) => Self::S32,
            (Min | Max, Type::S64) => Self::S64,
            (Add, Type::F32) => Self::F32,
            (Add, Type::F64) => Self::F64,
            (Add | Min | Max, Type::F16) => Self::F16,
            (Add | Min | Max, Type::Bf16) => Self::Bf16,
            (Add | Min | Max, Type::F16x2) => Self::F16x2,
            (Add | Min | Max, Type::Bf16x2) => Self::Bf16x2,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::B16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::S64 | Self::F64 => 8,
        }
    }
}

/// An atomic operation on a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicKind {
    /// What is done.
    pub op: AtomicOp,
    /// To what.
    pub ty: AtomicType,
}

impl AtomicKind {
    /// The type of halves.
    fn half(self) -> Option<Type> {
        Some(match self.ty {
            AtomicType::F16 => Type::F16,
            AtomicType::Bf16 => Type::Bf16,
            AtomicType::F16x2 => Type::F16x2,
            AtomicType::Bf16x2 => Type::Bf16x2,
            _ => return None,
        })
    }

    fn of_32(self, old: u32, a: u32, shared: bool) -> u32 {
        let signed = |value: u32| value as i32;
        match (self.op, self.ty) {
            (AtomicOp::Add, AtomicType::F32) => {
                let (old, a) = (f32::from_bits(old), f32::from_bits(a));
                let sum = if shared { old + a } else { flush(flush(old) + flush(a)) };
                nan::single(sum).to_bits()
            }
            (AtomicOp::Min, AtomicType::S32) => signed(old).min(signed(a)) as u32,
            (AtomicOp::Max, AtomicType::S32) => signed(old).max(signed(a)) as u32,
            (AtomicOp::Add, _) => old.wrapping_add(a),
            (AtomicOp::Min, _) => old.min(a),
            (AtomicOp::Max, _) => old.max(a),
            (AtomicOp::Inc, _) => {
                if old >= a {
                    0
                } else {
                    old + 1
                }
            }
            (AtomicOp::Dec, _) => {
                if old == 0 || old > a {
                    a
                } else {
                    old - 1
                }
            }
            (AtomicOp::And, _) => old & a,
            (AtomicOp::Or, _) => old | a,
            (AtomicOp::Xor, _) => old ^ a,
            (AtomicOp::Exch | AtomicOp::Cas, _) => a,
        }
    }

    fn of_64(self, old: u64, a: u64, shared: bool) -> u64 {
        let signed = |value: u64| value as i64;
        match (self.op, self.ty) {
            (AtomicOp::Add, AtomicType::F64) => {
                double_sum(f64::from_bits(old), f64::from_bits(a), shared).to_bits()
            }
            (AtomicOp::Min, AtomicType::S64) => signed(old).min(signed(a)) as u64,
            (AtomicOp::Max, AtomicType::S64) => signed(old).max(signed(a)) as u64,
            (AtomicOp::Add, _) => old.wrapping_add(a),
            (AtomicOp::Min, _) => old.min(a),
            (AtomicOp::Max, _) => old.max(a),
            (AtomicOp::Inc, _) => {
                if old >= a {
                    0
                } else {
                    old + 1
                }
            }
            (AtomicOp::Dec, _) => {
                if old == 0 || old > a {
                    a
                } else {
                    old - 1
                }
            }
            (AtomicOp::And, _) => old & a,
            (AtomicOp::Or, _) => old | a,
            (AtomicOp::Xor, _) => old ^ a,
            (AtomicOp::Exch | AtomicOp::Cas, _) => a,
        }
    }

    /// The value that takes the place of the old one, but for a comparison that fails.
    fn next(self, old: u64, a: u64, shared: bool) -> u64 {
        if let Some(ty) = self.half() {
            let (old, a) = (old as u32, a as u32);
            return u64::from(match self.op {
                AtomicOp::Add => alu::half_sum(ty, old, a),
                op => alu::half_extreme(ty, old, a, op == AtomicOp::Min),
            });
        }
        match self.ty.bytes() {
            8 => self.of_64(old, a, shared),
            _ => u64::from(self.of_32(old as u32, a as u32, shared)),
        }
    }

    /// Does it where nobody else can come between.
    #[inline(always)]
    fn apply_alone(
        self,
        (bytes, offset): (&SharedBytes, usize),
        [a, b]: [u64; 2],
        shared: bool,
    ) -> Result<u64, AccessError> {
        let len = self.ty.bytes();
        let old = load(bytes, offset, len)?;
        let new = match self.op {
            AtomicOp::Cas if old == a => b,
            AtomicOp::Cas => old,
            _ => self.next(old, a, shared),
        };
        store(bytes, offset, len, new)?;
        Ok(old)
    }

    fn apply(
        self,
        (bytes, offset): (&SharedBytes, usize),
        [a, b]: [u64; 2],
        shared: bool,
    ) -> Result<u64, AccessError> {
        let len = self.ty.bytes();
        match (self.op, len) {
            (AtomicOp::Cas, 2) => {
                bytes.compare_exchange_u16(offset, a as u16, b as u16).map(u64::from)
            }
            (AtomicOp::Cas, 4) => {
                bytes.compare_exchange_u32(offset, a as u32, b as u32).map(u64::from)
            }
            (AtomicOp::Cas, _) => bytes.compare_exchange_u64(offset, a, b),
            (AtomicOp::Add, 4) if matches!(self.ty, AtomicType::B32 | AtomicType::S32) => {
                bytes.fetch_add_u32(offset, a as u32).map(u64::from)
            }
            (_, 2) => bytes
                .update_u16(offset, |old| self.next(old.into(), a, shared) as u16)
                .map(u64::from),
            (_, 4) => bytes
                .update_u32(offset, |old| self.next(old.into(), a, shared) as u32)
                .map(u64::from),
            (_, _) => bytes.update_u64(offset, |old| self.next(old, a, shared)),
        }
    }
}

/// The sum of doubles. Global memory leaves a NaN as it is; of two it keeps the second.
fn double_sum(old: f64, a: f64, shared: bool) -> f64 {
    match (shared, a.is_nan(), old.is_nan()) {
        (true, ..) => nan::double2(old + a, a, old),
        (false, true, _) => a,
        (false, _, true) => old,
        (false, ..) => nan::double2(old + a, old, a),
    }
}

impl Memory<'_> {
    /// Performs an atomic operation, lane after lane.
    pub fn atomic(
        &mut self,
        regs: &mut Registers,
        (space, kind): (Space, AtomicKind),
        [d, a, b]: [Reg; 3],
        at: &[u64; LANES],
        mask: u32,
    ) -> Result<(), LaneFault> {
        let len = kind.ty.bytes();
        let wide = len == 8;
        let operand = |regs: &Registers, reg: Reg, lane: usize| {
            if wide { regs.wide.get(reg)[lane] } else { u64::from(regs.narrow.get(reg)[lane]) }
        };
        let mut rest = mask;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            let index = lane as usize;
            let address = at[index];
            let (space, place) =
                if space == Space::Generic { classify(address) } else { (space, address) };
            if place % len as u64 != 0 {
                return Err((FaultKind::Misaligned { address, len, write: true }, lane));
            }
            let (a, b) = (operand(regs, a, index), operand(regs, b, index));
            // All threads of a block run on one thread of the host.
            let alone = space == Space::Shared;
            let (bytes, offset) = self
                .find(space, place, len)
                .map_err(|_| (FaultKind::IllegalAddress { address, len, write: true }, lane))?;
            // An exchange does not care for what was there.
            if kind.op != AtomicOp::Exch && !bytes.is_written(offset, len) {
                return Err((FaultKind::Uninitialised { address, len }, lane));
            }
            let (target, operands) = ((bytes, offset), [a, b]);
            let shared = space == Space::Shared;
            let done = if alone {
                kind.apply_alone(target, operands, shared)
            } else {
                kind.apply(target, operands, shared)
            };
            let old = done.map_err(|error| (refused(error, address, len, true), lane))?;
            self.note(AccessKind::Atomic, space, place, len);
            if d != NO_REG {
                if wide {
                    regs.wide.get_mut(d)[index] = old;
                } else {
                    regs.narrow.get_mut(d)[index] = old as u32;
                }
            }
        }
        Ok(())
    }
}
