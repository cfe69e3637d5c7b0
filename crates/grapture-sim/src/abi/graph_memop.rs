//! Nodes of batched memory operations.

use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use super::graph_memory::context;
use super::graph_node::{Place, add, exec_set, set};
use super::host::{MOST_OPS, mem_ops};
use crate::graph::{BatchNode, NodeParams};
use crate::sim::{Answer, Sim, State};

/// The batch of node parameters.
pub(super) fn batch(
    state: &mut State,
    params: Ptr<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Result<NodeParams, CUresult> {
    let given = params.read()?;
    if given.flags != 0 || given.count > MOST_OPS || given.ctx.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller passed the struct, whose array the driver's documentation demands to be
    // of `count` operations that can be read during the call.
    let list = unsafe { Ptr::trust(given.paramArray) };
    let ops = mem_ops(given.count, list)?;
    let context = context(state, given.ctx)?;
    Ok(NodeParams::MemOps(BatchNode::new(context, Arc::from(ops))))
}

pub(crate) fn cuGraphAddBatchMemOpNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add(sim, place, |state, _| batch(state, params))
}

pub(crate) fn cuGraphBatchMemOpNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let NodeParams::MemOps(node) = state.graphs.params(node)? else {
        return Err(CUDA_ERROR_INVALID_VALUE);
    };
    out.write(CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: state.handle_of(&node.batch.context),
        count: node.batch.work.len() as u32,
        paramArray: node.params.as_ptr().cast_mut(),
        flags: 0,
    })
}

pub(crate) fn cuGraphBatchMemOpNodeSetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Answer {
    set(sim, node, |state, _| batch(state, params))
}

pub(crate) fn cuGraphExecBatchMemOpNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Answer {
    exec_set(sim, exec, node, |state, _| batch(state, params))
}
