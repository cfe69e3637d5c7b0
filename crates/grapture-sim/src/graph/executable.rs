//! [`ExecGraph`]: the snapshot of a definition that launches run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, CUgraphInstantiateResult,
    CUresult,
};

use super::definition::{GraphDef, LocalId};
use super::store::{GraphId, Graphs};
use super::user_object::UserRefs;

/// What stood in the way of an instantiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstantiateError {
    /// What the call answers.
    pub(crate) code: CUresult,
    /// What its result says.
    pub(crate) result: CUgraphInstantiateResult,
    /// The offending node and the graph that it is in.
    pub(crate) node: Option<(GraphId, LocalId)>,
}

/// The snapshot of one graph; the graphs that its nodes embed have theirs.
#[derive(Clone, Debug)]
pub(crate) struct ExecGraph {
    /// The graph that it was made from, by whose nodes a program names the nodes here.
    pub(crate) source: GraphId,
    /// Its nodes and edges.
    pub(crate) def: GraphDef,
    /// The nodes, each after what it depends on.
    order: Vec<LocalId>,
    /// The snapshots of the graphs that nodes own.
    parts: BTreeMap<LocalId, Vec<ExecGraph>>,
    /// The references to user objects that launches need.
    pub(crate) users: Arc<UserRefs>,
    /// How many conditional handles the graph has.
    pub(crate) handles: usize,
    /// The nodes that are turned off.
    disabled: BTreeSet<LocalId>,
}

impl ExecGraph {
    /// The snapshot of a graph as it is now.
    pub(crate) fn new(graphs: &Graphs, source: GraphId) -> Result<ExecGraph, InstantiateError> {
        let invalid = |code, node: Option<LocalId>| InstantiateError {
            code,
            result: CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
            node: node.map(|node| (source, node)),
        };
        let graph = graphs.graph(source).map_err(|code| invalid(code, None))?;
        let order = graph.def.topological_order();
        let order = order.map_err(|node| invalid(CUDA_ERROR_INVALID_VALUE, Some(node)))?;
        let mut parts = BTreeMap::new();
        for (id, node) in graph.def.nodes() {
            let owned = node.params.embedded();
            if !owned.is_empty() {
                let snapshot = |part: &GraphId| ExecGraph::new(graphs, *part);
                parts.insert(id, owned.iter().map(snapshot).collect::<Result<_, _>>()?);
            }
        }
        Ok(ExecGraph {
            source,
            def: graph.def.clone(),
            order,
            parts,
            users: Arc::new(graph.users.clone()),
            handles: graph.conditionals.len(),
            disabled: BTreeSet::new(),
        })
    }

    /// The nodes, each after what it depends on.
    pub(crate) fn order(&self) -> &[LocalId] {
        &self.order
    }

    /// The snapshot, of this graph or an embedded one, that was made from a graph.
    pub(crate) fn find(&mut self, source: GraphId) -> Result<&mut ExecGraph, CUresult> {
        if self.source == source {
            return Ok(self);
        }
        let mut found = self.parts.values_mut().flatten().filter_map(|part| part.find(source).ok());
        found.next().ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// The snapshots of the graphs that a node owns.
    pub(crate) fn parts(&self, node: LocalId) -> &[ExecGraph] {
        self.parts.get(&node).map_or(&[], Vec::as_slice)
    }

    /// As [`parts`](ExecGraph::parts), to change them.
    pub(crate) fn parts_mut(&mut self, node: LocalId) -> &mut [ExecGraph] {
        self.parts.get_mut(&node).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The snapshots of the graphs that any node owns.
    pub(crate) fn all_parts(&self) -> impl Iterator<Item = &ExecGraph> {
        self.parts.values().flatten()
    }

    /// Whether it, or a part of it, allocates or frees.
    pub(crate) fn has_memory_nodes(&self) -> bool {
        self.def.has_memory_nodes() || self.all_parts().any(ExecGraph::has_memory_nodes)
    }

    /// Whether a node is turned off.
    pub(crate) fn is_disabled(&self, node: LocalId) -> bool {
        self.disabled.contains(&node)
    }

    /// Turns a node on or off.
    pub(crate) fn set_enabled(&mut self, node: LocalId, enabled: bool) -> Result<(), CUresult> {
        if !self.def.node(node)?.params.can_be_disabled() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if enabled {
            self.disabled.remove(&node);
        } else {
            self.disabled.insert(node);
        }
        Ok(())
    }

    /// All references to user objects, its own and those of embedded graphs.
    pub(crate) fn all_users(&self, into: &mut Vec<Arc<UserRefs>>) {
        into.push(self.users.clone());
        for part in self.all_parts() {
            part.all_users(into);
        }
    }
}
