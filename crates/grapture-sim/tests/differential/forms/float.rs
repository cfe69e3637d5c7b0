//! Arithmetic in single and double precision.

use super::ROUNDINGS;
use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in ["f32", "f64"] {
        for rounding in ["", ".rn", ".rz", ".rm", ".rp", ".rna", ".rni"] {
            for flush in ["", ".ftz"] {
                for saturate in ["", ".sat"] {
                    rounded(forms, &format!("{rounding}{flush}{saturate}.{ty}"), ty);
                }
            }
        }
        for flush in ["", ".ftz"] {
            for op in ["abs", "neg"] {
                forms.op(format!("{op}{flush}.{ty}"), ty, &[ty]);
            }
            extremes(forms, flush, ty);
        }
        forms.op(format!("copysign.{ty}"), ty, &[ty, ty]);
    }
    three_inputs(forms);
    refused(forms);
    contracted(forms);
}

fn rounded(forms: &mut Forms, modifiers: &str, ty: &str) {
    for op in ["add", "sub", "mul"] {
        forms.op(format!("{op}{modifiers}"), ty, &[ty, ty]);
    }
    for op in ["fma", "mad"] {
        forms.op(format!("{op}{modifiers}"), ty, &[ty, ty, ty]);
    }
    forms.op(format!("div{modifiers}"), ty, &[ty, ty]);
    for op in ["rcp", "sqrt"] {
        forms.op(format!("{op}{modifiers}"), ty, &[ty]);
    }
}

fn extremes(forms: &mut Forms, flush: &str, ty: &str) {
    for op in ["min", "max"] {
        for propagate in ["", ".NaN"] {
            for sign in ["", ".xorsign.abs"] {
                forms.op(format!("{op}{flush}{propagate}{sign}.{ty}"), ty, &[ty, ty]);
            }
        }
    }
}

/// What later processors have.
fn three_inputs(forms: &mut Forms) {
    for op in ["min", "max", "min.NaN", "max.NaN"] {
        let body = format!("{op}.f32 %x, %a, %b, %c;");
        forms.body(format!("{op}.f32 of three"), &["f32"], &["f32"; 3], body);
    }
    for op in ["add", "sub", "mul"] {
        forms.body(
            format!("{op}.f32x2"),
            &["b64"],
            &["b64", "b64"],
            format!("{op}.rn.f32x2 %x, %a, %b;"),
        );
    }
}

fn refused(forms: &mut Forms) {
    for op in ["rem", "and", "mul.lo", "mul.wide", "sad", "shl"] {
        forms.op(format!("{op}.f32"), "f32", &["f32", "f32"]);
    }
    for op in ["not", "popc", "lg2", "sin", "brev"] {
        forms.op(format!("{op}.f64"), "f64", &["f64"]);
    }
}

/// A product and a sum that say how they are rounded are never fused.
fn contracted(forms: &mut Forms) {
    for rounding in ROUNDINGS {
        let body = format!("mul.{rounding}.f32 %x, %a, %b; add.{rounding}.f32 %x, %x, %c;");
        forms.body(format!("mul.{rounding}, add.{rounding}.f32"), &["f32"], &["f32"; 3], body);
    }
}
