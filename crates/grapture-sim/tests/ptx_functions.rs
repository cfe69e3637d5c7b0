//! Kernels that nvcc compiled, run by the interpreter: calls, globals, warps, faults.

#[path = "ptx/support.rs"]
mod support;

use grapture_sim::ptx::{FaultKind, Space};
use support::{Device, Run, args, module};

#[test]
fn functions_recurse() {
    let module = module(include_str!("ptx/functions.ptx"));
    let unbounded = |name: &str| module.kernels()[module.kernel(name).unwrap()].unbounded_stack;
    assert_eq!(["fibonacci", "by_value", "indirect"].map(unbounded), [true, false, true]);
    let mut device = Device::default();
    let out = device.zeros::<u32>(64);
    let run = Run::new(&mut device, &module);
    run.go("fibonacci", [1, 1, 1], [64, 1, 1], &args().with(out)).unwrap();
    let fib = |n: u32| (0..n).fold((0_u32, 1_u32), |(a, b), _| (b, a + b)).0;
    assert_eq!(device.download::<u32>(out), (0..64).map(|i| fib(i % 12)).collect::<Vec<_>>());
}

#[test]
fn structs_pass_by_value() {
    let module = module(include_str!("ptx/functions.ptx"));
    let kernel = &module.kernels()[module.kernel("by_value").unwrap()];
    assert_eq!(
        (kernel.params[0].size, kernel.params[0].align, kernel.params[1].offset),
        (16, 8, 16)
    );
    let mut device = Device::default();
    let out = device.zeros::<u8>(16 * 40);
    let run = Run::new(&mut device, &module);
    run.go("by_value", [1, 1, 1], [40, 1, 1], &args().with(7).with(0.5_f64).with(out)).unwrap();
    for (i, pair) in device.download::<u8>(out).chunks(16).enumerate() {
        assert_eq!(pair[..4], (7 * i as i32).to_le_bytes());
        assert_eq!(pair[8..], (0.5 + i as f64).to_le_bytes());
    }
}

#[test]
fn functions_are_called_by_address() {
    let module = module(include_str!("ptx/functions.ptx"));
    let mut device = Device::default();
    let out = device.zeros::<i32>(50);
    let run = Run::new(&mut device, &module);
    run.go("indirect", [1, 1, 1], [50, 1, 1], &args().with(out)).unwrap();
    let want: Vec<i32> = (0..50).map(|i| if i & 1 == 0 { i + 1 } else { i * 2 }).collect();
    assert_eq!(device.download::<i32>(out), want);
}

#[test]
fn local_arrays_belong_to_their_thread() {
    let module = module(include_str!("ptx/functions.ptx"));
    let input: Vec<i32> = (0..23).map(|i| i * i - 40).collect();
    let mut device = Device::default();
    let (din, out) = (device.upload(&input), device.zeros::<i32>(90));
    let run = Run::new(&mut device, &module);
    run.go("local_array", [1, 1, 1], [90, 1, 1], &args().with(din).with(out).with(23)).unwrap();
    let want: Vec<i32> = (0..90)
        .map(|i: i32| {
            let scratch: Vec<i32> = (0..16).map(|k| input[((i + k) % 23) as usize]).collect();
            let (mut at, mut sum) = (i, 0_i32);
            for k in 0..23 {
                at = (at * 5 + scratch[(at & 15) as usize]) & 0xff;
                sum = sum.wrapping_add(scratch[(at & 15) as usize].wrapping_mul(k));
            }
            sum
        })
        .collect();
    assert_eq!(device.download::<i32>(out), want);
}

#[test]
fn globals_hold_their_initial_values() {
    let module = module(include_str!("ptx/globals.ptx"));
    let primes = module.globals().iter().find(|global| global.name == "primes").unwrap();
    assert_eq!((primes.space, primes.size), (Space::Const, 32));
    let mut device = Device::default();
    let (out, fout) = (device.zeros::<i32>(32), device.zeros::<f32>(32));
    let run = Run::new(&mut device, &module);
    run.go("read_globals", [1, 1, 1], [32, 1, 1], &args().with(out).with(fout)).unwrap();
    let counter = run.globals[module.globals().iter().position(|g| g.name == "counter").unwrap()];
    let text = b"grapture";
    let table = [2, 3, 5, 7, 11, 13, 17, 19];
    let want: Vec<i32> = (0..32).map(|i| table[i & 7] + 9 + i32::from(text[i & 7]) - 2).collect();
    assert_eq!(device.download::<i32>(out), want);
    assert_eq!(device.download::<f32>(fout), [1.5 * 4.5 - 6.25; 32]);
    assert_eq!(device.download::<i32>(counter), [37]);
}

#[test]
fn threads_know_their_place_in_three_dimensions() {
    let module = module(include_str!("ptx/globals.ptx"));
    let mut device = Device::default();
    let out = device.zeros::<u32>(6 * 10 * 12);
    let mut run = Run::new(&mut device, &module);
    run.threads = 2;
    run.go("grid3", [2, 5, 3], [3, 2, 4], &args().with(out)).unwrap();
    for (i, got) in (0..).zip(device.download::<u32>(out)) {
        let (x, y, z) = (i % 6, i / 6 % 10, i / 60);
        assert_eq!(got, x | y << 8 | z << 16);
    }
}

#[test]
fn vectors_load_and_store_whole() {
    let module = module(include_str!("ptx/globals.ptx"));
    let kernel = &module.kernels()[module.kernel("vectors").unwrap()];
    assert_eq!(
        (kernel.max_threads_per_block, kernel.min_blocks_per_multiprocessor),
        (Some(128), Some(2))
    );
    let input: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let pairs: Vec<i32> = (0..128).map(|i| i * 3).collect();
    let mut device = Device::default();
    let (din, pin) = (device.upload(&input), device.upload(&pairs));
    let (out, bytes) = (device.zeros::<f32>(256), device.zeros::<u8>(256));
    let run = Run::new(&mut device, &module);
    run.go("vectors", [2, 1, 1], [32, 1, 1], &args().with(din).with(out).with(pin).with(bytes))
        .unwrap();
    let want: Vec<f32> = input.chunks(4).flat_map(|v| [v[3], v[2], v[1], v[0]]).collect();
    assert_eq!(device.download::<f32>(out), want);
    let want: Vec<u8> = pairs
        .chunks(2)
        .flat_map(|p| [p[0], p[1], p[0] + p[1], p[0] - p[1]].map(|v| v as u8))
        .collect();
    assert_eq!(device.download::<u8>(bytes), want);
}

#[test]
fn lanes_exchange_values() {
    let module = module(include_str!("ptx/warp.ptx"));
    let input: Vec<i32> = (0..64).map(|i| (i * 29) % 61 - 12).collect();
    let mut device = Device::default();
    let (din, out) = (device.upload(&input), device.zeros::<i32>(64 * 12));
    let run = Run::new(&mut device, &module);
    run.go("warp_ops", [1, 1, 1], [64, 1, 1], &args().with(din).with(out)).unwrap();
    let got: Vec<i32> = device.download(out);
    for (i, got) in got.chunks(12).enumerate() {
        let (lane, warp) = (i % 32, &input[i / 32 * 32..][..32]);
        let mask = |pick: &dyn Fn(usize) -> bool| {
            (0..32).fold(0_u32, |m, l| m | u32::from(pick(l)) << l) as i32
        };
        let positive = |l: usize| warp[l] > 0;
        let want = [
            warp[5],
            warp[if lane >= 3 { lane - 3 } else { lane }],
            warp[if lane % 8 < 5 { lane + 3 } else { lane }],
            warp[lane ^ 1],
            mask(&positive),
            i32::from(warp.iter().any(|v| *v > 40)),
            1,
            mask(&|l| warp[l] & 3 == warp[lane] & 3),
            0,
            0,
            -1,
            mask(&|l| positive(l) && l % 2 == lane % 2),
        ];
        assert_eq!(got, want, "lane {lane}");
    }
}

#[test]
fn faults_name_the_thread_and_the_line() {
    let text = include_str!("ptx/warp.ptx");
    let module = module(text);
    let fault = |kind: i32| {
        let mut device = Device::default();
        let p = device.zeros::<i32>(64);
        let run = Run::new(&mut device, &module);
        (run.go("faulty", [1, 1, 1], [64, 1, 1], &args().with(p).with(kind)).unwrap_err(), p)
    };
    let (illegal, p) = fault(0);
    assert_eq!(
        illegal.kind,
        FaultKind::IllegalAddress { address: p + (4 << 20), len: 4, write: true }
    );
    assert_eq!((illegal.thread, illegal.kernel.as_str()), ([3, 0, 0], "faulty"));
    let line = text.lines().nth(illegal.line as usize - 1).unwrap();
    assert!(line.contains("st.global.u32"), "{line}");
    assert!(illegal.to_string().contains("thread (3,0,0)"), "{illegal}");
    let (misaligned, p) = fault(1);
    assert_eq!(misaligned.kind, FaultKind::Misaligned { address: p + 1, len: 4, write: true });
    assert_eq!(fault(2).0.kind, FaultKind::Trap);
    assert_eq!(fault(3).0.kind, FaultKind::BarrierDeadlock);
}
