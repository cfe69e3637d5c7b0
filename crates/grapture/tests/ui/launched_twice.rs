//! A launch that was described is submitted once.

use grapture::{CudaResult, Kernel, Stream};

fn launch(kernel: &Kernel, stream: &Stream) -> CudaResult<()> {
    let launch = kernel.launch_builder(1, 1);
    // SAFETY: none.
    unsafe { launch.launch(stream) }?;
    // SAFETY: none.
    unsafe { launch.launch(stream) } //~ E0382
}

fn main() {}
