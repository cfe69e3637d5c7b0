//! Neighbouring bytes copied in vectors, from and to memory that other threads may touch.
//!
//! Rust has no atomic access wider than eight bytes, and a plain one would be a data race. On x86
//! the copy is assembly, which does what relaxed atomic accesses of each element would do;
//! elsewhere it is those accesses, one by one.

/// The bytes of one step.
pub(super) const STEP: usize = 128;

/// Whether there are such copies here.
pub(super) const VECTORS: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// Copies [`STEP`] bytes.
///
/// # Safety
/// `from` must be readable and `into` writable for so many bytes. Other threads may access them at
/// the same time, if they do it atomically.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) unsafe fn copy_step(from: *const u8, into: *mut u8) {
    // SAFETY: it reads the bytes behind `from` and writes those behind `into`, which the caller
    // allows, and changes the registers that are named and nothing else.
    unsafe {
        std::arch::asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups {e}, [{from} + 64]",
            "movups {f}, [{from} + 80]",
            "movups {g}, [{from} + 96]",
            "movups {h}, [{from} + 112]",
            "movups [{into}], {a}",
            "movups [{into} + 16], {b}",
            "movups [{into} + 32], {c}",
            "movups [{into} + 48], {d}",
            "movups [{into} + 64], {e}",
            "movups [{into} + 80], {f}",
            "movups [{into} + 96], {g}",
            "movups [{into} + 112], {h}",
            from = in(reg) from,
            into = in(reg) into,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            e = out(xmm_reg) _,
            f = out(xmm_reg) _,
            g = out(xmm_reg) _,
            h = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Stands in where there are no [`VECTORS`], so that nobody calls it.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) unsafe fn copy_step(_: *const u8, _: *mut u8) {}
