//! The NaN that an arithmetic instruction gives.
//!
//! Single and half precision give one pattern, whatever went in. Double precision gives the last of its
//! operands that is a NaN, made quiet, and a pattern of its own where none is one.

/// The NaN of single-precision arithmetic.
pub const SINGLE: u32 = 0x7fff_ffff;
/// The NaN of double-precision arithmetic on numbers.
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

#[inline(always)]
fn is_nan(bits: u64) -> bool {
    bits & (u64::MAX >> 1) > 0x7ff << 52
}

/// A result, or what becomes of it if it is a NaN and was made of `a`.
#[inline(always)]
pub fn double(value: f64, a: f64) -> f64 {
    let (bits, a) = (value.to_bits(), a.to_bits());
    // Quiet, as it was.
    let pattern = if is_nan(a) { a | 1 << 51 } else { DOUBLE };
    f64::from_bits(if is_nan(bits) { pattern } else { bits })
}

/// A result, or what becomes of it if it is a NaN and was made of `a` and `b`.
#[inline(always)]
pub fn double2(value: f64, a: f64, b: f64) -> f64 {
    double(value, if is_nan(b.to_bits()) { b } else { a })
}

/// A result, or what becomes of it if it is a NaN and was made of `a * b + c`.
#[inline(always)]
pub fn double3(value: f64, a: f64, b: f64, c: f64) -> f64 {
    double2(value, if is_nan(c.to_bits()) { c } else { a }, b)
}
