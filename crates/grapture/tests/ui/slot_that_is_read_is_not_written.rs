//! Memory of a slot that is read is not what a kernel, a copy or a fill writes.

use grapture::{BufferSlot, DeviceBuffer, FillNode, Kernel, Stream};

fn argument(kernel: &Kernel, memory: &mut BufferSlot<u32>) {
    let _ = kernel.launch_builder(1, 1).arg_mut(memory); //~ E0277
}

fn target(memory: &mut BufferSlot<u32>, source: &DeviceBuffer<u32>, stream: &Stream) {
    let _ = memory.copy_from(source, stream); //~ E0599
    let _ = FillNode::new(memory, 1); //~ E0277
}

fn main() {}
