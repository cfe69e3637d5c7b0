//! What borrows the capture of a piece cannot be held over the eager work that ends it.

use grapture::{CudaResult, SegmentCapture};

fn hold(capture: &mut SegmentCapture<'_, '_>) -> CudaResult<()> {
    let mut temporary = capture.capture()?.alloc_temporary::<u32>(4)?;
    capture.eager(|stream| stream.synchronize())?; //~ E0502
    temporary.fill(1, capture.stream())
}

fn main() {}
