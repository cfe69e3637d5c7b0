//! Arithmetic in half precision and in its short form, one value or two packed in a register.

use super::softfloat::{self as soft, BF16, F16, Format, Number, Rounding, pack, unpack};
use super::{Alu, Alu1, Alu2, Alu3, Modifiers, Selection, lanes, no_type};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "add" | "sub" | "mul" | "min" | "max" => binary(opcode, modifiers),
        "fma" => fused(modifiers),
        "abs" | "neg" => sign(opcode, modifiers),
        _ => return None,
    })
}

fn both(word: u32, other: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let low = f(word as u16, other as u16);
    let high = f((word >> 16) as u16, (other >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}

fn open(format: Format, bits: u16) -> Number {
    unpack(format, u64::from(bits))
}

fn close(format: Format, number: Number) -> u16 {
    pack(format, number, Rounding::Nearest) as u16
}

/// Operations by number, so that they can be constants.
const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;
const MIN: u8 = 3;
const MAX: u8 = 4;

fn format<const BRAIN: bool>() -> Format {
    if BRAIN { BF16 } else { F16 }
}

fn apply<const BRAIN: bool, const OP: u8>(a: u16, b: u16) -> u16 {
    let format = format::<BRAIN>();
    let minus = b ^ 0x8000;
    match OP {
        ADD => close(format, soft::add(open(format, a), open(format, b), Rounding::Nearest)),
        SUB => close(format, soft::add(open(format, a), open(format, minus), Rounding::Nearest)),
        MUL => close(format, soft::mul(open(format, a), open(format, b))),
        _ => extremum(format, a, b, OP == MIN),
    }
}

fn extremum(format: Format, a: u16, b: u16, least: bool) -> u16 {
    match (open(format, a), open(format, b)) {
        (Number::Nan, Number::Nan) => close(format, Number::Nan),
        (Number::Nan, _) => b,
        (_, Number::Nan) => a,
        _ => {
            // Ordered as integers once negative numbers count downwards.
            let key = |bits: u16| if bits & 0x8000 != 0 { !bits } else { bits | 0x8000 };
            if (key(a) < key(b)) == least { a } else { b }
        }
    }
}

fn multiply_add<const BRAIN: bool>(a: u16, b: u16, c: u16) -> u16 {
    let format = format::<BRAIN>();
    let product = soft::mul(open(format, a), open(format, b));
    close(format, soft::add(product, open(format, c), Rounding::Nearest))
}

fn pick<const OP: u8>(ty: Type) -> Option<Alu2> {
    Some(match ty {
        Type::F16 => lanes!(|a: u16, b: u16| -> u16 { apply::<false, OP>(a, b) }),
        Type::Bf16 => lanes!(|a: u16, b: u16| -> u16 { apply::<true, OP>(a, b) }),
        Type::F16x2 => lanes!(|a: u32, b: u32| -> u32 { both(a, b, apply::<false, OP>) }),
        Type::Bf16x2 => lanes!(|a: u32, b: u32| -> u32 { both(a, b, apply::<true, OP>) }),
        _ => return None,
    })
}

/// Flushing, saturation and rounding other than to nearest are not implemented for halves.
fn plain(modifiers: &mut Modifiers<'_>) -> Result<(), String> {
    match modifiers.rounding() {
        None | Some(Rounding::Nearest) => Ok(()),
        Some(_) => Err("half precision only rounds to nearest".to_owned()),
    }
}

fn binary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    plain(modifiers)?;
    let ty = modifiers.ty()?;
    let function = match opcode {
        "add" => pick::<ADD>(ty),
        "sub" => pick::<SUB>(ty),
        "mul" => pick::<MUL>(ty),
        "min" => pick::<MIN>(ty),
        _ => pick::<MAX>(ty),
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, ty))
}

fn fused(modifiers: &mut Modifiers<'_>) -> Selection {
    plain(modifiers)?;
    let ty = modifiers.ty()?;
    let function: Alu3 = match ty {
        Type::F16 => lanes!(|a: u16, b: u16, c: u16| -> u16 { multiply_add::<false>(a, b, c) }),
        Type::Bf16 => lanes!(|a: u16, b: u16, c: u16| -> u16 { multiply_add::<true>(a, b, c) }),
        Type::F16x2 => lanes!(|a: u32, b: u32, c: u32| -> u32 { multiply_add2::<false>(a, b, c) }),
        Type::Bf16x2 => lanes!(|a: u32, b: u32, c: u32| -> u32 { multiply_add2::<true>(a, b, c) }),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::three(function, ty, ty, ty, ty))
}

fn multiply_add2<const BRAIN: bool>(a: u32, b: u32, c: u32) -> u32 {
    let high = |word: u32| (word >> 16) as u16;
    let low = multiply_add::<BRAIN>(a as u16, b as u16, c as u16);
    u32::from(multiply_add::<BRAIN>(high(a), high(b), high(c))) << 16 | u32::from(low)
}

fn sign(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function: Alu1 = match (ty, opcode) {
        (Type::F16 | Type::Bf16, "abs") => lanes!(|a: u16| -> u16 { a & 0x7fff }),
        (Type::F16 | Type::Bf16, _) => lanes!(|a: u16| -> u16 { a ^ 0x8000 }),
        (Type::F16x2 | Type::Bf16x2, "abs") => lanes!(|a: u32| -> u32 { a & 0x7fff_7fff }),
        (Type::F16x2 | Type::Bf16x2, _) => lanes!(|a: u32| -> u32 { a ^ 0x8000_8000 }),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::one(function, ty, ty))
}
