//! The memory of the arguments is there when the launch is submitted.

use grapture::{CudaResult, DeviceBuffer, Kernel, Stream};

fn move_first(kernel: &Kernel, memory: DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
    let launch = kernel.launch_builder(1, 1).arg(&memory);
    drop(memory); //~ E0505
    // SAFETY: none.
    unsafe { launch.launch(stream) }
}

fn main() {}
