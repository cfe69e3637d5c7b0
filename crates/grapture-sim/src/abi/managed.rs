//! Managed memory: where it should be, and what was said of it. All memory is where it is needed
//! here, so that this is kept and told back, and changes nothing else.

use core::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use grapture_sys::*;

use super::{MemLocation, Ptr};
use crate::capture;
use crate::memory::{Allocation, AllocationKind, Location, PageAdvice};
use crate::sim::{Answer, Sim, State, lock};
use crate::stream;
use crate::work::Work;

/// "No device" where a device is told.
const NONE: i32 = -2;
/// The host where a device is told.
const HOST: i32 = -1;

/// The managed allocation that a range lies in, and where in it; 1 if there is none.
fn range(
    sim: &Sim,
    address: u64,
    bytes: usize,
) -> Result<(Arc<Allocation>, Range<usize>), CUresult> {
    let found = sim.memory.find(address).filter(|found| {
        found.kind == AllocationKind::Managed && bytes > 0 && found.covers(address, bytes)
    });
    let found = found.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let start = (address - found.start) as usize;
    Ok((found, start..start + bytes))
}

/// A place that exists: 1 for an unknown kind, 101 for a device that is not there.
fn place(state: &mut State, location: MemLocation) -> Result<Location, CUresult> {
    match location.kind {
        CU_MEM_LOCATION_TYPE_DEVICE => {
            state.device(location.id).map(|_| Location::Device(location.id))
        }
        CU_MEM_LOCATION_TYPE_HOST => Ok(Location::Host),
        CU_MEM_LOCATION_TYPE_HOST_NUMA => Ok(Location::HostNode(location.id)),
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(Location::ThisHostNode),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// What the older functions say with a device, where -1 is the host.
fn of_device(device: CUdevice) -> MemLocation {
    match device {
        HOST => MemLocation { kind: CU_MEM_LOCATION_TYPE_HOST, id: 0 },
        id => MemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id },
    }
}

pub(crate) fn cuMemPrefetchAsync(
    sim: &Sim,
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: Ptr<CUstream_st>,
) -> Answer {
    cuMemPrefetchAsync_v2(sim, address, bytes, of_device(device), 0, stream)
}

pub(crate) fn cuMemPrefetchAsync_v2(
    sim: &Sim,
    address: CUdeviceptr,
    bytes: usize,
    location: MemLocation,
    flags: u32,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_uncapturable(&mut state, id)?;
    if flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let place = place(&mut state, location)?;
    let (allocation, bytes) = range(sim, address, bytes)?;
    stream::run_now(sim, &mut state, id, Work::Empty)?;
    lock(&allocation.advice).change(bytes, |page| page.last_prefetch = Some(place));
    Ok(())
}

pub(crate) fn cuMemAdvise(
    sim: &Sim,
    address: CUdeviceptr,
    bytes: usize,
    advice: CUmem_advise,
    device: CUdevice,
) -> Answer {
    cuMemAdvise_v2(sim, address, bytes, advice, of_device(device))
}

/// The place does not matter to advice on reading.
pub(crate) fn cuMemAdvise_v2(
    sim: &Sim,
    address: CUdeviceptr,
    bytes: usize,
    advice: CUmem_advise,
    location: MemLocation,
) -> Answer {
    let mut state = sim.lock();
    let (allocation, bytes) = range(sim, address, bytes)?;
    capture::check_unsafe_call(&mut state)?;
    let place = place(&mut state, location).map_err(|_| CUDA_ERROR_INVALID_VALUE);
    let change: Box<dyn Fn(&mut PageAdvice)> = match advice {
        CU_MEM_ADVISE_SET_READ_MOSTLY => Box::new(|page| page.read_mostly = true),
        CU_MEM_ADVISE_UNSET_READ_MOSTLY => Box::new(|page| page.read_mostly = false),
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION => {
            let place = place?;
            Box::new(move |page| page.preferred = Some(place))
        }
        CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => Box::new(|page| page.preferred = None),
        CU_MEM_ADVISE_SET_ACCESSED_BY => {
            let place = place?;
            Box::new(move |page| page.accessed_by.extend([place]))
        }
        CU_MEM_ADVISE_UNSET_ACCESSED_BY => {
            let place = place?;
            Box::new(move |page| page.accessed_by.retain(|known| *known != place))
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    lock(&allocation.advice).change(bytes, change);
    Ok(())
}

pub(crate) fn cuMemRangeGetAttribute(
    sim: &Sim,
    data: Ptr<c_void>,
    data_bytes: usize,
    attribute: CUmem_range_attribute,
    address: CUdeviceptr,
    bytes: usize,
) -> Answer {
    sim.lock().current()?;
    tell(sim, data, data_bytes, attribute, address, bytes)
}

pub(crate) fn cuMemRangeGetAttributes(
    sim: &Sim,
    data: Ptr<*mut c_void>,
    data_bytes: Ptr<usize>,
    attributes: Ptr<CUmem_range_attribute>,
    count: usize,
    address: CUdeviceptr,
    bytes: usize,
) -> Answer {
    sim.lock().current()?;
    if count == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    (0..count).try_for_each(|index| {
        let (attribute, size) = (attributes.at(index)?.read()?, data_bytes.at(index)?.read()?);
        tell(sim, data.pointee(index)?, size, attribute, address, bytes)
    })
}

fn tell(
    sim: &Sim,
    data: Ptr<c_void>,
    data_bytes: usize,
    attribute: CUmem_range_attribute,
    address: u64,
    bytes: usize,
) -> Answer {
    let out = data.required()?.cast::<i32>();
    let (allocation, bytes) = range(sim, address, bytes)?;
    let advice = lock(&allocation.advice);
    let ask = |ask: fn(&PageAdvice) -> Option<Location>| advice.common(bytes.clone(), ask);
    let is_list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    let whole = data_bytes >= 4 && data_bytes.is_multiple_of(4);
    if !whole || (!is_list && data_bytes != 4) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    match attribute {
        CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => {
            out.write(i32::from(advice.common(bytes.clone(), |page| page.read_mostly)))
        }
        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => out.write(as_device(ask(|p| p.preferred))),
        CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY => {
            let by = advice.common(bytes.clone(), |page| page.accessed_by.clone());
            let by = by.into_iter().map(|place| as_device(Some(place)));
            out.write_all(by.chain(std::iter::repeat(NONE)).take(data_bytes / 4))
        }
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => {
            out.write(as_device(ask(|page| page.last_prefetch)))
        }
        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => out.write(kind_of(ask(|p| p.preferred))),
        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID => out.write(id_of(ask(|p| p.preferred))),
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => {
            out.write(kind_of(ask(|page| page.last_prefetch)))
        }
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => {
            out.write(id_of(ask(|page| page.last_prefetch)))
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// As the older attributes tell a place.
fn as_device(place: Option<Location>) -> i32 {
    match place {
        Some(Location::Device(device)) => device,
        Some(Location::Host | Location::HostNode(_) | Location::ThisHostNode) => HOST,
        None => NONE,
    }
}

fn kind_of(place: Option<Location>) -> i32 {
    let kind = match place {
        Some(Location::Device(_)) => CU_MEM_LOCATION_TYPE_DEVICE,
        Some(Location::Host) => CU_MEM_LOCATION_TYPE_HOST,
        Some(Location::HostNode(_)) => CU_MEM_LOCATION_TYPE_HOST_NUMA,
        Some(Location::ThisHostNode) => CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
        None => CU_MEM_LOCATION_TYPE_INVALID,
    };
    kind.0 as i32
}

fn id_of(place: Option<Location>) -> i32 {
    match place {
        Some(Location::Device(id) | Location::HostNode(id)) => id,
        Some(Location::Host | Location::ThisHostNode) => 0,
        None => NONE,
    }
}
