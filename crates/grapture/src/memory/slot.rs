//! [`BufferSlot`] and [`BufferSlotMut`]: slots that device memory is bound to.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUdeviceptr;

use crate::context::Context;
use crate::error::CudaResult;
use crate::memory::methods::{device_read_methods, device_write_methods};
use crate::memory::slice::sealed;
use crate::memory::{BufferInner, DeviceSlice, DeviceSliceMut, RawSlice, copy, fill};
use crate::slot::Identity;
use crate::stream::Stream;

/// Device memory that a graph reads, and that an executable can be given other memory in the place
/// of: by [`GraphExec::set`](crate::GraphExec::set), of the same length.
///
/// Launches take it by [`arg`](crate::LaunchBuilder::arg), copies as their source. It keeps the
/// memory alive that it was made with, and outside of a capture it is that memory. A clone is the
/// same slot.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let (a, b) = (DeviceBuffer::from_slice(&context, &[1u32])?, DeviceBuffer::from_slice(&context, &[2])?);
/// let mut out = DeviceBuffer::<u32>::zeroed(&context, 1)?;
/// let input = BufferSlot::new(&a);
/// let graph = stream.capture(CaptureMode::ThreadLocal, |_| out.copy_from(&input, &stream))?;
/// let mut exec = graph.instantiate()?;
/// exec.set(&input, &b)?;
/// drop(b);
/// exec.launch(&stream)?;
/// assert_eq!(out.to_vec(&stream)?, [2]);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone)]
pub struct BufferSlot<T: Pod> {
    inner: Arc<BufferInner>,
    bound: SlotMemory,
    len: usize,
    _elements: PhantomData<T>,
}

/// Device memory that a graph writes, or reads and writes; else as [`BufferSlot`]. Launches take it
/// by [`arg_mut`](crate::LaunchBuilder::arg_mut), copies and fills as their target.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let mut a = DeviceBuffer::<u32>::zeroed(&context, 2)?;
/// let mut b = DeviceBuffer::<u32>::zeroed(&context, 2)?;
/// let mut out = BufferSlotMut::new(&mut a);
/// let mut graph = Graph::new(&context)?;
/// graph.add_fill(FillNode::new(&mut out, 7)?, &[])?;
/// let mut exec = graph.instantiate()?;
/// exec.set(&out, &mut b)?;
/// exec.launch(&stream)?;
/// assert_eq!((a.to_vec(&stream)?, b.to_vec(&stream)?), (vec![0, 0], vec![7, 7]));
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone)]
pub struct BufferSlotMut<T: Pod> {
    inner: Arc<BufferInner>,
    bound: SlotMemory,
    len: usize,
    _elements: PhantomData<T>,
}

/// Where the memory begins that a slot was made with, and which slot it is.
#[derive(Clone, Copy)]
struct SlotMemory {
    address: CUdeviceptr,
    bytes: usize,
    identity: Identity,
}

impl SlotMemory {
    #[track_caller]
    fn of<T>(raw: RawSlice<'_>) -> SlotMemory {
        let identity = Identity::new::<T>();
        SlotMemory { address: raw.address, bytes: raw.bytes, identity }
    }
}

impl<T: Pod> BufferSlot<T> {
    /// A new slot, with this memory until it is set to other memory of the same length.
    #[track_caller]
    pub fn new(memory: &(impl DeviceSlice<T> + ?Sized)) -> BufferSlot<T> {
        let raw = memory.raw();
        BufferSlot {
            inner: raw.owner.clone(),
            bound: SlotMemory::of::<T>(raw),
            len: raw.bytes / size_of::<T>().max(1),
            _elements: PhantomData,
        }
    }
}

impl<T: Pod> BufferSlotMut<T> {
    /// A new slot, with this memory until it is set to other memory of the same length.
    #[track_caller]
    pub fn new(memory: &mut (impl DeviceSliceMut<T> + ?Sized)) -> BufferSlotMut<T> {
        let raw = DeviceSlice::<T>::raw(&*memory);
        BufferSlotMut {
            inner: raw.owner.clone(),
            bound: SlotMemory::of::<T>(raw),
            len: raw.bytes / size_of::<T>().max(1),
            _elements: PhantomData,
        }
    }
}

macro_rules! memory_slot {
    ($slot:ident) => {
        device_read_methods!(impl $slot<T>);

        impl<T: Pod> $slot<T> {
            pub(crate) fn identity(&self) -> Identity {
                self.bound.identity
            }
        }

        impl<T: Pod> sealed::Sealed for $slot<T> {}

        impl<T: Pod> DeviceSlice<T> for $slot<T> {
            fn raw(&self) -> RawSlice<'_> {
                let SlotMemory { address, bytes, .. } = self.bound;
                RawSlice { address, bytes, owner: &self.inner }
            }

            fn slot(&self) -> Option<Identity> {
                Some(self.bound.identity)
            }
        }

        impl<T: Pod> PartialEq for $slot<T> {
            /// Whether both are the same slot.
            fn eq(&self, other: &$slot<T>) -> bool {
                self.identity() == other.identity()
            }
        }

        impl<T: Pod> Eq for $slot<T> {}

        impl<T: Pod> fmt::Debug for $slot<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($slot), self.identity())
            }
        }
    };
}

memory_slot!(BufferSlot);
memory_slot!(BufferSlotMut);
device_write_methods!(impl BufferSlotMut<T>);

impl<T: Pod> DeviceSliceMut<T> for BufferSlotMut<T> {}
