//! Conversions: which one an instruction means, and those between integers.

use super::softfloat::Rounding;
use super::{
    Alu, Alu1, Alu2, Alu3, Modifiers, Selection, convert_real, convert_small, for_type, lanes,
    no_type,
};
use crate::ptx::types::{Class, Type};

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    (opcode == "cvt").then(|| convert(modifiers))
}

/// What the modifiers of a conversion say.
pub(super) struct How {
    /// How a number is rounded to another.
    pub rounding: Option<Rounding>,
    /// How a number is rounded to an integer.
    pub integral: Option<Rounding>,
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
    /// Whether what is too large becomes the largest number.
    pub finite: bool,
}

impl How {
    /// Whether the result is cut off in a way that only narrow formats know.
    pub fn is_narrow(&self) -> bool {
        self.relu || self.finite
    }

    /// Whether there is nothing but a rounding.
    pub fn is_bare(&self) -> bool {
        !self.ftz && !self.sat && !self.is_narrow()
    }
}

fn convert(modifiers: &mut Modifiers<'_>) -> Selection {
    if modifiers.flag("pack") {
        return pack(modifiers);
    }
    let how = How {
        rounding: modifiers.rounding(),
        integral: modifiers.integer_rounding(),
        ftz: modifiers.flag("ftz"),
        sat: modifiers.flag("sat"),
        relu: modifiers.flag("relu"),
        finite: modifiers.flag("satfinite"),
    };
    if how.rounding.is_some() && how.integral.is_some() {
        return Err("there are two roundings".to_owned());
    }
    if let Some(small) = modifiers.one_of(&["tf32", "e4m3x2", "e5m2x2"]) {
        return convert_small::small(small, modifiers.ty()?, &how);
    }
    let (to, from) = (modifiers.ty()?, modifiers.ty()?);
    let is_integer = |ty: Type| matches!(ty.class(), Class::Unsigned | Class::Signed);
    let is_real = |ty: Type| matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64);
    let function = match (is_integer(to), is_integer(from)) {
        (true, true) => integer_to_integer(to, from, &how),
        (true, false) if is_real(from) => convert_real::to_integer(to, from, &how),
        (false, true) if is_real(to) => convert_real::from_integer(to, from, &how),
        (false, false) if is_real(to) && is_real(from) => convert_real::real(to, from, &how),
        _ if matches!(to, Type::F16x2 | Type::Bf16x2) && from == Type::F32 => {
            return convert_small::pair(to, &how);
        }
        _ => Err(format!("no conversion from '.{}' to '.{}'", from.name(), to.name())),
    }?;
    Ok(Alu::one(function, to, from))
}

/// An integer wide enough for every integer type.
pub(super) trait Whole: Copy {
    fn wide(self) -> i128;
    fn clamped(value: i128) -> Self;
}

macro_rules! whole {
    ($($ty:ty),+) => {$(
        impl Whole for $ty {
            #[inline(always)]
            fn wide(self) -> i128 { self as i128 }
            #[inline(always)]
            fn clamped(value: i128) -> Self { value.clamp(Self::MIN as i128, Self::MAX as i128) as Self }
        }
    )+};
}

whole!(u8, i8, u16, i16, u32, i32, u64, i64);

/// Whether every value of one integer type is one of another.
fn holds_all(to: Type, from: Type) -> bool {
    let signed = |ty: Type| ty.class() == Class::Signed;
    match (signed(to), signed(from)) {
        (true, false) => to.bytes() > from.bytes(),
        (false, true) => false,
        _ => to.bytes() >= from.bytes(),
    }
}

fn integer_to_integer(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    if how.rounding.is_some() || how.integral.is_some() || how.ftz || how.is_narrow() {
        return Err("only '.sat' is allowed between integers".to_owned());
    }
    if how.sat && holds_all(to, from) {
        return Err("'.sat' is not allowed where every value fits".to_owned());
    }
    let function = for_type!(from, S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64], {
        if how.sat {
            for_type!(to, D in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> D { D::clamped(a.wide()) }))
        } else {
            for_type!(to, D in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> D { a as D }))
        }
    });
    function.flatten().ok_or_else(|| no_type(to))
}

/// Two integers cut down to fields of `BITS` bits, the first above the second.
fn fields<const BITS: u32, const SIGNED: bool>(a: i32, b: i32) -> u32 {
    let (low, high) =
        if SIGNED { (-(1 << (BITS - 1)), (1 << (BITS - 1)) - 1) } else { (0, (1 << BITS) - 1) };
    let field = |value: i32| value.clamp(low, high) as u32 & ((1 << BITS) - 1);
    field(a) << BITS | field(b)
}

/// Two integers into narrow fields, above them what a third register holds.
fn pack(modifiers: &mut Modifiers<'_>) -> Selection {
    if !modifiers.flag("sat") {
        return Err("'.sat' is missing".to_owned());
    }
    let to = match modifiers.one_of(&["u2", "s2", "u4", "s4"]) {
        Some(narrow) => narrow,
        None => modifiers.ty()?.name(),
    };
    let from = modifiers.ty()?;
    if from != Type::S32 {
        return Err(no_type(from));
    }
    if !modifiers.contains("b32") {
        let function: Alu2 = match to {
            "u16" => lanes!(|a: i32, b: i32| -> u32 { fields::<16, false>(a, b) }),
            "s16" => lanes!(|a: i32, b: i32| -> u32 { fields::<16, true>(a, b) }),
            _ => return Err(format!("'.{to}' needs a third operand")),
        };
        return Ok(Alu::two(function, Type::B32, from, from));
    }
    modifiers.ty()?;
    macro_rules! above {
        ($bits:literal, $signed:literal) => {
            lanes!(|a: i32, b: i32, c: u32| -> u32 {
                c << (2 * $bits) | fields::<$bits, $signed>(a, b)
            })
        };
    }
    let function: Alu3 = match to {
        "u8" => above!(8, false),
        "s8" => above!(8, true),
        "u4" => above!(4, false),
        "s4" => above!(4, true),
        "u2" => above!(2, false),
        "s2" => above!(2, true),
        _ => return Err(format!("'.{to}' is not packed with a third operand")),
    };
    Ok(Alu::three(function, Type::B32, from, from, Type::B32))
}

/// The function that keeps the lower half of a 64-bit register.
pub fn low_half() -> Alu1 {
    lanes!(|a: u64| -> u32 { a as u32 })
}

/// The function that extends an integer to a register of the given size.
pub fn extension(ty: Type, bytes: usize) -> Option<Alu1> {
    match bytes {
        2 => for_type!(ty, S in [U8 = u8, S8 = i8], lanes!(|a: S| -> u16 { a as u16 })),
        4 => {
            for_type!(ty, S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16], lanes!(|a: S| -> u32 { a as u32 }))
        }
        8 => for_type!(ty, S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32],
            lanes!(|a: S| -> u64 { a as u64 })),
        _ => None,
    }
}
