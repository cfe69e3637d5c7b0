//! How contexts are set up and asked beyond their making: preferences, usage counts, peers.

use grapture_sys::*;

use super::Ptr;
use super::context::{self as contexts, named, named_or_current};
use crate::capture;
use crate::context;
use crate::device;
use crate::sim::{Answer, Sim, State};

/// The newest way to make a context: with parameters, of which none is supported but their
/// absence.
pub(crate) fn cuCtxCreate_v4(
    sim: &Sim,
    out: Ptr<CUcontext>,
    params: Ptr<CUctxCreateParams>,
    flags: u32,
    dev: CUdevice,
) -> Answer {
    if !params.is_null() {
        let params = params.read()?;
        check_affinity(params.execAffinityParams.is_null(), params.numExecAffinityParams)?;
        if !params.cigParams.is_null() {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
    }
    contexts::cuCtxCreate_v2(sim, out, flags, dev)
}

pub(crate) fn cuCtxCreate_v3(
    sim: &Sim,
    out: Ptr<CUcontext>,
    affinity: Ptr<CUexecAffinityParam>,
    count: i32,
    flags: u32,
    dev: CUdevice,
) -> Answer {
    check_affinity(affinity.is_null(), count)?;
    contexts::cuCtxCreate_v2(sim, out, flags, dev)
}

/// A context on a part of a device is for devices that are shared between processes.
fn check_affinity(is_null: bool, count: i32) -> Answer {
    match count {
        ..=0 => Ok(()),
        _ if is_null => Err(CUDA_ERROR_INVALID_VALUE),
        _ => Err(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY),
    }
}

pub(crate) fn cuCtxGetExecAffinity(
    sim: &Sim,
    out: Ptr<CUexecAffinityParam>,
    kind: CUexecAffinityType,
) -> Answer {
    out.required()?;
    sim.lock().current()?;
    if kind != CU_EXEC_AFFINITY_TYPE_SM_COUNT {
        return Err(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    }
    // The struct: the kind, then the count.
    out.cast::<u32>().write(kind.0)?;
    out.cast::<u32>().at(1)?.write(device::MULTIPROCESSORS as u32)
}

/// A preference between the first cache and shared memory, which changes nothing that is seen.
pub(crate) fn check_cache(config: CUfunc_cache) -> Answer {
    if config.0 <= CU_FUNC_CACHE_PREFER_EQUAL.0 { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// A preference among widths of banks, of which the device has one.
pub(crate) fn check_banks(config: CUsharedconfig) -> Answer {
    let known = config.0 <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE.0;
    if known { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

pub(crate) fn cuCtxGetCacheConfig(sim: &Sim, out: Ptr<CUfunc_cache>) -> Answer {
    let mut state = sim.lock();
    let current = state.current()?;
    out.write(state.context(current)?.cache)
}

pub(crate) fn cuCtxSetCacheConfig(sim: &Sim, config: CUfunc_cache) -> Answer {
    let mut state = sim.lock();
    let current = state.current()?;
    capture::check_unsafe_call(&mut state)?;
    check_cache(config)?;
    state.context_mut(current)?.cache = config;
    Ok(())
}

pub(crate) fn cuCtxGetSharedMemConfig(sim: &Sim, out: Ptr<CUsharedconfig>) -> Answer {
    sim.lock().current()?;
    out.write(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE)
}

pub(crate) fn cuCtxSetSharedMemConfig(sim: &Sim, config: CUsharedconfig) -> Answer {
    sim.lock().current()?;
    check_banks(config)
}

pub(crate) fn cuCtxSetFlags(sim: &Sim, flags: u32) -> Answer {
    let mut state = sim.lock();
    let current = state.current()?;
    context::check_flags(flags)?;
    let context = state.context_mut(current)?;
    // Whether host memory is mapped cannot be changed any more.
    let mapped = CU_CTX_MAP_HOST.0;
    context.flags = flags & !mapped | context.flags & mapped;
    Ok(())
}

/// There is no cache here whose lines could stay.
pub(crate) fn cuCtxResetPersistingL2Cache(sim: &Sim) -> Answer {
    sim.lock().current().map(drop)
}

pub(crate) fn cuCtxGetDevice_v2(sim: &Sim, out: Ptr<CUdevice>, context: Ptr<CUctx_st>) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = named_or_current(&mut state, context)?;
    out.write(state.context(id)?.core.device as CUdevice)
}

pub(crate) fn cuCtxSynchronize_v2(sim: &Sim, context: Ptr<CUctx_st>) -> Answer {
    let mut state = sim.lock();
    let id = named_or_current(&mut state, context)?;
    contexts::synchronize(sim, state, id)
}

pub(crate) fn cuCtxAttach(sim: &Sim, out: Ptr<CUcontext>, flags: u32) -> Answer {
    out.required()?;
    if flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = sim.lock();
    let current = state.current()?;
    state.context_mut(current)?.attached += 1;
    out.write(current.raw())
}

/// Undoes a `cuCtxAttach`, or the making of a context; of the primary one, nothing.
pub(crate) fn cuCtxDetach(sim: &Sim, context: Ptr<CUctx_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, context)?;
    let known = state.context_mut(id)?;
    if known.primary || known.attached > 0 {
        known.attached = known.attached.saturating_sub(1);
        return Ok(());
    }
    drop(state);
    contexts::cuCtxDestroy_v2(sim, context)
}

/// The current context and another one on another device: 217 where it is on the same.
fn peers(
    state: &mut State,
    peer: Ptr<CUctx_st>,
) -> Result<(contexts::ContextId, contexts::ContextId, bool), CUresult> {
    let current = state.current()?;
    let peer = named(state, peer)?;
    let apart = state.context(current)?.core.device != state.context(peer)?.core.device;
    Ok((current, peer, apart))
}

/// Lets the current context reach the memory of another. All memory can be reached from
/// everywhere here, so only the codes differ.
pub(crate) fn cuCtxEnablePeerAccess(sim: &Sim, peer: Ptr<CUctx_st>, flags: u32) -> Answer {
    let mut state = sim.lock();
    let (current, peer, apart) = peers(&mut state, peer)?;
    if flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if !apart {
        return Err(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    let is_new = state.context_mut(current)?.peers.insert(peer);
    if is_new { Ok(()) } else { Err(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) }
}

pub(crate) fn cuCtxDisablePeerAccess(sim: &Sim, peer: Ptr<CUctx_st>) -> Answer {
    let mut state = sim.lock();
    let (current, peer, _) = peers(&mut state, peer)?;
    let was_enabled = state.context_mut(current)?.peers.remove(&peer);
    if was_enabled { Ok(()) } else { Err(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED) }
}
