//! Whoever brings a raw handle promises that it is live and whose it is.

use grapture::{Context, CudaResult, DeviceBuffer, Stream};

fn take(context: &Context) -> CudaResult<()> {
    let _ = Stream::from_raw(context, std::ptr::null_mut()); //~ E0133
    let _ = Stream::borrow_raw(context, std::ptr::null_mut()); //~ E0133
    let _ = DeviceBuffer::<u32>::from_raw(context, 0, 1)?; //~ E0133
    let _ = DeviceBuffer::<u32>::borrow_raw(context, 0, 1)?; //~ E0133
    Ok(())
}

fn main() {}
