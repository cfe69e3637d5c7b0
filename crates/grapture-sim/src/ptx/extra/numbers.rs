//! The numbers that tensor cores multiply.

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the PTX type of the same name
pub enum Element {
    F16,
    Bf16,
    Tf32,
    F64,
    S8,
    U8,
    S4,
    U4,
    B1,
}

impl Element {
    /// The type that a dotted word names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f64" => Self::F64,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            "b1" => Self::B1,
            _ => return None,
        })
    }

    /// Bits of an element in a register.
    pub fn bits(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 => 32,
            Self::F64 => 64,
            Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Whether it is an integer.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1)
    }

    /// The value of an integer element.
    pub fn integer(self, bits: u64) -> i64 {
        match self {
            Self::S8 => i64::from(bits as i8),
            Self::S4 => (bits as i64) << 60 >> 60,
            _ => bits as i64,
        }
    }

    /// A floating-point element.
    pub fn number(self, bits: u64) -> Number {
        match self {
            Self::F16 => Number::open(bits as u32, 10, 5),
            Self::Bf16 => Number::open(bits as u32, 7, 8),
            // The lower bits of the register are not looked at.
            _ => Number::open(bits as u32 >> 13, 10, 8),
        }
    }
}

/// `±significand · 2^(exponent - fraction)`, with the exponent of its format: that of a subnormal is
/// the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finite {
    /// Whether it is negative.
    pub negative: bool,
    /// The power of two of the leading bit's place.
    pub exponent: i32,
    /// Its bits.
    pub significand: u64,
    /// How many of them are behind the point.
    pub fraction: i32,
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

impl Number {
    /// Takes apart a number of a format with so many bits of mantissa and exponent.
    pub fn open(bits: u32, mantissa: u32, exponent: u32) -> Self {
        let negative = bits >> (mantissa + exponent) & 1 != 0;
        let fraction = bits & ((1 << mantissa) - 1);
        let top = (1 << exponent) - 1;
        let biased = bits >> mantissa & top;
        if biased == top {
            return if fraction != 0 { Self::Nan } else { Self::Infinity(negative) };
        }
        let hidden = u32::from(biased != 0) << mantissa;
        Self::Finite(Finite {
            negative,
            exponent: biased.max(1) as i32 - (top >> 1) as i32,
            significand: u64::from(fraction | hidden),
            fraction: mantissa as i32,
        })
    }

    /// The product, exact.
    pub fn times(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinity(a), Self::Infinity(b)) => Self::Infinity(a != b),
            (Self::Infinity(sign), Self::Finite(finite))
            | (Self::Finite(finite), Self::Infinity(sign)) => match finite.significand {
                0 => Self::Nan,
                _ => Self::Infinity(sign != finite.negative),
            },
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(Finite {
                negative: a.negative != b.negative,
                exponent: a.exponent + b.exponent,
                significand: a.significand * b.significand,
                fraction: a.fraction + b.fraction,
            }),
        }
    }
}
