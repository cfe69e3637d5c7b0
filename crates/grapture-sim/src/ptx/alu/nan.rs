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

/// The same NaN, quiet.
#[inline(always)]
fn quiet(value: f64) -> f64 {
    f64::from_bits(value.to_bits() | 1 << 51)
}

/// A result, or what becomes of it if it is a NaN and was made of `a`.
#[inline(always)]
pub fn double(value: f64, a: f64) -> f64 {
    let pattern = if a.is_nan() { quiet(a) } else { f64::from_bits(DOUBLE) };
    if value.is_nan() { pattern } else { value }
}

/// A result, or what becomes of it if it is a NaN and was made of `a` and `b`.
#[inline(always)]
pub fn double2(value: f64, a: f64, b: f64) -> f64 {
    double(value, if b.is_nan() { b } else { a })
}

/// A result, or what becomes of it if it is a NaN and was made of `a * b + c`.
#[inline(always)]
pub fn double3(value: f64, a: f64, b: f64, c: f64) -> f64 {
    double2(value, if c.is_nan() { c } else { a }, b)
}
