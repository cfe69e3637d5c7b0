//! Integer arithmetic and logic.

use super::{INTEGERS, TYPES};
use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in TYPES {
        for op in ["add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max", "and", "or", "xor"]
        {
            let of_predicates = matches!(op, "and" | "or" | "xor") && ty == "pred";
            if !of_predicates && !is_real(ty) {
                forms.op(format!("{op}.{ty}"), ty, &[ty, ty]);
            }
        }
        if !is_real(ty) && ty != "pred" {
            for op in ["abs", "neg", "not", "cnot"] {
                forms.op(format!("{op}.{ty}"), ty, &[ty]);
            }
            for op in ["mad.lo", "mad.hi", "sad"] {
                forms.op(format!("{op}.{ty}"), ty, &[ty, ty, ty]);
            }
            for op in ["shl", "shr"] {
                forms.op(format!("{op}.{ty}"), ty, &[ty, "amount"]);
            }
        }
    }
    saturating(forms);
    wide(forms);
    packed(forms);
    twenty_four(forms);
    dot(forms);
    immediates(forms);
}

pub fn is_real(ty: &str) -> bool {
    ty.contains('f')
}

fn saturating(forms: &mut Forms) {
    for ty in INTEGERS {
        for op in ["add", "sub", "mul.lo", "mul.hi", "min", "max"] {
            forms.op(format!("{op}.sat.{ty}"), ty, &[ty, ty]);
        }
        for op in ["mad.lo", "mad.hi"] {
            forms.op(format!("{op}.sat.{ty}"), ty, &[ty, ty, ty]);
        }
        for op in ["min", "max"] {
            forms.op(format!("{op}.relu.{ty}"), ty, &[ty, ty]);
        }
        for op in ["mul", "mad"] {
            let operands = vec![ty; if op == "mad" { 3 } else { 2 }];
            forms.op(format!("{op}.{ty}"), ty, &operands);
        }
    }
}

fn wide(forms: &mut Forms) {
    for (ty, wide) in
        [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64"), ("u64", "u64")]
    {
        forms.op(format!("mul.wide.{ty}"), wide, &[ty, ty]);
        forms.op(format!("mad.wide.{ty}"), wide, &[ty, ty, wide]);
    }
}

/// Two half-words in a register.
fn packed(forms: &mut Forms) {
    for ty in ["u16x2", "s16x2"] {
        for op in ["add", "sub", "min", "max", "min.relu", "max.relu", "add.sat", "mul.lo"] {
            forms.op(format!("{op}.{ty}"), ty, &[ty, ty]);
        }
        for op in ["abs", "neg"] {
            forms.op(format!("{op}.{ty}"), ty, &[ty]);
        }
    }
}

fn twenty_four(forms: &mut Forms) {
    for ty in ["u32", "s32", "u16", "u64"] {
        for part in ["lo", "hi"] {
            forms.op(format!("mul24.{part}.{ty}"), ty, &[ty, ty]);
            forms.op(format!("mad24.{part}.{ty}"), ty, &[ty, ty, ty]);
        }
        forms.op(format!("mad24.hi.sat.{ty}"), ty, &[ty, ty, ty]);
        forms.op(format!("mad24.lo.sat.{ty}"), ty, &[ty, ty, ty]);
    }
}

fn dot(forms: &mut Forms) {
    for a in ["u32", "s32", "b32"] {
        for b in ["u32", "s32", "b32"] {
            let c = if (a, b) == ("u32", "u32") { "u32" } else { "s32" };
            forms.op(format!("dp4a.{a}.{b}"), c, &["b32", "b32", c]);
            forms.op(format!("dp2a.{a}.{b}"), c, &["b32", "b32", c]);
            for part in ["lo", "hi"] {
                forms.op(format!("dp2a.{part}.{a}.{b}"), c, &["b32", "b32", c]);
            }
        }
    }
}

/// Operations with constants, which a compiler turns into others.
fn immediates(forms: &mut Forms) {
    for ty in ["u32", "s32", "u64", "s64", "u16", "s16"] {
        for (name, constant) in
            [("div", 7), ("div", 10), ("rem", 7), ("rem", 16), ("div", 8), ("mul.hi", 12345)]
        {
            let instruction = format!("{name}.{ty} %x, %a, {constant};");
            forms.body(instruction.clone(), &[ty], &[ty], instruction);
        }
    }
    for ty in ["s16", "s32", "s64"] {
        for (name, constant) in [("div", -3), ("div", -1), ("rem", -5), ("div", -8), ("rem", -1)] {
            let instruction = format!("{name}.{ty} %x, %a, {constant};");
            forms.body(instruction.clone(), &[ty], &[ty], instruction);
        }
    }
    for (ty, shift) in [
        ("b16", 3),
        ("b16", 15),
        ("b16", 16),
        ("b32", 31),
        ("b32", 32),
        ("b64", 63),
        ("b64", 64),
        ("b64", 65),
    ] {
        for op in ["shl", "shr"] {
            let instruction = format!("{op}.{ty} %x, %a, {shift};");
            forms.body(instruction.clone(), &[ty], &[ty], instruction);
        }
    }
}
