//! A view is of memory that is there.

use grapture::{Context, CudaResult, DeviceBuffer, DeviceView, Stream};

fn view_nothing(context: &Context) -> CudaResult<DeviceView<'static, u32>> {
    let memory = DeviceBuffer::<u32>::alloc(context, 4)?;
    memory.view(1..) //~ E0515
}

fn drop_first(memory: DeviceBuffer<u32>, stream: &Stream) -> CudaResult<Vec<u32>> {
    let view = memory.as_view();
    drop(memory); //~ E0505
    view.to_vec(stream)
}

fn main() {}
