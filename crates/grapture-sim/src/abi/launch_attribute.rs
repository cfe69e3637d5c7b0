//! The attributes of launches and of kernel nodes.

use grapture_sys::*;

use super::Ptr;
use super::stream::clamp_priority;
use crate::sim::Answer;
use crate::work::LaunchAttributes;

/// Whether a kernel node can have an attribute; a launch can have others too.
fn is_of_nodes(id: CUlaunchAttributeID) -> bool {
    matches!(
        id,
        CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            | CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            | CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | CU_LAUNCH_ATTRIBUTE_PRIORITY
            | CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            | CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
            | CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    )
}

impl LaunchAttributes {
    /// Sets an attribute of a kernel node.
    pub(crate) fn set_of_node(
        &mut self,
        id: CUlaunchAttributeID,
        value: Ptr<CUlaunchAttributeValue>,
    ) -> Answer {
        if id == CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING {
            // It can be set and not be asked for.
            return Ok(());
        }
        if !is_of_nodes(id) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        self.set(id, value)?;
        self.priority = self.priority.map(clamp_priority);
        Ok(())
    }

    /// Sets an attribute of a launch.
    pub(crate) fn set(
        &mut self,
        id: CUlaunchAttributeID,
        value: Ptr<CUlaunchAttributeValue>,
    ) -> Answer {
        let tuning = &mut self.tuning;
        match id {
            CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                self.cooperative = value.cast::<i32>().read()? != 0;
            }
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                let cluster = value.cast::<[u32; 3]>().read()?;
                self.cluster = Some(cluster).filter(|cluster| *cluster != [0; 3]);
            }
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION => {
                self.programmatic = value.cast::<i32>().read()? != 0;
            }
            CU_LAUNCH_ATTRIBUTE_PRIORITY => self.priority = Some(value.cast().read()?),
            CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW => tuning.window = value.cast().read()?,
            CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                tuning.cluster_policy = value.cast().read()?;
            }
            CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => tuning.domains = value.cast().read()?,
            CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => tuning.domain = value.cast().read()?,
            CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                tuning.carveout = value.cast().read()?;
            }
            CU_LAUNCH_ATTRIBUTE_IGNORE | CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION => {}
            CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE => {
                if value.cast::<i32>().read()? != 0 {
                    return Err(CUDA_ERROR_NOT_SUPPORTED);
                }
            }
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
            | CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT => {
                return Err(CUDA_ERROR_NOT_SUPPORTED);
            }
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }

    /// Tells an attribute of a kernel node.
    pub(crate) fn get_of_node(
        &self,
        id: CUlaunchAttributeID,
        out: Ptr<CUlaunchAttributeValue>,
    ) -> Answer {
        let tuning = &self.tuning;
        match id {
            CU_LAUNCH_ATTRIBUTE_COOPERATIVE => out.cast().write(i32::from(self.cooperative)),
            CU_LAUNCH_ATTRIBUTE_PRIORITY => out.cast().write(self.priority.unwrap_or(0)),
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                out.cast().write(self.cluster.unwrap_or([0; 3]))
            }
            CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW => out.cast().write(tuning.window),
            CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                out.cast().write(tuning.cluster_policy)
            }
            CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => out.cast().write(tuning.domains),
            CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => out.cast().write(tuning.domain),
            CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                out.cast().write(tuning.carveout)
            }
            CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE => {
                // No, and no node of a device.
                out.cast::<i32>().write(0)?;
                out.cast::<u64>().at(1)?.write(0)
            }
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}
