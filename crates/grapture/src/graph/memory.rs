//! Memory that a graph's nodes allocate and free.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{
    CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE,
    CUDA_MEM_ALLOC_NODE_PARAMS,
};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::build::Place;
use crate::graph::{Graph, NodeId};
use crate::memory::{
    BufferInner, DeviceSlice, DeviceSliceMut, DeviceView, DeviceViewMut, RawSlice, resolve, sealed,
    size_of_elements,
};
use crate::reclaim::drop_contained;
use crate::retain::Owners;

/// Device memory that a node of a graph allocates, and another one frees: it is there only while
/// the graph runs, and between the two.
///
/// It is used as a [`DeviceBuffer`](crate::DeviceBuffer) is, in nodes that are added to the same
/// graph: each is made to wait for the allocation, and the node that frees it for each of them. In
/// any other place it is refused.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let mut word = DeviceBuffer::<u32>::zeroed(&context, 1)?;
/// let mut graph = Graph::new(&context)?;
/// let mut scratch = graph.add_alloc::<u32>(1024, &[])?;
/// let fill = graph.add_fill(FillNode::new(&mut scratch, 7)?, &[])?;
/// graph.add_copy(CopyNode::device(&mut word, &scratch.view(1023..)?)?, &[fill])?;
/// graph.add_free(&scratch, &[])?;
///
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(word.to_vec(&stream)?, [7]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct GraphBuffer<T: Pod> {
    inner: Arc<BufferInner>,
    node: NodeId,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Pod> GraphBuffer<T> {
    /// The node that allocates it.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements, which is never.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address on the device, which is the same at every launch.
    pub fn as_raw(&self) -> grapture_sys::CUdeviceptr {
        self.inner.address()
    }

    /// A range of the elements, to read.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) for a range that reaches past the end.
    pub fn view(&self, range: impl RangeBounds<usize>) -> CudaResult<DeviceView<'_, T>> {
        let (start, len) = resolve(&range, self.len)?;
        Ok(DeviceView::of(&self.inner, self.inner.address(), self.len).part(start, len))
    }

    /// A range of the elements, to read and write.
    ///
    /// # Errors
    ///
    /// As [`view`](GraphBuffer::view).
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> CudaResult<DeviceViewMut<'_, T>> {
        let (start, len) = resolve(&range, self.len)?;
        let all = DeviceViewMut::of(&self.inner, self.inner.address(), self.len);
        Ok(all.into_part(start, len))
    }
}

impl<T: Pod> sealed::Sealed for GraphBuffer<T> {}

impl<T: Pod> DeviceSlice<T> for GraphBuffer<T> {
    fn raw(&self) -> RawSlice<'_> {
        let (address, bytes) = (self.inner.address(), self.inner.bytes());
        RawSlice { address, bytes, owner: &self.inner }
    }
}

impl<T: Pod> DeviceSliceMut<T> for GraphBuffer<T> {}

impl<T: Pod> fmt::Debug for GraphBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBuffer")
            .field("memory", &self.inner)
            .field("len", &self.len)
            .field("node", &self.node)
            .finish()
    }
}

impl Graph {
    /// Adds a node that allocates memory for `len` elements, after the nodes `after`. A node has
    /// to free it, or the graph cannot be instantiated.
    ///
    /// Such a graph cannot be cloned, nor embedded but by a move; its nodes and dependencies stay;
    /// and it can be instantiated again only when the executable made before is gone.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): no elements, or more than an address space has, or a node
    /// of another graph in `after`. [`NotSupported`](CudaError::NotSupported): the driver is older
    /// than 11.4. [`OutOfMemory`](CudaError::OutOfMemory): the address space is used up.
    #[doc(alias = "cuGraphAddMemAllocNode")]
    #[track_caller]
    pub fn add_alloc<T: Pod>(
        &mut self,
        len: usize,
        after: &[NodeId],
    ) -> CudaResult<GraphBuffer<T>> {
        let inner = self.alloc_memory(size_of_elements::<T>(len)?, after)?;
        // INVARIANT: `alloc_memory` made it so.
        let node = inner.graph_memory().expect("a node of a graph allocates it").allocated_by;
        Ok(GraphBuffer { inner, node, len, _elements: PhantomData })
    }

    /// Adds a node that allocates so many bytes.
    #[track_caller]
    pub(super) fn alloc_memory(
        &mut self,
        bytes: usize,
        after: &[NodeId],
    ) -> CudaResult<Arc<BufferInner>> {
        if bytes == 0 {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "memory.len",
                "it is 0, and no node allocates nothing",
            ));
        }
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: bytes, ..Default::default() };
        params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        params.poolProps.location.__bindgen_anon_1.id = self.context.device().ordinal() as i32;
        let node = self.insert(after, Owners::default(), |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and parameters that the driver reads and fills in
            // the address of.
            check(unsafe {
                (functions.cuGraphAddMemAllocNode)(node, graph, after, count, &mut params)
            })
        })?;
        let inner = Arc::new(BufferInner::of_graph(&self.context, params.dptr, bytes, node));
        let mut owners = Owners::here();
        owners.retain_built_allocation(&inner);
        // A node that was just made has none yet.
        drop_contained(self.share_mut().set(node, owners));
        self.allocations.push(inner.clone());
        Ok(inner)
    }

    /// Adds a node that frees the memory, after the nodes `after` and all that use it. Nothing that
    /// is added later can use it.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): memory of another graph, or that a node frees already, or
    /// a node of another graph in `after`. As the driver answers.
    #[doc(alias = "cuGraphAddMemFreeNode")]
    #[track_caller]
    pub fn add_free<T: Pod>(
        &mut self,
        memory: &GraphBuffer<T>,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        self.free_memory(&memory.inner, after)
    }

    /// Adds a node that frees what [`alloc_memory`](Graph::alloc_memory) gave.
    #[track_caller]
    pub(super) fn free_memory(
        &mut self,
        memory: &BufferInner,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        // INVARIANT: `alloc_memory` made it so.
        let known = memory.graph_memory().expect("a node of a graph allocates it");
        self.require_memory(known)?;
        let mut after = after.to_vec();
        if !self.is_ordered_exactly() {
            after.push(known.allocated_by);
            after.extend(known.users());
        }
        let address = memory.address();
        let node = self.insert(&after, Owners::default(), |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and the address that one of them allocates.
            check(unsafe { (functions.cuGraphAddMemFreeNode)(node, graph, after, count, address) })
        })?;
        known.set_freed();
        Ok(node)
    }

    /// Refuses an allocation that no node frees: it would live on after the launch, and a second
    /// launch would fail.
    #[inline]
    pub(crate) fn require_frees(&self) -> CudaResult<()> {
        if self.allocations.is_empty() { Ok(()) } else { self.require_each_free() }
    }

    #[cold]
    fn require_each_free(&self) -> CudaResult<()> {
        let living = |memory: &&Arc<BufferInner>| {
            memory.graph_memory().is_some_and(|memory| !memory.is_freed())
        };
        let Some(memory) = self.allocations.iter().find(living) else { return Ok(()) };
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            "graph",
            format!(
                "no node frees the {memory:?} that one of its nodes allocates: add one with \
                 `Graph::add_free`"
            ),
        ))
    }
}
