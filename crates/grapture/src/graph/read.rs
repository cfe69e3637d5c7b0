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
use crate::retain::Share;
use crate::topology::{Topology, TopologyEdge, TopologyNode};

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
        let full = CUgraphEdgeData {
            type_: CU_GRAPH_DEPENDENCY_TYPE_DEFAULT.0 as u8,
            ..CUgraphEdgeData::default()
        };
        let mut data = vec![full; count];
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

    /// What a node depends on, in the order in which it was told so.
    pub(super) fn dependencies(&self, node: CUgraphNode) -> CudaResult<Vec<CUgraphNode>> {
        let mut data = Vec::new();
        self.list(|functions, nodes, count| {
            if self.context.driver().has(Function::cuGraphNodeGetDependencies_v2) {
                let full = CUgraphEdgeData::default();
                data.resize(*count, full);
                let data = if nodes.is_null() { ptr::null_mut() } else { data.as_mut_ptr() };
                // SAFETY: a node of a live graph; both arrays are null or have room for `count`.
                unsafe { (functions.cuGraphNodeGetDependencies_v2)(node, nodes, data, count) }
            } else {
                // SAFETY: a node of a live graph; the array is null or has room for `count`.
                unsafe { (functions.cuGraphNodeGetDependencies)(node, nodes, count) }
            }
        })
    }

    pub(super) fn topology(&self) -> CudaResult<Topology> {
        let nodes = self.nodes()?;
        let mut operations = Vec::with_capacity(nodes.len());
        for node in &nodes {
            operations.push(TopologyNode::new(self.params(*node)?.operation()));
        }
        let index: HashMap<_, _> =
            nodes.iter().enumerate().map(|(index, node)| (*node, index)).collect();
        let edges = self.edges()?.into_iter().filter_map(|(from, to, data)| {
            let (from, to) = (*index.get(&from)?, *index.get(&to)?);
            Some(TopologyEdge::new(from, to, data.is_programmatic()))
        });
        Topology::new(operations, edges.collect())
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
