//! Counting, moving and selecting bits.

use super::{Alu, Alu2, Alu4, AluFn, Modifiers, Selection, for_type, lanes, no_type};
use crate::ptx::exec::registers::{LANES, Reg, Registers, Scalar, Slot};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "popc" | "clz" | "brev" => count(opcode, modifiers),
        "bfind" => find_leading(modifiers),
        "bfe" => extract(modifiers),
        "bfi" => insert(modifiers),
        "bmsk" => mask(modifiers),
        "szext" => sign_or_zero_extend(modifiers),
        "shf" => funnel(modifiers),
        "lop3" => lop3(modifiers),
        "prmt" => permute(modifiers),
        "fns" => nth_set(modifiers),
        _ => return None,
    })
}

fn count(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let destination = if opcode == "brev" { ty } else { Type::U32 };
    let function = match opcode {
        "popc" => {
            for_type!(ty, T in [B32 = u32, B64 = u64], lanes!(|a: T| -> u32 { a.count_ones() }))
        }
        "clz" => {
            for_type!(ty, T in [B32 = u32, B64 = u64], lanes!(|a: T| -> u32 { a.leading_zeros() }))
        }
        _ => for_type!(ty, T in [B32 = u32, B64 = u64], lanes!(|a: T| -> T { a.reverse_bits() })),
    };
    Ok(Alu::one(function.ok_or_else(|| no_type(ty))?, destination, ty))
}

/// The place of the highest bit that is not the sign.
trait Leading: Copy {
    fn leading(self, shift_amount: bool) -> u32;
}

macro_rules! leading {
    ($($ty:ty as $unsigned:ty),+) => {$(
        impl Leading for $ty {
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn leading(self, shift_amount: bool) -> u32 {
                let bits = (if self < 0 { !self } else { self }) as $unsigned;
                if bits == 0 {
                    u32::MAX
                } else if shift_amount {
                    bits.leading_zeros()
                } else {
                    <$unsigned>::BITS - 1 - bits.leading_zeros()
                }
            }
        }
    )+};
}

leading!(u32 as u32, i32 as u32, u64 as u64, i64 as u64);

fn find_leading(modifiers: &mut Modifiers<'_>) -> Selection {
    let shift_amount = modifiers.flag("shiftamt");
    let ty = modifiers.ty()?;
    let function = if shift_amount {
        for_type!(ty, T in [U32 = u32, S32 = i32, U64 = u64, S64 = i64], lanes!(|a: T| -> u32 { a.leading(true) }))
    } else {
        for_type!(ty, T in [U32 = u32, S32 = i32, U64 = u64, S64 = i64], lanes!(|a: T| -> u32 { a.leading(false) }))
    };
    Ok(Alu::one(function.ok_or_else(|| no_type(ty))?, Type::U32, ty))
}

/// Bit fields. Position and length count up to 255 in registers of 32 bits, and without end in those of
/// 64; PTX says 255 for both.
trait Field: Copy {
    fn extract(self, position: u32, length: u32) -> Self;
}

macro_rules! field {
    ($($ty:ty as $unsigned:ty, $signed:expr);+) => {$(
        impl Field for $ty {
            #[inline(always)]
            fn extract(self, position: u32, length: u32) -> Self {
                let limit = if <$unsigned>::BITS == 32 { 0xff } else { u32::MAX };
                let (position, length) = (position & limit, length & limit);
                let bits = self as $unsigned;
                let top = <$unsigned>::BITS - 1;
                if length == 0 {
                    return 0;
                }
                let last = position.saturating_add(length - 1).min(top);
                let sign = $signed && bits >> last & 1 != 0;
                let field = bits.checked_shr(position).unwrap_or(0);
                let mask = if length > top { !0 } else { ((1 as $unsigned) << length) - 1 };
                // Bits past the register's end read as the sign.
                let held = if position > top { 0 } else { (!0 as $unsigned) >> position & mask };
                let fill = if sign { !held } else { 0 };
                (field & held | fill) as $ty
            }
        }
    )+};
}

field!(u32 as u32, false; i32 as u32, true; u64 as u64, false; i64 as u64, true);

fn extract(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function = for_type!(ty, T in [U32 = u32, S32 = i32, U64 = u64, S64 = i64],
        lanes!(|a: T, b: u32, c: u32| -> T { a.extract(b, c) }));
    Ok(Alu::three(function.ok_or_else(|| no_type(ty))?, ty, ty, Type::U32, Type::U32))
}

/// Applies `f` to four operands, the last two narrow.
fn map4<T: Scalar>(
    regs: &mut Registers,
    d: Reg,
    [a, b, c, e]: [Reg; 4],
    lanes: u32,
    f: impl Fn(T, T, u32, u32) -> T,
) {
    let (x, y) = (T::Slot::file(regs).get(a), T::Slot::file(regs).get(b));
    let (z, w) = (regs.narrow.get(c), regs.narrow.get(e));
    let mut out = [T::Slot::default(); LANES];
    for lane in 0..LANES {
        out[lane] = f(T::load(x[lane]), T::load(y[lane]), z[lane], w[lane]).store();
    }
    T::Slot::file_mut(regs).put(d, &out, lanes);
}

fn insert_bits(a: u64, b: u64, position: u32, length: u32) -> u64 {
    let mask = if length > 63 { u64::MAX } else { (1 << length) - 1 };
    let mask = mask.checked_shl(position).unwrap_or(0);
    b & !mask | a.checked_shl(position).unwrap_or(0) & mask
}

fn insert(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function: Alu4 = match ty {
        Type::B32 => |regs, d, a, b, c, e, lanes| {
            map4::<u32>(regs, d, [a, b, c, e], lanes, |a, b, position, length| {
                insert_bits(u64::from(a), u64::from(b), position & 0xff, length & 0xff) as u32
            });
        },
        Type::B64 => {
            |regs, d, a, b, c, e, lanes| map4::<u64>(regs, d, [a, b, c, e], lanes, insert_bits)
        }
        _ => return Err(no_type(ty)),
    };
    Ok(Alu {
        function: AluFn::Four(function),
        destination: ty,
        sources: vec![ty, ty, Type::U32, Type::U32],
    })
}

fn mask(modifiers: &mut Modifiers<'_>) -> Selection {
    let wrap = modifiers.one_of(&["clamp", "wrap"]) == Some("wrap");
    let ty = modifiers.ty()?;
    let function: Alu2 = if wrap {
        lanes!(|a: u32, b: u32| -> u32 { ((1_u32 << (b & 31)) - 1) << (a & 31) })
    } else {
        lanes!(|a: u32, b: u32| -> u32 { (((1_u64 << b.min(32)) - 1) << a.min(32)) as u32 })
    };
    if ty != Type::B32 {
        return Err(no_type(ty));
    }
    Ok(Alu::two(function, ty, ty, ty))
}

fn sign_or_zero_extend(modifiers: &mut Modifiers<'_>) -> Selection {
    let wrap = modifiers.one_of(&["clamp", "wrap"]) == Some("wrap");
    let ty = modifiers.ty()?;
    let function: Alu2 = match (ty, wrap) {
        (Type::U32, true) => lanes!(|a: u32, b: u32| -> u32 { a & ((1_u32 << (b & 31)) - 1) }),
        (Type::U32, false) => {
            lanes!(|a: u32, b: u32| -> u32 { a & ((1_u64 << b.min(32)) - 1) as u32 })
        }
        (Type::S32, true) => lanes!(|a: i32, b: u32| -> i32 { a.extract(0, b & 31) }),
        (Type::S32, false) => lanes!(|a: i32, b: u32| -> i32 { a.extract(0, b.min(32)) }),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::two(function, ty, ty, Type::U32))
}

fn funnel(modifiers: &mut Modifiers<'_>) -> Selection {
    let left = match modifiers.one_of(&["l", "r"]) {
        Some(side) => side == "l",
        None => return Err("one of .l, .r is missing".to_owned()),
    };
    let wrap = match modifiers.one_of(&["clamp", "wrap"]) {
        Some(mode) => mode == "wrap",
        None => return Err("one of .clamp, .wrap is missing".to_owned()),
    };
    let ty = modifiers.ty()?;
    let function = match (left, wrap) {
        (true, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { (joined(a, b) << (c & 31) >> 32) as u32 })
        }
        (true, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { (joined(a, b) << c.min(32) >> 32) as u32 })
        }
        (false, true) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { (joined(a, b) >> (c & 31)) as u32 })
        }
        (false, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { (joined(a, b) >> c.min(32)) as u32 })
        }
    };
    if ty != Type::B32 {
        return Err(no_type(ty));
    }
    Ok(Alu::three(function, ty, ty, ty, Type::U32))
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn lop3(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    if ty != Type::B32 {
        return Err(no_type(ty));
    }
    let function: Alu4 = |regs, d, a, b, c, table, mask| {
        // The table is an immediate, so every lane holds the same.
        let table = regs.narrow.get(table)[0];
        super::lanes::map3::<u32, u32, u32, u32>(regs, d, [a, b, c], mask, |a, b, c| {
            (0..8).fold(0, |sum, row| {
                let pick = |value: u32, bit: u32| if row >> bit & 1 != 0 { value } else { !value };
                let term = pick(a, 2) & pick(b, 1) & pick(c, 0);
                sum | term & (table >> row & 1).wrapping_neg()
            })
        });
    };
    Ok(Alu {
        function: AluFn::Four(function),
        destination: ty,
        sources: vec![ty, ty, ty, Type::U32],
    })
}

fn permute(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    if ty != Type::B32 {
        return Err(no_type(ty));
    }
    let function = match modifiers.one_of(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) {
        None => lanes!(|a: u32, b: u32, c: u32| -> u32 { pick_bytes(a, b, c) }),
        Some("f4e") => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { (joined(a, b) >> (8 * (c & 3))) as u32 })
        }
        Some("b4e") => lanes!(|a: u32, b: u32, c: u32| -> u32 {
            let i = c & 3;
            let selector = (0..4).fold(0, |s, n| s | (i.wrapping_sub(n) & 7) << (4 * n));
            pick_bytes(a, b, selector)
        }),
        Some("rc8") => {
            lanes!(|a: u32, _b: u32, c: u32| -> u32 { (a >> (8 * (c & 3)) & 0xff) * 0x0101_0101 })
        }
        Some("ecl") => lanes!(|a: u32, b: u32, c: u32| -> u32 {
            pick_bytes(a, b, (0..4).fold(0, |s, n| s | n.max(c & 3) << (4 * n)))
        }),
        Some("ecr") => lanes!(|a: u32, b: u32, c: u32| -> u32 {
            pick_bytes(a, b, (0..4).fold(0, |s, n| s | n.min(c & 3) << (4 * n)))
        }),
        Some(_) => lanes!(|a: u32, _b: u32, c: u32| -> u32 {
            (a >> (16 * (c & 1)) & 0xffff) * 0x0001_0001
        }),
    };
    Ok(Alu::three(function, ty, ty, ty, Type::U32))
}

/// Each nibble of the selector picks one of eight bytes; its high bit replicates that byte's sign.
fn pick_bytes(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = joined(a, b);
    (0..4).fold(0, |result, n| {
        let choice = selector >> (4 * n);
        let byte = (bytes >> (8 * (choice & 7))) as u8;
        let byte = if choice & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte };
        result | u32::from(byte) << (8 * n)
    })
}

/// The place of the `offset`-th set bit from `base` on, upwards or downwards; all ones if there is none.
fn find_nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    let mut rest = offset.unsigned_abs().saturating_sub(1);
    let mut at = i64::from(base);
    if offset == i32::MIN {
        // Its magnitude does not fit, and a GPU gives this.
        return 0;
    }
    if offset == 0 {
        return if base < 32 && mask >> base & 1 != 0 { base } else { u32::MAX };
    }
    while (0..32).contains(&at) {
        if mask >> at & 1 != 0 {
            if rest == 0 {
                return at as u32;
            }
            rest -= 1;
        }
        at += i64::from(offset.signum());
    }
    u32::MAX
}

fn nth_set(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    if ty != Type::B32 {
        return Err(no_type(ty));
    }
    let function = lanes!(|a: u32, b: u32, c: i32| -> u32 { find_nth_set(a, b, c) });
    Ok(Alu::three(function, ty, ty, Type::B32, Type::S32))
}
