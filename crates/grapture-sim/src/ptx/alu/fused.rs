//! Fused multiply-add on hosts that have it; elsewhere the C library's is slow but right.

use super::map3;
use super::nan;
use crate::ptx::exec::registers::{Reg, Registers};

/// Whether the host multiplies and adds in one step.
#[cfg(target_arch = "x86_64")]
pub fn available() -> bool {
    std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx2")
}

/// Whether the host multiplies and adds in one step.
#[cfg(not(target_arch = "x86_64"))]
pub fn available() -> bool {
    true
}

macro_rules! fused {
    ($name:ident, $inner:ident, $ty:ty, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "fma,avx2"))]
        fn $inner(regs: &mut Registers, d: Reg, abc: [Reg; 3], mask: u32) {
            map3::<$ty, $ty, $ty, $ty>(regs, d, abc, mask, |$a, $b, $c| $e);
        }

        /// `a * b + c`, rounded once, to nearest; only where it is [`available`].
        pub fn $name(regs: &mut Registers, d: Reg, a: Reg, b: Reg, c: Reg, mask: u32) {
            // SAFETY: the function needs the features that `available` looks for, and lowering
            // picks this function only after `available` answered true.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                $inner(regs, d, [a, b, c], mask)
            };
            #[cfg(not(target_arch = "x86_64"))]
            $inner(regs, d, [a, b, c], mask);
        }
    };
}

fused!(single, single_lanes, f32, |a, b, c| nan::single(a.mul_add(b, c)));
fused!(double, double_lanes, f64, |a, b, c| nan::double3(a.mul_add(b, c), a, b, c));
