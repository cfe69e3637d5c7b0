//! Devices by their place on the bus, in the old structs, and to one another.

use core::ffi::c_char;

use grapture_sys::*;

use super::Ptr;
use crate::device;
use crate::sim::{Answer, Sim};

/// The most elements and the most bytes of a linear texture.
const TEXTURE: (usize, usize) = (1 << 30, 1 << 32);

/// The bus, the device and, where given, the domain and the function, in hexadecimal.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    domain: u32,
    bus: u32,
    device: u32,
    function: u32,
}

impl Place {
    /// Reads `domain:bus:device.function`, `domain:bus:device` or `bus:device.function`.
    fn read(text: &str) -> Option<Place> {
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let parts: Vec<&str> = text.split(':').collect();
        let (domain, bus, last) = match parts[..] {
            [domain, bus, last] => (number(domain)?, bus, last),
            [bus, last] if last.contains('.') => (0, bus, last),
            _ => return None,
        };
        let (device, function) = last.split_once('.').unwrap_or((last, "0"));
        Some(Place {
            domain,
            bus: number(bus)?,
            device: number(device)?,
            function: number(function)?,
        })
    }
}

pub(crate) fn cuDeviceGetByPCIBusId(sim: &Sim, out: Ptr<CUdevice>, id: Ptr<c_char>) -> Answer {
    out.required()?;
    let wanted = id.text()?.to_str().ok().and_then(Place::read);
    let wanted = wanted.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let state = sim.lock();
    let is_there =
        |device: &&device::Device| Place::read(&device.pci_bus_id()) == Some(Place { ..wanted });
    let found = state.devices.iter().find(is_there).ok_or(CUDA_ERROR_INVALID_DEVICE)?;
    out.write(found.ordinal as CUdevice)
}

pub(crate) fn cuDeviceComputeCapability(
    sim: &Sim,
    major: Ptr<i32>,
    minor: Ptr<i32>,
    dev: CUdevice,
) -> Answer {
    major.required()?;
    minor.required()?;
    let capability = sim.lock().device(dev)?.config.capability() as i32;
    major.write(capability / 10)?;
    minor.write(capability % 10)
}

pub(crate) fn cuDeviceGetProperties(sim: &Sim, out: Ptr<CUdevprop_v1>, dev: CUdevice) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    let device = state.device(dev)?;
    let version = sim.config.version();
    let value = |attribute| device.attribute(attribute, version).unwrap_or(0);
    out.write(CUdevprop_v1 {
        maxThreadsPerBlock: value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        maxThreadsDim: [
            value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
            value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
            value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
        ],
        maxGridSize: [
            value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
            value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
            value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
        ],
        sharedMemPerBlock: value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        totalConstantMemory: value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        SIMDWidth: value(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        memPitch: value(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        regsPerBlock: value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        clockRate: value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        textureAlign: value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    })
}

/// 101 where both are the same device.
pub(crate) fn cuDeviceGetP2PAttribute(
    sim: &Sim,
    out: Ptr<i32>,
    attribute: CUdevice_P2PAttribute,
    source: CUdevice,
    target: CUdevice,
) -> Answer {
    out.required()?;
    let mut state = sim.lock();
    state.device(source)?;
    state.device(target)?;
    if source == target {
        return Err(CUDA_ERROR_INVALID_DEVICE);
    }
    match attribute {
        CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK => out.write(0),
        CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
        | CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED => out.write(1),
        CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED => out.write(0),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

pub(crate) fn cuDeviceGetTexture1DLinearMaxWidth(
    sim: &Sim,
    out: Ptr<usize>,
    format: CUarray_format,
    channels: u32,
    dev: CUdevice,
) -> Answer {
    out.required()?;
    sim.lock().device(dev)?;
    let each = match format {
        CU_AD_FORMAT_UNSIGNED_INT8 | CU_AD_FORMAT_SIGNED_INT8 => 1,
        CU_AD_FORMAT_UNSIGNED_INT16 | CU_AD_FORMAT_SIGNED_INT16 | CU_AD_FORMAT_HALF => 2,
        CU_AD_FORMAT_UNSIGNED_INT32 | CU_AD_FORMAT_SIGNED_INT32 | CU_AD_FORMAT_FLOAT => 4,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    if !matches!(channels, 1 | 2 | 4) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    out.write(TEXTURE.0.min(TEXTURE.1 / (each * channels as usize)))
}

/// No device is shared between processes.
pub(crate) fn cuDeviceGetExecAffinitySupport(
    sim: &Sim,
    out: Ptr<i32>,
    _kind: CUexecAffinityType,
    dev: CUdevice,
) -> Answer {
    out.required()?;
    sim.lock().device(dev)?;
    out.write(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_the_driver_reads_them() {
        let read = |text| Place::read(text).map(|p| [p.domain, p.bus, p.device, p.function]);
        let whole = Some([0, 0, 0x1f, 0]);
        for text in ["0000:00:1f.0", "00:1F.0", "0000:00:1f"] {
            assert_eq!(read(text), whole, "{text}");
        }
        for text in ["00:1f", "hello", "", "0:0:0:0.0", "0000:zz:1f.0"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
