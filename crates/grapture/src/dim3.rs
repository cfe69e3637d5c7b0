//! [`Dim3`]: the extent of a grid, a block or a cluster.

use std::fmt;

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// How many blocks a grid has, or threads a block, in each of three dimensions.
///
/// ```
/// use grapture::Dim3;
///
/// assert_eq!(Dim3::from(128), Dim3::new(128, 1, 1));
/// assert_eq!(Dim3::from((16, 8)).count(), 128);
/// assert_eq!(Dim3::new(16, 8, 2).to_string(), "16 x 8 x 2");
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Pod, Zeroable,
)]
#[repr(C)]
pub struct Dim3 {
    /// The first dimension.
    pub x: u32,
    /// The second dimension.
    pub y: u32,
    /// The third dimension.
    pub z: u32,
}

impl Dim3 {
    /// `x` by `y` by `z`.
    #[inline]
    pub const fn new(x: u32, y: u32, z: u32) -> Dim3 {
        Dim3 { x, y, z }
    }

    /// `x` by 1 by 1.
    #[inline]
    pub const fn x(x: u32) -> Dim3 {
        Dim3::new(x, 1, 1)
    }

    /// The product of the three. It stops at the largest number that a `u64` holds.
    #[inline]
    pub const fn count(self) -> u64 {
        // The product of two is below 2^64.
        (self.x as u64 * self.y as u64).saturating_mul(self.z as u64)
    }

    /// Whether each dimension is at least 1 and at most that of `limit`.
    #[inline]
    pub(crate) const fn fits(self, limit: Dim3) -> bool {
        // Without a branch between them: every launch comes by here, and all hold.
        (self.x.wrapping_sub(1) < limit.x)
            & (self.y.wrapping_sub(1) < limit.y)
            & (self.z.wrapping_sub(1) < limit.z)
    }
}

impl From<u32> for Dim3 {
    #[inline]
    fn from(x: u32) -> Dim3 {
        Dim3::x(x)
    }
}

impl From<(u32, u32)> for Dim3 {
    #[inline]
    fn from((x, y): (u32, u32)) -> Dim3 {
        Dim3::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    #[inline]
    fn from((x, y, z): (u32, u32, u32)) -> Dim3 {
        Dim3::new(x, y, z)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.x, self.y, self.z)
    }
}

#[cfg(test)]
mod tests {
    use super::Dim3;

    #[test]
    fn fits_from_one_to_the_limit() {
        let limit = Dim3::new(4, 3, 2);
        assert!(Dim3::new(1, 1, 1).fits(limit));
        assert!(limit.fits(limit));
        for outside in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (5, 1, 1), (1, 4, 1), (1, 1, 3)] {
            assert!(!Dim3::from(outside).fits(limit), "{outside:?}");
        }
        assert!(!Dim3::x(0).fits(Dim3::new(u32::MAX, 1, 1)));
    }

    #[test]
    fn the_count_never_wraps() {
        assert_eq!(Dim3::new(u32::MAX, u32::MAX, 1).count(), (u32::MAX as u64).pow(2));
        assert_eq!(Dim3::new(u32::MAX, u32::MAX, u32::MAX).count(), u64::MAX);
        assert_eq!(Dim3::new(u32::MAX, u32::MAX, 0).count(), 0);
    }
}
