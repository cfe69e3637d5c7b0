//! Kernels that nvcc compiled, run by the interpreter: memory, control flow, atomics.

#[path = "ptx/support.rs"]
mod support;

use std::sync::atomic::AtomicBool;

use grapture_sim::ptx::{FaultKind, Launch, Options};
use support::{Device, Run, args, module, random};

#[test]
fn saxpy_fuses_and_respects_its_bound() {
    let module = module(include_str!("ptx/saxpy.ptx"));
    for kernel in ["saxpy", "saxpy_grid_stride"] {
        let n = 1000;
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 100.0).collect();
        let y: Vec<f32> = (0..n).map(|i| 1.0 / (i as f32 + 1.0)).collect();
        let mut device = Device::default();
        let (dx, dy) = (device.upload(&x), device.upload(&y));
        let run = Run::new(&mut device, &module);
        let stats = run
            .go(kernel, [4, 1, 1], [256, 1, 1], &args().with(n).with(1.7_f32).with(dx).with(dy))
            .unwrap();
        let got: Vec<f32> = device.download(dy);
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.7_f32.mul_add(*x, *y)).collect();
        assert_eq!(got, want);
        assert!(stats.thread_instructions > 15_000);
    }
}

#[test]
fn daxpy_works_in_double_precision() {
    let module = module(include_str!("ptx/saxpy.ptx"));
    let mut device = Device::default();
    let x: Vec<f64> = (0..77).map(|i| f64::from(i) / 3.0).collect();
    let (dx, dy) = (device.upload(&x), device.upload(&x));
    let run = Run::new(&mut device, &module);
    run.go("daxpy", [3, 1, 1], [32, 1, 1], &args().with(77).with(0.1_f64).with(dx).with(dy))
        .unwrap();
    let want: Vec<f64> = x.iter().map(|x| 0.1_f64.mul_add(*x, *x)).collect();
    assert_eq!(device.download::<f64>(dy), want);
}

#[test]
fn reductions_meet_at_barriers() {
    let module = module(include_str!("ptx/reduce.ptx"));
    let mut next = random(1);
    let data: Vec<u32> = (0..5000).map(|_| next() as u32).collect();
    let mut device = Device::default();
    let (input, out) = (device.upload(&data), device.zeros::<u32>(8));
    let run = Run::new(&mut device, &module);
    run.go("reduce_static", [8, 1, 1], [256, 1, 1], &args().with(input).with(out).with(5000))
        .unwrap();
    let sum = device.download::<u32>(out).into_iter().fold(0_u32, u32::wrapping_add);
    assert_eq!(sum, data.iter().copied().fold(0, u32::wrapping_add));

    let floats: Vec<f32> = (0..512).map(|i| (i % 7) as f32).collect();
    let (input, out) = (device.upload(&floats), device.zeros::<f32>(4));
    let mut run = Run::new(&mut device, &module);
    run.shared = 128 * 4;
    assert!(run.module.kernels()[1].uses_dynamic_shared);
    run.go("reduce_dynamic", [4, 1, 1], [128, 1, 1], &args().with(input).with(out)).unwrap();
    let want: Vec<f32> = floats.chunks(128).map(|chunk| chunk.iter().sum()).collect();
    assert_eq!(device.download::<f32>(out), want);
}

#[test]
fn shuffles_reduce_a_warp_and_barriers_count() {
    let module = module(include_str!("ptx/reduce.ptx"));
    let data: Vec<i32> = (0..256).map(|i| i * 7 % 31 - 9).collect();
    let mut device = Device::default();
    let (input, out, counts) =
        (device.upload(&data), device.zeros::<i32>(2), device.zeros::<i32>(256));
    let run = Run::new(&mut device, &module);
    run.go("reduce_shuffle", [2, 1, 1], [128, 1, 1], &args().with(input).with(out)).unwrap();
    run.go("barrier_count", [2, 1, 1], [128, 1, 1], &args().with(input).with(counts)).unwrap();
    let want: Vec<i32> = data.chunks(128).map(|chunk| chunk.iter().sum()).collect();
    assert_eq!(device.download::<i32>(out), want);
    for (chunk, got) in data.chunks(128).zip(device.download::<i32>(counts).chunks(128)) {
        let positive = chunk.iter().filter(|v| **v > 0).count() as i32;
        assert!(got.iter().all(|got| *got == positive * 4 + 2), "{got:?} {positive}");
    }
}

#[test]
fn diverging_lanes_keep_their_own_course() {
    let module = module(include_str!("ptx/diverge.ptx"));
    let input: Vec<u32> = (1..=300).collect();
    let mut device = Device::default();
    let (din, out) = (device.upload(&input), device.zeros::<u32>(300));
    let run = Run::new(&mut device, &module);
    run.go("collatz", [3, 1, 1], [128, 1, 1], &args().with(din).with(out).with(300)).unwrap();
    let steps = |mut v: u64| {
        let mut steps = 0;
        while v != 1 {
            v = if v & 1 == 1 { 3 * v + 1 } else { v / 2 };
            steps += 1;
        }
        steps
    };
    let want: Vec<u32> = input.iter().map(|v| steps(u64::from(*v))).collect();
    assert_eq!(device.download::<u32>(out), want);
}

#[test]
fn switches_branch_by_table() {
    let module = module(include_str!("ptx/diverge.ptx"));
    let input: Vec<i32> = (0..200).map(|i| (i * 13) % 10 - 1).collect();
    let mut device = Device::default();
    let (din, out) = (device.upload(&input), device.zeros::<i32>(200));
    let run = Run::new(&mut device, &module);
    run.go("switcher", [2, 1, 1], [100, 1, 1], &args().with(din).with(out).with(200)).unwrap();
    let want: Vec<i32> = (0..200)
        .zip(&input)
        .map(|(i, v): (i32, &i32)| match v {
            0 => 10,
            1 => v * 7 + i,
            2 => i - 4,
            3 => i * i,
            4 => -i,
            5 => i ^ 0x55,
            6 => i << 3,
            7 => (0..i).map(|k| k ^ v).sum(),
            _ => -1,
        })
        .collect();
    assert_eq!(device.download::<i32>(out), want);
}

#[test]
fn spinning_lanes_do_not_starve_the_lock_holder() {
    let module = module(include_str!("ptx/diverge.ptx"));
    for kernel in ["spin_lock", "spin_lock_simple"] {
        for threads in [1, 3] {
            let mut device = Device::default();
            let (lock, counter) = (device.zeros::<i32>(1), device.zeros::<i32>(1));
            let mut run = Run::new(&mut device, &module);
            run.threads = threads;
            run.go(kernel, [4, 1, 1], [64, 1, 1], &args().with(lock).with(counter)).unwrap();
            assert_eq!(device.download::<i32>(counter), [256], "{kernel}");
        }
    }
}

#[test]
fn an_endless_kernel_can_be_stopped() {
    let module = module(include_str!("ptx/diverge.ptx"));
    let mut device = Device::default();
    let flag = device.zeros::<i32>(1);
    let params = args().with(flag).0;
    let stop = AtomicBool::new(false);
    let launch = Launch {
        module: &module,
        kernel: module.kernel("endless").unwrap(),
        grid: [40, 1, 1],
        block: [64, 1, 1],
        dynamic_shared_bytes: 0,
        params: &params,
        global_addresses: &[],
        options: Options { stop: Some(&stop), ..Options::default() },
    };
    let fault = std::thread::scope(|scope| {
        let running = scope.spawn(|| launch.run(&device, 2));
        std::thread::sleep(std::time::Duration::from_millis(30));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        running.join().unwrap().unwrap_err()
    });
    assert_eq!(fault.kind, FaultKind::Stopped);
}

#[test]
fn histograms_count_in_shared_and_global_memory() {
    let module = module(include_str!("ptx/histogram.ptx"));
    let mut next = random(3);
    let data: Vec<u8> = (0..10_000).map(|_| (next() >> 33) as u8).collect();
    for threads in [1, 2] {
        let mut device = Device::default();
        let (input, bins) = (device.upload(&data), device.zeros::<u32>(256));
        let mut run = Run::new(&mut device, &module);
        run.threads = threads;
        run.go("histogram", [5, 1, 1], [192, 1, 1], &args().with(input).with(bins).with(10_000))
            .unwrap();
        let mut want = vec![0; 256];
        data.iter().for_each(|byte| want[usize::from(*byte)] += 1);
        assert_eq!(device.download::<u32>(bins), want);
    }
}

#[test]
fn atomics_of_every_sort_take_part() {
    let module = module(include_str!("ptx/histogram.ptx"));
    let mut device = Device::default();
    let i = device.upload(&[0, 0, 0, 0, -1, 0, 0, 0]);
    let (u, l) = (device.zeros::<u32>(4 + 256), device.zeros::<u64>(3));
    let (f, d) = (device.zeros::<f32>(1), device.zeros::<f64>(1));
    let mut run = Run::new(&mut device, &module);
    run.threads = 2;
    run.go("atomics", [4, 1, 1], [64, 1, 1], &args().with(i).with(u).with(l).with(f).with(d))
        .unwrap();
    let sum: i32 = (0..256).sum();
    assert_eq!(
        device.download::<i32>(i)[..7],
        [sum, -sum, -255, 255, 0, -1, (0..256).fold(0, |a, b| a ^ b)]
    );
    let mut u: Vec<u32> = device.download(u);
    assert_eq!(u[..4], [256 % 18, (18 - 256 % 18), 255 + 0x8000_0000, 256]);
    u[4..].sort_unstable();
    assert_eq!(u[4..], (0..256).collect::<Vec<u32>>());
    let l: Vec<u64> = device.download(l);
    assert_eq!(l[..2], [(0..256_u64).map(|t| t << 30).sum(), 255 << 33]);
    assert!((1..=256).contains(&l[2]));
    assert_eq!(device.download::<f32>(f), [128.0]);
    assert_eq!(device.download::<f64>(d), [64.0]);
}
