//! Devices and their primary contexts.

use core::ffi::c_char;

use grapture_sys::*;

use super::Ptr;
use crate::context::{self, Context};
use crate::handle::Id;
use crate::origin::Origin;
use crate::sim::{Answer, Sim};

pub(crate) fn cuDeviceGetCount(sim: &Sim, count: Ptr<i32>) -> Answer {
    count.write(sim.config.device_count() as i32)
}

pub(crate) fn cuDeviceGet(sim: &Sim, out: Ptr<CUdevice>, ordinal: i32) -> Answer {
    out.required()?;
    sim.lock().device(ordinal)?;
    out.write(ordinal)
}

pub(crate) fn cuDeviceGetName(sim: &Sim, name: Ptr<c_char>, len: i32, dev: CUdevice) -> Answer {
    let text = sim.lock().device(dev)?.config.its_name().to_owned();
    write_text(name, len, &text)
}

/// A part of it would name no device.
pub(crate) fn cuDeviceGetPCIBusId(sim: &Sim, id: Ptr<c_char>, len: i32, dev: CUdevice) -> Answer {
    let text = sim.lock().device(dev)?.pci_bus_id();
    // Other than a name, this is not cut.
    if usize::try_from(len).is_ok_and(|room| room > text.len()) {
        write_text(id, len, &text)
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// Writes as much of the text as fits, with a NUL.
fn write_text(out: Ptr<c_char>, len: i32, text: &str) -> Answer {
    let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1));
    let room = room.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let bytes = text.bytes().take(room).chain([0]);
    out.required()?.write_all(bytes.map(|byte| byte as c_char))
}

pub(crate) fn cuDeviceGetUuid(sim: &Sim, uuid: Ptr<CUuuid>, dev: CUdevice) -> Answer {
    let bytes = sim.lock().device(dev)?.uuid();
    uuid.write(CUuuid { bytes: bytes.map(|byte| byte as c_char) })
}

pub(crate) fn cuDeviceGetUuid_v2(sim: &Sim, uuid: Ptr<CUuuid>, dev: CUdevice) -> Answer {
    cuDeviceGetUuid(sim, uuid, dev)
}

pub(crate) fn cuDeviceTotalMem_v2(sim: &Sim, bytes: Ptr<usize>, dev: CUdevice) -> Answer {
    let total = sim.lock().device(dev)?.config.memory();
    bytes.write(total)
}

pub(crate) fn cuDeviceGetAttribute(
    sim: &Sim,
    out: Ptr<i32>,
    attribute: CUdevice_attribute,
    dev: CUdevice,
) -> Answer {
    out.required()?;
    let value = sim.lock().device(dev)?.attribute(attribute, sim.config.version());
    out.write(value.ok_or(CUDA_ERROR_INVALID_VALUE)?)
}

pub(crate) fn cuDeviceCanAccessPeer(
    sim: &Sim,
    out: Ptr<i32>,
    dev: CUdevice,
    peer: CUdevice,
) -> Answer {
    let mut state = sim.lock();
    state.device(dev)?;
    state.device(peer)?;
    out.write(i32::from(dev != peer))
}

pub(crate) fn cuDevicePrimaryCtxRetain(sim: &Sim, out: Ptr<CUcontext>, dev: CUdevice) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let device = state.device(dev)?;
    let (ordinal, flags) = (device.ordinal, device.primary_flags);
    let context = match device.primary {
        Some(context) => context,
        None => state.create_context(ordinal, true, context::primary_flags(flags))?,
    };
    let device = state.device(dev)?;
    device.primary = Some(context);
    device.retained_by.push(Origin::current());
    out.write(context.raw())
}

pub(crate) fn cuDevicePrimaryCtxRelease(sim: &Sim, dev: CUdevice) -> Answer {
    cuDevicePrimaryCtxRelease_v2(sim, dev)
}

pub(crate) fn cuDevicePrimaryCtxRelease_v2(sim: &Sim, dev: CUdevice) -> Answer {
    let mut state = sim.lock();
    let device = state.device(dev)?;
    device.retained_by.pop().ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    let ended = if device.retained_by.is_empty() { device.end_primary() } else { None };
    drop(state);
    ended.map_or(Ok(()), |context| end(sim, context))
}

pub(crate) fn cuDevicePrimaryCtxReset(sim: &Sim, dev: CUdevice) -> Answer {
    cuDevicePrimaryCtxReset_v2(sim, dev)
}

pub(crate) fn cuDevicePrimaryCtxReset_v2(sim: &Sim, dev: CUdevice) -> Answer {
    let mut state = sim.lock();
    let device = state.device(dev)?;
    device.retained_by.clear();
    let ended = device.end_primary();
    drop(state);
    ended.map_or(Ok(()), |context| end(sim, context))
}

/// Ends a context: its work, then its objects and memory.
pub(super) fn end(sim: &Sim, context: Id<Context>) -> Answer {
    let Some(core) = sim.lock().contexts.get(context).map(|context| context.core.clone()) else {
        return Ok(());
    };
    sim.engine.wait_context(core.key);
    let leavings = sim.lock().destroy_context(context);
    drop(leavings);
    sim.memory.free_of(context);
    Ok(())
}

pub(crate) fn cuDevicePrimaryCtxSetFlags(sim: &Sim, dev: CUdevice, flags: u32) -> Answer {
    if sim.lock().device(dev)?.primary.is_some() {
        return Err(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
    }
    cuDevicePrimaryCtxSetFlags_v2(sim, dev, flags)
}

pub(crate) fn cuDevicePrimaryCtxSetFlags_v2(sim: &Sim, dev: CUdevice, flags: u32) -> Answer {
    let mut state = sim.lock();
    state.device(dev)?;
    context::check_primary_flags(flags)?;
    let device = state.device(dev)?;
    device.primary_flags = flags;
    let active = device.primary;
    if let Some(context) = active.and_then(|id| state.contexts.get_mut(id)) {
        context.flags = context::primary_flags(flags);
    }
    Ok(())
}

pub(crate) fn cuDevicePrimaryCtxGetState(
    sim: &Sim,
    dev: CUdevice,
    flags: Ptr<u32>,
    active: Ptr<i32>,
) -> Answer {
    let mut state = sim.lock();
    let device = state.device(dev)?;
    flags.write(device.primary_flags)?;
    active.write(i32::from(device.primary.is_some()))
}
