//! [`NodeRef`] and [`NodeMut`]: one node of a graph, to look at and to change.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_ERROR_INVALID_VALUE,
    CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2, CUgraphNode,
    CUgraphNodeParams, Function,
};

use crate::context::Context;
use crate::driver::several_contexts;
use crate::error::{CudaError, CudaResult, check};
use crate::event::Event;
use crate::graph::notes::has_graphs;
use crate::graph::pools::refuse_shared_pools;
use crate::graph::read::Side;
use crate::graph::{
    BatchNode, CopyNode, EdgeData, FillNode, Graph, NodeId, NodeKind, NodeParams, Note,
};
use crate::host_function::Call;
use crate::launch::{KernelAttribute, LaunchBuilder, before_contexts, check_cluster};
use crate::reclaim::drop_contained;
use crate::retain::Owners;
use crate::topology::SourceLine;

impl Graph {
    /// A node, to look at.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let mut words = DeviceBuffer::<u32>::alloc(&context, 4)?;
    /// let mut graph = Graph::new(&context)?;
    /// let fill = graph.add_fill(FillNode::new(&mut words, 7)?, &[])?;
    /// let NodeParams::Memset { value, width, .. } = graph.node(fill)?.params()? else { panic!() };
    /// assert_eq!((value, width), (7, 4));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph, or that was removed. As the driver
    /// answers.
    #[doc(alias = "cuGraphNodeGetType")]
    pub fn node(&self, node: NodeId) -> CudaResult<NodeRef<'_>> {
        let raw = self.require_at_any_depth(node, "node")?;
        let kind = self.kind(raw)?;
        Ok(NodeRef { graph: self, id: node, raw, kind })
    }

    /// A node, to change. What is made executable from now on does what it then does; what was
    /// made executable before stays as it is.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::alloc(&context, 4)?;
    /// let mut graph = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(7, &stream))?;
    /// let node = graph.nodes()?[0].id();
    /// graph.node_mut(node)?.set_fill(FillNode::new(&mut words, 8)?)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [8; 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`node`](Graph::node).
    pub fn node_mut(&mut self, node: NodeId) -> CudaResult<NodeMut<'_>> {
        let raw = self.require_at_any_depth(node, "node")?;
        let kind = self.kind(raw)?;
        Ok(NodeMut { graph: self, id: node, raw, kind })
    }
}

/// A node of a graph, to look at.
pub struct NodeRef<'a> {
    graph: &'a Graph,
    id: NodeId,
    raw: CUgraphNode,
    kind: NodeKind,
}

impl<'a> NodeRef<'a> {
    pub(super) fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// Its name.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// What it does.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// All that it does, as the driver tells it.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphKernelNodeGetParams")]
    #[doc(alias = "cuGraphMemcpyNodeGetParams")]
    #[doc(alias = "cuGraphMemsetNodeGetParams")]
    #[doc(alias = "cuGraphChildGraphNodeGetGraph")]
    #[doc(alias = "cuGraphMemAllocNodeGetParams")]
    pub fn params(&self) -> CudaResult<NodeParams> {
        // The driver tells nothing of what conditional nodes do, and no lines of nodes within.
        let known = has_graphs(self.kind).then(|| self.graph.note(self.id)).transpose()?;
        self.graph.reader().params(self.raw, &known.unwrap_or_default())
    }

    /// Its label, by [`Graph::set_label`] or
    /// [`StreamGraphCapture::labelled`](crate::StreamGraphCapture::labelled).
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn label(&self) -> CudaResult<Option<String>> {
        Ok(self.graph.note(self.id)?.label.map(|label| label.as_ref().to_owned()))
    }

    /// The line of the program that recorded or added it, if that is known.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn line(&self) -> CudaResult<Option<SourceLine>> {
        Ok(self.graph.note(self.id)?.source_line())
    }

    /// The nodes that it waits for, and for what of them.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphNodeGetDependencies")]
    pub fn dependencies(&self) -> CudaResult<Vec<(NodeId, EdgeData)>> {
        self.neighbours(Side::Before)
    }

    /// The nodes that wait for it, and for what of it.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphNodeGetDependentNodes")]
    pub fn dependents(&self) -> CudaResult<Vec<(NodeId, EdgeData)>> {
        self.neighbours(Side::After)
    }

    fn neighbours(&self, side: Side) -> CudaResult<Vec<(NodeId, EdgeData)>> {
        let neighbours = self.graph.reader().neighbours(self.raw, side)?.into_iter();
        Ok(neighbours.map(|(raw, data)| (self.graph.sibling(self.id, raw), data)).collect())
    }
}

impl fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeRef").field("id", &self.id).field("kind", &self.kind).finish()
    }
}

/// A node of a graph, to change. What it used before is let go of when nothing that was made
/// executable before can run it; what a captured node used stays with the graph, since it is not
/// known apart.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// let mut words = DeviceBuffer::<u32>::zeroed(&context, 4)?;
/// let mut graph = Graph::new(&context)?;
/// let fill = graph.add_fill(FillNode::new(&mut words, 1)?, &[])?;
/// let host = graph.add_host(|| {}, &[fill])?;
/// graph.node_mut(fill)?.set_fill(FillNode::new(&mut words, 2)?)?;
/// graph.node_mut(host)?.set_host(|| println!("filled"))?;
/// assert!(graph.node(fill)?.line()?.is_some());
/// assert_eq!(graph.node(fill)?.dependents()?[0].0, host);
/// # Ok::<(), CudaError>(())
/// ```
pub struct NodeMut<'a> {
    graph: &'a mut Graph,
    id: NodeId,
    raw: CUgraphNode,
    kind: NodeKind,
}

impl NodeMut<'_> {
    /// Has a kernel node run another launch. The attributes that the launch names become the
    /// node's, and the others stay.
    ///
    /// # Safety
    ///
    /// As for [`Graph::add_kernel`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_kernel`]; moreover [`Refused`](CudaError::Refused) if the node is of another
    /// kind. If only an attribute is refused by the driver, the launch is changed all the same.
    #[doc(alias = "cuGraphKernelNodeSetParams")]
    #[track_caller]
    pub unsafe fn set_kernel(self, launch: LaunchBuilder<'_>) -> CudaResult<()> {
        self.require(NodeKind::Kernel)?;
        self.graph.require_place(launch.context(), "kernel")?;
        let owners = launch.owners();
        let attributes = launch.node_attributes();
        let (raw, graph) = (self.raw, self.graph);
        launch.with_node(|params| {
            graph.replace(self.id, owners, |graph| {
                // SAFETY: a kernel node of this graph, and the parameters of a live kernel, with
                // live arguments of the right number and sizes (checked), which the driver copies.
                unsafe { set_kernel(graph, raw, params) }
            })
        })?;
        for attribute in attributes {
            graph.edits.shape();
            let (id, value) = (attribute.id, attribute.value);
            // SAFETY: a kernel node of this graph, and a live value for the id.
            check(unsafe { (graph.functions().cuGraphKernelNodeSetAttribute)(raw, id, &value) })?;
        }
        Ok(())
    }

    /// Sets an attribute of a kernel node.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, or a cluster does not divide
    /// the grid. As the driver answers.
    #[doc(alias = "cuGraphKernelNodeSetAttribute")]
    pub fn set_attribute(self, attribute: KernelAttribute) -> CudaResult<()> {
        self.require(NodeKind::Kernel)?;
        if let KernelAttribute::Cluster(cluster) = attribute
            && let NodeParams::Kernel { grid, .. } =
                self.graph.reader().params(self.raw, &Note::default())?
        {
            check_cluster(grid, cluster)?;
        }
        self.graph.edits.shape();
        self.graph.context.note_attributes();
        let (id, value) = attribute.to_raw();
        // SAFETY: a kernel node of this graph, and a live value for the id.
        check(unsafe {
            (self.graph.functions().cuGraphKernelNodeSetAttribute)(self.raw, id, &value)
        })
    }

    /// Has a copy node copy something else.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, memory is of another context,
    /// or a node of the graph allocates it and this one does not come after. As the driver answers.
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy(self, copy: CopyNode) -> CudaResult<()> {
        self.require(NodeKind::Memcpy)?;
        self.graph.require_place(&copy.context, "copy")?;
        let CopyNode { params, owners, context, .. } = copy;
        let (id, raw) = (self.id, self.raw);
        self.graph.replace(id, owners, |graph| match graph.sets_place(id, &context)? {
            // SAFETY: a copy node of this graph, and parameters that the driver copies. Both ends
            // lie within memory (checked) that the graph keeps alive (O2).
            false => check(unsafe { (graph.functions().cuGraphMemcpyNodeSetParams)(raw, &params) }),
            true => {
                let mut all = CUgraphNodeParams {
                    type_: CU_GRAPH_NODE_TYPE_MEMCPY,
                    ..CUgraphNodeParams::default()
                };
                all.__bindgen_anon_1.memcpy = CUDA_MEMCPY_NODE_PARAMS {
                    copyCtx: context.as_raw(),
                    copyParams: params,
                    ..CUDA_MEMCPY_NODE_PARAMS::default()
                };
                // SAFETY: as above, and a live context.
                check(unsafe { (graph.functions().cuGraphNodeSetParams)(raw, &mut all) })
            }
        })?;
        self.graph.note_place(id, &context);
        Ok(())
    }

    /// Has a fill node fill something else.
    ///
    /// # Errors
    ///
    /// As [`set_copy`](NodeMut::set_copy).
    #[doc(alias = "cuGraphMemsetNodeSetParams")]
    pub fn set_fill(self, fill: FillNode) -> CudaResult<()> {
        self.require(NodeKind::Memset)?;
        self.graph.require_place(&fill.context, "fill")?;
        let FillNode { params, owners, context, .. } = fill;
        let (id, raw) = (self.id, self.raw);
        self.graph.replace(id, owners, |graph| match graph.sets_place(id, &context)? {
            // SAFETY: a fill node of this graph, and parameters that the driver copies. The target
            // lies within memory (checked) that the graph keeps alive (O2).
            false => check(unsafe { (graph.functions().cuGraphMemsetNodeSetParams)(raw, &params) }),
            true => {
                let mut all = CUgraphNodeParams {
                    type_: CU_GRAPH_NODE_TYPE_MEMSET,
                    ..CUgraphNodeParams::default()
                };
                all.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
                    dst: params.dst,
                    pitch: params.pitch,
                    value: params.value,
                    elementSize: params.elementSize,
                    width: params.width,
                    height: params.height,
                    ctx: context.as_raw(),
                };
                // SAFETY: as above, and a live context.
                check(unsafe { (graph.functions().cuGraphNodeSetParams)(raw, &mut all) })
            }
        })?;
        self.graph.note_place(id, &context);
        Ok(())
    }

    /// Has a node of memory operations do others.
    ///
    /// # Errors
    ///
    /// As [`set_copy`](NodeMut::set_copy).
    #[doc(alias = "cuGraphBatchMemOpNodeSetParams")]
    pub fn set_batch(self, mut batch: BatchNode) -> CudaResult<()> {
        self.require(NodeKind::BatchMemOp)?;
        self.graph.require_place(&batch.context, "batch")?;
        let (raw, owners) = (self.raw, std::mem::take(&mut batch.owners));
        self.graph.replace(self.id, owners, |graph| {
            let params = batch.params();
            // SAFETY: a node of this graph of that kind, and operations that the driver copies.
            // Their words lie within memory (checked) that the graph keeps alive (O2).
            check(unsafe { (graph.functions().cuGraphBatchMemOpNodeSetParams)(raw, &params) })
        })
    }

    /// Has a host node call another function.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind. As the driver answers; the
    /// function is dropped then.
    #[doc(alias = "cuGraphHostNodeSetParams")]
    #[track_caller]
    pub fn set_host(self, function: impl Fn() + Send + Sync + 'static) -> CudaResult<()> {
        self.require(NodeKind::Host)?;
        let call = Arc::new(Call::new(&self.graph.context, function));
        let mut owners = Owners::here();
        owners.retain(&call);
        let (raw, params) = (self.raw, Call::params(&call));
        self.graph.replace(self.id, owners, |graph| {
            // SAFETY: a host node of this graph, and parameters that the driver copies. The call
            // lives as long as the graph can run (O2).
            check(unsafe { (graph.functions().cuGraphHostNodeSetParams)(raw, &params) })
        })
    }

    /// Has a child graph node run a copy of another graph.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, or what
    /// [`Graph::add_child`] refuses of the other graph.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.2. As the driver
    /// answers.
    #[doc(alias = "cuGraphNodeSetParams")]
    #[track_caller]
    pub fn set_child(self, child: &Graph) -> CudaResult<()> {
        self.require(NodeKind::ChildGraph)?;
        self.graph.set_child(self.id, child)
    }

    /// Has an event record node, or an event wait node, use another event.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, or the event of another
    /// context (to record) or driver (to wait), or, to wait, was last recorded in a capture that is
    /// open. As the driver answers.
    #[doc(alias = "cuGraphEventRecordNodeSetEvent")]
    #[doc(alias = "cuGraphEventWaitNodeSetEvent")]
    #[track_caller]
    pub fn set_event(self, event: &Event) -> CudaResult<()> {
        let records = self.kind == NodeKind::EventRecord;
        if records {
            self.graph.require_place(event.context(), "event")?;
        } else {
            self.require(NodeKind::EventWait)?;
            self.graph.require_driver(event.context(), "event")?;
        }
        let raw = self.raw;
        let owners = if records { event.record_owners() } else { event.wait_owners()? };
        self.graph.replace(self.id, owners, |graph| {
            let functions = graph.functions();
            let set = match records {
                true => functions.cuGraphEventRecordNodeSetEvent,
                false => functions.cuGraphEventWaitNodeSetEvent,
            };
            // SAFETY: a node of this graph of that kind, and an event that the graph keeps alive
            // (O2).
            check(unsafe { set(raw, event.as_raw()) })
        })?;
        if records {
            event.recorded_by_a_node();
        }
        Ok(())
    }

    fn require(&self, kind: NodeKind) -> CudaResult<()> {
        require_kind(self.kind, kind)
    }
}

impl Graph {
    /// Changes what a node does by `set`, and what it keeps alive.
    fn replace(
        &mut self,
        node: NodeId,
        owners: Owners,
        set: impl FnOnce(&Graph) -> CudaResult<()>,
    ) -> CudaResult<()> {
        owners.wait_until_ready()?;
        refuse_shared_pools(self.share(), &owners, Some(node))?;
        for memory in owners.graph_memory() {
            self.require(node, "node")?;
            self.require_memory(memory)?;
            self.require_order(memory.allocated_by, node)?;
        }
        // Without a context that is current the driver crashes for a kernel, whatever the parameters
        // say, and finds no memory that a node of a graph allocates (measured).
        self.context.entered(|_| set(self))?;
        self.edits.node(node);
        owners.slot_nodes().for_each(|slots| slots.set_place(|| self.place_of(node)));
        owners.graph_memory().for_each(|memory| memory.add_user(node));
        drop_contained(self.share_mut().set(node, owners));
        Ok(())
    }

    /// Whether the context in which a node runs is to be set with its parameters. The calls for one
    /// kind leave it, and where there is one context alone it is the right one.
    fn sets_place(&self, node: NodeId, context: &Context) -> CudaResult<bool> {
        if !several_contexts() {
            return Ok(false);
        }
        if self.context.driver().has(Function::cuGraphNodeSetParams) {
            return Ok(true);
        }
        let known = self.edits.place_of(node).unwrap_or(&self.context);
        if known.same(context) { Ok(false) } else { Err(CudaError::NotSupported) }
    }

    /// Refuses a node that does not come after another one.
    fn require_order(&self, first: NodeId, then: NodeId) -> CudaResult<()> {
        let reader = self.reader();
        let (mut seen, mut next) = (HashSet::from([first.as_raw()]), vec![first.as_raw()]);
        while let Some(node) = next.pop() {
            if node == then.as_raw() {
                return Ok(());
            }
            let behind = reader.neighbours(node, Side::After)?.into_iter();
            next.extend(behind.map(|(node, _)| node).filter(|node| seen.insert(*node)));
        }
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            "memory",
            "the node that allocates it does not come before: add that dependency first",
        ))
    }
}

/// # Safety
///
/// A kernel node of the graph, whose context is current, and the parameters of a live kernel of it.
unsafe fn set_kernel(
    graph: &Graph,
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS_v2,
) -> CudaResult<()> {
    let functions = graph.functions();
    if graph.context.driver().has(Function::cuGraphKernelNodeSetParams_v2) {
        // SAFETY: the caller's promise.
        return check(unsafe { (functions.cuGraphKernelNodeSetParams_v2)(node, params) });
    }
    let old = before_contexts(params);
    // SAFETY: the caller's promise. The context that is current is the graph's.
    check(unsafe { (functions.cuGraphKernelNodeSetParams)(node, &old) })
}

pub(super) fn require_kind(kind: NodeKind, wanted: NodeKind) -> CudaResult<()> {
    if kind == wanted { Ok(()) } else { Err(other_kind(kind, wanted)) }
}

#[cold]
pub(super) fn other_kind(kind: NodeKind, wanted: NodeKind) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "node",
        format!("its kind is `{kind}`, and the call is for `{wanted}`"),
    )
}

impl fmt::Debug for NodeMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMut").field("id", &self.id).field("kind", &self.kind).finish()
    }
}
