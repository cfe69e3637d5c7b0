//! A capture ends once: a second end would end whatever capture the stream is in by then.

use grapture::{CudaResult, StreamGraphCapture};

fn end_twice(capture: StreamGraphCapture<'_>) -> CudaResult<()> {
    capture.end()?;
    capture.end()?; //~ E0382
    Ok(())
}

fn main() {}
