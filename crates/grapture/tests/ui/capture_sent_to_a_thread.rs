//! Another thread may not end a capture: in two of the three modes the driver refuses it, and the
//! stream would stay in the capture.

use grapture::{CudaResult, StreamGraphCapture};

fn end_elsewhere(capture: StreamGraphCapture<'_>) -> CudaResult<()> {
    std::thread::scope(|scope| scope.spawn(move || capture.end().map(drop)).join().unwrap()) //~ E0277
}

fn main() {}
