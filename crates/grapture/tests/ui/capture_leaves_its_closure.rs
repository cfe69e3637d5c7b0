//! The capture of a closure ends with the closure: it cannot be kept for later.

use grapture::{CaptureMode, CudaResult, Stream, StreamGraphCapture};

fn keep(stream: &Stream) -> CudaResult<()> {
    let mut kept: Option<&StreamGraphCapture<'_>> = None;
    stream.capture(CaptureMode::Relaxed, |capture| {
        kept = Some(capture); //~ E0521
        Ok(())
    })?;
    kept.unwrap().retain(1);
    Ok(())
}

fn main() {}
