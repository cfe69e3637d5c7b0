//! Atomic operations on what each thread has to itself.

use super::TYPES;
use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for (space, place) in [(".global", "%at"), (".shared", "%sm"), ("", "%at")] {
        for op in ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"] {
            for ty in TYPES.into_iter().filter(|ty| !ty.ends_with('8') && *ty != "pred") {
                one(forms, space, place, op, ty);
            }
        }
    }
    qualified(forms);
    vectors(forms);
}

fn one(forms: &mut Forms, space: &str, place: &str, op: &str, ty: &str) {
    let bits = 8 * crate::value::Value::of(ty).bytes();
    let operands = if op == "cas" { "%b, %c" } else { "%b" };
    let inputs = vec![ty; if op == "cas" { 3 } else { 2 }];
    let half = matches!(ty, "f16" | "f16x2" | "bf16" | "bf16x2");
    for flush in if half { &["", ".noftz"][..] } else { &[""] } {
        // Every other thread finds what it compares with.
        let stored = if op == "cas" {
            format!(
                "and.b32 %r2, %thread, 1; setp.eq.u32 %p0, %r2, 0; selp.b{bits} %y, %a, %b, %p0; st{space}.b{bits} [{place}], %y;"
            )
        } else {
            format!("st{space}.b{bits} [{place}], %a;")
        };
        let after = format!("ld{space}.b{bits} %y, [{place}];");
        let name = format!("atom{space}.{op}{flush}.{ty}");
        let body = format!("{stored} {name} %x, [{place}], {operands}; {after}");
        forms.body(name, &[ty, ty], &inputs, body);
        let name = format!("red{space}.{op}{flush}.{ty}");
        let body = format!("{stored} {name} [{place}], {operands}; {after}").replace("%y", "%x");
        forms.body(name, &[ty], &inputs, body);
    }
}

/// Orders and scopes, which change no value.
fn qualified(forms: &mut Forms) {
    for words in [
        "relaxed.gpu",
        "acquire.gpu",
        "release.sys",
        "acq_rel.cta",
        "relaxed.cluster",
        "acq_rel",
        "sys",
        "volatile",
        "weak",
        "sc.gpu",
    ] {
        let body = format!(
            "st.global.b32 [%at], %a; atom.{words}.global.add.u32 %x, [%at], %b; ld.global.b32 %y, [%at];"
        );
        forms.body(format!("atom.{words}.global.add.u32"), &["u32"; 2], &["u32"; 2], body);
        let body = format!(
            "st.global.b32 [%at], %a; red.{words}.global.add.u32 [%at], %b; ld.global.b32 %x, [%at];"
        );
        forms.body(format!("red.{words}.global.add.u32"), &["u32"], &["u32"; 2], body);
    }
    let body =
        "st.global.b32 [%at], %a; atom.global.add.u32 _, [%at], %b; ld.global.b32 %x, [%at];";
    forms.body("atom to nothing", &["u32"], &["u32"; 2], body);
    let body =
        "st.global.f32 [%at], %a; red.global.add.ftz.f32 [%at], %b; ld.global.f32 %x, [%at];";
    forms.body("red.global.add.ftz.f32", &["f32"], &["f32"; 2], body);
}

/// Several elements at once.
fn vectors(forms: &mut Forms) {
    for (op, ty) in [
        ("add", "f32"),
        ("add.noftz", "f16"),
        ("add.noftz", "bf16"),
        ("add.noftz", "f16x2"),
        ("add.noftz", "bf16x2"),
        ("min.noftz", "f16"),
        ("max.noftz", "bf16"),
        ("max.noftz", "f16x2"),
        ("min.noftz", "bf16x2"),
        ("add", "u32"),
        ("min", "f32"),
    ] {
        let bits = 8 * crate::value::Value::of(ty).bytes();
        let store = format!("st.global.v2.b{bits} [%at], {{%a, %b}};");
        let body = format!(
            "{store} atom.global.v2.{ty}.{op} {{%x, %y}}, [%at], {{%c, %d}}; ld.global.v2.b{bits} {{%z, %w}}, [%at];"
        );
        forms.body(format!("atom.global.v2.{ty}.{op}"), &[ty; 4], &[ty; 4], body);
        let body = format!(
            "{store} red.global.v2.{ty}.{op} [%at], {{%c, %d}}; ld.global.v2.b{bits} {{%x, %y}}, [%at];"
        );
        forms.body(format!("red.global.v2.{ty}.{op}"), &[ty; 2], &[ty; 4], body);
    }
}
