//! Segments do not outlive what their eager work borrows.

use grapture::{CaptureMode, CudaResult, Stream};

fn launch(stream: &Stream) -> CudaResult<()> {
    let mut segments;
    {
        let factor = 2;
        let borrowed = &factor; //~ E0597
        segments = stream.capture_segments(CaptureMode::Relaxed, |capture| {
            capture.eager(move |_| Ok(drop(borrowed + 1)))
        })?;
    }
    segments.launch(stream)
}

fn main() {}
