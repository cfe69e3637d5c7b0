//! [`FillNode`]: what a fill node fills.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_MEMSET_NODE_PARAMS};

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::{DeviceSlice, DeviceSliceMut, Region2d, Unit};
use crate::operation::Operation;
use crate::retain::Owners;
use crate::slot::{
    Bound, Identity, SlotNode, SlotUse, SlotWork, Target, Value, Work, no_rectangle, unfit_memory,
};

/// What a fill node fills, and with what: the same for a node that is
/// [added](crate::Graph::add_fill) to a graph and for one that is
/// [changed](crate::NodeMut::set_fill).
///
/// It has its memory kept alive; what orders the node are its dependencies, not borrows.
#[must_use = "a graph takes it"]
pub struct FillNode {
    pub(super) params: CUDA_MEMSET_NODE_PARAMS,
    pub(super) owners: Owners,
    pub(super) context: Context,
    /// What is noted of it if the memory is a slot's.
    pub(super) slots: Option<Arc<SlotNode>>,
}

impl FillNode {
    /// The fill at the caller's line, as a capture logs it.
    #[track_caller]
    pub(crate) fn operation(&self) -> Operation {
        let CUDA_MEMSET_NODE_PARAMS { elementSize, width, height, .. } = self.params;
        Operation::fill(elementSize as usize * width * height)
    }

    /// Every element of device memory. The device fills by units of 1, 2 or 4 bytes: a larger
    /// element can be filled if its bytes repeat after such a unit.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the bytes of `value` do not repeat so, or there is nothing
    /// to fill.
    #[track_caller]
    pub fn new<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        value: T,
    ) -> CudaResult<FillNode> {
        let len = DeviceSlice::<T>::raw(target).bytes / size_of::<T>().max(1);
        FillNode::rectangle(target, Region2d::new(len, 1), value)
    }

    /// Every element of a rectangle in device memory.
    ///
    /// # Errors
    ///
    /// As [`new`](FillNode::new); moreover the rectangle reaches past the end, or its pitch is
    /// below its width or above what the driver can.
    #[track_caller]
    pub fn rectangle<T: Pod>(
        target: &mut (impl DeviceSliceMut<T> + ?Sized),
        region: Region2d,
        value: T,
    ) -> CudaResult<FillNode> {
        let (slot, target) = (target.slot(), DeviceSlice::<T>::raw(target));
        let bytes = region.within(target.span(), size_of::<T>(), "fill.region")?;
        if bytes.width == 0 || bytes.height == 0 {
            return Err(nothing());
        }
        let unit = Unit::of(bytemuck::bytes_of(&value), bytes.address)?;
        let params = CUDA_MEMSET_NODE_PARAMS {
            dst: bytes.address,
            pitch: bytes.pitch_of_rows(),
            value: unit.value(),
            elementSize: unit.bytes() as u32,
            width: bytes.width / unit.bytes(),
            height: bytes.height,
        };
        let mut owners = Owners::here();
        owners.retain_memory(target.owner);
        let slots = match slot {
            Some(slot) => Some(slot_node(params, slot, Bound::of(target))?),
            None => None,
        };
        if let Some(node) = &slots {
            owners.retain_slots(node);
        }
        Ok(FillNode { params, owners, context: target.context().clone(), slots })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// What the driver is given, what is noted of the slot, and what is kept alive.
    pub(crate) fn into_parts(self) -> (CUDA_MEMSET_NODE_PARAMS, Option<Arc<SlotNode>>, Owners) {
        (self.params, self.slots, self.owners)
    }
}

/// What is noted of a fill of a slot's memory.
fn slot_node(
    params: CUDA_MEMSET_NODE_PARAMS,
    slot: Identity,
    bound: Bound,
) -> CudaResult<Arc<SlotNode>> {
    unfit_memory(&bound.owner).map_or(Ok(()), Err)?;
    if params.height != 1 || params.width * params.elementSize as usize != bound.bytes {
        return Err(no_rectangle());
    }
    let context = bound.owner.context().clone();
    let used = SlotUse { slot, target: Target::Fill, initial: Value::Memory(bound) };
    Ok(SlotNode::new(Arc::new(SlotWork { work: Work::Fill(params, context), uses: vec![used] })))
}

#[cold]
fn nothing() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "fill.len",
        "it is 0, and no node fills nothing: leave the node out, or add an empty one",
    )
}

impl fmt::Debug for FillNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FillNode")
            .field("value", &self.params.value)
            .field("width", &self.params.width)
            .field("height", &self.params.height)
            .finish_non_exhaustive()
    }
}
