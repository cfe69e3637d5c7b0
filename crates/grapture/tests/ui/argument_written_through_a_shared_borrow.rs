//! What a kernel writes is borrowed mutably, and a view to read is no memory to write.

use grapture::{DeviceBuffer, DeviceView, Kernel};

fn write_shared(kernel: &Kernel, memory: &DeviceBuffer<u32>, mut view: DeviceView<'_, u32>) {
    let _ = kernel.launch_builder(1, 1).arg_mut(memory); //~ E0308
    let _ = kernel.launch_builder(1, 1).arg_mut(&mut view); //~ E0277
}

fn main() {}
