//! Constants written into instructions, and instructions on nothing else, which the driver's compiler
//! computes itself.

use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    written(forms);
    for op in ["add", "sub", "mul", "div.rn", "min", "max", "copysign"] {
        two(forms, op, "f32", &SINGLE);
        two(forms, op, "f64", &DOUBLE);
    }
    for op in ["add.ftz", "mul.ftz.sat", "div.rn.ftz", "min.NaN", "add.rm", "mul.rp"] {
        two(forms, op, "f32", &SINGLE);
    }
    for op in ["abs", "neg", "sqrt.rn", "rcp.rn"] {
        for (ty, list) in [("f32", &SINGLE[..]), ("f64", &DOUBLE[..])] {
            for constant in list {
                if matches!(op, "abs" | "neg") && is_nan(constant) {
                    continue;
                }
                let body = format!("{op}.{ty} %x, {constant};");
                forms.body(body.clone(), &[ty], &[], body);
            }
        }
    }
    for to in ["s32", "u16", "u64", "s8"] {
        for constant in SINGLE {
            let body = format!("cvt.rzi.{to}.f32 %x, {constant};");
            forms.body(body.clone(), &[to], &[], body);
        }
    }
    for body in [
        "div.s32 %x, 7, 0;",
        "rem.u32 %x, 7, 0;",
        "div.s32 %x, 0x80000000, -1;",
        "shl.b32 %x, 1, 33;",
        "shr.s32 %x, -5, 40;",
        "mul.hi.s32 %x, 0x80000000, 3;",
        "bfe.u32 %x, 0xabcd, 4, 8;",
        "popc.b32 %x, 0xff00ff;",
        "clz.b32 %x, 0;",
        "brev.b32 %x, 6;",
        "sad.s32 %x, -7, 9, 1;",
        "prmt.b32 %x, 0x12345678, 0x9abcdef0, 0xf7e0;",
        "lop3.b32 %x, 12, 10, 6, 0x96;",
    ] {
        forms.body(body, &["b32"], &[], body);
    }
}

const SINGLE: [&str; 7] = [
    "0f3fc00000",
    "0f80000000",
    "0f00000001",
    "0f7f800001",
    "0f7fc00005",
    "0fff800000",
    "0f4f800000",
];
const DOUBLE: [&str; 6] = [
    "0d3ff8000000000000",
    "0d8000000000000000",
    "0d0000000000000001",
    "0d7ff0000000000001",
    "0dfff8000000000005",
    "0d7ff0000000000000",
];

/// Of which a compiler, other than the GPU, keeps payload and sign as it likes.
fn is_nan(constant: &str) -> bool {
    ["0f7f800001", "0f7fc00005", "0d7ff0000000000001", "0dfff8000000000005"].contains(&constant)
}

fn two(forms: &mut Forms, op: &str, ty: &str, list: &[&str]) {
    for (at, a) in list.iter().enumerate() {
        let b = list[(at + 2) % list.len()];
        if ty == "f64" && matches!(op, "sub" | "mul") && (is_nan(a) || is_nan(b)) {
            continue;
        }
        let body = format!("{op}.{ty} %x, {a}, {b};");
        forms.body(body.clone(), &[ty], &[], body);
    }
}

/// How constants are written.
fn written(forms: &mut Forms) {
    for (ty, constant) in [
        ("u16", "0xffff"),
        ("u16", "65536"),
        ("s16", "-1"),
        ("u32", "-1"),
        ("s32", "0x80000000"),
        ("u32", "4294967296"),
        ("u64", "0xffffffffffffffff"),
        ("s64", "-9223372036854775808"),
        ("f32", "0f3f800000"),
        ("f32", "1.5"),
        ("f32", "1"),
        ("f32", "0d3ff8000000000000"),
        ("f64", "0f3f800000"),
        ("f64", "1.1"),
        ("f64", "0d7ff0000000000001"),
        ("f32", "0f7f800001"),
        ("f32", "0.1"),
        ("f32", "1e-45"),
        ("f64", "1e400"),
        ("f16", "0x3c00"),
        ("f16", "1.0"),
        ("b16", "0x3c00"),
        ("b32", "1.5"),
        ("b32", "0f3f800000"),
        ("b64", "0d3ff0000000000000"),
        ("u32", "'a'"),
        ("u32", "0b101"),
        ("u32", "017"),
        ("u32", "3U"),
        ("s32", "(5-7)*3"),
        ("u32", "1 ? 2 : 3"),
        ("u64", "1 << 40"),
        ("s32", "~5"),
        ("s32", "!0"),
        ("u32", "7 / 2 % 2"),
        ("s32", "(s64)-1"),
        ("u32", "1 == 1 && 2 > 1"),
        ("f32", "1.0 + 2.0"),
        ("f32", "-1.5"),
        ("f64", "-0d3ff0000000000000"),
        ("f32", "0F3F800000"),
        ("bf16", "0x3f80"),
        ("f32", "inf"),
    ] {
        let body = format!("mov.{ty} %x, {constant};");
        forms.body(body.clone(), &[ty], &[], body);
        if ty.starts_with('f') && ty != "f16" {
            let body = format!("add.{ty} %x, %a, {constant};");
            forms.body(body.clone(), &[ty], &[ty], body);
        }
    }
}
