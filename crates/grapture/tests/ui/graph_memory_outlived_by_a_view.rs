//! A view of what a node allocates is not kept beyond its handle.

use grapture::{DeviceView, GraphBuffer};

fn keep(memory: GraphBuffer<u32>) -> DeviceView<'static, u32> {
    memory.view(1..).unwrap() //~ E0515
}

fn main() {}
