//! Two views that can be written have no element in common: `split_at_mut` makes such.

use grapture::{CudaResult, DeviceBuffer};

fn overlap(memory: &mut DeviceBuffer<u32>) -> CudaResult<usize> {
    let one = memory.view_mut(..3)?;
    let two = memory.view_mut(2..)?; //~ E0499
    Ok(one.len() + two.len())
}

fn main() {}
