//! Instructions that only compute: what each does, and which one a name means.
//!
//! Every such instruction is a function over all lanes of its registers; lowering picks the
//! function once, so that the interpreter loop calls it and looks nothing up.

mod bits;
mod carry;
mod compare;
mod convert;
mod convert_real;
mod convert_small;
mod float;
mod half;
mod integer;
mod lanes;
mod modifiers;
mod moves;
pub(super) mod nan;
mod packed;
pub(super) mod softfloat;
mod transcendental;
mod video;

pub use modifiers::Modifiers;

use super::exec::registers::{Reg, Registers};
use super::types::Type;

/// A function of one operand: destination, operand, lanes.
pub type Alu1 = fn(&mut Registers, Reg, Reg, u32);
/// A function of two operands.
pub type Alu2 = fn(&mut Registers, Reg, Reg, Reg, u32);
/// A function of three operands.
pub type Alu3 = fn(&mut Registers, Reg, Reg, Reg, Reg, u32);
/// A function of four operands.
pub type Alu4 = fn(&mut Registers, Reg, Reg, Reg, Reg, Reg, u32);
/// A comparison: the lanes where it holds.
pub type Compare = fn(&Registers, Reg, Reg) -> u32;
/// A test of one operand.
pub type Test = fn(&Registers, Reg) -> u32;

/// The function of an instruction.
#[derive(Clone, Copy, Debug)]
pub enum AluFn {
    /// One operand.
    One(Alu1),
    /// Two.
    Two(Alu2),
    /// Three.
    Three(Alu3),
    /// Four.
    Four(Alu4),
}

/// An instruction that only computes.
#[derive(Clone, Debug)]
pub struct Alu {
    /// What it does.
    pub function: AluFn,
    /// The type of its destination.
    pub destination: Type,
    /// The types of its operands.
    pub sources: Vec<Type>,
}

impl Alu {
    fn one(function: Alu1, destination: Type, a: Type) -> Self {
        Self { function: AluFn::One(function), destination, sources: vec![a] }
    }

    fn two(function: Alu2, destination: Type, a: Type, b: Type) -> Self {
        Self { function: AluFn::Two(function), destination, sources: vec![a, b] }
    }

    fn three(function: Alu3, destination: Type, a: Type, b: Type, c: Type) -> Self {
        Self { function: AluFn::Three(function), destination, sources: vec![a, b, c] }
    }
}

/// What a name means, or why it means nothing.
pub type Selection = Result<Alu, String>;

/// The instruction of that name; `None` when it is none that only computes.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    integer::select(opcode, modifiers)
        .or_else(|| carry::select(opcode, modifiers))
        .or_else(|| bits::select(opcode, modifiers))
        .or_else(|| packed::select(opcode, modifiers))
        .or_else(|| float::select(opcode, modifiers))
        .or_else(|| transcendental::select(opcode, modifiers))
        .or_else(|| convert::select(opcode, modifiers))
        .or_else(|| video::select(opcode, modifiers))
}

pub use compare::{BoolOp, Comparison, select_comparison, select_test};
pub use convert::{extension, low_half};
pub use float::flush;
pub use half::{extreme_of_two as half_extreme, sum as half_sum};
pub use moves::{add64, and32, join, lowest, or32, part, sub64};

/// Evaluates an expression with `$T` standing for the Rust type of a PTX integer type.
macro_rules! for_type {
    ($ty:expr, $T:ident in [$($variant:ident = $rust:ty),+ $(,)?], $e:expr) => {
        match $ty {
            $($crate::ptx::types::Type::$variant => { type $T = $rust; Some($e) })+
            _ => None,
        }
    };
}

pub(crate) use for_type;
pub(crate) use lanes::lanes;

/// The refusal of a type.
fn no_type(ty: Type) -> String {
    format!("type '.{}' is not allowed here", ty.name())
}
