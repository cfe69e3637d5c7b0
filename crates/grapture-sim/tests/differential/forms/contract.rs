//! Products and sums behind each other, which the driver's compiler may fuse.

use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2"] {
        for (product, sum) in [("", ""), (".rn", ""), ("", ".rn"), (".rn", ".rn")] {
            pair(forms, &format!("mul{product}.{ty}"), &format!("add{sum}.{ty}"), ty);
            pair(forms, &format!("mul{product}.{ty}"), &format!("sub{sum}.{ty}"), ty);
        }
    }
    for ty in ["f32", "f16", "f16x2"] {
        for (product, sum) in [
            (".ftz", ""),
            ("", ".ftz"),
            (".ftz", ".ftz"),
            (".sat", ""),
            ("", ".sat"),
            (".ftz", ".ftz.sat"),
        ] {
            pair(forms, &format!("mul{product}.{ty}"), &format!("add{sum}.{ty}"), ty);
        }
    }
    for (product, sum) in [(".rz", ""), ("", ".rz"), (".rm", ".rm")] {
        pair(forms, &format!("mul{product}.f32"), &format!("add{sum}.f32"), "f32");
    }
    for ty in ["f32", "f64"] {
        shapes(forms, ty);
    }
}

/// A product used by a sum, on either side.
fn pair(forms: &mut Forms, product: &str, sum: &str, ty: &str) {
    for operands in ["%x, %c", "%c, %x"] {
        let body = format!("{product} %x, %a, %b; {sum} %x, {operands};");
        forms.body(body.clone(), &[ty], &[ty; 3], body);
        forms.any_nan();
    }
}

/// Products that are used twice, of something negated, taken from elsewhere or in another block.
fn shapes(forms: &mut Forms, ty: &str) {
    let own = if ty == "f32" { ".reg .f32 %o, %n;" } else { ".reg .f64 %o, %n;" };
    for body in [
        "mul %o, %a, %b; add %x, %o, %c; add %y, %o, %a;",
        "mul %o, %a, %b; add %x, %o, %c; mov %y, %o;",
        "mul %o, %a, %b; mul %n, %c, %d; add %x, %o, %n; mov %y, %d;",
        "mul %o, %a, %b; mul %n, %c, %d; sub %x, %o, %n; mov %y, %d;",
        "neg %n, %a; mul %o, %n, %b; sub %x, %c, %o; mov %y, %d;",
        "mul %o, %a, %b; abs %n, %o; add %x, %n, %c; mov %y, %d;",
        "mul %o, %a, %a; add %x, %o, %o; mov %y, %d;",
        "add %o, %a, %b; mul %x, %o, %c; mov %y, %d;",
        "add %o, %a, %b; mul %n, %o, %c; add %x, %n, %d; mov %y, %d;",
        "mul %x, %a, %b; add %x, %x, %c; mul %y, %x, %d; add %y, %y, %a;",
        "fma.rn %o, %a, %b, %c; add %x, %o, %d; mov %y, %d;",
        "mul %o, %a, %b; add %n, %o, %c; add %x, %n, %d; mov %y, %d;",
    ] {
        let typed = typed(body, ty);
        forms.body(typed.clone(), &[ty; 2], &[ty; 4], format!("{own} {typed}"));
        forms.any_nan();
    }
    let guarded = format!(
        "mul.{ty} %x, %a, %b; mov.{ty} %y, %d; setp.gt.{ty} %p0, %d, %c; @%p0 add.{ty} %x, %x, %c;"
    );
    forms.body(guarded.clone(), &[ty; 2], &[ty; 4], guarded);
    forms.any_nan();
    let elsewhere = format!(
        "mul.{ty} %x, %a, %b; mov.{ty} %y, %d; setp.gt.{ty} %p0, %d, %c; @%p0 bra LATER; \
         add.{ty} %x, %x, %c; bra.uni DONE; LATER: sub.{ty} %x, %x, %c; DONE:"
    );
    forms.body(elsewhere.clone(), &[ty; 2], &[ty; 4], elsewhere);
    forms.any_nan();
    let constant = if ty == "f32" { "0f40400000" } else { "0d4008000000000000" };
    let body = format!("mul.{ty} %x, %a, {constant}; add.{ty} %x, %x, {constant};");
    forms.body(body.clone(), &[ty], &[ty], body);
}

/// Each instruction with its type.
fn typed(body: &str, ty: &str) -> String {
    let each = body.split_inclusive(';').map(|part| {
        let part = part.trim();
        let (name, rest) = part.split_once(' ').expect("operands");
        format!("{name}.{ty} {rest} ")
    });
    each.collect::<String>().trim_end().to_owned()
}
