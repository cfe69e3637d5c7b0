//! [`Scratch`]: memory of a pool, within a capture.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::CUdeviceptr;

use crate::capture::StreamGraphCapture;
use crate::context::Context;
use crate::error::CudaResult;
use crate::memory::graph_pool::GraphPool;
use crate::memory::methods::{device_read_methods, device_whole_methods, device_write_methods};
use crate::memory::slice::{RawSlice, resolve, sealed, size_of_elements};
use crate::memory::view::{DeviceView, DeviceViewMut};
use crate::memory::{BufferInner, DeviceSlice, DeviceSliceMut, copy, fill};
use crate::stream::{Stream, other_context_than};

/// Device memory of a [`GraphPool`] for work of one capture. It cannot leave the capture, and where
/// it is dropped its memory is there for what the capture allocates later.
///
/// It can be used on every stream of the capture, and in the bodies of conditional nodes. A stream
/// that uses memory which another stream has used before it was dropped waits for that one, at the
/// first use. It holds whatever the memory held: also other graphs write there.
///
/// No node allocates or frees it: the graph can be cloned, embedded and updated as any other.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// # let input = DeviceBuffer::from_slice(&context, &[1u32, 2, 3, 4])?;
/// # let mut output = DeviceBuffer::<u32>::zeroed(&context, 4)?;
/// let pool = GraphPool::new(&context);
/// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
///     let mut scratch = capture.alloc_scratch::<u32>(&pool, 4)?;
///     scratch.copy_from(&input, &stream)?;
///     scratch.view_mut(..2)?.fill(9, &stream)?;
///     output.copy_from(&scratch, &stream)
/// })?; // three nodes
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(output.to_vec(&stream)?, [9, 9, 3, 4]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Scratch<'c, T: Pod> {
    inner: Arc<BufferInner>,
    len: usize,
    _capture: PhantomData<&'c StreamGraphCapture<'c>>,
    _elements: PhantomData<T>,
}

impl StreamGraphCapture<'_> {
    /// Takes room for `len` elements from a pool, for work that this capture records from now on,
    /// and gives it back for other such work where the result is dropped. Records nothing. Where
    /// the pool has too little it takes more of the device, once.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused): a pool of another context, a pool that is to take
    /// no more, a size that no address space has, or a capture
    /// [into a graph](crate::Stream::capture_into).
    /// [`OutOfMemory`](crate::CudaError::OutOfMemory).
    #[track_caller]
    pub fn alloc_scratch<T: Pod>(
        &self,
        pool: &GraphPool,
        len: usize,
    ) -> CudaResult<Scratch<'_, T>> {
        let bytes = size_of_elements::<T>(len)?;
        let context = self.stream().context();
        if !context.same(pool.context()) {
            return Err(other_context_than("pool", "capture"));
        }
        let inner = if bytes == 0 {
            BufferInner::alloc(context, 0)?
        } else {
            let (log, location) = (self.log(), Location::caller());
            let (address, piece) = pool.inner.alloc(log, self.stream(), bytes, location)?;
            BufferInner::of_pool(context, address, bytes, piece)
        };
        let inner = Arc::new(inner);
        if bytes > 0 {
            self.log().note_temporary(&inner);
        }
        let (_capture, _elements) = (PhantomData, PhantomData);
        Ok(Scratch { inner, len, _capture, _elements })
    }
}

device_whole_methods!(impl Scratch<'_, T>);
device_read_methods!(impl Scratch<'_, T>);
device_write_methods!(impl Scratch<'_, T>);

impl<T: Pod> sealed::Sealed for Scratch<'_, T> {}

impl<T: Pod> DeviceSlice<T> for Scratch<'_, T> {
    #[inline]
    fn raw(&self) -> RawSlice<'_> {
        let address = self.inner.address();
        RawSlice { address, bytes: self.inner.bytes(), owner: &self.inner }
    }
}

impl<T: Pod> DeviceSliceMut<T> for Scratch<'_, T> {}

impl<T: Pod> fmt::Debug for Scratch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("memory", &self.inner).field("len", &self.len).finish()
    }
}
