//! Nodes of any kind, by the one struct that can describe them all.

use grapture_sys::*;

use super::graph_kernel::{KernelParams, attributes_of};
use super::graph_node::{Place, add, event, exec_set, host, set};
use super::{Ptr, graph_allocation, graph_child, graph_conditional, graph_memop, graph_memory};
use crate::graph::{GraphId, NodeParams};
use crate::sim::{Answer, Sim, State};
use crate::work::LaunchAttributes;

/// The parameters of one kind inside the struct.
fn body<T>(params: Ptr<CUgraphNodeParams>) -> Result<Ptr<T>, CUresult> {
    let offset = std::mem::offset_of!(CUgraphNodeParams, __bindgen_anon_1);
    Ok(params.cast::<u8>().at(offset)?.cast())
}

/// The kind that the struct describes. What is reserved, and what the kind does not use, must be
/// zero.
fn kind(params: Ptr<CUgraphNodeParams>) -> Result<CUgraphNodeType, CUresult> {
    let given = params.read()?;
    let used = used_bytes(given.type_).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let bytes = body::<u8>(params)?.read_all(size_of_val(&given.__bindgen_anon_1))?;
    let unused = bytes.get(used..).unwrap_or_default();
    let clean = given.reserved0 == [0; 3] && given.reserved2 == 0;
    let clean = clean && unused.iter().all(|byte| *byte == 0);
    if clean { Ok(given.type_) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// The bytes of the parameters of a kind; nothing for what is no kind.
fn used_bytes(kind: CUgraphNodeType) -> Option<usize> {
    Some(match kind {
        CU_GRAPH_NODE_TYPE_EMPTY => 0,
        CU_GRAPH_NODE_TYPE_KERNEL => size_of::<CUDA_KERNEL_NODE_PARAMS_v3>(),
        CU_GRAPH_NODE_TYPE_MEMCPY => size_of::<CUDA_MEMCPY_NODE_PARAMS>(),
        CU_GRAPH_NODE_TYPE_MEMSET => size_of::<CUDA_MEMSET_NODE_PARAMS_v2>(),
        // What a newer driver knows beyond this is unused here.
        CU_GRAPH_NODE_TYPE_HOST => size_of::<CUDA_HOST_NODE_PARAMS_v1>(),
        CU_GRAPH_NODE_TYPE_GRAPH => size_of::<CUDA_CHILD_GRAPH_NODE_PARAMS>(),
        CU_GRAPH_NODE_TYPE_WAIT_EVENT => size_of::<CUDA_EVENT_WAIT_NODE_PARAMS>(),
        CU_GRAPH_NODE_TYPE_EVENT_RECORD => size_of::<CUDA_EVENT_RECORD_NODE_PARAMS>(),
        CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL => size_of::<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2>(),
        CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT => size_of::<CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2>(),
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => size_of::<CUDA_MEM_ALLOC_NODE_PARAMS_v2>(),
        CU_GRAPH_NODE_TYPE_MEM_FREE => size_of::<CUDA_MEM_FREE_NODE_PARAMS>(),
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => size_of::<CUDA_BATCH_MEM_OP_NODE_PARAMS_v2>(),
        CU_GRAPH_NODE_TYPE_CONDITIONAL => size_of::<CUDA_CONDITIONAL_NODE_PARAMS>(),
        _ => return None,
    })
}

/// The node that the struct describes, of a kind whose parameters can be replaced: the others are
/// left to the caller.
fn node(
    sim: &Sim,
    state: &mut State,
    params: Ptr<CUgraphNodeParams>,
    attributes: LaunchAttributes,
) -> Result<NodeParams, CUresult> {
    match kind(params)? {
        CU_GRAPH_NODE_TYPE_EMPTY => Ok(NodeParams::Empty),
        CU_GRAPH_NODE_TYPE_KERNEL => {
            // The third version of the struct has the fields of the second.
            KernelParams::second(body(params)?)?.node(sim, state, attributes)
        }
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            let given: CUDA_MEMCPY_NODE_PARAMS = body(params)?.read()?;
            if given.flags != 0 || given.reserved != 0 {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            let context = graph_memory::context(state, given.copyCtx)?;
            graph_memory::copy(sim, state, context, &given.copyParams)
        }
        CU_GRAPH_NODE_TYPE_MEMSET => {
            let given: CUDA_MEMSET_NODE_PARAMS_v2 = body(params)?.read()?;
            let context = graph_memory::context(state, given.ctx)?;
            let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
                dst: given.dst,
                pitch: given.pitch,
                value: given.value,
                elementSize: given.elementSize,
                width: given.width,
                height: given.height,
            };
            graph_memory::fill(sim, state, context, &fill)
        }
        CU_GRAPH_NODE_TYPE_HOST => {
            let given: CUDA_HOST_NODE_PARAMS_v1 = body(params)?.read()?;
            host(given.fn_, given.userData)
        }
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => graph_memop::batch(state, body(params)?),
        CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
            let given: CUevent = body(params)?.read()?;
            event(state, given).map(NodeParams::Record)
        }
        CU_GRAPH_NODE_TYPE_WAIT_EVENT => {
            let given: CUevent = body(params)?.read()?;
            event(state, given).map(NodeParams::Wait)
        }
        _ => Err(CUDA_ERROR_NOT_SUPPORTED),
    }
}

/// The node that the struct describes, of a kind that a graph is asked about.
fn new_node(
    sim: &Sim,
    state: &mut State,
    graph: GraphId,
    params: Ptr<CUgraphNodeParams>,
) -> Result<NodeParams, CUresult> {
    match kind(params)? {
        CU_GRAPH_NODE_TYPE_MEM_FREE => {
            let address: CUdeviceptr = body(params)?.read()?;
            state.graphs.plan_free(graph, address).map(NodeParams::Free)
        }
        _ => node(sim, state, params, LaunchAttributes::default()),
    }
}

pub(crate) fn cuGraphAddNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUgraphNodeParams>,
) -> Answer {
    cuGraphAddNode_v2(sim, out, graph, dependencies, Ptr::null(), count, params)
}

pub(crate) fn cuGraphAddNode_v2(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: usize,
    params: Ptr<CUgraphNodeParams>,
) -> Answer {
    let place = Place { out, graph, dependencies, data, count };
    match kind(params)? {
        CU_GRAPH_NODE_TYPE_GRAPH => {
            return graph_child::add(sim, place, body(params)?.read()?);
        }
        CU_GRAPH_NODE_TYPE_CONDITIONAL => {
            return graph_conditional::add(sim, place, body(params)?);
        }
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            return graph_allocation::allocate(sim, place, body(params)?);
        }
        _ => {}
    }
    add(sim, place, |state, graph| new_node(sim, state, graph, params))
}

/// The attributes that a node keeps when its parameters are replaced.
fn kept(old: &NodeParams) -> LaunchAttributes {
    attributes_of(old).unwrap_or_default()
}

pub(crate) fn cuGraphNodeSetParams(
    sim: &Sim,
    handle: Ptr<CUgraphNode_st>,
    params: Ptr<CUgraphNodeParams>,
) -> Answer {
    if kind(params)? == CU_GRAPH_NODE_TYPE_GRAPH {
        return graph_child::set(sim, handle, body(params)?.read()?);
    }
    set(sim, handle, |state, old| node(sim, state, params, kept(old)))
}

pub(crate) fn cuGraphExecNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    handle: Ptr<CUgraphNode_st>,
    params: Ptr<CUgraphNodeParams>,
) -> Answer {
    if kind(params)? == CU_GRAPH_NODE_TYPE_GRAPH {
        let given: CUDA_CHILD_GRAPH_NODE_PARAMS = body(params)?.read()?;
        return graph_child::exec_set(sim, exec, handle, given.graph);
    }
    exec_set(sim, exec, handle, |state, old| node(sim, state, params, kept(old)))
}
