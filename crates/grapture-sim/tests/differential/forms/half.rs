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
        outside(forms, ty);
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

/// Which NaNs count as outside of a tensor: how many of all make a zero of a product, and the last.
fn outside(forms: &mut Forms, ty: &str) {
    let two = ty.ends_with("x2");
    let value = if two { "mov.b32 %r4, {%h0, %h0};" } else { "" };
    let constant = if ty.starts_with("bf") { "0x3f80" } else { "0x3c00" };
    let fma = if two {
        format!("fma.rn.oob.{ty} %r5, %r4, %r6, %r6; cvt.u16.u32 %h2, %r5;")
    } else {
        format!("fma.rn.oob.{ty} %h2, %h0, %h1, %h1;")
    };
    let body = format!(
        "mov.b16 %h1, {constant}; mov.b32 %r6, {{%h1, %h1}}; mov.b32 %x, 0; mov.b32 %y, 0; mov.b32 %z, 0; \
         shl.b32 %r2, %thread, 7; mov.b32 %r3, 0; \
         NEXT: add.u32 %r7, %r2, %r3; cvt.u16.u32 %h0, %r7; {value} {fma} \
         and.b16 %h3, %h0, 0x7fff; setp.gt.u16 %p0, %h3, {}; setp.ne.and.b16 %p1, %h2, 0x7fff, %p0; \
         @%p1 add.u32 %x, %x, 1; @%p1 cvt.u32.u16 %y, %h0; @%p1 cvt.u32.u16 %z, %h2; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 128; @%p2 bra NEXT;",
        if ty.starts_with("bf") { "0x7f80" } else { "0x7c00" },
    );
    forms.body(format!("fma.rn.oob.{ty} of every NaN"), &["b32"; 3], &[], body);
}
