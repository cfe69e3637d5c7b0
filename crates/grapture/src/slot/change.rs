//! [`SlotValue`]: what a slot can be set to.

use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUdeviceptr};
use smallvec::SmallVec;

use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};
use crate::memory::{
    BufferInner, BufferSlot, BufferSlotMut, DeviceSlice, DeviceSliceMut, RawSlice,
};
use crate::slot::{Identity, Slot};

/// What the slot `S` can be set to: a [`Slot`] to a value of its type, a [`BufferSlot`] to
/// a reference to device memory, a [`BufferSlotMut`] to a mutable one. No other type can implement it.
pub trait SlotValue<S: ?Sized>: sealed::Sealed<S> {
    /// Lends the change to who makes it, or keeps it.
    #[doc(hidden)]
    fn with<R>(
        self,
        slot: &S,
        change: impl FnOnce(SlotChange<'_>) -> CudaResult<R>,
    ) -> CudaResult<R>;
}

mod sealed {
    pub trait Sealed<S: ?Sized> {}
}

/// A slot, and what it is to be set to, which is lent: to set a slot counts no owner and makes no
/// copy.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct SlotChange<'a> {
    pub(crate) slot: Identity,
    pub(crate) value: Written<'a>,
}

impl<'a> SlotChange<'a> {
    pub(crate) fn of(slot: Identity, value: Written<'a>) -> SlotChange<'a> {
        SlotChange { slot, value }
    }
}

/// What is written where a slot is used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written<'a> {
    /// The bytes of a value.
    Bytes(&'a [u8]),
    /// Device memory.
    Memory(RawSlice<'a>),
}

/// What a slot is, or is to be, set to.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The bytes of a value.
    Bytes(SmallVec<[u8; 16]>),
    /// Device memory.
    Memory(Bound),
}

/// The memory of a slot.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) owner: Arc<BufferInner>,
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
}

impl Value {
    pub(crate) fn of<T: Pod>(value: &T) -> Value {
        Value::Bytes(SmallVec::from_slice(bytemuck::bytes_of(value)))
    }

    /// The value, lent.
    pub(crate) fn written(&self) -> Written<'_> {
        match self {
            Value::Bytes(bytes) => Written::Bytes(bytes),
            Value::Memory(Bound { owner, address, bytes }) => {
                Written::Memory(RawSlice { owner, address: *address, bytes: *bytes })
            }
        }
    }
}

impl From<Written<'_>> for Value {
    fn from(written: Written<'_>) -> Value {
        match written {
            Written::Bytes(bytes) => Value::Bytes(SmallVec::from_slice(bytes)),
            Written::Memory(raw) => Value::Memory(Bound::of(raw)),
        }
    }
}

impl Bound {
    pub(crate) fn of(raw: RawSlice<'_>) -> Bound {
        Bound { owner: raw.owner.clone(), address: raw.address, bytes: raw.bytes }
    }
}

impl<T: Pod> sealed::Sealed<Slot<T>> for T {}

impl<T: Pod> SlotValue<Slot<T>> for T {
    #[inline]
    fn with<R>(
        self,
        slot: &Slot<T>,
        change: impl FnOnce(SlotChange<'_>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        slot.check(&self)?;
        let value = Written::Bytes(bytemuck::bytes_of(&self));
        change(SlotChange { slot: slot.identity(), value })
    }
}

macro_rules! dimensions {
    ($($from:ty),*) => {$(
        impl sealed::Sealed<Slot<Dim3>> for $from {}

        impl SlotValue<Slot<Dim3>> for $from {
            fn with<R>(
                self,
                slot: &Slot<Dim3>,
                change: impl FnOnce(SlotChange<'_>) -> CudaResult<R>,
            ) -> CudaResult<R> {
                Dim3::from(self).with(slot, change)
            }
        }
    )*};
}

dimensions!(u32, (u32, u32), (u32, u32, u32));

impl<T: Pod, M: DeviceSlice<T> + ?Sized> sealed::Sealed<BufferSlot<T>> for &M {}

impl<T: Pod, M: DeviceSlice<T> + ?Sized> SlotValue<BufferSlot<T>> for &M {
    #[inline]
    fn with<R>(
        self,
        slot: &BufferSlot<T>,
        change: impl FnOnce(SlotChange<'_>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        change(bind::<T>(slot.identity(), slot.len(), self.raw())?)
    }
}

impl<T: Pod, M: DeviceSliceMut<T> + ?Sized> sealed::Sealed<BufferSlotMut<T>> for &mut M {}

impl<T: Pod, M: DeviceSliceMut<T> + ?Sized> SlotValue<BufferSlotMut<T>> for &mut M {
    #[inline]
    fn with<R>(
        self,
        slot: &BufferSlotMut<T>,
        change: impl FnOnce(SlotChange<'_>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        change(bind::<T>(slot.identity(), slot.len(), DeviceSlice::<T>::raw(&*self))?)
    }
}

#[inline]
fn bind<T>(slot: Identity, len: usize, raw: RawSlice<'_>) -> CudaResult<SlotChange<'_>> {
    let given = raw.bytes / size_of::<T>().max(1);
    if given != len {
        return Err(other_length(slot, len, given));
    }
    if !raw.owner.is_plain() {
        unfit_memory(raw.owner).map_or(Ok(()), Err)?;
        // Launches may be on any stream, and what it was allocated in the order of is one of them.
        raw.owner.wait_until_ready()?;
    }
    Ok(SlotChange { slot, value: Written::Memory(raw) })
}

#[cold]
fn other_length(slot: Identity, len: usize, given: usize) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "slot.len",
        format!(
            "{slot} has {len} elements, and the memory {given}: take a view of the longer one, or \
             make the slot with memory of that length"
        ),
    )
}

/// Refuses memory that is there only while its own graph runs.
#[cold]
pub(crate) fn unfit_memory(memory: &BufferInner) -> Option<CudaError> {
    let of_a_graph = memory.graph_memory().is_some() || memory.launch_memory().is_some();
    of_a_graph.then(|| {
        CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            "slot",
            "a graph allocates the memory, and it is there only while that graph runs: a slot takes \
             buffers and views of them",
        )
    })
}
