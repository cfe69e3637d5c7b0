//! Child graph nodes.

use grapture_sys::*;

use super::Ptr;
use super::array::read_handles;
use super::graph_node::get;
use crate::graph::{ExecGraph, NodeParams};
use crate::sim::{Answer, Sim};

pub(crate) fn cuGraphAddChildGraphNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    child: Ptr<CUgraph_st>,
) -> Answer {
    out.required()?;
    let handles = read_handles(dependencies, count)?;
    let mut state = sim.lock();
    let graph = state.graphs.find_graph(graph.raw())?;
    let child = state.graphs.find_graph(child.raw())?;
    let edges = state.graphs.edges(graph, &handles, None)?;
    let node = state.graphs.add_child(graph, child, &edges)?;
    out.write(state.graphs.node_handle(node))
}

pub(crate) fn cuGraphChildGraphNodeGetGraph(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraph>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Child(graph) => Some(graph.raw()),
        _ => None,
    })
}

pub(crate) fn cuGraphExecChildGraphNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    child: Ptr<CUgraph_st>,
) -> Answer {
    let mut state = sim.lock();
    let exec = state.graphs.find_exec(exec.raw())?;
    let node = state.graphs.find_node(node.raw())?;
    let child = state.graphs.find_graph(child.raw())?;
    let with = ExecGraph::new(&state.graphs, child).map_err(|error| error.code)?;
    let replaced = state.graphs.exec_mut(exec)?.set_child(node, &with);
    drop(state);
    replaced.map(drop)
}
