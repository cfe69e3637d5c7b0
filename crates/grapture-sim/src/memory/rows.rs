//! Neighbouring bytes copied in vectors, from and to memory that other threads may touch.
//!
//! Rust has no atomic access wider than eight bytes, and a plain one would be a data race. On x86
//! the copy is assembly, which does what relaxed atomic accesses of each element would do;
//! elsewhere it is those accesses, one by one.

/// The bytes of one step.
pub(super) const STEP: usize = 32;
/// Whether there are such copies here.
pub(super) const VECTORS: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// Copies so many steps.
///
/// # Safety
/// `from` must be readable and `into` writable for so many bytes. Other threads may access them at
/// the same time, if they do it atomically.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) unsafe fn copy_steps(from: *const u8, into: *mut u8, steps: usize) {
    // The width matters beyond the copy: the interpreter reads rows in vectors of 32 bytes, and a
    // processor passes a store on to a load that lies inside it, and not to a wider one.
    let wide = std::arch::is_x86_feature_detected!("avx");
    for step in 0..steps {
        let (from, into) = (from.wrapping_add(step * STEP), into.wrapping_add(step * STEP));
        if wide {
            // SAFETY: the host has AVX, as was asked; the step lies in what the caller allows.
            unsafe { copy_wide(from, into) };
        } else {
            // SAFETY: the step lies in what the caller allows.
            unsafe { copy_narrow(from, into) };
        }
    }
}

/// Copies 32 bytes in one vector.
///
/// # Safety
/// As for [`copy_steps`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn copy_wide(from: *const u8, into: *mut u8) {
    // SAFETY: it reads the bytes behind `from` and writes those behind `into`, which the caller
    // allows, and changes the registers that are named and nothing else.
    unsafe {
        std::arch::asm!(
            "vmovups {a}, [{from}]",
            "vmovups [{into}], {a}",
            from = in(reg) from,
            into = in(reg) into,
            a = out(ymm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 32 bytes in two vectors.
///
/// # Safety
/// As for [`copy_steps`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_narrow(from: *const u8, into: *mut u8) {
    // SAFETY: as in `copy_wide`.
    unsafe {
        std::arch::asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups [{into}], {a}",
            "movups [{into} + 16], {b}",
            from = in(reg) from,
            into = in(reg) into,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Stands in where there are no [`VECTORS`], so that nobody asks for a step.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) unsafe fn copy_steps(_: *const u8, _: *mut u8, _: usize) {}
