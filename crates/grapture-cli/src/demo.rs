//! `grapture demo`: one pipeline, submitted call by call and replayed as a graph.

mod picture;
mod pipeline;
mod times;

use std::path::{Path, PathBuf};
use std::time::Instant;

use grapture::{CaptureMode, Context, CudaResult, Device, Graph, GraphExec, Stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::driver::{self, Chosen};
use crate::failure::Failure;
use picture::{Output, Picture};
use pipeline::Pipeline;
use times::Times;

/// Frames on a GPU, if their number is not given.
const FRAMES: u32 = 200;

/// Frames on the simulated driver.
const SIMULATED_FRAMES: u32 = 5;

/// What the demo is told.
#[derive(clap::Args)]
pub struct Options {
    /// A PNG or JPEG; without one, an image that ships with the program
    image: Option<PathBuf>,
    /// How many frames [default: 200 on a GPU, 5 on the simulated driver]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    frames: Option<u32>,
    /// Which device, counted from 0
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Where the last frame goes, as PNG or JPEG; its graph goes beside it as `.dot`
    #[arg(long, default_value = "grapture-demo.png")]
    output: PathBuf,
}

/// Runs the demo and prints what it saw.
pub fn run(options: &Options) -> Result<(), Failure> {
    let picture = Picture::read(options.image.as_deref())?;
    let output = Output::new(&options.output)?;
    let chosen = driver::choose()?;
    let device = device(&chosen, options.device)?;
    print_where(&chosen, &device)?;
    let usual = if chosen.simulated { SIMULATED_FRAMES } else { FRAMES };
    let frames = options.frames.unwrap_or(usual);

    let mut stage = Stage::new(&device, &picture)?;
    let show = options.image.as_deref().map_or("shipped".into(), Path::to_string_lossy);
    println!("image    {show}, {} × {}", picture.width(), picture.height());
    let graph = stage.capture().map_err(|error| Failure::cannot("capture the frame", error))?;
    let exec = graph.instantiate().map_err(|error| Failure::cannot("instantiate", error))?;
    println!("graph    {} nodes", exec.node_count());

    let compared = compare(&mut stage, &exec, &picture, frames)?;
    println!("frames   {frames}, and both ways gave the same bits in each");
    compared.print();
    save(&stage, &graph, &picture, &output)
}

/// The device with this number, if it is there.
fn device(chosen: &Chosen, ordinal: usize) -> Result<Device, Failure> {
    chosen
        .driver
        .device(ordinal)
        .map_err(|error| Failure::cannot(format!("use device {ordinal}"), error))
}

fn print_where(chosen: &Chosen, device: &Device) -> Result<(), Failure> {
    let driver = &chosen.driver;
    println!("driver   {}, CUDA {}", driver.origin(), driver.version());
    if let Some(why) = &chosen.why {
        println!("         because: {why}");
    }
    let name = device.name().map_err(|error| Failure::cannot("name the device", error))?;
    println!("device   {}: {name}", device.ordinal());
    Ok(())
}

/// A stream of the device, and the pipeline for one image.
struct Stage {
    stream: Stream,
    pipeline: Pipeline,
}

impl Stage {
    fn new(device: &Device, picture: &Picture) -> Result<Stage, Failure> {
        let context = Context::new(device)
            .map_err(|error| Failure::cannot(format!("use device {}", device.ordinal()), error))?;
        check_size(&context, picture)?;
        let make = || -> CudaResult<Stage> {
            let stream = Stream::new(&context)?;
            let pipeline = Pipeline::new(&context, picture.width(), picture.height())?;
            Ok(Stage { stream, pipeline })
        };
        make().map_err(|error| Failure::cannot("set up the pipeline", error))
    }

    /// The frame as a graph.
    fn capture(&mut self) -> CudaResult<Graph> {
        let (stream, pipeline) = (&self.stream, &mut self.pipeline);
        stream.capture(CaptureMode::ThreadLocal, |_| pipeline.submit(stream))
    }

    /// Runs one frame by `submit`, and gives what was drawn.
    fn frame(
        &mut self,
        times: &mut Times,
        submit: impl FnOnce(&mut Pipeline, &Stream) -> CudaResult<()>,
    ) -> CudaResult<Vec<u8>> {
        let start = Instant::now();
        submit(&mut self.pipeline, &self.stream)?;
        let submitted = start.elapsed();
        self.stream.synchronize()?;
        times.add(submitted, start.elapsed());
        Ok(self.pipeline.output.read()?.to_vec())
    }
}

/// Refuses an image that does not fit, before anything is allocated.
fn check_size(context: &Context, picture: &Picture) -> Result<(), Failure> {
    let (width, height) = (picture.width(), picture.height());
    let what = format!("put an image of {width} × {height} on the device");
    let memory = context.memory_info().map_err(|error| Failure::cannot(&what, error))?;
    match misfit(width, height, memory.free_bytes as u64) {
        Some(reason) => Err(Failure::cannot(what, reason)),
        None => Ok(()),
    }
}

/// Why a device with so much free memory cannot take an image of this size, if it cannot.
fn misfit(width: u32, height: u32, free_bytes: u64) -> Option<String> {
    if i32::try_from(u64::from(width) * u64::from(height)).is_err() {
        return Some("it has more than 2,147,483,647 pixels".to_owned());
    }
    let needed = Pipeline::device_bytes(width, height);
    (needed > free_bytes).then(|| format!("it needs {needed} bytes, and {free_bytes} are free"))
}

/// The times of both ways.
#[derive(Default)]
struct Compared {
    calls: Times,
    replay: Times,
}

/// Runs every frame both ways, and compares what each drew.
fn compare(
    stage: &mut Stage,
    exec: &GraphExec,
    picture: &Picture,
    frames: u32,
) -> Result<Compared, Failure> {
    let mut compared = Compared::default();
    let progress = ProgressBar::new(frames.into()).with_style(style());
    for frame in 0..frames {
        let remaining = (frames - 1 - frame) as usize;
        let failed = |error| Failure::cannot(format!("run frame {frame}"), error);
        picture.frame(remaining, &mut stage.pipeline.input.write().map_err(failed)?);
        let called = stage.frame(&mut compared.calls, Pipeline::submit).map_err(failed)?;
        let replay = |_: &mut Pipeline, stream: &Stream| exec.launch(stream);
        let replayed = stage.frame(&mut compared.replay, replay).map_err(failed)?;
        if let Some(byte) = called.iter().zip(&replayed).position(|(a, b)| a != b) {
            let pixel = byte / 4;
            return Err(Failure::Wrong(format!(
                "frame {frame} differs at pixel {pixel}: {} call by call, {} replayed",
                called[byte], replayed[byte]
            )));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(compared)
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:40} {pos}/{len} frames, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Compared {
    fn print(&self) {
        println!();
        println!("{:<14} {:>14} {:>16}", "per frame", "CPU", "wall");
        for (name, times) in [("call by call", &self.calls), ("replayed", &self.replay)] {
            println!("{name:<14} {:>14} {:>16}", times.cpu(), times.wall());
        }
        let cpu = self.calls.cpu().over(self.replay.cpu());
        let wall = self.calls.wall().over(self.replay.wall());
        println!("{:<14} {:>13.1}× {:>15.2}×", "less by", cpu, wall);
        println!();
    }
}

/// Writes the last frame, and its graph beside it.
fn save(stage: &Stage, graph: &Graph, picture: &Picture, output: &Output) -> Result<(), Failure> {
    let drawn = stage.pipeline.output.read();
    let drawn = drawn.map_err(|error| Failure::cannot("read the last frame", error))?.to_vec();
    picture.write_like(drawn, output)?;
    let topology = graph.topology().map_err(|error| Failure::cannot("list the graph", error))?;
    let dot = output.path().with_extension("dot");
    std::fs::write(&dot, topology.to_dot())
        .map_err(|error| Failure::cannot(format!("write {}", dot.display()), error))?;
    println!("wrote    {}, {}", output.path().display(), dot.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_must_fit_into_what_is_free() {
        let needed = Pipeline::device_bytes(100, 10);
        assert_eq!(misfit(100, 10, needed), None);
        let reason = misfit(100, 10, needed - 1).unwrap();
        assert_eq!(reason, "it needs 14028 bytes, and 14027 are free");
    }

    #[test]
    fn an_image_has_no_more_pixels_than_the_kernels_count() {
        assert_eq!(misfit(65_535, 32_768, u64::MAX), None);
        assert!(misfit(65_536, 32_768, u64::MAX).unwrap().contains("2,147,483,647"));
    }
}
