//! What only the newer call for launches can say, and the attributes of kernel nodes.

use grapture_sys::{
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, CU_LAUNCH_ATTRIBUTE_PRIORITY,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT,
    CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE, CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_NOT_SUPPORTED, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchMemSyncDomain, Function,
};
use smallvec::SmallVec;

use crate::context::Context;
use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};

/// Kernels of different domains do not wait for one another's memory operations at a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemorySyncDomain {
    /// That of kernels which say nothing else.
    Default,
    /// For kernels that write to remote memory, whose fences take long.
    Remote,
    /// A domain that this version of the library does not know.
    Other(u32),
}

impl MemorySyncDomain {
    fn to_raw(self) -> CUlaunchMemSyncDomain {
        match self {
            MemorySyncDomain::Default => CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT,
            MemorySyncDomain::Remote => CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE,
            MemorySyncDomain::Other(number) => CUlaunchMemSyncDomain(number),
        }
    }
}

impl MemorySyncDomain {
    /// The driver's number.
    pub(crate) fn number(self) -> u32 {
        self.to_raw().0
    }

    pub(crate) fn from_number(number: u32) -> MemorySyncDomain {
        CUlaunchMemSyncDomain(number).into()
    }
}

impl From<CUlaunchMemSyncDomain> for MemorySyncDomain {
    fn from(raw: CUlaunchMemSyncDomain) -> MemorySyncDomain {
        match raw {
            CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT => MemorySyncDomain::Default,
            CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE => MemorySyncDomain::Remote,
            other => MemorySyncDomain::Other(other.0),
        }
    }
}

/// What a launch says beyond the plain call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(super) cooperative: bool,
    pub(super) programmatic_serialization: bool,
    pub(super) cluster: Option<Dim3>,
    pub(super) priority: Option<i32>,
    pub(super) sync_domain: Option<MemorySyncDomain>,
}

impl Attributes {
    pub(crate) fn is_plain(&self) -> bool {
        *self == Attributes::default()
    }

    /// Says what is wrong with them. The driver has to have the function that takes them.
    #[cold]
    pub(super) fn check(&self, context: &Context, grid: Dim3, by: Function) -> CudaResult<()> {
        if !self.is_plain() && !context.driver().has(by) {
            return Err(CudaError::from(CUDA_ERROR_NOT_SUPPORTED));
        }
        self.cluster.map_or(Ok(()), |cluster| check_cluster(grid, cluster))
    }

    /// Those of a node. What follows another kernel early is said by the edge there.
    pub(super) fn check_node(&self, context: &Context, grid: Dim3) -> CudaResult<()> {
        if self.programmatic_serialization {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "kernel.programmatic_serialization",
                "a node says that by its dependency: add one with `EdgeData::PROGRAMMATIC`",
            ));
        }
        self.check(context, grid, Function::cuGraphKernelNodeSetAttribute)
    }

    pub(super) fn to_raw(self) -> SmallVec<[CUlaunchAttribute; 5]> {
        let mut raw = SmallVec::new();
        let mut push = |(id, value)| {
            raw.push(CUlaunchAttribute { id, value, ..Default::default() });
        };
        if self.programmatic_serialization {
            let value = CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
            push((CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value));
        }
        let cooperative = self.cooperative.then_some(KernelAttribute::Cooperative(true));
        let others = [
            cooperative,
            self.cluster.map(KernelAttribute::Cluster),
            self.priority.map(KernelAttribute::Priority),
            self.sync_domain.map(KernelAttribute::MemorySyncDomain),
        ];
        others.into_iter().flatten().map(KernelAttribute::to_raw).for_each(push);
        raw
    }
}

pub(crate) fn check_cluster(grid: Dim3, cluster: Dim3) -> CudaResult<()> {
    let pairs = [(grid.x, cluster.x), (grid.y, cluster.y), (grid.z, cluster.z)];
    if pairs.iter().any(|(grid, cluster)| *cluster == 0 || grid % cluster != 0) {
        return Err(CudaError::refused(
            CUDA_ERROR_INVALID_CLUSTER_SIZE,
            "kernel.cluster_dim",
            format!("the grid of {grid} blocks is not a multiple of the cluster of {cluster}"),
        ));
    }
    Ok(())
}

/// A property of a kernel node beside its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelAttribute {
    /// The priority: lower numbers come first.
    Priority(i32),
    /// The blocks of a cluster.
    Cluster(Dim3),
    /// Whether the blocks can wait for one another.
    Cooperative(bool),
    /// The domain whose memory operations its fences wait for.
    MemorySyncDomain(MemorySyncDomain),
}

impl KernelAttribute {
    /// Those that a node can be asked for.
    pub(crate) const IDS: [CUlaunchAttributeID; 4] = [
        CU_LAUNCH_ATTRIBUTE_PRIORITY,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
    ];

    pub(crate) fn to_raw(self) -> (CUlaunchAttributeID, CUlaunchAttributeValue) {
        let mut value = CUlaunchAttributeValue::default();
        let id = match self {
            KernelAttribute::Priority(priority) => {
                value.priority = priority;
                CU_LAUNCH_ATTRIBUTE_PRIORITY
            }
            KernelAttribute::Cluster(Dim3 { x, y, z }) => {
                value.clusterDim.x = x;
                value.clusterDim.y = y;
                value.clusterDim.z = z;
                CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            }
            KernelAttribute::Cooperative(cooperative) => {
                value.cooperative = i32::from(cooperative);
                CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            }
            KernelAttribute::MemorySyncDomain(domain) => {
                value.memSyncDomain = domain.to_raw();
                CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            }
        };
        (id, value)
    }

    /// What the driver tells for one of `IDS`. A node without clusters has one of no blocks.
    ///
    /// # Safety
    ///
    /// The driver filled in the value for this id.
    pub(crate) unsafe fn from_raw(
        id: CUlaunchAttributeID,
        value: &CUlaunchAttributeValue,
    ) -> Option<KernelAttribute> {
        Some(match id {
            CU_LAUNCH_ATTRIBUTE_PRIORITY => {
                // SAFETY: the caller's promise.
                KernelAttribute::Priority(unsafe { value.priority })
            }
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                // SAFETY: the caller's promise.
                let cluster = unsafe { value.clusterDim };
                if cluster.x == 0 {
                    return None;
                }
                KernelAttribute::Cluster(Dim3::new(cluster.x, cluster.y, cluster.z))
            }
            CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                // SAFETY: the caller's promise.
                KernelAttribute::Cooperative(unsafe { value.cooperative } != 0)
            }
            CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => {
                // SAFETY: the caller's promise.
                KernelAttribute::MemorySyncDomain(unsafe { value.memSyncDomain }.into())
            }
            _ => return None,
        })
    }
}
