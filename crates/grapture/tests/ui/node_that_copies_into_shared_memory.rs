//! What a node writes is borrowed mutably, and is not what it reads.

use grapture::{CopyNode, CudaResult, DeviceBuffer, FillNode, PinnedBuffer};

fn write_shared(memory: &DeviceBuffer<u32>, pinned: &PinnedBuffer<u32>) -> CudaResult<()> {
    let _ = FillNode::new(memory, 1u32)?; //~ E0308
    let _ = CopyNode::to_pinned(pinned, memory)?; //~ E0308
    Ok(())
}

fn main() {}
