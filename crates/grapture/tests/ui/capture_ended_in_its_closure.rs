//! The capture of a closure is ended by who began it.

use grapture::{CaptureMode, CudaResult, Graph, Stream};

fn end_inside(stream: &Stream) -> CudaResult<Graph> {
    stream.capture(CaptureMode::Relaxed, |capture| capture.end().map(drop)) //~ E0507
}

fn main() {}
