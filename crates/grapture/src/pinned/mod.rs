//! [`PinnedBuffer`]: page-locked host memory that the device can reach.

mod memory;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::context::Context;
use crate::error::{CudaError, CudaResult};

pub(crate) use memory::PinnedInner;

/// The largest alignment of an element: that of what the driver allocates.
const MAX_ALIGN: usize = 256;

/// Page-locked host memory. Copies between it and the device run in the order of a stream without
/// blocking the host, and a graph can hold them as nodes.
///
/// The host reaches the elements through a guard, [`read`](PinnedBuffer::read) or
/// [`write`](PinnedBuffer::write), which waits until the device is done with them. While a guard
/// is alive, a copy or a graph launch that conflicts with it is refused (O6).
///
/// Dropping it waits for the work in flight that uses it. A graph that uses it keeps it alive.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let input = PinnedBuffer::from_slice(&context, &[1u32, 2, 3])?;
/// let mut output = PinnedBuffer::<u32>::zeroed(&context, 3)?;
/// let mut buffer = DeviceBuffer::<u32>::alloc(&context, 3)?;
/// buffer.copy_from_pinned(&input, &stream)?;
/// buffer.copy_to_pinned(&mut output, &stream)?;
/// assert_eq!(*output.read()?, [1, 2, 3]); // waits for the stream
/// # Ok::<(), CudaError>(())
/// ```
pub struct PinnedBuffer<T: Pod> {
    inner: Arc<PinnedInner>,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Pod> PinnedBuffer<T> {
    const ALIGNED: () = assert!(align_of::<T>() <= MAX_ALIGN, "the alignment is above 256 bytes");

    /// Room for `len` elements, whose values are whatever the memory holds: every bit pattern is a
    /// valid `T`. Blocks while the operating system locks the pages; waits for no stream.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) for a size in bytes that no address space has.
    /// [`OutOfMemory`](CudaError::OutOfMemory).
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cuMemAllocHost")]
    pub fn alloc(context: &Context, len: usize) -> CudaResult<PinnedBuffer<T>> {
        let () = Self::ALIGNED;
        let bytes = size_of::<T>().checked_mul(len).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| too_large(len, size_of::<T>()))?;
        let inner = Arc::new(PinnedInner::alloc(context, bytes)?);
        Ok(PinnedBuffer { inner, len, _elements: PhantomData })
    }

    /// `len` elements whose bytes are all 0. Blocks as [`alloc`](PinnedBuffer::alloc) does.
    ///
    /// # Errors
    ///
    /// As [`alloc`](PinnedBuffer::alloc).
    pub fn zeroed(context: &Context, len: usize) -> CudaResult<PinnedBuffer<T>> {
        let mut buffer = PinnedBuffer::alloc(context, len)?;
        buffer.write()?.fill(T::zeroed());
        Ok(buffer)
    }

    /// A copy of `elements`. Blocks as [`alloc`](PinnedBuffer::alloc) does.
    ///
    /// # Errors
    ///
    /// As [`alloc`](PinnedBuffer::alloc).
    pub fn from_slice(context: &Context, elements: &[T]) -> CudaResult<PinnedBuffer<T>> {
        let mut buffer = PinnedBuffer::alloc(context, elements.len())?;
        buffer.write()?.copy_from_slice(elements);
        Ok(buffer)
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size, in bytes.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The context.
    #[inline]
    pub fn context(&self) -> &Context {
        self.inner.context()
    }

    /// The address. It stays valid as long as the buffer lives; whoever reads or writes through it
    /// answers for what the device does meanwhile.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.inner.pointer().as_ptr().cast()
    }

    /// The elements, to read. Blocks until all submitted work that writes them is done, a launch
    /// of a graph included. Work that writes them is refused until the guard is dropped.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) if such work is on a stream that captures now. An error of
    /// earlier work.
    #[track_caller]
    pub fn read(&self) -> CudaResult<PinnedRead<'_, T>> {
        self.taken(self.inner.host_read(true), "PinnedBuffer::read", Location::caller())?;
        Ok(PinnedRead { buffer: self })
    }

    /// As [`read`](PinnedBuffer::read), without blocking.
    ///
    /// # Errors
    ///
    /// [`NotReady`](CudaError::NotReady) while the work is not done.
    #[track_caller]
    pub fn try_read(&self) -> CudaResult<PinnedRead<'_, T>> {
        self.taken(self.inner.host_read(false), "PinnedBuffer::try_read", Location::caller())?;
        Ok(PinnedRead { buffer: self })
    }

    /// The elements, to write. Blocks until all submitted work that uses them is done, a launch of
    /// a graph included. Work that uses them is refused until the guard is dropped.
    ///
    /// # Errors
    ///
    /// As [`read`](PinnedBuffer::read).
    #[track_caller]
    pub fn write(&mut self) -> CudaResult<PinnedWrite<'_, T>> {
        self.taken(self.inner.host_write(true), "PinnedBuffer::write", Location::caller())?;
        Ok(PinnedWrite { buffer: self })
    }

    /// As [`write`](PinnedBuffer::write), without blocking.
    ///
    /// # Errors
    ///
    /// As [`try_read`](PinnedBuffer::try_read).
    #[track_caller]
    pub fn try_write(&mut self) -> CudaResult<PinnedWrite<'_, T>> {
        self.taken(self.inner.host_write(false), "PinnedBuffer::try_write", Location::caller())?;
        Ok(PinnedWrite { buffer: self })
    }

    /// The result of waiting for the device, with its failure taken down.
    fn taken(
        &self,
        result: CudaResult<()>,
        function: &'static str,
        location: &'static Location<'static>,
    ) -> CudaResult<()> {
        result.map_err(|error| self.context().failed(error, function, location))
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<PinnedInner> {
        &self.inner
    }
}

#[cold]
fn too_large(len: usize, element_bytes: usize) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "pinned.len",
        format!("{len} elements of {element_bytes} bytes are more than an address space has"),
    )
}

impl<T: Pod> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The elements of a [`PinnedBuffer`], for the host to read.
#[must_use = "the elements are the host's as long as it lives"]
pub struct PinnedRead<'a, T: Pod> {
    buffer: &'a PinnedBuffer<T>,
}

impl<T: Pod> Deref for PinnedRead<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the allocation has room for `len` elements (`alloc` computed its size) and is
        // aligned for them (`ALIGNED`); every bit pattern is a `T`. Nobody writes it: the device
        // does not while the guard is counted (O6), and the host cannot, since the buffer is
        // borrowed.
        unsafe { slice::from_raw_parts(self.buffer.as_ptr(), self.buffer.len) }
    }
}

impl<T: Pod> Drop for PinnedRead<'_, T> {
    fn drop(&mut self) {
        self.buffer.inner.host_read_done();
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for PinnedRead<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The elements of a [`PinnedBuffer`], for the host to read and write.
#[must_use = "the elements are the host's as long as it lives"]
pub struct PinnedWrite<'a, T: Pod> {
    buffer: &'a mut PinnedBuffer<T>,
}

impl<T: Pod> Deref for PinnedWrite<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: as for `PinnedRead`.
        unsafe { slice::from_raw_parts(self.buffer.as_ptr(), self.buffer.len) }
    }
}

impl<T: Pod> DerefMut for PinnedWrite<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `PinnedRead`; moreover nobody else reads it: the device does not while
        // the guard is noted (O6), and the host cannot, since the buffer is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.buffer.as_ptr(), self.buffer.len) }
    }
}

impl<T: Pod> Drop for PinnedWrite<'_, T> {
    fn drop(&mut self) {
        self.buffer.inner.host_write_done();
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for PinnedWrite<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
