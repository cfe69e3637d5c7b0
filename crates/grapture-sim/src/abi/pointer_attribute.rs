//! What is known of an address.

use core::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::handle::Id;
use crate::memory::{Allocation, AllocationKind};
use crate::sim::{Answer, Sim};

/// That memory can be read and written.
const READ_WRITE: u32 = 3;
/// The attributes that can be asked for together: all but the tokens of a peer (5).
fn is_known(attribute: CUpointer_attribute) -> bool {
    matches!(attribute.0, 1..=4 | 6..=21)
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

/// Unlike for one attribute, an address that is in nothing, and an attribute that does not fit, is
/// told by zeros.
pub(crate) fn cuPointerGetAttributes(
    sim: &Sim,
    count: u32,
    attributes: Ptr<CUpointer_attribute>,
    data: Ptr<*mut c_void>,
    address: CUdeviceptr,
) -> Answer {
    if count == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let attributes = attributes.read_all(count as usize)?;
    data.required()?;
    let found = sim.memory.find(address);
    for (index, attribute) in attributes.into_iter().enumerate() {
        let data = data.pointee(index)?.required()?;
        if !is_known(attribute) {
            // What stands before it was told.
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let told = match &found {
            Some(found) => tell(sim, data, attribute, address, found),
            None => Err(CUDA_ERROR_INVALID_VALUE),
        };
        if told.is_err() {
            let host = if found.is_none() { address } else { 0 };
            tell_nothing(data, attribute, host)?;
        }
    }
    Ok(())
}

/// What an attribute is where it says nothing: zeros, and of a range not even those.
fn tell_nothing(data: Ptr<c_void>, attribute: CUpointer_attribute, host: u64) -> Answer {
    match attribute {
        CU_POINTER_ATTRIBUTE_HOST_POINTER => data.cast().write(host),
        CU_POINTER_ATTRIBUTE_CONTEXT
        | CU_POINTER_ATTRIBUTE_DEVICE_POINTER
        | CU_POINTER_ATTRIBUTE_BUFFER_ID
        | CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES
        | CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
        | CU_POINTER_ATTRIBUTE_MAPPING_SIZE
        | CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR
        | CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => data.cast().write(0_u64),
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR | CU_POINTER_ATTRIBUTE_RANGE_SIZE => Ok(()),
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => data.cast().write(-2_i32),
        _ => data.cast().write(0_u32),
    }
}

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
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => {
            data.cast().write(u32::from(found.waits.load(Ordering::Relaxed)))
        }
        CU_POINTER_ATTRIBUTE_BUFFER_ID => data.cast().write(found.id),
        CU_POINTER_ATTRIBUTE_IS_MANAGED => data.cast().write(u32::from(managed)),
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => data.cast().write(found.device as i32),
        CU_POINTER_ATTRIBUTE_P2P_TOKENS => data.cast().write([0_u64; 2]),
        // What a program may do with memory beyond this process: nothing here does it.
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        | CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => {
            data.cast().write(u32::from(found.kind == AllocationKind::Device))
        }
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => data.cast().write(found.start),
        CU_POINTER_ATTRIBUTE_RANGE_SIZE => data.cast().write(found.len()),
        CU_POINTER_ATTRIBUTE_MAPPED => data.cast().write(1_u32),
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => data.cast().write(0_u64),
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => data.cast().write(READ_WRITE),
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => {
            let pool = found.pool.filter(|pool| sim.lock().pools.contains(*pool));
            data.cast().write(pool.map_or(std::ptr::null_mut(), Id::raw))
        }
        CU_POINTER_ATTRIBUTE_MAPPING_SIZE => data.cast().write(mapping(found).1),
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => data.cast().write(mapping(found).0),
        CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => data.cast().write(found.id + 1),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Says whether copies of this memory wait for their end. Here they do as the calls demand,
/// whatever is said.
pub(crate) fn cuPointerSetAttribute(
    sim: &Sim,
    value: Ptr<c_void>,
    attribute: CUpointer_attribute,
    address: CUdeviceptr,
) -> Answer {
    let mut state = sim.lock();
    value.required()?;
    let found = sim.memory.find(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    capture::check_unsafe_call(&mut state)?;
    found.waits.store(value.cast::<u32>().read()? != 0, Ordering::Relaxed);
    Ok(())
}
