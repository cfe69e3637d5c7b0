//! [`DeviceConfig`]: what one simulated device is like.

use std::collections::BTreeMap;

use grapture_sys::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    CUdevice_attribute,
};

/// The memory of a device that nothing else is said of.
const MEMORY_BYTES: usize = 4 << 30;

/// What a device answers of itself. The default answers like an H200 with 4 GiB of memory.
///
/// ```
/// use grapture_sim::{DeviceConfig, SimConfig};
///
/// let small = DeviceConfig::new().name("Small").compute_capability(7, 5).memory_bytes(1 << 20);
/// let config = SimConfig::new().devices(2).device(1, small);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    name: String,
    capability: (i32, i32),
    memory_bytes: usize,
    attributes: BTreeMap<u32, i32>,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        DeviceConfig {
            name: "Grapture Simulated Device".to_owned(),
            capability: (9, 0),
            memory_bytes: MEMORY_BYTES,
            attributes: BTreeMap::new(),
        }
    }
}

impl DeviceConfig {
    /// The default: see the type.
    pub fn new() -> DeviceConfig {
        DeviceConfig::default()
    }

    /// The answer of `cuDeviceGetName`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> DeviceConfig {
        self.name = name.into();
        self
    }

    /// The compute capability. PTX whose target is newer is refused, as on such a device; what a
    /// kernel can do otherwise does not depend on it.
    #[must_use]
    pub fn compute_capability(mut self, major: u32, minor: u32) -> DeviceConfig {
        let small = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        self.capability = (small(major), small(minor));
        self
    }

    /// Its memory. It is taken from the host only as it is allocated; an allocation that does not
    /// fit answers `CUDA_ERROR_OUT_OF_MEMORY`.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> DeviceConfig {
        self.memory_bytes = bytes;
        self
    }

    /// What `cuDeviceGetAttribute` answers for an attribute. It changes that answer only: the
    /// limits of a launch stay those of an H200.
    #[must_use]
    pub fn attribute(mut self, attribute: CUdevice_attribute, value: i32) -> DeviceConfig {
        self.attributes.insert(attribute.0, value);
        self
    }

    pub(crate) fn its_name(&self) -> &str {
        &self.name
    }

    pub(crate) fn memory(&self) -> usize {
        self.memory_bytes
    }

    /// The compute capability, 10 × major + minor.
    pub(crate) fn capability(&self) -> u32 {
        let (major, minor) = self.capability;
        (major as u32).saturating_mul(10).saturating_add(minor as u32)
    }

    /// What was set for an attribute, the compute capability included.
    pub(crate) fn set_attribute(&self, attribute: CUdevice_attribute) -> Option<i32> {
        self.attributes.get(&attribute.0).copied().or(match attribute {
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => Some(self.capability.0),
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => Some(self.capability.1),
            _ => None,
        })
    }
}
