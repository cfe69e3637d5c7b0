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
use crate::slot::{
    Bound, Identity, SlotNode, SlotUse, SlotWork, Target, Value, Work, no_rectangle, unfit_memory,
};
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
    /// What is noted of it if an end is a slot's.
    pub(super) slots: Option<Arc<SlotNode>>,
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
        let (target, source) = (End::device(&*target), End::device(source));
        let (to, from) = (whole::<T>(target.span().1), whole::<T>(source.span().1));
        CopyNode::of::<T>(target, to, source, from)
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
        let (target, source) = (End::device(&*target), End::device(source));
        CopyNode::of::<T>(target, region, source, source_region)
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
        let (target, source) = (End::device(&*target), End::Pinned(source.inner()));
        CopyNode::of::<T>(target, region, source, source_region)
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
        CopyNode::of::<T>(target, region, End::device(source), source_region)
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
        let target = End::device(&*target);
        let frozen = freeze(target.context(), bytemuck::cast_slice(source))?;
        let source = End::Frozen(&frozen);
        CopyNode::of::<T>(target, region, source, source_region)
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// What the driver is given, what is noted of the slots, and what is kept alive.
    pub(crate) fn into_parts(self) -> (CUDA_MEMCPY3D, Option<Arc<SlotNode>>, Owners) {
        (self.params, self.slots, self.owners)
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
        let uses = [target.slot_use(Target::CopyTo), source.slot_use(Target::CopyFrom)];
        let uses: Vec<_> = uses.into_iter().flatten().collect();
        let slots = if uses.is_empty() { None } else { Some(slot_node(params, uses, context)?) };
        if let Some(node) = &slots {
            owners.retain_slots(node);
        }
        Ok(CopyNode { params, owners, context: context.clone(), slots })
    }
}

/// What is noted of a copy with slots.
fn slot_node(
    params: CUDA_MEMCPY3D,
    uses: Vec<SlotUse>,
    context: &Context,
) -> CudaResult<Arc<SlotNode>> {
    check_slots(&params, &uses)?;
    Ok(SlotNode::new(Arc::new(SlotWork { work: Work::Copy(params, context.clone()), uses })))
}

fn check_slots(params: &CUDA_MEMCPY3D, uses: &[SlotUse]) -> CudaResult<()> {
    for used in uses {
        let Value::Memory(bound) = &used.initial else { continue };
        unfit_memory(&bound.owner).map_or(Ok(()), Err)?;
        if params.Height != 1 || bound.bytes != params.WidthInBytes {
            return Err(no_rectangle());
        }
    }
    check_overlap(params)
}

/// Refuses a copy between memory that overlaps: slots are not borrowed as buffers are.
pub(super) fn check_overlap(params: &CUDA_MEMCPY3D) -> CudaResult<()> {
    let both = [params.srcMemoryType, params.dstMemoryType];
    let (from, to, bytes) = (params.srcDevice, params.dstDevice, params.WidthInBytes as u64);
    if both != [CU_MEMORYTYPE_DEVICE; 2] || from.abs_diff(to) >= bytes {
        return Ok(());
    }
    Err(CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "slot",
        "the source of a copy and its target would overlap: give them memory apart",
    ))
}

/// One end of a copy.
#[derive(Clone, Copy)]
enum End<'a> {
    /// Device memory, and the slot that it is, if it is one.
    Device(RawSlice<'a>, Option<Identity>),
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
    fn device<T: Pod>(slice: &'a (impl DeviceSlice<T> + ?Sized)) -> End<'a> {
        End::Device(slice.raw(), slice.slot())
    }

    /// The use of a slot that it is, if it is one.
    fn slot_use(self, target: Target) -> Option<SlotUse> {
        let End::Device(slice, Some(slot)) = self else { return None };
        Some(SlotUse { slot, target, initial: Value::Memory(Bound::of(slice)) })
    }

    fn context(self) -> &'a Context {
        match self {
            End::Device(slice, _) => slice.context(),
            End::Pinned(memory) | End::Frozen(memory) => memory.context(),
        }
    }

    /// Refuses a copy from another context, but between plain device memories.
    #[cold]
    fn check_reach(self, source: End<'_>) -> CudaResult<()> {
        match (self, source) {
            (End::Device(to, _), End::Device(from, _))
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
            End::Device(slice, _) => slice.span(),
            End::Pinned(memory) | End::Frozen(memory) => (0, memory.bytes()),
        }
    }

    fn at(self, address: u64) -> At {
        match self {
            End::Device(..) => At::Device(address),
            End::Pinned(memory) | End::Frozen(memory) => {
                At::Host(memory.pointer().as_ptr().wrapping_add(address as usize).cast())
            }
        }
    }

    fn retain(self, owners: &mut Owners, written: bool) {
        match self {
            End::Device(slice, _) => owners.retain_memory(slice.owner),
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
