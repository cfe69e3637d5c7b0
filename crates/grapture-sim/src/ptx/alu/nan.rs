//! The NaN that an arithmetic instruction gives.
//!
//! Single precision gives the canonical NaN on every GPU. What double precision gives differs
//! between instructions and has yet to be measured; until then it is one pattern, kept here.

/// The NaN of single-precision arithmetic.
pub const SINGLE: u32 = 0x7fff_ffff;
/// The NaN of double-precision arithmetic; assumed, not measured.
pub const DOUBLE: u64 = 0xfff8_0000_0000_0000;
/// The NaN of half-precision arithmetic.
pub const HALF: u16 = 0x7fff;
/// The NaN of `bf16` arithmetic.
pub const BRAIN: u16 = 0x7fff;

// NaNs are looked for among the bits: of `is_nan` and a square root, LLVM makes the square root alone,
// because it takes every NaN for as good as another.

/// Replaces any NaN by the canonical one.
#[inline(always)]
pub fn single(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { SINGLE } else { bits })
}

/// Replaces any NaN by the one that double-precision arithmetic gives.
#[inline(always)]
pub fn double(value: f64) -> f64 {
    let bits = value.to_bits();
    f64::from_bits(if bits & (u64::MAX >> 1) > 0x7ff << 52 { DOUBLE } else { bits })
}
