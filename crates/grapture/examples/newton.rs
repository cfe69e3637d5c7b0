//! Newton's method until it has converged: a loop in one graph, one driver call, and no look from
//! the host in between.
//!
//! `cargo run --release --example newton --features sim`, with `GRAPTURE_DRIVER=sim` in the
//! environment where there is no GPU.

use grapture::{
    CaptureMode, Context, CudaResult, Device, DeviceBuffer, Stream, StreamGraphCapture,
    WordCondition,
};

const N: usize = 256;

fn main() -> CudaResult<()> {
    let context = Context::new(&Device::get(0)?)?;
    let stream = Stream::new(&context)?;
    let newton = context.load_ptx(include_str!("../fixtures/loops.ptx"))?.kernel("newton")?;
    let squares: Vec<f32> = (1..=N).map(|n| (n * n) as f32).collect();
    let squares = DeviceBuffer::from_slice(&context, &squares)?;
    let mut roots = DeviceBuffer::<f32>::zeroed(&context, N)?;
    let mut going = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    let mut steps = DeviceBuffer::<u32>::zeroed(&context, 1)?;

    // The kernel writes `going` as any kernel writes a word; the loop reads it before each round.
    let condition = WordCondition::new(&going)?;
    let record = |capture: &StreamGraphCapture<'_>| {
        roots.fill(1.0, &stream)?;
        going.fill(1, &stream)?;
        steps.fill(0, &stream)?;
        capture.while_(&condition, |body| {
            let launch = newton.launch_builder(1, 256).arg_mut(&mut roots).arg(&squares);
            let launch = launch.value(N as u32).arg_mut(&mut going).arg_mut(&mut steps);
            // SAFETY: `newton` takes two arrays of `n` numbers and two words.
            unsafe { launch.launch(body.stream()) }
        })
    };
    let exec = stream.capture(CaptureMode::ThreadLocal, record)?.instantiate()?;

    exec.launch(&stream)?;
    let (roots, steps) = (roots.to_vec(&stream)?, steps.to_vec(&stream)?[0]);
    let right = roots.iter().enumerate().all(|(i, root)| (root - (i + 1) as f32).abs() < 1e-3);
    println!("{N} square roots after {steps} steps, as they should be: {right}");
    Ok(())
}
