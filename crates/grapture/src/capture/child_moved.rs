//! A graph that moves into a capture, as one node of it.

use grapture_sys::{
    CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, CU_GRAPH_NODE_TYPE_GRAPH, CUDA_CHILD_GRAPH_NODE_PARAMS,
    CUDA_ERROR_NOT_SUPPORTED, CUgraphNode, CUgraphNodeParams, Functions,
};

use crate::capture::child::{add_with, no_capture, other_driver, other_thread};
use crate::capture::info::RawInfo;
use crate::capture::{CapturePlace, StreamGraphCapture, has_ended};
use crate::driver::DriverVersion;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::Graph;
use crate::memory::Embedding;
use crate::operation::{Operation, OperationKind};
use crate::retain::Owners;
use crate::stream::Stream;

/// The driver that can move a graph into a node.
pub(crate) const MOVES_SINCE: DriverVersion = DriverVersion::new(12, 9);

impl StreamGraphCapture<'_> {
    /// Moves a graph into the capture as one node, at this place of the stream, as
    /// [`Graph::embed_moved`] does for any stream of the capture.
    ///
    /// # Errors
    ///
    /// As [`Graph::embed_moved`].
    #[doc(alias = "CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE")]
    #[track_caller]
    pub fn embed_moved(&self, graph: Graph) -> CudaResult<()> {
        graph.embed_moved(self.stream())
    }
}

impl Graph {
    /// Moves the graph into the capture that records `stream`, as one node at this place of the
    /// stream. The one way to embed a graph that allocates memory, which
    /// [`embed`](Graph::embed) cannot copy.
    ///
    /// If it fails, the graph is dropped.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let part = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     let mut between = capture.alloc_temporary::<u32>(4)?;
    ///     between.fill(7, &stream)?;
    ///     out.copy_from(&between, &stream)
    /// })?;
    /// let whole = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.embed_moved(part)?;
    ///     out.view_mut(..1)?.fill(1, &stream)
    /// })?;
    /// whole.instantiate()?.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [1, 7, 7, 7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`embed`](Graph::embed). [`Refused`](CudaError::Refused) also: the graph has conditional
    /// nodes, or allocates memory that no node frees, or the capture is one of a body or
    /// [into a graph](Stream::capture_into).
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.9.
    #[doc(alias = "CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE")]
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[track_caller]
    pub fn embed_moved(mut self, stream: &Stream) -> CudaResult<()> {
        if !self.context().driver().same(stream.driver()) {
            return Err(other_driver());
        }
        let log = stream.capture_log().ok_or_else(no_capture)?;
        if !matches!(log.place().ok_or_else(has_ended)?, CapturePlace::Own) {
            return Err(not_its_own());
        }
        self.require_frees()?;
        if stream.driver().version() < MOVES_SINCE {
            return Err(CudaError::NotSupported);
        }
        let embedding = Embedding::prepare(self.share().pools(), stream)?;
        let share = self.share().clone();
        let names = log.names().ok_or_else(has_ended)?;
        let mut slotted = Owners::here();
        let slots = self.slots_to_embed(&mut slotted);
        let added = log.record_alone(
            stream,
            Operation::new(OperationKind::ChildGraph),
            |owners| {
                owners.retain_graph(share);
                owners.append(&mut slotted);
            },
            // It is the capture's from here on, also if that breaks.
            || {
                let node = add_with(stream, |functions, info| self.move_into(functions, info))?;
                slots.move_to(names.id(node));
                Ok(())
            },
        );
        added.ok_or_else(other_thread)??;
        embedding.made();
        Ok(())
    }

    /// Adds the node. On success the graph is the node's.
    fn move_into(&mut self, functions: &Functions, info: &RawInfo) -> CudaResult<CUgraphNode> {
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..CUgraphNodeParams::default() };
        params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
            graph: self.raw(),
            ownership: CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
        };
        let mut node = std::ptr::null_mut();
        let RawInfo { graph, dependencies, edges, count, .. } = *info;
        let (out, params) = (&mut node, &mut params);
        // SAFETY: `info` is that of an active capture, still valid, which nobody else submits to
        // meanwhile; a live out-pointer, and a graph that is ours alone.
        let added = check(unsafe {
            (functions.cuGraphAddNode_v2)(out, graph, dependencies, edges, count, params)
        });
        added.map_err(|error| self.why_no_child(error, "it cannot be moved into a capture"))?;
        self.give_away();
        Ok(node)
    }
}

#[cold]
fn not_its_own() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_NOT_SUPPORTED,
        "stream",
        "its capture goes into a body or a graph that there is, from which a graph that was moved \
         there cannot be taken out again if it fails: use `Graph::add_child_moved`",
    )
}
