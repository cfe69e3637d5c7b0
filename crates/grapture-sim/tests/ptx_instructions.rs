//! Single instructions, written by hand.

#[path = "ptx/support.rs"]
mod support;

use grapture_sim::ptx::{CompileErrorKind, FaultKind, Module};
use support::{Device, Run, args, module};

const HEADER: &str = ".version 8.4\n.target sm_80\n.address_size 64\n";

/// A kernel around a body: `%a0..%a2` are its inputs as 64 bits, `%r0..`, `%h0..`, `%f0..`, `%g0..`
/// the same as `.b32`, `.b16`, `.f32` and `.f64`; the body leaves its result in `%out`, or in
/// `%r`, `%h`, `%f`, `%g` or `%p`, as `result` says.
fn kernel(body: &str, result: &str) -> String {
    let store = match result {
        "%out" => "",
        "%r" => "cvt.u64.u32 %out, %r;",
        "%h" => "cvt.u64.u16 %out, %h;",
        "%f" => "mov.b32 %r, %f; cvt.u64.u32 %out, %r;",
        "%g" => "mov.b64 %out, %g;",
        "%p" => "selp.b64 %out, 1, 0, %p;",
        other => panic!("{other}"),
    };
    format!(
        "{HEADER}.visible .entry k(.param .u64 to, .param .u64 a, .param .u64 b, .param .u64 c) {{
        .reg .b64 %out, %to, %a<4>; .reg .b32 %r, %r<9>; .reg .b16 %h, %h<9>; .reg .f32 %f, %f<4>;
        .reg .f64 %g, %g<4>; .reg .pred %p, %q, %p<4>;
        ld.param.u64 %to, [to]; ld.param.u64 %a0, [a]; ld.param.u64 %a1, [b]; ld.param.u64 %a2, [c];
        cvt.u32.u64 %r0, %a0; cvt.u32.u64 %r1, %a1; cvt.u32.u64 %r2, %a2;
        cvt.u16.u64 %h0, %a0; cvt.u16.u64 %h1, %a1; cvt.u16.u64 %h2, %a2;
        mov.b32 %f0, %r0; mov.b32 %f1, %r1; mov.b32 %f2, %r2;
        mov.b64 %g0, %a0; mov.b64 %g1, %a1; mov.b64 %g2, %a2;
        {body}
        {store}
        st.global.u64 [%to], %out; ret; }}"
    )
}

fn eval(body: &str, result: &str, inputs: [u64; 3]) -> u64 {
    let text = kernel(body, result);
    let module = Module::compile(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let mut device = Device::default();
    let to = device.zeros::<u64>(1);
    let run = Run::new(&mut device, &module);
    let params = args().with(to).with(inputs[0]).with(inputs[1]).with(inputs[2]);
    run.go("k", [1, 1, 1], [1, 1, 1], &params).unwrap_or_else(|fault| panic!("{body}: {fault}"));
    device.download::<u64>(to)[0]
}

#[track_caller]
fn check(body: &str, result: &str, inputs: [u64; 3], want: u64) {
    let got = eval(body, result, inputs);
    assert_eq!(got, want, "{body} with {inputs:x?}: {got:#x}, not {want:#x}");
}

fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn integer_arithmetic() {
    check("add.sat.s32 %r, %r0, %r1;", "%r", [0x7fff_ffff, 1, 0], 0x7fff_ffff);
    check("sub.sat.s32 %r, %r0, %r1;", "%r", [0x8000_0000, 1, 0], 0x8000_0000);
    check("add.s16 %h, %h0, %h1;", "%h", [0xffff, 2, 0], 1);
    check("mul.lo.s16 %h, %h0, %h1;", "%h", [0xffff, 5, 0], 0xfffb);
    check("mul.hi.s16 %h, %h0, %h1;", "%h", [0xffff, 5, 0], 0xffff);
    check("mul.wide.s16 %r, %h0, %h1;", "%r", [0xffff, 5, 0], 0xffff_fffb);
    check("mul.wide.u16 %r, %h0, %h1;", "%r", [0xffff, 5, 0], 0x4_fffb);
    check("mad.wide.s32 %out, %r0, %r1, %a2;", "%out", [u64::MAX, 7, 10], 3);
    check("mad.hi.u32 %r, %r0, %r1, %r2;", "%r", [u64::MAX, 16, 1], 16);
    check(
        "mad.hi.sat.s32 %r, %r0, %r1, %r2;",
        "%r",
        [0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff],
        0x7fff_ffff,
    );
    check("mul24.lo.u32 %r, %r0, %r1;", "%r", [0xff00_0003, 5, 0], 15);
    check("mul24.hi.s32 %r, %r0, %r1;", "%r", [0x00ff_ffff, 0x10000, 0], 0xffff_ffff);
    check("mad24.lo.s32 %r, %r0, %r1, %r2;", "%r", [0x00ff_ffff, 5, 7], 2);
    check("div.s32 %r, %r0, %r1;", "%r", [0x8000_0000, 0xffff_ffff, 0], 0x8000_0000);
    check("rem.s32 %r, %r0, %r1;", "%r", [0xffff_fff9, 4, 0], 0xffff_fffd);
    check("div.u32 %r, %r0, %r1;", "%r", [9, 0, 0], 0xffff_ffff);
    check("rem.s16 %h, %h0, %h1;", "%h", [0xfff9, 4, 0], 0xfffd);
    check("abs.s16 %h, %h0;", "%h", [0xfff9, 0, 0], 7);
    check("neg.s64 %out, %a0;", "%out", [1, 0, 0], u64::MAX);
    check("min.u16 %h, %h0, %h1;", "%h", [0xffff, 3, 0], 3);
    check("min.s16 %h, %h0, %h1;", "%h", [0xffff, 3, 0], 0xffff);
    check("max.s64 %out, %a0, %a1;", "%out", [u64::MAX, 3, 0], 3);
    check("sad.u32 %r, %r0, %r1, %r2;", "%r", [3, 10, 100], 107);
    check("madc.hi.u64 %out, %a0, %a1, %a2;", "%out", [1 << 63, 4, 5], 7);
}

#[test]
fn carry_flag_survives_between_instructions() {
    let body = "mad.lo.cc.u32 %r3, %r0, %r1, %r2; madc.hi.u32 %r, %r0, %r1, 0;";
    check(body, "%r", [0xffff_ffff, 0xffff_ffff, 0xffff_ffff], 0xffff_ffff);
    check("add.cc.u64 %a3, %a0, %a1; addc.u64 %out, 0, 0;", "%out", [u64::MAX, 1, 0], 1);
    // The carry itself may be what overflows.
    let add = "add.cc.u32 %r3, %r0, %r1; addc.cc.u32 %r4, %r2, 0; addc.u32 %r, 0, 0;";
    check(add, "%r", [0xffff_ffff, 1, 0xffff_ffff], 1);
    let sub = "sub.cc.u32 %r3, %r0, %r1; subc.cc.u32 %r4, %r2, %r2; subc.u32 %r, 0, 0;";
    check(sub, "%r", [0, 1, 5], 0xffff_ffff);
    check("sub.cc.u64 %a3, %a0, %a1; subc.u64 %out, 5, 0;", "%out", [0, 1, 0], 4);
}

#[test]
fn logic_shifts_and_bits() {
    check("not.b16 %h, %h0;", "%h", [0xff, 0, 0], 0xff00);
    check("cnot.b32 %r, %r0;", "%r", [0, 0, 0], 1);
    check("shl.b32 %r, %r0, %r1;", "%r", [1, 32, 0], 0);
    check("shr.s32 %r, %r0, %r1;", "%r", [0x8000_0000, 99, 0], 0xffff_ffff);
    check("shr.u64 %out, %a0, %r1;", "%out", [1 << 63, 63, 0], 1);
    check("shr.s16 %h, %h0, 3;", "%h", [0x8000, 0, 0], 0xf000);
    check("bfe.u32 %r, %r0, 4, 8;", "%r", [0xabcd, 0, 0], 0xbc);
    check("bfe.s32 %r, %r0, 4, 8;", "%r", [0xabcd, 0, 0], 0xffff_ffbc);
    check("bfe.s32 %r, %r0, 28, 8;", "%r", [0xa000_0000, 0, 0], 0xffff_fffa);
    check("bfe.u64 %out, %a0, 60, 20;", "%out", [0xa << 60, 0, 0], 0xa);
    check("bfe.u32 %r, %r0, %r1, 4;", "%r", [u64::MAX, 40, 0], 0);
    check("bfi.b32 %r, %r0, %r1, 8, 4;", "%r", [0xf5, 0xffff_ffff, 0], 0xffff_f5ff);
    check("bfi.b64 %out, %a0, %a1, 60, 8;", "%out", [0xff, 0, 0], 0xf << 60);
    check("bfind.u32 %r, %r0;", "%r", [0x80, 0, 0], 7);
    check("bfind.s32 %r, %r0;", "%r", [0xffff_fffe, 0, 0], 0);
    check("bfind.shiftamt.u64 %r, %a0;", "%r", [1, 0, 0], 63);
    check("bfind.s64 %r, %a0;", "%r", [u64::MAX, 0, 0], 0xffff_ffff);
    check("popc.b64 %r, %a0;", "%r", [u64::MAX, 0, 0], 64);
    check("clz.b32 %r, %r0;", "%r", [0, 0, 0], 32);
    check("brev.b64 %out, %a0;", "%out", [1, 0, 0], 1 << 63);
    check("lop3.b32 %r, %r0, %r1, %r2, 0xe8;", "%r", [0b1100, 0b1010, 0b0110], 0b1110);
    check("lop3.b32 %r, %r0, %r1, %r2, 0x96;", "%r", [0b1100, 0b1010, 0b0110], 0);
    check("prmt.b32 %r, %r0, %r1, 0x9140;", "%r", [0x0403_0281, 0x8807_0605, 0], 0x0002_0581);
    check("prmt.b32.f4e %r, %r0, %r1, 1;", "%r", [0x0403_0201, 0x0807_0605, 0], 0x0504_0302);
    check("prmt.b32.b4e %r, %r0, %r1, 1;", "%r", [0x0403_0201, 0x0807_0605, 0], 0x0708_0102);
    check("prmt.b32.rc8 %r, %r0, %r1, 2;", "%r", [0x0403_0201, 0, 0], 0x0303_0303);
    check("shf.l.clamp.b32 %r, %r0, %r1, %r2;", "%r", [0x1234_5678, 0x9abc_def0, 40], 0x1234_5678);
    check("shf.r.wrap.b32 %r, %r0, %r1, %r2;", "%r", [0x1234_5678, 0x9abc_def0, 36], 0x0123_4567);
    check("dp4a.u32.s32 %r, %r0, %r1, %r2;", "%r", [0xff01_0203, 0xff01_0101, 10], 0xffff_ff11);
    check("dp2a.lo.s32.u32 %r, %r0, %r1, %r2;", "%r", [0xffff_0002, 0x0000_0403, 10], 12);
    check("bmsk.clamp.b32 %r, %r0, %r1;", "%r", [4, 8, 0], 0xff0);
    check("szext.clamp.s32 %r, %r0, %r1;", "%r", [0x8f, 8, 0], 0xffff_ff8f);
}

#[test]
fn floats_flush_saturate_and_make_one_nan() {
    let tiny = single(1e-40);
    check("add.f32 %f, %f0, %f1;", "%f", [tiny, tiny, 0], single(1e-40 + 1e-40));
    check("add.ftz.f32 %f, %f0, %f1;", "%f", [tiny, tiny, 0], 0);
    check("mul.ftz.f32 %f, %f0, %f1;", "%f", [single(-1e-30), single(1e-10), 0], 0x8000_0000);
    check("add.sat.f32 %f, %f0, %f1;", "%f", [single(0.75), single(0.75), 0], single(1.0));
    check("mul.rn.sat.f32 %f, %f0, %f1;", "%f", [single(f32::INFINITY), 0, 0], 0);
    check(
        "sub.f32 %f, %f0, %f1;",
        "%f",
        [single(f32::INFINITY), single(f32::INFINITY), 0],
        0x7fff_ffff,
    );
    check("neg.f32 %f, %f0;", "%f", [0x7f80_0001, 0, 0], 0x7fff_ffff);
    check(
        "fma.rn.f32 %f, %f0, %f1, %f2;",
        "%f",
        [0x3f80_0800, 0x3f80_0800, 0xbf80_1000],
        0x3380_0000,
    );
    check("min.f32 %f, %f0, %f1;", "%f", [0x7fc0_0000, single(3.0), 0], single(3.0));
    check("min.NaN.f32 %f, %f0, %f1;", "%f", [single(3.0), 0x7fc0_0000, 0], 0x7fff_ffff);
    check("max.f32 %f, %f0, %f1;", "%f", [0x8000_0000, 0, 0], 0);
    check("min.f32 %f, %f0, %f1;", "%f", [0, 0x8000_0000, 0], 0x8000_0000);
    check("copysign.f32 %f, %f0, %f1;", "%f", [0x8000_0000, single(2.0), 0], single(-2.0));
    check("rcp.rn.f32 %f, %f0;", "%f", [single(3.0), 0, 0], single(1.0 / 3.0));
    check(
        "sqrt.rp.f64 %g, %g0;",
        "%g",
        [3.0_f64.to_bits(), 0, 0],
        3.0_f64.sqrt().next_up().to_bits(),
    );
    check("add.rm.f32 %f, %f0, %f1;", "%f", [single(1.0), single(-1.0), 0], 0x8000_0000);
    check("mul.rz.f32 %f, %f0, %f1;", "%f", [single(f32::MAX), single(2.0), 0], single(f32::MAX));
    check("mul.rp.f32 %f, %f0, %f1;", "%f", [1, single(0.25), 0], 1);
    check("ex2.approx.f32 %f, %f0;", "%f", [single(-3.0), 0, 0], single(0.125));
    check("lg2.approx.ftz.f32 %f, %f0;", "%f", [single(8.0), 0, 0], single(3.0));
    check("testp.subnormal.f32 %p, %f0;", "%p", [tiny, 0, 0], 1);
    check("testp.finite.f64 %p, %g0;", "%p", [f64::NAN.to_bits(), 0, 0], 0);
}

#[test]
fn halves_compute() {
    let (one, two, third) = (0x3c00, 0x4000, 0x3555);
    check("add.f16 %h, %h0, %h1;", "%h", [one, one, 0], two);
    check("fma.rn.f16 %h, %h0, %h1, %h2;", "%h", [third, two, one], 0x3eaa);
    check(
        "mul.f16x2 %r, %r0, %r1;",
        "%r",
        [one << 16 | two, two << 16 | two, 0],
        two << 16 | 0x4400,
    );
    check("fma.rn.bf16x2 %r, %r0, %r1, %r2;", "%r", [0x3f80_4000, 0x3f80_3f80, 0], 0x3f80_4000);
    check("setp.lt.f16 %p, %h0, %h1;", "%p", [one, two, 0], 1);
    check("cvt.rn.f16x2.f32 %r, %f0, %f1;", "%r", [single(1.0), single(2.0), 0], one << 16 | two);
    check("cvt.rn.bf16.f32 %h, %f0;", "%h", [0x3f80_8000, 0, 0], 0x3f80);
    check("cvt.rz.f16.f32 %h, %f0;", "%h", [single(1e9), 0, 0], 0x7bff);
}

#[test]
fn comparisons_know_unordered() {
    let (nan, one) = (0x7fc0_0000, single(1.0));
    for (operator, unordered, equal) in [
        ("eq", 0, 1),
        ("ne", 0, 0),
        ("lt", 0, 0),
        ("le", 0, 1),
        ("gt", 0, 0),
        ("ge", 0, 1),
        ("equ", 1, 1),
        ("neu", 1, 0),
        ("ltu", 1, 0),
        ("leu", 1, 1),
        ("gtu", 1, 0),
        ("geu", 1, 1),
        ("num", 0, 1),
        ("nan", 1, 0),
    ] {
        check(&format!("setp.{operator}.f32 %p, %f0, %f1;"), "%p", [nan, one, 0], unordered);
        check(&format!("setp.{operator}.f32 %p, %f0, %f1;"), "%p", [one, one, 0], equal);
    }
    check("setp.lo.u32 %p, %r0, %r1;", "%p", [1, u64::MAX, 0], 1);
    check("setp.lt.s32 %p, %r0, %r1;", "%p", [1, u64::MAX, 0], 0);
    check("setp.eq.ftz.f32 %p, %f0, %f1;", "%p", [1, 0, 0], 1);
    let both = "setp.ne.b32 %q, 0, 0; setp.lt.or.s32 %p|%q, %r0, %r1, !%q;";
    check(both, "%p", [5, 3, 0], 1);
    let other = "setp.lt.s32 %p1|%p, %r0, %r1;";
    check(other, "%p", [5, 3, 0], 1);
    check("set.lt.f32.s32 %f, %r0, %r1;", "%f", [1, 2, 0], single(1.0));
    check("set.gt.u32.s32 %r, %r0, %r1;", "%r", [1, 2, 0], 0);
    check("slct.u32.s32 %r, %r0, %r1, %r2;", "%r", [1, 2, u64::MAX], 2);
    check("slct.f32.f32 %f, %f0, %f1, %f2;", "%f", [one, nan, 0x8000_0000], one);
    check("setp.eq.b32 %p, %r0, 1; xor.pred %q, %p, %p; not.pred %p, %q;", "%p", [0, 0, 0], 1);
}

#[test]
fn conversions() {
    check("cvt.s32.s8 %r, %r0;", "%r", [0x1ff, 0, 0], 0xffff_ffff);
    check("cvt.s16.s8 %h, %h0;", "%h", [0x80, 0, 0], 0xff80);
    check("cvt.s8.s32 %h, %r0;", "%h", [0x80, 0, 0], 0xff80);
    check("cvt.u8.u32 %r, %r0;", "%r", [0x1234, 0, 0], 0x34);
    check("cvt.sat.u8.s32 %r, %r0;", "%r", [0xffff_0000, 0, 0], 0);
    check("cvt.sat.s16.s32 %h, %r0;", "%h", [0x7_0000, 0, 0], 0x7fff);
    check("cvt.s64.s32 %out, %r0;", "%out", [0x8000_0000, 0, 0], 0xffff_ffff_8000_0000);
    check("cvt.u64.u16 %out, %a0;", "%out", [0x1_2345, 0, 0], 0x2345);
    check("cvt.rzi.s32.f32 %r, %f0;", "%r", [0x7fc0_0000, 0, 0], 0);
    check("cvt.rzi.s64.f32 %out, %f0;", "%out", [0x7fc0_0000, 0, 0], 1 << 63);
    check("cvt.rni.u8.f32 %r, %f0;", "%r", [single(300.0), 0, 0], 255);
    check("cvt.rmi.s32.f64 %r, %g0;", "%r", [(-1.5_f64).to_bits(), 0, 0], 0xffff_fffe);
    check("cvt.rn.f32.u64 %f, %a0;", "%f", [u64::MAX, 0, 0], single(18_446_744_073_709_551_615.0));
    check(
        "cvt.rz.f32.u64 %f, %a0;",
        "%f",
        [u64::MAX, 0, 0],
        single(18_446_744_073_709_551_615.0_f32.next_down()),
    );
    check(
        "cvt.rm.f64.s64 %g, %a0;",
        "%g",
        [u64::MAX >> 1, 0, 0],
        9_223_372_036_854_774_784.0_f64.to_bits(),
    );
    check("cvt.f64.f32 %g, %f0;", "%g", [single(0.1), 0, 0], f64::from(0.1_f32).to_bits());
    check("cvt.sat.f32.f32 %f, %f0;", "%f", [0x7fc0_0000, 0, 0], 0);
    check("cvt.rpi.f32.f32 %f, %f0;", "%f", [single(-0.5), 0, 0], 0x8000_0000);
    check("cvt.ftz.f64.f32 %g, %f0;", "%g", [1, 0, 0], 0);
}

#[test]
fn moves_pack_and_unpack() {
    check("mov.b64 %out, {%r0, %r1};", "%out", [1, 2, 0], 2 << 32 | 1);
    check("mov.b64 {%r3, %r}, %a0;", "%r", [5 << 32, 0, 0], 5);
    check("mov.b64 {_, %r}, %a0;", "%r", [5 << 32, 0, 0], 5);
    check("mov.b32 {%h3, %h}, %r0;", "%h", [0x7_0001, 0, 0], 7);
    check(
        "mov.b64 %out, {%h0, %h1, %h2, %h0};",
        "%out",
        [1, 2, 3],
        1 << 48 | 3 << 32 | 2 << 16 | 1,
    );
    check("mov.b64 {%h3, %h4, %h, %h5}, %a0;", "%h", [0x4444_3333_2222_1111, 0, 0], 0x3333);
    check("mov.u32 %r, %laneid; add.u32 %r, %r, WARP_SZ;", "%r", [0, 0, 0], 32);
    check("mov.f32 %f, 0f3F800000;", "%f", [0, 0, 0], single(1.0));
    check("mov.f64 %g, 0.5;", "%g", [0, 0, 0], 0.5_f64.to_bits());
    check("mov.u32 %r, (1 << 4) | 3 * 2 - 1 == 5 ? 7 : 8;", "%r", [0, 0, 0], 7);
    check("mov.u32 %r, -1;", "%r", [0, 0, 0], 0xffff_ffff);
    check("mov.u32 %r, %ntid.x;", "%r", [0, 0, 0], 1);
}

#[test]
fn scopes_hide_names_and_labels() {
    let body = "{ .reg .b32 %x; mov.u32 %x, 1; { .reg .b32 %x; mov.u32 %x, 2; bra L; mov.u32 %x, 9; L: mov.u32 %r3, %x; }
        bra L; mov.u32 %x, 9; L: add.u32 %r, %x, %r3; }";
    check(body, "%r", [0, 0, 0], 3);
}

#[test]
fn local_and_shared_memory_have_generic_addresses() {
    let body = ".local .align 8 .b8 l[16]; .shared .align 8 .b8 s[16]; .reg .b64 %x<3>;
        mov.u64 %x0, l; cvta.local.u64 %x1, %x0; st.u64 [%x1+8], %a0; ld.local.u64 %x2, [l+8];
        mov.u64 %x0, s; cvta.shared.u64 %x1, %x0; st.u32 [%x1+4], %x2; atom.add.u32 %r, [%x1+4], 5;
        isspacep.shared %p, %x1; @!%p trap; isspacep.global %p, %x1; @%p trap;
        ld.shared.u32 %r, [s+4];";
    let body = body.replace("st.u32 [%x1+4], %x2", "cvt.u32.u64 %r3, %x2; st.u32 [%x1+4], %r3");
    check(&body, "%r", [37, 0, 0], 42);
}

#[test]
fn narrow_loads_extend_to_their_register() {
    let body = ".local .b8 l[8]; st.local.u8 [l], %r0; ld.local.s8 %h, [l];";
    check(body, "%h", [0x80, 0, 0], 0xff80);
    check(
        ".local .b8 l[8]; st.local.u8 [l], %r0; ld.local.s8 %out, [l];",
        "%out",
        [0x80, 0, 0],
        !0x7f,
    );
    check(".local .b8 l[8]; st.local.u8 [l], %r0; ld.local.b8 %r, [l];", "%r", [0x1ff, 0, 0], 0xff);
}

#[test]
fn stacks_overflow_instead_of_growing_forever() {
    let text = format!(
        "{HEADER}.func f() {{ .local .b8 l[64]; call f; ret; }} .visible .entry k() {{ call f; ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let run = Run::new(&mut device, &module);
    assert_eq!(
        run.go("k", [1, 1, 1], [32, 1, 1], &args()).unwrap_err().kind,
        FaultKind::StackOverflow
    );
}

#[track_caller]
fn refused(text: &str, kind: CompileErrorKind, line: usize, part: &str) {
    let error = Module::compile(text).unwrap_err();
    assert_eq!((error.kind, error.line), (kind, line), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn bad_text_is_refused_with_its_place() {
    use CompileErrorKind::{Invalid, Unsupported, Version};
    let body = |text: &str| {
        format!(
            "{HEADER}.entry k() {{\n.reg .b32 %r<4>; .reg .pred %p; .reg .f32 %f;\n{text}\nret; }}"
        )
    };
    refused("", Invalid, 1, "'.version'");
    refused(".version 99.0\n.target sm_80", Version, 1, "99.0");
    refused(".version 8.0\n.target sm_zz", Invalid, 2, "sm_zz");
    refused(&body("foo.bar %r0, %r1;"), Invalid, 6, "unknown instruction 'foo.bar'");
    refused(&body("add.s32 %r0, %r1;"), Invalid, 6, "3 operands are needed");
    refused(&body("add.s32 %r0, %r1, %r9;"), Invalid, 6, "unknown register '%r9'");
    refused(&body("add.s32 %r0, %r1, %f;"), Invalid, 6, "has type '.f32'");
    refused(&body("add.s64 %r0, %r1, %r2;"), Invalid, 6, "has type '.b32'");
    refused(&body("add.foo.s32 %r0, %r1, %r2;"), Invalid, 6, "unknown modifier '.foo'");
    refused(&body("bra nowhere;"), Invalid, 6, "unknown label 'nowhere'");
    refused(&body("@%r0 bra x; x:"), Invalid, 6, "not a predicate");
    refused(&body("wgmma.fence.sync.aligned;"), Unsupported, 6, "not supported");
    refused(&body("ld.global.u32 %r0, [nothing];"), Invalid, 6, "unknown symbol 'nothing'");
    refused(&body("add.s32 %r0 %r1;"), Invalid, 6, "found '%r1'");
    refused(&body("/* open"), Invalid, 6, "unterminated comment");
    refused(&body(&"{".repeat(5000)), Invalid, 6, "nested too deeply");
    refused(
        &body(&format!("mov.u32 %r0, {}1;", "(".repeat(5000))),
        Invalid,
        6,
        "nested too deeply",
    );
    assert_eq!(
        Module::compile(&body("foo;")).unwrap_err().to_string(),
        "line 6: unknown instruction 'foo'"
    );
}
