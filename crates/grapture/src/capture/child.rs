//! A graph as one node of a capture.

use std::ptr;

use grapture_sys::{
    CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CU_GRAPH_NODE_TYPE_GRAPH,
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_SET_CAPTURE_DEPENDENCIES,
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_HANDLE,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUgraph,
    CUgraphNode, CUgraphNodeParams, Function, Functions,
};

use crate::capture::StreamGraphCapture;
use crate::capture::info::RawInfo;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::{Graph, embedded};
use crate::memory::Embedding;
use crate::operation::{Operation, OperationKind};
use crate::retain::Owners;
use crate::stream::Stream;
use crate::tell::contained;

impl StreamGraphCapture<'_> {
    /// Adds a graph to the capture as one node, at this place of the stream, as
    /// [`Graph::embed`] does for any stream of the capture.
    ///
    /// # Errors
    ///
    /// As [`Graph::embed`].
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[track_caller]
    pub fn embed(&self, graph: &Graph) -> CudaResult<()> {
        graph.embed(self.stream())
    }
}

impl Graph {
    /// Adds the graph, as it is now, to the capture that records `stream`, as one node at this
    /// place of the stream. It is what a launch would be, which no capture can record.
    ///
    /// The node is a copy: this graph can be used and dropped as before. What its nodes use is
    /// kept alive by the new graph too.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let part = stream.capture(CaptureMode::ThreadLocal, |_| words.view_mut(..1)?.fill(1, &stream))?;
    /// let whole = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.embed(&part)?;
    ///     words.view_mut(1..)?.fill(2, &stream)
    /// })?;
    /// drop(part);
    /// whole.instantiate()?.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [1, 2]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and the capture stays valid: the stream does not capture,
    /// or another thread began the capture, or the graph belongs to another driver or allocates
    /// memory. [`NotSupported`](CudaError::NotSupported): the driver is older than 11.3.
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[track_caller]
    pub fn embed(&self, stream: &Stream) -> CudaResult<()> {
        if !self.context().driver().same(stream.driver()) {
            return Err(other_driver());
        }
        let log = stream.capture_log().ok_or_else(no_capture)?;
        self.refuse_memory_nodes(
            "it cannot be copied into a capture: move it there with `Graph::embed_moved`, give it \
             scratch of a `GraphPool` instead, or launch it by itself",
        )?;
        if !stream.driver().has(Function::cuStreamUpdateCaptureDependencies) {
            return Err(CudaError::NotSupported);
        }
        let notes = self.inner_notes()?;
        let embedding = Embedding::prepare(self.share().pools(), stream)?;
        let names = log.names().ok_or_else(no_capture)?;
        let mut slotted = Owners::here();
        let slots = self.slots_to_embed(&mut slotted);
        log.record_alone(
            stream,
            Operation::new(OperationKind::ChildGraph),
            |owners| {
                owners.retain_graph(self.share().clone());
                owners.append(&mut slotted);
            },
            || {
                let node = add(self, stream)?;
                // SAFETY: the child graph node that was just made, in a capture that nobody else
                // submits to now.
                let inner = || unsafe { embedded(self.context().functions(), node) };
                slots.place(self, names.id(node), inner).inspect_err(|_| invalidate(stream))
            },
        )
        .ok_or_else(other_thread)??;
        embedding.made();
        if let Some(notes) = notes {
            log.mark(|next, marks| marks.add_child(next, notes));
        }
        Ok(())
    }
}

/// Adds a node by `add` and makes it what the stream's next operation depends on. Nothing else is
/// submitted to the capture meanwhile. What `add` is told is that of an active capture, and good
/// until it makes a call on that, other than the one that adds the node.
pub(super) fn add_with(
    stream: &Stream,
    add: impl FnOnce(&Functions, &RawInfo) -> CudaResult<CUgraphNode>,
) -> CudaResult<CUgraphNode> {
    let info = stream.raw_capture_info().unwrap_or(Err(CudaError::NotSupported))?;
    if info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE {
        return Err(CudaError::from(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    }
    let mut node = add(stream.context().functions(), &info)?;
    stream
        // SAFETY: a live stream, and a node of its capture.
        .with(|functions, raw| unsafe { set_dependency(functions, raw, &mut node) })
        .inspect_err(|_| invalidate(stream))?;
    Ok(node)
}

/// Adds a copy of the graph.
fn add(graph: &Graph, stream: &Stream) -> CudaResult<CUgraphNode> {
    add_with(stream, |functions, info| {
        // SAFETY: the handle and the arrays are valid until the next call on the capture, and this
        // thread, which began it, makes none before; other threads wait. Both graphs are live, and
        // nobody else uses the embedded one (not `Sync`). What its nodes use is retained (O2).
        unsafe { add_child(functions, info, graph.as_raw()) }
    })
}

/// Has the driver invalidate the stream's capture: a node of it, which cannot be taken out again
/// (measured), would run in no order with the stream, and what it uses is not kept.
pub(super) fn invalidate(stream: &Stream) {
    // SAFETY: a live stream. Measured: the call fails and invalidates the capture.
    let asked = stream.with(|functions, raw| unsafe { (functions.cuStreamQuery)(raw) });
    contained(|| {
        tracing::debug!(?asked, "a capture was invalidated: a node of it could not be noted");
    });
}

/// # Safety
///
/// `info` is that of an active capture, still valid, and `child` a live graph that is not used
/// meanwhile.
unsafe fn add_child(
    functions: &Functions,
    info: &RawInfo,
    child: CUgraph,
) -> CudaResult<CUgraphNode> {
    let mut node = ptr::null_mut();
    let RawInfo { graph, dependencies, edges, count, .. } = *info;
    if edges.is_null() {
        let out = &mut node;
        check(
            // SAFETY: the caller's promise, and a live out-pointer.
            unsafe { (functions.cuGraphAddChildGraphNode)(out, graph, dependencies, count, child) },
        )?;
        return Ok(node);
    }
    let mut params = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..Default::default() };
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: child,
        ownership: CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE,
    };
    let (out, params) = (&mut node, &mut params);
    check(
        // SAFETY: the caller's promise, and a live out-pointer. The edge data is that of the
        // dependencies.
        unsafe { (functions.cuGraphAddNode_v2)(out, graph, dependencies, edges, count, params) },
    )?;
    Ok(node)
}

/// # Safety
///
/// A live stream that captures, and a node of that capture.
unsafe fn set_dependency(
    functions: &Functions,
    stream: grapture_sys::CUstream,
    node: &mut CUgraphNode,
) -> grapture_sys::CUresult {
    let flags = CU_STREAM_SET_CAPTURE_DEPENDENCIES.0;
    // SAFETY: the caller's promise. The first version of the call makes full dependencies.
    unsafe { (functions.cuStreamUpdateCaptureDependencies)(stream, node, 1, flags) }
}

#[cold]
pub(super) fn other_driver() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_HANDLE,
        "graph",
        "it belongs to another driver than the stream: capture both with one `Driver`",
    )
}

#[cold]
pub(super) fn no_capture() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "stream",
        "it is not capturing, and a graph is embedded in a capture: instantiate it, and launch that",
    )
}

#[cold]
pub(super) fn other_thread() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
        "stream",
        "another thread began its capture: embed the graph on that thread",
    )
}
