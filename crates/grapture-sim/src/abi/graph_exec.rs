//! Executable graphs: instantiation, launch, update, end.

use core::ffi::c_char;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::graph::{
    GraphId, InstantiateError, InstantiateFlags, LocalId, UpdateError, UpdateVersion,
};
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};
use crate::stream::Stream;

/// Instantiates a graph. Needs a current context and is barred by captures.
fn instantiate(
    sim: &Sim,
    state: &mut State,
    out: Ptr<CUgraphExec>,
    graph: Ptr<CUgraph_st>,
    flags: InstantiateFlags,
) -> Result<crate::graph::ExecId, InstantiateError> {
    let failed = |code| InstantiateError { code, result: CUDA_GRAPH_INSTANTIATE_ERROR, node: None };
    out.required().map_err(failed)?;
    // An instantiation that uploads is told by its stream whether a capture is in the way.
    if !flags.upload() {
        capture::check_unsafe_call(state).map_err(failed)?;
    }
    let graph = state.graphs.find_graph(graph.raw()).map_err(failed)?;
    state.current().map_err(failed)?;
    let exec = state.graphs.instantiate(sim, graph, flags)?;
    out.write(exec.raw()).map_err(failed)?;
    Ok(exec)
}

/// The handle of a node that a failure names.
fn handle(state: &State, node: Option<(GraphId, LocalId)>) -> CUgraphNode {
    let graph = node.and_then(|(graph, node)| Some((state.graphs.graph(graph).ok()?, node)));
    graph.map_or(std::ptr::null_mut(), |(graph, node)| graph.handle(node))
}

/// The form with a log: the log stays empty, and no node is named.
pub(crate) fn cuGraphInstantiate_v2(
    sim: &Sim,
    out: Ptr<CUgraphExec>,
    graph: Ptr<CUgraph_st>,
    error_node: Ptr<CUgraphNode>,
    log: Ptr<c_char>,
    log_bytes: usize,
) -> Answer {
    let mut state = sim.lock();
    if !log.is_null() && log_bytes > 0 {
        log.write(0)?;
    }
    let result = instantiate(sim, &mut state, out, graph, InstantiateFlags::default());
    error_node.offer(std::ptr::null_mut());
    result.map(drop).map_err(|error| error.code)
}

pub(crate) fn cuGraphInstantiate(
    sim: &Sim,
    out: Ptr<CUgraphExec>,
    graph: Ptr<CUgraph_st>,
    error_node: Ptr<CUgraphNode>,
    log: Ptr<c_char>,
    log_bytes: usize,
) -> Answer {
    cuGraphInstantiate_v2(sim, out, graph, error_node, log, log_bytes)
}

pub(crate) fn cuGraphInstantiateWithFlags(
    sim: &Sim,
    out: Ptr<CUgraphExec>,
    graph: Ptr<CUgraph_st>,
    flags: u64,
) -> Answer {
    let flags = InstantiateFlags::from_raw(flags, false)?;
    let result = instantiate(sim, &mut sim.lock(), out, graph, flags);
    result.map(drop).map_err(|error| error.code)
}

pub(crate) fn cuGraphInstantiateWithParams(
    sim: &Sim,
    out: Ptr<CUgraphExec>,
    graph: Ptr<CUgraph_st>,
    params: Ptr<CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> Answer {
    let mut given = params.read()?;
    let mut state = sim.lock();
    let result = with_params(sim, &mut state, out, graph, &given);
    let error = result.err();
    given.hErrNode_out = handle(&state, error.and_then(|error| error.node));
    given.result_out = error.map_or(CUDA_GRAPH_INSTANTIATE_SUCCESS, |error| error.result);
    params.write(given)?;
    result.map_err(|error| error.code)
}

fn with_params(
    sim: &Sim,
    state: &mut State,
    out: Ptr<CUgraphExec>,
    graph: Ptr<CUgraph_st>,
    params: &CUDA_GRAPH_INSTANTIATE_PARAMS,
) -> Result<(), InstantiateError> {
    let failed = |code| InstantiateError { code, result: CUDA_GRAPH_INSTANTIATE_ERROR, node: None };
    let flags = InstantiateFlags::from_raw(params.flags, true).map_err(failed)?;
    let stream = match flags.upload() {
        true => Some(uploadable(state, params.hUploadStream.addr()).map_err(failed)?),
        false => None,
    };
    let exec = instantiate(sim, state, out, graph, flags)?;
    let uploaded = stream.map_or(Ok(()), |stream| state.upload_graph(sim, exec, stream));
    uploaded.map_err(|code| {
        // Its graph is there, and holds what it held.
        drop(state.graphs.remove_exec(exec));
        failed(code)
    })
}

/// A stream that can take what no capture takes.
fn uploadable(state: &mut State, stream: usize) -> Result<Id<Stream>, CUresult> {
    let stream = state.find_stream(stream)?;
    capture::check_uncapturable(state, stream)?;
    Ok(stream)
}

pub(crate) fn cuGraphExecGetFlags(sim: &Sim, exec: Ptr<CUgraphExec_st>, out: Ptr<u64>) -> Answer {
    let state = sim.lock();
    let exec = state.graphs.exec(state.graphs.find_exec(exec.raw())?)?;
    out.write(exec.flags.to_raw())
}

pub(crate) fn cuGraphExecGetId(sim: &Sim, exec: Ptr<CUgraphExec_st>, out: Ptr<u32>) -> Answer {
    let state = sim.lock();
    let exec = state.graphs.exec(state.graphs.find_exec(exec.raw())?)?;
    out.write(exec.number)
}

pub(crate) fn cuGraphUpload(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    let stream = uploadable(&mut state, stream.address())?;
    let exec = state.graphs.find_exec(exec.raw())?;
    state.upload_graph(sim, exec, stream)
}

pub(crate) fn cuGraphLaunch(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    let stream = uploadable(&mut state, stream.address())?;
    let exec = state.graphs.find_exec(exec.raw())?;
    state.launch_graph(sim, exec, stream)
}

pub(crate) fn cuGraphExecDestroy(sim: &Sim, exec: Ptr<CUgraphExec_st>) -> Answer {
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    let exec = state.graphs.find_exec(exec.raw())?;
    let removed = state.graphs.remove_exec(exec)?;
    drop(state);
    drop(State::retire(sim, (removed.last, removed.home.clone()), removed));
    Ok(())
}

pub(crate) fn cuGraphExecUpdate(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    graph: Ptr<CUgraph_st>,
    error_node: Ptr<CUgraphNode>,
    result: Ptr<CUgraphExecUpdateResult>,
) -> Answer {
    result.required()?;
    let (answer, info) = update(sim, exec, graph, UpdateVersion::First);
    error_node.offer(info.errorNode);
    result.offer(info.result);
    answer
}

pub(crate) fn cuGraphExecUpdate_v2(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    graph: Ptr<CUgraph_st>,
    result: Ptr<CUgraphExecUpdateResultInfo>,
) -> Answer {
    let (answer, info) = update(sim, exec, graph, UpdateVersion::Second);
    result.offer(info);
    answer
}

fn update(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    graph: Ptr<CUgraph_st>,
    version: UpdateVersion,
) -> (Answer, CUgraphExecUpdateResultInfo) {
    let mut info = CUgraphExecUpdateResultInfo {
        result: CU_GRAPH_EXEC_UPDATE_SUCCESS,
        errorNode: std::ptr::null_mut(),
        errorFromNode: std::ptr::null_mut(),
    };
    let mut state = sim.lock();
    let find = || {
        let exec = state.graphs.find_exec(exec.raw())?;
        let graph = state.graphs.find_graph(graph.raw())?;
        Ok((exec, graph))
    };
    let (exec, graph) = match find() {
        Ok(found) => found,
        Err(code) => return (Err(code), info),
    };
    let shape = state.graphs.check_shape(exec, graph, version);
    if shape.is_ok()
        && let Err(code) = state.graphs.check_update(exec, graph)
    {
        return (Err(code), info);
    }
    match shape.and_then(|()| state.graphs.update(exec, graph, version)) {
        Ok(replaced) => {
            let used = state.graphs.exec(exec).map(|exec| (exec.last, exec.home.clone()));
            drop(state);
            drop(State::retire(sim, used.unwrap_or_default(), replaced));
            (Ok(()), info)
        }
        Err(UpdateError { result, node, from }) => {
            info.result = result;
            info.errorNode = handle(&state, node);
            info.errorFromNode = handle(&state, from);
            (Err(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE), info)
        }
    }
}
