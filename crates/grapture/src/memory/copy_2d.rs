//! [`Region2d`], and copies of it.

use std::ptr;

use grapture_sys::{CU_MEMORYTYPE_DEVICE, CUDA_ERROR_INVALID_VALUE, CUDA_MEMCPY2D};

use crate::error::{CudaError, CudaResult};
use crate::memory::between;
use crate::memory::copy::prepare;
use crate::memory::slice::RawSlice;
use crate::operation::Operation;
use crate::stream::Stream;
use crate::topology::CopyDirection;

/// The largest pitch that a driver can, in bytes: `CU_DEVICE_ATTRIBUTE_MAX_PITCH` of every device.
const MAX_PITCH_BYTES: usize = i32::MAX as usize;

/// A rectangle of elements in memory: `height` rows of `width` elements, each row `pitch` elements
/// after the one before, the first one `offset` elements after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region2d {
    width: usize,
    height: usize,
    pitch: usize,
    offset: usize,
}

impl Region2d {
    /// `height` rows of `width` elements without a gap, from the start on.
    pub const fn new(width: usize, height: usize) -> Region2d {
        Region2d { width, height, pitch: width, offset: 0 }
    }

    /// Sets from row to row how many elements there are: at least the width.
    #[must_use]
    pub const fn pitch(mut self, pitch: usize) -> Region2d {
        self.pitch = pitch;
        self
    }

    /// Sets how many elements come before the first one of the rectangle.
    #[must_use]
    pub const fn offset(mut self, offset: usize) -> Region2d {
        self.offset = offset;
        self
    }

    pub(crate) fn is_row(&self) -> bool {
        self.height == 1
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    /// What the driver is told, in bytes, if the rectangle lies within `bytes` bytes of memory.
    pub(crate) fn within(
        &self,
        (address, bytes): (u64, usize),
        element_bytes: usize,
        what: &'static str,
    ) -> CudaResult<RegionBytes> {
        if self.pitch < self.width {
            let Region2d { width, pitch, .. } = self;
            return Err(refused(
                what,
                format!("its pitch of {pitch} elements is below its width of {width}"),
            ));
        }
        let len = bytes.checked_div(element_bytes).unwrap_or(usize::MAX);
        let end = if self.is_empty() { Some(self.offset) } else { self.end() };
        if end.is_none_or(|end| end > len) {
            return Err(refused(
                what,
                format!("{self:?} reaches past the end of memory of {len} elements"),
            ));
        }
        // One row needs no pitch, and its own may be as long as it likes.
        let rows = self.height > 1;
        let pitch = if rows { self.pitch } else { self.width };
        let pitch_bytes = pitch.saturating_mul(element_bytes);
        if rows && pitch_bytes > MAX_PITCH_BYTES {
            return Err(refused(
                what,
                format!(
                    "its pitch of {pitch_bytes} bytes is above the {MAX_PITCH_BYTES} that the \
                     driver can"
                ),
            ));
        }
        // What lies within memory has a size in bytes.
        Ok(RegionBytes {
            address: address + (self.offset * element_bytes) as u64,
            width: self.width * element_bytes,
            height: self.height,
            pitch: pitch_bytes,
        })
    }

    /// Refuses another size of the source.
    pub(crate) fn same_size(&self, source: Region2d) -> CudaResult<()> {
        if (self.width, self.height) == (source.width, source.height) {
            return Ok(());
        }
        let (Region2d { width, height, .. }, from) = (self, source);
        let (from_width, from_height) = (from.width, from.height);
        Err(refused(
            "copy.region",
            format!(
                "it has {width} x {height} elements and the source {from_width} x {from_height}"
            ),
        ))
    }

    /// The number of the element behind the last one.
    fn end(&self) -> Option<usize> {
        let rows = (self.height - 1).checked_mul(self.pitch)?;
        rows.checked_add(self.width)?.checked_add(self.offset)
    }
}

/// A rectangle as the driver is told it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionBytes {
    pub(crate) address: u64,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pitch: usize,
}

impl RegionBytes {
    /// The pitch, which one row has none of.
    pub(crate) fn pitch_of_rows(&self) -> usize {
        if self.height > 1 { self.pitch } else { 0 }
    }
}

#[track_caller]
pub(super) fn copy(
    (target, target_region): (RawSlice<'_>, Region2d),
    (source, source_region): (RawSlice<'_>, Region2d),
    element_bytes: usize,
    stream: &Stream,
) -> CudaResult<()> {
    let own = prepare(target, stream).and_then(|()| prepare(source, stream));
    if let Err(error) = &own {
        between::check(target, source, stream).unwrap_or_else(|| Err(error.clone()))?;
    }
    let to = target_region.within(target.span(), element_bytes, "copy.region")?;
    let from = source_region.within(source.span(), element_bytes, "copy.source_region")?;
    target_region.same_size(source_region)?;
    if target_region.is_empty() || element_bytes == 0 {
        return Ok(());
    }
    let params = params(to, from);
    if own.is_err() {
        return between::rectangles((target, to), (source, from), &params, stream);
    }
    stream.submit(
        Operation::copy(CopyDirection::DeviceToDevice, to.width * to.height),
        |owners| {
            owners.retain_memory(target.owner);
            owners.retain_memory(source.owner);
        },
        // SAFETY: `params` is a live local that the driver reads in the call. Both rectangles lie
        // within device memory of the stream's context (checked) that does not overlap (one is
        // borrowed mutably) and lives until the copy is done: by the graph that records it (O2),
        // else by its own drop, which waits for it.
        |functions, raw| unsafe { (functions.cuMemcpy2DAsync_v2)(&params, raw) },
    )
}

fn params(to: RegionBytes, from: RegionBytes) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        srcHost: ptr::null(),
        srcDevice: from.address,
        srcArray: ptr::null_mut(),
        srcPitch: from.pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstHost: ptr::null_mut(),
        dstDevice: to.address,
        dstArray: ptr::null_mut(),
        dstPitch: to.pitch,
        WidthInBytes: to.width,
        Height: to.height,
    }
}

#[cold]
fn refused(what: &'static str, problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, what, problem)
}
