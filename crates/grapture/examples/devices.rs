//! One graph over all devices: each works on its part, and the first gathers the parts.
//!
//! `cargo run --release --example devices --features sim`, with `GRAPTURE_DRIVER=sim` in the
//! environment where there is no GPU, and `GRAPTURE_SIM_DEVICES=4` for several.

use grapture::{CaptureMode, Context, CudaResult, DeviceBuffer, Driver, Kernel, Stream};

const N: usize = 1 << 12;

/// What a device needs for its part.
struct Part {
    stream: Stream,
    axpy: Kernel,
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
}

impl Part {
    fn new(driver: &Driver, ordinal: usize) -> CudaResult<Part> {
        let context = Context::new(&driver.device(ordinal)?)?;
        let module = context.load_ptx(include_str!("../fixtures/kernels.ptx"))?;
        Ok(Part {
            stream: Stream::new(&context)?,
            axpy: module.kernel("axpy")?,
            x: DeviceBuffer::from_slice(&context, &vec![ordinal as f32 + 1.0; N])?,
            y: DeviceBuffer::zeroed(&context, N)?,
        })
    }

    /// `y = 2 * x`
    fn work(&mut self) -> CudaResult<()> {
        self.y.fill(0.0, &self.stream)?;
        let launch =
            self.axpy.launch_builder(N as u32 / 256, 256).arg_mut(&mut self.y).arg(&self.x);
        // SAFETY: `axpy(float* y, const float* x, float a, unsigned n)` touches `n` elements.
        unsafe { launch.value(2.0f32).value(N as u32).launch(&self.stream) }
    }
}

fn main() -> CudaResult<()> {
    let driver = Driver::process_default()?;
    let devices = driver.device_count()?;
    let mut parts: Vec<_> =
        (0..devices).map(|ordinal| Part::new(&driver, ordinal)).collect::<CudaResult<_>>()?;
    let streams: Vec<Stream> = parts.iter().map(|part| part.stream.clone()).collect();
    let sides: Vec<&Stream> = streams.iter().skip(1).collect();
    let (first, mut all) =
        (&streams[0], DeviceBuffer::<f32>::zeroed(streams[0].context(), devices * N)?);

    // The streams of the other devices join the capture, and are joined back.
    let graph = first.capture(CaptureMode::ThreadLocal, |_| {
        first.fork(&sides, || parts.iter_mut().try_for_each(Part::work))?;
        for (index, part) in parts.iter().enumerate() {
            all.view_mut(index * N..(index + 1) * N)?.copy_from(&part.y, first)?;
        }
        Ok(())
    })?;
    let exec = graph.instantiate()?;
    exec.launch(first)?;

    let all = all.to_vec(first)?;
    let right = all.iter().enumerate().all(|(i, y)| *y == 2.0 * (i / N + 1) as f32);
    println!("{} nodes on {devices} devices gave what they should: {right}", exec.node_count());
    Ok(())
}
