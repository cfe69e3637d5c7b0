//! Device memory: buffers, views of them, copies and fills.

mod allocation;
mod buffer;
mod copy;
mod copy_2d;
mod fill;
mod in_graph;
mod launch_memory;
mod methods;
mod ordered;
mod slice;
mod temporary;
mod view;

pub(crate) use allocation::{BufferInner, GraphMemory};
pub use buffer::DeviceBuffer;
pub(crate) use copy::{freeze, of_its_context_alone, same_len};
pub use copy_2d::Region2d;
pub(crate) use fill::Unit;
pub(crate) use in_graph::not_in_capture;
pub(crate) use launch_memory::{Allocating, LaunchMemory};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub(crate) use slice::{RawSlice, resolve, sealed, size_of_elements};
pub use temporary::{GraphOutput, Temporary};
pub use view::{DeviceView, DeviceViewMut};
