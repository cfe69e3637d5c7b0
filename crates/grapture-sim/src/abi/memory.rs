//! Allocation, of devices and pinned on the host, and what is known of an address.

use core::ffi::c_void;

use std::ptr::NonNull;
use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::context::Context;
use crate::handle::Id;
use crate::memory::{ALIGNMENT, Allocation, AllocationKind, SharedBytes};
use crate::sim::{Answer, Sim, State};

/// The most bytes of a row, as the device tells it.
const MOST_PITCH: usize = i32::MAX as usize;
/// The flags of `cuMemHostAlloc`.
const HOST_ALLOC_FLAGS: u32 =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
/// The flags of `cuMemHostRegister` that are modelled.
const REGISTER_FLAGS: u32 =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;

/// The current context and its device, for a call that is unsafe during captures.
fn unsafe_call(state: &mut State) -> Result<(Id<Context>, usize), CUresult> {
    capture::check_unsafe_call(state)?;
    let context = state.current()?;
    Ok((context, state.context(context)?.core.device))
}

pub(crate) fn cuMemGetInfo_v2(sim: &Sim, free: Ptr<usize>, total: Ptr<usize>) -> Answer {
    let mut state = sim.lock();
    let context = state.current()?;
    let device = state.context(context)?.core.device;
    free.offer(sim.memory.free_bytes(device));
    total.offer(sim.config.memory());
    Ok(())
}

pub(crate) fn cuMemAlloc_v2(sim: &Sim, out: Ptr<CUdeviceptr>, bytes: usize) -> Answer {
    let (context, device) = unsafe_call(&mut sim.lock())?;
    // No failure leaves an address of before.
    out.write(0)?;
    out.write(sim.memory.allocate(AllocationKind::Device, device, Some(context), None, bytes)?)
}

pub(crate) fn cuMemAllocPitch_v2(
    sim: &Sim,
    out: Ptr<CUdeviceptr>,
    pitch: Ptr<usize>,
    width: usize,
    height: usize,
    element: u32,
) -> Answer {
    out.required()?;
    pitch.required()?;
    let (context, device) = unsafe_call(&mut sim.lock())?;
    if !matches!(element, 4 | 8 | 16) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if width > MOST_PITCH {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let row = width.checked_next_multiple_of(ALIGNMENT).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    let bytes = row.checked_mul(height).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    let kind = AllocationKind::Device;
    out.write(sim.memory.allocate(kind, device, Some(context), None, bytes)?)?;
    pitch.write(row)
}

/// Frees what starts at an address. Other than for pooled memory, that waits for the work of the
/// context that it was made in.
fn free(sim: &Sim, address: u64, freeable: fn(AllocationKind) -> bool) -> Answer {
    let mut state = sim.lock();
    capture::check_unsafe_call(&mut state)?;
    if state.graphs.end_allocation(address) {
        sim.memory.free(address);
        return Ok(());
    }
    let found = sim.memory.find(address).filter(|a| a.start == address && freeable(a.kind));
    let allocation = found.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let core = match allocation.context {
        Some(context) => Some(state.context(context)?.core.clone()),
        None => None,
    };
    drop(state);
    if !allocation.doom() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let waits = allocation.kind != AllocationKind::Pooled;
    if let Some(core) = core.filter(|_| waits) {
        sim.engine.wait_context(core.key);
    }
    sim.memory.free(address);
    Ok(())
}

pub(crate) fn cuMemFree_v2(sim: &Sim, address: CUdeviceptr) -> Answer {
    use AllocationKind::{Device, Managed, Pooled};
    if address == 0 {
        let mut state = sim.lock();
        capture::check_unsafe_call(&mut state)?;
        // Only a broken context does not let nothing be freed.
        return match state.current() {
            Err(CUDA_ERROR_INVALID_CONTEXT) => Ok(()),
            current => current.map(drop),
        };
    }
    free(sim, address, |kind| matches!(kind, Device | Pooled | Managed))
}

pub(crate) fn cuMemAllocHost_v2(sim: &Sim, out: Ptr<*mut c_void>, bytes: usize) -> Answer {
    cuMemHostAlloc(sim, out, bytes, 0)
}

pub(crate) fn cuMemHostAlloc(sim: &Sim, out: Ptr<*mut c_void>, bytes: usize, flags: u32) -> Answer {
    out.required()?;
    let (context, device) = unsafe_call(&mut sim.lock())?;
    if flags & !HOST_ALLOC_FLAGS != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if bytes == 0 {
        return out.write(std::ptr::null_mut());
    }
    let kind = AllocationKind::Pinned;
    let address = sim.memory.allocate_host(kind, device, Some(context), bytes)?;
    out.write(std::ptr::with_exposed_provenance_mut(address as usize))
}

pub(crate) fn cuMemFreeHost(sim: &Sim, address: Ptr<c_void>) -> Answer {
    if address.is_null() {
        return capture::check_unsafe_call(&mut sim.lock());
    }
    free(sim, address.address() as u64, |kind| kind == AllocationKind::Pinned)
}

pub(crate) fn cuMemHostGetDevicePointer_v2(
    sim: &Sim,
    out: Ptr<CUdeviceptr>,
    host: Ptr<c_void>,
    flags: u32,
) -> Answer {
    out.required()?;
    sim.lock().current()?;
    let address = host.address() as u64;
    let pinned = sim
        .memory
        .find(address)
        .is_some_and(|found| found.kind.is_host() && found.kind != AllocationKind::Managed);
    if flags != 0 || !pinned {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    out.write(address)
}

pub(crate) fn cuMemHostRegister_v2(
    sim: &Sim,
    host: Ptr<c_void>,
    bytes: usize,
    flags: u32,
) -> Answer {
    let (context, device) = unsafe_call(&mut sim.lock())?;
    if flags & !REGISTER_FLAGS != 0 || bytes == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let start = NonNull::new(host.raw().cast::<u8>()).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the caller of `cuMemHostRegister` keeps these bytes of its own allocated until
    // `cuMemHostUnregister`, which waits for the work that uses them, and orders its own accesses
    // with those of the device, as the driver demands.
    let region = unsafe { SharedBytes::from_raw(start, bytes) };
    sim.memory.register(region, device, Some(context))
}

pub(crate) fn cuMemHostUnregister(sim: &Sim, host: Ptr<c_void>) -> Answer {
    capture::check_unsafe_call(&mut sim.lock())?;
    let address = host.required()?.address() as u64;
    let found = sim.memory.find(address).ok_or(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)?;
    if found.kind != AllocationKind::Registered || found.start != address {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    free(sim, address, |kind| kind == AllocationKind::Registered)
}

pub(crate) fn cuMemAllocManaged(
    sim: &Sim,
    out: Ptr<CUdeviceptr>,
    bytes: usize,
    flags: u32,
) -> Answer {
    out.required()?;
    if !matches!(flags, 1 | 2) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let (context, device) = unsafe_call(&mut sim.lock())?;
    if bytes == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    out.write(sim.memory.allocate_host(AllocationKind::Managed, device, Some(context), bytes)?)
}

pub(crate) fn cuMemGetAddressRange_v2(
    sim: &Sim,
    base: Ptr<CUdeviceptr>,
    size: Ptr<usize>,
    address: CUdeviceptr,
) -> Answer {
    sim.lock().current()?;
    let found = sim.memory.find(address).ok_or(CUDA_ERROR_NOT_FOUND)?;
    base.offer(found.start);
    size.offer(found.len());
    Ok(())
}

pub(crate) fn cuPointerGetAttribute(
    sim: &Sim,
    data: Ptr<c_void>,
    attribute: CUpointer_attribute,
    address: CUdeviceptr,
) -> Answer {
    data.required()?;
    let found = sim.memory.find(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    tell(sim, data, attribute, address, &found)
}

/// The access of `CU_POINTER_ATTRIBUTE_ACCESS_FLAGS`.
const ACCESS_READ_WRITE: u32 = 3;

/// Where the pages begin that hold an allocation, and their bytes.
fn mapping(found: &Allocation) -> (u64, u64) {
    let page = match found.kind {
        AllocationKind::Pooled => 32 << 20,
        AllocationKind::Registered => 4096,
        _ => 2 << 20,
    };
    let start = found.start / page * page;
    (start, (found.start + found.len() as u64 - start).next_multiple_of(page))
}

fn tell(
    sim: &Sim,
    data: Ptr<c_void>,
    attribute: CUpointer_attribute,
    address: u64,
    found: &Arc<Allocation>,
) -> Answer {
    let managed = found.kind == AllocationKind::Managed;
    let on_host = found.kind.is_host() && !managed;
    match attribute {
        CU_POINTER_ATTRIBUTE_CONTEXT => {
            let own = found.context.filter(|_| found.kind != AllocationKind::Pooled);
            data.cast().write(own.map_or(std::ptr::null_mut(), Id::raw))
        }
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE => {
            let kind = if on_host { CU_MEMORYTYPE_HOST } else { CU_MEMORYTYPE_DEVICE };
            data.cast().write(kind.0)
        }
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER => data.cast().write(address),
        CU_POINTER_ATTRIBUTE_HOST_POINTER if found.kind.is_host() => data.cast().write(address),
        CU_POINTER_ATTRIBUTE_BUFFER_ID => data.cast().write(found.id),
        CU_POINTER_ATTRIBUTE_IS_MANAGED => data.cast().write(u32::from(managed)),
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => data.cast().write(found.device as i32),
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => data.cast().write(found.start),
        CU_POINTER_ATTRIBUTE_RANGE_SIZE => data.cast().write(found.len()),
        CU_POINTER_ATTRIBUTE_MAPPED => data.cast().write(1_u32),
        CU_POINTER_ATTRIBUTE_P2P_TOKENS => data.cast().write([0_u64; 2]),
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => data.cast().write(u32::from(managed)),
        // What a program may do with memory beyond this process: nothing here does it.
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        | CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => {
            data.cast().write(u32::from(found.kind == AllocationKind::Device))
        }
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => data.cast().write(0_u64),
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => data.cast().write(ACCESS_READ_WRITE),
        CU_POINTER_ATTRIBUTE_MAPPING_SIZE => data.cast().write(mapping(found).1),
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => data.cast().write(mapping(found).0),
        CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => data.cast().write(found.id + 1),
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => {
            let pool = found.pool.filter(|pool| sim.lock().pools.contains(*pool));
            data.cast().write(pool.map_or(std::ptr::null_mut(), Id::raw))
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}
