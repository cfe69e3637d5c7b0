//! Dot products of packed bytes and arithmetic on packed half-words.

use super::{Alu, Alu2, Alu3, Modifiers, Selection, lanes, no_type};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "dp4a" => dot4(modifiers),
        "dp2a" => dot2(modifiers),
        _ => return None,
    })
}

/// Arithmetic on the two half-words of a register; `None` for what there is none of.
pub(super) fn halves(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    matches!(opcode, "add" | "min" | "max").then(|| binary(opcode, modifiers))
}

#[inline(always)]
fn both(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16 | u32::from(f(a as u16, b as u16))
}

#[inline(always)]
fn both_signed(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> u32 {
    both(a, b, |a, b| f(a as i16, b as i16) as u16)
}

fn binary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let relu = modifiers.flag("relu");
    let ty = modifiers.ty()?;
    let function: Alu2 = match (opcode, ty == Type::S16x2, relu) {
        ("add", _, false) => lanes!(|a: u32, b: u32| -> u32 { both(a, b, u16::wrapping_add) }),
        ("min", false, false) => lanes!(|a: u32, b: u32| -> u32 { both(a, b, u16::min) }),
        ("max", false, false) => lanes!(|a: u32, b: u32| -> u32 { both(a, b, u16::max) }),
        ("min", true, false) => lanes!(|a: u32, b: u32| -> u32 { both_signed(a, b, i16::min) }),
        ("max", true, false) => lanes!(|a: u32, b: u32| -> u32 { both_signed(a, b, i16::max) }),
        ("min", true, true) => {
            lanes!(|a: u32, b: u32| -> u32 { both_signed(a, b, |a, b| a.min(b).max(0)) })
        }
        ("max", true, true) => {
            lanes!(|a: u32, b: u32| -> u32 { both_signed(a, b, |a, b| a.max(b).max(0)) })
        }
        _ => return Err("'.relu' is not allowed here".to_owned()),
    };
    Ok(Alu::two(function, ty, ty, ty))
}

fn signs(modifiers: &mut Modifiers<'_>) -> Result<(Type, Type), String> {
    let (a, b) = (modifiers.ty()?, modifiers.ty()?);
    for ty in [a, b] {
        if !matches!(ty, Type::U32 | Type::S32) {
            return Err(no_type(ty));
        }
    }
    Ok((a, b))
}

fn result_type(a: Type, b: Type) -> Type {
    if a == Type::S32 || b == Type::S32 { Type::S32 } else { Type::U32 }
}

fn part(word: u32, bits: u32, index: u32, signed: bool) -> i64 {
    let raw = i64::from(word >> (bits * index)) & ((1 << bits) - 1);
    if signed && raw >> (bits - 1) != 0 { raw - (1 << bits) } else { raw }
}

fn dot(a: u32, b: u32, c: u32, signed: (bool, bool)) -> u32 {
    let sum: i64 = (0..4).map(|n| part(a, 8, n, signed.0) * part(b, 8, n, signed.1)).sum();
    (i64::from(c) + sum) as u32
}

fn dot4(modifiers: &mut Modifiers<'_>) -> Selection {
    let (a, b) = signs(modifiers)?;
    let function: Alu3 = match (a, b) {
        (Type::U32, Type::U32) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, (false, false)) })
        }
        (Type::U32, _) => lanes!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, (false, true)) }),
        (_, Type::U32) => lanes!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, (true, false)) }),
        _ => lanes!(|a: u32, b: u32, c: u32| -> u32 { dot(a, b, c, (true, true)) }),
    };
    let ty = result_type(a, b);
    Ok(Alu::three(function, ty, Type::B32, Type::B32, ty))
}

fn dot_halves(a: u32, b: u32, c: u32, signed: (bool, bool), high: u32) -> u32 {
    let sum: i64 =
        (0..2).map(|n| part(a, 16, n, signed.0) * part(b, 8, n + 2 * high, signed.1)).sum();
    (i64::from(c) + sum) as u32
}

fn dot2(modifiers: &mut Modifiers<'_>) -> Selection {
    let Some(mode) = modifiers.one_of(&["lo", "hi"]) else {
        return Err("one of .lo, .hi is missing".to_owned());
    };
    let (a, b) = signs(modifiers)?;
    let function: Alu3 = match (a, b, mode == "hi") {
        (Type::U32, Type::U32, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (false, false), 0) })
        }
        (Type::U32, Type::U32, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (false, false), 1) })
        }
        (Type::U32, _, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (false, true), 0) })
        }
        (Type::U32, _, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (false, true), 1) })
        }
        (_, Type::U32, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (true, false), 0) })
        }
        (_, Type::U32, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (true, false), 1) })
        }
        (_, _, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (true, true), 0) })
        }
        (_, _, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { dot_halves(a, b, c, (true, true), 1) })
        }
    };
    let ty = result_type(a, b);
    Ok(Alu::three(function, ty, Type::B32, Type::B32, ty))
}
