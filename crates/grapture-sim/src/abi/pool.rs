//! Stream-ordered allocation and memory pools.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::context::Context;
use crate::handle::Id;
use crate::memory::{AllocationKind, Pool};
use crate::sim::{Answer, Sim, State};
use crate::stream;
use crate::work::Work;

/// The access of the device that a pool is on.
const READ_WRITE: u32 = 3;
/// Access rights are kept among a pool's attributes, above their numbers, by device.
const ACCESS: u32 = 1 << 16;

fn named(state: &State, pool: Ptr<CUmemPoolHandle_st>) -> Result<Id<Pool>, CUresult> {
    state.pools.find(pool.address()).ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuDeviceGetDefaultMemPool(
    sim: &Sim,
    out: Ptr<CUmemoryPool>,
    dev: CUdevice,
) -> Answer {
    out.required()?;
    out.write(sim.lock().device(dev)?.default_pool.raw())
}

pub(crate) fn cuDeviceGetMemPool(sim: &Sim, out: Ptr<CUmemoryPool>, dev: CUdevice) -> Answer {
    out.required()?;
    out.write(sim.lock().device(dev)?.current_pool.raw())
}

pub(crate) fn cuDeviceSetMemPool(
    sim: &Sim,
    dev: CUdevice,
    pool: Ptr<CUmemPoolHandle_st>,
) -> Answer {
    let mut state = sim.lock();
    let ordinal = state.device(dev)?.ordinal;
    let id = named(&state, pool)?;
    if state.pools.get(id).is_none_or(|pool| pool.device != ordinal) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    state.device(dev)?.current_pool = id;
    Ok(())
}

/// The device whose memory a location with a kind of allocation means; 801 for other memory.
fn device_of(location: Ptr<CUmemLocation>, kind: CUmemAllocationType) -> Result<i32, CUresult> {
    let words = location.cast::<u32>();
    let (place, id) = (words.read()?, words.at(1)?.read()?);
    match (CUmemLocationType(place), kind) {
        (CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED) => Ok(id as i32),
        (_, CU_MEM_ALLOCATION_TYPE_INVALID) => Err(CUDA_ERROR_INVALID_VALUE),
        _ => Err(CUDA_ERROR_NOT_SUPPORTED),
    }
}

/// As `call` for a device; a device that is not there is a bad location.
fn at_location(
    location: Ptr<CUmemLocation>,
    kind: CUmemAllocationType,
    call: impl FnOnce(i32) -> Answer,
) -> Answer {
    match call(device_of(location, kind)?) {
        Err(CUDA_ERROR_INVALID_DEVICE) => Err(CUDA_ERROR_INVALID_VALUE),
        other => other,
    }
}

pub(crate) fn cuMemGetDefaultMemPool(
    sim: &Sim,
    out: Ptr<CUmemoryPool>,
    location: Ptr<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Answer {
    out.required()?;
    at_location(location, kind, |device| cuDeviceGetDefaultMemPool(sim, out, device))
}

pub(crate) fn cuMemGetMemPool(
    sim: &Sim,
    out: Ptr<CUmemoryPool>,
    location: Ptr<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Answer {
    out.required()?;
    at_location(location, kind, |device| cuDeviceGetMemPool(sim, out, device))
}

pub(crate) fn cuMemSetMemPool(
    sim: &Sim,
    location: Ptr<CUmemLocation>,
    kind: CUmemAllocationType,
    pool: Ptr<CUmemPoolHandle_st>,
) -> Answer {
    at_location(location, kind, |device| cuDeviceSetMemPool(sim, device, pool))
}

/// Allocates from a pool. Where there is no room, frees that are under way are waited for once.
fn allocate(
    sim: &Sim,
    context: Id<Context>,
    pool: Id<Pool>,
    bytes: usize,
) -> Result<u64, CUresult> {
    let state = sim.lock();
    let device = state.pools.get(pool).ok_or(CUDA_ERROR_INVALID_VALUE)?.device;
    let key = state.context(context)?.core.key;
    drop(state);
    let take =
        || sim.memory.allocate(AllocationKind::Pooled, device, Some(context), Some(pool), bytes);
    let address = match take() {
        Err(CUDA_ERROR_OUT_OF_MEMORY) if bytes <= sim.memory.total_bytes(device) => {
            sim.engine.wait_context(key);
            take()?
        }
        other => other?,
    };
    let used = sim.memory.used_of(pool) as u64;
    if let Some(pool) = sim.lock().pools.get_mut(pool) {
        pool.used_high = pool.used_high.max(used);
    }
    Ok(address)
}

pub(crate) fn cuMemAllocAsync(
    sim: &Sim,
    out: Ptr<CUdeviceptr>,
    bytes: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    let device = state.core_of(id)?.device;
    let pool = state.devices.get(device).ok_or(CUDA_ERROR_INVALID_DEVICE)?.current_pool;
    drop(state);
    allocate_on(sim, out, bytes, pool, stream)
}

pub(crate) fn cuMemAllocFromPoolAsync(
    sim: &Sim,
    out: Ptr<CUdeviceptr>,
    bytes: usize,
    pool: Ptr<CUmemPoolHandle_st>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let pool = named(&sim.lock(), pool)?;
    allocate_on(sim, out, bytes, pool, stream)
}

fn allocate_on(
    sim: &Sim,
    out: Ptr<CUdeviceptr>,
    bytes: usize,
    pool: Id<Pool>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    if bytes == 0 {
        return out.write(0);
    }
    if bytes > sim.memory.total_bytes(state.core_of(id)?.device) {
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    }
    if let Some(address) = capture::allocate(sim, &mut state, id, bytes)? {
        return out.write(address);
    }
    capture::check_unsafe_call(&mut state)?;
    let context = state.stream(id)?.context;
    drop(state);
    out.write(allocate(sim, context, pool, bytes)?)
}

pub(crate) fn cuMemFreeAsync(sim: &Sim, address: CUdeviceptr, stream: Ptr<CUstream_st>) -> Answer {
    use AllocationKind::{Device, Managed, Pooled};
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    if capture::free(sim, &mut state, id, address)? {
        return Ok(());
    }
    if state.graphs.end_allocation(address) {
        return stream::run_now(sim, &mut state, id, Work::Free(address)).map(drop);
    }
    let freeable = |kind| matches!(kind, Device | Pooled | Managed);
    let found = sim.memory.find(address).filter(|a| a.start == address && freeable(a.kind));
    match found {
        Some(allocation) if allocation.doom() => {
            stream::run_now(sim, &mut state, id, Work::Free(address)).map(drop)
        }
        // What did not come from a pool is taken twice, until the first free has run.
        Some(allocation) if allocation.kind == Device => Ok(()),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuMemPoolCreate(
    sim: &Sim,
    out: Ptr<CUmemoryPool>,
    props: Ptr<CUmemPoolProps_v1>,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    let wanted = props.read()?;
    // A location is its type and an id.
    let [_, location] = location_of(props)?;
    let on_device = wanted.location.type_ == CU_MEM_LOCATION_TYPE_DEVICE;
    if wanted.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || !on_device {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if wanted.handleTypes.0 != 0 {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    let device = state.device(location as i32)?.ordinal;
    let pool = state.pools.insert(Pool::new(device));
    out.write(pool.raw())
}

/// The type of a pool's place and its number.
pub(super) fn location_of(props: Ptr<CUmemPoolProps_v1>) -> Result<[u32; 2], CUresult> {
    let word = std::mem::offset_of!(CUmemPoolProps_v1, location) / size_of::<u32>();
    let words = props.cast::<u32>();
    Ok([words.at(word)?.read()?, words.at(word + 1)?.read()?])
}

pub(crate) fn cuMemPoolDestroy(sim: &Sim, pool: Ptr<CUmemPoolHandle_st>) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, pool)?;
    if state.pools.get(id).is_some_and(|pool| pool.default) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    for device in &mut state.devices {
        if device.current_pool == id {
            device.current_pool = device.default_pool;
        }
    }
    state.pools.remove(id);
    Ok(())
}

/// Pools keep no memory that is free, so there is none to give back.
pub(crate) fn cuMemPoolTrimTo(sim: &Sim, pool: Ptr<CUmemPoolHandle_st>, _keep: usize) -> Answer {
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    named(&state, pool).map(drop)
}

pub(crate) fn cuMemPoolSetAttribute(
    sim: &Sim,
    pool: Ptr<CUmemPoolHandle_st>,
    attribute: CUmemPool_attribute,
    value: Ptr<c_void>,
) -> Answer {
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    let id = named(&state, pool)?;
    let used = sim.memory.used_of(id) as u64;
    let pool = state.pools.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    match attribute {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            pool.attributes.insert(attribute.0, u64::from(value.cast::<u32>().read()? != 0));
        }
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => {
            pool.attributes.insert(attribute.0, value.cast().read()?);
        }
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | CU_MEMPOOL_ATTR_USED_MEM_HIGH => {
            if value.cast::<u64>().read()? != 0 {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            pool.used_high = used;
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn cuMemPoolGetAttribute(
    sim: &Sim,
    pool: Ptr<CUmemPoolHandle_st>,
    attribute: CUmemPool_attribute,
    value: Ptr<c_void>,
) -> Answer {
    value.required()?;
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    let id = named(&state, pool)?;
    let used = sim.memory.used_of(id) as u64;
    let pool = state.pools.get(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let set = pool.attributes.get(&attribute.0).copied();
    match attribute {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            value.cast().write(set.unwrap_or(1) as u32)
        }
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => value.cast().write(set.unwrap_or(0)),
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT | CU_MEMPOOL_ATTR_USED_MEM_CURRENT => {
            value.cast().write(used)
        }
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | CU_MEMPOOL_ATTR_USED_MEM_HIGH => {
            value.cast().write(pool.used_high.max(used))
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuMemPoolSetAccess(
    sim: &Sim,
    pool: Ptr<CUmemPoolHandle_st>,
    map: Ptr<CUmemAccessDesc_v1>,
    count: usize,
) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, pool)?;
    for index in 0..count {
        let wanted = map.at(index)?.read()?;
        let [_, location] = map.at(index)?.cast::<[u32; 2]>().read()?;
        if wanted.location.type_ != CU_MEM_LOCATION_TYPE_DEVICE {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let device = state.device(location as i32)?.ordinal as u32;
        let pool = state.pools.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        pool.attributes.insert(ACCESS + device, wanted.flags.0.into());
    }
    Ok(())
}

pub(crate) fn cuMemPoolGetAccess(
    sim: &Sim,
    flags: Ptr<CUmemAccess_flags>,
    pool: Ptr<CUmemPoolHandle_st>,
    location: Ptr<CUmemLocation_v1>,
) -> Answer {
    flags.required()?;
    let mut state = sim.lock();
    let id = named(&state, pool)?;
    let [kind, ordinal] = location.cast::<[u32; 2]>().read()?;
    if kind != CU_MEM_LOCATION_TYPE_DEVICE.0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let device = state.device(ordinal as i32)?.ordinal;
    let pool = state.pools.get(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let own = if pool.device == device { READ_WRITE } else { 0 };
    let set = pool.attributes.get(&(ACCESS + device as u32)).map(|flags| *flags as u32);
    flags.cast().write(set.unwrap_or(own))
}
