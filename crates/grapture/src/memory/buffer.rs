//! [`DeviceBuffer`]: an owned piece of device memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUdeviceptr;

use crate::capture::escape;
use crate::context::Context;
use crate::error::CudaResult;
use crate::memory::allocation::RawOrigin;
use crate::memory::methods::{device_read_methods, device_whole_methods, device_write_methods};
use crate::memory::slice::{RawSlice, resolve, sealed, size_of_elements};
use crate::memory::view::{DeviceView, DeviceViewMut};
use crate::memory::{BufferInner, DeviceSlice, DeviceSliceMut, copy, fill};
use crate::stream::Stream;

/// Device memory for a number of elements.
///
/// Operations take the stream that they run on. In a capture they become nodes, and the graph
/// keeps the memory alive (O2), also after the buffer is dropped. The device may still use the
/// memory after a call has returned: what orders its uses are streams and events, not borrows.
///
/// Dropping it waits for the work in flight in the context, unless it was allocated
/// [in the order of a stream](DeviceBuffer::alloc_async). No drop breaks a capture (O9).
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// let stream = Stream::new(&context)?;
/// let mut buffer = DeviceBuffer::from_slice(&context, &[1.0f32, 2.0, 3.0, 4.0])?;
/// buffer.view_mut(2..)?.fill(0.5, &stream)?;
/// assert_eq!(buffer.to_vec(&stream)?, [1.0, 2.0, 0.5, 0.5]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct DeviceBuffer<T: Pod> {
    inner: Arc<BufferInner>,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// Room for `len` elements, whose values are whatever the memory holds: every bit pattern is a
    /// valid `T`. With a `len` of 0, nothing is allocated and every operation does nothing.
    ///
    /// May be called while captures are open; it is no part of them.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for a size in bytes that no address space has.
    /// [`OutOfMemory`](crate::CudaError::OutOfMemory).
    #[doc(alias = "cuMemAlloc")]
    pub fn alloc(context: &Context, len: usize) -> CudaResult<DeviceBuffer<T>> {
        let inner = BufferInner::alloc(context, size_of_elements::<T>(len)?)?;
        Ok(DeviceBuffer::of(inner, len))
    }

    /// `len` elements whose bytes are all 0. Blocks until they are.
    ///
    /// It uses a stream of its own, so it waits for no other and may be called while captures are
    /// open. [`alloc`](DeviceBuffer::alloc) and [`fill`](DeviceBuffer::fill) do not block.
    ///
    /// # Errors
    ///
    /// As [`alloc`](DeviceBuffer::alloc).
    pub fn zeroed(context: &Context, len: usize) -> CudaResult<DeviceBuffer<T>> {
        let mut buffer = DeviceBuffer::<T>::alloc(context, len)?;
        on_a_stream(context, |stream| buffer.fill(T::zeroed(), stream))?;
        Ok(buffer)
    }

    /// A copy of `elements`. Blocks until it is made, as [`zeroed`](DeviceBuffer::zeroed) does.
    ///
    /// # Errors
    ///
    /// As [`alloc`](DeviceBuffer::alloc).
    pub fn from_slice(context: &Context, elements: &[T]) -> CudaResult<DeviceBuffer<T>> {
        let mut buffer = DeviceBuffer::alloc(context, elements.len())?;
        on_a_stream(context, |stream| buffer.copy_from_host(elements, stream))?;
        Ok(buffer)
    }

    /// Room for `len` elements, allocated in the order of the stream: work that is submitted to it
    /// later can use them, and on other streams this library has the first use wait for that.
    /// Does not block. The drop releases the memory in the same order, after the work on other
    /// streams that this library submitted with it, and does not block either. Default streams
    /// cannot use it.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) if the stream captures, or is a default stream, or
    /// for a size that no address space has. [`NotSupported`](crate::CudaError::NotSupported): the
    /// driver is older than 11.2, or the device has no memory pools.
    /// [`OutOfMemory`](crate::CudaError::OutOfMemory).
    #[doc(alias = "cuMemAllocAsync")]
    #[doc(alias = "cuMemFreeAsync")]
    pub fn alloc_async(stream: &Stream, len: usize) -> CudaResult<DeviceBuffer<T>> {
        let inner = BufferInner::alloc_ordered(stream, size_of_elements::<T>(len)?)?;
        Ok(DeviceBuffer::of(inner, len))
    }

    /// Takes over memory that was allocated elsewhere: it is freed by `cuMemFree` with the last
    /// use.
    ///
    /// # Safety
    ///
    /// `address` is that of an allocation by `cuMemAlloc` (or of managed memory) in `context` that
    /// has room for `len` elements and is aligned for them, and nobody else frees it.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for a size in bytes that no address space has.
    pub unsafe fn from_raw(
        context: &Context,
        address: CUdeviceptr,
        len: usize,
    ) -> CudaResult<DeviceBuffer<T>> {
        let bytes = size_of_elements::<T>(len)?;
        // SAFETY: the caller's promise is the one that is asked for.
        let inner = unsafe { BufferInner::from_raw(context, address, bytes, RawOrigin::Owned) };
        Ok(DeviceBuffer::of(inner, len))
    }

    /// Borrows memory that somebody else owns, such as another library's. It is not freed here.
    ///
    /// # Safety
    ///
    /// `address` is that of device memory in `context` with room for `len` elements and aligned
    /// for them. It outlives the buffer, all work that was submitted with it, and every graph that
    /// uses it.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for a size in bytes that no address space has.
    pub unsafe fn borrow_raw(
        context: &Context,
        address: CUdeviceptr,
        len: usize,
    ) -> CudaResult<DeviceBuffer<T>> {
        let bytes = size_of_elements::<T>(len)?;
        // SAFETY: the caller's promise is the one that is asked for.
        let inner = unsafe { BufferInner::from_raw(context, address, bytes, RawOrigin::Borrowed) };
        Ok(DeviceBuffer::of(inner, len))
    }

    pub(super) fn of(inner: BufferInner, len: usize) -> DeviceBuffer<T> {
        DeviceBuffer { inner: Arc::new(inner), len, _elements: PhantomData }
    }
}

device_whole_methods!(impl DeviceBuffer<T>);
device_read_methods!(impl DeviceBuffer<T>);
device_write_methods!(impl DeviceBuffer<T>);

impl<T: Pod> sealed::Sealed for DeviceBuffer<T> {}

impl<T: Pod> DeviceSlice<T> for DeviceBuffer<T> {
    #[inline]
    fn raw(&self) -> RawSlice<'_> {
        let address = self.inner.address();
        RawSlice { address, bytes: self.inner.bytes(), owner: &self.inner }
    }
}

impl<T: Pod> DeviceSliceMut<T> for DeviceBuffer<T> {}

/// Runs `work` on a new stream, and waits for it. The thread may have a capture open that bars
/// making a stream and waiting for it (O9), and that the work is not meant for.
fn on_a_stream(context: &Context, work: impl FnOnce(&Stream) -> CudaResult<()>) -> CudaResult<()> {
    escape::ignored(|| {
        context.driver().relaxed(|_| {
            let stream = Stream::new(context)?;
            work(&stream)?;
            stream.wait()
        })
    })
}

impl<T: Pod> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer").field("memory", &self.inner).field("len", &self.len).finish()
    }
}
