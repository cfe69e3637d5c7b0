//! A capture into a graph has the graph for itself: the driver allows no other call meanwhile.

use grapture::{CaptureMode, CudaResult, Graph, Stream};

fn launch_inside(stream: &Stream, mut graph: Graph) -> CudaResult<()> {
    let mode = CaptureMode::Relaxed;
    stream.capture_into(&mut graph, &[], mode, |_| graph.instantiate().map(drop))?; //~ E0502
    Ok(())
}

fn main() {}
