//! Arithmetic in half precision and in its short form, one number or two packed in a register.
//!
//! Numbers are computed with as doubles and rounded to the format. A double holds their products
//! exactly. It holds the sum of two so closely that rounding again gives what rounding once would; of
//! a product and a number it keeps on which side the exact sum lies.

use super::softfloat::{F16, F32, Rounding, pack, unpack};
use super::{Alu, Alu1, Alu2, Alu3, Modifiers, Selection, lanes, nan, no_type};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "add" | "sub" | "mul" => binary(opcode, modifiers),
        "min" | "max" => extremum(opcode, modifiers),
        "fma" => fused(modifiers),
        "abs" | "neg" => sign(opcode, modifiers),
        _ => return None,
    })
}

/// Operations by number, so that they can be constants.
const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;

/// What happens to a result.
const AS_IT_IS: u8 = 0;
const SATURATE: u8 = 1;
const RELU: u8 = 2;

/// The double of a number of half precision, or of its short form if `BRAIN`.
#[inline(always)]
pub(super) fn widen<const BRAIN: bool>(bits: u16) -> f64 {
    if BRAIN {
        return super::convert_real::wide(f32::from_bits(u32::from(bits) << 16));
    }
    let magnitude = u64::from(bits & 0x7fff);
    let sign = u64::from(bits >> 15) << 63;
    let value = match magnitude >> 10 {
        0 => magnitude as f64 * SMALLEST_HALF,
        31 => f64::from_bits(0x7ff << 52 | (magnitude & 0x3ff) << 42),
        _ => f64::from_bits((magnitude << 42) + ((1023 - 15) << 52)),
    };
    f64::from_bits(value.to_bits() | sign)
}

/// The least subnormal of half precision.
const SMALLEST_HALF: f64 = 1.0 / 16_777_216.0;

/// The magnitude of a double, rounded to the nearest number of a format with that many bits of mantissa
/// and that bias of the exponent, without a limit to the exponent.
#[inline(always)]
pub(super) fn encode(value: f64, mantissa: u32, bias: u64) -> u64 {
    let magnitude = value.to_bits() & !(1 << 63);
    if magnitude < (1023 - bias + 1) << 52 {
        // The sum's last bit is worth the least subnormal, so the sum is rounded as it should be.
        let unit = f64::from_bits((1023 - bias + 1 - u64::from(mantissa) + 52) << 52);
        let sum = f64::from_bits(magnitude) + unit;
        return sum.to_bits() - unit.to_bits();
    }
    let shift = 52 - mantissa;
    let rounded = magnitude + ((1 << (shift - 1)) - 1) + (magnitude >> shift & 1);
    (rounded >> shift) - ((1023 - bias) << mantissa)
}

/// A double rounded to the nearest number of the format.
#[inline(always)]
pub(super) fn narrow<const BRAIN: bool>(value: f64) -> u16 {
    if value.is_nan() {
        return if BRAIN { nan::BRAIN } else { nan::HALF };
    }
    let sign = (value.to_bits() >> 48) as u16 & 0x8000;
    let (mantissa, bias, infinity) = if BRAIN { (7, 127, 0x7f80) } else { (10, 15, 0x7c00) };
    sign | encode(value, mantissa, bias).min(infinity) as u16
}

/// A subnormal becomes a zero of the same sign.
#[inline(always)]
fn flush<const FTZ: bool>(bits: u16) -> u16 {
    if FTZ && bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

#[inline(always)]
fn enter<const BRAIN: bool, const FTZ: bool>(bits: u16) -> f64 {
    widen::<BRAIN>(flush::<FTZ>(bits))
}

#[inline(always)]
fn leave<const BRAIN: bool, const FTZ: bool, const END: u8>(value: f64) -> u16 {
    // What would only become normal by rounding is flushed too.
    let value = if FTZ && value.abs() < SMALLEST_NORMAL { value * 0.0 } else { value };
    finish::<BRAIN, END>(narrow::<BRAIN>(value))
}

/// The least number of half precision that is not subnormal.
const SMALLEST_NORMAL: f64 = 1.0 / 16_384.0;

/// Cuts off what is not wanted of a result.
#[inline(always)]
fn finish<const BRAIN: bool, const END: u8>(bits: u16) -> u16 {
    let (one, infinity) = if BRAIN { (0x3f80, 0x7f80) } else { (0x3c00, 0x7c00) };
    let is_nan = bits & 0x7fff > infinity;
    match END {
        SATURATE if is_nan || bits & 0x8000 != 0 => 0,
        SATURATE => bits.min(one),
        RELU if bits & 0x8000 != 0 && !is_nan => 0,
        _ => bits,
    }
}

/// A function of each half of a register.
#[inline(always)]
pub(super) fn each(word: u32, f: impl Fn(u16) -> u16) -> u32 {
    both(word, word, |bits, _| f(bits))
}

/// A single-precision number cut off to the format.
pub(super) fn cut<const BRAIN: bool>(value: f32) -> u16 {
    if value.is_nan() {
        return if BRAIN { nan::BRAIN } else { nan::HALF };
    }
    if BRAIN {
        return (value.to_bits() >> 16) as u16;
    }
    // What is larger than the largest number by a unit or more becomes infinity.
    if value.abs() >= 65_536.0 {
        return narrow::<false>(f64::from(value));
    }
    pack(F16, unpack(F32, u64::from(value.to_bits())), Rounding::Zero) as u16
}

#[inline(always)]
fn both(word: u32, other: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let low = f(word as u16, other as u16);
    let high = f((word >> 16) as u16, (other >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}

#[inline(always)]
fn both3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    let low = f(a as u16, b as u16, c as u16);
    let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}

#[inline(always)]
fn apply<const OP: u8, const BRAIN: bool, const FTZ: bool, const END: u8>(a: u16, b: u16) -> u16 {
    let (a, b) = (enter::<BRAIN, FTZ>(a), enter::<BRAIN, FTZ>(b));
    leave::<BRAIN, FTZ, END>(match OP {
        ADD => a + b,
        SUB => a - b,
        _ => a * b,
    })
}

fn arithmetic<const OP: u8, const BRAIN: bool, const FTZ: bool, const END: u8>(two: bool) -> Alu2 {
    if two {
        lanes!(|a: u32, b: u32| -> u32 { both(a, b, apply::<OP, BRAIN, FTZ, END>) })
    } else {
        lanes!(|a: u16, b: u16| -> u16 { apply::<OP, BRAIN, FTZ, END>(a, b) })
    }
}

/// What the modifiers of half precision say.
struct How {
    brain: bool,
    /// Two in a register.
    two: bool,
    ftz: bool,
    end: u8,
    ty: Type,
}

impl How {
    fn read(modifiers: &mut Modifiers<'_>) -> Result<Self, String> {
        let ftz = modifiers.flag("ftz");
        let end = match modifiers.one_of(&["sat", "relu"]) {
            None => AS_IT_IS,
            Some("sat") => SATURATE,
            Some(_) => RELU,
        };
        let ty = modifiers.ty()?;
        let (brain, two) = match ty {
            Type::F16 => (false, false),
            Type::F16x2 => (false, true),
            Type::Bf16 => (true, false),
            Type::Bf16x2 => (true, true),
            _ => return Err(no_type(ty)),
        };
        if brain && (ftz || end == SATURATE) {
            return Err(format!("'.ftz' and '.sat' are not allowed on '.{}'", ty.name()));
        }
        Ok(Self { brain, two, ftz, end, ty })
    }
}

fn binary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    if !matches!(modifiers.rounding(), None | Some(Rounding::Nearest)) {
        return Err("half precision is only rounded to nearest".to_owned());
    }
    let how = How::read(modifiers)?;
    if how.end == RELU {
        return Err(format!("'.relu' is not allowed on '{opcode}'"));
    }
    let function = match opcode {
        "add" => arithmetic_of::<ADD>(&how),
        "sub" => arithmetic_of::<SUB>(&how),
        _ => arithmetic_of::<MUL>(&how),
    };
    Ok(Alu::two(function, how.ty, how.ty, how.ty))
}

fn arithmetic_of<const OP: u8>(how: &How) -> Alu2 {
    match (how.brain, how.ftz, how.end) {
        (true, ..) => arithmetic::<OP, true, false, AS_IT_IS>(how.two),
        (_, false, AS_IT_IS) => arithmetic::<OP, false, false, AS_IT_IS>(how.two),
        (_, false, _) => arithmetic::<OP, false, false, SATURATE>(how.two),
        (_, true, AS_IT_IS) => arithmetic::<OP, false, true, AS_IT_IS>(how.two),
        (_, true, _) => arithmetic::<OP, false, true, SATURATE>(how.two),
    }
}

/// The sum of two doubles whose last bit tells, if the sum is not exact, on which side of it the exact one
/// lies: rounded to odd.
#[inline(always)]
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let of_b = sum - a;
    let lost = (a - (sum - of_b)) + (b - of_b);
    let bits = sum.to_bits();
    if lost == 0.0 || !sum.is_finite() || bits & 1 != 0 {
        return sum;
    }
    f64::from_bits(if (lost > 0.0) == (sum > 0.0) { bits + 1 } else { bits - 1 })
}

#[inline(always)]
fn multiply_add<const BRAIN: bool, const FTZ: bool, const END: u8>(a: u16, b: u16, c: u16) -> u16 {
    let product = enter::<BRAIN, FTZ>(a) * enter::<BRAIN, FTZ>(b);
    leave::<BRAIN, FTZ, END>(sum_to_odd(product, enter::<BRAIN, FTZ>(c)))
}

/// The NaN that stands for what lies outside a tensor makes a zero of the product.
const OUTSIDE: u16 = 0x7ff7;

#[inline(always)]
fn multiply_add_inside<const BRAIN: bool, const END: u8>(a: u16, b: u16, c: u16) -> u16 {
    if a & 0x7fff == OUTSIDE || b & 0x7fff == OUTSIDE {
        0
    } else {
        multiply_add::<BRAIN, false, END>(a, b, c)
    }
}

/// One of them or two, of a function of three numbers.
macro_rules! fused {
    ($two:expr, $f:expr) => {
        if $two {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { both3(a, b, c, $f) })
        } else {
            lanes!(|a: u16, b: u16, c: u16| -> u16 { $f(a, b, c) })
        }
    };
}

fn fused(modifiers: &mut Modifiers<'_>) -> Selection {
    let rounding = modifiers.rounding();
    let outside = modifiers.flag("oob");
    let how = How::read(modifiers)?;
    let function = match rounding {
        Some(Rounding::Nearest) if outside => fused_inside(&how)?,
        Some(Rounding::Nearest) => fused_of(&how),
        // PTX does not describe this. A GPU rounds to nearest, and takes single numbers for halves.
        Some(Rounding::Zero) if how.brain && !outside && how.two => fused_of(&how),
        Some(Rounding::Zero) if how.brain && !outside => {
            fused_of(&How { brain: false, end: AS_IT_IS, ..how })
        }
        Some(_) => return Err("this rounding is not allowed here".to_owned()),
        None => return Err("a rounding is missing".to_owned()),
    };
    Ok(Alu::three(function, how.ty, how.ty, how.ty, how.ty))
}

fn fused_inside(how: &How) -> Result<Alu3, String> {
    Ok(match (how.brain, how.ftz, how.end) {
        (_, true, _) | (_, _, SATURATE) => {
            return Err("'.ftz' and '.sat' are not allowed with '.oob'".to_owned());
        }
        (false, _, AS_IT_IS) => fused!(how.two, multiply_add_inside::<false, AS_IT_IS>),
        (false, ..) => fused!(how.two, multiply_add_inside::<false, RELU>),
        (true, _, AS_IT_IS) => fused!(how.two, multiply_add_inside::<true, AS_IT_IS>),
        (true, ..) => fused!(how.two, multiply_add_inside::<true, RELU>),
    })
}

fn fused_of(how: &How) -> Alu3 {
    match (how.brain, how.ftz, how.end) {
        (true, _, RELU) => fused!(how.two, multiply_add::<true, false, RELU>),
        (true, ..) => fused!(how.two, multiply_add::<true, false, AS_IT_IS>),
        (_, false, RELU) => fused!(how.two, multiply_add::<false, false, RELU>),
        (_, false, SATURATE) => fused!(how.two, multiply_add::<false, false, SATURATE>),
        (_, false, _) => fused!(how.two, multiply_add::<false, false, AS_IT_IS>),
        (_, true, RELU) => fused!(how.two, multiply_add::<false, true, RELU>),
        (_, true, SATURATE) => fused!(how.two, multiply_add::<false, true, SATURATE>),
        (_, true, _) => fused!(how.two, multiply_add::<false, true, AS_IT_IS>),
    }
}

/// The smaller or larger of two numbers, or of their magnitudes with the product of their signs.
#[inline(always)]
fn extreme<
    const LEAST: bool,
    const BRAIN: bool,
    const FTZ: bool,
    const PROPAGATE: bool,
    const SIGNS: bool,
>(
    a: u16,
    b: u16,
) -> u16 {
    let infinity = if BRAIN { 0x7f80 } else { 0x7c00 };
    let canonical = if BRAIN { nan::BRAIN } else { nan::HALF };
    let is_nan = |bits: u16| bits & 0x7fff > infinity;
    let (a, b) = (flush::<FTZ>(a), flush::<FTZ>(b));
    let sign = if SIGNS { (a ^ b) & 0x8000 } else { 0 };
    let (a, b) = if SIGNS { (a & 0x7fff, b & 0x7fff) } else { (a, b) };
    if is_nan(a) || is_nan(b) {
        if PROPAGATE || is_nan(a) && is_nan(b) {
            return canonical;
        }
        return sign | if is_nan(a) { b } else { a };
    }
    // Ordered as integers once negative numbers count downwards.
    let key = |bits: u16| if bits & 0x8000 != 0 { !bits } else { bits | 0x8000 };
    sign | if (key(a) < key(b)) == LEAST { a } else { b }
}

fn extreme_of<const LEAST: bool, const BRAIN: bool>(
    how: &How,
    propagate: bool,
    signs: bool,
) -> Alu2 {
    macro_rules! pick {
        ($F:literal, $P:literal, $S:literal) => {
            if how.two {
                lanes!(|a: u32, b: u32| -> u32 { both(a, b, extreme::<LEAST, BRAIN, $F, $P, $S>) })
            } else {
                lanes!(|a: u16, b: u16| -> u16 { extreme::<LEAST, BRAIN, $F, $P, $S>(a, b) })
            }
        };
    }
    match (how.ftz, propagate, signs) {
        (false, false, false) => pick!(false, false, false),
        (false, false, true) => pick!(false, false, true),
        (false, true, false) => pick!(false, true, false),
        (false, true, true) => pick!(false, true, true),
        (true, false, false) => pick!(true, false, false),
        (true, false, true) => pick!(true, false, true),
        (true, true, false) => pick!(true, true, false),
        (true, true, true) => pick!(true, true, true),
    }
}

fn extremum(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let propagate = modifiers.flag("NaN");
    let signs = super::float::magnitudes(modifiers)?;
    let how = How::read(modifiers)?;
    if how.end != AS_IT_IS {
        return Err(format!("'.sat' and '.relu' are not allowed on '{opcode}'"));
    }
    let function = match (opcode, how.brain) {
        ("min", false) => extreme_of::<true, false>(&how, propagate, signs),
        ("min", true) => extreme_of::<true, true>(&how, propagate, signs),
        (_, false) => extreme_of::<false, false>(&how, propagate, signs),
        (_, true) => extreme_of::<false, true>(&how, propagate, signs),
    };
    Ok(Alu::two(function, how.ty, how.ty, how.ty))
}

fn sign(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let how = How::read(modifiers)?;
    if how.end != AS_IT_IS {
        return Err(format!("'.sat' and '.relu' are not allowed on '{opcode}'"));
    }
    let function: Alu1 = match (how.brain, how.ftz, opcode) {
        (false, false, "abs") => signed::<false, false, true>(how.two),
        (false, false, _) => signed::<false, false, false>(how.two),
        (false, true, "abs") => signed::<false, true, true>(how.two),
        (false, true, _) => signed::<false, true, false>(how.two),
        (true, _, "abs") => signed::<true, false, true>(how.two),
        (true, ..) => signed::<true, false, false>(how.two),
    };
    Ok(Alu::one(function, how.ty, how.ty))
}

/// The magnitude, or the number with the other sign; no NaN keeps its bits.
#[inline(always)]
fn with_sign<const BRAIN: bool, const FTZ: bool, const ABS: bool>(bits: u16) -> u16 {
    let infinity = if BRAIN { 0x7f80 } else { 0x7c00 };
    if bits & 0x7fff > infinity {
        return if BRAIN { nan::BRAIN } else { nan::HALF };
    }
    let bits = flush::<FTZ>(bits);
    if ABS { bits & 0x7fff } else { bits ^ 0x8000 }
}

fn signed<const BRAIN: bool, const FTZ: bool, const ABS: bool>(two: bool) -> Alu1 {
    if two {
        lanes!(|a: u32| -> u32 { each(a, with_sign::<BRAIN, FTZ, ABS>) })
    } else {
        lanes!(|a: u16| -> u16 { with_sign::<BRAIN, FTZ, ABS>(a) })
    }
}

/// The sum of two values of one of the four types, one or two in a word, as atomics make it.
pub fn sum(ty: Type, a: u32, b: u32) -> u32 {
    match ty {
        Type::F16 => u32::from(apply::<ADD, false, false, AS_IT_IS>(a as u16, b as u16)),
        Type::F16x2 => both(a, b, apply::<ADD, false, false, AS_IT_IS>),
        Type::Bf16 => u32::from(apply::<ADD, true, false, AS_IT_IS>(a as u16, b as u16)),
        _ => both(a, b, apply::<ADD, true, false, AS_IT_IS>),
    }
}

/// The smaller or larger of two values of one of the four types, as atomics make it.
pub fn extreme_of_two(ty: Type, a: u32, b: u32, least: bool) -> u32 {
    let one: fn(u16, u16) -> u16 = match (ty, least) {
        (Type::F16 | Type::F16x2, true) => extreme::<true, false, false, false, false>,
        (Type::F16 | Type::F16x2, false) => extreme::<false, false, false, false, false>,
        (_, true) => extreme::<true, true, false, false, false>,
        (_, false) => extreme::<false, true, false, false, false>,
    };
    let high = if matches!(ty, Type::F16x2 | Type::Bf16x2) {
        one((a >> 16) as u16, (b >> 16) as u16)
    } else {
        0
    };
    u32::from(high) << 16 | u32::from(one(a as u16, b as u16))
}
