//! Captures ten launches of a kernel and replays them with one driver call each time.
//!
//! `cargo run --release --example quickstart --features sim`, with `GRAPTURE_DRIVER=sim` in the
//! environment where there is no GPU.

use grapture::{CaptureMode, Context, CudaResult, Device, DeviceBuffer, Stream};

const N: usize = 1 << 16;

fn main() -> CudaResult<()> {
    let context = Context::new(&Device::get(0)?)?;
    let stream = Stream::new(&context)?;
    let axpy = context.load_ptx(include_str!("../fixtures/kernels.ptx"))?.kernel("axpy")?;
    let x = DeviceBuffer::from_slice(&context, &vec![1.0f32; N])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&context, N)?;

    // What is submitted in the closure is recorded, not run.
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        for _ in 0..10 {
            let blocks = N.div_ceil(256) as u32;
            let launch = axpy.launch_builder(blocks, 256).arg_mut(&mut y).arg(&x);
            // SAFETY: `axpy(float* y, const float* x, float a, unsigned n)` touches `n` elements.
            unsafe { launch.value(0.5f32).value(N as u32).launch(&stream)? };
        }
        Ok(())
    })?;

    let exec = graph.instantiate()?;
    println!("captured {} nodes", exec.node_count());
    for _ in 0..20 {
        exec.launch(&stream)?;
    }
    let y = y.to_vec(&stream)?;
    println!("y[0] = {}, as it should be: {}", y[0], y.iter().all(|&value| value == 100.0));
    Ok(())
}
