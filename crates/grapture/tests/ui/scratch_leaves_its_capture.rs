//! Memory of a pool cannot be kept beyond the capture that takes it, and is no output.

use grapture::{CaptureMode, CudaResult, GraphPool, Scratch, Stream, StreamGraphCapture};

fn keep(stream: &Stream, pool: &GraphPool) -> CudaResult<()> {
    let mut kept: Option<Scratch<'_, u32>> = None;
    stream.capture(CaptureMode::Relaxed, |capture| {
        kept = Some(capture.alloc_scratch(pool, 4)?); //~ E0521
        Ok(())
    })?;
    drop(kept);
    Ok(())
}

fn output(capture: &StreamGraphCapture<'_>, pool: &GraphPool) -> CudaResult<()> {
    let scratch = capture.alloc_scratch::<u32>(pool, 4)?;
    let _ = scratch.into_output(); //~ E0599
    Ok(())
}

fn main() {}
