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

pub(crate) use allocation::{BufferInner, GraphMemory};
pub use buffer::DeviceBuffer;
pub(crate) use copy::{freeze, same_len};
pub use copy_2d::Region2d;
pub(crate) use fill::Unit;
pub use slice::{DeviceSlice, DeviceSliceMut};
pub(crate) use slice::{RawSlice, resolve, sealed, size_of_elements};
pub use view::{DeviceView, DeviceViewMut};
