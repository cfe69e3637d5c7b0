//! A kernel that is added to a capture is launched with what it is given: that is the caller's promise.

use grapture::{CudaResult, Kernel, NodeId, StreamGraphCapture};

fn add(capture: &StreamGraphCapture<'_>, kernel: &Kernel) -> CudaResult<NodeId> {
    capture.add_kernel(kernel.launch_builder(1, 1), &[]) //~ E0133
}

fn main() {}
