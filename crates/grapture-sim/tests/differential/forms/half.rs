//! Arithmetic in half precision and in its short form, one number or two in a register.

use crate::form::Forms;

const TYPES: [&str; 4] = ["f16", "f16x2", "bf16", "bf16x2"];

pub fn forms(forms: &mut Forms) {
    for ty in TYPES {
        for flush in ["", ".ftz"] {
            for end in ["", ".sat", ".relu"] {
                for rounding in ["", ".rn", ".rz"] {
                    arithmetic(forms, &format!("{rounding}{flush}{end}.{ty}"), ty);
                }
            }
            for op in ["abs", "neg"] {
                forms.op(format!("{op}{flush}.{ty}"), ty, &[ty]);
            }
            for op in ["min", "max"] {
                for propagate in ["", ".NaN"] {
                    for sign in ["", ".xorsign.abs"] {
                        forms.op(format!("{op}{flush}{propagate}{sign}.{ty}"), ty, &[ty, ty]);
                    }
                }
            }
        }
        for end in ["", ".relu"] {
            forms.op(format!("fma.rn.oob{end}.{ty}"), ty, &[ty; 3]);
        }
        for op in ["div.rn", "rem", "copysign"] {
            forms.op(format!("{op}.{ty}"), ty, &[ty, ty]);
        }
        for op in ["rcp.rn", "sqrt.rn"] {
            forms.op(format!("{op}.{ty}"), ty, &[ty]);
        }
    }
}

fn arithmetic(forms: &mut Forms, modifiers: &str, ty: &str) {
    for op in ["add", "sub", "mul"] {
        forms.op(format!("{op}{modifiers}"), ty, &[ty, ty]);
    }
    forms.op(format!("fma{modifiers}"), ty, &[ty; 3]);
}
