//! Contexts and the calling thread's stack of them.

use std::sync::MutexGuard;

use grapture_sys::*;

use super::{Ptr, device};
use crate::capture;
use crate::context::{self, Context};
use crate::handle::Id;
use crate::sim::{Answer, Sim, State};

/// The answer of `cuCtxGetApiVersion`.
const API_VERSION: u32 = 3020;
/// The priorities of streams, from the least to the greatest.
pub(super) const PRIORITIES: (i32, i32) = (0, -5);
/// The limits: their values by default, by number; nothing where there is none.
const LIMITS: [Option<usize>; 10] = [
    Some(1024),
    Some(8_650_752),
    Some(8_388_608),
    None,
    Some(2048),
    Some(64),
    Some(11_796_480),
    Some(232_448),
    Some(0),
    None,
];

/// The identity of a context.
pub(super) type ContextId = Id<Context>;

/// The most bytes of a thread's stack.
const MOST_STACK: usize = (512 << 10) - 16;
/// The most bytes that one miss of the cache fetches.
const MOST_FETCH: usize = 128;
/// What the persisting part of the cache is measured in, and all of it.
const PERSISTING_UNIT: usize = 3_932_160;
const MOST_PERSISTING: usize = 10 * PERSISTING_UNIT;

/// The context that a C handle names; 201 if it names none.
pub(super) fn named(state: &State, context: Ptr<CUctx_st>) -> Result<Id<Context>, CUresult> {
    state.contexts.find(context.address()).ok_or(CUDA_ERROR_INVALID_CONTEXT)
}

pub(crate) fn cuCtxCreate_v2(sim: &Sim, out: Ptr<CUcontext>, flags: u32, dev: CUdevice) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let ordinal = state.device(dev)?.ordinal;
    context::check_flags(flags)?;
    let flags = context::effective_flags(flags);
    let context = state.create_context(ordinal, false, flags)?;
    state.thread().stack.push(context);
    out.write(context.raw())
}

pub(crate) fn cuCtxDestroy_v2(sim: &Sim, context: Ptr<CUctx_st>) -> Answer {
    context.required()?;
    let mut state = sim.lock();
    let id = named(&state, context)?;
    if state.contexts.get(id).is_some_and(|context| context.primary) {
        return Err(CUDA_ERROR_INVALID_CONTEXT);
    }
    let stack = &mut state.thread().stack;
    if stack.last() == Some(&id) {
        stack.pop();
    }
    drop(state);
    device::end(sim, id)
}

pub(crate) fn cuCtxPushCurrent_v2(sim: &Sim, context: Ptr<CUctx_st>) -> Answer {
    context.required()?;
    let mut state = sim.lock();
    let id = named(&state, context)?;
    state.thread().stack.push(id);
    Ok(())
}

pub(crate) fn cuCtxPopCurrent_v2(sim: &Sim, out: Ptr<CUcontext>) -> Answer {
    let popped = sim.lock().thread().stack.pop().ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    out.offer(popped.raw());
    Ok(())
}

pub(crate) fn cuCtxSetCurrent(sim: &Sim, context: Ptr<CUctx_st>) -> Answer {
    let mut state = sim.lock();
    let replacement = if context.is_null() { None } else { Some(named(&state, context)?) };
    let stack = &mut state.thread().stack;
    stack.pop();
    stack.extend(replacement);
    Ok(())
}

pub(crate) fn cuCtxGetCurrent(sim: &Sim, out: Ptr<CUcontext>) -> Answer {
    let current = sim.lock().thread().stack.last().copied();
    out.write(current.map_or(std::ptr::null_mut(), Id::raw))
}

pub(crate) fn cuCtxGetDevice(sim: &Sim, out: Ptr<CUdevice>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let key = *state.thread().stack.last().ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    // Answered also for a context that is broken, or gone.
    let device = state.contexts.get(key).map_or(0, |context| context.core.device);
    out.write(device as CUdevice)
}

pub(crate) fn cuCtxGetFlags(sim: &Sim, out: Ptr<u32>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let current = *state.thread().stack.last().ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    // Answered also for a context that is broken.
    let context = state.contexts.get(current).ok_or(CUDA_ERROR_CONTEXT_IS_DESTROYED)?;
    out.write(context.flags)
}

/// The context that a C handle names, or the current one for null.
pub(super) fn named_or_current(
    state: &mut State,
    context: Ptr<CUctx_st>,
) -> Result<Id<Context>, CUresult> {
    if context.is_null() { state.current() } else { named(state, context) }
}

pub(crate) fn cuCtxGetId(sim: &Sim, context: Ptr<CUctx_st>, out: Ptr<u64>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = named_or_current(&mut state, context)?;
    out.write(state.context(id)?.core.key)
}

pub(crate) fn cuCtxGetApiVersion(sim: &Sim, context: Ptr<CUctx_st>, out: Ptr<u32>) -> Answer {
    out.required()?;
    named_or_current(&mut sim.lock(), context)?;
    out.write(API_VERSION)
}

pub(crate) fn cuCtxGetStreamPriorityRange(
    sim: &Sim,
    least: Ptr<i32>,
    greatest: Ptr<i32>,
) -> Answer {
    sim.lock().current()?;
    least.offer(PRIORITIES.0);
    greatest.offer(PRIORITIES.1);
    Ok(())
}

/// The value of a limit by default; 215 where the device has none, 1 for an unknown number.
fn limit_default(limit: CUlimit) -> Result<usize, CUresult> {
    let known = LIMITS.get(limit.0 as usize).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    known.ok_or(CUDA_ERROR_UNSUPPORTED_LIMIT)
}

/// A limit as the driver takes it: rounded up to a unit and to a least value; 1 where it is too
/// large, 800 where it is only read.
fn rounded_limit(limit: CUlimit, value: usize) -> Result<usize, CUresult> {
    let (least, unit, most) = match limit {
        CU_LIMIT_STACK_SIZE => (0, 16, MOST_STACK),
        CU_LIMIT_PRINTF_FIFO_SIZE => (512 << 10, 256, usize::MAX),
        CU_LIMIT_MALLOC_HEAP_SIZE => (4 << 20, 64 << 10, usize::MAX),
        CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => (32, 1, usize::MAX),
        CU_LIMIT_MAX_L2_FETCH_GRANULARITY => (0, 1, MOST_FETCH),
        CU_LIMIT_PERSISTING_L2_CACHE_SIZE => (0, PERSISTING_UNIT, MOST_PERSISTING),
        CU_LIMIT_SHMEM_SIZE | CU_LIMIT_CIG_ENABLED => return Err(CUDA_ERROR_NOT_PERMITTED),
        _ => (0, 1, usize::MAX),
    };
    let rounded = value.max(least).checked_next_multiple_of(unit);
    rounded.filter(|rounded| *rounded <= most).ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuCtxSetLimit(sim: &Sim, limit: CUlimit, value: usize) -> Answer {
    let mut state = sim.lock();
    let current = state.current()?;
    capture::check_unsafe_call(&mut state)?;
    limit_default(limit)?;
    let value = rounded_limit(limit, value)?;
    state.context_mut(current)?.limits.insert(limit.0, value);
    Ok(())
}

pub(crate) fn cuCtxGetLimit(sim: &Sim, out: Ptr<usize>, limit: CUlimit) -> Answer {
    let mut state = sim.lock();
    let current = state.current()?;
    let default = limit_default(limit)?;
    out.write(state.context(current)?.limits.get(&limit.0).copied().unwrap_or(default))
}

pub(crate) fn cuCtxSynchronize(sim: &Sim) -> Answer {
    let mut state = sim.lock();
    let current = state.current()?;
    synchronize(sim, state, current)
}

/// Waits for all work of a context.
pub(super) fn synchronize(
    sim: &Sim,
    mut state: MutexGuard<'_, State>,
    context: ContextId,
) -> Answer {
    capture::check_context_wait(&mut state, context)?;
    let core = state.context(context)?.core.clone();
    drop(state);
    sim.engine.wait_context(core.key);
    core.check()
}
