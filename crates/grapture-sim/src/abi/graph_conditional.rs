//! Conditional handles and nodes.

use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use super::graph_node::Place;
use crate::context::ContextCore;
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
    let context = context(&state, ctx.raw())?;
    let default = (flags == ASSIGN).then_some(default);
    out.write(state.graphs.add_conditional(graph, context, default)?)
}

/// The context that is named: null does not stand for the current one.
fn context(state: &State, context: *mut CUctx_st) -> Result<Arc<ContextCore>, CUresult> {
    let id = state.contexts.find(context.addr()).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    Ok(state.context(id)?.core.clone())
}

/// Adds a conditional node; its parameters then tell its bodies.
pub(super) fn add(
    sim: &Sim,
    place: Place<'_>,
    params: Ptr<CUDA_CONDITIONAL_NODE_PARAMS>,
) -> Answer {
    let mut given = params.read()?;
    let mut state = sim.lock();
    let branch = Branch::from_raw(given.type_, given.size)?;
    let context = context(&state, given.ctx)?;
    let (graph, edges) = place.resolve(&state)?;
    let graphs = &mut state.graphs;
    graphs.graph(graph)?.def.check_dependencies(&edges, false)?;
    let choice = (branch, given.size);
    let node = graphs.new_conditional_node(graph, given.handle, &context, choice)?;
    let bodies = node.handles.as_ptr().expose_provenance();
    let node = graphs.add_node(graph, NodeParams::Conditional(node), &edges)?;
    given.phGraph_out = std::ptr::with_exposed_provenance_mut(bodies);
    params.write(given)?;
    place.out.write(state.graphs.node_handle(node))
}
