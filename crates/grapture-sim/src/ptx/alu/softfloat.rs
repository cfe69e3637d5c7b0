//! Exact binary floating point in any rounding mode, for what the host's own arithmetic,
//! which only rounds to nearest, cannot give.

use super::nan;

/// How a result that is not representable is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to even.
    Nearest,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// To the nearest, ties away from zero.
    NearestAway,
}

/// A binary interchange format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the stored mantissa.
    mantissa: u32,
    /// Bits of the exponent.
    exponent: u32,
    /// Its canonical NaN.
    nan: u64,
}

/// Half precision.
pub const F16: Format = Format { mantissa: 10, exponent: 5, nan: nan::HALF as u64 };
/// The short form of single precision.
pub const BF16: Format = Format { mantissa: 7, exponent: 8, nan: nan::BRAIN as u64 };
/// Single precision.
pub const F32: Format = Format { mantissa: 23, exponent: 8, nan: nan::SINGLE as u64 };
/// Double precision.
pub const F64: Format = Format { mantissa: 52, exponent: 11, nan: nan::DOUBLE };

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    fn sign(self, negative: bool) -> u64 {
        u64::from(negative) << (self.mantissa + self.exponent)
    }
}

/// A number taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Not a number.
    Nan,
    /// An infinity; `true` when negative.
    Infinity(bool),
    /// A finite number.
    Finite(Finite),
}

/// `significand * 2^exponent`, plus a little less than one unit of it when `more`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finite {
    /// Whether it is negative.
    pub negative: bool,
    /// The power of two.
    pub exponent: i32,
    /// The integer part, zero for a zero.
    pub significand: u128,
    /// Whether a positive part below the significand was dropped.
    pub more: bool,
}

impl Finite {
    fn exact(negative: bool, exponent: i32, significand: u128) -> Self {
        Self { negative, exponent, significand, more: false }
    }

    /// An integer.
    pub fn integer(negative: bool, magnitude: u64) -> Self {
        Self::exact(negative, 0, u128::from(magnitude))
    }

    /// The same number with its highest bit at bit 125, exactly; the significand is below 2^126.
    fn raised(self) -> Self {
        let shift = self.significand.leading_zeros().saturating_sub(2).min(127);
        Self {
            significand: self.significand << shift,
            exponent: self.exponent - shift as i32,
            ..self
        }
    }
}

/// Takes a number apart.
pub fn unpack(format: Format, bits: u64) -> Number {
    let negative = bits >> (format.mantissa + format.exponent) & 1 != 0;
    let fraction = bits & ((1 << format.mantissa) - 1);
    let biased = (bits >> format.mantissa & ((1 << format.exponent) - 1)) as i32;
    let lowest = 1 - format.bias() - format.mantissa as i32;
    if biased == (1 << format.exponent) - 1 {
        return if fraction != 0 { Number::Nan } else { Number::Infinity(negative) };
    }
    Number::Finite(if biased == 0 {
        Finite::exact(negative, lowest, u128::from(fraction))
    } else {
        Finite::exact(negative, lowest + biased - 1, u128::from(fraction | 1 << format.mantissa))
    })
}

/// Puts a number together, rounded.
pub fn pack(format: Format, number: Number, rounding: Rounding) -> u64 {
    match number {
        Number::Nan => format.nan,
        Number::Infinity(negative) => format.sign(negative) | format.infinity(),
        Number::Finite(finite) => pack_finite(format, finite, rounding),
    }
}

fn pack_finite(format: Format, finite: Finite, rounding: Rounding) -> u64 {
    let sign = format.sign(finite.negative);
    if finite.significand == 0 && !finite.more {
        return sign;
    }
    let highest = finite.exponent + 127 - finite.significand.leading_zeros() as i32;
    let exponent = highest.max(1 - format.bias());
    let lowest = exponent - format.mantissa as i32;
    let rounded = shift_rounded(finite, lowest, rounding);
    let biased = u64::try_from(exponent + format.bias()).unwrap_or(1);
    let largest = format.infinity() - 1;
    let encoded = if biased >= 1 << format.exponent {
        largest + 1
    } else {
        ((biased - 1) << format.mantissa) + rounded as u64
    };
    if encoded <= largest {
        return sign | encoded;
    }
    let to_infinity = match rounding {
        Rounding::Nearest | Rounding::NearestAway => true,
        Rounding::Zero => false,
        Rounding::Down => finite.negative,
        Rounding::Up => !finite.negative,
    };
    sign | if to_infinity { largest + 1 } else { largest }
}

/// The magnitude in units of `2^lowest`, rounded to an integer.
pub fn shift_rounded(finite: Finite, lowest: i32, rounding: Rounding) -> u128 {
    let shift = lowest - finite.exponent;
    if shift <= 0 {
        return finite.significand.checked_shl(shift.unsigned_abs()).unwrap_or(0);
    }
    let shift = shift.unsigned_abs();
    let (whole, below, half) = if shift > 127 {
        (0, u128::from(finite.significand != 0), 2)
    } else {
        let whole = finite.significand >> shift;
        (whole, finite.significand - (whole << shift), 1_u128 << (shift - 1))
    };
    let inexact = below != 0 || finite.more;
    let up = match rounding {
        Rounding::Zero => false,
        Rounding::Down => finite.negative && inexact,
        Rounding::Up => !finite.negative && inexact,
        Rounding::NearestAway => below >= half,
        Rounding::Nearest => below > half || (below == half && (finite.more || whole & 1 != 0)),
    };
    whole + u128::from(up)
}

/// Whether a number is a zero.
fn is_zero(finite: Finite) -> bool {
    finite.significand == 0
}

/// The sum.
pub fn add(a: Number, b: Number, rounding: Rounding) -> Number {
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity(x), Number::Infinity(y)) if x != y => Number::Nan,
        (Number::Infinity(x), _) | (_, Number::Infinity(x)) => Number::Infinity(x),
        (Number::Finite(x), Number::Finite(y)) => Number::Finite(add_finite(x, y, rounding)),
    }
}

fn add_finite(a: Finite, b: Finite, rounding: Rounding) -> Finite {
    if is_zero(a) && is_zero(b) {
        let negative =
            if a.negative == b.negative { a.negative } else { rounding == Rounding::Down };
        return Finite::exact(negative, 0, 0);
    }
    if is_zero(a) {
        return b;
    }
    if is_zero(b) {
        return a;
    }
    let (a, b) = (a.raised(), b.raised());
    let (high, low) =
        if (a.exponent, a.significand) >= (b.exponent, b.significand) { (a, b) } else { (b, a) };
    let shift = (high.exponent - low.exponent).unsigned_abs();
    let shifted = low.significand.checked_shr(shift).unwrap_or(0);
    let more = shift > 127 || shifted << shift != low.significand;
    if high.negative == low.negative {
        return Finite { significand: high.significand + shifted, more, ..high };
    }
    let significand = high.significand - shifted - u128::from(more);
    if significand == 0 && !more {
        return Finite::exact(rounding == Rounding::Down, 0, 0);
    }
    Finite { significand, more, ..high }
}

/// The product, exact.
pub fn mul(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity(x), Number::Infinity(y)) => Number::Infinity(x != y),
        (Number::Infinity(x), Number::Finite(y)) | (Number::Finite(y), Number::Infinity(x)) => {
            if is_zero(y) {
                Number::Nan
            } else {
                Number::Infinity(x != y.negative)
            }
        }
        (Number::Finite(x), Number::Finite(y)) => Number::Finite(Finite::exact(
            x.negative != y.negative,
            x.exponent + y.exponent,
            x.significand * y.significand,
        )),
    }
}

/// The quotient.
pub fn div(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) | (Number::Infinity(_), Number::Infinity(_)) => {
            Number::Nan
        }
        (Number::Infinity(x), Number::Finite(y)) => Number::Infinity(x != y.negative),
        (Number::Finite(x), Number::Infinity(y)) => {
            Number::Finite(Finite::exact(x.negative != y, 0, 0))
        }
        (Number::Finite(x), Number::Finite(y)) => {
            let negative = x.negative != y.negative;
            match (is_zero(x), is_zero(y)) {
                (true, true) => Number::Nan,
                (true, false) => Number::Finite(Finite::exact(negative, 0, 0)),
                (false, true) => Number::Infinity(negative),
                (false, false) => {
                    let raised = x.raised();
                    let significand = raised.significand / y.significand;
                    let more = significand * y.significand != raised.significand;
                    let exponent = raised.exponent - y.exponent;
                    Number::Finite(Finite { negative, exponent, significand, more })
                }
            }
        }
    }
}

/// The square root.
pub fn sqrt(a: Number) -> Number {
    match a {
        Number::Nan | Number::Infinity(true) => Number::Nan,
        Number::Infinity(false) => a,
        Number::Finite(x) if is_zero(x) => a,
        Number::Finite(x) if x.negative => Number::Nan,
        Number::Finite(x) => {
            let mut raised = x.raised();
            if raised.exponent & 1 != 0 {
                raised.significand <<= 1;
                raised.exponent -= 1;
            }
            let significand = raised.significand.isqrt();
            let more = significand * significand != raised.significand;
            Number::Finite(Finite {
                negative: false,
                exponent: raised.exponent / 2,
                significand,
                more,
            })
        }
    }
}

/// A double's NaN in another format: quiet, with as much of its payload as there is room for.
pub fn narrowed_nan(to: Format, bits: u64) -> u64 {
    let quiet = bits | 1 << (F64.mantissa - 1);
    let payload = (quiet & ((1 << F64.mantissa) - 1)) >> (F64.mantissa - to.mantissa);
    to.sign(bits >> 63 != 0) | to.infinity() | payload
}

/// The number rounded to an integer of `width` bits, clamped to its range; `None` for a NaN.
pub fn to_integer(number: Number, width: u32, signed: bool, rounding: Rounding) -> Option<u64> {
    let mask = u64::MAX >> (64 - width);
    let top = if signed { mask >> 1 } else { mask };
    let bottom = if signed { (!top) & mask } else { 0 };
    let finite = match number {
        Number::Nan => return None,
        Number::Infinity(negative) => return Some(if negative { bottom } else { top }),
        Number::Finite(finite) => finite,
    };
    if finite.exponent > 64 && finite.significand != 0 {
        return Some(if finite.negative { bottom } else { top });
    }
    let magnitude = shift_rounded(finite, 0, rounding);
    if !finite.negative {
        return Some(u64::try_from(magnitude).unwrap_or(u64::MAX).min(top));
    }
    let limit = if signed { u128::from(top) + 1 } else { 0 };
    Some(if magnitude >= limit { bottom } else { (magnitude as u64).wrapping_neg() & mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let special = [
            0,
            1 << 63,
            1,
            0x7ff0 << 48,
            0x7fef_ffff_ffff_ffff,
            0x0010 << 48,
            0x000f_ffff_ffff_ffff,
            0x3ff0 << 48,
        ];
        special.into_iter().chain(std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Half of them close to one, so that sums and products are not all trivial.
            if state & 1 == 0 { state } else { state & !(0x7f << 56) | 0x3f << 56 }
        }))
    }

    #[test]
    fn nearest_agrees_with_the_host() {
        let list: Vec<u64> = numbers().take(1500).collect();
        for pair in list.windows(3) {
            let (a, b, c) =
                (f64::from_bits(pair[0]), f64::from_bits(pair[1]), f64::from_bits(pair[2]));
            let [x, y, z] = [0, 1, 2].map(|i| unpack(F64, pair[i]));
            let check = |what: &str, soft: Number, host: f64| {
                let bits = pack(F64, soft, Rounding::Nearest);
                assert_eq!(
                    bits,
                    nan::double(host, 0.0).to_bits(),
                    "{what} {a:e} {b:e} {c:e}: {:e}",
                    f64::from_bits(bits)
                );
            };
            check("add", add(x, y, Rounding::Nearest), a + b);
            check("mul", mul(x, y), a * b);
            check("div", div(x, y), a / b);
            check("sqrt", sqrt(x), a.sqrt());
            check("fma", add(mul(x, y), z, Rounding::Nearest), a.mul_add(b, c));
            let single = pack(F32, unpack(F64, pair[0]), Rounding::Nearest);
            assert_eq!(single, u64::from(nan::single(a as f32).to_bits()));
            if let Some(integer) = to_integer(x, 32, true, Rounding::Zero) {
                assert_eq!(integer as u32 as i32, a as i32);
            }
            if let Some(integer) = to_integer(x, 64, false, Rounding::Zero) {
                assert_eq!(integer, a as u64);
            }
        }
    }

    #[test]
    fn directed_modes_enclose_the_exact_result() {
        let list: Vec<u64> = numbers().take(1500).collect();
        for pair in list.windows(2) {
            let (x, y) = (unpack(F64, pair[0]), unpack(F64, pair[1]));
            for operation in [|x, y| div(x, y), |x, y| mul(x, y)] {
                let round = |mode| f64::from_bits(pack(F64, operation(x, y), mode));
                let (down, up, near) =
                    (round(Rounding::Down), round(Rounding::Up), round(Rounding::Nearest));
                if near.is_nan() {
                    continue;
                }
                assert!(down <= near && near <= up);
                assert!(
                    down == up || down.next_up() == up || (down == 0.0 && up == f64::from_bits(1))
                );
                let zero = round(Rounding::Zero);
                assert!(zero == if near.is_sign_negative() { up } else { down });
            }
        }
    }
}
