//! Allocation, of devices and pinned on the host, and what is known of an address.

use core::ffi::c_void;

use std::ptr::NonNull;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::context::Context;
use crate::handle::Id;
use crate::memory::{ALIGNMENT, AllocationKind, SharedBytes};
use crate::sim::{Answer, Sim, State};

/// The most bytes of a row, as the device tells it.
const MOST_PITCH: usize = i32::MAX as usize;
/// The flags of `cuMemHostAlloc`.
const HOST_ALLOC_FLAGS: u32 =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
/// The flags of `cuMemHostRegister` that are modelled.
const REGISTER_FLAGS: u32 =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;

/// What `cuMemHostGetFlags` tells of managed memory.
const MANAGED_FLAGS: u32 = CU_MEMHOSTALLOC_DEVICEMAP;

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
    total.offer(sim.memory.total_bytes(device));
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
    if width == 0 || height == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let (context, device) = unsafe_call(&mut sim.lock())?;
    if !matches!(element, 4 | 8 | 16) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let row = width.checked_next_multiple_of(ALIGNMENT).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let bytes = row.checked_mul(height);
    // Where there is too little memory, a row that is too long is not seen.
    if width > MOST_PITCH && bytes.is_none_or(|bytes| bytes <= sim.memory.total_bytes(device)) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let bytes = bytes.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
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
    // Memory is mapped always.
    let told = flags | CU_MEMHOSTALLOC_DEVICEMAP;
    let address = sim.memory.allocate_host(kind, device, Some(context), bytes, told)?;
    out.write(std::ptr::with_exposed_provenance_mut(address as usize))
}

pub(crate) fn cuMemFreeHost(sim: &Sim, address: Ptr<c_void>) -> Answer {
    if address.is_null() {
        return capture::check_unsafe_call(&mut sim.lock());
    }
    free(sim, address.address() as u64, |kind| kind == AllocationKind::Pinned)
}

pub(crate) fn cuMemHostGetFlags(sim: &Sim, out: Ptr<u32>, host: Ptr<c_void>) -> Answer {
    out.required()?;
    sim.lock().current()?;
    let found = sim.memory.find(host.address() as u64).filter(|found| found.kind.is_host());
    out.write(found.ok_or(CUDA_ERROR_INVALID_VALUE)?.flags)
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
    let told = flags & CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    sim.memory.register(region, device, Some(context), told)
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
    if bytes == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let (context, device) = unsafe_call(&mut sim.lock())?;
    let kind = AllocationKind::Managed;
    out.write(sim.memory.allocate_host(kind, device, Some(context), bytes, MANAGED_FLAGS)?)
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
