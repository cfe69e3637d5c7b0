//! Absolute differences of the bytes or half-words of two registers.

use super::{Alu, Alu3, Modifiers, Selection, lanes, no_type};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "vabsdiff4" => difference::<8>(modifiers),
        "vabsdiff2" => difference::<16>(modifiers),
        _ => return None,
    })
}

/// The parts of a register, extended by their sign or by zero.
fn parts<const BITS: u32, const SIGNED: bool>(word: u32) -> impl Iterator<Item = i64> {
    (0..32 / BITS).map(move |index| {
        let low = i64::from(word >> (index * BITS)) << (64 - BITS);
        if SIGNED { low >> (64 - BITS) } else { ((low as u64) >> (64 - BITS)) as i64 }
    })
}

fn differences<const BITS: u32, const SIGNED: bool>(a: u32, b: u32) -> impl Iterator<Item = u64> {
    let pairs = parts::<BITS, SIGNED>(a).zip(parts::<BITS, SIGNED>(b));
    pairs.map(|(a, b)| a.abs_diff(b))
}

fn packed<const BITS: u32, const SIGNED: bool>(a: u32, b: u32) -> u32 {
    let all = differences::<BITS, SIGNED>(a, b).zip(0_u32..);
    all.fold(0, |word, (part, index)| word | ((part & ((1 << BITS) - 1)) as u32) << (index * BITS))
}

fn summed<const BITS: u32, const SIGNED: bool>(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add(differences::<BITS, SIGNED>(a, b).sum::<u64>() as u32)
}

fn difference<const BITS: u32>(modifiers: &mut Modifiers<'_>) -> Selection {
    let (to, a, b) = (modifiers.ty()?, modifiers.ty()?, modifiers.ty()?);
    let sum = modifiers.flag("add");
    let function: Alu3 = match (a, b, sum) {
        (Type::U32, Type::U32, false) => {
            lanes!(|a: u32, b: u32, _c: u32| -> u32 { packed::<BITS, false>(a, b) })
        }
        (Type::S32, Type::S32, false) => {
            lanes!(|a: u32, b: u32, _c: u32| -> u32 { packed::<BITS, true>(a, b) })
        }
        (Type::U32, Type::U32, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { summed::<BITS, false>(a, b, c) })
        }
        (Type::S32, Type::S32, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { summed::<BITS, true>(a, b, c) })
        }
        _ => return Err(no_type(b)),
    };
    Ok(Alu::three(function, to, Type::B32, Type::B32, Type::B32))
}
