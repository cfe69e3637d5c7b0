//! The handle that captures is not given away while it does.

use grapture::{CU_STREAM_CAPTURE_MODE_RELAXED, CudaResult, Stream, StreamGraphCapture};

fn drop_first(stream: Stream) -> CudaResult<()> {
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED)?;
    drop(stream); //~ E0505
    capture.end()?;
    Ok(())
}

fn main() {}
