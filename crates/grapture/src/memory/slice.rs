//! [`DeviceSlice`]: what buffers and views of them have in common.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUdeviceptr};

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::BufferInner;
use crate::slot::Identity;

/// Device memory that can be read: a [`DeviceBuffer`](crate::DeviceBuffer) or a view of one.
///
/// It is what copies and kernel arguments take, and a [`BufferSlot`](crate::BufferSlot) is such memory
/// too. No other type can implement it.
pub trait DeviceSlice<T: Pod>: sealed::Sealed {
    #[doc(hidden)]
    fn raw(&self) -> RawSlice<'_>;

    /// The slot that it is, if it is one.
    #[doc(hidden)]
    #[inline]
    fn slot(&self) -> Option<Identity> {
        None
    }
}

/// Device memory that can be written: a [`DeviceBuffer`](crate::DeviceBuffer) or a
/// [`DeviceViewMut`](crate::DeviceViewMut).
pub trait DeviceSliceMut<T: Pod>: DeviceSlice<T> {}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A part of an allocation.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct RawSlice<'a> {
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
    pub(crate) owner: &'a Arc<BufferInner>,
}

impl<'a> RawSlice<'a> {
    #[inline]
    pub(crate) fn context(&self) -> &'a Context {
        self.owner.context()
    }

    /// The address, and how many bytes there are.
    pub(crate) fn span(&self) -> (u64, usize) {
        (self.address, self.bytes)
    }
}

/// The bytes of `len` elements.
pub(crate) fn size_of_elements<T>(len: usize) -> CudaResult<usize> {
    size_of::<T>().checked_mul(len).filter(|bytes| *bytes <= isize::MAX as usize).ok_or_else(|| {
        CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            "memory.len",
            format!(
                "{len} elements of {} bytes are more than an address space has",
                size_of::<T>()
            ),
        )
    })
}

/// The start and the length of a range within `len` elements.
pub(crate) fn resolve(range: &impl RangeBounds<usize>, len: usize) -> CudaResult<(usize, usize)> {
    // A bound beyond the largest number is beyond every buffer too.
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len {
        Ok((start, end - start))
    } else {
        Err(outside(start, end, len))
    }
}

#[cold]
fn outside(start: usize, end: usize, len: usize) -> CudaError {
    let problem = if start > end {
        format!("{start}..{end} begins after its end")
    } else {
        format!("{start}..{end} reaches past the end of a buffer of {len} elements")
    };
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "memory.range", problem)
}

#[cfg(test)]
mod tests {
    use std::ops::{Bound, RangeBounds};

    use super::{resolve, size_of_elements};

    fn text(range: impl RangeBounds<usize>, len: usize) -> String {
        resolve(&range, len).expect_err("it is outside").to_string()
    }

    #[test]
    fn ranges_of_every_form_resolve() {
        assert_eq!(resolve(&(..), 4), Ok((0, 4)));
        assert_eq!(resolve(&(1..), 4), Ok((1, 3)));
        assert_eq!(resolve(&(..3), 4), Ok((0, 3)));
        assert_eq!(resolve(&(1..=2), 4), Ok((1, 2)));
        assert_eq!(resolve(&(4..4), 4), Ok((4, 0)));
        assert_eq!(resolve(&(Bound::Excluded(0), Bound::Unbounded), 4), Ok((1, 3)));
        assert_eq!(resolve(&(..), 0), Ok((0, 0)));
    }

    #[test]
    fn a_range_outside_says_where() {
        assert_eq!(
            text(10..20, 16),
            "memory.range: 10..20 reaches past the end of a buffer of 16 elements"
        );
        assert_eq!(text(5.., 4), "memory.range: 5..4 begins after its end");
        assert!(text(..=usize::MAX, 4).contains("past the end"));
        assert!(text((Bound::Excluded(usize::MAX), Bound::Unbounded), 4).contains("begins after"));
    }

    #[test]
    fn a_size_that_overflows_is_refused() {
        assert_eq!(size_of_elements::<u32>(3), Ok(12));
        assert!(size_of_elements::<u32>(usize::MAX).is_err());
        assert!(size_of_elements::<u8>(usize::MAX).is_err());
        assert_eq!(
            size_of_elements::<u64>(1 << 61).expect_err("too large").to_string(),
            "memory.len: 2305843009213693952 elements of 8 bytes are more than an address space has"
        );
    }
}
