//! The kernel of a launch is there when it is submitted.

use grapture::{CudaResult, Module, Stream};

fn forget(module: &Module, stream: &Stream) -> CudaResult<()> {
    let launch = module.kernel("add")?.launch_builder(1, 1); //~ E0716
    // SAFETY: none.
    unsafe { launch.launch(stream) }
}

fn main() {}
