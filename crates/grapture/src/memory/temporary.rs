//! [`Temporary`] and [`GraphOutput`]: memory that a captured graph allocates when it runs.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{CUDA_ERROR_NOT_SUPPORTED, CUdeviceptr};

use crate::capture::StreamGraphCapture;
use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::launch_memory::LaunchMemory;
use crate::memory::methods::{device_read_methods, device_whole_methods, device_write_methods};
use crate::memory::slice::{RawSlice, resolve, sealed, size_of_elements};
use crate::memory::view::{DeviceView, DeviceViewMut};
use crate::memory::{BufferInner, DeviceBuffer, DeviceSlice, DeviceSliceMut, copy, fill};
use crate::stream::Stream;
use crate::tell::contained;

/// Device memory that lives within a graph: each launch allocates it, and frees it again where
/// this handle is dropped in the capture. It cannot leave the capture.
///
/// It can be used on every stream of the capture, and is freed after all uses, on the stream that
/// began the capture. Launches share the memory with whatever the driver's graphs need besides.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// # let input = DeviceBuffer::from_slice(&context, &[1u32, 2, 3, 4])?;
/// # let mut output = DeviceBuffer::<u32>::zeroed(&context, 4)?;
/// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
///     let mut scratch = capture.alloc_temporary::<u32>(4)?;
///     scratch.copy_from(&input, &stream)?;
///     scratch.view_mut(..2)?.fill(9, &stream)?;
///     output.copy_from(&scratch, &stream)
/// })?; // four nodes of work and the release
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(output.to_vec(&stream)?, [9, 9, 3, 4]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Temporary<'c, T: Pod> {
    inner: Arc<BufferInner>,
    len: usize,
    /// Whether the drop is to free it.
    owned: bool,
    _capture: PhantomData<&'c StreamGraphCapture<'c>>,
    _elements: PhantomData<T>,
}

/// What each launch of a graph leaves of one of its allocations: [`Temporary::into_output`].
///
/// [`take`](GraphOutput::take) gives it as a buffer. Each launch allocates it anew at the same
/// address, so before the next launch it must be taken and dropped, or be given up: an executable
/// with [`AUTO_FREE_ON_LAUNCH`](crate::InstantiateFlags::AUTO_FREE_ON_LAUNCH) frees what was not
/// taken, and so does every executable once this handle is dropped. What the last launch has left
/// is freed with the last of graph, executable and handle.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let mut output = None;
/// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
///     let mut sums = capture.alloc_temporary::<u32>(4)?;
///     sums.fill(7, &stream)?;
///     output = Some(sums.into_output());
///     Ok(())
/// })?;
/// let (exec, output) = (graph.instantiate()?, output.unwrap());
/// for _ in 0..3 {
///     exec.launch(&stream)?;
///     let sums: DeviceBuffer<u32> = output.take()?;
///     assert_eq!(sums.to_vec(&stream)?, [7; 4]);
/// }
/// # Ok::<(), CudaError>(())
/// ```
pub struct GraphOutput<T: Pod> {
    /// None: it has no bytes.
    memory: Option<Arc<LaunchMemory>>,
    context: Context,
    len: usize,
    _elements: PhantomData<T>,
}

impl StreamGraphCapture<'_> {
    /// Has the graph allocate room for `len` elements at this place of the stream, for work of this
    /// capture, and free it where the result is dropped. Does not block.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused) for a size in bytes that no address space has.
    /// Moreover in a [capture into a graph](crate::Stream::capture_into).
    /// [`NotSupported`](crate::CudaError::NotSupported): the driver is older than 11.4, or the
    /// device has no memory pools. [`OutOfMemory`](crate::CudaError::OutOfMemory): more than the
    /// device has at all; the memory itself is taken by the launch.
    #[doc(alias = "cuMemAllocAsync")]
    #[doc(alias = "cuMemFreeAsync")]
    #[doc(alias = "cuGraphAddMemAllocNode")]
    #[track_caller]
    pub fn alloc_temporary<T: Pod>(&self, len: usize) -> CudaResult<Temporary<'_, T>> {
        let bytes = size_of_elements::<T>(len)?;
        let log = self.own_log().ok_or_else(into_a_graph)?;
        let inner = BufferInner::alloc_in_graph(log, self.stream(), bytes)?;
        let inner = Arc::new(inner);
        log.note_temporary(&inner);
        let (_capture, _elements) = (PhantomData, PhantomData);
        Ok(Temporary { inner, len, owned: true, _capture, _elements })
    }
}

/// What is captured into a graph that there is must be possible to take out again.
#[cold]
fn into_a_graph() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_NOT_SUPPORTED,
        "capture",
        "it goes into a graph that there is, from which no allocation can be taken out again if \
         it fails: add the memory with `Graph::add_alloc`",
    )
}

impl<T: Pod> Temporary<'_, T> {
    /// Has the graph free it here, as the drop would, which hides a failure.
    ///
    /// # Errors
    ///
    /// As the driver answers. The memory is then released as one that outlives the launch.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn free(mut self) -> CudaResult<()> {
        self.owned = false;
        self.inner.free_in_graph()
    }

    /// Has each launch leave the memory with what it holds then, for the host to take afterwards.
    pub fn into_output(mut self) -> GraphOutput<T> {
        self.owned = false;
        let memory = self.inner.launch_memory().cloned();
        if let Some(memory) = &memory {
            memory.set_claimable(true);
        }
        let context = self.inner.context().clone();
        GraphOutput { memory, context, len: self.len, _elements: PhantomData }
    }
}

impl<T: Pod> Drop for Temporary<'_, T> {
    fn drop(&mut self) {
        if mem::take(&mut self.owned)
            && let Err(error) = self.inner.free_in_graph()
        {
            // A capture that is broken says so itself at its end.
            contained(|| tracing::debug!(%error, "the release of a temporary was not captured"));
        }
    }
}

impl<T: Pod> GraphOutput<T> {
    /// What the last launch leaves, as a buffer in the order of the stream of that launch: uses on
    /// other streams wait for it, and its drop frees it as that of
    /// [`alloc_async`](DeviceBuffer::alloc_async) does. Does not block.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused): there was no launch yet, its result was taken
    /// already, or its stream captures now. As the driver answers.
    pub fn take(&self) -> CudaResult<DeviceBuffer<T>> {
        let inner = match &self.memory {
            Some(memory) => BufferInner::take_from_graph(memory, &self.context)?,
            None => BufferInner::alloc(&self.context, 0)?,
        };
        Ok(DeviceBuffer::of(inner, self.len))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address that every launch allocates; 0 if nothing is allocated. There is memory from a
    /// launch on until that is freed.
    pub fn as_raw(&self) -> CUdeviceptr {
        self.memory.as_ref().map_or(0, |memory| memory.address())
    }
}

impl<T: Pod> Drop for GraphOutput<T> {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.set_claimable(false);
        }
    }
}

device_whole_methods!(impl Temporary<'_, T>);
device_read_methods!(impl Temporary<'_, T>);
device_write_methods!(impl Temporary<'_, T>);

impl<T: Pod> sealed::Sealed for Temporary<'_, T> {}

impl<T: Pod> DeviceSlice<T> for Temporary<'_, T> {
    #[inline]
    fn raw(&self) -> RawSlice<'_> {
        let address = self.inner.address();
        RawSlice { address, bytes: self.inner.bytes(), owner: &self.inner }
    }
}

impl<T: Pod> DeviceSliceMut<T> for Temporary<'_, T> {}

impl<T: Pod> fmt::Debug for Temporary<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Temporary").field("memory", &self.inner).field("len", &self.len).finish()
    }
}

impl<T: Pod> fmt::Debug for GraphOutput<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphOutput({} elements at {:#x})", self.len, self.as_raw())
    }
}
