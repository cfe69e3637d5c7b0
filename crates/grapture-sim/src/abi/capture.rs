//! Stream capture.

use grapture_sys::*;

use super::Ptr;
use super::array::{read_edge_data, read_handles};
use crate::capture::{self, CaptureMode, Status, Target};
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};
use crate::stream::{Stream, StreamKind};

/// The oldest form: the mode that bars nobody.
pub(crate) fn cuStreamBeginCapture(sim: &Sim, stream: Ptr<CUstream_st>) -> Answer {
    cuStreamBeginCapture_v2(sim, stream, CU_STREAM_CAPTURE_MODE_RELAXED)
}

pub(crate) fn cuStreamBeginCapture_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    mode: CUstreamCaptureMode,
) -> Answer {
    let mode = CaptureMode::from_raw(mode).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut state = sim.lock();
    let stream = state.find_stream(stream.address())?;
    state.begin_capture(stream, mode, None)
}

pub(crate) fn cuStreamBeginCaptureToGraph(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: usize,
    mode: CUstreamCaptureMode,
) -> Answer {
    let mode = CaptureMode::from_raw(mode).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let handles = read_handles(dependencies, count)?;
    let data = read_edge_data(data, count)?;
    let mut state = sim.lock();
    let graph = state.graphs.find_graph(graph.raw())?;
    let stream = state.find_stream(stream.address())?;
    let set = state.graphs.edges(graph, &handles, data.as_deref())?;
    state.begin_capture(stream, mode, Some(Target { graph, set }))
}

pub(crate) fn cuStreamEndCapture(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<CUgraph>) -> Answer {
    // Whatever goes wrong, there is no graph.
    out.offer(std::ptr::null_mut());
    let mut state = sim.lock();
    let stream = state.find_stream(stream.address())?;
    capture::check_legacy(&mut state, stream)?;
    let ended = state.end_capture(stream, std::thread::current().id(), !out.is_null())?;
    drop(state);
    out.offer(ended.graph?.raw());
    Ok(())
}

/// The state of a stream; the legacy stream has none while a blocking stream captures.
fn status(state: &mut State, stream: Ptr<CUstream_st>) -> Result<(Id<Stream>, Status), CUresult> {
    let id = state.find_stream(stream.address())?;
    let this = state.stream(id)?;
    if this.kind == StreamKind::Legacy {
        state.captures.legacy_question(this.context)?;
    }
    Ok((id, state.captures.status(id)))
}

pub(crate) fn cuStreamIsCapturing(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    out: Ptr<CUstreamCaptureStatus>,
) -> Answer {
    out.required()?;
    let (_, status) = status(&mut sim.lock(), stream)?;
    out.write(status.to_raw())
}

/// Where an answer about a capture goes.
struct Outputs<'a> {
    status: Ptr<'a, CUstreamCaptureStatus>,
    id: Ptr<'a, u64>,
    graph: Ptr<'a, CUgraph>,
    nodes: Ptr<'a, *const CUgraphNode>,
    edges: Ptr<'a, *const CUgraphEdgeData>,
    count: Ptr<'a, usize>,
}

fn describe(sim: &Sim, stream: Ptr<CUstream_st>, out: &Outputs<'_>) -> Answer {
    out.status.required()?;
    let mut state = sim.lock();
    let (stream, status) = status(&mut state, stream)?;
    if let Status::Active(id) = status {
        let (graph, info) = state.capture_info(stream, id)?;
        if info.annotated && out.edges.is_null() && !out.nodes.is_null() {
            return Err(CUDA_ERROR_LOSSY_QUERY);
        }
        out.id.offer(id.0);
        out.graph.offer(graph.raw());
        out.nodes.offer(info.nodes());
        out.edges.offer(info.edges());
        out.count.offer(info.len());
    }
    out.status.write(status.to_raw())
}

pub(crate) fn cuStreamGetCaptureInfo(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    status: Ptr<CUstreamCaptureStatus>,
    id: Ptr<u64>,
) -> Answer {
    let (graph, nodes, count) = (Ptr::null(), Ptr::null(), Ptr::null());
    describe(sim, stream, &Outputs { status, id, graph, nodes, edges: Ptr::null(), count })
}

pub(crate) fn cuStreamGetCaptureInfo_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    status: Ptr<CUstreamCaptureStatus>,
    id: Ptr<u64>,
    graph: Ptr<CUgraph>,
    nodes: Ptr<*const CUgraphNode>,
    count: Ptr<usize>,
) -> Answer {
    describe(sim, stream, &Outputs { status, id, graph, nodes, edges: Ptr::null(), count })
}

#[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
pub(crate) fn cuStreamGetCaptureInfo_v3(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    status: Ptr<CUstreamCaptureStatus>,
    id: Ptr<u64>,
    graph: Ptr<CUgraph>,
    nodes: Ptr<*const CUgraphNode>,
    edges: Ptr<*const CUgraphEdgeData>,
    count: Ptr<usize>,
) -> Answer {
    describe(sim, stream, &Outputs { status, id, graph, nodes, edges, count })
}

pub(crate) fn cuStreamUpdateCaptureDependencies(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    flags: u32,
) -> Answer {
    cuStreamUpdateCaptureDependencies_v2(sim, stream, dependencies, Ptr::null(), count, flags)
}

pub(crate) fn cuStreamUpdateCaptureDependencies_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    dependencies: Ptr<CUgraphNode>,
    data: Ptr<CUgraphEdgeData>,
    count: usize,
    flags: u32,
) -> Answer {
    let mut state = sim.lock();
    let stream = state.find_stream(stream.address())?;
    capture::check_legacy(&mut state, stream)?;
    let id = state.captures.capturing(stream)?.ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
    let replace = match CUstreamUpdateCaptureDependencies_flags(flags) {
        CU_STREAM_ADD_CAPTURE_DEPENDENCIES => false,
        CU_STREAM_SET_CAPTURE_DEPENDENCIES => true,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    let handles = read_handles(dependencies, count)?;
    let data = read_edge_data(data, count)?;
    let State { captures, graphs, .. } = &mut *state;
    let sequence = captures.sequence_mut(id).ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
    let edges = graphs.edges(sequence.begin.graph, &handles, data.as_deref())?;
    graphs.graph(sequence.begin.graph)?.def.check_sources(&edges)?;
    sequence.update(stream, edges, replace);
    Ok(())
}

pub(crate) fn cuThreadExchangeStreamCaptureMode(
    sim: &Sim,
    mode: Ptr<CUstreamCaptureMode>,
) -> Answer {
    let new = mode.read()?;
    let mut state = sim.lock();
    let old = std::mem::replace(&mut state.thread().capture_mode, new);
    mode.write(old)
}
