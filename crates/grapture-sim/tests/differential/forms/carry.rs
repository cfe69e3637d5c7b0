//! Extended precision: chains through the carry flag.

use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in ["u32", "s32", "b32", "u64", "s64", "b64", "u16", "f32"] {
        for op in ["add", "sub"] {
            chain(forms, ty, op);
        }
        if ty.starts_with('b') {
            continue;
        }
        for first in ["lo", "hi"] {
            for then in ["lo", "hi"] {
                products(forms, ty, first, then);
            }
        }
    }
    multiword(forms);
}

/// A sum or difference that sets the flag, one that uses and sets it, one that uses it.
fn chain(forms: &mut Forms, ty: &str, op: &str) {
    let body = format!(
        "{op}.cc.{ty} %x, %a, %b; {op}c.cc.{ty} %y, %c, %d; {op}c.{ty} %z, %a, %d; {op}c.{ty} %w, %b, %c;"
    );
    forms.body(format!("{op}.cc.{ty}"), &[ty; 4], &[ty; 4], body);
    for other in ["add", "sub"] {
        // The flag of one read by the other.
        let body = format!("{op}.cc.{ty} %x, %a, %b; {other}c.{ty} %y, %c, %d;");
        forms.body(format!("{op}.cc.{ty}, {other}c.{ty}"), &[ty; 2], &[ty; 4], body);
    }
}

fn products(forms: &mut Forms, ty: &str, first: &str, then: &str) {
    let body = format!(
        "mad.{first}.cc.{ty} %x, %a, %b, %c; madc.{then}.cc.{ty} %y, %a, %b, %d; \
         madc.{then}.{ty} %z, %a, %c, %d; addc.{ty} %w, %a, %a;"
    );
    forms.body(format!("mad.{first}.cc.{ty}, madc.{then}.cc.{ty}"), &[ty; 4], &[ty; 4], body);
    let body = format!("sub.cc.{ty} %x, %a, %b; madc.{then}.{ty} %y, %a, %b, %c;");
    forms.body(format!("sub.cc.{ty}, mad{first}, madc.{then}.{ty}"), &[ty; 2], &[ty; 3], body);
}

/// Numbers of 128 bits.
fn multiword(forms: &mut Forms) {
    let product = "mul.lo.u32 %x, %a, %c; mul.hi.u32 %y, %a, %c; mad.lo.cc.u32 %y, %a, %d, %y; \
        madc.hi.u32 %z, %a, %d, 0; mad.lo.cc.u32 %y, %b, %c, %y; madc.hi.cc.u32 %z, %b, %c, %z; \
        addc.u32 %w, 0, 0; mad.lo.cc.u32 %z, %b, %d, %z; madc.hi.u32 %w, %b, %d, %w;";
    forms.body("product of 64 by 64 bits", &["u32"; 4], &["u32"; 4], product);
    let saturated = "mad.lo.cc.s32 %x, %a, %b, %c; madc.hi.sat.s32 %y, %a, %b, %d;";
    forms.body("madc.hi.sat.s32", &["s32"; 2], &["s32"; 4], saturated);
}
