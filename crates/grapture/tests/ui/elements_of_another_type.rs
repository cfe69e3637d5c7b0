//! A copy does not reinterpret elements.

use grapture::{CudaResult, DeviceBuffer, Stream};

fn copy(target: &mut DeviceBuffer<f32>, source: &DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
    target.copy_from(source, stream)?; //~ E0277
    target.copy_from_host(&[1u32], stream) //~ E0308
}

fn main() {}
