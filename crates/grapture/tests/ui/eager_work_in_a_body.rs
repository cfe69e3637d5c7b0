//! No eager work can be marked in the body of a conditional node.

use grapture::{CudaResult, SegmentCapture, WordCondition};

fn record(capture: &mut SegmentCapture<'_, '_>, condition: &WordCondition) -> CudaResult<()> {
    capture.capture()?.if_(condition, |_| capture.eager(|_| Ok(()))) //~ E0500
}

fn main() {}
