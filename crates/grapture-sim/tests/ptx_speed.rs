//! How fast the interpreter is; prints, asserts no time.
//!
//! `cargo test --release -p grapture-sim --test ptx_speed -- --ignored --nocapture`

#[path = "ptx/support.rs"]
mod support;

use std::time::Instant;

use support::{Args, Device, Run, args, module};

fn measure(name: &str, run: &Run<'_>, kernel: &str, blocks: u32, block: u32, params: &Args) {
    let mut best = f64::INFINITY;
    let mut instructions = 0;
    for _ in 0..20 {
        let start = Instant::now();
        let stats = run.go(kernel, [blocks, 1, 1], [block, 1, 1], params).unwrap();
        best = best.min(start.elapsed().as_secs_f64());
        instructions = stats.thread_instructions;
    }
    println!(
        "{name}: {instructions} thread-instructions, {:.0} M/s",
        instructions as f64 / best / 1e6
    );
}

#[test]
#[ignore = "prints a measurement"]
fn speed() {
    let saxpy = module(include_str!("ptx/saxpy.ptx"));
    let n = 1 << 20;
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut device = Device::default();
    let (x, y) = (device.upload(&values), device.upload(&values));
    let run = Run::new(&mut device, &saxpy);
    measure(
        "saxpy",
        &run,
        "saxpy",
        (n / 256) as u32,
        256,
        &args().with(n).with(1.5_f32).with(x).with(y),
    );
    let params = args().with(n).with(1.5_f32).with(x).with(y);
    measure("saxpy, grid stride", &run, "saxpy_grid_stride", 64, 256, &params);

    let reduce = module(include_str!("ptx/reduce.ptx"));
    let out = device.zeros::<u32>(1024);
    let run = Run::new(&mut device, &reduce);
    measure("reduce", &run, "reduce_static", 256, 256, &args().with(x).with(out).with(n));

    let collatz = module(include_str!("ptx/diverge.ptx"));
    let numbers: Vec<u32> = (1..=1 << 14).collect();
    let (input, out) = (device.upload(&numbers), device.zeros::<u32>(1 << 14));
    let run = Run::new(&mut device, &collatz);
    measure("collatz", &run, "collatz", 64, 256, &args().with(input).with(out).with(1 << 14));

    let functions = module(include_str!("ptx/functions.ptx"));
    let out = device.zeros::<u32>(256);
    let run = Run::new(&mut device, &functions);
    measure("fibonacci", &run, "fibonacci", 4, 256, &args().with(out));

    let histogram = module(include_str!("ptx/histogram.ptx"));
    let bytes: Vec<u8> =
        (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (input, bins) = (device.upload(&bytes), device.zeros::<u32>(256));
    let run = Run::new(&mut device, &histogram);
    measure("histogram", &run, "histogram", 64, 256, &args().with(input).with(bins).with(1 << 20));
}
