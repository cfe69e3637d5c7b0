//! The seams between the streams and their captures.

#![allow(dead_code, reason = "the seams of captures are called by the API functions of streams")]

use grapture_sys::CUresult;

use crate::context::Context;
use crate::event::Event;
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};
use crate::stream::Stream;
use crate::work::Work;

/// The captures of a simulation.
pub(crate) struct Captures {}

impl Captures {
    /// None.
    pub(crate) fn new(_simulation: u8) -> Captures {
        Captures {}
    }
}

/// What an event that was recorded in a capture stands for.
#[derive(Clone, Debug)]
pub(crate) enum Mark {}

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
    _sim: &Sim,
    _state: &mut State,
    _stream: Id<Stream>,
    work: Work,
) -> Result<Taken, CUresult> {
    Ok(Taken::Not(work))
}

/// Called first by what is unsafe during captures (`cuMemAlloc`, `cuEventQuery`, …). 900 if the
/// calling thread's mode and the captures bar it, which invalidates them.
pub(crate) fn check_unsafe_call(_state: &mut State) -> Answer {
    Ok(())
}

/// Called first by `cuStreamSynchronize` and `cuStreamQuery`: 900 on a capturing stream, 906 on
/// the legacy stream beside a blocking capture, each of which invalidates; else as
/// [`check_unsafe_call`].
pub(crate) fn check_stream_wait(_state: &mut State, _stream: Id<Stream>) -> Answer {
    Ok(())
}

/// Called first by `cuCtxSynchronize`: 900 while any stream of the context captures, which
/// invalidates those captures.
pub(crate) fn check_context_wait(_state: &mut State, _context: Id<Context>) -> Answer {
    Ok(())
}

/// Called first by `cuEventQuery` and `cuEventSynchronize`: 907 on an event that was recorded in a
/// capture that is live (which invalidates it), 1 on one of an ended capture; else as
/// [`check_unsafe_call`].
pub(crate) fn check_event_wait(_state: &mut State, _event: Id<Event>) -> Answer {
    Ok(())
}

/// Called by calls that put work on the legacy stream without a [`Work`] of their own (synchronous
/// copies and fills, which wait), and by calls that no capture takes (`cuStreamAddCallback`,
/// `cuStreamAttachMemAsync`): 900 on a capturing stream, 906 on the legacy stream beside a
/// blocking capture, each of which invalidates.
pub(crate) fn check_uncapturable(_state: &mut State, _stream: Id<Stream>) -> Answer {
    Ok(())
}

/// Invalidates the capture that the stream is part of, if any: a launch with bad dimensions, a
/// wait for a null event.
pub(crate) fn invalidate(_state: &mut State, _stream: Id<Stream>) {}

/// Whether the stream captures, also into an invalidated capture.
pub(crate) fn is_capturing(_state: &State, _stream: Id<Stream>) -> bool {
    false
}

/// Records an event on a capturing stream (`true`), or says that the stream does not capture
/// (`false`). With `external`, a record node is made; 401 where the stream does not capture.
pub(crate) fn record_event(
    _sim: &Sim,
    _state: &mut State,
    _event: Id<Event>,
    _stream: Id<Stream>,
    external: bool,
) -> Result<bool, CUresult> {
    if external { Err(grapture_sys::CUDA_ERROR_ILLEGAL_STATE) } else { Ok(false) }
}

/// Makes a stream wait for an event where a capture has to do with it (`true`): the stream
/// captures, or the event was recorded in a capture. `false`: an ordinary wait.
pub(crate) fn wait_event(
    _sim: &Sim,
    _state: &mut State,
    _stream: Id<Stream>,
    _event: Id<Event>,
    external: bool,
) -> Result<bool, CUresult> {
    if external { Err(grapture_sys::CUDA_ERROR_ILLEGAL_STATE) } else { Ok(false) }
}

/// `cuMemAllocAsync` on a capturing stream: the address of an allocation node. Nothing where the
/// stream does not capture.
pub(crate) fn allocate(
    _sim: &Sim,
    _state: &mut State,
    _stream: Id<Stream>,
    _bytes: usize,
) -> Result<Option<u64>, CUresult> {
    Ok(None)
}

/// `cuMemFreeAsync` on a capturing stream: `true` if a free node was made.
pub(crate) fn free(
    _sim: &Sim,
    _state: &mut State,
    _stream: Id<Stream>,
    _address: u64,
) -> Result<bool, CUresult> {
    Ok(false)
}

/// A stream is about to be destroyed; the capture that it is part of ends.
pub(crate) fn stream_destroyed(_state: &mut State, _stream: Id<Stream>) {}
