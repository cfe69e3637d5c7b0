//! Device memory holds plain bytes: of what is copied back, every pattern must be a valid value.

use grapture::{DeviceBuffer, Kernel, PinnedBuffer};

type Flags = Option<DeviceBuffer<bool>>;

fn hold(_: Flags) {} //~ E0277

fn pin(_: PinnedBuffer<&'static u32>) {} //~ E0277

fn pass(kernel: &Kernel, text: &str) {
    let _ = kernel.launch_builder(1, 1).value(text); //~ E0277
    let _ = kernel.launch_builder(1, 1).value(text.as_ptr()); //~ E0277
}

fn main() {}
