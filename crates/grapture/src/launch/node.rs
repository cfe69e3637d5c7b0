//! A launch as a node of a graph.

use std::ffi::c_void;
use std::ptr;

use grapture_sys::{CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUlaunchAttribute};
use smallvec::SmallVec;

use crate::context::Context;
use crate::error::CudaResult;
use crate::launch::{INLINE, LaunchBuilder};
use crate::operation::Operation;
use crate::retain::Owners;

impl LaunchBuilder<'_> {
    /// What a node with this launch keeps alive, noted with the caller's line.
    #[track_caller]
    pub(crate) fn owners(&self) -> Owners {
        let mut owners = Owners::here();
        self.retain(&mut owners);
        if let Some(node) = self.slot_node() {
            owners.retain_slots(&node);
        }
        owners
    }

    /// Adds the kernel and the memory to the owners.
    pub(super) fn retain(&self, owners: &mut Owners) {
        owners.retain(self.kernel);
        for owner in self.arguments.iter().filter_map(|argument| argument.owner) {
            owners.retain_memory(owner);
        }
    }

    /// The launch at the caller's line, as a capture logs it.
    #[track_caller]
    pub(crate) fn operation(&self) -> Operation {
        Operation::kernel(self.kernel)
    }

    /// The context in which the kernel runs.
    pub(crate) fn context(&self) -> &Context {
        self.kernel.context()
    }

    /// Runs `with` on the parameters of a node with this launch, which runs in the kernel's context.
    /// The arguments that they point to live that long: the driver copies them in its call.
    pub(crate) fn with_node<R>(
        &self,
        with: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS_v2) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let context = self.context();
        self.check_for(context, "kernel")?;
        if let Some(attributes) = &self.extras {
            attributes.check_node(context, self.grid)?;
        }
        let mut pointers: SmallVec<[*mut c_void; INLINE]> =
            self.arguments.iter().map(|argument| self.pointer(argument)).collect();
        let kernel_params =
            if pointers.is_empty() { ptr::null_mut() } else { pointers.as_mut_ptr() };
        with(&CUDA_KERNEL_NODE_PARAMS_v2 {
            func: self.kernel.raw(),
            gridDimX: self.grid.x,
            gridDimY: self.grid.y,
            gridDimZ: self.grid.z,
            blockDimX: self.block.x,
            blockDimY: self.block.y,
            blockDimZ: self.block.z,
            sharedMemBytes: self.shared_bytes as u32,
            kernelParams: kernel_params,
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            // Without it the node acts on what is current on the thread, or the driver crashes
            // (measured).
            ctx: context.as_raw(),
        })
    }

    /// Whether the launch names attributes.
    pub(crate) fn has_attributes(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.is_plain())
    }

    /// The attributes that the launch names.
    pub(crate) fn node_attributes(&self) -> SmallVec<[CUlaunchAttribute; 5]> {
        self.extras.as_ref().map(|extras| extras.to_raw()).unwrap_or_default()
    }
}

/// The same for a driver before 12.0, which takes the context that is current on the thread.
pub(crate) fn before_contexts(params: &CUDA_KERNEL_NODE_PARAMS_v2) -> CUDA_KERNEL_NODE_PARAMS_v1 {
    CUDA_KERNEL_NODE_PARAMS_v1 {
        func: params.func,
        gridDimX: params.gridDimX,
        gridDimY: params.gridDimY,
        gridDimZ: params.gridDimZ,
        blockDimX: params.blockDimX,
        blockDimY: params.blockDimY,
        blockDimZ: params.blockDimZ,
        sharedMemBytes: params.sharedMemBytes,
        kernelParams: params.kernelParams,
        extra: params.extra,
    }
}
