//! Conversions between the types.

use super::float::{clamp32, clamp64, flush};
use super::softfloat::{
    self as soft, BF16, F16, F32, F64, Finite, Format, Number, Rounding, pack, unpack,
};
use super::{Alu, Alu1, Modifiers, Selection, for_type, lanes, nan, no_type};
use crate::ptx::types::{Class, Type};

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    (opcode == "cvt").then(|| convert(modifiers))
}

/// The bits of the single-precision number that a half is.
pub(super) fn half_to_single(bits: u16, brain: bool) -> u32 {
    soft::convert(if brain { BF16 } else { F16 }, F32, u64::from(bits), Rounding::Nearest) as u32
}

struct How {
    rounding: Option<Rounding>,
    integral: Option<Rounding>,
    ftz: bool,
    sat: bool,
}

fn convert(modifiers: &mut Modifiers<'_>) -> Selection {
    let how = How {
        rounding: modifiers.rounding(),
        integral: modifiers.integer_rounding(),
        ftz: modifiers.flag("ftz"),
        sat: modifiers.flag("sat"),
    };
    let (to, from) = (modifiers.ty()?, modifiers.ty()?);
    let is_integer = |ty: Type| matches!(ty.class(), Class::Unsigned | Class::Signed);
    let is_real = |ty: Type| matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64);
    let function = match (is_integer(to), is_integer(from)) {
        (true, true) => integer_to_integer(to, from, how.sat).ok_or_else(|| no_type(to)),
        (true, false) if is_real(from) => real_to_integer(to, from, &how),
        (false, true) if is_real(to) => integer_to_real(to, from, &how),
        (false, false) if is_real(to) && is_real(from) => real_to_real(to, from, &how),
        _ if matches!(to, Type::F16x2 | Type::Bf16x2) && from == Type::F32 => {
            return pack_halves(to, &how);
        }
        _ => Err(format!("no conversion from '.{}' to '.{}'", from.name(), to.name())),
    }?;
    Ok(Alu::one(function, to, from))
}

/// An integer wide enough for every integer type.
trait Whole: Copy {
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

fn integer_to_integer(to: Type, from: Type, sat: bool) -> Option<Alu1> {
    for_type!(from, S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64], {
        if sat {
            for_type!(to, D in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> D { D::clamped(a.wide()) }))
        } else {
            for_type!(to, D in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> D { a as D }))
        }
    })
    .flatten()
}

/// The integer that a NaN becomes: zero, or the highest bit where a 64-bit type takes part.
fn integer_nan(width: u32, from_double: bool) -> u64 {
    if from_double || width == 64 { 1 << (width - 1) } else { 0 }
}

fn to_integer<D: Target>(number: Number, from_double: bool, rounding: Rounding) -> u64 {
    soft::to_integer(number, D::WIDTH, D::SIGNED, rounding)
        .unwrap_or_else(|| integer_nan(D::WIDTH, from_double))
}

/// Integer types by their width and sign.
trait Target {
    const WIDTH: u32;
    const SIGNED: bool;
}

macro_rules! target {
    ($($ty:ty, $signed:expr);+) => {$(
        impl Target for $ty {
            const WIDTH: u32 = <$ty>::BITS;
            const SIGNED: bool = $signed;
        }
    )+};
}

target!(u8, false; i8, true; u16, false; i16, true; u32, false; i32, true; u64, false; i64, true);

/// Evaluates an expression with `$R` standing for the rounding, a constant.
macro_rules! with_rounding {
    ($rounding:expr, $R:ident, $e:expr) => {
        match $rounding {
            Rounding::Nearest => {
                const $R: Rounding = Rounding::Nearest;
                $e
            }
            Rounding::Zero => {
                const $R: Rounding = Rounding::Zero;
                $e
            }
            Rounding::Down => {
                const $R: Rounding = Rounding::Down;
                $e
            }
            Rounding::Up => {
                const $R: Rounding = Rounding::Up;
                $e
            }
            Rounding::NearestAway => {
                const $R: Rounding = Rounding::NearestAway;
                $e
            }
        }
    };
}

fn real_to_integer(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    let Some(rounding) = how.integral else {
        return Err("a rounding to an integer is missing".to_owned());
    };
    if rounding == Rounding::Zero && from == Type::F32 && !how.ftz && to == Type::S32 {
        // The common case, as the host does it.
        return Ok(lanes!(|a: f32| -> i32 { a as i32 }));
    }
    let ftz = how.ftz;
    macro_rules! from {
        ($S:ty, |$a:ident| $bits:expr, $format:expr, $double:expr) => {
            with_rounding!(rounding, R, for_type!(to,
                D in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|$a: $S| -> D { to_integer::<D>(unpack($format, u64::from($bits)), $double, R) as D })))
        };
    }
    let function = match from {
        Type::F16 => from!(u16, |a| a, F16, false),
        Type::Bf16 => from!(u16, |a| a, BF16, false),
        Type::F32 if ftz => from!(f32, |a| flush(a).to_bits(), F32, false),
        Type::F32 => from!(u32, |a| a, F32, false),
        _ => from!(u64, |a| a, F64, true),
    };
    function.ok_or_else(|| no_type(to))
}

fn integer_to_real(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    let exact = to == Type::F64 && from.bytes() < 8;
    let Some(rounding) = how.rounding.or(exact.then_some(Rounding::Nearest)) else {
        return Err("a rounding is missing".to_owned());
    };
    macro_rules! own {
        ($F:ty) => {
            for_type!(from, S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> $F { a as $F }))
        };
    }
    macro_rules! to {
        ($D:ty, $format:expr) => {
            with_rounding!(rounding, R, for_type!(from,
                S in [U8 = u8, S8 = i8, U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64],
                lanes!(|a: S| -> $D { pack($format, integer(a.wide()), R) as $D })))
        };
    }
    let function = match (to, rounding, how.sat) {
        (Type::F32, Rounding::Nearest, false) => own!(f32),
        (Type::F64, Rounding::Nearest, false) => own!(f64),
        (_, _, true) => return Err("'.sat' is not supported here".to_owned()),
        (Type::F16, ..) => to!(u16, F16),
        (Type::Bf16, ..) => to!(u16, BF16),
        (Type::F32, ..) => to!(u32, F32),
        _ => to!(u64, F64),
    };
    function.ok_or_else(|| no_type(from))
}

fn integer(value: i128) -> Number {
    Number::Finite(Finite::integer(
        value < 0,
        u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX),
    ))
}

fn real_to_real(to: Type, from: Type, how: &How) -> Result<Alu1, String> {
    if to == from {
        return same_type(to, how);
    }
    if how.integral.is_some() {
        return Err("rounding to an integer needs equal types".to_owned());
    }
    let widens = to.bytes() > from.bytes();
    let Some(rounding) = how.rounding.or(widens.then_some(Rounding::Nearest)) else {
        return Err("a rounding is missing".to_owned());
    };
    let (ftz, sat) = (how.ftz, how.sat);
    match (to, from, rounding) {
        (Type::F64, Type::F32, _) if !ftz && !sat => {
            return Ok(lanes!(|a: f32| -> f64 { nan::double(f64::from(a)) }));
        }
        (Type::F32, Type::F64, Rounding::Nearest) if !ftz && !sat => {
            return Ok(lanes!(|a: f64| -> f32 { nan::single(a as f32) }));
        }
        _ => {}
    }
    macro_rules! pair {
        ($S:ty, $D:ty, $from:expr, $to:expr) => {
            with_rounding!(
                rounding,
                R,
                match (ftz, sat) {
                    (false, false) =>
                        lanes!(|a: $S| -> $D { soft::convert($from, $to, u64::from(a), R) as $D }),
                    (true, false) => lanes!(|a: $S| -> $D {
                        through::<true, false>($from, $to, u64::from(a), R) as $D
                    }),
                    (false, true) => lanes!(|a: $S| -> $D {
                        through::<false, true>($from, $to, u64::from(a), R) as $D
                    }),
                    (true, true) => lanes!(|a: $S| -> $D {
                        through::<true, true>($from, $to, u64::from(a), R) as $D
                    }),
                }
            )
        };
    }
    let function = match (from, to) {
        (Type::F16, Type::F32) => pair!(u16, u32, F16, F32),
        (Type::F16, Type::F64) => pair!(u16, u64, F16, F64),
        (Type::F16, Type::Bf16) => pair!(u16, u16, F16, BF16),
        (Type::Bf16, Type::F32) => pair!(u16, u32, BF16, F32),
        (Type::Bf16, Type::F64) => pair!(u16, u64, BF16, F64),
        (Type::Bf16, Type::F16) => pair!(u16, u16, BF16, F16),
        (Type::F32, Type::F16) => pair!(u32, u16, F32, F16),
        (Type::F32, Type::Bf16) => pair!(u32, u16, F32, BF16),
        (Type::F32, Type::F64) => pair!(u32, u64, F32, F64),
        (Type::F64, Type::F16) => pair!(u64, u16, F64, F16),
        (Type::F64, Type::Bf16) => pair!(u64, u16, F64, BF16),
        _ => pair!(u64, u32, F64, F32),
    };
    Ok(function)
}

/// A conversion that flushes single-precision subnormals or clamps to 0..=1.
fn through<const FTZ: bool, const SAT: bool>(
    from: Format,
    to: Format,
    bits: u64,
    rounding: Rounding,
) -> u64 {
    let bits = if FTZ && from == F32 {
        u64::from(flush(f32::from_bits(bits as u32)).to_bits())
    } else {
        bits
    };
    let mut number = unpack(from, bits);
    if SAT {
        let wide = f64::from_bits(pack(F64, number, Rounding::Nearest));
        number = unpack(F64, clamp64(wide).to_bits());
    }
    let result = pack(to, number, rounding);
    if FTZ && to == F32 {
        u64::from(flush(f32::from_bits(result as u32)).to_bits())
    } else {
        result
    }
}

fn same_type(ty: Type, how: &How) -> Result<Alu1, String> {
    macro_rules! round {
        ($T:ty, $finish:expr) => {
            match how.integral {
                None => lanes!(|a: $T| -> $T { $finish(a) }),
                Some(Rounding::Zero) => lanes!(|a: $T| -> $T { $finish(a.trunc()) }),
                Some(Rounding::Down) => lanes!(|a: $T| -> $T { $finish(a.floor()) }),
                Some(Rounding::Up) => lanes!(|a: $T| -> $T { $finish(a.ceil()) }),
                Some(_) => lanes!(|a: $T| -> $T { $finish(a.round_ties_even()) }),
            }
        };
    }
    if how.rounding.is_some() {
        return Err("a rounding is not allowed between equal types".to_owned());
    }
    Ok(match (ty, how.ftz, how.sat) {
        (Type::F32, true, _) if how.integral.is_some() => {
            return Err("'.ftz' is not supported here".to_owned());
        }
        (Type::F32, false, false) => round!(f32, nan::single),
        (Type::F32, false, true) => round!(f32, clamp32),
        (Type::F32, true, false) => lanes!(|a: f32| -> f32 { nan::single(flush(a)) }),
        (Type::F32, true, true) => lanes!(|a: f32| -> f32 { clamp32(flush(a)) }),
        (Type::F64, false, false) => round!(f64, nan::double),
        (Type::F64, false, true) => round!(f64, clamp64),
        (Type::F16 | Type::Bf16, false, false) if how.integral.is_none() => {
            lanes!(|a: u16| -> u16 { a })
        }
        _ => return Err(no_type(ty)),
    })
}

/// Two single-precision numbers become one register; the first is the upper half.
fn pack_halves(to: Type, how: &How) -> Selection {
    let Some(rounding) = how.rounding else {
        return Err("a rounding is missing".to_owned());
    };
    if how.sat || how.ftz {
        return Err("'.sat' and '.ftz' are not supported here".to_owned());
    }
    let function = if to == Type::F16x2 {
        with_rounding!(rounding, R, lanes!(|a: u32, b: u32| -> u32 { packed(F16, a, b, R) }))
    } else {
        with_rounding!(rounding, R, lanes!(|a: u32, b: u32| -> u32 { packed(BF16, a, b, R) }))
    };
    Ok(Alu::two(function, to, Type::F32, Type::F32))
}

fn packed(format: Format, high: u32, low: u32, rounding: Rounding) -> u32 {
    let half = |bits: u32| soft::convert(F32, format, u64::from(bits), rounding) as u32;
    half(high) << 16 | half(low)
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
