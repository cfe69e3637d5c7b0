//! Extended-precision arithmetic through the carry flag.

use super::integer::High;
use super::{Alu, AluFn, Modifiers, Selection, no_type};
use crate::ptx::exec::registers::{LANES, Reg, Registers, Scalar, Slot};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "addc" | "subc" => sum(opcode, modifiers),
        "add" | "sub" if modifiers.contains("cc") => sum(opcode, modifiers),
        "madc" => product(opcode, modifiers),
        "mad" if modifiers.contains("cc") => product(opcode, modifiers),
        _ => return None,
    })
}

/// Integers that add with a carry.
trait Carrying: Scalar {
    fn add_carry(self, other: Self, carry: bool) -> (Self, bool);
    fn sub_borrow(self, other: Self, borrow: bool) -> (Self, bool);
    fn low(self, other: Self) -> Self;
}

macro_rules! carrying {
    ($($ty:ty),+) => {$(
        impl Carrying for $ty {
            #[inline(always)]
            fn add_carry(self, other: Self, carry: bool) -> (Self, bool) {
                let (sum, first) = self.overflowing_add(other);
                let (sum, second) = sum.overflowing_add(Self::from(carry));
                (sum, first | second)
            }
            #[inline(always)]
            fn sub_borrow(self, other: Self, borrow: bool) -> (Self, bool) {
                let (difference, first) = self.overflowing_sub(other);
                let (difference, second) = difference.overflowing_sub(Self::from(borrow));
                (difference, first | second)
            }
            #[inline(always)]
            fn low(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
    )+};
}

carrying!(u32, u64);

/// `IN`: the carry is added. `OUT`: it is set. `SUB`: subtraction.
fn extended<T: Carrying, const SUB: bool, const IN: bool, const OUT: bool>(
    regs: &mut Registers,
    d: Reg,
    a: Reg,
    b: Reg,
    mask: u32,
) {
    let (x, y) = (*T::Slot::file(regs).get(a), *T::Slot::file(regs).get(b));
    combine::<T, SUB, IN, OUT>(regs, d, mask, |lane| (T::load(x[lane]), T::load(y[lane])));
}

fn extended_mad<
    S: Carrying,
    M: Scalar<Slot = S::Slot> + High,
    const HIGH: bool,
    const IN: bool,
    const OUT: bool,
>(
    regs: &mut Registers,
    d: Reg,
    a: Reg,
    b: Reg,
    c: Reg,
    mask: u32,
) {
    let (x, y) = (*S::Slot::file(regs).get(a), *S::Slot::file(regs).get(b));
    let z = *S::Slot::file(regs).get(c);
    combine::<S, false, IN, OUT>(regs, d, mask, |lane| {
        let product = if HIGH {
            S::load(M::load(x[lane]).high(M::load(y[lane])).store())
        } else {
            S::load(x[lane]).low(S::load(y[lane]))
        };
        (product, S::load(z[lane]))
    });
}

#[inline(always)]
fn combine<T: Carrying, const SUB: bool, const IN: bool, const OUT: bool>(
    regs: &mut Registers,
    d: Reg,
    mask: u32,
    operands: impl Fn(usize) -> (T, T),
) {
    let mut out = [T::Slot::default(); LANES];
    let mut flags = 0;
    for lane in 0..LANES {
        let carry = regs.carry >> lane & 1 != 0;
        let (x, y) = operands(lane);
        // A difference borrows where the flag is not set, and leaves it so when it borrowed.
        let (value, flag) = if SUB {
            let (value, borrow) = x.sub_borrow(y, IN && !carry);
            (value, !borrow)
        } else {
            x.add_carry(y, IN && carry)
        };
        out[lane] = value.store();
        flags |= u32::from(flag) << lane;
    }
    T::Slot::file_mut(regs).put(d, &out, mask);
    if OUT {
        regs.carry = regs.carry & !mask | flags & mask;
    }
}

fn sum(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let out = modifiers.flag("cc");
    let ty = modifiers.ty()?;
    let wide = match ty {
        Type::U32 | Type::S32 => false,
        Type::U64 | Type::S64 => true,
        _ => return Err(no_type(ty)),
    };
    let function = match (opcode, out, wide) {
        ("add", _, false) => extended::<u32, false, false, true>,
        ("add", _, true) => extended::<u64, false, false, true>,
        ("sub", _, false) => extended::<u32, true, false, true>,
        ("sub", _, true) => extended::<u64, true, false, true>,
        ("addc", false, false) => extended::<u32, false, true, false>,
        ("addc", false, true) => extended::<u64, false, true, false>,
        ("addc", true, false) => extended::<u32, false, true, true>,
        ("addc", true, true) => extended::<u64, false, true, true>,
        (_, false, false) => extended::<u32, true, true, false>,
        (_, false, true) => extended::<u64, true, true, false>,
        (_, true, false) => extended::<u32, true, true, true>,
        (_, true, true) => extended::<u64, true, true, true>,
    };
    Ok(Alu { function: AluFn::Two(function), destination: ty, sources: vec![ty, ty] })
}

fn product(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let Some(part) = modifiers.one_of(&["lo", "hi"]) else {
        return Err("one of .lo, .hi is missing".to_owned());
    };
    let carry_in = opcode == "madc";
    let carry_out = modifiers.flag("cc");
    let saturate = modifiers.flag("sat");
    let ty = modifiers.ty()?;
    // Where a carry goes in, a GPU does not saturate.
    if saturate && (part != "hi" || !carry_in || carry_out || ty != Type::S32) {
        return Err("'.sat' is only allowed on madc.hi.sat.s32".to_owned());
    }
    macro_rules! pick {
        ($unsigned:ty, $own:ty) => {
            match (part == "hi", carry_in, carry_out) {
                (false, false, _) => extended_mad::<$unsigned, $own, false, false, true>,
                (true, false, _) => extended_mad::<$unsigned, $own, true, false, true>,
                (false, true, false) => extended_mad::<$unsigned, $own, false, true, false>,
                (true, true, false) => extended_mad::<$unsigned, $own, true, true, false>,
                (false, true, true) => extended_mad::<$unsigned, $own, false, true, true>,
                (true, true, true) => extended_mad::<$unsigned, $own, true, true, true>,
            }
        };
    }
    let function: super::Alu3 = match ty {
        Type::U32 => pick!(u32, u32),
        Type::S32 => pick!(u32, i32),
        Type::U64 => pick!(u64, u64),
        Type::S64 => pick!(u64, i64),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu { function: AluFn::Three(function), destination: ty, sources: vec![ty, ty, ty] })
}
