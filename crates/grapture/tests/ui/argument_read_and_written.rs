//! One memory is not both what a kernel reads and what it writes, unless it is given once.

use grapture::{DeviceBuffer, Kernel};

fn both(kernel: &Kernel, memory: &mut DeviceBuffer<u32>) {
    let _ = kernel.launch_builder(1, 1).arg(memory).arg_mut(memory); //~ E0502
}

fn main() {}
