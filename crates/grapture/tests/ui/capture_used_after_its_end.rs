//! Nothing is recorded, kept or asked by way of a capture that is over.

use grapture::{CudaResult, StreamGraphCapture};

fn use_after_end(capture: StreamGraphCapture<'_>) -> CudaResult<()> {
    let graph = capture.end_graph()?;
    capture.retain(graph); //~ E0382
    Ok(())
}

fn main() {}
