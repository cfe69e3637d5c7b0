//! A capture does not end while scratch of it is there, and another thread has no part in that.

use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CudaResult, Graph, GraphPool, Stream, StreamGraphCapture,
};

fn end_first(stream: &Stream, pool: &GraphPool) -> CudaResult<Graph> {
    let capture = StreamGraphCapture::begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let mut scratch = capture.alloc_scratch::<u32>(pool, 4)?;
    let graph = capture.end_graph()?; //~ E0505
    scratch.fill(1, stream)?;
    Ok(graph)
}

fn send(capture: &StreamGraphCapture<'_>, pool: &GraphPool, side: &Stream) -> CudaResult<()> {
    let mut scratch = capture.alloc_scratch::<u32>(pool, 4)?;
    std::thread::scope(|scope| {
        scope.spawn(|| scratch.fill(1, side)); //~ E0277
    });
    Ok(())
}

fn main() {}
