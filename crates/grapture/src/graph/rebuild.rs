//! A copy of a graph that the driver does not copy, since it has conditional nodes: the same nodes are
//! added again.

use std::collections::HashMap;
use std::ptr;

use grapture_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUgraph, CUgraphEdgeData, CUgraphNode,
};

use crate::error::{CudaResult, check};
use crate::graph::build::{Place, add_kernel};
use crate::graph::edit::not_supported;
use crate::graph::read::Reader;
use crate::graph::{Body, Branching, Condition, Graph, Inner, Node, NodeKind, Note, graph_nodes};

/// The nodes of a graph, each with its copy, in their order.
type Copies = Vec<(CUgraphNode, CUgraphNode)>;

/// Makes the copy, of which the conditions are there.
struct Rebuild<'a> {
    graph: &'a Graph,
    /// By the numbers that they have in both graphs.
    conditions: &'a [Condition],
}

impl Graph {
    /// The copy. What both own they own together.
    ///
    /// Conditions are numbers of their graph, counted from 1 (measured). So the copy's are made in the
    /// order of this graph's, and the kernels that set them have the same arguments.
    pub(super) fn rebuilt(&self) -> CudaResult<Graph> {
        let nodes = self.nodes()?;
        let notes = self.notes(&nodes);
        let mut copy = Graph::new(&self.context)?;
        // It owns all that this one does until the names of the nodes are known.
        *copy.share_mut() = self.share().clone();
        let conditions = copy.same_conditions(&notes)?;
        let rebuild = Rebuild { graph: self, conditions: &conditions };
        let (copies, notes) = rebuild.level(&self.reader(), &nodes, notes, copy.raw)?;
        let copies: HashMap<_, _> = copies.into_iter().collect();
        let named = |node: &Node| Some((node.id(), copy.id(*copies.get(&node.id().as_raw())?)));
        let names: HashMap<_, _> = nodes.iter().filter_map(named).collect();
        *copy.share_mut() = self.share().renamed(|node| names.get(&node).copied(), |_| None);
        let built = copy.built();
        for (node, note) in nodes.iter().zip(notes) {
            names.get(&node.id()).into_iter().for_each(|copy| built.notes.set(*copy, note.clone()));
        }
        built.copied = names.clone();
        for (node, copied) in names {
            if let Some(place) = self.edits.place_of(node) {
                copy.edits.place(copied, Some(place));
            }
        }
        copy.clone_of = Some(self.names.graph());
        Ok(copy)
    }

    /// Makes the conditions that nodes with these notes go by, with the same numbers.
    pub(super) fn same_conditions(&mut self, notes: &[Note]) -> CudaResult<Vec<Condition>> {
        let mut branchings = Vec::new();
        gather(notes, &mut branchings);
        branchings.sort_unstable_by_key(|branching| branching.handle);
        let conditions = branchings.iter().map(|branching| self.condition(branching.default));
        let conditions: Vec<_> = conditions.collect::<CudaResult<_>>()?;
        let mut both = conditions.iter().zip(branchings);
        match both.all(|(made, branching)| made.handle == branching.handle) {
            true => Ok(conditions),
            false => Err(not_supported(
                "it has a condition that no conditional node goes by: it cannot be copied"
                    .to_owned(),
            )),
        }
    }
}

/// The conditional nodes among nodes with these notes, and in their bodies.
pub(super) fn gather<'a>(notes: &'a [Note], into: &mut Vec<&'a Branching>) {
    for branching in notes.iter().filter_map(Note::branching) {
        into.push(branching);
        branching.bodies.iter().for_each(|body| gather(&body.notes, into));
    }
}

impl Rebuild<'_> {
    /// Adds the nodes that `from` has to a graph. Gives the copies, and what is known of them.
    fn level(
        &self,
        from: &Reader<'_>,
        nodes: &[Node],
        mut notes: Vec<Note>,
        into: CUgraph,
    ) -> CudaResult<(Copies, Vec<Note>)> {
        let mut copies = Vec::with_capacity(nodes.len());
        for (node, note) in nodes.iter().zip(&mut notes) {
            let raw = node.id().as_raw();
            let copy = match note.branching().cloned() {
                Some(branching) => self.branching(from, &branching, into, note)?,
                None => self.node(from, *node, into)?,
            };
            copies.push((raw, copy));
        }
        self.edges(from, &copies, into)?;
        Ok((copies, notes))
    }

    fn edges(&self, from: &Reader<'_>, copies: &Copies, into: CUgraph) -> CudaResult<()> {
        let copies: HashMap<_, _> = copies.iter().copied().collect();
        let add = self.graph.functions().cuGraphAddDependencies_v2;
        for (before, after, data) in from.edges()? {
            if let (Some(before), Some(after)) = (copies.get(&before), copies.get(&after)) {
                let data = CUgraphEdgeData::from(data);
                // SAFETY: the graph that is made, nodes of it, and the data of one edge.
                check(unsafe { add(into, before, after, &data, 1) })?;
            }
        }
        Ok(())
    }

    /// Adds a conditional node and fills its bodies.
    fn branching(
        &self,
        from: &Reader<'_>,
        node: &Branching,
        into: CUgraph,
        note: &mut Note,
    ) -> CudaResult<CUgraphNode> {
        let context = &self.graph.context;
        let known = node.handle.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        // INVARIANT: there is a condition for each conditional node, at its number.
        let condition = &self.conditions[known.unwrap_or(usize::MAX)];
        let place = self.place(into);
        // SAFETY: the graph that is made, which nobody else uses, and nothing to come after.
        let made = unsafe { node.branch.add(context, &place, ptr::null(), condition.handle) }?;
        let (copy, graphs) = made;
        let mut bodies = Vec::with_capacity(graphs.len());
        for (body, graph) in node.bodies.iter().zip(graphs) {
            let reader = from.body(body);
            // SAFETY: the body of a node of a graph that is borrowed.
            let nodes = unsafe { graph_nodes(context, body.graph) }?;
            let mut notes = body.notes.clone();
            notes.resize_with(nodes.len(), Note::default);
            let (_, notes) = self.level(&reader, &nodes, notes, graph)?;
            bodies.push(Body { graph, notes });
        }
        let branching = Branching::new(copy, node.branch, condition, node.word, bodies);
        note.inner = Some(Inner::Branching(branching));
        Ok(copy)
    }

    /// Where the next node is added, after none yet.
    fn place(&self, graph: CUgraph) -> Place<'_> {
        Place { functions: self.graph.functions(), graph, after: ptr::null(), count: 0 }
    }

    /// Adds a node that does what another one does.
    fn node(&self, from: &Reader<'_>, node: Node, into: CUgraph) -> CudaResult<CUgraphNode> {
        // The driver does not tell where copies and fills run.
        let place = self.graph.edits.place_of(node.id()).unwrap_or(&self.graph.context);
        let (functions, context) = (self.graph.functions(), place.as_raw());
        let (node, kind) = (node.id().as_raw(), node.kind());
        let mut copy = ptr::null_mut();
        let none = ptr::null();
        match kind {
            NodeKind::Kernel => {
                let params = from.raw_kernel(node)?;
                let place = self.place(into);
                // SAFETY: the parameters of a node of a live graph, which the copy's share keeps what
                // they refer to for (O2).
                unsafe { add_kernel(&self.graph.context, &place, &mut copy, &params) }?;
                // SAFETY: two live kernel nodes.
                check(unsafe { (functions.cuGraphKernelNodeCopyAttributes)(copy, node) })?;
            }
            NodeKind::Memcpy => {
                let mut params = CUDA_MEMCPY3D::default();
                // SAFETY: a copy node of a live graph, and a live out-pointer.
                check(unsafe { (functions.cuGraphMemcpyNodeGetParams)(node, &mut params) })?;
                let add = functions.cuGraphAddMemcpyNode;
                // SAFETY: the graph that is made, and the parameters of a node whose owners it has.
                check(unsafe { add(&mut copy, into, none, 0, &params, context) })?;
            }
            NodeKind::Memset => {
                let mut params = CUDA_MEMSET_NODE_PARAMS::default();
                // SAFETY: a fill node of a live graph, and a live out-pointer.
                check(unsafe { (functions.cuGraphMemsetNodeGetParams)(node, &mut params) })?;
                let add = functions.cuGraphAddMemsetNode;
                // SAFETY: as above.
                check(unsafe { add(&mut copy, into, none, 0, &params, context) })?;
            }
            NodeKind::Host => {
                let mut params = CUDA_HOST_NODE_PARAMS::default();
                // SAFETY: a host node of a live graph, and a live out-pointer.
                check(unsafe { (functions.cuGraphHostNodeGetParams)(node, &mut params) })?;
                // SAFETY: as above.
                check(unsafe {
                    (functions.cuGraphAddHostNode)(&mut copy, into, none, 0, &params)
                })?;
            }
            NodeKind::ChildGraph => {
                let child = self.embedded(&from.child(node)?)?;
                let add = functions.cuGraphAddChildGraphNode;
                // SAFETY: the graph that is made, and a live one, which the driver copies.
                check(unsafe { add(&mut copy, into, none, 0, child.raw) })?;
            }
            NodeKind::Empty => {
                // SAFETY: the graph that is made.
                check(unsafe { (functions.cuGraphAddEmptyNode)(&mut copy, into, none, 0) })?;
            }
            NodeKind::EventRecord | NodeKind::EventWait => {
                let records = kind == NodeKind::EventRecord;
                let event = from.event(node, records)?;
                let add = match records {
                    true => functions.cuGraphAddEventRecordNode,
                    false => functions.cuGraphAddEventWaitNode,
                };
                // SAFETY: the graph that is made, and an event that it keeps alive (O2).
                check(unsafe { add(&mut copy, into, none, 0, event) })?;
            }
            NodeKind::BatchMemOp => {
                let mut params = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
                // SAFETY: a batch node of a live graph, and a live out-pointer.
                check(unsafe { (functions.cuGraphBatchMemOpNodeGetParams)(node, &mut params) })?;
                let add = functions.cuGraphAddBatchMemOpNode;
                // SAFETY: as above; the array is the node's, which is not changed meanwhile.
                check(unsafe { add(&mut copy, into, none, 0, &params) })?;
            }
            other => {
                let problem = format!("it has a node of kind `{other}`: it cannot be cloned");
                return Err(not_supported(problem));
            }
        }
        Ok(copy)
    }

    /// A copy of an embedded graph, to be embedded. The driver embeds none that is embedded already,
    /// and copies none that is embedded in a graph with conditions (measured).
    fn embedded(&self, child: &Reader<'_>) -> CudaResult<Graph> {
        let copy = Graph::new(&self.graph.context)?;
        // SAFETY: a graph that is embedded in one that is borrowed.
        let nodes = unsafe { graph_nodes(&self.graph.context, child.raw) }?;
        let notes = vec![Note::default(); nodes.len()];
        self.level(child, &nodes, notes, copy.raw)?;
        Ok(copy)
    }
}
