//! Copies and fills with slots in a capture.

use bytemuck::Pod;
use grapture_sys::{
    CU_MEMORYTYPE_HOST, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUresult, CUstream, Functions,
};

use crate::error::{CudaError, CudaResult};
use crate::graph::{CopyNode, FillNode};
use crate::memory::DeviceSlice;
use crate::operation::Operation;
use crate::pinned::PinnedInner;
use crate::stream::Stream;
use crate::topology::CopyDirection;

/// Whether the memory is a slot's, and an operation with it on the stream is captured: there is
/// something to note then. Known to the compiler for what is no slot.
#[inline]
pub(crate) fn is_slot<T: Pod>(memory: &(impl DeviceSlice<T> + ?Sized), stream: &Stream) -> bool {
    memory.slot().is_some() && memory.raw().bytes > 0 && stream.is_capturing()
}

/// Has the stream's capture record a copy with slots.
#[cold]
#[track_caller]
pub(crate) fn captured_copy(copy: CopyNode, stream: &Stream) -> CudaResult<()> {
    stream.require_context(copy.context(), "memory")?;
    let (params, node, mut owners) = copy.into_parts();
    let uses: Vec<_> = owners.pinned().to_vec();
    let mut submissions = Vec::with_capacity(uses.len());
    for used in &uses {
        submissions.push(PinnedInner::submit(&used.memory, used.written, stream)?);
    }
    owners.note_use(stream)?;
    let operation = Operation::copy(direction(&params), params.WidthInBytes);
    let Some(node) = node else { return Ok(()) };
    let recorded = stream.submit_slotted(
        operation,
        &node,
        |kept| {
            submissions.iter_mut().for_each(|submission| submission.captured());
            kept.append(&mut owners);
        },
        // SAFETY: both ends lie within memory of `WidthInBytes` bytes and do not overlap (checked
        // when the node was made). The graph keeps it alive (O2).
        |functions, raw| unsafe { copy_row(functions, raw, &params) },
    );
    recorded.unwrap_or_else(|| Err(has_ended()))
}

/// Has the stream's capture record a fill with a slot.
#[cold]
#[track_caller]
pub(crate) fn captured_fill(fill: FillNode, stream: &Stream) -> CudaResult<()> {
    stream.require_context(fill.context(), "memory")?;
    let (params, node, mut owners) = fill.into_parts();
    owners.note_use(stream)?;
    let operation = Operation::fill(params.width * params.elementSize as usize);
    let Some(node) = node else { return Ok(()) };
    let recorded = stream.submit_slotted(
        operation,
        &node,
        |kept| kept.append(&mut owners),
        // SAFETY: so many units of live device memory, aligned for them (checked when the node was
        // made), which the graph keeps alive (O2).
        |functions, raw| unsafe { fill_row(functions, raw, &params) },
    );
    recorded.unwrap_or_else(|| Err(has_ended()))
}

/// Another thread has ended the capture since it was looked for.
#[cold]
fn has_ended() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "stream",
        "another thread ended its capture meanwhile, so that nothing was submitted: do it again",
    )
}

/// Refuses a rectangle of a slot's memory.
#[cold]
pub(crate) fn no_rectangle() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "slot",
        "the driver changes no rectangle of an executable: give memory that is no slot's, or copy \
         and fill rows",
    )
}

fn direction(params: &CUDA_MEMCPY3D) -> CopyDirection {
    match (params.srcMemoryType, params.dstMemoryType) {
        (CU_MEMORYTYPE_HOST, _) => CopyDirection::HostToDevice,
        (_, CU_MEMORYTYPE_HOST) => CopyDirection::DeviceToHost,
        _ => CopyDirection::DeviceToDevice,
    }
}

/// # Safety
///
/// The parameters are those of one row within live memory, on a live stream.
unsafe fn copy_row(functions: &Functions, stream: CUstream, params: &CUDA_MEMCPY3D) -> CUresult {
    let CUDA_MEMCPY3D { dstDevice, srcDevice, dstHost, srcHost, WidthInBytes, .. } = *params;
    match direction(params) {
        CopyDirection::HostToDevice => {
            // SAFETY: the caller's promise.
            unsafe { (functions.cuMemcpyHtoDAsync_v2)(dstDevice, srcHost, WidthInBytes, stream) }
        }
        CopyDirection::DeviceToHost => {
            // SAFETY: the caller's promise.
            unsafe { (functions.cuMemcpyDtoHAsync_v2)(dstHost, srcDevice, WidthInBytes, stream) }
        }
        _ => {
            // SAFETY: the caller's promise.
            unsafe { (functions.cuMemcpyDtoDAsync_v2)(dstDevice, srcDevice, WidthInBytes, stream) }
        }
    }
}

/// # Safety
///
/// The parameters are those of one row within live memory, on a live stream.
unsafe fn fill_row(
    functions: &Functions,
    stream: CUstream,
    params: &CUDA_MEMSET_NODE_PARAMS,
) -> CUresult {
    let CUDA_MEMSET_NODE_PARAMS { dst, value, width, .. } = *params;
    match params.elementSize {
        // SAFETY: the caller's promise.
        1 => unsafe { (functions.cuMemsetD8Async)(dst, value as u8, width, stream) },
        // SAFETY: the caller's promise.
        2 => unsafe { (functions.cuMemsetD16Async)(dst, value as u16, width, stream) },
        // SAFETY: the caller's promise.
        4 => unsafe { (functions.cuMemsetD32Async)(dst, value, width, stream) },
        _ => CUDA_ERROR_INVALID_VALUE,
    }
}
