//! Copies between the memories of two contexts.

use grapture_sys::{
    CU_MEMORYTYPE_DEVICE, CUDA_ERROR_INVALID_VALUE, CUDA_MEMCPY2D, CUDA_MEMCPY3D_PEER_v1, CUresult,
    CUstream, Functions,
};

use crate::error::{CudaError, CudaResult};
use crate::memory::copy::same_len;
use crate::memory::copy_2d::RegionBytes;
use crate::memory::slice::RawSlice;
use crate::operation::Operation;
use crate::retain::{Owners, keep_until_done};
use crate::stream::Stream;
use crate::topology::CopyDirection;

/// Copies all of a memory. None: it is no copy between two contexts on a stream of one of them.
#[cold]
#[track_caller]
pub(super) fn contexts(
    target: RawSlice<'_>,
    source: RawSlice<'_>,
    element_bytes: usize,
    stream: &Stream,
) -> Option<CudaResult<()>> {
    if let Err(error) = check(target, source, stream)? {
        return Some(Err(error));
    }
    let elements = |slice: RawSlice<'_>| slice.bytes / element_bytes.max(1);
    if let Err(error) = same_len(elements(source), elements(target)) {
        return Some(Err(error));
    }
    if target.bytes == 0 {
        return Some(Ok(()));
    }
    let (to, from) = (target.context().as_raw(), source.context().as_raw());
    let (at, of, bytes) = (target.address, source.address, target.bytes);
    Some(submit(
        (target, source, bytes),
        stream,
        // SAFETY: two pieces of device memory, of `bytes` bytes each, whose addresses mean the same in
        // every context of the process, and which live as long as the graph (`submit`).
        |functions, raw| unsafe { (functions.cuMemcpyDtoDAsync_v2)(at, of, bytes, raw) },
        // SAFETY: the same, each of its live context; they live until the copy is done (`submit`).
        |functions, raw| unsafe { (functions.cuMemcpyPeerAsync)(at, to, of, from, bytes, raw) },
    ))
}

/// Copies a rectangle that is not empty and lies within its memory, at both ends.
#[cold]
#[track_caller]
pub(super) fn rectangles(
    (target, to): (RawSlice<'_>, RegionBytes),
    (source, from): (RawSlice<'_>, RegionBytes),
    params: &CUDA_MEMCPY2D,
    stream: &Stream,
) -> CudaResult<()> {
    let peers = CUDA_MEMCPY3D_PEER_v1 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: from.address,
        srcContext: source.context().as_raw(),
        srcPitch: from.pitch,
        srcHeight: from.height,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstDevice: to.address,
        dstContext: target.context().as_raw(),
        dstPitch: to.pitch,
        dstHeight: to.height,
        WidthInBytes: to.width,
        Height: to.height,
        Depth: 1,
        ..CUDA_MEMCPY3D_PEER_v1::default()
    };
    submit(
        (target, source, to.width * to.height),
        stream,
        // SAFETY: `params` is live, and the driver reads it in the call. Both rectangles lie within
        // device memory (checked by the caller) that lives as long as the graph (`submit`).
        |functions, raw| unsafe { (functions.cuMemcpy2DAsync_v2)(params, raw) },
        // SAFETY: the same, each of its live context; they live until the copy is done (`submit`).
        |functions, raw| unsafe { (functions.cuMemcpy3DPeerAsync)(&peers, raw) },
    )
}

/// Whether a copy is between two contexts, on a stream of one of them, and can be. None: it is not.
#[cold]
pub(super) fn check(
    target: RawSlice<'_>,
    source: RawSlice<'_>,
    stream: &Stream,
) -> Option<CudaResult<()>> {
    let (to, from) = (target.context(), source.context());
    let one_of_them = stream.context().same(to) || stream.context().same(from);
    if to.same(from) || !one_of_them || !to.driver().same(from.driver()) {
        return None;
    }
    let plain = target.owner.is_plain() && source.owner.is_plain();
    Some(if plain { Ok(()) } else { Err(of_its_context_alone()) })
}

/// Submits a copy by one of two calls: those for peers break a capture (measured).
#[track_caller]
fn submit(
    (target, source, bytes): (RawSlice<'_>, RawSlice<'_>, usize),
    stream: &Stream,
    captured: impl FnOnce(&Functions, CUstream) -> CUresult,
    eager: impl FnOnce(&Functions, CUstream) -> CUresult,
) -> CudaResult<()> {
    let mut is_captured = false;
    let retain = |owners: &mut Owners| {
        owners.retain_memory(target.owner);
        owners.retain_memory(source.owner);
    };
    let submitted = stream.submit_either(
        Operation::copy(CopyDirection::DeviceToDevice, bytes),
        |owners| {
            is_captured = true;
            retain(owners);
        },
        captured,
        eager,
    );
    if !is_captured {
        // The release of memory waits for the work of its own context alone.
        let mut owners = Owners::here();
        retain(&mut owners);
        keep_until_done(owners, stream);
    }
    submitted
}

#[cold]
pub(crate) fn of_its_context_alone() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "memory",
        "memory that was allocated in the order of a stream, or by a graph, is for its own context \
         alone: copy it there to memory from `alloc` first",
    )
}
