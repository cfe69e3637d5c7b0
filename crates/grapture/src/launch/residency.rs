//! Whether a launch with attributes can run at all, asked before a capture that would be
//! invalidated by it. Such launches are rare, and the question is a driver call.

use grapture_sys::{
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
    CUDA_ERROR_INVALID_CLUSTER_SIZE, CUlaunchConfig, Function, Functions,
};

use crate::device::DeviceAttribute;
use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult, check};
use crate::launch::LaunchBuilder;
use crate::launch::attributes::Attributes;

const PROCESSORS: DeviceAttribute =
    DeviceAttribute::from_raw(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);

impl LaunchBuilder<'_> {
    /// Refuses a cluster that the device does not have, and more blocks of a cooperative launch than
    /// are resident at once.
    #[cold]
    pub(super) fn check_residency(&self, attributes: &Attributes) -> CudaResult<()> {
        let resident = match attributes.cluster {
            Some(cluster) => self.resident_in_clusters(attributes, cluster)?,
            None if attributes.cooperative => Some(self.resident_blocks()?),
            None => None,
        };
        let blocks = self.grid.count();
        match resident {
            Some(resident) if attributes.cooperative && blocks > resident => {
                Err(CudaError::refused(
                    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                    "kernel.grid_dim",
                    format!(
                        "a cooperative launch of {blocks} blocks, and {resident} of `{}` are \
                         resident at once: launch at most so many",
                        self.kernel.name()
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    fn resident_blocks(&self) -> CudaResult<u64> {
        let mut blocks = 0;
        // A block of more threads than an `i32` has was refused.
        let threads = self.block.count() as i32;
        self.kernel.context().enter_relaxed(|functions| {
            // SAFETY: a function of a live module, and a live out-pointer.
            check(unsafe {
                (functions.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                    &mut blocks,
                    self.kernel.raw(),
                    threads,
                    self.shared_bytes,
                )
            })
        })?;
        let device = self.kernel.context().device();
        let processors = device.attribute(PROCESSORS)?;
        Ok(u64::from(blocks.unsigned_abs()) * u64::from(processors.unsigned_abs()))
    }

    /// The blocks of all clusters that are resident at once. None: the driver is too old to tell.
    fn resident_in_clusters(
        &self,
        attributes: &Attributes,
        cluster: Dim3,
    ) -> CudaResult<Option<u64>> {
        let context = self.kernel.context();
        if !context.driver().has(Function::cuOccupancyMaxActiveClusters) {
            return Ok(None);
        }
        let clusters =
            context.enter_relaxed(|functions| self.active_clusters(attributes, functions));
        match clusters {
            Ok(clusters) if clusters > 0 => Ok(Some(clusters * cluster.count())),
            Err(error) if error.is_sticky() => Err(error),
            _ => Err(CudaError::refused(
                CUDA_ERROR_INVALID_CLUSTER_SIZE,
                "kernel.cluster_dim",
                format!(
                    "no cluster of {cluster} blocks of `{}` fits on the device: make it smaller",
                    self.kernel.name()
                ),
            )),
        }
    }

    fn active_clusters(&self, attributes: &Attributes, functions: &Functions) -> CudaResult<u64> {
        let mut clusters = 0;
        let mut attributes = attributes.to_raw();
        let config = CUlaunchConfig {
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
            ..self.config(std::ptr::null_mut())
        };
        // SAFETY: a function of a live module, a live out-pointer, and a configuration that is a
        // live local with its attributes.
        check(unsafe {
            (functions.cuOccupancyMaxActiveClusters)(&mut clusters, self.kernel.raw(), &config)
        })?;
        Ok(u64::from(clusters.unsigned_abs()))
    }
}
