//! What the body of a conditional node has, and can have.

use std::collections::HashSet;

use grapture_sys::{CUgraph, CUgraphNode};

use crate::context::Context;
use crate::error::CudaResult;
use crate::graph::read::Reader;
use crate::graph::{GraphKey, Node, NodeKind, NodeNames};
use crate::retain::{Owners, Share};

/// The nodes of a graph, but for the first `before`, that no other waits for.
///
/// # Safety
///
/// The graph is live and of the context, and nobody else uses it now.
pub(crate) unsafe fn body_leaves(
    context: &Context,
    graph: CUgraph,
    before: usize,
) -> CudaResult<Vec<CUgraphNode>> {
    let share = Share::new(Owners::default());
    // SAFETY: the caller's promise. No name of a kernel is asked for.
    let reader = unsafe { Reader::new(graph, context, &share) };
    let waited: HashSet<_> = reader.edges()?.into_iter().map(|(from, ..)| from).collect();
    let nodes = reader.nodes()?.into_iter().skip(before);
    Ok(nodes.filter(|node| !waited.contains(node)).collect())
}

/// The first node of a graph, by its number, that the body of a conditional node cannot have: by
/// its kind, or by that of a node of the graph in it.
///
/// # Safety
///
/// As for [`body_leaves`].
pub(crate) unsafe fn body_misfit(
    context: &Context,
    graph: CUgraph,
) -> CudaResult<Option<(usize, NodeKind)>> {
    let share = Share::new(Owners::default());
    // SAFETY: the caller's promise. No name of a kernel is asked for.
    let reader = unsafe { Reader::new(graph, context, &share) };
    for (index, node) in reader.nodes()?.into_iter().enumerate() {
        let kind = reader.kind(node)?;
        let inner = match kind {
            NodeKind::ChildGraph => {
                // SAFETY: the graph in a node of that one.
                unsafe { body_misfit(context, reader.child(node)?.raw) }?.map(|(_, kind)| kind)
            }
            NodeKind::Kernel
            | NodeKind::Memcpy
            | NodeKind::Memset
            | NodeKind::Empty
            // Its own bodies were looked at when they were made.
            | NodeKind::Conditional => None,
            other => Some(other),
        };
        if let Some(kind) = inner {
            return Ok(Some((index, kind)));
        }
    }
    Ok(None)
}

/// The nodes of a graph, in the order in which they were made, and under names that none else has.
///
/// # Safety
///
/// As [`body_leaves`].
pub(crate) unsafe fn graph_nodes(context: &Context, graph: CUgraph) -> CudaResult<Vec<Node>> {
    let share = Share::new(Owners::default());
    // SAFETY: the caller's promise. No name of a kernel is asked for.
    let reader = unsafe { Reader::new(graph, context, &share) };
    let names = NodeNames::of(GraphKey::new());
    let nodes = reader.nodes()?.into_iter();
    nodes.map(|raw| Ok(Node { id: names.id(raw), kind: reader.kind(raw)? })).collect()
}
