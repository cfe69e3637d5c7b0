//! [`PeerAttribute`]: how two devices are connected.

use grapture_sys::{
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED,
    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
    CUDA_ERROR_INVALID_DEVICE, CUdevice_P2PAttribute,
};

use crate::device::Device;
use crate::error::{CudaError, CudaResult, check};

/// What can be asked of the connection between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerAttribute {
    /// How fast the connection is, relative to others: 0 is the fastest.
    PerformanceRank,
    /// Whether the one can reach the other's memory: 1 or 0.
    AccessSupported,
    /// Whether atomic operations work on the other's memory as on its own: 1 or 0.
    NativeAtomicSupported,
    /// Whether the one can reach arrays of the other: 1 or 0.
    ArrayAccessSupported,
}

impl PeerAttribute {
    fn as_raw(self) -> CUdevice_P2PAttribute {
        match self {
            PeerAttribute::PerformanceRank => CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
            PeerAttribute::AccessSupported => CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
            PeerAttribute::NativeAtomicSupported => CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
            PeerAttribute::ArrayAccessSupported => {
                CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED
            }
        }
    }
}

impl Device {
    /// An attribute of the connection from this device to `peer`, another one.
    ///
    /// ```
    /// # use grapture::*;
    /// # let config = grapture_sim::SimConfig::default().devices(2);
    /// # let driver = Driver::from(grapture_sim::driver(config));
    /// let (here, there) = (driver.device(0)?, driver.device(1)?);
    /// assert_eq!(here.peer_attribute(PeerAttribute::AccessSupported, &there)?, 1);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the same device, or one of another driver. As the driver
    /// answers.
    #[doc(alias = "cuDeviceGetP2PAttribute")]
    pub fn peer_attribute(&self, attribute: PeerAttribute, peer: &Device) -> CudaResult<i32> {
        self.require_same_driver(peer)?;
        if self == peer {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_DEVICE,
                "peer",
                "it is the same device, and only other devices are peers",
            ));
        }
        let (get, attribute) =
            (self.driver().functions().cuDeviceGetP2PAttribute, attribute.as_raw());
        let mut value = 0;
        // SAFETY: the out-pointer is a live local, and both devices come from this driver.
        check(unsafe { get(&mut value, attribute, self.as_raw(), peer.as_raw()) })?;
        Ok(value)
    }
}
