//! Graphs within graphs.

use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, CU_GRAPH_NODE_TYPE_GRAPH, CUDA_CHILD_GRAPH_NODE_PARAMS,
    CUgraph, CUgraphNode, CUgraphNodeParams, Functions,
};

use crate::capture::MOVES_SINCE;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::build::Place;
use crate::graph::edit::not_supported;
use crate::graph::pools::refuse_shared_pools;
use crate::graph::{Graph, Inner, Node, NodeId, NodeKind, Note};
use crate::reclaim::drop_contained;
use crate::retain::Owners;

impl Graph {
    /// Adds a node that runs a copy of another graph, as it is now, after the nodes `after`. What
    /// the other graph owns is owned together.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let step = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(3, &stream))?;
    /// let mut graph = Graph::new(&context)?;
    /// let step = graph.add_child(&step, &[])?;
    /// graph.add_fill(FillNode::new(&mut words.view_mut(1..)?, 4)?, &[step])?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [3, 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`, a graph of another
    /// driver, one with nodes that allocate or free memory, which
    /// [`add_child_moved`](Graph::add_child_moved) takes, one with conditional nodes, or one that
    /// uses a pool that another node uses. As the driver answers.
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[track_caller]
    pub fn add_child(&mut self, child: &Graph, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_driver(&child.context, "child")?;
        child.refuse_memory_nodes(NO_COPY)?;
        let notes = child.inner_notes()?;
        let mut owners = child.owners();
        let slots = child.slots_to_embed(&mut owners);
        let names = self.names.clone();
        let node = self.insert(after, owners, |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: two live graphs, and nodes of the first. The driver copies the second.
            check(unsafe {
                (functions.cuGraphAddChildGraphNode)(node, graph, after, count, child.raw)
            })
            .map_err(|error| child.why_no_child(error, NO_COPY))?;
            // SAFETY: the child graph node that was just made.
            slots.place(child, names.id(*node), || unsafe { embedded(functions, *node) })
        })?;
        self.note_child(node, notes);
        Ok(node)
    }

    /// Notes what is known of the nodes of a graph that a node runs.
    fn note_child(&mut self, node: NodeId, notes: Option<Arc<[Note]>>) {
        self.built().notes.of(node).inner = notes.map(Inner::Child);
    }

    /// Adds a node that runs another graph, which becomes its part, after the nodes `after`. The
    /// one way to embed a graph whose nodes allocate memory; one with conditional nodes cannot be
    /// moved either.
    ///
    /// If it fails, the other graph is dropped.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut scratching = Graph::new(&context)?;
    /// let mut scratch = scratching.add_alloc::<u32>(16, &[])?;
    /// scratching.add_fill(FillNode::new(&mut scratch, 7)?, &[])?;
    /// scratching.add_free(&scratch, &[])?;
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_child_moved(scratching, &[])?;
    /// graph.instantiate()?.launch(&stream)?;
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`, a graph of another
    /// driver, one with conditional nodes or that uses a pool which another node uses, or memory
    /// that a node of it allocates and none frees.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.9. As the driver
    /// answers.
    #[doc(alias = "CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE")]
    #[track_caller]
    pub fn add_child_moved(&mut self, mut child: Graph, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_driver(&child.context, "child")?;
        child.require_frees()?;
        if self.context.driver().version() < MOVES_SINCE {
            return Err(CudaError::NotSupported);
        }
        let notes = child.inner_notes()?;
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..CUgraphNodeParams::default() };
        params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
            graph: child.raw,
            ownership: CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
        };
        let mut owners = child.owners();
        let slots = child.slots_to_embed(&mut owners);
        let names = self.names.clone();
        let node = self.insert(after, owners, |place, node| {
            let Place { functions, graph, after, count } = *place;
            let full = std::ptr::null();
            // SAFETY: two live graphs, and nodes of the first. The second is ours alone, and the
            // node's if the call succeeds.
            check(unsafe {
                (functions.cuGraphAddNode_v2)(node, graph, after, full, count, &mut params)
            })
            .map_err(|error| child.why_no_child(error, "it cannot be moved into a node"))?;
            slots.move_to(names.id(*node));
            Ok(())
        })?;
        self.note_child(node, notes);
        child.give_away();
        // Its memory nodes are this graph's now, and bar what they barred there.
        self.allocations.append(&mut child.allocations);
        Ok(node)
    }

    /// Says why the graph is not a node of another one, if the driver refused it for its nodes.
    #[cold]
    pub(crate) fn why_no_child(&self, error: CudaError, cannot: &str) -> CudaError {
        let conditional = |node: &Node| node.kind() == NodeKind::Conditional;
        if error == CudaError::NotSupported
            && self.nodes().is_ok_and(|nodes| nodes.iter().any(conditional))
        {
            return not_supported(
                "it has conditional nodes, so that the driver neither copies nor moves it: build or \
                 capture them where they are to run"
                    .to_owned(),
            );
        }
        self.why_not(error, cannot)
    }

    /// The driver's graph is a node's from now on.
    pub(crate) fn give_away(&mut self) {
        self.raw = std::ptr::null_mut();
    }

    /// Runs another graph in a child graph node, as [`add_child`](Graph::add_child) does.
    #[track_caller]
    pub(super) fn set_child(&mut self, node: NodeId, child: &Graph) -> CudaResult<()> {
        self.require_driver(&child.context, "child")?;
        child.refuse_memory_nodes(NO_COPY)?;
        let (raw, notes) = (self.require_at_any_depth(node, "node")?, child.inner_notes()?);
        refuse_shared_pools(self.share(), &child.owners(), Some(node))?;
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..CUgraphNodeParams::default() };
        params.__bindgen_anon_1.graph.graph = child.raw;
        // SAFETY: a node of this graph, and a live graph, which the driver copies.
        check(unsafe { (self.functions().cuGraphNodeSetParams)(raw, &mut params) })
            .map_err(|error| child.why_no_child(error, NO_COPY))?;
        self.forget_within(node);
        self.edits.node(node);
        self.note_child(node, notes);
        let mut owners = child.owners();
        let slots = child.slots_to_embed(&mut owners);
        // SAFETY: a child graph node of this graph.
        let placed = slots.place(child, node, || unsafe { embedded(self.functions(), raw) });
        drop_contained(self.share_mut().set(node, owners));
        placed
    }

    /// What a node that runs the graph keeps alive.
    #[track_caller]
    pub(crate) fn owners(&self) -> Owners {
        let mut owners = Owners::here();
        owners.retain_graph(self.share().clone());
        owners
    }
}

/// The graph that a node embeds.
///
/// # Safety
///
/// A child graph node of a live graph that nobody else uses now.
pub(crate) unsafe fn embedded(functions: &Functions, node: CUgraphNode) -> CudaResult<CUgraph> {
    let mut graph = std::ptr::null_mut();
    // SAFETY: the caller's promise, and a live out-pointer.
    check(unsafe { (functions.cuGraphChildGraphNodeGetGraph)(node, &mut graph) })?;
    Ok(graph)
}

const NO_COPY: &str = "it cannot be copied into a node: move it there with `add_child_moved`";
