//! Counting, moving and selecting bits.

use super::TYPES;
use super::integer::is_real;
use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in TYPES.into_iter().filter(|ty| !is_real(ty) && *ty != "pred") {
        for op in ["popc", "clz", "bfind", "bfind.shiftamt"] {
            forms.op(format!("{op}.{ty}"), "u32", &[ty]);
        }
        forms.op(format!("brev.{ty}"), ty, &[ty]);
        forms.op(format!("bfe.{ty}"), ty, &[ty, "amount", "amount"]);
        forms.op(format!("bfi.{ty}"), ty, &[ty, ty, "amount", "amount"]);
        for mode in ["clamp", "wrap"] {
            forms.op(format!("szext.{mode}.{ty}"), ty, &[ty, "amount"]);
            forms.op(format!("bmsk.{mode}.{ty}"), ty, &["amount", "amount"]);
            for side in ["l", "r"] {
                forms.op(format!("shf.{side}.{mode}.{ty}"), ty, &[ty, ty, "amount"]);
            }
        }
    }
    fields_of_constants(forms);
    tables(forms);
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        forms.op(format!("prmt.b32{mode}"), "b32", &["b32", "b32", "b32"]);
    }
    for selector in ["0x3210", "0x7531", "0xfb40", "0x89ab", "0x4455"] {
        let body = format!("prmt.b32 %x, %a, %b, {selector};");
        forms.body(body.clone(), &["b32"], &["b32", "b32"], body);
    }
    nth_set(forms);
}

fn fields_of_constants(forms: &mut Forms) {
    for ty in ["u32", "s32", "u64", "s64"] {
        for (position, length) in [(0, 8), (4, 12), (28, 8), (31, 1), (40, 20), (0, 0), (60, 32)] {
            let body = format!("bfe.{ty} %x, %a, {position}, {length};");
            // Beyond the register the driver's compiler makes something else of a constant position.
            if ty != "s32" || position < 32 {
                forms.body(body.clone(), &[ty], &[ty], body);
            }
            if ty.starts_with('u') {
                let ty = ty.replace('u', "b");
                let body = format!("bfi.{ty} %x, %a, %b, {position}, {length};");
                forms.body(body.clone(), &[&ty], &[&ty, &ty], body);
            }
        }
    }
}

fn tables(forms: &mut Forms) {
    for table in (0..256).step_by(17).chain([0x80, 0xfe, 0x96, 0xe8, 0xca, 0xd8, 0x6a, 0x01, 0x1e])
    {
        let body = format!("lop3.b32 %x, %a, %b, %c, {table:#04x};");
        forms.body(body.clone(), &["b32"], &["b32"; 3], body);
    }
    for op in ["and", "or"] {
        for negated in ["", "!"] {
            let body = format!("lop3.{op}.b32 %x|%y, %a, %b, %c, 0x96, {negated}%d;");
            forms.body(body.clone(), &["b32", "pred"], &["b32", "b32", "b32", "pred"], body);
        }
    }
    let body = "lop3.or.b32 _|%x, %a, %b, %c, 0x80, %d;";
    forms.body(body, &["pred"], &["b32", "b32", "b32", "pred"], body);
    let body = "lop3.b32 %x, %a, %b, %c, 256;";
    forms.body(body, &["b32"], &["b32"; 3], body);
}

/// The n-th set bit. PTX leaves a base beyond the register open, so none is asked.
fn nth_set(forms: &mut Forms) {
    for offset in ["0", "1", "-1", "2", "-3", "7", "31", "-32", "40"] {
        let body = format!("and.b32 %r0, %b, 31; fns.b32 %x, %a, %r0, {offset};");
        forms.body(format!("fns.b32 by {offset}"), &["b32"], &["b32", "amount"], body);
    }
    let body = "and.b32 %r0, %b, 31; fns.b32 %x, %a, %r0, %c;";
    forms.body("fns.b32", &["b32"], &["b32", "amount", "s32"], body);
}
