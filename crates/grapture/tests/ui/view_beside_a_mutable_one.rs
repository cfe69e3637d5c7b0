//! What can be written is not seen by another view meanwhile.

use grapture::{CudaResult, DeviceBuffer, Stream};

fn read_and_write(memory: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
    let all = memory.as_view();
    memory.view_mut(..2)?.copy_from(&all, stream) //~ E0502
}

fn main() {}
