//! The edges of graphs.

use grapture_sys::*;

use super::Ptr;
use super::array::{check_data_alone, fill, read_edge_data, read_handles, room};
use crate::graph::{Edge, FullEdge, GraphId, Graphs, Node};
use crate::sim::{Answer, Sim};

/// The edges that parallel arrays of a program describe.
fn read_edges(
    graphs: &Graphs,
    graph: GraphId,
    from: &[CUgraphNode],
    to: &[CUgraphNode],
    data: Option<&[crate::graph::EdgeData]>,
) -> Result<Vec<FullEdge>, CUresult> {
    let from = graphs.edges(graph, from, data)?;
    let to = graphs.edges(graph, to, None)?;
    let pair =
        |(from, to): (Edge, Edge)| FullEdge { from: from.node, to: to.node, data: from.data };
    Ok(from.into_iter().zip(to).map(pair).collect())
}

/// Adds or removes the edges that parallel arrays describe.
fn change(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    ends: [Ptr<CUgraphNode>; 2],
    data: Ptr<CUgraphEdgeData>,
    count: usize,
    change: impl FnOnce(&mut Graphs, GraphId, &[FullEdge]) -> Answer,
) -> Answer {
    let [from, to] = ends;
    let (from, to) = (read_handles(from, count)?, read_handles(to, count)?);
    let data = read_edge_data(data, count)?;
    let mut state = sim.lock();
    let id = state.graphs.find_graph(graph.raw())?;
    let edges = read_edges(&state.graphs, id, &from, &to, data.as_deref())?;
    change(&mut state.graphs, id, &edges)
}

pub(crate) fn cuGraphAddDependencies(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    from: Ptr<CUgraphNode>,
    to: Ptr<CUgraphNode>,
    count: usize,
) -> Answer {
    cuGraphAddDependencies_v2(sim, graph, from, to, Ptr::null(), count)
}

pub(crate) fn cuGraphAddDependencies_v2(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    from: Ptr<CUgraphNode>,
    to: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: usize,
) -> Answer {
    change(sim, graph, [from, to], data, count, |graphs, graph, edges| {
        graphs.graph_mut(graph)?.def.add_edges(edges)
    })
}

pub(crate) fn cuGraphRemoveDependencies(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    from: Ptr<CUgraphNode>,
    to: Ptr<CUgraphNode>,
    count: usize,
) -> Answer {
    cuGraphRemoveDependencies_v2(sim, graph, from, to, Ptr::null(), count)
}

pub(crate) fn cuGraphRemoveDependencies_v2(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    from: Ptr<CUgraphNode>,
    to: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: usize,
) -> Answer {
    change(sim, graph, [from, to], data, count, Graphs::remove_edges)
}

pub(crate) fn cuGraphGetEdges(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    from: Ptr<CUgraphNode>,
    to: Ptr<CUgraphNode>,
    count: Ptr<usize>,
) -> Answer {
    cuGraphGetEdges_v2(sim, graph, from, to, Ptr::null(), count)
}

pub(crate) fn cuGraphGetEdges_v2(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    from: Ptr<CUgraphNode>,
    to: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: Ptr<usize>,
) -> Answer {
    if from.is_null() != to.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    check_data_alone(from, data)?;
    let state = sim.lock();
    let graph = state.graphs.graph(state.graphs.find_graph(graph.raw())?)?;
    let edges: Vec<FullEdge> = graph.def.edges().collect();
    let Some(room) = room(from, count)? else { return count.write(edges.len()) };
    if data.is_null() && edges.iter().any(|edge| !edge.data.is_default()) {
        return Err(CUDA_ERROR_LOSSY_QUERY);
    }
    let null = std::ptr::null_mut();
    fill(from, room, edges.iter().map(|edge| graph.handle(edge.from)), null)?;
    fill(to, room, edges.iter().map(|edge| graph.handle(edge.to)), null)?;
    if !data.is_null() {
        let raw = edges.iter().map(|edge| edge.data.to_raw());
        fill(data, room, raw, CUgraphEdgeData::default())?;
    }
    count.write(edges.len().min(room))
}

/// Answers a question for the neighbours of a node.
fn neighbours(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: Ptr<usize>,
    edges: impl Fn(&Node) -> &[Edge],
) -> Answer {
    check_data_alone(out, data)?;
    let state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let graph = state.graphs.graph(node.graph)?;
    let edges = edges(graph.def.node(node.local)?);
    let Some(room) = room(out, count)? else { return count.write(edges.len()) };
    if data.is_null() && edges.iter().any(|edge| !edge.data.is_default()) {
        return Err(CUDA_ERROR_LOSSY_QUERY);
    }
    let handles = edges.iter().map(|edge| graph.handle(edge.node));
    fill(out, room, handles, std::ptr::null_mut())?;
    if !data.is_null() {
        let raw = edges.iter().map(|edge| edge.data.to_raw());
        fill(data, room, raw, CUgraphEdgeData::default())?;
    }
    count.write(edges.len().min(room))
}

pub(crate) fn cuGraphNodeGetDependencies(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraphNode>,
    count: Ptr<usize>,
) -> Answer {
    neighbours(sim, node, out, Ptr::null(), count, Node::dependencies)
}

pub(crate) fn cuGraphNodeGetDependencies_v2(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: Ptr<usize>,
) -> Answer {
    neighbours(sim, node, out, data, count, Node::dependencies)
}

pub(crate) fn cuGraphNodeGetDependentNodes(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraphNode>,
    count: Ptr<usize>,
) -> Answer {
    neighbours(sim, node, out, Ptr::null(), count, Node::dependents)
}

pub(crate) fn cuGraphNodeGetDependentNodes_v2(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: Ptr<usize>,
) -> Answer {
    neighbours(sim, node, out, data, count, Node::dependents)
}
