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

/// The memory domains, and how they lie on those of the device: each where it is.
const MEMORY_DOMAINS: std::ops::RangeInclusive<u32> = 0..=1;
const DOMAIN_MAP: [u8; 2] = [0, 1];

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

/// Reads something of a stream.
fn ask<T>(
    sim: &Sim,
    stream: Ptr<CUstream_st>,
    out: Ptr<T>,
    read: impl FnOnce(&Stream) -> T,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    out.write(read(state.stream(id)?))
}

pub(crate) fn cuStreamGetPriority(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<i32>) -> Answer {
    ask(sim, stream, out, |stream| stream.priority)
}

/// Of all questions about a stream, the one that no capture survives.
pub(crate) fn cuStreamGetFlags(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<u32>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_uncapturable(&mut state, id)?;
    out.write(state.stream(id)?.flags)
}

pub(crate) fn cuStreamGetId(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<u64>) -> Answer {
    ask(sim, stream, out, |stream| stream.id)
}

pub(crate) fn cuStreamGetCtx(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<CUcontext>) -> Answer {
    ask(sim, stream, out, |stream| stream.context.raw())
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
    let id = state.find_stream(stream.address())?;
    out.offer(state.stream(id)?.context.raw());
    green.offer(std::ptr::null_mut());
    Ok(())
}

pub(crate) fn cuStreamGetDevice(sim: &Sim, stream: Ptr<CUstream_st>, out: Ptr<CUdevice>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
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
    let id = state.find_stream(stream.address())?;
    let this = state.stream(id)?;
    match attribute {
        CU_LAUNCH_ATTRIBUTE_PRIORITY => value.cast().write(this.priority),
        CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => value.cast().write(this.sync_policy),
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => value.cast().write(this.memory_domain),
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => value.cast().write(DOMAIN_MAP),
        CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW => value.write(CUstreamAttrValue_v1::default()),
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
    let id = state.find_stream(stream.address())?;
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
            this.memory_domain = domain;
            Ok(())
        }
        CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW | CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => {
            Err(CUDA_ERROR_NOT_SUPPORTED)
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuStreamCopyAttributes(
    sim: &Sim,
    target: Ptr<CUstream_st>,
    source: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    let target = state.find_stream(target.address())?;
    let source = state.find_stream(source.address())?;
    let from = state.stream(source)?;
    let (priority, sync_policy, domain) = (from.priority, from.sync_policy, from.memory_domain);
    let to = state.stream_mut(target)?;
    to.priority = priority;
    to.sync_policy = sync_policy;
    to.memory_domain = domain;
    Ok(())
}
