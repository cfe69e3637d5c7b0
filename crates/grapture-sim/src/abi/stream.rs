//! Streams: making, asking, waiting.

use grapture_sys::*;

use super::Ptr;
use super::context::PRIORITIES;
use crate::capture;
use crate::engine::TaskId;
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};
use crate::stream::{Stream, StreamKind};

/// `CU_SYNC_POLICY_AUTO` to `CU_SYNC_POLICY_BLOCKING_SYNC`.
const SYNC_POLICIES: std::ops::RangeInclusive<u32> = 1..=4;

/// The largest window that the second-level cache favours, as the device tells it.
const MOST_WINDOW_BYTES: usize = 128 << 20;
/// The memory domains of the device, and those of a launch.
const DEVICE_DOMAINS: u8 = 4;
const MEMORY_DOMAINS: std::ops::RangeInclusive<u32> = 0..=1;

pub(super) fn clamp_priority(priority: i32) -> i32 {
    let (least, greatest) = PRIORITIES;
    priority.clamp(greatest, least)
}

pub(crate) fn cuStreamCreate(sim: &Sim, out: Ptr<CUstream>, flags: u32) -> Answer {
    cuStreamCreateWithPriority(sim, out, flags, 0)
}

pub(crate) fn cuStreamCreateWithPriority(
    sim: &Sim,
    out: Ptr<CUstream>,
    flags: u32,
    priority: i32,
) -> Answer {
    out.required()?;
    let kind = match flags {
        0 => StreamKind::Blocking,
        1 => StreamKind::NonBlocking,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    let mut state = sim.lock();
    let context = state.current()?;
    let stream = state.create_stream(context, kind, flags, clamp_priority(priority))?;
    out.write(stream.raw())
}

/// The stream that most questions are about: none of a broken capture, and no legacy stream beside a
/// blocking one, which then breaks.
fn sound(state: &mut State, stream: Ptr<CUstream_st>) -> Result<Id<Stream>, CUresult> {
    let id = state.find_stream(stream.address())?;
    capture::check_sound(state, id)?;
    Ok(id)
}

/// The stream of a question that no capture survives.
fn uncaptured(state: &mut State, stream: Ptr<CUstream_st>) -> Result<Id<Stream>, CUresult> {
    let id = state.find_stream(stream.address())?;
    capture::check_uncapturable(state, id)?;
    Ok(id)
}

pub(crate) fn cuStreamGetPriority(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<i32>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = sound(&mut state, stream)?;
    out.write(state.stream(id)?.priority)
}

pub(crate) fn cuStreamGetFlags(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<u32>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = uncaptured(&mut state, stream)?;
    out.write(state.stream(id)?.flags)
}

pub(crate) fn cuStreamGetId(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<u64>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = uncaptured(&mut state, stream)?;
    out.write(state.stream(id)?.id)
}

pub(crate) fn cuStreamGetCtx(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<CUcontext>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = sound(&mut state, stream)?;
    out.write(state.stream(id)?.context.raw())
}

/// No stream is of a green context.
pub(crate) fn cuStreamGetCtx_v2(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    out: Ptr<CUcontext>,
    green: Ptr<CUgreenCtx>,
) -> Answer {
    if out.is_null() && green.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = sim.lock();
    let id = sound(&mut state, stream)?;
    out.offer(state.stream(id)?.context.raw());
    green.offer(std::ptr::null_mut());
    Ok(())
}

pub(crate) fn cuStreamGetDevice(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<CUdevice>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = uncaptured(&mut state, stream)?;
    let core = state.core_of(id)?;
    out.write(core.device as CUdevice)
}

pub(crate) fn cuStreamDestroy_v2(sim: &Sim, stream: Ptr<CUstream_st>) -> Answer {
    // Declared before the lock, so that it is dropped after it: a destructor may run.
    let _leavings;
    let mut state = sim.lock();
    let found = state.streams.find(stream.address());
    let id = found.ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    _leavings = capture::stream_destroyed(&mut state, id);
    let Some(gone) = state.streams.remove(id) else { return Err(CUDA_ERROR_INVALID_HANDLE) };
    if let Some(context) = state.contexts.get_mut(gone.context) {
        if gone.kind.is_blocking() {
            context.orphans.retain(|task| !sim.engine.is_done(*task));
            context.orphans.extend(gone.last);
        }
        return context.core.check();
    }
    Ok(())
}

/// The tasks that a wait for a stream waits for.
fn awaited(state: &State, stream: Id<Stream>) -> Result<Vec<TaskId>, CUresult> {
    let this = state.stream(stream)?;
    match this.kind {
        StreamKind::Legacy => state.predecessors(stream),
        _ => Ok(this.last.into_iter().collect()),
    }
}

pub(crate) fn cuStreamQuery(sim: &Sim, stream: Ptr<CUstream_st>) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_stream_wait(&mut state, id)?;
    let tasks = awaited(&state, id)?;
    if tasks.iter().all(|task| sim.engine.is_done(*task)) {
        state.core_of(id).map(drop)
    } else {
        Err(CUDA_ERROR_NOT_READY)
    }
}

pub(crate) fn cuStreamSynchronize(sim: &Sim, stream: Ptr<CUstream_st>) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_stream_wait(&mut state, id)?;
    let tasks = awaited(&state, id)?;
    let core = state.core_of(id)?;
    drop(state);
    for task in tasks {
        sim.engine.wait(task);
    }
    core.check()
}

pub(crate) fn cuStreamGetAttribute(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    attribute: CUlaunchAttributeID,
    value: Ptr<CUstreamAttrValue_v1>,
) -> Answer {
    value.required()?;
    let mut state = sim.lock();
    let id = sound(&mut state, stream)?;
    let this = state.stream(id)?;
    match attribute {
        CU_LAUNCH_ATTRIBUTE_PRIORITY => value.cast().write(this.priority),
        CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => value.cast().write(this.sync_policy),
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => value.cast().write(this.tuning.domain),
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => value.cast().write(this.tuning.domains),
        CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW => value.cast().write(this.tuning.window),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuStreamSetAttribute(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    attribute: CUlaunchAttributeID,
    value: Ptr<CUstreamAttrValue_v1>,
) -> Answer {
    value.required()?;
    let mut state = sim.lock();
    let id = sound(&mut state, stream)?;
    let this = state.stream_mut(id)?;
    match attribute {
        CU_LAUNCH_ATTRIBUTE_PRIORITY => {
            this.priority = clamp_priority(value.cast().read()?);
            Ok(())
        }
        CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => {
            let policy = value.cast().read()?;
            if !SYNC_POLICIES.contains(&policy) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            this.sync_policy = policy;
            Ok(())
        }
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => {
            let domain = value.cast().read()?;
            if !MEMORY_DOMAINS.contains(&domain) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            this.tuning.domain = domain;
            Ok(())
        }
        CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW => {
            check_window(&value.cast::<CUaccessPolicyWindow>().read()?)?;
            this.tuning.window = value.cast().read()?;
            Ok(())
        }
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => {
            let domains: [u8; 2] = value.cast().read()?;
            if domains.iter().any(|domain| *domain >= DEVICE_DOMAINS) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            this.tuning.domains = domains;
            Ok(())
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Refuses a window that is larger than the device allows, a ratio beyond 1, and what persists
/// where it is missed. Whatever else it says is kept.
fn check_window(window: &CUaccessPolicyWindow) -> Answer {
    let bad = window.num_bytes > MOST_WINDOW_BYTES
        || window.hitRatio < 0.0
        || window.hitRatio > 1.0
        || window.missProp == CU_ACCESS_PROPERTY_PERSISTING;
    if bad { Err(CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
}

pub(crate) fn cuStreamCopyAttributes(
    sim: &Sim,
    target: Ptr<CUstream_st>,
    source: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    let target = sound(&mut state, target)?;
    let source = sound(&mut state, source)?;
    let from = state.stream(source)?;
    let (priority, sync_policy, tuning) = (from.priority, from.sync_policy, from.tuning);
    let to = state.stream_mut(target)?;
    to.priority = priority;
    to.sync_policy = sync_policy;
    to.tuning = tuning;
    Ok(())
}
