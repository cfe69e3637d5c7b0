//! Floating-point arithmetic, rounded as the instruction says.

use super::softfloat::{self as soft, F32, F64, Number, Rounding, pack, unpack};
use super::{
    Alu, Alu1, Alu2, Alu3, Modifiers, Selection, half, lanes, nan, no_type, transcendental,
};
use crate::ptx::types::{Class, Type};

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    let ty = modifiers.last_type()?;
    if ty.class() != Class::Float {
        return None;
    }
    if !matches!(ty, Type::F32 | Type::F64) {
        return half::select(opcode, modifiers);
    }
    Some(match opcode {
        "add" | "sub" | "mul" => binary(opcode, modifiers),
        "div" => divide(modifiers),
        "fma" | "mad" => fused(modifiers),
        "rcp" | "sqrt" if modifiers.contains("approx") => return None,
        "rcp" | "sqrt" => root(opcode, modifiers),
        "min" | "max" => extremum(opcode, modifiers),
        "abs" | "neg" => sign(opcode, modifiers),
        "copysign" => copysign(modifiers),
        _ => return None,
    })
}

/// A subnormal becomes a zero of the same sign.
#[inline(always)]
pub fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE {
        f32::from_bits(value.to_bits() & 0x8000_0000)
    } else {
        value
    }
}

/// Clamps to 0..=1; a NaN becomes zero.
#[inline(always)]
fn saturate32(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

#[inline(always)]
fn saturate64(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// What an instruction makes of its operands before it computes.
#[inline(always)]
pub(super) fn enter<const FTZ: bool>(value: f32) -> f32 {
    if FTZ { flush(value) } else { value }
}

/// What it makes of its result.
#[inline(always)]
pub(super) fn leave<const FTZ: bool, const SAT: bool>(value: f32) -> f32 {
    let value = if FTZ { flush(value) } else { value };
    if SAT { saturate32(value) } else { nan::single(value) }
}

/// A single-precision function in its four flavours.
macro_rules! single {
    ($ftz:expr, $sat:expr, |$($x:ident),+| $e:expr) => {
        match ($ftz, $sat) {
            (false, false) => $crate::ptx::alu::float::single!(@ false, false, |$($x),+| $e),
            (false, true) => $crate::ptx::alu::float::single!(@ false, true, |$($x),+| $e),
            (true, false) => $crate::ptx::alu::float::single!(@ true, false, |$($x),+| $e),
            (true, true) => $crate::ptx::alu::float::single!(@ true, true, |$($x),+| $e),
        }
    };
    (@ $F:literal, $S:literal, |$a:ident| $e:expr) => {
        lanes!(|a: f32| -> f32 {
            let $a = $crate::ptx::alu::float::enter::<$F>(a);
            $crate::ptx::alu::float::leave::<$F, $S>($e)
        })
    };
    (@ $F:literal, $S:literal, |$a:ident, $b:ident| $e:expr) => {
        lanes!(|a: f32, b: f32| -> f32 {
            let $a = $crate::ptx::alu::float::enter::<$F>(a);
            let $b = $crate::ptx::alu::float::enter::<$F>(b);
            $crate::ptx::alu::float::leave::<$F, $S>($e)
        })
    };
    (@ $F:literal, $S:literal, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        lanes!(|a: f32, b: f32, c: f32| -> f32 {
            let ($a, $b, $c) = (enter::<$F>(a), enter::<$F>(b), enter::<$F>(c));
            leave::<$F, $S>($e)
        })
    };
}

pub(super) use single;

/// Evaluates an expression with `$R` standing for the rounding, a constant.
macro_rules! rounded {
    ($rounding:expr, $R:ident, $e:expr) => {
        match $rounding {
            None | Some(Rounding::Nearest) => {
                const $R: Rounding = Rounding::Nearest;
                $e
            }
            Some(Rounding::Zero) => {
                const $R: Rounding = Rounding::Zero;
                $e
            }
            Some(Rounding::Down) => {
                const $R: Rounding = Rounding::Down;
                $e
            }
            Some(Rounding::Up) => {
                const $R: Rounding = Rounding::Up;
                $e
            }
            Some(Rounding::NearestAway) => return Err("'.rna' is not allowed here".to_owned()),
        }
    };
}

/// Arithmetic in a given rounding; the host's own where that rounds to nearest.
pub(super) trait Real: Copy {
    fn open(self) -> Number;
    fn close(number: Number, rounding: Rounding) -> Self;
    fn plus(self, other: Self, rounding: Rounding) -> Self;
    fn times(self, other: Self, rounding: Rounding) -> Self;
    fn over(self, other: Self, rounding: Rounding) -> Self;
    fn times_plus(self, other: Self, addend: Self, rounding: Rounding) -> Self;
    fn root(self, rounding: Rounding) -> Self;
}

macro_rules! real {
    ($ty:ty, $bits:ty, $format:expr) => {
        impl Real for $ty {
            fn open(self) -> Number {
                unpack($format, u64::from(self.to_bits()))
            }
            fn close(number: Number, rounding: Rounding) -> Self {
                Self::from_bits(pack($format, number, rounding) as $bits)
            }
            #[inline(always)]
            fn plus(self, other: Self, rounding: Rounding) -> Self {
                match rounding {
                    Rounding::Nearest => self + other,
                    _ => Self::close(soft::add(self.open(), other.open(), rounding), rounding),
                }
            }
            #[inline(always)]
            fn times(self, other: Self, rounding: Rounding) -> Self {
                match rounding {
                    Rounding::Nearest => self * other,
                    _ => Self::close(soft::mul(self.open(), other.open()), rounding),
                }
            }
            #[inline(always)]
            fn over(self, other: Self, rounding: Rounding) -> Self {
                match rounding {
                    Rounding::Nearest => self / other,
                    _ => Self::close(soft::div(self.open(), other.open()), rounding),
                }
            }
            #[inline(always)]
            fn times_plus(self, other: Self, addend: Self, rounding: Rounding) -> Self {
                match rounding {
                    Rounding::Nearest => self.mul_add(other, addend),
                    _ => {
                        let product = soft::mul(self.open(), other.open());
                        Self::close(soft::add(product, addend.open(), rounding), rounding)
                    }
                }
            }
            #[inline(always)]
            fn root(self, rounding: Rounding) -> Self {
                match rounding {
                    Rounding::Nearest => self.sqrt(),
                    _ => Self::close(soft::sqrt(self.open()), rounding),
                }
            }
        }
    };
}

real!(f32, u32, F32);
real!(f64, u64, F64);

/// Rounding, `.ftz`, `.sat` and type.
pub(super) fn qualifiers(
    modifiers: &mut Modifiers<'_>,
) -> Result<(Option<Rounding>, bool, bool, Type), String> {
    let rounding = modifiers.rounding();
    let (flush, saturate) = (modifiers.flag("ftz"), modifiers.flag("sat"));
    let ty = modifiers.ty()?;
    if ty == Type::F64 && flush {
        return Err("'.ftz' is not allowed on '.f64'".to_owned());
    }
    if ty == Type::F64 && saturate {
        return Err("'.sat' is not allowed on '.f64'".to_owned());
    }
    Ok((rounding, flush, saturate, ty))
}

/// Rounding, `.ftz` and type of an instruction that does not saturate.
fn unsaturated(modifiers: &mut Modifiers<'_>) -> Result<(Option<Rounding>, bool, Type), String> {
    match qualifiers(modifiers)? {
        (_, _, true, _) => Err("'.sat' is not allowed here".to_owned()),
        (rounding, ftz, _, ty) => Ok((rounding, ftz, ty)),
    }
}

fn binary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let (rounding, ftz, sat, ty) = qualifiers(modifiers)?;
    let function: Alu2 = match (opcode, ty) {
        ("add", Type::F32) => rounded!(rounding, R, single!(ftz, sat, |a, b| a.plus(b, R))),
        ("sub", Type::F32) => rounded!(rounding, R, single!(ftz, sat, |a, b| a.plus(-b, R))),
        (_, Type::F32) => rounded!(rounding, R, single!(ftz, sat, |a, b| a.times(b, R))),
        ("add", _) => {
            rounded!(
                rounding,
                R,
                lanes!(|a: f64, b: f64| -> f64 { nan::double2(a.plus(b, R), a, b) })
            )
        }
        ("sub", _) => {
            rounded!(
                rounding,
                R,
                lanes!(|a: f64, b: f64| -> f64 { nan::double2(a.plus(-b, R), a, b) })
            )
        }
        _ => rounded!(
            rounding,
            R,
            lanes!(|a: f64, b: f64| -> f64 { nan::double2(a.times(b, R), a, b) })
        ),
    };
    Ok(Alu::two(function, ty, ty, ty))
}

fn divide(modifiers: &mut Modifiers<'_>) -> Selection {
    let loose = modifiers.one_of(&["approx", "full"]);
    let (rounding, ftz, ty) = unsaturated(modifiers)?;
    if loose.is_some() != rounding.is_none() {
        return Err("one of .approx, .full or a rounding is needed".to_owned());
    }
    let function: Alu2 = match (ty, loose) {
        (Type::F32, Some(accuracy)) => transcendental::quotient(accuracy == "full", ftz),
        (_, Some(_)) => return Err(no_type(ty)),
        (Type::F32, _) => rounded!(rounding, R, single!(ftz, false, |a, b| a.over(b, R))),
        _ => rounded!(
            rounding,
            R,
            lanes!(|a: f64, b: f64| -> f64 { nan::double2(a.over(b, R), b, a) })
        ),
    };
    Ok(Alu::two(function, ty, ty, ty))
}

fn fused(modifiers: &mut Modifiers<'_>) -> Selection {
    let (rounding, ftz, sat, ty) = qualifiers(modifiers)?;
    if rounding.is_none() {
        return Err("a rounding is missing".to_owned());
    }
    let function: Alu3 = match ty {
        Type::F32 => rounded!(rounding, R, single!(ftz, sat, |a, b, c| a.times_plus(b, c, R))),
        _ => rounded!(
            rounding,
            R,
            lanes!(|a: f64, b: f64, c: f64| -> f64 {
                nan::double3(a.times_plus(b, c, R), a, b, c)
            })
        ),
    };
    Ok(Alu::three(function, ty, ty, ty, ty))
}

fn root(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    // The double's reciprocal takes '.ftz', which changes nothing.
    if opcode == "rcp" && modifiers.last_type() == Some(Type::F64) {
        modifiers.flag("ftz");
    }
    let (rounding, ftz, ty) = unsaturated(modifiers)?;
    if rounding.is_none() {
        return Err(".approx or a rounding is missing".to_owned());
    }
    let function: Alu1 = match (opcode, ty) {
        ("rcp", Type::F32) => rounded!(rounding, R, single!(ftz, false, |a| 1.0_f32.over(a, R))),
        ("rcp", _) => {
            rounded!(rounding, R, lanes!(|a: f64| -> f64 { nan::double(1.0_f64.over(a, R), a) }))
        }
        (_, Type::F32) => rounded!(rounding, R, single!(ftz, false, |a| a.root(R))),
        _ => rounded!(rounding, R, lanes!(|a: f64| -> f64 { nan::double(a.root(R), a) })),
    };
    Ok(Alu::one(function, ty, ty))
}

/// The smaller or larger; a NaN loses against a number, and minus zero is less than zero.
macro_rules! extremes {
    ($min:ident, $max:ident, $ty:ty) => {
        #[inline(always)]
        pub(super) fn $min(a: $ty, b: $ty) -> $ty {
            if a.is_nan() || (b < a) || (a == b && b.is_sign_negative()) { b } else { a }
        }
        #[inline(always)]
        pub(super) fn $max(a: $ty, b: $ty) -> $ty {
            if a.is_nan() || (b > a) || (a == b && a.is_sign_negative()) { b } else { a }
        }
    };
}

extremes!(min32, max32, f32);
extremes!(min64, max64, f64);

/// Whether `.xorsign.abs` is there: magnitudes are compared, and the signs multiplied.
pub(super) fn magnitudes(modifiers: &mut Modifiers<'_>) -> Result<bool, String> {
    match (modifiers.flag("xorsign"), modifiers.flag("abs")) {
        (true, true) => Ok(true),
        (false, false) => Ok(false),
        _ => Err("'.xorsign' and '.abs' belong together".to_owned()),
    }
}

/// The smaller or larger of two numbers, or of their magnitudes with the product of their signs.
#[inline(always)]
fn extreme32<const LEAST: bool, const PROPAGATE: bool, const SIGNS: bool>(a: f32, b: f32) -> f32 {
    let sign = if SIGNS { (a.to_bits() ^ b.to_bits()) & 1 << 31 } else { 0 };
    let (a, b) = if SIGNS { (a.abs(), b.abs()) } else { (a, b) };
    if PROPAGATE && (a.is_nan() || b.is_nan()) {
        return f32::NAN;
    }
    let value = if LEAST { min32(a, b) } else { max32(a, b) };
    f32::from_bits(value.to_bits() | sign)
}

fn extremum(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ftz = modifiers.flag("ftz");
    let propagate = modifiers.flag("NaN");
    let signs = magnitudes(modifiers)?;
    let ty = modifiers.ty()?;
    if ty == Type::F64 && (ftz || propagate || signs) {
        return Err("no modifier is allowed on '.f64'".to_owned());
    }
    macro_rules! pick {
        ($least:literal) => {
            match (propagate, signs) {
                (false, false) => {
                    single!(ftz, false, |a, b| extreme32::<$least, false, false>(a, b))
                }
                (false, true) => single!(ftz, false, |a, b| extreme32::<$least, false, true>(a, b)),
                (true, false) => single!(ftz, false, |a, b| extreme32::<$least, true, false>(a, b)),
                (true, true) => single!(ftz, false, |a, b| extreme32::<$least, true, true>(a, b)),
            }
        };
    }
    let function: Alu2 = match (ty, opcode) {
        (Type::F32, "min") => pick!(true),
        (Type::F32, _) => pick!(false),
        (_, "min") => lanes!(|a: f64, b: f64| -> f64 { nan::double2(min64(a, b), a, b) }),
        _ => lanes!(|a: f64, b: f64| -> f64 { nan::double2(max64(a, b), a, b) }),
    };
    Ok(Alu::two(function, ty, ty, ty))
}

fn sign(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ftz = modifiers.flag("ftz");
    let ty = modifiers.ty()?;
    if ty == Type::F64 && ftz {
        return Err("'.ftz' is not allowed on '.f64'".to_owned());
    }
    let function: Alu1 = match (ty, opcode) {
        (Type::F32, "abs") => single!(ftz, false, |a| a.abs()),
        (Type::F32, _) => single!(ftz, false, |a| -a),
        // A NaN keeps its sign.
        (_, "abs") => {
            lanes!(|a: f64| -> f64 { if a.is_nan() { nan::double(a, a) } else { a.abs() } })
        }
        _ => lanes!(|a: f64| -> f64 { if a.is_nan() { nan::double(a, a) } else { -a } }),
    };
    Ok(Alu::one(function, ty, ty))
}

fn copysign(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    // The sign is that of the first operand, the rest that of the second.
    let function: Alu2 = match ty {
        Type::F32 => lanes!(|a: u32, b: u32| -> u32 { a & 1 << 31 | b & !(1 << 31) }),
        Type::F64 => lanes!(|a: u64, b: u64| -> u64 { a & 1 << 63 | b & !(1 << 63) }),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::two(function, ty, ty, ty))
}

/// Clamps to 0..=1 in double precision.
pub(super) fn clamp64(value: f64) -> f64 {
    saturate64(value)
}

/// Clamps to 0..=1 in single precision.
pub(super) fn clamp32(value: f32) -> f32 {
    saturate32(value)
}
