//! The slots of a graph: what is known of the nodes that use them, and where these are in its copies.

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_NOT_SUPPORTED, CUgraph, CUgraphNode};
use smallvec::SmallVec;

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::graph::alike::distinct_nodes;
use crate::graph::exec_slots::ExecSlots;
use crate::graph::read::Reader;
use crate::graph::{Graph, GraphExec, InstantiateOptions, NodeId};
use crate::retain::{Owners, Share};
use crate::slot::{NodePlace, SlotNode, SlotWork};

/// A node with slots, and where it is.
pub(crate) type Placed = (Arc<SlotWork>, NodePlace);

/// The nodes with slots of a graph that is about to be embedded: each as it is there, and as an
/// owner of the graph that embeds it.
pub(crate) struct EmbeddedSlots {
    nodes: Vec<(NodePlace, Arc<SlotNode>)>,
}

impl Graph {
    /// The nodes with slots that there are.
    pub(super) fn slot_nodes(&self) -> Vec<Placed> {
        let nodes = self.share().slot_nodes().into_iter();
        let placed = nodes.filter_map(|node| Some((node.work().clone(), node.place()?.clone())));
        placed.filter(|(_, place)| self.require_at_any_depth(place.top, "node").is_ok()).collect()
    }

    /// Where a node of the graph is, or of one that it embeds.
    pub(super) fn place_of(&self, node: NodeId) -> NodePlace {
        let mut path: SmallVec<[CUgraphNode; 1]> = SmallVec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            path.push(node.as_raw());
            next = self.outer(node);
        }
        path.reverse();
        NodePlace { top: node, path, in_body: false }
    }

    /// The nodes with slots that there are, as owners of the graph that this one's nodes are of.
    pub(crate) fn own_slots(&self) -> Vec<Arc<SlotNode>> {
        if !self.share().has_slots() {
            return Vec::new();
        }
        let nodes = self.slot_nodes().into_iter();
        nodes.map(|(work, place)| SlotNode::at(place, work)).collect()
    }

    /// Notes the nodes with slots among the owners of a node that embeds the graph.
    pub(crate) fn slots_to_embed(&self, owners: &mut Owners) -> EmbeddedSlots {
        let mut nodes = Vec::new();
        if self.share().has_slots() {
            for (work, place) in self.slot_nodes() {
                let node = SlotNode::new(work);
                owners.retain_slots(&node);
                nodes.push((place, node));
            }
        }
        EmbeddedSlots { nodes }
    }

    /// Where the nodes with slots of the body of a conditional node are in the graph of that node.
    pub(super) fn slots_in_body_of(&self, node: NodeId) -> Vec<Arc<SlotNode>> {
        let nodes = self.slot_nodes().into_iter();
        nodes.map(|(work, place)| SlotNode::at(place.in_body_of(node), work)).collect()
    }

    /// Makes a graph with slots executable.
    ///
    /// An executable's nodes are named by those of a graph that nobody else uses (O8), so it is made
    /// of a copy, and keeps that. Where the driver copies none, its slots stay as they are.
    #[cold]
    pub(super) fn instantiate_slotted(
        &self,
        options: &InstantiateOptions,
    ) -> CudaResult<GraphExec> {
        let plain = || {
            let mut exec = self.instantiate_itself(options)?;
            exec.slots = Some(Box::new(ExecSlots::nameless(self)));
            Ok(exec)
        };
        let copy = match self.try_clone() {
            Ok(copy) => copy,
            Err(error) if error.code() == CUDA_ERROR_NOT_SUPPORTED.0 => return plain(),
            Err(error) => return Err(error),
        };
        match copy.instantiate_itself(options) {
            Ok(exec) => Ok(exec.made_of_copy(self, copy)),
            // Asked again for the names of this graph's nodes.
            Err(CudaError::Instantiate(_)) => plain(),
            Err(error) => Err(error),
        }
    }
}

impl GraphExec {
    /// An executable of a graph that was made of a copy of it.
    fn made_of_copy(mut self, graph: &Graph, copy: Graph) -> GraphExec {
        self.key = graph.names().graph();
        self.synced = Some(graph.edits.revision());
        self.replace_owners(graph);
        self.slots = Some(Box::new(ExecSlots::of_copy(copy, graph.names().clone())));
        self
    }
}

impl EmbeddedSlots {
    /// Says where the nodes are of a copy of `graph` that the node `top` embeds. `inner` gives the
    /// copy.
    pub(crate) fn place(
        &self,
        graph: &Graph,
        top: NodeId,
        inner: impl FnOnce() -> CudaResult<CUgraph>,
    ) -> CudaResult<()> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        let mut twins = Twins::new(&graph.context, graph.share(), false);
        let inner = inner()?;
        for (place, node) in &self.nodes {
            if let Some(path) = twins.find((graph.raw, inner), place)? {
                node.set_place(|| within(top, &path, place.in_body));
            }
        }
        Ok(())
    }

    /// The same for the graph itself, which became the node's.
    pub(crate) fn move_to(&self, top: NodeId) {
        for (place, node) in &self.nodes {
            node.set_place(|| within(top, &place.path, place.in_body));
        }
    }
}

/// What each node depends on, by its place among them.
fn places(graph: &Reader<'_>, nodes: &[CUgraphNode]) -> CudaResult<Vec<Vec<usize>>> {
    let place: HashMap<_, _> =
        nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect();
    let before = |node: &CUgraphNode| {
        let before = graph.dependencies(*node)?;
        Ok(before.iter().filter_map(|node| place.get(node).copied()).collect())
    };
    nodes.iter().map(before).collect()
}

fn within(top: NodeId, path: &[CUgraphNode], in_body: bool) -> NodePlace {
    let mut whole = SmallVec::from_slice(&[top.as_raw()]);
    whole.extend_from_slice(path);
    NodePlace { top, path: whole, in_body }
}

/// Finds the nodes of a graph in a copy of it, or in another one of the same form: by the order in
/// which they were made, which a copy keeps (measured).
pub(super) struct Twins<'a> {
    context: &'a Context,
    share: &'a Share,
    /// Whether an update pairs them: what they depend on has to be the same, and only nodes have a
    /// twin that no other node can be taken for.
    strict: bool,
    known: HashMap<(CUgraph, CUgraph), Option<Pairs>>,
}

type Pairs = HashMap<CUgraphNode, CUgraphNode>;

impl<'a> Twins<'a> {
    pub(super) fn new(context: &'a Context, share: &'a Share, strict: bool) -> Twins<'a> {
        Twins { context, share, strict, known: HashMap::new() }
    }

    /// The handles of a node's twin, outermost first, in the second of two live graphs that nobody
    /// changes meanwhile. None: it has none.
    pub(super) fn find(
        &mut self,
        (mut from, mut to): (CUgraph, CUgraph),
        place: &NodePlace,
    ) -> CudaResult<Option<SmallVec<[CUgraphNode; 1]>>> {
        let mut path = SmallVec::new();
        if place.in_body {
            // The driver copies no graph with conditional nodes.
            return Ok(None);
        }
        for (depth, node) in place.path.iter().enumerate() {
            if depth > 0
                && let (Some(outer), Some(twin)) = (place.path.get(depth - 1), path.last())
            {
                (from, to) = (self.child(from, *outer)?, self.child(to, *twin)?);
            }
            let Some(twin) = self.pairs(from, to)?.and_then(|pairs| pairs.get(node)) else {
                return Ok(None);
            };
            path.push(*twin);
        }
        Ok(Some(path))
    }

    /// The nodes of two graphs, one with the other. None: they have another form.
    pub(super) fn pairs(&mut self, from: CUgraph, to: CUgraph) -> CudaResult<Option<&Pairs>> {
        if !self.known.contains_key(&(from, to)) {
            let pairs = self.pair(from, to)?;
            self.known.insert((from, to), pairs);
        }
        Ok(self.known.get(&(from, to)).and_then(Option::as_ref))
    }

    fn pair(&self, from: CUgraph, to: CUgraph) -> CudaResult<Option<Pairs>> {
        let (from, to) = (self.reader(from), self.reader(to));
        let (nodes, twins) = (from.nodes()?, to.nodes()?);
        if nodes.len() != twins.len() {
            return Ok(None);
        }
        if !self.strict {
            return Ok(Some(nodes.into_iter().zip(twins).collect()));
        }
        let before = places(&from, &nodes)?;
        if before != places(&to, &twins)? {
            return Ok(None);
        }
        let kinds: CudaResult<Vec<_>> = nodes.iter().map(|node| from.kind(*node)).collect();
        let distinct = distinct_nodes(&kinds?, &before);
        let pairs = nodes.into_iter().zip(twins).zip(distinct);
        Ok(Some(pairs.filter_map(|(pair, distinct)| distinct.then_some(pair)).collect()))
    }

    fn child(&self, graph: CUgraph, node: CUgraphNode) -> CudaResult<CUgraph> {
        Ok(self.reader(graph).child(node)?.raw)
    }

    fn reader(&self, graph: CUgraph) -> Reader<'_> {
        // SAFETY: a live graph that nobody changes: the caller's promise.
        unsafe { Reader::new(graph, self.context, self.share) }
    }
}
