//! Nodes: what all kinds share, and the kinds with little to say.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use super::array::{read_edge_data, read_handles};
use crate::event::Event;
use crate::graph::{Edge, GraphId, NodeParams, NodeRef};
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};
use crate::work::HostWork;

/// Where a new node goes: the arguments that all functions that add one begin with.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) out: Ptr<'a, CUgraphNode>,
    pub(super) graph: Ptr<'a, CUgraph_st>,
    pub(super) dependencies: Ptr<'a, CUgraphNode>,
    pub(super) data: Ptr<'a, CUgraphEdgeData>,
    pub(super) count: usize,
}

impl Place<'_> {
    /// The graph, and the edges that lead to the new node.
    pub(super) fn resolve(&self, state: &State) -> Result<(GraphId, Vec<Edge>), CUresult> {
        self.out.required()?;
        let graph = state.graphs.find_graph(self.graph.raw())?;
        let handles = read_handles(self.dependencies, self.count)?;
        let data = read_edge_data(self.data, self.count)?;
        Ok((graph, state.graphs.edges(graph, &handles, data.as_deref())?))
    }
}

/// Adds the node whose parameters `make` gives.
pub(super) fn add(
    sim: &Sim,
    place: Place<'_>,
    make: impl FnOnce(&mut State, GraphId) -> Result<NodeParams, CUresult>,
) -> Answer {
    let mut state = sim.lock();
    let (graph, edges) = place.resolve(&state)?;
    let params = make(&mut state, graph)?;
    let node = state.graphs.add_node(graph, params, &edges)?;
    place.out.write(state.graphs.node_handle(node))
}

/// Reads the parameters of a node.
pub(super) fn get<T>(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<T>,
    read: impl FnOnce(&NodeParams) -> Option<T>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let value = read(state.graphs.params(node)?).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    out.write(value)
}

/// Replaces the parameters of a node by ones of the same kind.
pub(super) fn set(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    make: impl FnOnce(&mut State, &NodeParams) -> Result<NodeParams, CUresult>,
) -> Answer {
    let mut state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let old = state.graphs.params(node)?.clone();
    let params = make(&mut state, &old)?;
    if params.kind() != old.kind() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    *state.graphs.graph_mut(node.graph)?.def.params_mut(node.local)? = params;
    Ok(())
}

/// Replaces the parameters of a node of an executable, named by the node of its graph.
pub(super) fn exec_set(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    make: impl FnOnce(&mut State, &NodeParams) -> Result<NodeParams, CUresult>,
) -> Answer {
    let mut state = sim.lock();
    let exec = state.graphs.find_exec(exec.raw())?;
    let node = state.graphs.find_node(node.raw())?;
    let old = state.graphs.params(node)?.clone();
    let params = make(&mut state, &old)?;
    state.graphs.exec_mut(exec)?.set_params(node, params).map(drop)
}

pub(crate) fn cuGraphNodeGetType(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraphNodeType>,
) -> Answer {
    get(sim, node, out, |params| Some(params.kind()))
}

pub(crate) fn cuGraphNodeGetLocalId(sim: &Sim, node: Ptr<CUgraphNode_st>, out: Ptr<u32>) -> Answer {
    let node = sim.lock().graphs.find_node(node.raw())?;
    out.write(node.local.0)
}

pub(crate) fn cuGraphNodeGetContainingGraph(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUgraph>,
) -> Answer {
    let node = sim.lock().graphs.find_node(node.raw())?;
    out.write(node.graph.raw())
}

pub(crate) fn cuGraphDestroyNode(sim: &Sim, node: Ptr<CUgraphNode_st>) -> Answer {
    let mut state = sim.lock();
    let node = state.graphs.find_node(node.raw())?;
    let removed = state.graphs.remove_node(node)?;
    drop(state);
    drop(removed);
    Ok(())
}

pub(crate) fn cuGraphAddEmptyNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add(sim, place, |_, _| Ok(NodeParams::Empty))
}

/// The host function of node parameters.
pub(super) fn host(function: CUhostFn, user_data: *mut c_void) -> Result<NodeParams, CUresult> {
    let function = function.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok(NodeParams::Host(HostWork { function, user_data: user_data.expose_provenance() }))
}

pub(crate) fn cuGraphAddHostNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_HOST_NODE_PARAMS_v1>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    let params = params.read()?;
    add(sim, place, |_, _| host(params.fn_, params.userData))
}

pub(crate) fn cuGraphHostNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_HOST_NODE_PARAMS_v1>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Host(host) => Some(CUDA_HOST_NODE_PARAMS_v1 {
            fn_: Some(host.function),
            userData: std::ptr::with_exposed_provenance_mut(host.user_data),
        }),
        _ => None,
    })
}

pub(crate) fn cuGraphHostNodeSetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_HOST_NODE_PARAMS_v1>,
) -> Answer {
    let params = params.read()?;
    set(sim, node, |_, _| host(params.fn_, params.userData))
}

pub(crate) fn cuGraphExecHostNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_HOST_NODE_PARAMS_v1>,
) -> Answer {
    let params = params.read()?;
    exec_set(sim, exec, node, |_, _| host(params.fn_, params.userData))
}

pub(super) fn event(state: &State, event: *mut CUevent_st) -> Result<Id<Event>, CUresult> {
    state.events.find(event.addr()).ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuGraphAddEventRecordNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    handle: Ptr<CUevent_st>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add(sim, place, |state, _| event(state, handle.raw()).map(NodeParams::Record))
}

pub(crate) fn cuGraphAddEventWaitNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    handle: Ptr<CUevent_st>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add(sim, place, |state, _| event(state, handle.raw()).map(NodeParams::Wait))
}

pub(crate) fn cuGraphEventRecordNodeGetEvent(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUevent>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Record(event) => Some(event.raw()),
        _ => None,
    })
}

pub(crate) fn cuGraphEventWaitNodeGetEvent(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUevent>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Wait(event) => Some(event.raw()),
        _ => None,
    })
}

pub(crate) fn cuGraphEventRecordNodeSetEvent(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    handle: Ptr<CUevent_st>,
) -> Answer {
    set(sim, node, |state, _| event(state, handle.raw()).map(NodeParams::Record))
}

pub(crate) fn cuGraphEventWaitNodeSetEvent(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    handle: Ptr<CUevent_st>,
) -> Answer {
    set(sim, node, |state, _| event(state, handle.raw()).map(NodeParams::Wait))
}

pub(crate) fn cuGraphExecEventRecordNodeSetEvent(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    handle: Ptr<CUevent_st>,
) -> Answer {
    exec_set(sim, exec, node, |state, _| event(state, handle.raw()).map(NodeParams::Record))
}

pub(crate) fn cuGraphExecEventWaitNodeSetEvent(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    handle: Ptr<CUevent_st>,
) -> Answer {
    exec_set(sim, exec, node, |state, _| event(state, handle.raw()).map(NodeParams::Wait))
}

pub(crate) fn cuGraphNodeSetEnabled(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    enabled: u32,
) -> Answer {
    let mut state = sim.lock();
    let exec = state.graphs.find_exec(exec.raw())?;
    let NodeRef { graph, local } = state.graphs.find_node(node.raw())?;
    state.graphs.exec_mut(exec)?.part_mut(graph)?.set_enabled(local, enabled != 0)
}

pub(crate) fn cuGraphNodeGetEnabled(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<u32>,
) -> Answer {
    let mut state = sim.lock();
    let exec = state.graphs.find_exec(exec.raw())?;
    let NodeRef { graph, local } = state.graphs.find_node(node.raw())?;
    let found = state.graphs.exec_mut(exec)?.part_mut(graph)?;
    if !found.def.node(local)?.params.can_be_disabled() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let enabled = !found.is_disabled(local);
    out.write(enabled.into())
}
