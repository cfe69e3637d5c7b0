//! The update of an executable from a graph of the same shape.
//!
//! The function has two versions. The second pairs nodes from the ends backwards: the nodes that
//! nothing depends on, the last made first, then the dependencies of each pair in the order they were
//! given, pair after pair. The first pairs them as they were made.

use std::collections::{HashMap, VecDeque};

use grapture_sys::{
    CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, CUgraphExecUpdateResult,
};

use super::definition::{GraphDef, LocalId, Node};
use super::executable::ExecGraph;
use super::params::NodeParams;
use super::store::{GraphId, Graphs};
use crate::work::{CopyWork, FillWork, LaunchAttributes, MemOp, Place};

/// Why an update was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateError {
    /// The driver's reason.
    pub(crate) result: CUgraphExecUpdateResult,
    /// The node of the new graph that does not fit.
    pub(crate) node: Option<(GraphId, LocalId)>,
    /// Its dependency that does not fit.
    pub(crate) from: Option<(GraphId, LocalId)>,
}

/// How an update goes about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// The version of the function.
    pub(crate) version: Version,
    /// Whether the executable was made to run kernels by their priorities, which then stay.
    pub(crate) by_priority: bool,
    /// Whether it was launched or uploaded: the clusters of its kernels stay then.
    pub(crate) uploaded: bool,
}

/// A version of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// That of 10.2.
    First,
    /// That of 12.0.
    Second,
}

impl Version {
    /// The nodes of two graphs of the same shape, as pairs (new, old).
    fn pair(self, old: &GraphDef, new: &GraphDef) -> Result<Vec<(LocalId, LocalId)>, Mismatch> {
        match self {
            Version::First => pair_in_order(old, new),
            Version::Second => pair(old, new),
        }
    }
}

/// The executable with the parameters of a graph; the executable itself is untouched.
pub(crate) fn updated(
    exec: &ExecGraph,
    graphs: &Graphs,
    graph: GraphId,
    manner: Manner,
) -> Result<ExecGraph, UpdateError> {
    let fresh = ExecGraph::new(graphs, graph).map_err(|error| UpdateError {
        result: CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
        node: error.node,
        from: None,
    })?;
    merge(exec, &fresh, manner)
}

/// Refuses a graph of another shape.
pub(crate) fn check_shape(
    exec: &ExecGraph,
    graphs: &Graphs,
    graph: GraphId,
    version: Version,
) -> Result<(), UpdateError> {
    let gone = |_| Mismatch::default().located(graph);
    let new = &graphs.graph(graph).map_err(gone)?.def;
    version.pair(&exec.def, new).map(drop).map_err(|mismatch| mismatch.located(graph))
}

/// `old` with the parameters of `new`.
pub(crate) fn merge(
    old: &ExecGraph,
    new: &ExecGraph,
    manner: Manner,
) -> Result<ExecGraph, UpdateError> {
    let pairs = manner.version.pair(&old.def, &new.def);
    let pairs = pairs.map_err(|mismatch| mismatch.located(new.source))?;
    let mut result = old.clone();
    result.users = new.users.clone();
    result.handles = result.handles.max(new.handles);
    for (new_id, old_id) in pairs {
        let refuse =
            |reason| UpdateError { result: reason, node: Some((new.source, new_id)), from: None };
        let missing = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        let new_node = new.def.node(new_id).map_err(|_| refuse(missing))?;
        let params = result.def.params_mut(old_id).map_err(|_| refuse(missing))?;
        check_change(params, &new_node.params).map_err(refuse)?;
        check_attributes(params, &new_node.params, manner.by_priority).map_err(refuse)?;
        params.take(&new_node.params, manner.uploaded);
        let parts = old.parts(old_id).iter().zip(new.parts(new_id));
        let merged =
            parts.map(|(part, with)| merge(part, with, manner)).collect::<Result<Vec<_>, _>>()?;
        for (part, merged) in result.parts_mut(old_id).iter_mut().zip(merged) {
            *part = merged;
        }
    }
    Ok(result)
}

/// Refuses attributes of kernels that an update cannot change.
fn check_attributes(
    old: &NodeParams,
    new: &NodeParams,
    by_priority: bool,
) -> Result<(), CUgraphExecUpdateResult> {
    let (NodeParams::Kernel(old), NodeParams::Kernel(new)) = (old, new) else { return Ok(()) };
    let (old, new) = (old.launch.work.attributes, new.launch.work.attributes);
    let priority = |attributes: LaunchAttributes| attributes.priority.unwrap_or(0);
    let same =
        old.cooperative == new.cooperative && (!by_priority || priority(old) == priority(new));
    if same { Ok(()) } else { Err(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED) }
}

/// Refuses the parameters that an executable node cannot take.
pub(crate) fn check_change(
    old: &NodeParams,
    new: &NodeParams,
) -> Result<(), CUgraphExecUpdateResult> {
    let changed = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    let fits = |fits: bool| if fits { Ok(()) } else { Err(changed) };
    match (old, new) {
        (NodeParams::Kernel(old), NodeParams::Kernel(new)) => {
            if old.launch.context.key == new.launch.context.key {
                Ok(())
            } else {
                Err(CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE)
            }
        }
        (NodeParams::Copy(old), NodeParams::Copy(new)) => {
            let kind = |end: &Place| (end.kind, end.origin);
            let same_kinds = kind(&old.work.source) == kind(&new.work.source)
                && kind(&old.work.target) == kind(&new.work.target);
            let linear = |copy: &CopyWork| copy.height <= 1 && copy.depth <= 1;
            let (a, b) = (&old.work, &new.work);
            // A copy of several rows stays exactly as it is.
            let same_extent = (a.width, a.height, a.depth) == (b.width, b.height, b.depth);
            let same = same_extent && (a.source, a.target) == (b.source, b.target);
            let takes = same || (same_kinds && linear(a) && linear(b));
            fits(takes)
        }
        (NodeParams::Fill(old), NodeParams::Fill(new)) => {
            let (a, b) = (&old.work, &new.work);
            let shape = |fill: &FillWork| (fill.width, fill.height, fill.element, fill.pitch);
            fits(shape(a) == shape(b) || (a.height <= 1 && b.height <= 1))
        }
        (NodeParams::MemOps(old), NodeParams::MemOps(new)) => {
            let (a, b) = (&old.batch, &new.batch);
            let kinds = a.work.iter().map(MemOp::kind).eq(b.work.iter().map(MemOp::kind));
            fits(kinds && a.context.key == b.context.key)
        }
        (NodeParams::Conditional(old), NodeParams::Conditional(new)) => {
            let same = old.branch == new.branch
                && old.bodies.len() == new.bodies.len()
                && old.conditional.handle == new.conditional.handle;
            if same { Ok(()) } else { Err(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED) }
        }
        (old, new) if old.kind() != new.kind() => Err(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED),
        (NodeParams::Empty, _)
        | (NodeParams::Host(_), _)
        | (NodeParams::Child(_), _)
        | (NodeParams::Alloc(_), _)
        | (NodeParams::Free(_), _)
        | (NodeParams::Record(_), _)
        | (NodeParams::Wait(_), _) => Ok(()),
        _ => Err(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED),
    }
}

/// Where two shapes differ, in terms of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mismatch {
    result: CUgraphExecUpdateResult,
    node: Option<LocalId>,
    from: Option<LocalId>,
}

impl Default for Mismatch {
    fn default() -> Mismatch {
        Mismatch { result: CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node: None, from: None }
    }
}

impl Mismatch {
    fn located(self, graph: GraphId) -> UpdateError {
        UpdateError {
            result: self.result,
            node: self.node.map(|node| (graph, node)),
            from: self.from.map(|node| (graph, node)),
        }
    }
}

/// The nodes of two graphs of the same shape, as pairs (new, old) with the ends first, each of the
/// same kind.
fn pair(old: &GraphDef, new: &GraphDef) -> Result<Vec<(LocalId, LocalId)>, Mismatch> {
    if old.nodes().len() != new.nodes().len() {
        return Err(Mismatch::default());
    }
    let (old_ends, new_ends) = (ends(old), ends(new));
    if old_ends.len() != new_ends.len() {
        let more = new_ends.len() > old_ends.len();
        return Err(Mismatch {
            node: new_ends.first().copied().filter(|_| more),
            ..Mismatch::default()
        });
    }
    let mut open: VecDeque<(LocalId, LocalId)> = new_ends.into_iter().zip(old_ends).rev().collect();
    let mut paired: HashMap<LocalId, LocalId> = open.iter().copied().collect();
    let mut taken: HashMap<LocalId, LocalId> = open.iter().map(|(new, old)| (*old, *new)).collect();
    let mut pairs = Vec::new();
    while let Some((new_id, old_id)) = open.pop_front() {
        pairs.push((new_id, old_id));
        let edges =
            |def: &GraphDef, id| def.node(id).map(Node::dependencies).unwrap_or_default().to_vec();
        let (new_edges, old_edges) = (edges(new, new_id), edges(old, old_id));
        if new_edges.len() != old_edges.len() {
            return Err(Mismatch { node: Some(new_id), ..Mismatch::default() });
        }
        for (new_edge, old_edge) in new_edges.into_iter().zip(old_edges) {
            let fresh = !paired.contains_key(&new_edge.node) && !taken.contains_key(&old_edge.node);
            if fresh {
                paired.insert(new_edge.node, old_edge.node);
                taken.insert(old_edge.node, new_edge.node);
                open.push_back((new_edge.node, old_edge.node));
            }
            let same = paired.get(&new_edge.node) == Some(&old_edge.node);
            if !same || new_edge.data != old_edge.data {
                let (node, from) = (Some(new_id), Some(new_edge.node));
                return Err(Mismatch { node, from, ..Mismatch::default() });
            }
        }
        if let (Ok(old_node), Ok(new_node)) = (old.node(old_id), new.node(new_id)) {
            let refused = |result| Mismatch { result, node: Some(new_id), from: None };
            check_change(&old_node.params, &new_node.params).map_err(refused)?;
        }
    }
    Ok(pairs)
}

/// The nodes of two graphs in the order of their making, as pairs (new, old), each of the same kind
/// and with the same nodes that depend on it.
fn pair_in_order(old: &GraphDef, new: &GraphDef) -> Result<Vec<(LocalId, LocalId)>, Mismatch> {
    if old.nodes().len() != new.nodes().len() {
        let result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
        return Err(Mismatch { result, ..Mismatch::default() });
    }
    let ids = |def: &GraphDef| def.nodes().map(|(id, _)| id).collect::<Vec<_>>();
    let (old_ids, new_ids) = (ids(old), ids(new));
    let place = |ids: &[LocalId], node| ids.iter().position(|id| *id == node);
    let pairs = new.nodes().zip(old.nodes()).map(|((new_id, new_node), (old_id, old_node))| {
        let refused = |result| Mismatch { result, node: Some(new_id), from: None };
        let edges = |ids: &[LocalId], node: &Node| -> Vec<_> {
            node.dependents().iter().map(|edge| (place(ids, edge.node), edge.data)).collect()
        };
        if edges(&new_ids, new_node) != edges(&old_ids, old_node) {
            return Err(refused(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED));
        }
        check_change(&old_node.params, &new_node.params).map_err(refused)?;
        Ok((new_id, old_id))
    });
    pairs.collect()
}

/// The nodes that nothing depends on, in the order of making.
fn ends(def: &GraphDef) -> Vec<LocalId> {
    def.nodes().filter(|(_, node)| node.dependents().is_empty()).map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::edge::Edge;
    use super::*;

    /// A graph of empty nodes, each with the nodes it depends on by their numbers.
    fn graph(nodes: &[&[u32]]) -> GraphDef {
        let mut def = GraphDef::default();
        for after in nodes {
            let after: Vec<Edge> = after.iter().map(|id| Edge::full(LocalId(*id))).collect();
            def.add_node(NodeParams::Empty, &after).expect("a node");
        }
        def
    }

    #[test]
    fn the_same_shape_in_another_order_of_making_pairs() {
        let diamond = graph(&[&[], &[0], &[0], &[1, 2]]);
        let other = graph(&[&[], &[0], &[0], &[2, 1]]);
        let pairs = pair(&diamond, &other).expect("the same shape");
        assert!(pairs.contains(&(LocalId(2), LocalId(1))));
        assert!(pairs.contains(&(LocalId(1), LocalId(2))));
    }

    #[test]
    fn differences_name_the_node() {
        let at = |node, from: Option<u32>| {
            let (node, from) = (Some(LocalId(node)), from.map(LocalId));
            Err(Mismatch { node, from, ..Mismatch::default() })
        };
        let chain = graph(&[&[], &[0], &[1]]);
        assert_eq!(pair(&chain, &graph(&[&[], &[0]])), Err(Mismatch::default()));
        let two_ends = pair(&chain, &graph(&[&[], &[0], &[0]]));
        assert_eq!(two_ends, at(1, None));
        let wide = pair(&chain, &graph(&[&[], &[], &[0, 1]]));
        assert_eq!(wide, at(2, None));
        let crossed = graph(&[&[], &[], &[0, 1], &[2, 0]]);
        let other = pair(&crossed, &graph(&[&[], &[], &[0, 1], &[2, 1]]));
        assert_eq!(other, at(2, Some(0)));
        let fewer = pair(&graph(&[&[], &[]]), &graph(&[&[], &[0]]));
        assert_eq!(fewer, Err(Mismatch::default()));
    }
}
