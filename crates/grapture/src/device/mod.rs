//! [`Device`]: a CUDA device, and what it says of itself.

mod attribute;
mod peer;
mod uuid;

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ops::RangeInclusive;

use grapture_sys::{CUDA_ERROR_INVALID_DEVICE, CUdevice, CUresult, CUuuid, Function, Functions};

use crate::context::Context;
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult, check};

pub use attribute::DeviceAttribute;
pub use peer::PeerAttribute;
pub use uuid::Uuid;

/// A CUDA device. It is a number and its driver: holding it holds no resource of the device.
///
/// No method here submits work, waits for any, or needs a context to be current.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// let device = driver.device(0)?;
/// println!("{}: {} multiprocessors", device.name()?, device.multiprocessor_count()?);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone)]
pub struct Device {
    driver: Driver,
    raw: CUdevice,
    ordinal: usize,
}

impl Device {
    /// The device with an ordinal, counted from 0, of the process's
    /// [default driver](Driver::process_default).
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) if there is no such device. As the default driver fails to
    /// load, such as [`NotInitialized`](CudaError::NotInitialized).
    #[doc(alias = "cuDeviceGet")]
    pub fn get(ordinal: usize) -> CudaResult<Device> {
        Device::of(&Driver::process_default()?, ordinal)
    }

    pub(crate) fn of(driver: &Driver, ordinal: usize) -> CudaResult<Device> {
        let count = driver.device_count()?;
        let number = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let number = number.ok_or_else(|| no_device(ordinal, count))?;
        let mut raw = 0;
        // SAFETY: the out-pointer is a live local.
        check(unsafe { (driver.functions().cuDeviceGet)(&mut raw, number) })?;
        Ok(Device { driver: driver.clone(), raw, ordinal })
    }

    /// The ordinal, counted from 0.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The raw handle.
    pub fn as_raw(&self) -> CUdevice {
        self.raw
    }

    /// The name of the model.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(&self) -> CudaResult<String> {
        self.text(|functions, buffer, length| {
            // SAFETY: `buffer` has room for `length` characters.
            unsafe { (functions.cuDeviceGetName)(buffer, length, self.raw) }
        })
    }

    /// The place on the PCI bus: `domain:bus:device.function`, in hexadecimal.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuDeviceGetPCIBusId")]
    pub fn pci_bus_id(&self) -> CudaResult<String> {
        self.text(|functions, buffer, length| {
            // SAFETY: `buffer` has room for `length` characters.
            unsafe { (functions.cuDeviceGetPCIBusId)(buffer, length, self.raw) }
        })
    }

    /// The identity that the device keeps over reboots; for a MIG instance, its own.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuDeviceGetUuid")]
    pub fn uuid(&self) -> CudaResult<Uuid> {
        let mut raw = CUuuid { bytes: [0; 16] };
        let functions = self.driver.functions();
        // Before 11.4 there is only the version that does not know MIG instances.
        let get = if self.driver.has(Function::cuDeviceGetUuid_v2) {
            functions.cuDeviceGetUuid_v2
        } else {
            functions.cuDeviceGetUuid
        };
        // SAFETY: the out-pointer is a live local.
        check(unsafe { get(&mut raw, self.raw) })?;
        Ok(Uuid(raw.bytes.map(|byte| byte as u8)))
    }

    /// The compute capability, `(major, minor)`: `(9, 0)` for an H200.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn compute_capability(&self) -> CudaResult<(u32, u32)> {
        Ok((
            self.count_of(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?,
            self.count_of(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// The number of streaming multiprocessors.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn multiprocessor_count(&self) -> CudaResult<u32> {
        self.count_of(DeviceAttribute::MULTIPROCESSOR_COUNT)
    }

    /// The largest number of threads that a block can have.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn max_threads_per_block(&self) -> CudaResult<u32> {
        self.count_of(DeviceAttribute::MAX_THREADS_PER_BLOCK)
    }

    /// The value of an attribute, in the unit that NVIDIA's page gives it.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue): the driver does not know the attribute.
    #[doc(alias = "cuDeviceGetAttribute")]
    pub fn attribute(&self, attribute: DeviceAttribute) -> CudaResult<i32> {
        let mut value = 0;
        // SAFETY: the out-pointer is a live local.
        check(unsafe {
            (self.driver.functions().cuDeviceGetAttribute)(&mut value, attribute.as_raw(), self.raw)
        })?;
        Ok(value)
    }

    /// The size of the device's memory, in bytes.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuDeviceTotalMem")]
    pub fn total_memory_bytes(&self) -> CudaResult<usize> {
        let mut bytes = 0;
        // SAFETY: the out-pointer is a live local.
        check(unsafe { (self.driver.functions().cuDeviceTotalMem_v2)(&mut bytes, self.raw) })?;
        Ok(bytes)
    }

    /// Whether this device can be given access to the memory of `peer`.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused) if `peer` is of another driver. As the driver answers.
    #[doc(alias = "cuDeviceCanAccessPeer")]
    pub fn can_access_peer(&self, peer: &Device) -> CudaResult<bool> {
        self.require_same_driver(peer)?;
        let mut can = 0;
        // SAFETY: the out-pointer is a live local.
        check(unsafe {
            (self.driver.functions().cuDeviceCanAccessPeer)(&mut can, self.raw, peer.raw)
        })?;
        Ok(can != 0)
    }

    fn require_same_driver(&self, peer: &Device) -> CudaResult<()> {
        if self.driver.same(&peer.driver) {
            return Ok(());
        }
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_DEVICE,
            "peer",
            "it is a device of another driver: take both from the same `Driver`",
        ))
    }

    /// An attribute that is a number of things.
    fn count_of(&self, attribute: DeviceAttribute) -> CudaResult<u32> {
        Ok(u32::try_from(self.attribute(attribute)?).unwrap_or(0))
    }

    /// The protocol of a text: a buffer with its length, which the driver ends with a NUL.
    fn text(
        &self,
        call: impl FnOnce(&Functions, *mut c_char, i32) -> CUresult,
    ) -> CudaResult<String> {
        let mut buffer = [0u8; 256];
        // One byte less than there are, so that the last one stays a NUL whatever is written.
        check(call(self.driver.functions(), buffer.as_mut_ptr().cast(), 255))?;
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }
}

#[cold]
fn no_device(ordinal: usize, count: usize) -> CudaError {
    let problem = match count {
        0 => format!("there is no device {ordinal}: the driver has none"),
        count => format!("there is no device {ordinal}: the driver has {count}"),
    };
    CudaError::refused(CUDA_ERROR_INVALID_DEVICE, "device", problem)
}

impl PartialEq for Device {
    /// Whether both are the same device of the same driver.
    fn eq(&self, other: &Device) -> bool {
        self.raw == other.raw && self.driver.same(&other.driver)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("ordinal", &self.ordinal).finish_non_exhaustive()
    }
}

/// How much memory a context has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryInfo {
    /// What no one has allocated, in bytes. Other processes share it.
    pub free_bytes: usize,
    /// All there is, in bytes.
    pub total_bytes: usize,
}

impl Context {
    /// The free and the total memory of the device, as the context sees it. Does not block.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuMemGetInfo")]
    pub fn memory_info(&self) -> CudaResult<MemoryInfo> {
        let (mut free_bytes, mut total_bytes) = (0, 0);
        self.enter(|functions| {
            // SAFETY: both out-pointers are live locals.
            check(unsafe { (functions.cuMemGetInfo_v2)(&mut free_bytes, &mut total_bytes) })
        })?;
        Ok(MemoryInfo { free_bytes, total_bytes })
    }

    /// The priorities that a stream can have, from the greatest to the least: lower numbers come
    /// first. `0..=0` from a device that has no priorities.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    pub fn stream_priorities(&self) -> CudaResult<RangeInclusive<i32>> {
        let (mut least, mut greatest) = (0, 0);
        self.enter(|functions| {
            // SAFETY: both out-pointers are live locals.
            check(unsafe { (functions.cuCtxGetStreamPriorityRange)(&mut least, &mut greatest) })
        })?;
        Ok(greatest..=least)
    }
}
