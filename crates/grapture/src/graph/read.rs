//! [`Reader`]: what the driver tells of a graph, also of one that is embedded in another.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ptr;

use grapture_sys::{
    CU_GRAPH_DEPENDENCY_TYPE_DEFAULT, CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeType,
    CUresult, Function, Functions,
};

use crate::context::Context;
use crate::error::{CudaResult, check};
use crate::graph::node::{EdgeData, NodeKind};
use crate::graph::{Body, Branching, Note};
use crate::retain::Share;
use crate::topology::names::Names;
use crate::topology::{OperationSpec, Topology, TopologyEdge, TopologyNode};

/// The data of an edge from a driver that tells none.
const FULL: CUgraphEdgeData = CUgraphEdgeData {
    from_port: 0,
    to_port: 0,
    type_: CU_GRAPH_DEPENDENCY_TYPE_DEFAULT.0 as u8,
    reserved: [0; 5],
};

/// On which side of a node to look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What it waits for.
    Before,
    /// What waits for it.
    After,
}

/// A graph that is read.
pub(super) struct Reader<'a> {
    pub(super) raw: CUgraph,
    pub(super) context: &'a Context,
    pub(super) share: &'a Share,
    _graph: PhantomData<&'a CUgraph>,
}

impl<'a> Reader<'a> {
    /// # Safety
    ///
    /// The graph lives for `'a` and nobody changes it meanwhile; `share` is what its nodes use, or
    /// more.
    pub(super) unsafe fn new(raw: CUgraph, context: &'a Context, share: &'a Share) -> Reader<'a> {
        Reader { raw, context, share, _graph: PhantomData }
    }

    pub(super) fn functions(&self) -> &'a Functions {
        self.context.functions()
    }

    pub(super) fn node_count(&self) -> CudaResult<usize> {
        let mut count = 0;
        // SAFETY: a live graph; with a null array the call only writes the count.
        check(unsafe {
            (self.functions().cuGraphGetNodes)(self.raw, ptr::null_mut(), &mut count)
        })?;
        Ok(count)
    }

    pub(super) fn nodes(&self) -> CudaResult<Vec<CUgraphNode>> {
        self.list(|functions, nodes, count| {
            // SAFETY: a live graph; the array is null or has room for `count` nodes.
            unsafe { (functions.cuGraphGetNodes)(self.raw, nodes, count) }
        })
    }

    pub(super) fn roots(&self) -> CudaResult<Vec<CUgraphNode>> {
        self.list(|functions, nodes, count| {
            // SAFETY: a live graph; the array is null or has room for `count` nodes.
            unsafe { (functions.cuGraphGetRootNodes)(self.raw, nodes, count) }
        })
    }

    pub(super) fn kind(&self, node: CUgraphNode) -> CudaResult<NodeKind> {
        let mut kind = CUgraphNodeType(u32::MAX);
        // SAFETY: a node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphNodeGetType)(node, &mut kind) })?;
        Ok(kind.into())
    }

    pub(super) fn edges(&self) -> CudaResult<Vec<(CUgraphNode, CUgraphNode, EdgeData)>> {
        let mut count = 0;
        check(self.raw_edges(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &mut count))?;
        if count == 0 {
            // Measured: the driver refuses arrays without room.
            return Ok(Vec::new());
        }
        let mut from = vec![ptr::null_mut(); count];
        let mut to = vec![ptr::null_mut(); count];
        let mut data = vec![FULL; count];
        check(self.raw_edges(from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr(), &mut count))?;
        let edges = from.into_iter().zip(to).zip(data).take(count);
        Ok(edges.map(|((from, to), data)| (from, to, data.into())).collect())
    }

    /// Edge data came with driver 12.3; before it every dependency is a full one.
    fn raw_edges(
        &self,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: &mut usize,
    ) -> CUresult {
        let functions = self.functions();
        if self.context.driver().has(Function::cuGraphGetEdges_v2) {
            // SAFETY: a live graph; the arrays are all null or all have room for `count` edges.
            unsafe { (functions.cuGraphGetEdges_v2)(self.raw, from, to, data, count) }
        } else {
            // SAFETY: as above.
            unsafe { (functions.cuGraphGetEdges)(self.raw, from, to, count) }
        }
    }

    /// The nodes that a node waits for, or that wait for it, and for what.
    pub(super) fn neighbours(
        &self,
        node: CUgraphNode,
        side: Side,
    ) -> CudaResult<Vec<(CUgraphNode, EdgeData)>> {
        let mut count = 0;
        check(self.raw_neighbours(node, side, ptr::null_mut(), ptr::null_mut(), &mut count))?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut nodes, mut data) = (vec![ptr::null_mut(); count], vec![FULL; count]);
        let (into, carried) = (nodes.as_mut_ptr(), data.as_mut_ptr());
        check(self.raw_neighbours(node, side, into, carried, &mut count))?;
        let data = data.into_iter().map(EdgeData::from);
        Ok(nodes.into_iter().zip(data).take(count).collect())
    }

    /// As for the edges of the graph.
    fn raw_neighbours(
        &self,
        node: CUgraphNode,
        side: Side,
        nodes: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: &mut usize,
    ) -> CUresult {
        let functions = self.functions();
        if self.context.driver().has(Function::cuGraphNodeGetDependencies_v2) {
            let get = match side {
                Side::Before => functions.cuGraphNodeGetDependencies_v2,
                Side::After => functions.cuGraphNodeGetDependentNodes_v2,
            };
            // SAFETY: a node of this graph; the arrays are both null or both have room for `count`.
            return unsafe { get(node, nodes, data, count) };
        }
        let get = match side {
            Side::Before => functions.cuGraphNodeGetDependencies,
            Side::After => functions.cuGraphNodeGetDependentNodes,
        };
        // SAFETY: as above.
        unsafe { get(node, nodes, count) }
    }

    /// What a node depends on, in the order in which it was told so.
    pub(super) fn dependencies(&self, node: CUgraphNode) -> CudaResult<Vec<CUgraphNode>> {
        let before = self.neighbours(node, Side::Before)?;
        Ok(before.into_iter().map(|(node, _)| node).collect())
    }

    /// The graph as plain data, with what is known of each node.
    pub(super) fn described(&self, names: &mut Names<'_>, notes: &[Note]) -> CudaResult<Topology> {
        let nodes = self.nodes()?;
        // Other nodes than these were there when the notes were made: which they are is not known.
        let notes = if notes.len() == nodes.len() { notes } else { &[] };
        let nothing = Note::default();
        let mut specs = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let note = notes.get(index).unwrap_or(&nothing);
            let mut spec = self.spec(*node, names, note)?;
            spec = note.source_line().into_iter().fold(spec, TopologyNode::with_line);
            spec = note.label.as_deref().into_iter().fold(spec, TopologyNode::with_label);
            specs.push(spec);
        }
        let index: HashMap<_, _> =
            nodes.iter().enumerate().map(|(index, node)| (*node, index)).collect();
        let edges = self.edges()?.into_iter().filter_map(|(from, to, data)| {
            let (from, to) = (*index.get(&from)?, *index.get(&to)?);
            Some(TopologyEdge::new(from, to, data.is_programmatic()))
        });
        Topology::new(specs, edges.collect())
    }

    fn spec(
        &self,
        node: CUgraphNode,
        names: &mut Names<'_>,
        note: &Note,
    ) -> CudaResult<TopologyNode> {
        // The memory of a graph within has the names that it has here.
        if let Some(branching) = note.branching() {
            return self.branching(branching, names);
        }
        if self.kind(node)? == NodeKind::ChildGraph {
            let child = self.child(node)?.described(names, note.child())?;
            return Ok(TopologyNode::new(OperationSpec::ChildGraph(child)));
        }
        Ok(TopologyNode::described(self.params(node, note)?, names))
    }

    /// A conditional node of this graph.
    fn branching(&self, node: &Branching, names: &mut Names<'_>) -> CudaResult<TopologyNode> {
        let word = node.word.map(|word| names.address(word, false));
        let bodies = node.bodies.iter();
        let bodies = bodies.map(|body| self.body(body).described(names, &body.notes));
        let bodies = bodies.collect::<CudaResult<_>>()?;
        let spec = OperationSpec::Conditional { form: node.form(), bodies };
        let condition = word.unwrap_or_else(|| format!("condition {:#x}", node.handle));
        let spec = TopologyNode::new(spec).with_parameter("by", condition);
        Ok(match node.default {
            Some(default) => spec.with_parameter("default", format!("{default:#x}")),
            None => spec,
        })
    }

    /// The body of a conditional node of this graph.
    pub(super) fn body(&self, body: &Body) -> Reader<'a> {
        // SAFETY: the driver's graph, which lives as long as the node, in a graph that is borrowed; a
        // node that is removed takes its note along. What the body uses is part of what that graph
        // owns (O2).
        unsafe { Reader::new(body.graph, self.context, self.share) }
    }

    /// The protocol of two calls: the count, then the nodes.
    fn list(
        &self,
        mut call: impl FnMut(&Functions, *mut CUgraphNode, &mut usize) -> CUresult,
    ) -> CudaResult<Vec<CUgraphNode>> {
        let mut count = 0;
        check(call(self.functions(), ptr::null_mut(), &mut count))?;
        let mut nodes = vec![ptr::null_mut(); count];
        if count > 0 {
            check(call(self.functions(), nodes.as_mut_ptr(), &mut count))?;
            nodes.truncate(count);
        }
        Ok(nodes)
    }
}
