//! A stream is not destroyed while it captures.

use grapture::{CU_STREAM_CAPTURE_MODE_RELAXED, Context, CudaResult, Stream, StreamGraphCapture};

fn outlive(context: &Context) -> CudaResult<()> {
    let capture = {
        let stream = Stream::new(context)?;
        StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED)? //~ E0597
    };
    capture.end()?;
    Ok(())
}

fn main() {}
