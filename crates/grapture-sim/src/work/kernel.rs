//! Kernel launches.

use std::sync::Arc;

use grapture_sys::CUDA_ERROR_NOT_SUPPORTED;

use crate::fault::Fault;
use crate::handle::Id;
use crate::module::{Function, KernelCode};
use crate::sim::Sim;

/// The launch attributes that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchAttributes {
    /// All blocks are resident at once.
    pub(crate) cooperative: bool,
    /// Blocks of a cluster, where given.
    pub(crate) cluster: Option<[u32; 3]>,
    /// The priority, where given.
    pub(crate) priority: Option<i32>,
    /// Programmatic stream serialization: may start before the work before it is done.
    pub(crate) programmatic: bool,
}

/// A kernel with everything that its launch needs.
#[derive(Clone, Debug)]
pub(crate) struct KernelWork {
    /// The function's handle, for questions about the launch.
    pub(crate) function: Id<Function>,
    /// The code, which outlives the module.
    pub(crate) code: Arc<KernelCode>,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads of a block.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
    /// The parameters, laid out as the kernel declares them.
    pub(crate) params: Arc<[u8]>,
    /// The attributes.
    pub(crate) attributes: LaunchAttributes,
}

impl KernelWork {
    /// Interprets it.
    pub(crate) fn run(&self, _sim: &Arc<Sim>) -> Result<(), Fault> {
        Err(Fault::new(CUDA_ERROR_NOT_SUPPORTED, "kernels are not interpreted yet"))
    }
}
