//! Conditional handles and nodes.

use grapture_sys::*;

use super::Ptr;
use super::graph_node::Place;
use crate::graph::{Branch, NodeParams};
use crate::sim::{Answer, Sim, State};

/// Each launch begins with the default value.
const ASSIGN: u32 = CU_GRAPH_COND_ASSIGN_DEFAULT;

pub(crate) fn cuGraphConditionalHandleCreate(
    sim: &Sim,
    out: Ptr<CUgraphConditionalHandle>,
    graph: Ptr<CUgraph_st>,
    ctx: Ptr<CUctx_st>,
    default: u32,
    flags: u32,
) -> Answer {
    out.required()?;
    if flags & !ASSIGN != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = sim.lock();
    let graph = state.graphs.find_graph(graph.raw())?;
    let id = match ctx.address() {
        0 => state.current()?,
        handle => state.contexts.find(handle).ok_or(CUDA_ERROR_INVALID_VALUE)?,
    };
    let context = (id, state.context(id)?.core.clone());
    let value = (default, flags == ASSIGN);
    let handle = state.graphs.add_conditional(sim, graph, context, value)?;
    out.write(handle)
}

/// Adds a conditional node; its parameters then tell its bodies.
pub(super) fn add(
    sim: &Sim,
    place: Place<'_>,
    params: Ptr<CUDA_CONDITIONAL_NODE_PARAMS>,
) -> Answer {
    let mut given = params.read()?;
    let mut state = sim.lock();
    let (graph, edges) = place.resolve(&state)?;
    let branch = Branch::from_raw(given.type_, given.size)?;
    check_context(&mut state, given.ctx)?;
    let graphs = &mut state.graphs;
    let node = graphs.new_conditional_node(graph, given.handle, branch, given.size, &edges)?;
    let bodies = node.handles.as_ptr().expose_provenance();
    let node = graphs.add_node(graph, NodeParams::Conditional(node), &edges)?;
    given.phGraph_out = std::ptr::with_exposed_provenance_mut(bodies);
    params.write(given)?;
    place.out.write(state.graphs.node_handle(node))
}

/// Refuses a context that is not there.
fn check_context(state: &mut State, context: *mut CUctx_st) -> Answer {
    super::graph_memory::context(state, context).map(drop)
}
