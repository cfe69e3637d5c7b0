//! Products that are fused with the sums that use them, and those that are not.

#[path = "ptx/support.rs"]
mod support;

use support::{Device, Run, args, module};

/// What a kernel computes of three numbers, whose product and sum round differently when fused.
fn compute(body: &str) -> f32 {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 at) {{
        .reg .b64 %at; .reg .f32 %f<9>; .reg .pred %p; .reg .b32 %r;
        ld.param.u64 %at, [at]; ld.global.f32 %f0, [%at]; ld.global.f32 %f1, [%at+4];
        ld.global.f32 %f2, [%at+8]; {body} st.global.f32 [%at+12], %f8; ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let at = device.upload(&[A, B, C, 0.0]);
    Run::new(&mut device, &module).go("k", [1, 1, 1], [1, 1, 1], &args().with(at)).unwrap();
    device.download::<f32>(at)[3]
}

const A: f32 = 1.000_000_1;
const B: f32 = 1.000_000_2;
const C: f32 = -1.0;

#[test]
fn a_product_that_a_sum_alone_uses_is_fused() {
    let fused = A.mul_add(B, C);
    assert_ne!(fused, A * B + C);
    assert_eq!(compute("mul.f32 %f3, %f0, %f1; add.f32 %f8, %f3, %f2;"), fused);
    assert_eq!(compute("mul.f32 %f3, %f0, %f1; add.f32 %f8, %f2, %f3;"), fused);
    let minus = "neg.f32 %f4, %f2; mul.f32 %f3, %f0, %f1;";
    assert_eq!(compute(&format!("{minus} sub.f32 %f8, %f3, %f4;")), fused);
    assert_eq!(compute(&format!("{minus} sub.f32 %f8, %f4, %f3;")), -fused);
    assert_eq!(compute("mul.f32 %f3, %f0, %f1; add.sat.f32 %f8, %f3, %f2;"), fused);
    // Of two products the first is kept as a factor.
    let both = "mul.f32 %f3, %f0, %f1; mul.f32 %f4, %f0, %f0; sub.f32 %f8, %f3, %f4;";
    assert_eq!(compute(both), A.mul_add(B, -(A * A)));
}

#[test]
fn a_product_that_is_rounded_first_is_not_fused() {
    let rounded = A * B + C;
    for body in [
        "mul.rn.f32 %f3, %f0, %f1; add.f32 %f8, %f3, %f2;",
        "mul.f32 %f3, %f0, %f1; add.rn.f32 %f8, %f3, %f2;",
        // Used twice.
        "mul.f32 %f3, %f0, %f1; add.f32 %f8, %f3, %f2; mov.b32 %r, %f3;",
        // In another piece of code.
        "mul.f32 %f3, %f0, %f1; setp.eq.f32 %p, %f0, %f1; @%p bra L; L: add.f32 %f8, %f3, %f2;",
        // Flushed in one only.
        "mul.ftz.f32 %f3, %f0, %f1; add.f32 %f8, %f3, %f2;",
        "mul.sat.f32 %f3, %f0, %f1; mul.f32 %f4, %f0, %f1; mov.f32 %f3, %f4; add.f32 %f8, %f3, %f2;",
    ] {
        assert_eq!(compute(body), rounded, "{body}");
    }
    // A factor that has changed since.
    let body = "mul.f32 %f3, %f0, %f1; mov.f32 %f0, %f2; mov.f32 %f0, %f1; add.f32 %f8, %f3, %f2;";
    assert_eq!(compute(body), rounded);
}
