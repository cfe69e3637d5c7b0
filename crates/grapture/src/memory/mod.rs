//! Device memory: buffers, views of them, copies and fills.

mod allocation;
mod between;
mod buffer;
mod copy;
mod copy_2d;
mod fill;
mod graph_pool;
mod in_graph;
mod launch_memory;
mod launching;
mod methods;
mod ordered;
mod pool;
mod slice;
mod slot;
mod temporary;
mod view;

pub(crate) use allocation::{BufferInner, GraphMemory};
pub(crate) use between::of_its_context_alone;
pub use buffer::DeviceBuffer;
pub(crate) use copy::{freeze, same_len};
pub use copy_2d::Region2d;
pub(crate) use fill::Unit;
pub(crate) use graph_pool::{Embedding, Parts, PoolUse};
pub use graph_pool::{GraphPool, Scratch};
pub(crate) use in_graph::not_in_capture;
pub(crate) use launch_memory::LaunchMemory;
pub(crate) use launching::{AtLaunch, Launching};
pub use pool::{MemoryPool, PoolUsage};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub(crate) use slice::{RawSlice, resolve, sealed, size_of_elements};
pub use slot::{BufferSlot, BufferSlotMut};
pub use temporary::{GraphOutput, Temporary};
pub use view::{DeviceView, DeviceViewMut};
