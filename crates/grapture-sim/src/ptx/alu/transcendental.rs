//! The approximate functions. They are computed in double precision and rounded, so they are at
//! least as exact as a GPU's, but not the same in the last bits.

use super::float::{qualifiers, single};
use super::{Alu, Alu1, Modifiers, Selection, lanes, nan, no_type};
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
    if modifiers.last_type() == Some(Type::F64) {
        return double(opcode, modifiers);
    }
    let (_, ftz, _, ty) = qualifiers(modifiers)?;
    if ty != Type::F32 {
        return Err(no_type(ty));
    }
    let function: Alu1 = match opcode {
        "sin" => single!(ftz, false, |a| f64::from(a).sin() as f32),
        "cos" => single!(ftz, false, |a| f64::from(a).cos() as f32),
        "ex2" => single!(ftz, false, |a| f64::from(a).exp2() as f32),
        "lg2" => single!(ftz, false, |a| f64::from(a).log2() as f32),
        "tanh" => single!(ftz, false, |a| f64::from(a).tanh() as f32),
        "rsqrt" => single!(ftz, false, |a| reciprocal_root(f64::from(a)) as f32),
        "rcp" => single!(ftz, false, |a| 1.0 / a),
        _ => single!(ftz, false, |a| a.sqrt()),
    };
    Ok(Alu::one(function, ty, ty))
}

/// Minus infinity for minus zero, as the instruction gives it.
fn reciprocal_root(value: f64) -> f64 {
    1.0 / value.sqrt()
}

fn double(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ftz = modifiers.flag("ftz");
    let ty = modifiers.ty()?;
    let function: Alu1 = match opcode {
        // The result has only the upper half of a double's bits.
        "rcp" if ftz => {
            lanes!(|a: f64| -> u64 { nan::double(1.0 / a, a).to_bits() & !0xffff_ffff })
        }
        "rsqrt" if ftz => {
            lanes!(|a: f64| -> u64 { nan::double(reciprocal_root(a), a).to_bits() & !0xffff_ffff })
        }
        "rsqrt" => lanes!(|a: f64| -> f64 { nan::double(reciprocal_root(a), a) }),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::one(function, ty, ty))
}
