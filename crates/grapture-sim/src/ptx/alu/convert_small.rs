//! Conversions to pairs of narrow numbers, and to single precision with a short mantissa.

use super::convert::How;
use super::convert_real::{FINITE, RELU, through, with_rounding};
use super::softfloat::{BF16, F16, F32, Format, Rounding};
use super::{Alu, Alu1, Alu2, Selection, half, lanes, no_type};
use crate::ptx::types::Type;

/// Two single-precision numbers become one register; the first is the upper half.
pub fn pair(to: Type, how: &How) -> Selection {
    let Some(rounding @ (Rounding::Nearest | Rounding::Zero)) = how.rounding else {
        return Err("a rounding to nearest or towards zero is needed".to_owned());
    };
    if how.sat || how.ftz || how.integral.is_some() {
        return Err("this modifier is not allowed here".to_owned());
    }
    macro_rules! pick {
        ($format:expr) => {
            with_rounding!(
                rounding,
                R,
                match (how.relu, how.finite) {
                    (false, false) =>
                        lanes!(|a: u32, b: u32| -> u32 { packed($format, a, b, R, 0) }),
                    (true, false) =>
                        lanes!(|a: u32, b: u32| -> u32 { packed($format, a, b, R, RELU) }),
                    (false, true) =>
                        lanes!(|a: u32, b: u32| -> u32 { packed($format, a, b, R, FINITE) }),
                    (true, true) => {
                        lanes!(|a: u32, b: u32| -> u32 { packed($format, a, b, R, RELU | FINITE) })
                    }
                }
            )
        };
    }
    let function: Alu2 = if to == Type::F16x2 { pick!(F16) } else { pick!(BF16) };
    Ok(Alu::two(function, to, Type::F32, Type::F32))
}

fn packed(format: Format, high: u32, low: u32, rounding: Rounding, end: u8) -> u32 {
    let half = |bits: u32| through(F32, format, u64::from(bits), rounding, false, end) as u32;
    half(high) << 16 | half(low)
}

/// A conversion to or from a format that is no type of its own.
pub fn small(name: &str, other: Type, how: &How) -> Selection {
    if how.sat || how.ftz || how.integral.is_some() {
        return Err("this modifier is not allowed here".to_owned());
    }
    match (name, how.finite) {
        ("tf32", _) => tensor(other, how),
        ("e4m3x2", true) => to_eight::<false>(other, how),
        ("e4m3x2", false) => from_eight::<false>(other, how),
        (_, true) => to_eight::<true>(other, how),
        (_, false) => from_eight::<true>(other, how),
    }
}

/// The NaN of tensor cores' single precision.
const TENSOR_NAN: u32 = 0x7fff_e000;
/// Bits that their mantissa lacks.
const DROPPED: u32 = (1 << 13) - 1;

fn tensor(from: Type, how: &How) -> Selection {
    if from != Type::F32 {
        return Err(no_type(from));
    }
    let function: Alu1 = match (how.rounding, how.relu, how.finite) {
        (Some(Rounding::Nearest), false, false) => lanes!(|a: u32| -> u32 { tensor_nearest(a) }),
        (Some(Rounding::Nearest), true, false) => {
            lanes!(|a: u32| -> u32 { positive(tensor_nearest(a)) })
        }
        (Some(Rounding::Zero), false, false) => lanes!(|a: u32| -> u32 { tensor_chopped(a) }),
        (Some(Rounding::Zero), true, false) => {
            lanes!(|a: u32| -> u32 { positive(tensor_chopped(a)) })
        }
        (Some(Rounding::NearestAway), false, false) => lanes!(|a: u32| -> u32 { tensor_away(a) }),
        (Some(Rounding::NearestAway), false, true) => {
            lanes!(|a: u32| -> u32 { finite(tensor_away(a)) })
        }
        _ => return Err("no such conversion to '.tf32'".to_owned()),
    };
    Ok(Alu::one(function, Type::B32, from))
}

fn is_nan(bits: u32) -> bool {
    bits & 0x7fff_ffff > 0x7f80_0000
}

fn positive(bits: u32) -> u32 {
    if bits >> 31 != 0 { 0 } else { bits }
}

/// Infinities and NaNs lose one unit, as what was rounded to infinity does.
fn finite(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0x7f80_0000 { bits - (DROPPED + 1) } else { bits }
}

fn tensor_nearest(bits: u32) -> u32 {
    if is_nan(bits) {
        return TENSOR_NAN;
    }
    (bits + DROPPED / 2 + (bits >> 13 & 1)) & !DROPPED
}

fn tensor_chopped(bits: u32) -> u32 {
    if is_nan(bits) { TENSOR_NAN } else { bits & !DROPPED }
}

/// Ties go away from zero; a NaN keeps what it has room for.
fn tensor_away(bits: u32) -> u32 {
    let half = if is_nan(bits) { 0 } else { DROPPED.div_ceil(2) };
    (bits + half) & !DROPPED
}

/// The formats of eight bits: `FIVE` of them for the exponent, or four.
const EIGHT_NAN: u8 = 0x7f;

/// A number rounded to eight bits; what is too large becomes the largest.
fn eight<const FIVE: bool, const RELU: bool>(value: f64) -> u16 {
    if value.is_nan() {
        return u16::from(EIGHT_NAN);
    }
    if RELU && value.is_sign_negative() {
        return 0;
    }
    let sign = u16::from(value.is_sign_negative()) << 7;
    let (mantissa, bias, largest) = if FIVE { (2, 15, 0x7b) } else { (3, 7, 0x7e) };
    sign | half::encode(value, mantissa, bias).min(largest) as u16
}

/// The half that eight bits stand for.
fn widened<const FIVE: bool, const RELU: bool>(bits: u8) -> u16 {
    let value = if FIVE {
        half::widen::<false>(u16::from(bits) << 8)
    } else {
        let magnitude = bits & 0x7f;
        let value = match magnitude >> 3 {
            _ if magnitude == EIGHT_NAN => f64::NAN,
            0 => f64::from(magnitude) / 512.0,
            exponent => f64::from(8 | magnitude & 7) * 2_f64.powi(i32::from(exponent) - 10),
        };
        if bits & 0x80 != 0 { -value } else { value }
    };
    if RELU && value.is_sign_negative() && !value.is_nan() {
        0
    } else {
        half::narrow::<false>(value)
    }
}

fn to_eight<const FIVE: bool>(from: Type, how: &How) -> Selection {
    if how.rounding != Some(Rounding::Nearest) {
        return Err("a rounding to nearest is needed".to_owned());
    }
    macro_rules! pick {
        ($relu:literal) => {
            match from {
                Type::F32 => {
                    let function: Alu2 = lanes!(|a: f32, b: f32| -> u16 {
                        eight::<FIVE, $relu>(f64::from(a)) << 8 | eight::<FIVE, $relu>(f64::from(b))
                    });
                    Ok(Alu::two(function, Type::B16, from, from))
                }
                Type::F16x2 => {
                    let function: Alu1 = lanes!(|a: u32| -> u16 {
                        let half = |bits: u16| eight::<FIVE, $relu>(half::widen::<false>(bits));
                        half((a >> 16) as u16) << 8 | half(a as u16)
                    });
                    Ok(Alu::one(function, Type::B16, from))
                }
                _ => Err(no_type(from)),
            }
        };
    }
    if how.relu { pick!(true) } else { pick!(false) }
}

fn from_eight<const FIVE: bool>(to: Type, how: &How) -> Selection {
    if how.rounding != Some(Rounding::Nearest) || to != Type::F16x2 {
        return Err("numbers of eight bits become '.f16x2', rounded to nearest".to_owned());
    }
    macro_rules! pick {
        ($relu:literal) => {
            lanes!(|a: u16| -> u32 {
                let half = |bits: u8| u32::from(widened::<FIVE, $relu>(bits));
                half((a >> 8) as u8) << 16 | half(a as u8)
            })
        };
    }
    let function: Alu1 = if how.relu { pick!(true) } else { pick!(false) };
    Ok(Alu::one(function, to, Type::B16))
}
