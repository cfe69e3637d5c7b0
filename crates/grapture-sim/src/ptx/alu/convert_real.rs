//! Conversions between numbers, and between them and integers.

use super::convert::{How, Whole};
use super::float::{clamp32, clamp64, flush};
use super::softfloat::{
    self as soft, BF16, F16, F32, F64, Finite, Format, Number, Rounding, pack, unpack,
};
use super::{Alu1, for_type, half, lanes, nan, no_type};
use crate::ptx::types::Type;

/// The integer that a NaN becomes: zero, or the highest bit where a 64-bit type takes part.
fn integer_nan(width: u32, from_double: bool) -> u64 {
    if from_double || width == 64 { 1 << (width - 1) } else { 0 }
}

fn rounded<D: Target>(number: Number, from_double: bool, rounding: Rounding) -> u64 {
    soft::to_integer(number, D::WIDTH, D::SIGNED, rounding)
        .unwrap_or_else(|| integer_nan(D::WIDTH, from_double))
}

/// Integer types by their width and sign.
trait Target {
    const WIDTH: u32;
    const SIGNED: bool;
}

macro_rules! target {
    ($($ty:ty, $signed:expr);+) => {$(
        impl Target for $ty {
            const WIDTH: u32 = <$ty>::BITS;
            const SIGNED: bool = $signed;
        }
    )+};
}

target!(u8, false; i8, true; u16, false; i16, true; u32, false; i32, true; u64, false; i64, true);

/// Evaluates an expression with `$R` standing for the rounding, a constant.
macro_rules! with_rounding {
    ($rounding:expr, $R:ident, $e:expr) => {
        match $rounding {
            Rounding::Nearest => {
                const $R: Rounding = Rounding::Nearest;
                $e
            }
            Rounding::Zero => {
                const $R: Rounding = Rounding::Zero;
                $e
            }
            Rounding::Down => {
                const $R: Rounding = Rounding::Down;
                $e
            }
            Rounding::Up => {
                const $R: Rounding = Rounding::Up;
                $e
            }
            Rounding::NearestAway => return Err("'.rna' is not allowed here".to_owned()),
        }
    };
}

pub(super) use with_rounding;

/// A conversion between two formats, by constants.
macro_rules! pair_through {
    ($S:ty, $D:ty, $from:expr, $to:expr, $R:expr, $ftz:expr, $end:expr) => {
        lanes!(|a: $S| -> $D { through($from, $to, u64::from(a), $R, $ftz, $end) as $D })
    };
}

/// From a number to an integer.
pub fn to_integer(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    let Some(rounding) = how.integral else {
        return Err("a rounding to an integer is missing".to_owned());
    };
    if how.ftz && from != Type::F32 || how.sat && from == Type::Bf16 || how.is_narrow() {
        return Err(format!("this modifier is not allowed from '.{}'", from.name()));
    }
    if from == Type::Bf16 && to.bytes() == 1 {
        return Err(no_type(to));
    }
    // Results are always clamped, so '.sat' changes nothing.
    if rounding == Rounding::Zero && from == Type::F32 && !how.ftz && to == Type::S32 {
        // The common case, as the host does it.
        return Ok(lanes!(|a: f32| -> i32 { a as i32 }));
    }
    macro_rules! from {
        ($S:ty, |$a:ident| $bits:expr, $format:expr, $double:expr) => {
            with_rounding!(rounding, R, for_type!(to,
                D in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|$a: $S| -> D { rounded::<D>(unpack($format, u64::from($bits)), $double, R) as D })))
        };
    }
    let function = match from {
        Type::F16 => from!(u16, |a| a, F16, false),
        Type::Bf16 => from!(u16, |a| a, BF16, false),
        Type::F32 if how.ftz => from!(f32, |a| flush(a).to_bits(), F32, false),
        Type::F32 => from!(u32, |a| a, F32, false),
        _ => from!(u64, |a| a, F64, true),
    };
    function.ok_or_else(|| no_type(to))
}

/// From an integer to a number.
pub fn from_integer(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    let Some(rounding) = how.rounding else {
        return Err("a rounding is missing".to_owned());
    };
    if how.ftz && to != Type::F32 || how.sat && to == Type::Bf16 || how.is_narrow() {
        return Err(format!("this modifier is not allowed to '.{}'", to.name()));
    }
    if to == Type::Bf16 && from.bytes() == 1 {
        return Err(no_type(from));
    }
    macro_rules! own {
        ($F:ty) => {
            for_type!(from, S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> $F { a as $F }))
        };
    }
    macro_rules! to {
        ($D:ty, $format:expr) => {
            with_rounding!(rounding, R, for_type!(from,
                S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                if how.sat {
                    lanes!(|a: S| -> $D { pack($format, integer(a.wide().clamp(0, 1)), R) as $D })
                } else {
                    lanes!(|a: S| -> $D { pack($format, integer(a.wide()), R) as $D })
                }))
        };
    }
    let function = match (to, rounding, how.sat) {
        (Type::F32, Rounding::Nearest, false) => own!(f32),
        (Type::F64, Rounding::Nearest, false) => own!(f64),
        (Type::F16, ..) => to!(u16, F16),
        (Type::Bf16, ..) => to!(u16, BF16),
        (Type::F32, ..) => to!(u32, F32),
        _ => to!(u64, F64),
    };
    function.ok_or_else(|| no_type(from))
}

fn integer(value: i128) -> Number {
    Number::Finite(Finite::integer(
        value < 0,
        u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX),
    ))
}

/// From a number to another.
pub fn real(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    if to == from {
        return same_type(to, how);
    }
    let rounding = rounding(to, from, how)?;
    allowed(to, from, rounding, how)?;
    if to == Type::F64 {
        return Ok(to_double(from, how));
    }
    if how.is_bare()
        && let Some(function) = common(to, from, rounding)
    {
        return Ok(function);
    }
    let end = match (how.sat, how.relu, how.finite) {
        (true, ..) => SATURATE,
        (_, true, false) => RELU,
        (_, false, true) => FINITE,
        (_, true, true) => RELU | FINITE,
        _ => 0,
    };
    macro_rules! pair {
        ($S:ty, $D:ty, $from:expr, $to:expr) => {
            with_rounding!(
                rounding,
                R,
                match (how.ftz, end) {
                    (false, 0) => pair_through!($S, $D, $from, $to, R, false, 0),
                    (true, 0) => pair_through!($S, $D, $from, $to, R, true, 0),
                    (false, SATURATE) => pair_through!($S, $D, $from, $to, R, false, SATURATE),
                    (true, SATURATE) => pair_through!($S, $D, $from, $to, R, true, SATURATE),
                    (_, RELU) => pair_through!($S, $D, $from, $to, R, false, RELU),
                    (_, FINITE) => pair_through!($S, $D, $from, $to, R, false, FINITE),
                    _ => pair_through!($S, $D, $from, $to, R, false, RELU | FINITE),
                }
            )
        };
    }
    Ok(match (from, to) {
        (Type::F16, Type::F32) => pair!(u16, u32, F16, F32),
        (Type::F16, Type::Bf16) => pair!(u16, u16, F16, BF16),
        (Type::Bf16, Type::F32) => pair!(u16, u32, BF16, F32),
        (Type::Bf16, Type::F16) => pair!(u16, u16, BF16, F16),
        (Type::F32, Type::F16) => pair!(u32, u16, F32, F16),
        (Type::F32, Type::Bf16) => pair!(u32, u16, F32, BF16),
        (Type::F64, Type::F16) => pair!(u64, u16, F64, F16),
        (Type::F64, Type::Bf16) => pair!(u64, u16, F64, BF16),
        _ => pair!(u64, u32, F64, F32),
    })
}

/// The rounding between two formats. Where nothing is lost there is none to give, except from and to
/// the short form, which takes one or not.
fn rounding(to: Type, from: Type, how: &How) -> Result<Rounding, String> {
    if how.integral.is_some() {
        return Err("rounding to an integer needs equal types".to_owned());
    }
    let widens = to.bytes() > from.bytes();
    let optional = from == Type::Bf16 || to == Type::Bf16 && from == Type::F16;
    match how.rounding {
        Some(Rounding::NearestAway) => Err("'.rna' is not allowed here".to_owned()),
        Some(_) if widens && !optional => Err("a rounding is not allowed here".to_owned()),
        None if !widens && !optional => Err("a rounding is missing".to_owned()),
        rounding => Ok(rounding.unwrap_or(Rounding::Nearest)),
    }
}

/// Whether the modifiers may stand between these types.
fn allowed(to: Type, from: Type, rounding: Rounding, how: &How) -> Result<(), String> {
    let brain = to == Type::Bf16 || from == Type::Bf16;
    let single = to == Type::F32 || from == Type::F32;
    let narrows = from == Type::F32 && matches!(to, Type::F16 | Type::Bf16);
    let directed = matches!(rounding, Rounding::Down | Rounding::Up);
    let refused = [
        (how.ftz && !single, "ftz"),
        (how.sat && brain, "sat"),
        (how.is_narrow() && (!narrows || directed || how.ftz || how.sat), "relu' and '.satfinite"),
    ];
    match refused.iter().find(|(refused, _)| *refused) {
        Some((_, word)) => Err(format!(
            "'.{word}' is not allowed from '.{}' to '.{}' here",
            from.name(),
            to.name()
        )),
        None => Ok(()),
    }
}

/// Exactly a double, a NaN quiet and with its payload.
fn to_double(from: Type, how: &How) -> Alu1 {
    macro_rules! cut {
        (|$a:ident: $S:ty| $e:expr) => {
            if how.sat {
                lanes!(|$a: $S| -> f64 { clamp64($e) })
            } else {
                lanes!(|$a: $S| -> f64 { nan::double($e, $e) })
            }
        };
    }
    match from {
        Type::F16 => cut!(|a: u16| half::widen::<false>(a)),
        Type::Bf16 => cut!(|a: u16| half::widen::<true>(a)),
        _ if how.ftz => cut!(|a: f32| wide(nan::single(flush(a)))),
        _ => cut!(|a: f32| wide(a)),
    }
}

/// A single-precision number as a double, a NaN with its payload.
#[inline(always)]
pub(super) fn wide(value: f32) -> f64 {
    let bits = value.to_bits();
    let payload = u64::from(bits & 0x7f_ffff) << 29;
    let pattern = u64::from(bits >> 31) << 63 | 0x7ff << 52 | payload;
    if value.is_nan() { f64::from_bits(pattern) } else { f64::from(value) }
}

/// Conversions that programs do all the time.
fn common(to: Type, from: Type, rounding: Rounding) -> Option<Alu1> {
    Some(match (to, from, rounding) {
        (Type::F32, Type::F64, Rounding::Nearest) => lanes!(|a: f64| -> f32 {
            if a.is_nan() {
                f32::from_bits(soft::narrowed_nan(F32, a.to_bits()) as u32)
            } else {
                a as f32
            }
        }),
        (Type::F32, Type::F16, _) => {
            lanes!(|a: u16| -> f32 { nan::single(half::widen::<false>(a) as f32) })
        }
        (Type::F32, Type::Bf16, _) => lanes!(|a: u16| -> u32 { u32::from(a) << 16 }),
        (Type::F16, Type::F32, Rounding::Nearest) => {
            lanes!(|a: f32| -> u16 { half::narrow::<false>(f64::from(a)) })
        }
        (Type::Bf16, Type::F32, Rounding::Nearest) => {
            lanes!(|a: f32| -> u16 { half::narrow::<true>(f64::from(a)) })
        }
        _ => return None,
    })
}

/// Clamps to 0..=1; a NaN becomes zero.
const SATURATE: u8 = 1;
/// What is negative becomes zero.
pub(super) const RELU: u8 = 2;
/// What is too large becomes the largest number.
pub(super) const FINITE: u8 = 4;

/// A conversion that flushes single-precision subnormals, or cuts off its result.
pub(super) fn through(
    from: Format,
    to: Format,
    bits: u64,
    rounding: Rounding,
    ftz: bool,
    end: u8,
) -> u64 {
    if from == F64 && end != SATURATE && f64::from_bits(bits).is_nan() {
        return soft::narrowed_nan(to, bits);
    }
    // To half precision nothing is flushed.
    let ftz = ftz && to != F16;
    let flushed = |format: Format, bits: u64| {
        if ftz && format == F32 {
            u64::from(flush(f32::from_bits(bits as u32)).to_bits())
        } else {
            bits
        }
    };
    let mut number = unpack(from, flushed(from, bits));
    if end == SATURATE {
        let wide = f64::from_bits(pack(F64, number, Rounding::Nearest));
        number = unpack(F64, clamp64(wide).to_bits());
    }
    let negative = match number {
        Number::Nan => false,
        Number::Infinity(negative) => negative,
        Number::Finite(finite) => finite.negative,
    };
    if end & RELU != 0 && negative {
        return 0;
    }
    let result = pack(to, number, rounding);
    let infinity = pack(to, Number::Infinity(negative), rounding);
    // The largest number is the one below infinity.
    let result = if end & FINITE != 0 && result == infinity { result - 1 } else { result };
    flushed(to, result)
}

fn same_type(ty: Type, how: &How) -> Result<Alu1, String> {
    macro_rules! round {
        ($T:ty, |$a:ident| $enter:expr, $finish:expr) => {
            match how.integral {
                None => lanes!(|$a: $T| -> $T { $finish($enter) }),
                Some(Rounding::Zero) => lanes!(|$a: $T| -> $T { $finish($enter.trunc()) }),
                Some(Rounding::Down) => lanes!(|$a: $T| -> $T { $finish($enter.floor()) }),
                Some(Rounding::Up) => lanes!(|$a: $T| -> $T { $finish($enter.ceil()) }),
                Some(_) => lanes!(|$a: $T| -> $T { $finish($enter.round_ties_even()) }),
            }
        };
    }
    macro_rules! round_half {
        ($brain:literal, $finish:expr) => {
            match how.integral {
                None => lanes!(|a: u16| -> u16 {
                    half::narrow::<$brain>($finish(half::widen::<$brain>(a)))
                }),
                Some(Rounding::Zero) => {
                    lanes!(|a: u16| -> u16 {
                        half::narrow::<$brain>($finish(half::widen::<$brain>(a).trunc()))
                    })
                }
                Some(Rounding::Down) => {
                    lanes!(|a: u16| -> u16 {
                        half::narrow::<$brain>($finish(half::widen::<$brain>(a).floor()))
                    })
                }
                Some(Rounding::Up) => {
                    lanes!(|a: u16| -> u16 {
                        half::narrow::<$brain>($finish(half::widen::<$brain>(a).ceil()))
                    })
                }
                Some(_) => {
                    lanes!(|a: u16| -> u16 {
                        half::narrow::<$brain>($finish(half::widen::<$brain>(a).round_ties_even()))
                    })
                }
            }
        };
    }
    if how.rounding.is_some() || how.is_narrow() {
        return Err("this modifier is not allowed between equal types".to_owned());
    }
    Ok(match (ty, how.ftz, how.sat) {
        (Type::F32, false, false) if how.integral.is_none() => lanes!(|a: u32| -> u32 { a }),
        (Type::F32, false, false) => round!(f32, |a| a, nan::single),
        (Type::F32, false, true) => round!(f32, |a| a, clamp32),
        (Type::F32, true, false) => round!(f32, |a| flush(a), nan::single),
        (Type::F32, true, true) => round!(f32, |a| flush(a), clamp32),
        (Type::F64, false, false) if how.integral.is_none() => lanes!(|a: u64| -> u64 { a }),
        (Type::F64, false, false) => round!(f64, |a| nan::double(a, a), std::convert::identity),
        (Type::F64, false, true) => round!(f64, |a| a, clamp64),
        (Type::F16, false, false) => round_half!(false, std::convert::identity),
        (Type::F16, false, true) => round_half!(false, clamp64),
        (Type::Bf16, false, false) => round_half!(true, std::convert::identity),
        _ => return Err("this modifier is not allowed here".to_owned()),
    })
}
