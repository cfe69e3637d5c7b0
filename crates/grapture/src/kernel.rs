//! [`Kernel`]: a function of a module that can be launched.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use grapture_sys::{
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_NUM_REGS,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUdevice_attribute, CUfunction,
    CUfunction_attribute, Function,
};

use crate::context::Context;
use crate::device::DeviceAttribute;
use crate::dim3::Dim3;
use crate::driver::DriverVersion;
use crate::error::{CudaError, CudaResult, check};
use crate::launch::LaunchBuilder;
use crate::module::{Module, c_name};

/// A kernel. It keeps its module loaded; a clone is the same kernel.
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<KernelInner>,
}

pub(crate) struct KernelInner {
    raw: CUfunction,
    module: Module,
    name: Box<str>,
    /// The sizes of the parameters in bytes; none from a driver before 12.4.
    parameters: Option<Box<[usize]>>,
    attributes: KernelAttributes,
    limits: LaunchLimits,
    /// How much dynamic shared memory a block may have, in bytes.
    dynamic_shared_limit: AtomicU32,
}

// SAFETY: a `CUfunction` belongs to no thread, and it is only passed to driver calls, by value.
unsafe impl Send for KernelInner {}
// SAFETY: the fields do not change, but for an atomic one; the driver locks its functions itself.
unsafe impl Sync for KernelInner {}

/// What the compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAttributes {
    /// The most threads that a block can have, for the registers that the kernel needs.
    pub max_threads_per_block: u32,
    /// Shared memory that each block has without asking, in bytes.
    pub static_shared_bytes: u32,
    /// Constant memory, in bytes.
    pub const_bytes: u32,
    /// Local memory of each thread, in bytes.
    pub local_bytes: u32,
    /// Registers of each thread.
    pub registers: u32,
}

/// What a launch on the device may have at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchLimits {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    /// Shared memory of a block without opting in, and with it.
    shared_bytes: u32,
    shared_optin_bytes: u32,
}

/// A kernel that lives as long as somebody else has it.
#[derive(Default)]
pub(crate) struct WeakKernel {
    inner: Weak<KernelInner>,
}

impl WeakKernel {
    pub(crate) fn upgrade(&self) -> Option<Kernel> {
        self.inner.upgrade().map(|inner| Kernel { inner })
    }
}

impl Kernel {
    pub(crate) fn downgrade(&self) -> WeakKernel {
        WeakKernel { inner: Arc::downgrade(&self.inner) }
    }

    pub(crate) fn of(module: &Module, name: &str) -> CudaResult<Kernel> {
        let text = c_name(name, "kernel.name")?;
        let context = module.context();
        let mut raw = ptr::null_mut();
        let found = context.relaxed(|functions| {
            // SAFETY: a live module, a NUL-terminated name, and a live out-pointer.
            check(unsafe {
                (functions.cuModuleGetFunction)(&mut raw, module.as_raw(), text.as_ptr())
            })?;
            if context.driver().has(Function::cuFuncLoad) {
                // SAFETY: a function of a live module.
                check(unsafe { (functions.cuFuncLoad)(raw) })?;
            }
            Ok(())
        });
        match found {
            Ok(()) => {}
            Err(CudaError::NotFound) => return Err(unknown_kernel(module, name)),
            Err(error) => return Err(error),
        }
        if required_cluster(context, raw)? != [0; 3] {
            context.note_attributes();
        }
        let ask = Asking { context, raw };
        let attributes = ask.attributes()?;
        let limits = ask.limits()?;
        let free = limits.shared_bytes.saturating_sub(attributes.static_shared_bytes);
        let limit = ask.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES).unwrap_or(free);
        let inner = KernelInner {
            raw,
            module: module.clone(),
            name: name.into(),
            parameters: ask.parameters()?,
            attributes,
            limits,
            dynamic_shared_limit: AtomicU32::new(limit),
        };
        Ok(Kernel { inner: Arc::new(inner) })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.inner.module
    }

    /// The context.
    pub fn context(&self) -> &Context {
        self.inner.module.context()
    }

    /// The raw handle. It stays valid as long as a clone of this one lives.
    pub fn as_raw(&self) -> CUfunction {
        self.inner.raw
    }

    /// What the compiler made of it.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn attributes(&self) -> KernelAttributes {
        self.inner.attributes
    }

    /// The sizes of the parameters in bytes, in order. None: the driver is older than 12.4 and
    /// does not tell.
    #[doc(alias = "cuFuncGetParamInfo")]
    pub fn parameter_sizes(&self) -> Option<&[usize]> {
        self.inner.parameters.as_deref()
    }

    /// A launch of the kernel on `grid` blocks of `block` threads each.
    ///
    /// The dimensions are checked when it is launched.
    #[doc(alias = "cuLaunchKernel")]
    #[inline]
    pub fn launch_builder(
        &self,
        grid: impl Into<Dim3>,
        block: impl Into<Dim3>,
    ) -> LaunchBuilder<'_> {
        LaunchBuilder::new(self, grid.into(), block.into())
    }

    /// How much dynamic shared memory a block may have at most, in bytes.
    pub fn max_dynamic_shared_bytes(&self) -> usize {
        self.inner.dynamic_shared_limit.load(Ordering::Relaxed) as usize
    }

    /// Lets blocks have up to `bytes` of dynamic shared memory, beyond the 48 KiB that need no
    /// asking. It is a property of the kernel in its context, for every later launch.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the device does not have as much for one block.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set_max_dynamic_shared_bytes(&self, bytes: usize) -> CudaResult<()> {
        let inner = &self.inner;
        let most =
            inner.limits.shared_optin_bytes.saturating_sub(inner.attributes.static_shared_bytes);
        let wanted =
            u32::try_from(bytes).ok().filter(|wanted| *wanted <= most).ok_or_else(|| {
                CudaError::refused(
                    CUDA_ERROR_INVALID_VALUE,
                    "kernel.max_dynamic_shared_bytes",
                    format!(
                        "{bytes} bytes are more than the {most} that a block of `{}` can have here",
                        inner.name
                    ),
                )
            })?;
        self.context().relaxed(|functions| {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of a live module; the value fits, see above.
            check(unsafe { (functions.cuFuncSetAttribute)(inner.raw, attribute, wanted as i32) })
        })?;
        inner.dynamic_shared_limit.store(wanted, Ordering::Relaxed);
        Ok(())
    }

    /// How many blocks of `block_threads` threads, each with so much dynamic shared memory, can be
    /// resident on one multiprocessor.
    ///
    /// # Errors
    ///
    /// As the driver answers: a block of 0 threads.
    #[doc(alias = "cuOccupancyMaxActiveBlocksPerMultiprocessor")]
    pub fn max_active_blocks(
        &self,
        block_threads: u32,
        dynamic_shared_bytes: usize,
    ) -> CudaResult<usize> {
        let threads = i32::try_from(block_threads).unwrap_or(i32::MAX);
        let mut blocks = 0;
        self.context().enter_relaxed(|functions| {
            // SAFETY: a function of a live module, and a live out-pointer.
            check(unsafe {
                (functions.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                    &mut blocks,
                    self.inner.raw,
                    threads,
                    dynamic_shared_bytes,
                )
            })
        })?;
        Ok(usize::try_from(blocks).unwrap_or(0))
    }

    /// A block size that makes the most of the device, and the fewest blocks that fill it.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuOccupancyMaxPotentialBlockSize")]
    pub fn suggested_block_size(&self, dynamic_shared_bytes: usize) -> CudaResult<BlockSize> {
        let (mut blocks, mut threads) = (0, 0);
        self.context().enter_relaxed(|functions| {
            // SAFETY: a function of a live module, live out-pointers, and no callback: the shared
            // memory does not depend on the block size.
            check(unsafe {
                (functions.cuOccupancyMaxPotentialBlockSize)(
                    &mut blocks,
                    &mut threads,
                    self.inner.raw,
                    None,
                    dynamic_shared_bytes,
                    0,
                )
            })
        })?;
        Ok(BlockSize { threads: threads.unsigned_abs(), min_blocks: blocks.unsigned_abs() })
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<KernelInner> {
        &self.inner
    }
}

/// What [`Kernel::suggested_block_size`] suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// Threads of a block.
    pub threads: u32,
    /// The fewest blocks that fill the device.
    pub min_blocks: u32,
}

impl KernelInner {
    #[inline]
    pub(crate) fn raw(&self) -> CUfunction {
        self.raw
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        self.module.context()
    }

    #[inline]
    pub(crate) fn parameters(&self) -> Option<&[usize]> {
        self.parameters.as_deref()
    }

    #[inline]
    pub(crate) fn limits(&self) -> &LaunchLimits {
        &self.limits
    }

    #[inline]
    pub(crate) fn max_threads(&self) -> u32 {
        self.attributes.max_threads_per_block
    }

    #[inline]
    pub(crate) fn dynamic_shared_limit(&self) -> u32 {
        self.dynamic_shared_limit.load(Ordering::Relaxed)
    }
}

/// The driver from which on functions can be asked for their clusters.
const CLUSTERS_SINCE: DriverVersion = DriverVersion::new(11, 8);

/// The cluster that a function is compiled for; zeros if it is for none.
pub(crate) fn required_cluster(context: &Context, function: CUfunction) -> CudaResult<[i32; 3]> {
    let mut cluster = [0; 3];
    if function.is_null() || context.driver().version() < CLUSTERS_SINCE {
        return Ok(cluster);
    }
    let ids = [
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    ];
    context.driver().relaxed(|functions| {
        for (blocks, id) in cluster.iter_mut().zip(ids) {
            // SAFETY: a function of a live module, and a live out-pointer.
            check(unsafe { (functions.cuFuncGetAttribute)(blocks, id, function) })?;
        }
        Ok(cluster)
    })
}

/// A function that is being asked about.
struct Asking<'a> {
    context: &'a Context,
    raw: CUfunction,
}

impl Asking<'_> {
    fn attribute(&self, attribute: CUfunction_attribute) -> CudaResult<u32> {
        let mut value = 0;
        self.context.relaxed(|functions| {
            // SAFETY: a function of a live module, and a live out-pointer.
            check(unsafe { (functions.cuFuncGetAttribute)(&mut value, attribute, self.raw) })
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn attributes(&self) -> CudaResult<KernelAttributes> {
        Ok(KernelAttributes {
            max_threads_per_block: self.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes: self.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            const_bytes: self.attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
            local_bytes: self.attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            registers: self.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        })
    }

    fn limits(&self) -> CudaResult<LaunchLimits> {
        let get = |attribute: CUdevice_attribute| {
            let value = self.context.device().attribute(DeviceAttribute::from_raw(attribute))?;
            Ok::<u32, CudaError>(u32::try_from(value).unwrap_or(0))
        };
        let shared_bytes = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
        Ok(LaunchLimits {
            grid: Dim3::new(
                get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ),
            block: Dim3::new(
                get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ),
            shared_bytes,
            shared_optin_bytes: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
                .unwrap_or(shared_bytes),
        })
    }

    /// The sizes of the parameters. A driver before 13.2 cannot say how many there are: it is asked
    /// until it refuses the first index past the last, which a checker of API calls reports.
    fn parameters(&self) -> CudaResult<Option<Box<[usize]>>> {
        let driver = self.context.driver();
        if !driver.has(Function::cuFuncGetParamInfo) {
            return Ok(None);
        }
        self.context.relaxed(|functions| {
            let mut count = usize::MAX;
            if driver.has(Function::cuFuncGetParamCount) {
                // SAFETY: a function of a live module, and a live out-pointer.
                check(unsafe { (functions.cuFuncGetParamCount)(self.raw, &mut count) })?;
            }
            let mut sizes = Vec::new();
            while sizes.len() < count {
                let (mut offset, mut size) = (0, 0);
                // SAFETY: a function of a live module, and live out-pointers.
                let asked = check(unsafe {
                    let index = sizes.len();
                    (functions.cuFuncGetParamInfo)(self.raw, index, &mut offset, &mut size)
                });
                match asked {
                    Ok(()) => sizes.push(size),
                    Err(CudaError::InvalidValue) if count == usize::MAX => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(Some(sizes.into()))
        })
    }
}

#[cold]
fn unknown_kernel(module: &Module, name: &str) -> CudaError {
    let known = match module.kernel_names() {
        Ok(Some(names)) if names.is_empty() => "; it has none at all".to_owned(),
        Ok(Some(names)) => format!("; it has {}", names.join(", ")),
        _ => String::new(),
    };
    CudaError::refused(
        CUDA_ERROR_NOT_FOUND,
        "kernel.name",
        format!("the module has no kernel `{name}`{known}"),
    )
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.inner.name).finish_non_exhaustive()
    }
}
