//! Memory of a graph cannot be kept beyond the capture that allocates it.

use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, CudaResult, Graph, Stream, StreamGraphCapture,
    Temporary,
};

fn keep(stream: &Stream) -> CudaResult<()> {
    let mut kept: Option<Temporary<'_, u32>> = None;
    stream.capture(CaptureMode::Relaxed, |capture| {
        kept = Some(capture.alloc_temporary(4)?); //~ E0521
        Ok(())
    })?;
    drop(kept);
    Ok(())
}

fn end_first(stream: &Stream) -> CudaResult<Graph> {
    let capture = StreamGraphCapture::begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let mut temporary = capture.alloc_temporary::<u32>(4)?;
    let graph = capture.end_graph()?; //~ E0505
    temporary.fill(1, stream)?;
    Ok(graph)
}

fn main() {}
