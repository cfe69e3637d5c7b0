//! Segments can be sent to another thread, so their eager work must be able to go there.

use std::rc::Rc;

use grapture::{CaptureMode, CudaResult, Stream};

fn record(stream: &Stream) -> CudaResult<()> {
    let calls = Rc::new(0);
    stream.capture_segments(CaptureMode::Relaxed, |capture| {
        capture.eager(move |_| { //~ E0277
            let _ = &calls;
            Ok(())
        })
    })?;
    Ok(())
}

fn main() {}
