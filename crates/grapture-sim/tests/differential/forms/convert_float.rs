//! Conversions between numbers.

use crate::form::Forms;

const NUMBERS: [&str; 4] = ["f16", "bf16", "f32", "f64"];
const ENDS: [&str; 7] = ["", ".ftz", ".sat", ".ftz.sat", ".relu", ".satfinite", ".relu.satfinite"];

pub fn forms(forms: &mut Forms) {
    for from in NUMBERS {
        for to in NUMBERS {
            let roundings =
                ["", ".rn", ".rz", ".rm", ".rp", ".rna", ".rni", ".rzi", ".rmi", ".rpi"];
            for rounding in roundings {
                for end in ENDS {
                    forms.op(format!("cvt{rounding}{end}.{to}.{from}"), to, &[from]);
                }
            }
        }
    }
    packed(forms);
    tensor(forms);
    eight_bits(forms);
}

fn packed(forms: &mut Forms) {
    for to in ["f16x2", "bf16x2"] {
        for rounding in ["", ".rn", ".rz", ".rm", ".rna", ".rs"] {
            for end in ["", ".relu", ".satfinite", ".relu.satfinite", ".sat", ".ftz"] {
                forms.op(format!("cvt{rounding}{end}.{to}.f32"), to, &["f32", "f32"]);
            }
        }
    }
}

fn tensor(forms: &mut Forms) {
    for rounding in ["", ".rn", ".rz", ".rm", ".rna"] {
        for end in ["", ".relu", ".satfinite", ".satfinite.relu", ".relu.satfinite", ".ftz"] {
            forms.op(format!("cvt{rounding}{end}.tf32.f32"), "b32", &["f32"]);
        }
    }
}

/// Numbers of eight bits and less, in pairs.
fn eight_bits(forms: &mut Forms) {
    for small in ["e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"] {
        for rounding in ["", ".rn", ".rz"] {
            for end in ["", ".satfinite", ".satfinite.relu", ".relu"] {
                forms.op(format!("cvt{rounding}{end}.{small}.f32"), "b16", &["f32", "f32"]);
                forms.op(format!("cvt{rounding}{end}.{small}.f16x2"), "b16", &["f16x2"]);
                forms.op(format!("cvt{rounding}{end}.{small}.bf16x2"), "b16", &["bf16x2"]);
            }
            for end in ["", ".relu"] {
                forms.op(format!("cvt{rounding}{end}.f16x2.{small}"), "f16x2", &["b16"]);
                forms.op(format!("cvt{rounding}{end}.bf16x2.{small}"), "bf16x2", &["b16"]);
            }
        }
    }
}
