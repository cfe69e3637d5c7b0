//! The ends of a copy do not overlap.

use grapture::{CudaResult, DeviceBuffer, Stream};

fn copy(memory: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
    memory.copy_from(memory, stream) //~ E0502
}

fn main() {}
