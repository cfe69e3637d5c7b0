//! The host does not write what it reads, and no copy writes what the host reads.

use grapture::{CudaResult, DeviceBuffer, PinnedBuffer, Stream};

fn write(pinned: &mut PinnedBuffer<u32>) -> CudaResult<u32> {
    let read = pinned.read()?;
    pinned.write()?.fill(1); //~ E0502
    Ok(read[0])
}

fn copy(memory: &DeviceBuffer<u32>, pinned: &mut PinnedBuffer<u32>, stream: &Stream) -> CudaResult<u32> {
    let read = pinned.read()?;
    memory.copy_to_pinned(pinned, stream)?; //~ E0502
    Ok(read[0])
}

fn main() {}
