//! Conversions between integers, and between them and numbers.

use crate::form::Forms;

const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"];
const NUMBERS: [&str; 4] = ["f16", "bf16", "f32", "f64"];

pub fn forms(forms: &mut Forms) {
    for from in INTEGERS {
        for to in INTEGERS {
            for saturate in ["", ".sat"] {
                forms.op(format!("cvt{saturate}.{to}.{from}"), to, &[from]);
            }
        }
        forms.op(format!("cvt.rni.s32.{from}"), "s32", &[from]);
    }
    for number in NUMBERS {
        for integer in INTEGERS {
            for rounding in ["", ".rni", ".rzi", ".rmi", ".rpi", ".rn"] {
                for end in ["", ".ftz", ".sat", ".ftz.sat"] {
                    forms.op(format!("cvt{rounding}{end}.{integer}.{number}"), integer, &[number]);
                }
            }
            for rounding in ["", ".rn", ".rz", ".rm", ".rp", ".rni", ".rna"] {
                for end in ["", ".sat", ".ftz"] {
                    forms.op(format!("cvt{rounding}{end}.{number}.{integer}"), number, &[integer]);
                }
            }
        }
    }
    wider_registers(forms);
    packed(forms);
}

/// A type that is smaller than its register.
fn wider_registers(forms: &mut Forms) {
    for ty in ["u8", "s8", "u16", "s16"] {
        for register in ["b32", "b64"] {
            let body = format!("cvt.u32.{ty} %x, %a;");
            forms.body(format!("{body} of {register}"), &["b32"], &[register], body);
            for from in ["s32", "u64", "s8"] {
                let body = format!("cvt.{ty}.{from} %x, %a;");
                forms.body(format!("{body} to {register}"), &[register], &[from], body.clone());
                let body = format!("cvt.sat.{ty}.{from} %x, %a;");
                forms.body(format!("{body} to {register}"), &[register], &[from], body);
            }
            let body = format!("cvt.rzi.{ty}.f32 %x, %a;");
            forms.body(format!("{body} to {register}"), &[register], &["f32"], body);
        }
    }
    for (ty, register) in [("s32", "b64"), ("u32", "b64")] {
        let body = format!("cvt.{ty}.s16 %x, %a;");
        forms.body(format!("{body} to {register}"), &[register], &["s16"], body);
        let body = format!("cvt.rn.f32.{ty} %x, %a;");
        forms.body(format!("{body} of {register}"), &["f32"], &[register], body);
    }
}

fn packed(forms: &mut Forms) {
    for to in ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2", "u32"] {
        forms.op(format!("cvt.pack.sat.{to}.s32"), "b32", &["s32", "s32"]);
        forms.op(format!("cvt.pack.{to}.s32"), "b32", &["s32", "s32"]);
        forms.op(format!("cvt.pack.sat.{to}.s32.b32"), "b32", &["s32", "s32", "b32"]);
    }
}
