//! Integer arithmetic and logic.

use super::{Alu, Alu2, Alu3, Modifiers, Selection, for_type, lanes, no_type, packed};
use crate::ptx::types::{Class, Type};

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    let ty = modifiers.last_type();
    if ty.is_some_and(|ty| matches!(ty.class(), Class::Float | Class::Pred)) {
        return None;
    }
    if matches!(ty, Some(Type::U16x2 | Type::S16x2)) {
        return packed::halves(opcode, modifiers);
    }
    Some(match opcode {
        "add" | "sub" if has_carry(modifiers) => return None,
        "mad" if has_carry(modifiers) => return None,
        "add" | "sub" => sum(opcode, modifiers),
        "mul" | "mad" => product(opcode == "mad", modifiers),
        "mul24" | "mad24" => product24(opcode == "mad24", modifiers),
        "div" | "rem" | "min" | "max" => binary(opcode, modifiers),
        "abs" | "neg" => unary(opcode, modifiers),
        "sad" => sad(modifiers),
        "and" | "or" | "xor" => logic(opcode, modifiers),
        "not" | "cnot" => complement(opcode, modifiers),
        "shl" | "shr" => shift(opcode, modifiers),
        _ => return None,
    })
}

fn has_carry(modifiers: &Modifiers<'_>) -> bool {
    modifiers.contains("cc")
}

fn sum(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let saturate = modifiers.flag("sat");
    let ty = modifiers.ty()?;
    let function = match (opcode, saturate) {
        ("add", true) => {
            (ty == Type::S32).then_some(lanes!(|a: i32, b: i32| -> i32 { a.saturating_add(b) }))
        }
        (_, true) => {
            (ty == Type::S32).then_some(lanes!(|a: i32, b: i32| -> i32 { a.saturating_sub(b) }))
        }
        ("add", false) => {
            for_type!(ty, T in [U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64],
            lanes!(|a: T, b: T| -> T { a.wrapping_add(b) }))
        }
        (_, false) => {
            for_type!(ty, T in [U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64],
            lanes!(|a: T, b: T| -> T { a.wrapping_sub(b) }))
        }
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, ty))
}

/// The type of twice the size.
fn widened(ty: Type) -> Result<Type, String> {
    Ok(match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => return Err(no_type(ty)),
    })
}

fn product(add: bool, modifiers: &mut Modifiers<'_>) -> Selection {
    let part = modifiers.one_of(&["lo", "hi", "wide"]);
    let saturate = modifiers.flag("sat");
    let ty = modifiers.ty()?;
    if part == Some("wide") {
        let wide = widened(ty)?;
        let function = wide_product(add, ty).ok_or_else(|| no_type(ty))?;
        return Ok(match function {
            Product::Two(two) => Alu::two(two, wide, ty, ty),
            Product::Three(three) => Alu::three(three, wide, ty, ty, wide),
        });
    }
    if saturate {
        let function = lanes!(|a: i32, b: i32, c: i32| -> i32 {
            (((i64::from(a) * i64::from(b)) >> 32) as i32).saturating_add(c)
        });
        if !add || part != Some("hi") || ty != Type::S32 {
            return Err("'.sat' is only allowed on mad.hi.sat.s32".to_owned());
        }
        return Ok(Alu::three(function, ty, ty, ty, ty));
    }
    if add {
        let function = match part {
            Some("hi") => high_mad(ty),
            Some(_) => {
                for_type!(ty, T in [U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64],
                lanes!(|a: T, b: T, c: T| -> T { a.wrapping_mul(b).wrapping_add(c) }))
            }
            None => return Err("one of .lo, .hi, .wide is missing".to_owned()),
        };
        return Ok(Alu::three(function.ok_or_else(|| no_type(ty))?, ty, ty, ty, ty));
    }
    let function = match part {
        Some("hi") => high_mul(ty),
        Some(_) => {
            for_type!(ty, T in [U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64],
            lanes!(|a: T, b: T| -> T { a.wrapping_mul(b) }))
        }
        None => return Err("one of .lo, .hi, .wide is missing".to_owned()),
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, ty))
}

enum Product {
    Two(Alu2),
    Three(Alu3),
}

fn wide_product(add: bool, ty: Type) -> Option<Product> {
    Some(match (ty, add) {
        (Type::U16, false) => {
            Product::Two(lanes!(|a: u16, b: u16| -> u32 { u32::from(a) * u32::from(b) }))
        }
        (Type::S16, false) => {
            Product::Two(lanes!(|a: i16, b: i16| -> i32 { i32::from(a) * i32::from(b) }))
        }
        (Type::U32, false) => {
            Product::Two(lanes!(|a: u32, b: u32| -> u64 { u64::from(a) * u64::from(b) }))
        }
        (Type::S32, false) => {
            Product::Two(lanes!(|a: i32, b: i32| -> i64 { i64::from(a) * i64::from(b) }))
        }
        (Type::U16, true) => Product::Three(lanes!(|a: u16, b: u16, c: u32| -> u32 {
            (u32::from(a) * u32::from(b)).wrapping_add(c)
        })),
        (Type::S16, true) => Product::Three(lanes!(|a: i16, b: i16, c: i32| -> i32 {
            (i32::from(a) * i32::from(b)).wrapping_add(c)
        })),
        (Type::U32, true) => Product::Three(lanes!(|a: u32, b: u32, c: u64| -> u64 {
            (u64::from(a) * u64::from(b)).wrapping_add(c)
        })),
        (Type::S32, true) => Product::Three(lanes!(|a: i32, b: i32, c: i64| -> i64 {
            (i64::from(a) * i64::from(b)).wrapping_add(c)
        })),
        _ => return None,
    })
}

/// The upper half of a product.
pub(super) trait High: Copy {
    /// The upper half of `self * other`.
    fn high(self, other: Self) -> Self;
}

macro_rules! high {
    ($($ty:ty, $wide:ty);+) => {$(
        impl High for $ty {
            #[inline(always)]
            fn high(self, other: Self) -> Self {
                ((<$wide>::from(self) * <$wide>::from(other)) >> Self::BITS) as Self
            }
        }
    )+};
}

high!(u16, u32; i16, i32; u32, u64; i32, i64; u64, u128; i64, i128);

fn high_mul(ty: Type) -> Option<Alu2> {
    for_type!(ty, T in [U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
        lanes!(|a: T, b: T| -> T { a.high(b) }))
}

fn high_mad(ty: Type) -> Option<Alu3> {
    for_type!(ty, T in [U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
        lanes!(|a: T, b: T, c: T| -> T { a.high(b).wrapping_add(c) }))
}

fn product24(add: bool, modifiers: &mut Modifiers<'_>) -> Selection {
    let high = match modifiers.one_of(&["lo", "hi"]) {
        Some(part) => part == "hi",
        None => return Err("one of .lo, .hi is missing".to_owned()),
    };
    let saturate = modifiers.flag("sat");
    let ty = modifiers.ty()?;
    if saturate && !(add && high && ty == Type::S32) {
        return Err("'.sat' is only allowed on mad24.hi.sat.s32".to_owned());
    }
    let multiply: Alu3 = match (ty, high) {
        (Type::U32, false) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 { (mul24u(a, b) as u32).wrapping_add(c) })
        }
        (Type::U32, true) => lanes!(|a: u32, b: u32, c: u32| -> u32 {
            ((mul24u(a, b) >> 16) as u32).wrapping_add(c)
        }),
        (Type::S32, false) => {
            lanes!(|a: i32, b: i32, c: i32| -> i32 { (mul24s(a, b) as i32).wrapping_add(c) })
        }
        (Type::S32, true) if saturate => lanes!(|a: i32, b: i32, c: i32| -> i32 {
            ((mul24s(a, b) >> 16) as i32).saturating_add(c)
        }),
        (Type::S32, true) => lanes!(|a: i32, b: i32, c: i32| -> i32 {
            ((mul24s(a, b) >> 16) as i32).wrapping_add(c)
        }),
        _ => return Err(no_type(ty)),
    };
    if add {
        return Ok(Alu::three(multiply, ty, ty, ty, ty));
    }
    let function: Alu2 = match (ty, high) {
        (Type::U32, false) => lanes!(|a: u32, b: u32| -> u32 { mul24u(a, b) as u32 }),
        (Type::U32, true) => lanes!(|a: u32, b: u32| -> u32 { (mul24u(a, b) >> 16) as u32 }),
        (_, false) => lanes!(|a: i32, b: i32| -> i32 { mul24s(a, b) as i32 }),
        (_, true) => lanes!(|a: i32, b: i32| -> i32 { (mul24s(a, b) >> 16) as i32 }),
    };
    Ok(Alu::two(function, ty, ty, ty))
}

fn mul24u(a: u32, b: u32) -> u64 {
    u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
}

fn mul24s(a: i32, b: i32) -> i64 {
    i64::from(a << 8 >> 8) * i64::from(b << 8 >> 8)
}

/// Division by zero gives all ones, and so does its remainder, as GPUs do; PTX leaves both open.
pub(super) trait Divide: Copy {
    /// The quotient.
    fn quotient(self, other: Self) -> Self;
    /// The remainder.
    fn remainder(self, other: Self) -> Self;
}

macro_rules! divide {
    ($($ty:ty),+) => {$(
        impl Divide for $ty {
            #[inline(always)]
            fn quotient(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_rem(other) }
            }
        }
    )+};
}

divide!(u16, i16, u32, i32, u64, i64);

fn binary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let relu = modifiers.flag("relu");
    let ty = modifiers.ty()?;
    if relu {
        let function: Alu2 = match (opcode, ty) {
            ("min", Type::S32) => lanes!(|a: i32, b: i32| -> i32 { a.min(b).max(0) }),
            ("max", Type::S32) => lanes!(|a: i32, b: i32| -> i32 { a.max(b).max(0) }),
            _ => return Err(no_type(ty)),
        };
        return Ok(Alu::two(function, ty, ty, ty));
    }
    let function = match opcode {
        "div" => {
            for_type!(ty, T in [U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
            lanes!(|a: T, b: T| -> T { a.quotient(b) }))
        }
        "rem" => {
            for_type!(ty, T in [U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
            lanes!(|a: T, b: T| -> T { a.remainder(b) }))
        }
        "min" => {
            for_type!(ty, T in [U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
            lanes!(|a: T, b: T| -> T { a.min(b) }))
        }
        _ => for_type!(ty, T in [U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
            lanes!(|a: T, b: T| -> T { a.max(b) })),
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, ty))
}

fn unary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function = match opcode {
        "abs" => {
            for_type!(ty, T in [S16 = i16, S32 = i32, S64 = i64], lanes!(|a: T| -> T { a.wrapping_abs() }))
        }
        _ => {
            for_type!(ty, T in [S16 = i16, S32 = i32, S64 = i64], lanes!(|a: T| -> T { a.wrapping_neg() }))
        }
    };
    Ok(Alu::one(function.ok_or_else(|| no_type(ty))?, ty, ty))
}

fn sad(modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function = match ty {
        Type::U16 => lanes!(|a: u16, b: u16, c: u16| -> u16 { c.wrapping_add(a.abs_diff(b)) }),
        Type::S16 => lanes!(|a: i16, b: i16, c: u16| -> u16 { c.wrapping_add(a.abs_diff(b)) }),
        Type::U32 => lanes!(|a: u32, b: u32, c: u32| -> u32 { c.wrapping_add(a.abs_diff(b)) }),
        Type::S32 => lanes!(|a: i32, b: i32, c: u32| -> u32 { c.wrapping_add(a.abs_diff(b)) }),
        Type::U64 => lanes!(|a: u64, b: u64, c: u64| -> u64 { c.wrapping_add(a.abs_diff(b)) }),
        Type::S64 => lanes!(|a: i64, b: i64, c: u64| -> u64 { c.wrapping_add(a.abs_diff(b)) }),
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::three(function, ty, ty, ty, ty))
}

fn logic(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function = match opcode {
        "and" => {
            for_type!(ty, T in [B16 = u16, B32 = u32, B64 = u64], lanes!(|a: T, b: T| -> T { a & b }))
        }
        "or" => {
            for_type!(ty, T in [B16 = u16, B32 = u32, B64 = u64], lanes!(|a: T, b: T| -> T { a | b }))
        }
        _ => {
            for_type!(ty, T in [B16 = u16, B32 = u32, B64 = u64], lanes!(|a: T, b: T| -> T { a ^ b }))
        }
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, ty))
}

fn complement(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function = match opcode {
        "not" => for_type!(ty, T in [B16 = u16, B32 = u32, B64 = u64], lanes!(|a: T| -> T { !a })),
        _ => {
            for_type!(ty, T in [B16 = u16, B32 = u32, B64 = u64], lanes!(|a: T| -> T { T::from(a == 0) }))
        }
    };
    Ok(Alu::one(function.ok_or_else(|| no_type(ty))?, ty, ty))
}

fn shift(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let ty = modifiers.ty()?;
    let function = match opcode {
        "shl" => for_type!(ty, T in [B16 = u16, B32 = u32, B64 = u64],
            lanes!(|a: T, b: u32| -> T { if b < T::BITS { a << (b & (T::BITS - 1)) } else { 0 } })),
        _ => for_type!(ty, T in [B16 = u16, U16 = u16, B32 = u32, U32 = u32, B64 = u64, U64 = u64],
            lanes!(|a: T, b: u32| -> T { if b < T::BITS { a >> (b & (T::BITS - 1)) } else { 0 } }))
        .or(for_type!(ty, T in [S16 = i16, S32 = i32, S64 = i64],
            lanes!(|a: T, b: u32| -> T { a >> b.min(T::BITS - 1) }))),
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, Type::U32))
}
