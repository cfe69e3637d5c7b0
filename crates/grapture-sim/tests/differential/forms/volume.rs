//! Many operands for each rounding: every thread makes its own and gives a sum over all results.

use super::ROUNDINGS;
use crate::form::Forms;

pub fn forms(forms: &mut Forms) {
    for ty in ["f32", "f64"] {
        for rounding in ROUNDINGS {
            for (op, operands) in
                [("add", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)]
            {
                many(forms, &format!("{op}.{rounding}.{ty}"), ty, ty, operands);
            }
        }
    }
    for ty in ["f16", "bf16", "f16x2", "bf16x2"] {
        for (op, operands) in [("add", 2), ("mul", 2), ("fma", 3)] {
            many(forms, &format!("{op}.rn.{ty}"), ty, ty, operands);
        }
    }
    for rounding in ROUNDINGS {
        for (to, from) in [
            ("f16", "f32"),
            ("bf16", "f32"),
            ("f32", "f64"),
            ("f16", "f64"),
            ("f32", "u64"),
            ("f64", "s64"),
            ("f32", "s32"),
        ] {
            many(forms, &format!("cvt.{rounding}.{to}.{from}"), to, from, 1);
        }
        for (to, from) in [("s32", "f32"), ("u64", "f32"), ("s64", "f64"), ("u16", "f16")] {
            many(forms, &format!("cvt.{rounding}i.{to}.{from}"), to, from, 1);
        }
    }
    for op in ["div", "rem"] {
        for ty in ["u32", "s32", "u64", "s64", "u16"] {
            many(forms, &format!("{op}.{ty}"), ty, ty, 2);
        }
    }
}

fn many(forms: &mut Forms, instruction: &str, to: &str, from: &str, operands: usize) {
    let names = ["%o0", "%o1", "%o2"];
    let bits = |ty: &str| {
        if ty.ends_with("64") {
            64
        } else if ty.ends_with("16") {
            16
        } else {
            32
        }
    };
    let make: String =
        names[..operands].iter().map(|name| operand(name, from, bits(from))).collect();
    let widen = match bits(to) {
        64 => "mov.b64 %l4, %o;",
        32 => "cvt.u64.u32 %l4, %o;",
        _ => "cvt.u64.u16 %l4, %o;",
    };
    let body = format!(
        ".reg .b{} %o; .reg .b{} %o0, %o1, %o2; xor.b64 %l0, %a, 0x9e3779b97f4a7c15; mov.b64 %x, 0; \
         mov.b32 %r3, 0; NEXT: {make} {instruction} %o, {}; {widen} \
         mul.lo.u64 %x, %x, 0x100000001b3; xor.b64 %x, %x, %l4; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 64; @%p2 bra NEXT;",
        bits(to),
        bits(from),
        names[..operands].join(", "),
    );
    forms.body(format!("many of {instruction}"), &["u64"], &["u64"], body);
}

/// The next random operand. Numbers lie about one, so that sums and products are not all trivial.
fn operand(name: &str, ty: &str, bits: u32) -> String {
    let next = "shl.b64 %l1, %l0, 13; xor.b64 %l0, %l0, %l1; shr.u64 %l1, %l0, 7; \
        xor.b64 %l0, %l0, %l1; shl.b64 %l1, %l0, 17; xor.b64 %l0, %l0, %l1; \
        mul.lo.u64 %l2, %l0, 0x2545f4914f6cdd1d;";
    let (clear, set) = match ty {
        "f64" => ("0x840fffffffffffff", "0x3bf0000000000000"),
        "f32" => ("0x87ffffff", "0x38000000"),
        "bf16" => ("0x87ff", "0x3800"),
        "bf16x2" => ("0x87ff87ff", "0x38003800"),
        "f16" | "f16x2" => ("-1", "0"),
        _ => ("-1", "0"),
    };
    let shape = format!(
        "shr.u64 %l2, %l2, {}; and.b64 %l2, %l2, {clear}; or.b64 %l2, %l2, {set};",
        64 - bits
    );
    let shape = if bits == 64 { shape.replace("shr.u64 %l2, %l2, 0; ", "") } else { shape };
    // Integers of all lengths.
    let shape = if ty.contains('f') {
        shape
    } else {
        format!(
            "{shape} shr.u64 %l3, %l0, 58; cvt.u32.u64 %r4, %l3; shr.u64 %l2, %l2, %r4; or.b64 %l2, %l2, 1;"
        )
    };
    let narrow = match bits {
        64 => format!("mov.b64 {name}, %l2;"),
        32 => format!("cvt.u32.u64 {name}, %l2;"),
        _ => format!("cvt.u16.u64 {name}, %l2;"),
    };
    format!("{next} {shape} {narrow} ")
}
