//! Child graph nodes.

use grapture_sys::*;

use super::Ptr;
use super::graph_node::Place;
use crate::graph::{ExecGraph, NodeParams};
use crate::sim::{Answer, Sim};

/// Whether a graph is moved into its node; else it is copied, also for a value without a meaning.
fn is_moved(ownership: CUgraphChildGraphNodeOwnership) -> bool {
    ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
}

/// Adds a node that embeds a graph.
pub(super) fn add(sim: &Sim, place: Place<'_>, given: CUDA_CHILD_GRAPH_NODE_PARAMS) -> Answer {
    let moved = is_moved(given.ownership);
    let mut state = sim.lock();
    let (graph, edges) = place.resolve(&state)?;
    let child = state.graphs.find_graph(given.graph)?;
    let node = state.graphs.add_child(graph, (child, moved), &edges)?;
    place.out.write(state.graphs.node_handle(node))
}

pub(crate) fn cuGraphAddChildGraphNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    child: Ptr<CUgraph_st>,
) -> Answer {
    let ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    let given = CUDA_CHILD_GRAPH_NODE_PARAMS { graph: child.raw(), ownership };
    add(sim, Place { out, graph, dependencies, data: Ptr::null(), count }, given)
}

pub(crate) fn cuGraphChildGraphNodeGetGraph(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraph>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    match state.graphs.params(node)? {
        NodeParams::Child(child) => out.write(child.raw()),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Replaces the graph that a node embeds.
pub(super) fn set(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    given: CUDA_CHILD_GRAPH_NODE_PARAMS,
) -> Answer {
    let moved = is_moved(given.ownership);
    let mut state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let child = state.graphs.find_graph(given.graph)?;
    let removed = state.graphs.replace_child(node, child, moved)?;
    drop(state);
    drop(removed);
    Ok(())
}

/// Gives a child graph node of an executable the parameters of a graph of the same shape.
pub(super) fn exec_set(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    child: *mut CUgraph_st,
) -> Answer {
    let mut state = sim.lock();
    let exec = state.graphs.find_exec(exec.raw())?;
    let node = state.graphs.find_node(node.raw())?;
    let child = state.graphs.find_graph(child)?;
    let with = ExecGraph::new(&state.graphs, child).map_err(|error| error.code)?;
    let replaced = state.graphs.exec_mut(exec)?.set_child(node, &with);
    // What was replaced and what was read may hold user objects.
    drop(state);
    drop(with);
    replaced.map(drop)
}

pub(crate) fn cuGraphExecChildGraphNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    child: Ptr<CUgraph_st>,
) -> Answer {
    exec_set(sim, exec, node, child.raw())
}
