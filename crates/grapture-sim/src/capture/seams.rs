//! Where the API functions of streams, events and memory meet the captures.

use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUresult,
};

use super::event::{Awaited, Wait};
use super::{ContextId, EventId, Member, SequenceId, Status, StreamId};
use crate::event::Recorded;
use crate::graph::{
    AccessList, BatchNode, KernelNode, LocalId, NodeParams, Placed, Removed, Request,
};
use crate::sim::{Answer, Sim, State};
use crate::stream::StreamKind;
use crate::work::{Tuning, Work};

/// What became of work.
pub(crate) enum Taken {
    /// The stream captures, and the work is a node now.
    Node,
    /// The stream does not capture: here is the work.
    Not(Work),
}

/// Makes a node of the work if the stream captures. Errors: 901 on an invalidated capture, 906 on
/// the legacy stream while a blocking stream of its context captures (which invalidates it).
pub(crate) fn record(
    sim: &Sim,
    state: &mut State,
    stream: StreamId,
    work: Work,
) -> Result<Taken, CUresult> {
    check_legacy(state, stream)?;
    let Some(id) = state.captures.capturing(stream)? else { return Ok(Taken::Not(work)) };
    let programmatic = matches!(&work, Work::Kernel(kernel) if kernel.attributes.programmatic);
    let Some(params) = node_of(sim, state, stream, work)? else {
        state.captures.invalidate(id);
        return Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    };
    add_node(state, stream, id, params, programmatic)?;
    Ok(Taken::Node)
}

/// The node that work becomes; nothing for what no graph can hold.
fn node_of(
    sim: &Sim,
    state: &State,
    stream: StreamId,
    work: Work,
) -> Result<Option<NodeParams>, CUresult> {
    let context = state.core_of(stream)?;
    Ok(match work {
        Work::Kernel(mut kernel) => {
            let this = state.stream(stream)?;
            kernel.attributes.priority.get_or_insert(this.priority);
            let (tuning, default) = (&mut kernel.attributes.tuning, Tuning::default());
            if (tuning.window, tuning.domains) == (default.window, default.domains) {
                (tuning.window, tuning.domains) = (this.tuning.window, this.tuning.domains);
            }
            kernel.attributes.cluster = kernel.named_cluster();
            Some(NodeParams::Kernel(KernelNode::new(context, kernel)))
        }
        Work::Copy(mut work) => {
            work.note_origins(sim, &state.graphs);
            Some(NodeParams::Copy(Placed { context, work }))
        }
        Work::Fill(work) => Some(NodeParams::Fill(Placed { context, work })),
        Work::Host(host) => Some(NodeParams::Host(host)),
        Work::MemOps(work) => Some(NodeParams::MemOps(BatchNode::new(context, work))),
        _ => None,
    })
}

/// Adds a node to the graph of a capture for an operation of one of its streams.
pub(super) fn add_node(
    state: &mut State,
    stream: StreamId,
    id: SequenceId,
    params: NodeParams,
    programmatic: bool,
) -> Result<LocalId, CUresult> {
    let State { captures, graphs, .. } = state;
    let sequence = captures.sequence_mut(id).ok_or(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
    let graph = sequence.begin.graph;
    let edges = sequence.dependencies(stream, &graphs.graph(graph)?.def, programmatic);
    let node = graphs.add_node(graph, params, &edges)?;
    sequence.captured(stream, node.local);
    Ok(node.local)
}

/// Called first by what is unsafe during captures (`cuMemAlloc`, `cuEventQuery`, …). 900 if the
/// calling thread's mode and the captures bar it, which invalidates them.
pub(crate) fn check_unsafe_call(state: &mut State) -> Answer {
    let mode = state.thread().capture_mode;
    state.captures.unsafe_call(std::thread::current().id(), mode)
}

/// Called first by `cuStreamSynchronize` and `cuStreamQuery`: 900 on a capturing stream, 906 on
/// the legacy stream beside a blocking capture, each of which invalidates; else as
/// [`check_unsafe_call`].
pub(crate) fn check_stream_wait(state: &mut State, stream: StreamId) -> Answer {
    check_uncapturable(state, stream)?;
    check_unsafe_call(state)
}

/// Called first by `cuCtxSynchronize`: 900 while any stream of the context captures, which
/// invalidates those captures. Captures of other contexts are no hindrance.
pub(crate) fn check_context_wait(state: &mut State, context: ContextId) -> Answer {
    state.captures.context_call(context)
}

/// Called first by `cuEventQuery` and `cuEventSynchronize`: 907 on an event that was recorded in a
/// capture that is live (which invalidates it), 1 on one of an ended capture; else as
/// [`check_unsafe_call`].
pub(crate) fn check_event_wait(state: &mut State, event: EventId) -> Answer {
    let State { captures, events, .. } = state;
    if let Some(Recorded::Captured(mark)) = events.get(event).map(|event| &event.recorded) {
        return Err(captures.event_call(mark));
    }
    check_unsafe_call(state)
}

/// Called first by `cuEventElapsedTime`: as [`check_event_wait`], but nothing is invalidated, and
/// an event that is not captured passes.
pub(crate) fn check_event_question(state: &State, event: EventId) -> Answer {
    match state.events.get(event).map(|event| &event.recorded) {
        Some(Recorded::Captured(mark)) => Err(state.captures.event_question(mark)),
        _ => Ok(()),
    }
}

/// Called by calls that put work on the legacy stream without a [`Work`] of their own (synchronous
/// copies and fills, which wait), and by calls that no capture takes (`cuStreamAddCallback`,
/// `cuStreamAttachMemAsync`, `cuGraphLaunch`): 900 on a capturing stream, 906 on the legacy stream
/// beside a blocking capture, each of which invalidates.
pub(crate) fn check_uncapturable(state: &mut State, stream: StreamId) -> Answer {
    check_legacy(state, stream)?;
    state.captures.uncapturable_call(stream)
}

/// Refuses the use of a legacy stream beside a blocking capture, which breaks it.
pub(crate) fn check_legacy(state: &mut State, stream: StreamId) -> Answer {
    let this = state.stream(stream)?;
    let (kind, context) = (this.kind, this.context);
    if kind == StreamKind::Legacy { state.captures.legacy_call(context) } else { Ok(()) }
}

/// Refuses work on a legacy stream beside a blocking capture, which breaks it, and on a stream
/// whose capture is broken, before the work is looked at.
pub(crate) fn check_sound(state: &mut State, stream: StreamId) -> Answer {
    check_legacy(state, stream)?;
    state.captures.capturing(stream).map(drop)
}

/// Invalidates the capture that the stream is part of, if any: a launch with bad dimensions, a
/// wait for a null event.
pub(crate) fn invalidate(state: &mut State, stream: StreamId) {
    state.captures.invalidate_stream(stream);
}

/// Whether the stream captures, also into an invalidated capture.
pub(crate) fn is_capturing(state: &State, stream: StreamId) -> bool {
    state.captures.status(stream) != Status::None
}

/// Records an event on a capturing stream (`true`), or says that the stream does not capture
/// (`false`). With `external`, a record node is made; 401 where the stream does not capture.
pub(crate) fn record_event(
    _sim: &Sim,
    state: &mut State,
    event: EventId,
    stream: StreamId,
    external: bool,
) -> Result<bool, CUresult> {
    check_legacy(state, stream)?;
    if external {
        return add_external(state, stream, NodeParams::Record(event));
    }
    let Some(mark) = state.captures.mark(stream)? else { return Ok(false) };
    let event = state.events.get_mut(event).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    event.recorded = Recorded::Captured(mark);
    Ok(true)
}

fn add_external(state: &mut State, stream: StreamId, params: NodeParams) -> Result<bool, CUresult> {
    let id = state.captures.capturing(stream)?.ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
    add_node(state, stream, id, params, false)?;
    Ok(true)
}

/// Makes a stream wait for an event where a capture has to do with it (`true`): the stream
/// captures, or the event was recorded in a capture. `false`: an ordinary wait.
pub(crate) fn wait_event(
    _sim: &Sim,
    state: &mut State,
    stream: StreamId,
    event: EventId,
    external: bool,
) -> Result<bool, CUresult> {
    check_legacy(state, stream)?;
    if external {
        check_old_mark(state, stream, event)?;
        return add_external(state, stream, NodeParams::Wait(event));
    }
    let this = state.stream(stream)?;
    let (kind, context) = (this.kind, this.context);
    let State { captures, events, .. } = state;
    let recorded = &events.get(event).ok_or(CUDA_ERROR_INVALID_HANDLE)?.recorded;
    let awaited = match recorded {
        Recorded::Never => Awaited::Nothing,
        Recorded::Task { .. } => Awaited::Work,
        Recorded::Captured(mark) => Awaited::Captured(mark),
    };
    if let (StreamKind::Legacy, Awaited::Captured(mark)) = (kind, awaited)
        && captures.is_open(mark.sequence)
    {
        captures.invalidate(mark.sequence);
        return Err(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    let newcomer = || Member { context, blocking: kind.is_blocking(), set: Vec::new() };
    Ok(captures.wait(stream, awaited, newcomer)? == Wait::Captured)
}

/// A graph that waits for events was launched on a stream: it runs, but where one of them was
/// recorded in an open capture, the stream joins that, as if it had waited itself.
pub(crate) fn join_by_launch(
    state: &mut State,
    stream: StreamId,
    awaited: &[EventId],
) -> Result<(), CUresult> {
    let this = state.stream(stream)?;
    let (kind, context) = (this.kind, this.context);
    let State { captures, events, .. } = state;
    for event in awaited {
        let Some(Recorded::Captured(mark)) = events.get(*event).map(|event| &event.recorded) else {
            continue;
        };
        let status = captures.status(stream);
        let free = status == Status::None && kind != StreamKind::Legacy;
        if captures.is_open(mark.sequence) && (free || status == Status::Active(mark.sequence)) {
            let newcomer = || Member { context, blocking: kind.is_blocking(), set: Vec::new() };
            captures.wait(stream, Awaited::Captured(mark), newcomer)?;
        }
    }
    Ok(())
}

/// An event that still stands for a point of a capture that is over breaks the capture in which a
/// node is to wait for it, and is told of before that the stream does not capture.
fn check_old_mark(state: &mut State, stream: StreamId, event: EventId) -> Result<(), CUresult> {
    let State { captures, events, .. } = state;
    let recorded = &events.get(event).ok_or(CUDA_ERROR_INVALID_HANDLE)?.recorded;
    match recorded {
        Recorded::Captured(mark) if !captures.is_open(mark.sequence) => {
            captures.capturing(stream)?;
            captures.invalidate_stream(stream);
            Err(CUDA_ERROR_INVALID_VALUE)
        }
        _ => Ok(()),
    }
}

/// `cuMemAllocAsync` on a capturing stream: the address of an allocation node. Nothing where the
/// stream does not capture.
pub(crate) fn allocate(
    sim: &Sim,
    state: &mut State,
    stream: StreamId,
    bytes: usize,
) -> Result<Option<u64>, CUresult> {
    check_legacy(state, stream)?;
    let Some(id) = state.captures.capturing(stream)? else { return Ok(None) };
    let device = state.core_of(stream)?.device;
    let graph = graph_of(state, id)?;
    let State { captures, graphs, .. } = &mut *state;
    let sequence = captures.sequence(id).ok_or(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
    let edges = sequence.dependencies(stream, &graphs.graph(graph)?.def, false);
    let request = Request { device, bytes, access: AccessList::default() };
    let allocation = graphs.plan_allocation(sim, graph, &edges, request)?;
    let address = allocation.address;
    add_node(state, stream, id, NodeParams::Alloc(allocation), false)?;
    Ok(Some(address))
}

/// `cuMemFreeAsync` on a capturing stream: `true` if a free node was made.
pub(crate) fn free(
    _sim: &Sim,
    state: &mut State,
    stream: StreamId,
    address: u64,
) -> Result<bool, CUresult> {
    check_legacy(state, stream)?;
    let Some(id) = state.captures.capturing(stream)? else { return Ok(false) };
    let graph = graph_of(state, id)?;
    let allocation = state.graphs.plan_free(graph, address)?;
    add_node(state, stream, id, NodeParams::Free(allocation), false)?;
    Ok(true)
}

fn graph_of(state: &State, id: SequenceId) -> Result<super::GraphId, CUresult> {
    let sequence = state.captures.sequence(id).ok_or(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
    Ok(sequence.begin.graph)
}

/// A stream is about to be destroyed; the capture that it began ends. What is left of its graph is
/// to be dropped when no lock is held.
pub(crate) fn stream_destroyed(state: &mut State, stream: StreamId) -> Option<Arc<Removed>> {
    let sequence = state.captures.forget_stream(stream)?;
    state.leave_graph(&sequence, !sequence.begin.owns_graph).ok().map(Arc::new)
}
