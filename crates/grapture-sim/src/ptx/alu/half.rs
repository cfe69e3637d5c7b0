//! Arithmetic in half precision and in its short form, one value or two packed in a register.

use super::softfloat::{self as soft, BF16, F16, Format, Number, Rounding, pack, unpack};
use super::{Alu, Alu1, Alu2, Alu3, Modifiers, Selection, lanes, nan, no_type};
use crate::ptx::types::Type;

/// The instruction of that name, when it is one of these.
pub fn select(opcode: &str, modifiers: &mut Modifiers<'_>) -> Option<Selection> {
    Some(match opcode {
        "add" | "sub" | "mul" | "min" | "max" => binary(opcode, modifiers),
        "fma" => fused(modifiers),
        "abs" | "neg" => sign(opcode, modifiers),
        "ex2" | "tanh" => approximate(opcode, modifiers),
        _ => return None,
    })
}

/// What a name says beside operation and type: bits, so that they can be a constant.
type Mode = u8;
const FLUSH: Mode = 1;
/// Clamps to 0..=1.
const SATURATE: Mode = 2;
/// A NaN beats a number.
const PROPAGATE: Mode = 4;
/// Compares magnitudes; the sign is that of the product.
const XOR_SIGN: Mode = 8;
/// What is below zero becomes zero.
const POSITIVE: Mode = 16;

/// Operations by number, so that they can be constants.
const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;
const MIN: u8 = 3;
const MAX: u8 = 4;

const SIGN: u16 = 0x8000;
const ONE: f64 = 1.0;

fn format<const BRAIN: bool>() -> Format {
    if BRAIN { BF16 } else { F16 }
}

/// A subnormal becomes a zero of the same sign. Only half precision is ever flushed.
fn flush<const MODE: Mode>(bits: u16) -> u16 {
    let subnormal = bits & 0x7c00 == 0;
    if MODE & FLUSH != 0 && subnormal { bits & SIGN } else { bits }
}

fn open<const BRAIN: bool, const MODE: Mode>(bits: u16) -> Number {
    unpack(format::<BRAIN>(), u64::from(flush::<MODE>(bits)))
}

fn close<const BRAIN: bool, const MODE: Mode>(number: Number) -> u16 {
    let format = format::<BRAIN>();
    let bits = flush::<MODE>(pack(format, number, Rounding::Nearest) as u16);
    let is_nan = unpack(format, u64::from(bits)) == Number::Nan;
    let negative = bits & SIGN != 0;
    if MODE & SATURATE != 0 {
        let one = real(format, ONE);
        return if is_nan || negative { 0 } else { bits.min(one) };
    }
    if MODE & POSITIVE != 0 && negative && !is_nan { 0 } else { bits }
}

/// The nearest half of a number.
fn real(format: Format, value: f64) -> u16 {
    soft::convert(soft::F64, format, value.to_bits(), Rounding::Nearest) as u16
}

fn apply<const BRAIN: bool, const OP: u8, const MODE: Mode>(a: u16, b: u16) -> u16 {
    if OP == MIN || OP == MAX {
        return extremum::<BRAIN, OP, MODE>(flush::<MODE>(a), flush::<MODE>(b));
    }
    let b = if OP == SUB { b ^ SIGN } else { b };
    let (a, b) = (open::<BRAIN, MODE>(a), open::<BRAIN, MODE>(b));
    close::<BRAIN, MODE>(if OP == MUL {
        soft::mul(a, b)
    } else {
        soft::add(a, b, Rounding::Nearest)
    })
}

fn extremum<const BRAIN: bool, const OP: u8, const MODE: Mode>(a: u16, b: u16) -> u16 {
    let is_nan = |bits| open::<BRAIN, 0>(bits) == Number::Nan;
    let canonical = close::<BRAIN, 0>(Number::Nan);
    match (is_nan(a), is_nan(b)) {
        (true, true) => return canonical,
        (true, _) | (_, true) if MODE & PROPAGATE != 0 => return canonical,
        (true, _) => return b,
        (_, true) => return a,
        _ => {}
    }
    let (x, y, sign) = if MODE & XOR_SIGN != 0 {
        (a & !SIGN, b & !SIGN, (a ^ b) & SIGN)
    } else {
        (a, b, 0)
    };
    // Ordered as integers once negative numbers count downwards.
    let key = |bits: u16| if bits & SIGN != 0 { !bits } else { bits | SIGN };
    sign | if (key(x) < key(y)) == (OP == MIN) { x } else { y }
}

fn multiply_add<const BRAIN: bool, const MODE: Mode>(a: u16, b: u16, c: u16) -> u16 {
    let [a, b, c] = [a, b, c].map(open::<BRAIN, MODE>);
    close::<BRAIN, MODE>(soft::add(soft::mul(a, b), c, Rounding::Nearest))
}

/// Applies a function to both halves.
fn both<const N: usize>(words: [u32; N], f: impl Fn([u16; N]) -> u16) -> u32 {
    let low = f(words.map(|word| word as u16));
    let high = f(words.map(|word| (word >> 16) as u16));
    u32::from(high) << 16 | u32::from(low)
}

/// The sum of two values of one of the four half types, one or two in a word, as atomics make it.
pub fn sum(ty: Type, a: u32, b: u32) -> u32 {
    let one = |f: fn(u16, u16) -> u16| u32::from(f(a as u16, b as u16));
    let two = |f: fn(u16, u16) -> u16| both([a, b], |[a, b]| f(a, b));
    match ty {
        Type::F16 => one(apply::<false, ADD, 0>),
        Type::Bf16 => one(apply::<true, ADD, 0>),
        Type::F16x2 => two(apply::<false, ADD, 0>),
        _ => two(apply::<true, ADD, 0>),
    }
}

fn binary_of<const OP: u8, const MODE: Mode>(ty: Type) -> Option<Alu2> {
    Some(match ty {
        Type::F16 => lanes!(|a: u16, b: u16| -> u16 { apply::<false, OP, MODE>(a, b) }),
        Type::Bf16 => lanes!(|a: u16, b: u16| -> u16 { apply::<true, OP, MODE>(a, b) }),
        Type::F16x2 => lanes!(|a: u32, b: u32| -> u32 {
            both([a, b], |[a, b]| apply::<false, OP, MODE>(a, b))
        }),
        Type::Bf16x2 => lanes!(|a: u32, b: u32| -> u32 {
            both([a, b], |[a, b]| apply::<true, OP, MODE>(a, b))
        }),
        _ => return None,
    })
}

fn fused_of<const MODE: Mode>(ty: Type) -> Option<Alu3> {
    Some(match ty {
        Type::F16 => {
            lanes!(|a: u16, b: u16, c: u16| -> u16 { multiply_add::<false, MODE>(a, b, c) })
        }
        Type::Bf16 => {
            lanes!(|a: u16, b: u16, c: u16| -> u16 { multiply_add::<true, MODE>(a, b, c) })
        }
        Type::F16x2 => lanes!(|a: u32, b: u32, c: u32| -> u32 {
            both([a, b, c], |[a, b, c]| multiply_add::<false, MODE>(a, b, c))
        }),
        Type::Bf16x2 => lanes!(|a: u32, b: u32, c: u32| -> u32 {
            both([a, b, c], |[a, b, c]| multiply_add::<true, MODE>(a, b, c))
        }),
        _ => return None,
    })
}

/// The function for a mode, of those that are allowed; `$M` is the mode, a constant.
macro_rules! of_mode {
    ($mode:expr, $M:ident in [$($allowed:expr),+ $(,)?], $e:expr) => {
        match $mode {
            $(mode if mode == $allowed => {
                const $M: Mode = $allowed;
                $e
            })+
            _ => return Err("these modifiers do not go together".to_owned()),
        }
    };
}

/// Reads the modifiers, of which `.ftz` and `.sat` are for half precision only.
fn read(modifiers: &mut Modifiers<'_>, words: &[(&str, Mode)]) -> Result<(Mode, Type), String> {
    match modifiers.rounding() {
        None | Some(Rounding::Nearest) => {}
        Some(_) => return Err("half precision only rounds to nearest".to_owned()),
    }
    let mode = words.iter().filter(|(word, _)| modifiers.flag(word)).fold(0, |all, (_, m)| all | m);
    let ty = modifiers.ty()?;
    if matches!(ty, Type::Bf16 | Type::Bf16x2) && mode & (FLUSH | SATURATE) != 0 {
        return Err(format!("'.ftz' and '.sat' are not allowed on '.{}'", ty.name()));
    }
    Ok((mode, ty))
}

fn binary(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let compares = matches!(opcode, "min" | "max");
    let words: &[_] = if compares {
        modifiers.ignore(|word| word == "abs");
        &[("ftz", FLUSH), ("NaN", PROPAGATE), ("xorsign", XOR_SIGN)]
    } else {
        &[("ftz", FLUSH), ("sat", SATURATE)]
    };
    let (mode, ty) = read(modifiers, words)?;
    macro_rules! sum {
        ($OP:ident) => {
            of_mode!(mode, M in [0, FLUSH, SATURATE, FLUSH | SATURATE], binary_of::<$OP, M>(ty))
        };
    }
    macro_rules! extreme {
        ($OP:ident) => {
            of_mode!(
                mode,
                M in [
                    0,
                    FLUSH,
                    PROPAGATE,
                    FLUSH | PROPAGATE,
                    XOR_SIGN,
                    FLUSH | XOR_SIGN,
                    PROPAGATE | XOR_SIGN,
                    FLUSH | PROPAGATE | XOR_SIGN,
                ],
                binary_of::<$OP, M>(ty)
            )
        };
    }
    let function = match opcode {
        "add" => sum!(ADD),
        "sub" => sum!(SUB),
        "mul" => sum!(MUL),
        "min" => extreme!(MIN),
        _ => extreme!(MAX),
    };
    Ok(Alu::two(function.ok_or_else(|| no_type(ty))?, ty, ty, ty))
}

fn fused(modifiers: &mut Modifiers<'_>) -> Selection {
    let (mode, ty) =
        read(modifiers, &[("ftz", FLUSH), ("sat", SATURATE), ("relu", POSITIVE)])?;
    let function = of_mode!(
        mode,
        M in [0, FLUSH, SATURATE, FLUSH | SATURATE, POSITIVE, FLUSH | POSITIVE],
        fused_of::<M>(ty)
    );
    Ok(Alu::three(function.ok_or_else(|| no_type(ty))?, ty, ty, ty, ty))
}

fn sign(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    let (mode, ty) = read(modifiers, &[("ftz", FLUSH)])?;
    let function: Alu1 = match (ty, opcode, mode) {
        (Type::F16 | Type::Bf16, "abs", 0) => lanes!(|a: u16| -> u16 { a & !SIGN }),
        (Type::F16 | Type::Bf16, _, 0) => lanes!(|a: u16| -> u16 { a ^ SIGN }),
        (Type::F16x2 | Type::Bf16x2, "abs", 0) => lanes!(|a: u32| -> u32 { a & 0x7fff_7fff }),
        (Type::F16x2 | Type::Bf16x2, _, 0) => lanes!(|a: u32| -> u32 { a ^ 0x8000_8000 }),
        (Type::F16, "abs", _) => lanes!(|a: u16| -> u16 { flush::<FLUSH>(a) & !SIGN }),
        (Type::F16, ..) => lanes!(|a: u16| -> u16 { flush::<FLUSH>(a) ^ SIGN }),
        (_, "abs", _) => {
            lanes!(|a: u32| -> u32 { both([a], |[a]| flush::<FLUSH>(a)) & 0x7fff_7fff })
        }
        _ => lanes!(|a: u32| -> u32 { both([a], |[a]| flush::<FLUSH>(a)) ^ 0x8000_8000 }),
    };
    Ok(Alu::one(function, ty, ty))
}

/// A function computed in double precision and rounded once.
fn rounded<const BRAIN: bool>(bits: u16, f: fn(f64) -> f64) -> u16 {
    let format = format::<BRAIN>();
    let value = f64::from_bits(soft::convert(format, soft::F64, u64::from(bits), Rounding::Nearest));
    real(format, nan::double(f(value)))
}

fn approximate(opcode: &str, modifiers: &mut Modifiers<'_>) -> Selection {
    if !modifiers.flag("approx") {
        return Err("'.approx' is missing".to_owned());
    }
    let flush = modifiers.flag("ftz");
    let ty = modifiers.ty()?;
    // `bf16` has the range of single precision, whose subnormals `ex2` flushes.
    let wants_flush = opcode == "ex2" && matches!(ty, Type::Bf16 | Type::Bf16x2);
    if flush != wants_flush {
        return Err("'.ftz' goes with 'ex2' of bf16, and with it alone".to_owned());
    }
    let function: Alu1 = match (ty, opcode) {
        (Type::F16, "ex2") => lanes!(|a: u16| -> u16 { rounded::<false>(a, f64::exp2) }),
        (Type::F16, _) => lanes!(|a: u16| -> u16 { rounded::<false>(a, f64::tanh) }),
        (Type::F16x2, "ex2") => {
            lanes!(|a: u32| -> u32 { both([a], |[a]| rounded::<false>(a, f64::exp2)) })
        }
        (Type::F16x2, _) => {
            lanes!(|a: u32| -> u32 { both([a], |[a]| rounded::<false>(a, f64::tanh)) })
        }
        (Type::Bf16, "ex2") => lanes!(|a: u16| -> u16 { brain_exponential(a) }),
        (Type::Bf16, _) => lanes!(|a: u16| -> u16 { rounded::<true>(a, f64::tanh) }),
        (Type::Bf16x2, "ex2") => {
            lanes!(|a: u32| -> u32 { both([a], |[a]| brain_exponential(a)) })
        }
        (Type::Bf16x2, _) => {
            lanes!(|a: u32| -> u32 { both([a], |[a]| rounded::<true>(a, f64::tanh)) })
        }
        _ => return Err(no_type(ty)),
    };
    Ok(Alu::one(function, ty, ty))
}

fn brain_exponential(bits: u16) -> u16 {
    let flushed = |bits: u16| if bits & 0x7f80 == 0 { bits & SIGN } else { bits };
    flushed(rounded::<true>(flushed(bits), f64::exp2))
}
