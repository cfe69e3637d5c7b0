//! A temporary is freed by the thread of its capture; other threads get views of it.

use grapture::{CudaResult, Stream, StreamGraphCapture};

fn send(capture: &StreamGraphCapture<'_>, side: &Stream) -> CudaResult<()> {
    let mut temporary = capture.alloc_temporary::<u32>(4)?;
    std::thread::scope(|scope| {
        scope.spawn(|| temporary.fill(1, side)); //~ E0277
    });
    let mut view = temporary.as_view_mut();
    std::thread::scope(|scope| {
        scope.spawn(|| view.fill(1, side));
    });
    Ok(())
}

fn main() {}
