//! Copies of graphs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr;

use grapture_sys::{CUDA_ERROR_INVALID_HANDLE, CUgraph, CUgraphNode};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::edit::not_supported;
use crate::graph::slots::Twins;
use crate::graph::{Graph, GraphKey, NodeId};
use crate::slot::NodePlace;

impl Graph {
    /// A copy of the graph, to change apart. What both own they own together.
    ///
    /// The nodes of the copy have names of their own, which [`node_in`](Graph::node_in) gives. A graph
    /// with conditional nodes, which the driver does not copy, is built again, node by node.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let mut graph = Graph::new(&context)?;
    /// let (first, second) = (graph.add_empty(&[])?, graph.add_empty(&[])?);
    /// let mut copy = graph.try_clone()?;
    /// copy.add_dependency(graph.node_in(first, &copy)?, graph.node_in(second, &copy)?)?;
    /// assert_eq!((graph.edges()?.len(), copy.edges()?.len()), (0, 1));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a graph with nodes that are there once, because they
    /// allocate or free memory. As the driver answers.
    #[doc(alias = "cuGraphClone")]
    pub fn try_clone(&self) -> CudaResult<Graph> {
        self.refuse_memory_nodes(NO_CLONE)?;
        if self.has_branchings() {
            if self.share().has_slots() {
                return Err(not_supported(
                    "it has conditional nodes and slots: it cannot be cloned, build it twice"
                        .to_owned(),
                ));
            }
            return self.rebuilt().map_err(|error| self.why_not(error, NO_CLONE));
        }
        let mut raw = ptr::null_mut();
        // SAFETY: a live graph and a live out-pointer.
        check(unsafe { (self.functions().cuGraphClone)(&mut raw, self.raw) })
            .map_err(|error| self.why_not(error, NO_CLONE))?;
        // It owns all that this one does until the names of the nodes are known.
        let share = self.share().clone();
        // SAFETY: it was just made, and is nobody else's.
        let mut copy = unsafe { Graph::of(self.context.clone(), raw, GraphKey::new(), share) };
        copy.clone_of = Some(self.names.graph());
        let mut names = HashMap::new();
        let noted = self.built.iter().flat_map(|built| built.notes.nodes());
        for node in self.share().edited_nodes().chain(noted) {
            if let Entry::Vacant(unknown) = names.entry(node) {
                unknown.insert(self.counterpart(node, &copy, (0, raw))?);
            }
        }
        let name = |node: NodeId| names.get(&node).copied();
        let mut placed = HashMap::new();
        if self.share().has_slots() {
            let mut twins = Twins::new(&self.context, self.share(), false);
            for (_, place) in self.slot_nodes() {
                let path = twins.find((self.raw, raw), &place)?;
                placed.extend(path.map(|path| (place.path, path)));
            }
        }
        let place = |place: &NodePlace| {
            let path = placed.get(&place.path)?.clone();
            let outermost = copy.id(*path.first()?);
            let top = names.get(&place.top).copied().unwrap_or(outermost);
            Some(NodePlace { top, path, in_body: place.in_body })
        };
        *copy.share_mut() = self.share().renamed(name, place);
        // The nodes are in the same order (measured).
        copy.recorded = self.recorded.clone();
        if let Some(built) = &self.built {
            copy.built().notes = built.notes.renamed(name);
        }
        Ok(copy)
    }

    /// The node of a clone of this graph that is the copy of `node`.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph, or a graph that is no clone of
    /// this one. [`InvalidValue`](CudaError::InvalidValue): the node was added after the clone was
    /// made, or was removed there.
    #[doc(alias = "cuGraphNodeFindInClone")]
    pub fn node_in(&self, node: NodeId, clone: &Graph) -> CudaResult<NodeId> {
        self.require_at_any_depth(node, "node")?;
        if clone.clone_of != Some(self.names.graph()) {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_HANDLE,
                "clone",
                "it is no clone of the graph: make one with `Graph::try_clone`",
            ));
        }
        match clone.built.as_ref().filter(|built| !built.copied.is_empty()) {
            // The driver knows nothing of a copy that was built.
            Some(built) => self.counterpart_built(node, clone, &built.copied),
            None => self.counterpart(node, clone, (0, clone.raw)),
        }
    }

    pub(super) fn raw_node_in(&self, node: CUgraphNode, clone: CUgraph) -> CudaResult<CUgraphNode> {
        let mut found = ptr::null_mut();
        // SAFETY: a node of this graph, a live clone of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphNodeFindInClone)(&mut found, node, clone) })?;
        Ok(found)
    }
}

const NO_CLONE: &str = "it cannot be cloned";
