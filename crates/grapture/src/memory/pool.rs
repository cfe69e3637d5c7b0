//! [`MemoryPool`] and [`PoolUsage`]: where the driver takes memory that is allocated in the order
//! of a stream, or by the nodes of graphs.

use std::ffi::c_void;
use std::fmt;
use std::ptr;

use grapture_sys::{
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
    CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
    CU_MEMPOOL_ATTR_USED_MEM_HIGH, CUgraphMem_attribute, CUmemPool_attribute, CUmemoryPool,
    Function,
};

use crate::device::Device;
use crate::driver::DriverVersion;
use crate::error::{CudaError, CudaResult, check};

/// The driver whose pools tell what they have.
const USAGE_SINCE: DriverVersion = DriverVersion::new(11, 3);

/// How much memory a pool of the driver has, in bytes. The two marks are the most that there was
/// since they were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PoolUsage {
    /// What is allocated. A driver of today counts all that graphs have reserved.
    pub used_bytes: usize,
    /// The most that was allocated.
    pub used_high_bytes: usize,
    /// What the pool has taken of the device.
    pub reserved_bytes: usize,
    /// The most that it had taken.
    pub reserved_high_bytes: usize,
}

impl fmt::Display for PoolUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolUsage { used_bytes, used_high_bytes, reserved_bytes, reserved_high_bytes } = self;
        write!(
            f,
            "{used_bytes} bytes in use ({used_high_bytes} at most), \
             {reserved_bytes} reserved ({reserved_high_bytes} at most)"
        )
    }
}

/// The memory that graphs allocate by nodes: every device has one pool for all graphs.
impl Device {
    /// What the graphs of the process have of the device for what their nodes allocate:
    /// [`Graph::add_alloc`](crate::Graph::add_alloc),
    /// [`alloc_temporary`](crate::StreamGraphCapture::alloc_temporary). A launch takes it, and it
    /// is kept for the next one until it is [trimmed](Device::trim_graph_memory). Graphs whose
    /// launches follow one another use the same.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let device = driver.device(0)?;
    /// # let context = Context::new(&device)?;
    /// # let stream = Stream::new(&context)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.alloc_temporary::<u8>(1000)?.fill(1, &stream)
    /// })?;
    /// let exec = graph.instantiate()?;
    /// exec.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert!(device.graph_memory()?.reserved_bytes >= 1000);
    /// device.trim_graph_memory()?;
    /// assert_eq!(device.graph_memory()?.reserved_bytes, 0);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.4. As the driver
    /// answers.
    #[doc(alias = "cuDeviceGetGraphMemAttribute")]
    pub fn graph_memory(&self) -> CudaResult<PoolUsage> {
        let get = |attribute| self.graph_memory_attribute(attribute);
        Ok(PoolUsage {
            used_bytes: get(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?,
            used_high_bytes: get(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)?,
            reserved_bytes: get(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?,
            reserved_high_bytes: get(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)?,
        })
    }

    /// Sets both marks of [`graph_memory`](Device::graph_memory) back to what there is now.
    ///
    /// # Errors
    ///
    /// As [`graph_memory`](Device::graph_memory).
    #[doc(alias = "cuDeviceSetGraphMemAttribute")]
    pub fn reset_graph_memory_high(&self) -> CudaResult<()> {
        self.require_graph_memory()?;
        for mark in [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] {
            let mut zero = 0u64;
            let value = (&raw mut zero).cast::<c_void>();
            let set = self.driver().functions().cuDeviceSetGraphMemAttribute;
            // SAFETY: the value is a live local of 64 bits, as NVIDIA documents the attribute.
            check(unsafe { set(self.as_raw(), mark, value) })?;
        }
        Ok(())
    }

    /// Gives what graphs have reserved back to the device, but for what an allocation is in that
    /// lives now. The next launch of a graph that allocates takes it anew. Does not block.
    ///
    /// # Errors
    ///
    /// As [`graph_memory`](Device::graph_memory).
    #[doc(alias = "cuDeviceGraphMemTrim")]
    pub fn trim_graph_memory(&self) -> CudaResult<()> {
        self.require_graph_memory()?;
        // SAFETY: a device of this driver.
        check(unsafe { (self.driver().functions().cuDeviceGraphMemTrim)(self.as_raw()) })
    }

    fn graph_memory_attribute(&self, attribute: CUgraphMem_attribute) -> CudaResult<usize> {
        self.require_graph_memory()?;
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast::<c_void>();
        let get = self.driver().functions().cuDeviceGetGraphMemAttribute;
        // SAFETY: the value is a live local of 64 bits, as NVIDIA documents the attribute.
        check(unsafe { get(self.as_raw(), attribute, value) })?;
        Ok(bytes as usize)
    }

    fn require_graph_memory(&self) -> CudaResult<()> {
        let has = self.driver().has(Function::cuDeviceGetGraphMemAttribute);
        if has { Ok(()) } else { Err(CudaError::NotSupported) }
    }
}

/// The pool of a device from which [`DeviceBuffer::alloc_async`](crate::DeviceBuffer::alloc_async)
/// takes memory. A handle: it owns nothing, and the pool is there as long as the process.
///
/// What is freed is given back to the device when a stream, an event or the context is waited for,
/// as far as the pool has more than its [threshold](MemoryPool::set_release_threshold).
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let device = driver.device(0)?;
/// # let context = Context::new(&device)?;
/// # let stream = Stream::new(&context)?;
/// let pool = device.default_memory_pool()?;
/// pool.set_release_threshold(1 << 30)?; // keep up to 1 GiB for the next allocation
/// drop(DeviceBuffer::<u8>::alloc_async(&stream, 1000)?);
/// stream.synchronize()?;
/// assert!(pool.usage()?.reserved_bytes > 0);
/// pool.trim_to(0)?;
/// assert_eq!(pool.usage()?.reserved_bytes, 0);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone)]
pub struct MemoryPool {
    raw: CUmemoryPool,
    device: Device,
}

// SAFETY: a `CUmemoryPool` belongs to no thread, and it is only passed to driver calls, by value.
unsafe impl Send for MemoryPool {}
// SAFETY: NVIDIA documents the calls on a pool without a restriction to one thread; the driver
// locks what is stream-ordered itself.
unsafe impl Sync for MemoryPool {}

impl Device {
    /// The pool that memory is taken from which is allocated in the order of a stream.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.2, or the device has
    /// no memory pools. As the driver answers.
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    pub fn default_memory_pool(&self) -> CudaResult<MemoryPool> {
        if !self.driver().has(Function::cuDeviceGetDefaultMemPool) {
            return Err(CudaError::NotSupported);
        }
        let mut raw = ptr::null_mut();
        let get = self.driver().functions().cuDeviceGetDefaultMemPool;
        // SAFETY: the out-pointer is a live local.
        check(unsafe { get(&mut raw, self.as_raw()) })?;
        Ok(MemoryPool { raw, device: self.clone() })
    }
}

impl MemoryPool {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The raw handle, which is good as long as the process.
    pub fn as_raw(&self) -> CUmemoryPool {
        self.raw
    }

    /// What the pool has. Does not block.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.3. As the driver
    /// answers.
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn usage(&self) -> CudaResult<PoolUsage> {
        self.require_usage()?;
        let get = |attribute| self.attribute(attribute);
        Ok(PoolUsage {
            used_bytes: get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            used_high_bytes: get(CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
            reserved_bytes: get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            reserved_high_bytes: get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
        })
    }

    /// Sets both marks of [`usage`](MemoryPool::usage) back to what there is now.
    ///
    /// # Errors
    ///
    /// As [`usage`](MemoryPool::usage).
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn reset_high(&self) -> CudaResult<()> {
        self.require_usage()?;
        [CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH]
            .into_iter()
            .try_for_each(|mark| self.set_attribute(mark, 0))
    }

    /// How many bytes the pool keeps when what was freed is given back; 0 at first.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn release_threshold(&self) -> CudaResult<usize> {
        self.attribute(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    }

    /// Sets how many bytes the pool keeps; `usize::MAX` for all. Everyone in the process who uses
    /// the pool sees it.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn set_release_threshold(&self, bytes: usize) -> CudaResult<()> {
        self.set_attribute(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes as u64)
    }

    /// Gives what is not in use back to the device, until the pool has `keep_bytes` or nothing more
    /// to give. Does not block.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuMemPoolTrimTo")]
    pub fn trim_to(&self, keep_bytes: usize) -> CudaResult<()> {
        // SAFETY: a live pool. A capture of this thread may bar the call, so the thread's mode is
        // relaxed around it (O9).
        let code = self
            .device
            .driver()
            .relaxed(|functions| unsafe { (functions.cuMemPoolTrimTo)(self.raw, keep_bytes) });
        check(code)
    }

    fn require_usage(&self) -> CudaResult<()> {
        let knows = self.device.driver().version() >= USAGE_SINCE;
        if knows { Ok(()) } else { Err(CudaError::NotSupported) }
    }

    fn attribute(&self, attribute: CUmemPool_attribute) -> CudaResult<usize> {
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast::<c_void>();
        check(self.device.driver().relaxed(|functions| {
            // SAFETY: a live pool, and a live local of 64 bits, which these attributes have.
            unsafe { (functions.cuMemPoolGetAttribute)(self.raw, attribute, value) }
        }))?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn set_attribute(&self, attribute: CUmemPool_attribute, bytes: u64) -> CudaResult<()> {
        let mut bytes = bytes;
        let value = (&raw mut bytes).cast::<c_void>();
        check(self.device.driver().relaxed(|functions| {
            // SAFETY: a live pool, and a live local of 64 bits, which these attributes have.
            unsafe { (functions.cuMemPoolSetAttribute)(self.raw, attribute, value) }
        }))
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPool").field("device", &self.device).finish_non_exhaustive()
    }
}
