//! Events.

use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::event::{Event, Recorded, Stamp};
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};
use crate::stream;
use crate::work::Work;

const KNOWN_FLAGS: u32 =
    CU_EVENT_BLOCKING_SYNC.0 | CU_EVENT_DISABLE_TIMING.0 | CU_EVENT_INTERPROCESS.0;

fn named(state: &State, event: Ptr<CUevent_st>) -> Result<Id<Event>, CUresult> {
    state.events.find(event.address()).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

/// The event, if its context is sound.
fn sound(state: &State, id: Id<Event>) -> Result<&Event, CUresult> {
    let event = state.events.get(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    state.context(event.context)?;
    Ok(event)
}

pub(crate) fn cuEventCreate(sim: &Sim, out: Ptr<CUevent>, flags: u32) -> Answer {
    out.required()?;
    let interprocess_timed =
        flags & CU_EVENT_INTERPROCESS.0 != 0 && flags & CU_EVENT_DISABLE_TIMING.0 == 0;
    if flags & !KNOWN_FLAGS != 0 || interprocess_timed {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = sim.lock();
    let context = state.current()?;
    let event = state.events.insert(Event { context, flags, recorded: Recorded::Never });
    out.write(event.raw())
}

pub(crate) fn cuEventDestroy_v2(sim: &Sim, event: Ptr<CUevent_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, event)?;
    let gone = state.events.remove(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    state.contexts.get(gone.context).map_or(Ok(()), |context| context.core.check())
}

pub(crate) fn cuEventRecord(sim: &Sim, event: Ptr<CUevent_st>, stream: Ptr<CUstream_st>) -> Answer {
    cuEventRecordWithFlags(sim, event, stream, 0)
}

pub(crate) fn cuEventRecordWithFlags(
    sim: &Sim,
    event: Ptr<CUevent_st>,
    stream: Ptr<CUstream_st>,
    flags: u32,
) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, event)?;
    if flags & !CU_EVENT_RECORD_EXTERNAL.0 != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let stream = state.find_stream(stream.address())?;
    if sound(&state, id)?.context != state.stream(stream)?.context {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    let external = flags == CU_EVENT_RECORD_EXTERNAL.0;
    if capture::record_event(sim, &mut state, id, stream, external)? {
        return Ok(());
    }
    let stamp = Arc::new(Stamp::default());
    let task = stream::run_now(sim, &mut state, stream, Work::Record(stamp.clone()))?;
    if let Some(event) = state.events.get_mut(id) {
        event.recorded = Recorded::Task { task, stamp };
    }
    Ok(())
}

pub(crate) fn cuStreamWaitEvent(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    event: Ptr<CUevent_st>,
    flags: u32,
) -> Answer {
    let mut state = sim.lock();
    let stream = state.find_stream(stream.address())?;
    if flags & !CU_EVENT_WAIT_EXTERNAL.0 != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let Ok(id) = named(&state, event) else {
        capture::invalidate(&mut state, stream);
        return Err(CUDA_ERROR_INVALID_HANDLE);
    };
    let external = flags == CU_EVENT_WAIT_EXTERNAL.0;
    if capture::wait_event(sim, &mut state, stream, id, external)? {
        return Ok(());
    }
    let recorded = state.events.get(id).map(|event| event.recorded.clone());
    match recorded {
        Some(Recorded::Task { task, .. }) => stream::wait_for(sim, &mut state, stream, task),
        _ => Ok(()),
    }
}

pub(crate) fn cuEventQuery(sim: &Sim, event: Ptr<CUevent_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, event)?;
    capture::check_event_wait(&mut state, id)?;
    match &sound(&state, id)?.recorded {
        Recorded::Task { task, .. } if !sim.engine.is_done(*task) => Err(CUDA_ERROR_NOT_READY),
        _ => Ok(()),
    }
}

pub(crate) fn cuEventSynchronize(sim: &Sim, event: Ptr<CUevent_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, event)?;
    capture::check_event_wait(&mut state, id)?;
    let event = sound(&state, id)?;
    let Recorded::Task { task, .. } = &event.recorded else { return Ok(()) };
    let task = *task;
    let core = state.context(event.context)?.core.clone();
    drop(state);
    sim.engine.wait(task);
    core.check()
}

pub(crate) fn cuEventElapsedTime_v2(
    sim: &Sim,
    out: Ptr<f32>,
    start: Ptr<CUevent_st>,
    end: Ptr<CUevent_st>,
) -> Answer {
    cuEventElapsedTime(sim, out, start, end)
}

pub(crate) fn cuEventElapsedTime(
    sim: &Sim,
    out: Ptr<f32>,
    start: Ptr<CUevent_st>,
    end: Ptr<CUevent_st>,
) -> Answer {
    let state = sim.lock();
    // Also where the place for the time is null.
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    let (start, end) = (named(&state, start)?, named(&state, end)?);
    capture::check_event_question(&state, start)?;
    capture::check_event_question(&state, end)?;
    let (start, end) = (sound(&state, start)?, sound(&state, end)?);
    let untimed = (start.flags | end.flags) & CU_EVENT_DISABLE_TIMING.0 != 0;
    if untimed || start.context != end.context {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    let (Recorded::Task { stamp: start, .. }, Recorded::Task { stamp: end, .. }) =
        (&start.recorded, &end.recorded)
    else {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    };
    let (Some(start), Some(end)) = (start.get(), end.get()) else {
        return Err(CUDA_ERROR_NOT_READY);
    };
    let forth = end.saturating_duration_since(start).as_secs_f32();
    let back = start.saturating_duration_since(end).as_secs_f32();
    out.write((forth - back) * 1e3)
}
