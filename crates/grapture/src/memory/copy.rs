//! Copies between device memory, host memory and pinned memory.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Pod;
use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUresult, CUstream, Functions,
};

use crate::capture::is_barred;
use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::between;
use crate::memory::slice::RawSlice;
use crate::operation::Operation;
use crate::pinned::{PinnedBuffer, PinnedInner};
use crate::retain::{Owners, keep_until_done};
use crate::stream::Stream;
use crate::topology::CopyDirection;

/// How long a wait that a capture bars pauses before it is made again.
const RETRY: Duration = Duration::from_millis(1);

/// Copies to host memory, and waits for it.
#[track_caller]
pub(super) fn to_host<T: Pod>(
    source: RawSlice<'_>,
    len: usize,
    host: &mut [T],
    stream: &Stream,
) -> CudaResult<()> {
    prepare(source, stream)?;
    same_len(len, host.len())?;
    if source.bytes == 0 {
        return if stream.is_capturing() { Err(captured_borrow()) } else { Ok(()) };
    }
    let operation = Operation::copy(CopyDirection::DeviceToHost, source.bytes);
    let target = host.as_mut_ptr().cast();
    blocking(stream, operation, |functions, raw| {
        // SAFETY: the source is live device memory of `bytes` bytes, and so many has the slice
        // (checked); it is borrowed until the copy is done, which `blocking` waits for.
        unsafe { (functions.cuMemcpyDtoHAsync_v2)(target, source.address, source.bytes, raw) }
    })?
    .ok_or_else(captured_borrow)
}

/// Copies from host memory, and waits for it.
#[track_caller]
pub(super) fn from_host<T: Pod>(
    target: RawSlice<'_>,
    len: usize,
    host: &[T],
    stream: &Stream,
) -> CudaResult<()> {
    prepare(target, stream)?;
    same_len(host.len(), len)?;
    if target.bytes == 0 {
        return if stream.is_capturing() { Err(captured_source()) } else { Ok(()) };
    }
    let operation = Operation::copy(CopyDirection::HostToDevice, target.bytes);
    let source = host.as_ptr().cast();
    // The driver stages what is pageable and returns, but the slice may be pinned or registered
    // memory, which it would read later: only the wait makes the borrow safe.
    blocking(stream, operation, |functions, raw| {
        // SAFETY: the target is live device memory of `bytes` bytes, and so many has the slice
        // (checked); it is borrowed until the copy is done, which `blocking` waits for.
        unsafe { (functions.cuMemcpyHtoDAsync_v2)(target.address, source, target.bytes, raw) }
    })?
    .ok_or_else(captured_source)
}

/// Copies the elements as they are now, by way of memory of the library: a graph owns it, or it is
/// let go of when the copy is done.
#[track_caller]
pub(super) fn from_host_staged<T: Pod>(
    target: RawSlice<'_>,
    len: usize,
    host: &[T],
    stream: &Stream,
) -> CudaResult<()> {
    prepare(target, stream)?;
    same_len(host.len(), len)?;
    if target.bytes == 0 {
        return Ok(());
    }
    let operation = Operation::copy(CopyDirection::HostToDevice, target.bytes);
    let staged = freeze(target.context(), bytemuck::cast_slice(host))?;
    let pointer = staged.pointer().as_ptr();
    let mut captured = false;
    let submitted = stream.submit(
        operation,
        |owners| {
            captured = true;
            owners.retain_memory(target.owner);
            owners.retain(&staged);
        },
        // SAFETY: both memories have `bytes` bytes, and live until the copy is done: by the graph
        // that records it (O2); else the target by its own drop, which waits for it, and the
        // staged one is released after it (below). The host does not come back to that (O6).
        |functions, raw| unsafe {
            (functions.cuMemcpyHtoDAsync_v2)(target.address, pointer.cast(), target.bytes, raw)
        },
    );
    if !captured {
        // Also if it failed: what the driver has submitted until then is not known.
        let mut owners = Owners::here();
        owners.retain(&staged);
        keep_until_done(owners, stream);
    }
    submitted
}

/// A copy of bytes, for a graph to own.
pub(crate) fn freeze(context: &Context, bytes: &[u8]) -> CudaResult<Arc<PinnedInner>> {
    let frozen = PinnedInner::alloc(context, bytes.len())?;
    let pointer = frozen.pointer().as_ptr();
    // SAFETY: the allocation has room for the bytes, is new, and nobody else knows it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
    Ok(Arc::new(frozen))
}

#[track_caller]
pub(super) fn from_pinned<T: Pod>(
    target: RawSlice<'_>,
    len: usize,
    pinned: &PinnedBuffer<T>,
    stream: &Stream,
) -> CudaResult<()> {
    prepare(target, stream)?;
    stream.require_context(pinned.context(), "pinned")?;
    same_len(pinned.len(), len)?;
    if target.bytes == 0 {
        return Ok(());
    }
    let operation = Operation::copy(CopyDirection::HostToDevice, target.bytes);
    let pinned = pinned.inner();
    let mut submission = PinnedInner::submit(pinned, false, stream)?;
    let source = pinned.pointer().as_ptr().cast();
    stream.submit(
        operation,
        |owners| {
            submission.captured();
            owners.retain_memory(target.owner);
            owners.retain_pinned(pinned, false);
        },
        // SAFETY: both memories have `bytes` bytes, and live until the copy is done: by the graph
        // that records it (O2); else by their own drops, which wait for it (O6 for the pinned
        // one). The host does not write the source meanwhile (O6).
        |functions, raw| unsafe {
            (functions.cuMemcpyHtoDAsync_v2)(target.address, source, target.bytes, raw)
        },
    )
}

#[track_caller]
pub(super) fn to_pinned<T: Pod>(
    source: RawSlice<'_>,
    len: usize,
    pinned: &PinnedBuffer<T>,
    stream: &Stream,
) -> CudaResult<()> {
    prepare(source, stream)?;
    stream.require_context(pinned.context(), "pinned")?;
    same_len(len, pinned.len())?;
    if source.bytes == 0 {
        return Ok(());
    }
    let operation = Operation::copy(CopyDirection::DeviceToHost, source.bytes);
    let pinned = pinned.inner();
    let mut submission = PinnedInner::submit(pinned, true, stream)?;
    let target = pinned.pointer().as_ptr().cast();
    stream.submit(
        operation,
        |owners| {
            submission.captured();
            owners.retain_memory(source.owner);
            owners.retain_pinned(pinned, true);
        },
        // SAFETY: as in `from_pinned`, the other way round: the host neither reads nor writes
        // the target meanwhile (O6).
        |functions, raw| unsafe {
            (functions.cuMemcpyDtoHAsync_v2)(target, source.address, source.bytes, raw)
        },
    )
}

#[track_caller]
pub(super) fn device(
    target: RawSlice<'_>,
    source: RawSlice<'_>,
    element_bytes: usize,
    stream: &Stream,
) -> CudaResult<()> {
    if let Err(error) = prepare(target, stream).and_then(|()| prepare(source, stream)) {
        return between::contexts(target, source, element_bytes, stream).unwrap_or(Err(error));
    }
    let elements = |slice: RawSlice<'_>| slice.bytes / element_bytes.max(1);
    same_len(elements(source), elements(target))?;
    if target.bytes == 0 {
        return Ok(());
    }
    stream.submit(
        Operation::copy(CopyDirection::DeviceToDevice, target.bytes),
        |owners| {
            owners.retain_memory(target.owner);
            owners.retain_memory(source.owner);
        },
        // SAFETY: two pieces of device memory of the stream's context, of `bytes` bytes each, that
        // do not overlap (one is borrowed mutably). They live until the copy is done: by the graph
        // that records it (O2), else by their own drops, which wait for it.
        |functions, raw| unsafe {
            (functions.cuMemcpyDtoDAsync_v2)(target.address, source.address, target.bytes, raw)
        },
    )
}

/// What every operation with device memory does first.
#[inline]
pub(super) fn prepare(slice: RawSlice<'_>, stream: &Stream) -> CudaResult<()> {
    stream.require_context(slice.context(), "memory")?;
    slice.owner.note_use(stream)
}

/// Makes a call on the stream, and waits until its work is done. None: a capture records the
/// stream, and the call was not made.
///
/// The wait is made in any case, and no capture of this library can begin in between: what the
/// call borrows is free again when this returns. Work of the thread's own captures is not
/// disturbed (O9).
fn blocking(
    stream: &Stream,
    operation: Operation,
    call: impl FnOnce(&Functions, CUstream) -> CUresult,
) -> CudaResult<Option<()>> {
    let wait =
        || stream.wait().map_err(|error| stream.context().submission_failed(error, &operation));
    stream.driver().relaxed(|_| {
        stream.outside_capture(|| {
            let submitted = stream.run(&operation, || stream.with(call));
            let waited = wait().or_else(|error| {
                // A wait may fail for a reason of its own and not have waited. If it fails again,
                // the context is lost, and nothing of it runs any more.
                let mut again = wait();
                // But a capture of a blocking stream that began after the call bars every wait for
                // the legacy stream until it has ended.
                while submitted.is_ok()
                    && again.as_ref().is_err_and(|error| is_barred(error.code()))
                {
                    std::thread::sleep(RETRY);
                    again = wait();
                }
                if is_barred(error.code()) { again } else { Err(error) }
            });
            submitted.and(waited)
        })
    })
}

#[inline]
pub(crate) fn same_len(source: usize, target: usize) -> CudaResult<()> {
    if source == target { Ok(()) } else { Err(lengths_differ(source, target)) }
}

#[cold]
fn lengths_differ(source: usize, target: usize) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "copy.len",
        format!(
            "the source has {source} elements and the target {target}: take a view of the longer \
             one"
        ),
    )
}

#[cold]
fn captured_source() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and each launch of the graph would read host memory that is only \
         borrowed now: use `copy_from_host_staged` for these elements at every launch, or copy \
         from a `PinnedBuffer`",
    )
}

#[cold]
fn captured_borrow() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and each launch of the graph would write to host memory that is only \
         borrowed now: copy to a `PinnedBuffer`, or after the capture has ended",
    )
}
