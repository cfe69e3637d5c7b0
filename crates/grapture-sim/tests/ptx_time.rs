//! Clocks and pauses.

#[path = "ptx/support.rs"]
mod support;

use support::{Device, Run, args, module};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

#[test]
fn clocks_go_on() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 to) {{
        .reg .b64 %to, %l<9>; .reg .b32 %r<9>; .reg .pred %p;
        ld.param.u64 %to, [to]; mov.u64 %l0, %clock64; mov.u32 %r0, %clock; mov.u64 %l1, %globaltimer;
        mov.u32 %r1, 0; LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 1000; @%p bra LOOP;
        mov.u64 %l2, %clock64; mov.u32 %r2, %clock; nanosleep.u32 1000; mov.u64 %l3, %globaltimer;
        sub.u64 %l0, %l2, %l0; sub.u32 %r0, %r2, %r0; cvt.u64.u32 %l4, %r0; sub.u64 %l1, %l3, %l1;
        st.global.u64 [%to], %l0; st.global.u64 [%to+8], %l4; st.global.u64 [%to+16], %l1; ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let to = device.zeros::<u64>(3);
    Run::new(&mut device, &module).go("k", [1, 1, 1], [1, 1, 1], &args().with(to)).unwrap();
    let passed: Vec<u64> = device.download(to);
    assert!(passed.iter().all(|ticks| *ticks > 0), "{passed:?}");
    assert!(passed[0] >= 1000 && passed[1] >= 1000, "{passed:?}");
}

#[test]
fn a_pause_lets_the_other_lanes_go_on() {
    // The first lane waits for what the last one writes, and pauses meanwhile.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 at) {{
        .reg .b64 %at; .reg .b32 %t, %v; .reg .pred %p;
        ld.param.u64 %at, [at]; mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra WRITE;
        WAIT: nanosleep.u32 100; ld.volatile.global.u32 %v, [%at]; setp.eq.u32 %p, %v, 0; @%p bra WAIT;
        st.global.u32 [%at+4], %v; ret;
        WRITE: setp.ne.u32 %p, %t, 63; @%p bra END; st.volatile.global.u32 [%at], 7; END: ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let at = device.zeros::<u32>(2);
    Run::new(&mut device, &module).go("k", [1, 1, 1], [64, 1, 1], &args().with(at)).unwrap();
    assert_eq!(device.download::<u32>(at), [7, 7]);
}
