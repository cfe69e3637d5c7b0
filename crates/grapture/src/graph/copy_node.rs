//! [`CopyNode`]: what a copy node copies.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{
    CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CUDA_ERROR_INVALID_VALUE, CUDA_MEMCPY3D,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::{
    DeviceSlice, DeviceSliceMut, RawSlice, Region2d, freeze, of_its_context_alone, same_len,
};
use crate::operation::Operation;
use crate::pinned::{PinnedBuffer, PinnedInner};
use crate::retain::Owners;
use crate::stream::other_context_than;
use crate::topology::CopyDirection;

/// What a copy node copies: the same for a node that is [added](crate::Graph::add_copy) to a graph
/// and for one that is [changed](crate::NodeMut::set_copy).
///
/// It has its memory kept alive; what orders the node are its dependencies, not borrows.
#[must_use = "a graph takes it"]
pub struct CopyNode {
    pub(super) params: CUDA_MEMCPY3D,
    pub(super) owners: Owners,
    pub(super) context: Context,
}

impl CopyNode {
    /// The copy at the caller's line, as a capture logs it.
    #[track_caller]
    pub(crate) fn operation(&self) -> Operation {
        let CUDA_MEMCPY3D { srcMemoryType, dstMemoryType, WidthInBytes, Height, .. } = self.params;
        let direction = match (srcMemoryType, dstMemoryType) {
            (CU_MEMORYTYPE_HOST, _) => CopyDirection::HostToDevice,
            (_, CU_MEMORYTYPE_HOST) => CopyDirection::DeviceToHost,
            _ => CopyDirection::DeviceToDevice,
        };
        Operation::copy(direction, WidthInBytes * Height)
    }

    /// From device memory to device memory, which may be that of another context: the node runs in
    /// the target's.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the lengths differ or are 0, or the memories are of
    /// different contexts and one was allocated in the order of a stream.
    #[track_caller]
    pub fn device<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        source: &(impl DeviceSlice<T> + ?Sized),
    ) -> CudaResult<CopyNode> {
        let (target, source) = (DeviceSlice::<T>::raw(target), source.raw());
        let (to, from) = (whole::<T>(target.bytes), whole::<T>(source.bytes));
        CopyNode::of::<T>(End::Device(target), to, End::Device(source), from)
    }

    /// A rectangle, from device memory to device memory.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the rectangles differ in size or are empty, one reaches
    /// past the end of its memory, a pitch is below the width or above what the driver can, or the
    /// memories are of different contexts.
    #[track_caller]
    pub fn device_2d<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        region: Region2d,
        source: &(impl DeviceSlice<T> + ?Sized),
        source_region: Region2d,
    ) -> CudaResult<CopyNode> {
        let (target, source) = (DeviceSlice::<T>::raw(target), source.raw());
        CopyNode::of::<T>(End::Device(target), region, End::Device(source), source_region)
    }

    /// From pinned host memory to device memory: each launch copies what is there then.
    ///
    /// # Errors
    ///
    /// As [`device`](CopyNode::device).
    #[track_caller]
    pub fn from_pinned<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        source: &PinnedBuffer<T>,
    ) -> CudaResult<CopyNode> {
        let (to, from) = (whole::<T>(DeviceSlice::<T>::raw(target).bytes), all(source));
        CopyNode::from_pinned_2d(target, to, source, from)
    }

    /// A rectangle, from pinned host memory to device memory.
    ///
    /// # Errors
    ///
    /// As [`device_2d`](CopyNode::device_2d).
    #[track_caller]
    pub fn from_pinned_2d<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        region: Region2d,
        source: &PinnedBuffer<T>,
        source_region: Region2d,
    ) -> CudaResult<CopyNode> {
        let (target, source) = (DeviceSlice::<T>::raw(target), source.inner());
        CopyNode::of::<T>(End::Device(target), region, End::Pinned(source), source_region)
    }

    /// From device memory to pinned host memory.
    ///
    /// # Errors
    ///
    /// As [`device`](CopyNode::device).
    #[track_caller]
    pub fn to_pinned<T: Pod>(
        target: &mut PinnedBuffer<T>,
        source: &(impl DeviceSlice<T> + ?Sized),
    ) -> CudaResult<CopyNode> {
        let (to, from) = (all(target), whole::<T>(source.raw().bytes));
        CopyNode::to_pinned_2d(target, to, source, from)
    }

    /// A rectangle, from device memory to pinned host memory.
    ///
    /// # Errors
    ///
    /// As [`device_2d`](CopyNode::device_2d).
    #[track_caller]
    pub fn to_pinned_2d<T: Pod>(
        target: &mut PinnedBuffer<T>,
        region: Region2d,
        source: &(impl DeviceSlice<T> + ?Sized),
        source_region: Region2d,
    ) -> CudaResult<CopyNode> {
        let target = End::Pinned(target.inner());
        CopyNode::of::<T>(target, region, End::Device(source.raw()), source_region)
    }

    /// From host memory to device memory. The elements are as they are now at every launch: the
    /// graph keeps a copy of its own.
    ///
    /// # Errors
    ///
    /// As [`device`](CopyNode::device). [`OutOfMemory`](CudaError::OutOfMemory).
    #[track_caller]
    pub fn from_host<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        source: &[T],
    ) -> CudaResult<CopyNode> {
        let to = whole::<T>(DeviceSlice::<T>::raw(target).bytes);
        same_len(source.len(), to.width())?;
        CopyNode::from_host_2d(target, to, source, Region2d::new(source.len(), 1))
    }

    /// A rectangle, from host memory to device memory, as [`from_host`](CopyNode::from_host) copies.
    ///
    /// # Errors
    ///
    /// As [`device_2d`](CopyNode::device_2d). [`OutOfMemory`](CudaError::OutOfMemory).
    #[track_caller]
    pub fn from_host_2d<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        region: Region2d,
        source: &[T],
        source_region: Region2d,
    ) -> CudaResult<CopyNode> {
        let target = DeviceSlice::<T>::raw(target);
        let frozen = freeze(target.context(), bytemuck::cast_slice(source))?;
        let (target, source) = (End::Device(target), End::Frozen(&frozen));
        CopyNode::of::<T>(target, region, source, source_region)
    }

    #[track_caller]
    fn of<T>(
        target: End<'_>,
        region: Region2d,
        source: End<'_>,
        source_region: Region2d,
    ) -> CudaResult<CopyNode> {
        let context = target.context();
        if !context.same(source.context()) {
            target.check_reach(source)?;
        }
        let to = region.within(target.span(), size_of::<T>(), "copy.region")?;
        let from = source_region.within(source.span(), size_of::<T>(), "copy.source_region")?;
        if region.is_row() && source_region.is_row() {
            same_len(source_region.width(), region.width())?;
        }
        region.same_size(source_region)?;
        if to.width == 0 || to.height == 0 {
            return Err(nothing());
        }
        let mut params = CUDA_MEMCPY3D {
            WidthInBytes: to.width,
            Height: to.height,
            Depth: 1,
            srcPitch: from.pitch_of_rows(),
            dstPitch: to.pitch_of_rows(),
            ..CUDA_MEMCPY3D::default()
        };
        match source.at(from.address) {
            At::Device(address) => {
                (params.srcMemoryType, params.srcDevice) = (CU_MEMORYTYPE_DEVICE, address);
            }
            At::Host(pointer) => {
                (params.srcMemoryType, params.srcHost) = (CU_MEMORYTYPE_HOST, pointer);
            }
        }
        match target.at(to.address) {
            At::Device(address) => {
                (params.dstMemoryType, params.dstDevice) = (CU_MEMORYTYPE_DEVICE, address);
            }
            At::Host(pointer) => {
                (params.dstMemoryType, params.dstHost) = (CU_MEMORYTYPE_HOST, pointer);
            }
        }
        let mut owners = Owners::here();
        source.retain(&mut owners, false);
        target.retain(&mut owners, true);
        Ok(CopyNode { params, owners, context: context.clone() })
    }
}

/// One end of a copy.
#[derive(Clone, Copy)]
enum End<'a> {
    Device(RawSlice<'a>),
    Pinned(&'a Arc<PinnedInner>),
    /// The graph's own copy of bytes: the host never comes back to it.
    Frozen(&'a Arc<PinnedInner>),
}

/// Where an end begins.
enum At {
    Device(u64),
    Host(*mut c_void),
}

impl<'a> End<'a> {
    fn context(self) -> &'a Context {
        match self {
            End::Device(slice) => slice.context(),
            End::Pinned(memory) | End::Frozen(memory) => memory.context(),
        }
    }

    /// Refuses a copy from another context, but between plain device memories.
    #[cold]
    fn check_reach(self, source: End<'_>) -> CudaResult<()> {
        match (self, source) {
            (End::Device(to), End::Device(from))
                if to.context().driver().same(from.context().driver()) =>
            {
                let plain = to.owner.is_plain() && from.owner.is_plain();
                if plain { Ok(()) } else { Err(of_its_context_alone()) }
            }
            _ => Err(other_context_than("copy.source", "target")),
        }
    }

    /// The address, which is counted from 0 in host memory, and how many bytes there are.
    fn span(self) -> (u64, usize) {
        match self {
            End::Device(slice) => slice.span(),
            End::Pinned(memory) | End::Frozen(memory) => (0, memory.bytes()),
        }
    }

    fn at(self, address: u64) -> At {
        match self {
            End::Device(_) => At::Device(address),
            End::Pinned(memory) | End::Frozen(memory) => {
                At::Host(memory.pointer().as_ptr().wrapping_add(address as usize).cast())
            }
        }
    }

    fn retain(self, owners: &mut Owners, written: bool) {
        match self {
            End::Device(slice) => owners.retain_memory(slice.owner),
            End::Pinned(memory) => owners.retain_pinned(memory, written),
            End::Frozen(memory) => owners.retain(memory),
        }
    }
}

/// All of so many bytes, as one row.
fn whole<T>(bytes: usize) -> Region2d {
    Region2d::new(bytes / size_of::<T>().max(1), 1)
}

fn all<T: Pod>(pinned: &PinnedBuffer<T>) -> Region2d {
    Region2d::new(pinned.len(), 1)
}

#[cold]
fn nothing() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "copy.len",
        "it is 0, and no node copies nothing: leave the node out, or add an empty one",
    )
}

impl fmt::Debug for CopyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyNode")
            .field("width_bytes", &self.params.WidthInBytes)
            .field("height", &self.params.Height)
            .finish_non_exhaustive()
    }
}
