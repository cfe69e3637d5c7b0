//! A function of one lane, made into one of all lanes.
//!
//! On x86 each is compiled twice: for the baseline and for hosts with AVX2 and FMA. Lowering picks
//! one once, so that the interpreter loop asks nothing.

use super::{Alu1, Alu2, Alu3};
use crate::ptx::exec::registers::{LANES, Reg, Registers, Scalar, Slot};
#[cfg(target_arch = "x86_64")]
use crate::ptx::vectors::has_vectors;

/// Applies `f` to every lane.
#[inline(always)]
fn map1<A: Scalar, D: Scalar>(regs: &mut Registers, d: Reg, a: Reg, mask: u32, f: impl Fn(A) -> D) {
    let x = A::Slot::file(regs).get(a);
    let mut out = [D::Slot::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(A::load(x[lane])).store();
    }
    D::Slot::file_mut(regs).put(d, &out, mask);
}

/// Applies `f` to every lane.
#[inline(always)]
fn map2<A: Scalar, B: Scalar, D: Scalar>(
    regs: &mut Registers,
    d: Reg,
    [a, b]: [Reg; 2],
    mask: u32,
    f: impl Fn(A, B) -> D,
) {
    let x = A::Slot::file(regs).get(a);
    let y = B::Slot::file(regs).get(b);
    let mut out = [D::Slot::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(A::load(x[lane]), B::load(y[lane])).store();
    }
    D::Slot::file_mut(regs).put(d, &out, mask);
}

/// Applies `f` to every lane.
#[inline(always)]
pub(super) fn map3<A: Scalar, B: Scalar, C: Scalar, D: Scalar>(
    regs: &mut Registers,
    d: Reg,
    [a, b, c]: [Reg; 3],
    mask: u32,
    f: impl Fn(A, B, C) -> D,
) {
    let x = A::Slot::file(regs).get(a);
    let y = B::Slot::file(regs).get(b);
    let z = C::Slot::file(regs).get(c);
    let mut out = [D::Slot::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(A::load(x[lane]), B::load(y[lane]), C::load(z[lane])).store();
    }
    D::Slot::file_mut(regs).put(d, &out, mask);
}

/// The value of a closure that captures nothing, where only its type is known.
#[inline(always)]
pub(super) fn instance<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "the closure captures something") };
    // SAFETY: it reads no bytes, as `F` has none. `F` has values, because the callers below are
    // given one, and it may be copied, because it is `Copy`; this is one more copy.
    unsafe { std::mem::transmute_copy::<(), F>(&()) }
}

/// Makes a function over registers of one over lanes, in both versions.
macro_rules! versions {
    (
        $(#[$doc:meta])*
        $name:ident: $pointer:ty = $map:ident<$($T:ident),+>($($operand:ident),+ => $operands:expr)
    ) => {
        $(#[$doc])*
        pub fn $name<$($T: Scalar,)+ D: Scalar, F: Fn($($T),+) -> D + Copy>(_: F) -> $pointer {
            #[cfg(target_arch = "x86_64")]
            if has_vectors() {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                fn vectors<$($T: Scalar,)+ D: Scalar, F: Fn($($T),+) -> D + Copy>(
                    regs: &mut Registers, d: Reg, $($operand: Reg,)+ mask: u32,
                ) {
                    $map::<$($T,)+ D>(regs, d, $operands, mask, instance::<F>());
                }
                return |regs, d, $($operand,)+ mask| {
                    // SAFETY: the function needs the features that `has_vectors` looks for, and
                    // this pointer is given out only after that has answered true.
                    unsafe { vectors::<$($T,)+ D, F>(regs, d, $($operand,)+ mask) }
                };
            }
            |regs, d, $($operand,)+ mask| {
                $map::<$($T,)+ D>(regs, d, $operands, mask, instance::<F>());
            }
        }
    };
}

versions!(
    /// A function of one operand; the closure captures nothing.
    one: Alu1 = map1<A>(a => a)
);
versions!(
    /// A function of two operands; the closure captures nothing.
    two: Alu2 = map2<A, B>(a, b => [a, b])
);
versions!(
    /// A function of three operands; the closure captures nothing.
    three: Alu3 = map3<A, B, C>(a, b, c => [a, b, c])
);

/// The function that applies an expression to every lane.
macro_rules! lanes {
    (|$a:ident: $A:ty| -> $D:ty $e:block) => {
        $crate::ptx::alu::lanes::one(|$a: $A| -> $D { $e })
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty $e:block) => {
        $crate::ptx::alu::lanes::two(|$a: $A, $b: $B| -> $D { $e })
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty $e:block) => {
        $crate::ptx::alu::lanes::three(|$a: $A, $b: $B, $c: $C| -> $D { $e })
    };
}

pub(crate) use lanes;
