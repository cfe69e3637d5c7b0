//! Comparisons and tests, whose results are lanes.

use super::lanes::instance;
use super::{Compare, Modifiers, Test, no_type};
use crate::ptx::exec::registers::{LANES, Reg, Registers, Scalar, Slot};
use crate::ptx::types::Type;
#[cfg(target_arch = "x86_64")]
use crate::ptx::vectors::has_vectors;
use crate::ptx::vectors::mask_of;

/// How a comparison is combined with a further predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolOp {
    /// `.and`
    And,
    /// `.or`
    Or,
    /// `.xor`
    Xor,
}

impl BoolOp {
    /// Combines two sets of lanes.
    pub fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }
}

/// A comparison as its modifiers describe it.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// What it does.
    pub function: Compare,
    /// What it does with the upper halves, if its operands hold two numbers.
    pub upper: Option<Compare>,
    /// The type of its operands.
    pub ty: Type,
    /// How it is combined with a predicate.
    pub combine: Option<BoolOp>,
}

/// The lanes where `holds` is true.
#[inline(always)]
fn lanes_where<T: Scalar>(regs: &Registers, a: Reg, b: Reg, holds: impl Fn(T, T) -> bool) -> u32 {
    let (x, y) = (T::Slot::file(regs).get(a), T::Slot::file(regs).get(b));
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = 0_u8.wrapping_sub(u8::from(holds(T::load(x[lane]), T::load(y[lane]))));
    }
    mask_of(&out)
}

/// Half precision and its short form compare as the numbers that they are; `UPPER` those in the upper
/// half of a register.
#[derive(Clone, Copy)]
struct Half<const BRAIN: bool, const FTZ: bool, const UPPER: bool>(f64);

impl<const BRAIN: bool, const FTZ: bool, const UPPER: bool> Scalar for Half<BRAIN, FTZ, UPPER> {
    type Slot = u32;
    #[inline(always)]
    fn load(slot: u32) -> Self {
        let bits = if UPPER { (slot >> 16) as u16 } else { slot as u16 };
        let flushed = if FTZ && bits & 0x7c00 == 0 { bits & 0x8000 } else { bits };
        Self(super::half::widen::<BRAIN>(flushed))
    }
    fn store(self) -> u32 {
        0
    }
}

/// Numbers that compare.
trait Ordered: Scalar + Copy {
    fn value(self) -> f64;
}

impl Ordered for f32 {
    #[inline(always)]
    fn value(self) -> f64 {
        f64::from(self)
    }
}

impl Ordered for f64 {
    #[inline(always)]
    fn value(self) -> f64 {
        self
    }
}

impl<const BRAIN: bool, const FTZ: bool, const UPPER: bool> Ordered for Half<BRAIN, FTZ, UPPER> {
    #[inline(always)]
    fn value(self) -> f64 {
        self.0
    }
}

/// A single-precision number whose subnormals count as zero.
#[derive(Clone, Copy)]
struct Flushed(f32);

impl Scalar for Flushed {
    type Slot = u32;
    #[inline(always)]
    fn load(slot: u32) -> Self {
        Self(super::float::flush(f32::from_bits(slot)))
    }
    #[inline(always)]
    fn store(self) -> u32 {
        self.0.to_bits()
    }
}

impl Ordered for Flushed {
    #[inline(always)]
    fn value(self) -> f64 {
        f64::from(self.0)
    }
}

/// Makes a comparison of registers of one of lanes; the closure captures nothing.
fn comparison<T: Scalar, F: Fn(T, T) -> bool + Copy>(_: F) -> Compare {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn vectors<T: Scalar, F: Fn(T, T) -> bool + Copy>(r: &Registers, a: Reg, b: Reg) -> u32 {
            lanes_where::<T>(r, a, b, instance::<F>())
        }
        return |regs, a, b| {
            // SAFETY: the function needs a part of the features that `has_vectors` looks for, and
            // this pointer is given out only after that has answered true.
            unsafe { vectors::<T, F>(regs, a, b) }
        };
    }
    |regs, a, b| lanes_where::<T>(regs, a, b, instance::<F>())
}

macro_rules! holds {
    ($T:ty, |$x:ident, $y:ident| $e:expr) => {
        comparison::<$T, _>(|$x, $y| $e)
    };
}

fn whole<T: Scalar + PartialOrd>(operator: &str) -> Option<Compare> {
    Some(match operator {
        "eq" => holds!(T, |a, b| a == b),
        "ne" => holds!(T, |a, b| a != b),
        "lt" => holds!(T, |a, b| a < b),
        "le" => holds!(T, |a, b| a <= b),
        "gt" => holds!(T, |a, b| a > b),
        "ge" => holds!(T, |a, b| a >= b),
        _ => return None,
    })
}

fn unsigned<T: Scalar + PartialOrd>(operator: &str) -> Option<Compare> {
    whole::<T>(match operator {
        "lo" => "lt",
        "ls" => "le",
        "hi" => "gt",
        "hs" => "ge",
        other => other,
    })
}

#[allow(clippy::neg_cmp_op_on_partial_ord)] // the unordered comparisons hold for a NaN
fn real<T: Ordered>(operator: &str) -> Option<Compare> {
    Some(match operator {
        "eq" => holds!(T, |a, b| a.value() == b.value()),
        "ne" => holds!(T, |a, b| a.value() < b.value() || a.value() > b.value()),
        "lt" => holds!(T, |a, b| a.value() < b.value()),
        "le" => holds!(T, |a, b| a.value() <= b.value()),
        "gt" => holds!(T, |a, b| a.value() > b.value()),
        "ge" => holds!(T, |a, b| a.value() >= b.value()),
        "equ" => holds!(T, |a, b| !(a.value() < b.value() || a.value() > b.value())),
        "neu" => holds!(T, |a, b| a.value() != b.value()),
        "ltu" => holds!(T, |a, b| !(a.value() >= b.value())),
        "leu" => holds!(T, |a, b| !(a.value() > b.value())),
        "gtu" => holds!(T, |a, b| !(a.value() <= b.value())),
        "geu" => holds!(T, |a, b| !(a.value() < b.value())),
        "num" => holds!(T, |a, b| !a.value().is_nan() && !b.value().is_nan()),
        "nan" => holds!(T, |a, b| a.value().is_nan() || b.value().is_nan()),
        _ => return None,
    })
}

const OPERATORS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

/// The comparison that the modifiers of `setp` or `set` describe; its type must be the next one.
///
/// # Errors
/// A missing or impossible operator, or a type that does not compare.
pub fn select_comparison(modifiers: &mut Modifiers<'_>) -> Result<Comparison, String> {
    let operator = modifiers
        .one_of(&OPERATORS)
        .ok_or_else(|| "a comparison operator is missing".to_owned())?;
    let combine = modifiers.one_of(&["and", "or", "xor"]).map(|word| match word {
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        _ => BoolOp::Xor,
    });
    let flush = modifiers.flag("ftz");
    let ty = modifiers.ty()?;
    let equality = matches!(operator, "eq" | "ne");
    let function = match ty {
        Type::B16 if equality => whole::<u16>(operator),
        Type::B32 if equality => whole::<u32>(operator),
        Type::B64 if equality => whole::<u64>(operator),
        Type::U16 => unsigned::<u16>(operator),
        Type::U32 => unsigned::<u32>(operator),
        Type::U64 => unsigned::<u64>(operator),
        Type::S16 => whole::<i16>(operator),
        Type::S32 => whole::<i32>(operator),
        Type::S64 => whole::<i64>(operator),
        Type::F32 if flush => real::<Flushed>(operator),
        Type::F32 => real::<f32>(operator),
        Type::F64 => real::<f64>(operator),
        Type::F16 | Type::F16x2 if flush => real::<Half<false, true, false>>(operator),
        Type::F16 | Type::F16x2 => real::<Half<false, false, false>>(operator),
        Type::Bf16 | Type::Bf16x2 => real::<Half<true, false, false>>(operator),
        _ => return Err(no_type(ty)),
    };
    if flush && !matches!(ty, Type::F32 | Type::F16 | Type::F16x2) {
        return Err(format!("'.ftz' is not allowed on '.{}'", ty.name()));
    }
    let upper = match ty {
        Type::F16x2 if flush => real::<Half<false, true, true>>(operator),
        Type::F16x2 => real::<Half<false, false, true>>(operator),
        Type::Bf16x2 => real::<Half<true, false, true>>(operator),
        _ => None,
    };
    let function = function
        .ok_or_else(|| format!("comparison '.{operator}' does not apply to '.{}'", ty.name()))?;
    Ok(Comparison { function, upper, ty, combine })
}

/// The test that the modifiers of `testp` describe, and the type of its operand.
///
/// # Errors
/// A missing test, or a type other than `.f32` and `.f64`.
pub fn select_test(modifiers: &mut Modifiers<'_>) -> Result<(Test, Type), String> {
    let wanted = modifiers
        .one_of(&["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
        .ok_or_else(|| "a test is missing".to_owned())?;
    let ty = modifiers.ty()?;
    macro_rules! test {
        ($T:ty) => {
            match wanted {
                "finite" => |regs, a| lanes_where::<$T>(regs, a, a, |a, _| a.is_finite()),
                "infinite" => |regs, a| lanes_where::<$T>(regs, a, a, |a, _| a.is_infinite()),
                "number" => |regs, a| lanes_where::<$T>(regs, a, a, |a, _| !a.is_nan()),
                "notanumber" => |regs, a| lanes_where::<$T>(regs, a, a, |a, _| a.is_nan()),
                // A zero counts as normal.
                "normal" => {
                    |regs, a| lanes_where::<$T>(regs, a, a, |a, _| a.is_normal() || a == 0.0)
                }
                _ => |regs, a| lanes_where::<$T>(regs, a, a, |a, _| a.is_subnormal()),
            }
        };
    }
    let function: Test = match ty {
        Type::F32 => test!(f32),
        Type::F64 => test!(f64),
        _ => return Err(no_type(ty)),
    };
    Ok((function, ty))
}
