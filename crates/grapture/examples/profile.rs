//! Times each node of chains and diamonds of kernels, and holds their sum against the replay.
//!
//! `cargo run --release --example profile --features sim`, with `GRAPTURE_DRIVER=sim` in the
//! environment where there is no GPU. `-- --table` prints all nodes too.

use grapture::{
    CaptureMode, Context, CudaResult, Device, DeviceBuffer, Event, Graph, Kernel, Stream,
};

/// How many rounds of the kernel take about a microsecond on an H200.
const ROUNDS: u32 = 490;
const RUNS: usize = 50;

/// A kernel, and a stream and a word for each launch of it that runs beside others.
struct Setup {
    context: Context,
    streams: Vec<Stream>,
    spin: Kernel,
    words: Vec<DeviceBuffer<f32>>,
}

impl Setup {
    fn new(width: usize) -> CudaResult<Setup> {
        let context = Context::new(&Device::get(0)?)?;
        let spin = context.load_ptx(include_str!("../fixtures/spin.ptx"))?.kernel("spin")?;
        let streams = (0..width).map(|_| Stream::new(&context)).collect::<CudaResult<_>>()?;
        let words =
            (0..width).map(|_| DeviceBuffer::zeroed(&context, 1)).collect::<CudaResult<_>>()?;
        Ok(Setup { context, streams, spin, words })
    }

    #[track_caller]
    fn spin(&mut self, index: usize, microseconds: u32) -> CudaResult<()> {
        let launch = self.spin.launch_builder(1, 32).arg_mut(&mut self.words[index]);
        // SAFETY: `spin(float* word, unsigned rounds)` touches one word.
        unsafe { launch.value(ROUNDS * microseconds).launch(&self.streams[index]) }
    }

    /// One kernel after another.
    fn chain(&mut self, nodes: usize, microseconds: u32) -> CudaResult<Graph> {
        self.streams[0].clone().capture(CaptureMode::ThreadLocal, |_| {
            (0..nodes).try_for_each(|_| self.spin(0, microseconds))
        })
    }

    /// One kernel if there is a `top`, then `width` at once, the later ones longer, then one.
    fn diamond(&mut self, top: bool, width: usize, microseconds: u32) -> CudaResult<Graph> {
        let main = self.streams[0].clone();
        let (fork, join) = (Event::new(&self.context)?, Event::new(&self.context)?);
        main.capture(CaptureMode::ThreadLocal, |capture| {
            if top {
                capture.labelled("top", || self.spin(0, microseconds))?;
            }
            fork.record(&main)?;
            for side in 1..width {
                fork.wait(&self.streams[side])?;
                self.spin(side, microseconds + microseconds * side as u32 / 4)?;
            }
            self.spin(0, microseconds)?;
            for side in 1..width {
                join.record(&self.streams[side])?;
                join.wait(&main)?;
            }
            capture.labelled("bottom", || self.spin(0, microseconds))
        })
    }
}

fn main() -> CudaResult<()> {
    let table = std::env::args().any(|argument| argument == "--table");
    let mut setup = Setup::new(64)?;
    let stream = Stream::new(&setup.context)?;
    println!("{:<22} {:>9} {:>9} {:>9} {:>7}", "graph", "replay", "marked", "path", "ratio");
    for microseconds in [1, 5, 20, 100] {
        let graphs = [
            (format!("chain of 10, {microseconds} us"), setup.chain(10, microseconds)?),
            (format!("chain of 100, {microseconds} us"), setup.chain(100, microseconds)?),
            (format!("diamond of 4, {microseconds} us"), setup.diamond(true, 4, microseconds)?),
            (format!("64 at once, {microseconds} us"), setup.diamond(false, 64, microseconds)?),
        ];
        for (name, graph) in graphs {
            let profile = graph.profile(&stream, RUNS)?;
            let times =
                [profile.replay().median, profile.profiled().median, profile.critical_time()];
            let [replay, marked, path] = times.map(|time| time.as_secs_f64() * 1e6);
            println!("{name:<22} {replay:>9.2} {marked:>9.2} {path:>9.2} {:>7.3}", path / replay);
            if table {
                println!("{profile}");
            }
        }
    }
    Ok(())
}
