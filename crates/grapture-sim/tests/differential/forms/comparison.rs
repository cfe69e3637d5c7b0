//! Comparisons, selections and tests.

use super::TYPES;
use crate::form::Forms;

const OPERATORS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

pub fn forms(forms: &mut Forms) {
    for ty in TYPES.into_iter().filter(|ty| *ty != "pred") {
        for operator in OPERATORS {
            compare(forms, operator, ty);
        }
    }
    for ty in ["s32", "f32", "f16", "f64", "b16"] {
        combined(forms, ty);
    }
    for result in ["u32", "s32", "f32", "b32", "u16", "f16", "bf16", "u64", "f64"] {
        for ty in ["u16", "s32", "b64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"] {
            forms.op(format!("set.eq.{result}.{ty}"), result, &[ty, ty]);
        }
        forms.op(format!("set.ltu.ftz.{result}.f32"), result, &["f32", "f32"]);
    }
    for (result, ty) in [("f16x2", "f16x2"), ("bf16x2", "bf16x2"), ("f16x2", "f16")] {
        for operator in ["eq", "lt", "neu", "nan", "num", "ge"] {
            for flush in ["", ".ftz"] {
                forms.op(format!("set.{operator}{flush}.{result}.{ty}"), result, &[ty, ty]);
            }
        }
    }
    selections(forms);
    tests(forms);
    predicates(forms);
}

fn compare(forms: &mut Forms, operator: &str, ty: &str) {
    let two = ty.ends_with("x2");
    for flush in ["", ".ftz"] {
        if !flush.is_empty() && !matches!(ty, "f16" | "f16x2" | "f32" | "f64" | "bf16" | "s32") {
            continue;
        }
        let name = format!("setp.{operator}{flush}.{ty}");
        if two {
            forms.body(name.clone(), &["pred"; 2], &[ty, ty], format!("{name} %x|%y, %a, %b;"));
        } else {
            forms.op(name, "pred", &[ty, ty]);
        }
    }
}

fn combined(forms: &mut Forms, ty: &str) {
    for combine in ["and", "or", "xor"] {
        for negated in ["", "!"] {
            let operator = if ty == "b16" { "ne" } else { "lt" };
            let body = format!("setp.{operator}.{combine}.{ty} %x|%y, %a, %b, {negated}%c;");
            forms.body(body.clone(), &["pred"; 2], &[ty, ty, "pred"], body);
            let body = format!("set.{operator}.{combine}.u32.{ty} %x, %a, %b, {negated}%c;");
            forms.body(body.clone(), &["u32"], &[ty, ty, "pred"], body);
        }
    }
    let body = format!("setp.eq.{ty} %x|_, %a, %b; setp.ne.{ty} _|%y, %a, %b;");
    forms.body(format!("setp.eq.{ty} with a sink"), &["pred"; 2], &[ty, ty], body);
}

fn selections(forms: &mut Forms) {
    for ty in TYPES {
        if ty != "pred" {
            forms.op(format!("selp.{ty}"), ty, &[ty, ty, "pred"]);
            let body = format!("selp.{ty} %x, %a, %b, !%c;");
            forms.body(body.clone(), &[ty], &[ty, ty, "pred"], body);
            for of in ["s32", "f32", "u32", "f64"] {
                forms.op(format!("slct.{ty}.{of}"), ty, &[ty, ty, of]);
            }
            forms.op(format!("slct.ftz.{ty}.f32"), ty, &[ty, ty, "f32"]);
        }
    }
    forms.op("slct.ftz.u32.s32", "u32", &["u32", "u32", "s32"]);
}

fn tests(forms: &mut Forms) {
    for ty in ["f32", "f64", "f16", "bf16", "s32"] {
        for test in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
            forms.op(format!("testp.{test}.{ty}"), "pred", &[ty]);
        }
    }
}

fn predicates(forms: &mut Forms) {
    for op in ["and", "or", "xor"] {
        forms.op(format!("{op}.pred"), "pred", &["pred", "pred"]);
        let body = format!("{op}.pred %x, %a, !%b;");
        forms.body(body.clone(), &["pred"], &["pred", "pred"], body);
    }
    forms.op("not.pred", "pred", &["pred"]);
    forms.op("cnot.pred", "pred", &["pred"]);
    forms.op("mov.pred", "pred", &["pred"]);
    forms.op("selp.pred", "pred", &["pred", "pred", "pred"]);
}
