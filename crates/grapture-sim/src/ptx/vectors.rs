//! Questions about the values of all lanes, answered with AVX2 where the host has it.
//!
//! These few are written with intrinsics, because compilers make something much slower of the loops
//! that stand beside them. All other work of lanes is plain loops.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_movemask_epi8, _mm256_or_si256,
    _mm256_set_epi32, _mm256_set_epi64x, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_testz_si256, _mm256_xor_si256,
};

use super::exec::registers::LANES;

/// Whether the host has the vectors that code is compiled for a second time.
#[inline(always)]
pub fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let bits = has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt");
        bits && has!("avx2") && has!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether the vectors of this file can be used.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Whether 64-bit values are `step` apart, in order.
#[inline(always)]
pub fn apart_64<const N: usize>(values: &[u64; N], step: u64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn vectors<const N: usize>(values: &[u64; N], step: u64) -> bool {
            let step = step as i64;
            let first = _mm256_set1_epi64x(values[0] as i64);
            let steps = _mm256_set_epi64x(3 * step, 2 * step, step, 0);
            let mut expected = _mm256_add_epi64(first, steps);
            let mut differs = _mm256_setzero_si256();
            for [a, b, c, d] in values.as_chunks::<4>().0 {
                let found = _mm256_set_epi64x(*d as i64, *c as i64, *b as i64, *a as i64);
                differs = _mm256_or_si256(differs, _mm256_xor_si256(found, expected));
                expected = _mm256_add_epi64(expected, _mm256_set1_epi64x(4 * step));
            }
            _mm256_testz_si256(differs, differs) == 1
        }
        const { assert!(N & 3 == 0) };
        // SAFETY: the function needs AVX2, which was looked for just now.
        return unsafe { vectors(values, step) };
    }
    let expected = |lane: usize| values[0].wrapping_add(lane as u64 * step);
    values.iter().enumerate().all(|(lane, value)| *value == expected(lane))
}

/// Whether 32-bit values are `step` apart, in order.
#[inline(always)]
pub fn apart_32(values: &[u32; LANES], step: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn vectors(values: &[u32; LANES], step: u32) -> bool {
            let s = step as i32;
            let first = _mm256_set1_epi32(values[0] as i32);
            let steps = _mm256_set_epi32(7 * s, 6 * s, 5 * s, 4 * s, 3 * s, 2 * s, s, 0);
            let mut expected = _mm256_add_epi32(first, steps);
            let mut differs = _mm256_setzero_si256();
            for chunk in values.as_chunks::<8>().0 {
                let found = row_of_eight(chunk);
                differs = _mm256_or_si256(differs, _mm256_xor_si256(found, expected));
                expected = _mm256_add_epi32(expected, _mm256_set1_epi32(8 * s));
            }
            _mm256_testz_si256(differs, differs) == 1
        }
        // SAFETY: the function needs AVX2, which was looked for just now.
        return unsafe { vectors(values, step) };
    }
    let expected = |lane: usize| values[0].wrapping_add(lane as u32 * step);
    values.iter().enumerate().all(|(lane, value)| *value == expected(lane))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn row_of_eight(v: &[u32; 8]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = v.map(|value| value as i32);
    _mm256_set_epi32(h, g, f, e, d, c, b, a)
}

/// The lanes whose byte is all ones; the others are zero.
#[inline(always)]
pub fn mask_of(bytes: &[u8; LANES]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn vectors(bytes: &[u8; LANES]) -> u32 {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = i64::from_ne_bytes(*bytes);
            }
            let [a, b, c, d] = words;
            _mm256_movemask_epi8(_mm256_set_epi64x(d, c, b, a)) as u32
        }
        // SAFETY: the function needs AVX2, which was looked for just now.
        return unsafe { vectors(bytes) };
    }
    bytes.iter().rev().fold(0, |mask, byte| mask << 1 | u32::from(*byte & 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rows_and_what_breaks_them() {
        let row: [u64; LANES] = std::array::from_fn(|lane| 1000 + 4 * lane as u64);
        let narrow = row.map(|value| value as u32);
        assert!(apart_64(&row, 4) && apart_32(&narrow, 4));
        assert!(!apart_64(&row, 8) && !apart_32(&narrow, 0));
        for lane in 0..LANES {
            let (mut other, mut less) = (row, narrow);
            other[lane] += 1 << 40;
            less[lane] ^= 1 << 31;
            assert!(!apart_64(&other, 4) && !apart_32(&less, 4), "lane {lane}");
        }
        assert!(apart_64(&[7; LANES], 0));
        // Both wrap.
        assert!(apart_64(&std::array::from_fn::<_, 8, _>(|n| (n as u64).wrapping_sub(2)), 1));
        assert!(apart_32(&std::array::from_fn(|n| (n as u32).wrapping_sub(2)), 1));
    }

    #[test]
    fn gathers_a_mask_from_bytes() {
        let bytes = std::array::from_fn(|lane| if [0, 5, 31].contains(&lane) { 0xff } else { 0 });
        assert_eq!(mask_of(&bytes), 1 << 31 | 1 << 5 | 1);
    }
}
