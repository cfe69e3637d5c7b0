//! The approximate functions. They are computed in double precision and rounded, so they are at
//! least as exact as a GPU's, but not the same in the last bits. What a GPU does to its operands before
//! it looks a value up is done here too.

use super::float::{flush, single};
use super::softfloat::{self as soft, F32, Rounding, pack, unpack};
use super::{Alu, Alu1, Alu2, Modifiers, Selection, half, lanes, nan, no_type};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    if !matches!(opcode, "sin" | "cos" | "ex2" | "lg2" | "tanh" | "rsqrt" | "rcp" | "sqrt") {
        return None;
    }
    Some(approximate(opcode, modifiers))
}

fn approximate(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    if !modifiers.flag("approx") {
        return Err("'.approx' is missing".to_owned());
    }
    let ftz = modifiers.flag("ftz");
    let ty = modifiers.ty()?;
    let function: Alu1 = match (ty, opcode) {
        (Type::F32, "tanh") if ftz => return Err("'.ftz' is not allowed here".to_owned()),
        (Type::F32, _) => of_single(opcode, ftz),
        (Type::F64, _) => of_double(opcode, ftz).ok_or_else(|| no_type(ty))?,
        _ => of_half(opcode, ftz, ty)?,
    };
    Ok(Alu::one(function, ty, ty))
}

fn of_single(opcode: &str, ftz: bool) -> Alu1 {
    match opcode {
        "sin" => single!(ftz, false, |a| sine(a)),
        "cos" => single!(ftz, false, |a| cosine(a)),
        "ex2" => single!(ftz, false, |a| exponential(a) as f32),
        "lg2" => single!(ftz, false, |a| f64::from(a).log2() as f32),
        "tanh" => single!(ftz, false, |a| tangent(a)),
        "rsqrt" => single!(ftz, false, |a| reciprocal_root(f64::from(a)) as f32),
        "rcp" => single!(ftz, false, |a| 1.0 / a),
        _ => single!(ftz, false, |a| a.sqrt()),
    }
}

/// The angle in turns: a product with a rounded constant, itself rounded towards zero.
fn turns(angle: f32) -> f32 {
    const TURNS_OF_RADIAN: f32 = std::f32::consts::FRAC_1_PI / 2.0;
    let [a, b] = [angle, TURNS_OF_RADIAN].map(|value| unpack(F32, u64::from(value.to_bits())));
    flush(f32::from_bits(pack(F32, soft::mul(a, b), Rounding::Zero) as u32))
}

fn sine(angle: f32) -> f32 {
    let turns = turns(angle);
    if turns == 0.0 {
        turns
    } else {
        (f64::from(turns).fract() * std::f64::consts::TAU).sin() as f32
    }
}

fn cosine(angle: f32) -> f32 {
    (f64::from(turns(angle)).fract() * std::f64::consts::TAU).cos() as f32
}

/// Two to a power, of which only so many bits behind the point count.
fn exponential(power: f32) -> f64 {
    const STEPS: f64 = 8_388_608.0;
    let power = f64::from(power);
    if power.abs() < 1.0 { ((power * STEPS).trunc() / STEPS).exp2() } else { power.exp2() }
}

/// The hyperbolic tangent, which for small operands is taken for the operand.
fn tangent(value: f32) -> f32 {
    const SMALL: f32 = 1.0 / 256.0;
    if value.abs() < SMALL { value } else { f64::from(value).tanh() as f32 }
}

/// Minus infinity for minus zero, as the instruction gives it.
fn reciprocal_root(value: f64) -> f64 {
    1.0 / value.sqrt()
}

/// The functions of halves are those of single precision, cut off.
fn of_half(opcode: &str, ftz: bool, ty: Type) -> Result<Alu1, String> {
    let brain = matches!(ty, Type::Bf16 | Type::Bf16x2);
    if ftz != (opcode == "ex2" && brain) {
        return Err("'.ftz' belongs to 'ex2' of the short form".to_owned());
    }
    Ok(match (opcode, ty) {
        ("ex2", Type::F16) => lanes!(|a: u16| -> u16 { half_exponential(a) }),
        ("ex2", Type::F16x2) => lanes!(|a: u32| -> u32 { half::each(a, half_exponential) }),
        ("ex2", Type::Bf16) => lanes!(|a: u16| -> u16 { brain_exponential(a) }),
        ("ex2", Type::Bf16x2) => lanes!(|a: u32| -> u32 { half::each(a, brain_exponential) }),
        ("tanh", Type::F16) => lanes!(|a: u16| -> u16 { half_tangent::<false>(a) }),
        ("tanh", Type::F16x2) => lanes!(|a: u32| -> u32 { half::each(a, half_tangent::<false>) }),
        ("tanh", Type::Bf16) => lanes!(|a: u16| -> u16 { half_tangent::<true>(a) }),
        ("tanh", Type::Bf16x2) => lanes!(|a: u32| -> u32 { half::each(a, half_tangent::<true>) }),
        _ => return Err(no_type(ty)),
    })
}

fn half_exponential(bits: u16) -> u16 {
    half::cut::<false>(exponential(half::widen::<false>(bits) as f32) as f32)
}

fn brain_exponential(bits: u16) -> u16 {
    half::cut::<true>(flush(exponential(flush(half::widen::<true>(bits) as f32)) as f32))
}

fn half_tangent<const BRAIN: bool>(bits: u16) -> u16 {
    half::cut::<BRAIN>(tangent(half::widen::<BRAIN>(bits) as f32))
}

fn of_double(opcode: &str, ftz: bool) -> Option<Alu1> {
    Some(match opcode {
        "rcp" if ftz => lanes!(|a: u64| -> u64 { coarse(a, |value| 1.0 / value) }),
        "rsqrt" if ftz => lanes!(|a: u64| -> u64 { coarse(a, reciprocal_root) }),
        "rsqrt" => lanes!(|a: f64| -> f64 { nan::double(reciprocal_root(a), a) }),
        _ => return None,
    })
}

/// A function of the upper half of a double, with as much of its result. Subnormals are flushed.
fn coarse(bits: u64, function: impl Fn(f64) -> f64) -> u64 {
    const UPPER: u64 = !0xffff_ffff;
    let flush = |value: f64| if value.is_subnormal() { value * 0.0 } else { value };
    let result = flush(function(flush(f64::from_bits(bits & UPPER))));
    if result.is_nan() { 0x7fff_ffff << 32 } else { result.to_bits() & UPPER }
}

/// `div.approx`: a product with the reciprocal, which is zero where it would be subnormal.
/// `div.full` scales its operands, so that it has a quotient everywhere.
pub(super) fn quotient(full: bool, ftz: bool) -> Alu2 {
    if full {
        single!(ftz, false, |a, b| a / b)
    } else {
        single!(ftz, false, |a, b| if b.abs() > LARGE { a * (0.0 * b.signum()) } else { a / b })
    }
}

/// Where reciprocals become subnormal.
const LARGE: f32 = 8.507_059e37;
