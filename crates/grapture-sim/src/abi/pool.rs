//! Stream-ordered allocation and memory pools.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::context::Context;
use crate::device::Device;
use crate::handle::Id;
use crate::memory::{AllocationKind, Pool};
use crate::sim::{Answer, Sim, State};
use crate::stream::{self, Stream};
use crate::work::Work;

/// How memory of a pool may be shared with other processes; nothing here shares it.
const SHAREABLE: [CUmemAllocationHandleType; 3] =
    [CU_MEM_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_FABRIC];
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

/// The device; 1 where most calls answer 101.
fn device_of(state: &mut State, dev: CUdevice) -> Result<&mut Device, CUresult> {
    state.device(dev).map_err(|_| CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuDeviceGetMemPool(sim: &Sim, out: Ptr<CUmemoryPool>, dev: CUdevice) -> Answer {
    out.required()?;
    out.write(device_of(&mut sim.lock(), dev)?.current_pool.raw())
}

pub(crate) fn cuDeviceSetMemPool(
    sim: &Sim,
    dev: CUdevice,
    pool: Ptr<CUmemPoolHandle_st>,
) -> Answer {
    let mut state = sim.lock();
    let ordinal = device_of(&mut state, dev)?.ordinal;
    let id = named(&state, pool)?;
    capture::check_unsafe_call(&mut state)?;
    if state.pools.get(id).is_none_or(|pool| pool.device != ordinal) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    state.device(dev)?.current_pool = id;
    Ok(())
}

/// The device whose memory a location with a kind of allocation means; 801 for other memory.
fn device_at(location: Ptr<CUmemLocation>, kind: CUmemAllocationType) -> Result<i32, CUresult> {
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
    match call(device_at(location, kind)?) {
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

/// The bytes of a pool that are in use.
fn used_of(sim: &Sim, pool: Id<Pool>) -> u64 {
    sim.memory.used_of(pool) as u64
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
    sim.lock()
        .pools
        .get(pool)
        .map_or(Ok(()), |known| known.check_room(used_of(sim, pool), bytes))?;
    let address = match take() {
        Err(CUDA_ERROR_OUT_OF_MEMORY) if bytes <= sim.memory.total_bytes(device) => {
            sim.engine.wait_context(key);
            take()?
        }
        other => other?,
    };
    let used = used_of(sim, pool);
    if let Some(pool) = sim.lock().pools.get_mut(pool) {
        pool.note_use(used);
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

/// Refuses what is to happen in the order of a stream: of a broken capture, and outside of captures
/// where a capture bars it.
fn check_order(state: &mut State, stream: Id<Stream>) -> Answer {
    capture::check_sound(state, stream)?;
    if capture::is_capturing(state, stream) {
        return Ok(());
    }
    capture::check_unsafe_call(state)
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
    check_order(&mut state, id)?;
    if bytes == 0 {
        return out.write(0);
    }
    if bytes > sim.memory.total_bytes(state.core_of(id)?.device) {
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    }
    if let Some(address) = capture::allocate(sim, &mut state, id, bytes)? {
        return out.write(address);
    }
    let context = state.stream(id)?.context;
    drop(state);
    out.write(allocate(sim, context, pool, bytes)?)
}

pub(crate) fn cuMemFreeAsync(sim: &Sim, address: CUdeviceptr, stream: Ptr<CUstream_st>) -> Answer {
    use AllocationKind::{Device, Managed, Pooled};
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    check_order(&mut state, id)?;
    if address == 0 || capture::free(sim, &mut state, id, address)? {
        return Ok(());
    }
    if state.graphs.end_allocation(address)
        && let Some(allocation) = state.graphs.allocation(address).cloned()
    {
        return stream::run_now(sim, &mut state, id, Work::End(allocation)).map(drop);
    }
    let found = sim.memory.find(address).filter(|a| a.start == address);
    match found.filter(|a| matches!(a.kind, Device | Pooled | Managed)) {
        Some(allocation) if allocation.kind == Managed => Err(CUDA_ERROR_NOT_SUPPORTED),
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
    if wanted.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    let good = wanted.allocType == CU_MEM_ALLOCATION_TYPE_PINNED
        && wanted.location.type_ == CU_MEM_LOCATION_TYPE_DEVICE
        && SHAREABLE.contains(&wanted.handleTypes)
        && wanted.reserved.iter().all(|byte| *byte == 0);
    if !good {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let device = device_of(&mut state, location as i32)?.ordinal;
    let pool = state.pools.insert(Pool::new(device, wanted.maxSize as u64));
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
    capture::check_unsafe_call(&mut state)?;
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

pub(crate) fn cuMemPoolTrimTo(sim: &Sim, pool: Ptr<CUmemPoolHandle_st>, keep: usize) -> Answer {
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    let id = named(&state, pool)?;
    state.pools.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)?.trim(keep as u64);
    Ok(())
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
    let used = used_of(sim, id);
    let pool = state.pools.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    match attribute {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            pool.attributes.insert(attribute.0, u64::from(value.cast::<u32>().read()? != 0));
        }
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => pool.threshold = value.cast().read()?,
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | CU_MEMPOOL_ATTR_USED_MEM_HIGH => {
            if value.cast::<u64>().read()? != 0 {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            if attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH {
                pool.used_high = used;
            } else {
                pool.reserved_high = pool.reserved(used);
            }
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
    let used = used_of(sim, id);
    let pool = state.pools.get(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let set = pool.attributes.get(&attribute.0).copied();
    match attribute {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        | CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            value.cast().write(set.unwrap_or(1) as u32)
        }
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => value.cast().write(pool.threshold),
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => value.cast().write(pool.reserved(used)),
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => {
            value.cast().write(pool.reserved_high.max(pool.reserved(used)))
        }
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT => value.cast().write(used),
        CU_MEMPOOL_ATTR_USED_MEM_HIGH => value.cast().write(pool.used_high.max(used)),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Access is to read and write, or none, which a pool's own device cannot have.
fn check_access(flags: u32, own: bool) -> Answer {
    match flags {
        READ_WRITE => Ok(()),
        0 if own => Err(CUDA_ERROR_INVALID_DEVICE),
        0 => Ok(()),
        1 => Err(CUDA_ERROR_NOT_SUPPORTED),
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
    capture::check_unsafe_call(&mut state)?;
    if count == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    for index in 0..count {
        let wanted = map.at(index)?.read()?;
        let [_, location] = map.at(index)?.cast::<[u32; 2]>().read()?;
        if wanted.location.type_ != CU_MEM_LOCATION_TYPE_DEVICE {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        let device = state.device(location as i32)?.ordinal;
        let pool = state.pools.get_mut(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        check_access(wanted.flags.0, pool.device == device)?;
        pool.attributes.insert(ACCESS + device as u32, wanted.flags.0.into());
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
    capture::check_unsafe_call(&mut state)?;
    let [kind, ordinal] = location.cast::<[u32; 2]>().read()?;
    match CUmemLocationType(kind) {
        CU_MEM_LOCATION_TYPE_DEVICE => {}
        CU_MEM_LOCATION_TYPE_HOST => return flags.cast().write(0_u32),
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    let device = device_of(&mut state, ordinal as i32)?.ordinal;
    let pool = state.pools.get(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let own = if pool.device == device { READ_WRITE } else { 0 };
    let set = pool.attributes.get(&(ACCESS + device as u32)).map(|flags| *flags as u32);
    flags.cast().write(set.unwrap_or(own))
}
