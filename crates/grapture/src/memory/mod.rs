//! Device memory: buffers, views of them, copies and fills.

mod allocation;
mod buffer;
mod copy;
mod copy_2d;
mod fill;
mod methods;
mod ordered;
mod slice;
mod view;

pub(crate) use allocation::BufferInner;
pub use buffer::DeviceBuffer;
pub use copy_2d::Region2d;
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use view::{DeviceView, DeviceViewMut};
