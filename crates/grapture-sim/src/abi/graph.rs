//! Graphs as wholes: making, copying, asking, printing.

use core::ffi::c_char;

use grapture_sys::*;

use super::Ptr;
use super::array::answer;
use crate::sim::{Answer, Sim};

pub(crate) fn cuGraphCreate(sim: &Sim, out: Ptr<CUgraph>, flags: u32) -> Answer {
    out.required()?;
    if flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let graph = sim.lock().graphs.create();
    out.write(graph.raw())
}

pub(crate) fn cuGraphDestroy(sim: &Sim, graph: Ptr<CUgraph_st>) -> Answer {
    let mut state = sim.lock();
    let graph = state.graphs.find_graph(graph.raw())?;
    let removed = state.graphs.destroy(graph)?;
    drop(state);
    drop(removed);
    Ok(())
}

pub(crate) fn cuGraphClone(sim: &Sim, out: Ptr<CUgraph>, original: Ptr<CUgraph_st>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let original = state.graphs.find_graph(original.raw())?;
    let copy = state.graphs.copy(original)?;
    out.write(copy.raw())
}

pub(crate) fn cuGraphNodeFindInClone(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    original: Ptr<CUgraphNode_st>,
    clone: Ptr<CUgraph_st>,
) -> Answer {
    // Where none is found, it is null.
    out.required()?.write(std::ptr::null_mut())?;
    let state = sim.lock();
    let node = state.graphs.find_node(original.raw())?;
    let copy = state.graphs.find_graph(clone.raw())?;
    let found = state.graphs.find_in_copy(node, copy)?;
    out.write(state.graphs.node_handle(found))
}

pub(crate) fn cuGraphGetNodes(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    nodes: Ptr<CUgraphNode>,
    count: Ptr<usize>,
) -> Answer {
    let state = sim.lock();
    let graph = state.graphs.graph(state.graphs.find_graph(graph.raw())?)?;
    let all = graph.def.nodes().map(|(id, _)| graph.handle(id)).collect();
    answer(nodes, count, all, std::ptr::null_mut())
}

pub(crate) fn cuGraphGetRootNodes(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    nodes: Ptr<CUgraphNode>,
    count: Ptr<usize>,
) -> Answer {
    let state = sim.lock();
    let graph = state.graphs.graph(state.graphs.find_graph(graph.raw())?)?;
    let roots = graph.def.roots().map(|id| graph.handle(id)).collect();
    answer(nodes, count, roots, std::ptr::null_mut())
}

pub(crate) fn cuGraphGetId(sim: &Sim, graph: Ptr<CUgraph_st>, out: Ptr<u32>) -> Answer {
    let state = sim.lock();
    let graph = state.graphs.graph(state.graphs.find_graph(graph.raw())?)?;
    out.write(graph.number)
}

pub(crate) fn cuGraphDebugDotPrint(
    sim: &Sim,
    graph: Ptr<CUgraph_st>,
    path: Ptr<c_char>,
    flags: u32,
) -> Answer {
    let path = path.text()?.to_str().map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let state = sim.lock();
    let graph = state.graphs.find_graph(graph.raw())?;
    let text = state.graphs.dot(graph, flags)?;
    drop(state);
    std::fs::write(path, text).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}
