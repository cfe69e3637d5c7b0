//! Threads that wait for each other.

#[path = "ptx/support.rs"]
mod support;

use grapture_sim::ptx::{FaultKind, Launch, Options};
use support::{Device, Run, args, module};

const HEADER: &str = ".version 8.4\n.target sm_80\n.address_size 64\n";

#[test]
fn a_producer_arrives_and_a_consumer_waits() {
    // Warp 0 consumes what warp 1 makes; the last warp has four threads.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 to) {{
        .reg .b64 %to, %at; .reg .b32 %t, %v; .reg .pred %p; .shared .align 4 .b8 s[256];
        ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32; @%p bra CONSUME;
        setp.ge.u32 %p, %t, 64; @%p bra LAST;
        sub.u32 %v, %t, 32; shl.b32 %v, %v, 2; mov.u32 %t, s; add.u32 %v, %v, %t; st.shared.u32 [%v], %v;
        bar.arrive 3, 64; bar.sync 5, 64; ret;
        CONSUME: bar.sync 3, 64; shl.b32 %v, %t, 2; mov.u32 %t, s; add.u32 %t, %v, %t; ld.shared.u32 %t, [%t];
        cvt.u64.u32 %at, %v; add.u64 %at, %at, %to; st.global.u32 [%at], %t; ret;
        LAST: bar.sync 5, 64; ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let to = device.zeros::<u32>(32);
    let run = Run::new(&mut device, &module);
    run.go("k", [1, 1, 1], [68, 1, 1], &args().with(to)).unwrap();
    assert_eq!(device.download::<u32>(to), (0..32).map(|i| 4 * i).collect::<Vec<u32>>());
}

#[test]
fn threads_that_ended_are_not_waited_for() {
    let text = format!(
        "{HEADER}.visible .entry k() {{ .reg .b32 %t; .reg .pred %p;
        mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 40; @%p exit; bar.sync 0; bar.sync 0; ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    Run::new(&mut device, &module).go("k", [2, 1, 1], [100, 1, 1], &args()).unwrap();
}

#[test]
fn a_warp_barrier_joins_diverged_lanes() {
    // Odd lanes loop first; the ballot after the barrier must see all lanes.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 to) {{ .reg .b32 %t, %v, %i; .reg .b64 %to, %at; .reg .pred %p;
        ld.param.u64 %to, [to]; mov.u32 %t, %laneid; and.b32 %v, %t, 1; setp.eq.u32 %p, %v, 0; @%p bra JOIN;
        mov.u32 %i, %t; LOOP: sub.u32 %i, %i, 1; setp.ne.u32 %p, %i, 0; @%p bra LOOP;
        JOIN: bar.warp.sync 0xffffffff; activemask.b32 %v;
        mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %to; st.global.u32 [%at], %v; ret; }}"
    );
    let module = module(&text);
    let mut device = Device::default();
    let to = device.zeros::<u32>(32);
    Run::new(&mut device, &module).go("k", [1, 1, 1], [32, 1, 1], &args().with(to)).unwrap();
    assert_eq!(device.download::<u32>(to), [u32::MAX; 32]);
}

/// Every block adds one to a counter and spins until all have.
fn grid_barrier() -> String {
    format!(
        "{HEADER}.visible .entry k(.param .u64 to) {{ .reg .b32 %v, %n; .reg .b64 %to; .reg .pred %p;
        ld.param.u64 %to, [to]; mov.u32 %n, %nctaid.x; mul.lo.u32 %n, %n, 32; red.global.add.u32 [%to], 1;
        WAIT: ld.acquire.gpu.global.u32 %v, [%to]; setp.lt.u32 %p, %v, %n; @%p bra WAIT; ret; }}"
    )
}

#[test]
fn blocks_wait_for_each_other() {
    let module = module(&grid_barrier());
    for (blocks, cooperative, threads) in [(8, false, 1), (100, true, 1), (40, false, 3)] {
        let mut device = Device::default();
        let to = device.zeros::<u32>(1);
        let params = args().with(to).0;
        let launch = Launch {
            module: &module,
            kernel: 0,
            grid: [blocks, 1, 1],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            params: &params,
            global_addresses: &[],
            options: Options { cooperative, ..Options::default() },
        };
        launch.run(&device, threads).unwrap();
        assert_eq!(device.download::<u32>(to), [32 * blocks]);
    }
}

#[test]
fn impossible_launches_are_refused() {
    let module = module(&grid_barrier());
    let mut device = Device::default();
    let run = Run::new(&mut device, &module);
    for (grid, block) in [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [1025, 1, 1]), ([1, 1, 1], [1, 0, 1])]
    {
        let fault = run.go("k", grid, block, &args().with(0_u64)).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::InvalidLaunch(_)), "{fault}");
    }
    let fault = run.go("k", [1, 1, 1], [1, 1, 1], &args()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InvalidLaunch("the parameters are too short"));
}

#[test]
fn a_barrier_number_that_does_not_exist_is_a_fault() {
    let text = format!("{HEADER}.visible .entry k() {{ bar.sync 16; ret; }}");
    let module = module(&text);
    let mut device = Device::default();
    let fault = Run::new(&mut device, &module).go("k", [1, 1, 1], [32, 1, 1], &args()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InvalidBarrier);
}
