//! [`InnerGraphs`]: how nodes within embedded graphs are named to the graph that embeds them.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use grapture_sys::{CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE, CUgraph, CUgraphNode};

use crate::error::{CudaError, CudaResult};
use crate::graph::read::Reader;
use crate::graph::{Graph, Node, NodeId, NodeKind, NodeRef, Note};
use crate::reclaim::drop_contained;

/// The embedded graphs, at any depth, whose nodes were named. A name has the place of its graph
/// here, counted from 1, so that no other graph that a node embeds later is reached by it.
#[derive(Default)]
pub(super) struct InnerGraphs {
    /// None as long as nobody has asked for such a name.
    known: OnceCell<Box<RefCell<Vec<Inner>>>>,
}

#[derive(Clone, Copy)]
struct Inner {
    /// The node that embeds it.
    owner: NodeId,
    /// Which of the node's graphs it is: a conditional node has one for each body.
    part: usize,
    /// The driver's handle. None: that node was removed, or embeds another graph now.
    raw: Option<CUgraph>,
}

impl InnerGraphs {
    /// Whether no such name was given.
    pub(super) fn is_empty(&self) -> bool {
        self.known.get().is_none()
    }

    /// The number of a graph that a node embeds now.
    fn number(&self, owner: NodeId, part: usize, raw: CUgraph) -> u32 {
        let mut known = self.known.get_or_init(Box::default).borrow_mut();
        let is_it = |inner: &Inner| inner.owner == owner && inner.raw == Some(raw);
        let place = known.iter().position(is_it).unwrap_or_else(|| {
            known.push(Inner { owner, part, raw: Some(raw) });
            known.len() - 1
        });
        // Not reached: four billion graphs were embedded and looked into. No name has the number.
        u32::try_from(place + 1).unwrap_or(u32::MAX)
    }

    /// The node that embeds the graph with the number, and as which of its graphs, if it still does.
    fn get(&self, number: u32) -> Option<(NodeId, usize)> {
        let known = self.known.get()?.borrow();
        let inner = known.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        inner.raw.map(|_| (inner.owner, inner.part))
    }

    /// Whether a name is of a node within what a node embeds, at any depth.
    fn is_within(&self, mut node: NodeId, outer: NodeId) -> bool {
        while node.within != 0 {
            match self.get(node.within) {
                Some((owner, _)) if owner == outer => return true,
                Some((owner, _)) => node = owner,
                None => return false,
            }
        }
        false
    }

    /// Forgets what a node embedded, with all that is within: their names reach nothing from here
    /// on.
    fn forget(&self, outer: NodeId) {
        let Some(known) = self.known.get() else { return };
        let gone: Vec<bool> = known
            .borrow()
            .iter()
            .map(|inner| inner.owner == outer || self.is_within(inner.owner, outer))
            .collect();
        let mut known = known.borrow_mut();
        for (inner, _) in known.iter_mut().zip(gone).filter(|(_, gone)| *gone) {
            inner.raw = None;
        }
    }
}

impl Graph {
    /// The driver's handle of a node of this graph, or of one that it embeds at any depth.
    pub(crate) fn require_at_any_depth(
        &self,
        node: NodeId,
        what: &'static str,
    ) -> CudaResult<CUgraphNode> {
        if node.within == 0 || node.graph != self.names.graph() {
            return self.require(node, what);
        }
        match self.inner.get(node.within) {
            Some(_) => Ok(node.as_raw()),
            None => Err(gone(what)),
        }
    }

    /// The name of a node of the same graph that another node is of.
    pub(super) fn sibling(&self, node: NodeId, raw: CUgraphNode) -> NodeId {
        if node.within == 0 { self.id(raw) } else { self.id_within(node.within, raw) }
    }

    /// The node that embeds the graph that a node is of; none if that is this graph.
    pub(super) fn outer(&self, node: NodeId) -> Option<NodeId> {
        if node.within == 0 { None } else { self.inner.get(node.within).map(|(owner, _)| owner) }
    }

    fn id_within(&self, number: u32, raw: CUgraphNode) -> NodeId {
        NodeId { graph: self.names.graph(), raw, turn: 0, within: number }
    }

    /// The graph that a node embeds, or the body of a conditional node with that number, to read.
    fn embedded(&self, owner: NodeId, part: usize) -> CudaResult<Reader<'_>> {
        let raw = self.require_at_any_depth(owner, "node")?;
        if self.kind(raw)? != NodeKind::Conditional {
            return self.reader().child(raw);
        }
        let note = self.note_at_any_depth(owner)?;
        let body = note.branching().and_then(|branching| branching.bodies.get(part));
        body.map(|body| self.reader().body(body)).ok_or_else(no_body)
    }

    /// What is known of a node of this graph, or of one in it.
    fn note_at_any_depth(&self, node: NodeId) -> CudaResult<Note> {
        let Some((owner, part)) = self.inner.get(node.within) else { return self.note(node) };
        let around = self.note_at_any_depth(owner)?;
        let notes = match around.branching() {
            Some(branching) => branching.bodies.get(part).map_or(&[][..], |body| &body.notes),
            None => around.child(),
        };
        let nodes = self.embedded(owner, part)?.nodes()?;
        let place = nodes.iter().position(|raw| *raw == node.as_raw());
        Ok(place.and_then(|place| notes.get(place)).cloned().unwrap_or_default())
    }

    /// The nodes of the graph that a node embeds, with their names here.
    fn nodes_within(&self, owner: NodeId, part: usize) -> CudaResult<Vec<Node>> {
        let embedded = self.embedded(owner, part)?;
        let number = self.inner.number(owner, part, embedded.raw);
        let nodes = embedded.nodes()?.into_iter();
        nodes
            .map(|raw| Ok(Node { id: self.id_within(number, raw), kind: embedded.kind(raw)? }))
            .collect()
    }

    /// The node of a copy of this graph, which may be one that a graph embeds, that stands for a
    /// node of this one: `copy` has the number by which that names it, 0 for the graph itself.
    pub(super) fn counterpart(
        &self,
        node: NodeId,
        copy: &Graph,
        (number, raw): (u32, CUgraph),
    ) -> CudaResult<NodeId> {
        if node.within == 0 {
            let found = self.raw_node_in(node.as_raw(), raw)?;
            return Ok(match number {
                0 => copy.id(found),
                number => copy.id_within(number, found),
            });
        }
        let (owner, part) = self.inner.get(node.within).ok_or_else(|| gone("node"))?;
        let owner = self.counterpart(owner, copy, (number, raw))?;
        let embedded = copy.embedded(owner, part)?.raw;
        let found = self.raw_node_in(node.as_raw(), embedded)?;
        Ok(copy.id_within(copy.inner.number(owner, part, embedded), found))
    }

    /// The node of a copy that the library has built, by the copies of the graph's own nodes: the
    /// embedded graphs have theirs in the same order.
    pub(super) fn counterpart_built(
        &self,
        node: NodeId,
        copy: &Graph,
        copied: &HashMap<NodeId, NodeId>,
    ) -> CudaResult<NodeId> {
        if node.within == 0 {
            let found = copied.get(&node).copied();
            let there = found.filter(|found| copy.require(*found, "node").is_ok());
            return there.ok_or(CudaError::InvalidValue);
        }
        let (owner, part) = self.inner.get(node.within).ok_or_else(|| gone("node"))?;
        let place =
            self.embedded(owner, part)?.nodes()?.iter().position(|raw| *raw == node.as_raw());
        let owner = self.counterpart_built(owner, copy, copied)?;
        let embedded = copy.embedded(owner, part)?;
        let found = place.and_then(|place| embedded.nodes().ok()?.get(place).copied());
        let number = copy.inner.number(owner, part, embedded.raw);
        found.map(|found| copy.id_within(number, found)).ok_or(CudaError::InvalidValue)
    }

    /// The node within a child graph node of `graph` that is the copy of `node`: the child graph
    /// node was made from this graph by [`add_child`](Graph::add_child), or had it set.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::alloc(&context, 4)?;
    /// let mut step = Graph::new(&context)?;
    /// let fill = step.add_fill(FillNode::new(&mut words, 7)?, &[])?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_child(&step, &[])?;
    /// let second = graph.add_child(&step, &[first])?;
    /// let inner = step.node_in_child(fill, &graph, second)?;
    ///
    /// let mut exec = graph.into_exec()?;
    /// exec.node(inner)?.set_fill(FillNode::new(&mut words, 8)?)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [8; 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph, or `child` is no child graph node
    /// of `graph`. [`InvalidValue`](CudaError::InvalidValue): the child graph node does not embed a
    /// copy of this graph, or the node was added after the copy was made.
    #[doc(alias = "cuGraphNodeFindInClone")]
    pub fn node_in_child(&self, node: NodeId, graph: &Graph, child: NodeId) -> CudaResult<NodeId> {
        self.require_at_any_depth(node, "node")?;
        graph.node(child)?.require_child()?;
        let embedded = graph.embedded(child, 0)?.raw;
        self.counterpart(node, graph, (graph.inner.number(child, 0, embedded), embedded))
    }

    /// Has the names of nodes within what a node embeds reach nothing any more, and lets go of
    /// what these were changed to use. For when the driver has destroyed the embedded graph.
    pub(super) fn forget_within(&mut self, outer: NodeId) {
        let within = self.edited_within(outer);
        self.edits.forget(|node| within.contains(&node));
        for node in within {
            drop_contained(self.share_mut().remove(node));
        }
        self.inner.forget(outer);
    }

    /// The nodes within what a node embeds that have a part of the share for themselves.
    pub(super) fn edited_within(&self, outer: NodeId) -> Vec<NodeId> {
        self.share().edited_nodes().filter(|node| self.is_within(*node, outer)).collect()
    }

    pub(super) fn is_within(&self, node: NodeId, outer: NodeId) -> bool {
        self.inner.is_within(node, outer)
    }

    /// How many nodes there are in the embedded graphs that these nodes are of.
    pub(super) fn count_around(&self, nodes: &[NodeId]) -> CudaResult<usize> {
        let mut numbers: Vec<u32> = nodes.iter().map(|node| node.within).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let graphs = numbers.into_iter().filter_map(|number| self.inner.get(number));
        graphs.map(|(owner, part)| self.embedded(owner, part)?.node_count()).sum()
    }
}

impl NodeRef<'_> {
    /// The nodes of the graph that a child graph node embeds, in the order in which they were made
    /// there. Their names are good wherever those of the graph's own nodes are but for the order:
    /// to [look](Graph::node) at, and to change in the [graph](Graph::node_mut) and in
    /// [executables](crate::GraphExec::node). They mean nothing any more once the child graph node
    /// was removed, or embeds another graph.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::alloc(&context, 4)?;
    /// let step = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(7, &stream))?;
    /// let mut graph = Graph::new(&context)?;
    /// let child = graph.add_child(&step, &[])?;
    /// let inner = graph.node(child)?.child_nodes()?[0].id();
    /// graph.node_mut(inner)?.set_fill(FillNode::new(&mut words, 8)?)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [8; 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind. As the driver answers.
    #[doc(alias = "cuGraphChildGraphNodeGetGraph")]
    pub fn child_nodes(&self) -> CudaResult<Vec<Node>> {
        self.require_child()?;
        self.graph().nodes_within(self.id(), 0)
    }

    /// The nodes of a body of a conditional node, counted from 0, in the order in which they were
    /// made there, with names as [`child_nodes`](NodeRef::child_nodes) gives. Where a word of memory
    /// decides about a loop, the last one is the library's own, which looks at the word.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let wanted = DeviceBuffer::from_slice(&context, &[1u32])?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let mut graph = Graph::new(&context)?;
    /// let branch = graph.add_if(&WordCondition::new(&wanted)?, &[], |body| {
    ///     body.add_fill(FillNode::new(&mut out, 7)?, &[]).map(|_| ())
    /// })?;
    /// let fill = graph.node(branch)?.body_nodes(0)?[0].id();
    /// let mut exec = graph.into_exec()?;
    /// exec.node(fill)?.set_fill(FillNode::new(&mut out, 8)?)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [8]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, has no such body, or was made by
    /// other hands, of whose bodies the driver tells nothing. As the driver answers.
    pub fn body_nodes(&self, body: usize) -> CudaResult<Vec<Node>> {
        super::node_ref::require_kind(self.kind(), NodeKind::Conditional)?;
        self.graph().nodes_within(self.id(), body)
    }

    fn require_child(&self) -> CudaResult<()> {
        super::node_ref::require_kind(self.kind(), NodeKind::ChildGraph)
    }
}

#[cold]
fn gone(what: &'static str) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_HANDLE,
        what,
        "the graph that it was in is embedded no more: its node was removed, or embeds another one",
    )
}

#[cold]
fn no_body() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "node",
        "it has no such body, or it was made by other hands: the driver does not tell the bodies",
    )
}
