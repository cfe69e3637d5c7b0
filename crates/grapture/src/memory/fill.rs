//! Fills: device memory set to one value.

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUdeviceptr, CUresult, CUstream, Functions};

use crate::error::{CudaError, CudaResult};
use crate::memory::copy::prepare;
use crate::memory::copy_2d::{Region2d, RegionBytes};
use crate::memory::slice::RawSlice;
use crate::operation::Operation;
use crate::stream::Stream;

/// What the device repeats: a unit of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    One(u8),
    Two(u16),
    Four(u32),
}

impl Unit {
    /// The largest unit whose repetition is `value`, for memory at `address`: the value itself if
    /// it has 1, 2 or 4 bytes.
    pub(crate) fn of(value: &[u8], address: CUdeviceptr) -> CudaResult<Unit> {
        let units = [4, 2, 1].into_iter().filter_map(|bytes| Unit::repeated(value, bytes));
        let mut unfit = None;
        for unit in units {
            // What this library allocates is aligned for every element; foreign memory need not be.
            if address.is_multiple_of(unit.bytes() as CUdeviceptr) {
                return Ok(unit);
            }
            unfit = Some(unit);
        }
        Err(unfit.map_or_else(|| no_unit(value), misaligned))
    }

    /// The unit of so many bytes, if its repetition is `value`.
    fn repeated(value: &[u8], bytes: usize) -> Option<Unit> {
        let unit = value.get(..bytes).filter(|_| value.len().is_multiple_of(bytes))?;
        if value.chunks_exact(bytes).any(|other| other != unit) {
            return None;
        }
        match *unit {
            [a] => Some(Unit::One(a)),
            [a, b] => Some(Unit::Two(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Some(Unit::Four(u32::from_ne_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    /// The unit as the driver takes it for a node.
    pub(crate) fn value(self) -> u32 {
        match self {
            Unit::One(value) => value.into(),
            Unit::Two(value) => value.into(),
            Unit::Four(value) => value,
        }
    }

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Unit::One(_) => 1,
            Unit::Two(_) => 2,
            Unit::Four(_) => 4,
        }
    }
}

/// Sets all elements of the slice to the value of these bytes.
#[track_caller]
pub(super) fn all(target: RawSlice<'_>, value: &[u8], stream: &Stream) -> CudaResult<()> {
    prepare(target, stream)?;
    if target.bytes == 0 {
        return Ok(());
    }
    let unit = Unit::of(value, target.address)?;
    let count = target.bytes / unit.bytes();
    stream.submit(
        Operation::fill(target.bytes),
        |owners| owners.retain_memory(target.owner),
        // SAFETY: live device memory of the stream's context, of `count` units and aligned for
        // them (checked). It lives until the fill is done: by the graph that records it (O2), else
        // by its own drop, which waits for it.
        |functions, raw| unsafe { submit(functions, raw, target.address, unit, count) },
    )
}

/// # Safety
///
/// There are `count` units of live device memory at the address, which lives until it is done.
unsafe fn submit(
    functions: &Functions,
    stream: CUstream,
    address: CUdeviceptr,
    unit: Unit,
    count: usize,
) -> CUresult {
    match unit {
        // SAFETY: the caller's promise.
        Unit::One(value) => unsafe { (functions.cuMemsetD8Async)(address, value, count, stream) },
        // SAFETY: the caller's promise.
        Unit::Two(value) => unsafe { (functions.cuMemsetD16Async)(address, value, count, stream) },
        // SAFETY: the caller's promise.
        Unit::Four(value) => unsafe { (functions.cuMemsetD32Async)(address, value, count, stream) },
    }
}

/// Sets the elements of a rectangle to the value of these bytes.
#[track_caller]
pub(super) fn rectangle(
    target: RawSlice<'_>,
    value: &[u8],
    region: Region2d,
    stream: &Stream,
) -> CudaResult<()> {
    prepare(target, stream)?;
    let region_bytes = region.within(target.span(), value.len(), "fill.region")?;
    if region.is_empty() || value.is_empty() {
        return Ok(());
    }
    let unit = Unit::of(value, region_bytes.address)?;
    stream.submit(
        Operation::fill(region_bytes.width * region_bytes.height),
        |owners| owners.retain_memory(target.owner),
        // SAFETY: the rectangle lies within live device memory of the stream's context and is
        // aligned for the unit (checked). The memory lives until the fill is done: by the graph
        // that records it (O2), else by its own drop, which waits for it.
        |functions, raw| unsafe { submit_2d(functions, raw, region_bytes, unit) },
    )
}

/// # Safety
///
/// The rectangle is live device memory, which lives until it is done.
unsafe fn submit_2d(
    functions: &Functions,
    stream: CUstream,
    region: RegionBytes,
    unit: Unit,
) -> CUresult {
    let RegionBytes { address, width, height, pitch } = region;
    let width = width / unit.bytes();
    match unit {
        // SAFETY: the caller's promise.
        Unit::One(value) => unsafe {
            (functions.cuMemsetD2D8Async)(address, pitch, value, width, height, stream)
        },
        // SAFETY: the caller's promise.
        Unit::Two(value) => unsafe {
            (functions.cuMemsetD2D16Async)(address, pitch, value, width, height, stream)
        },
        // SAFETY: the caller's promise.
        Unit::Four(value) => unsafe {
            (functions.cuMemsetD2D32Async)(address, pitch, value, width, height, stream)
        },
    }
}

#[cold]
fn no_unit(value: &[u8]) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "fill.value",
        format!(
            "an element of {} bytes can be filled only if its bytes repeat after 1, 2 or 4: copy \
             from the host, or let a kernel write it",
            value.len()
        ),
    )
}

#[cold]
fn misaligned(unit: Unit) -> CudaError {
    let bytes = unit.bytes();
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "fill.address",
        format!("the memory is not aligned to the {bytes} bytes that the value repeats after"),
    )
}

#[cfg(test)]
mod tests {
    use super::Unit;

    fn unit(value: &[u8]) -> Option<Unit> {
        Unit::of(value, 0x1000).ok()
    }

    #[test]
    fn a_value_is_filled_by_itself_or_by_its_largest_unit() {
        assert_eq!(unit(&[7]), Some(Unit::One(7)));
        assert_eq!(unit(&[7, 7]), Some(Unit::Two(0x0707)));
        assert_eq!(unit(&0x1234u16.to_ne_bytes()), Some(Unit::Two(0x1234)));
        assert_eq!(unit(&0u32.to_ne_bytes()), Some(Unit::Four(0)));
        assert_eq!(unit(&1.0f32.to_ne_bytes()), Some(Unit::Four(1.0f32.to_bits())));
        assert_eq!(unit(&0u64.to_ne_bytes()), Some(Unit::Four(0)));
        assert_eq!(unit(&(-1i64).to_ne_bytes()), Some(Unit::Four(u32::MAX)));
        assert_eq!(unit(&0x1234_5678_1234_5678u64.to_ne_bytes()), Some(Unit::Four(0x1234_5678)));
        assert_eq!(unit(&[1, 2, 1, 2, 1, 2]), Some(Unit::Two(u16::from_ne_bytes([1, 2]))));
        assert_eq!(unit(&[5; 3]), Some(Unit::One(5)));
    }

    #[test]
    fn a_value_that_does_not_repeat_is_refused() {
        for value in [&1.0f64.to_ne_bytes()[..], &[1, 2, 3], &[1, 2, 3, 4, 1, 2], &[]] {
            assert_eq!(unit(value), None, "{value:?}");
        }
    }

    #[test]
    fn memory_that_is_not_aligned_takes_a_smaller_unit_or_is_refused() {
        let at = |value: &[u8], address| Unit::of(value, address).ok();
        assert_eq!(at(&[1, 2, 3, 4], 0x1002), None);
        assert_eq!(at(&[1, 2, 1, 2], 0x1002), Some(Unit::Two(u16::from_ne_bytes([1, 2]))));
        assert_eq!(at(&[1, 2, 1, 2], 0x1001), None);
        assert_eq!(at(&[7, 7, 7, 7], 0x1003), Some(Unit::One(7)));
        let text = Unit::of(&[1, 2, 3, 4], 0x1002).map_err(|error| error.to_string());
        assert!(text.is_err_and(|text| text.contains("not aligned to the 4 bytes")));
    }
}
