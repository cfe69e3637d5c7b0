//! What a kernel does with its arguments is the caller's promise.

use grapture::{CudaResult, Kernel, Stream};

fn launch(kernel: &Kernel, stream: &Stream) -> CudaResult<()> {
    kernel.launch_builder(1, 1).launch(stream) //~ E0133
}

fn main() {}
