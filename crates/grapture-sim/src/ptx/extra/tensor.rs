//! Products of matrices.
//!
//! Sums of floating-point products are made as a tensor core makes them: all products and the addend
//! are aligned to the largest of them, what lies too far below is cut off, and the sum is exact.

use super::fragment::Fragment;
use super::numbers::{Element, Finite, Number};
use super::{Env, Operands};
use crate::ptx::alu::nan;
use crate::ptx::alu::softfloat::{self as soft, Rounding};

/// Bits behind the point of the largest term that are kept of every term.
const KEPT: i32 = 25;

/// The type of what is added and of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the PTX type of the same name
pub enum Accumulator {
    F16,
    F32,
    F64,
    S32,
}

impl Accumulator {
    /// The type that a dotted word names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "f16" => Self::F16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Self::F16 => 16,
            Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
        }
    }
}

/// How single bits are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitProduct {
    /// Exclusive or.
    Xor,
    /// And.
    And,
}

/// `d = a * b + c`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mma {
    /// The types of the factors.
    pub types: [Element; 2],
    /// The types of `c` and `d`.
    pub sums: [Accumulator; 2],
    /// How `a`, `b`, `c` and `d` lie in registers.
    pub fragments: [Fragment; 4],
    /// How many registers `a`, `b` and `c` take.
    pub registers: [u8; 3],
    /// Whether an integer that is too large is clamped.
    pub saturate: bool,
    /// How single bits are multiplied.
    pub bits: BitProduct,
    /// How many floating-point products are summed at once; the sums follow each other.
    pub at_once: u8,
}

impl Mma {
    pub(super) fn run(&self, env: &mut Env<'_, '_>, operands: Operands<'_>, mask: u32) {
        let [a, b, c, d] = self.fragments;
        let (left, rest) = operands.reads.split_at(usize::from(self.registers[0]));
        let (right, add) = rest.split_at(usize::from(self.registers[1]));
        let (left, right) = (a.gather(env, left), b.gather(env, right));
        let add = c.gather(env, add);
        let mut result = Vec::with_capacity(add.len());
        for (index, add) in add.iter().enumerate() {
            let (row, column) = (index / c.columns as usize, index % c.columns as usize);
            let pairs = (0..a.columns as usize).map(|k| {
                let at = |list: &[u64], index| list.get(index).copied().unwrap_or(0);
                let x = at(&left, row * a.columns as usize + k);
                (x, at(&right, k * b.columns as usize + column))
            });
            result.push(self.element(pairs, *add));
        }
        d.scatter(env, operands.writes, &result, mask);
    }

    /// One element of the result.
    fn element(&self, pairs: impl Iterator<Item = (u64, u64)>, add: u64) -> u64 {
        let [a, b] = self.types;
        if a.is_integer() {
            return self.whole(pairs, add);
        }
        if a == Element::F64 {
            let sum = pairs.fold(f64::from_bits(add), |sum, (x, y)| {
                let (x, y) = (f64::from_bits(x), f64::from_bits(y));
                nan::double3(x.mul_add(y, sum), x, y, sum)
            });
            return sum.to_bits();
        }
        let open = |sum, bits: u64| match sum {
            Accumulator::F16 => Number::open(bits as u32, 10, 5),
            _ => Number::open(bits as u32, 23, 8),
        };
        let products: Vec<Number> = pairs.map(|(x, y)| a.number(x).times(b.number(y))).collect();
        let mut add = open(self.sums[0], add);
        let mut bits = 0;
        for some in products.chunks(usize::from(self.at_once)) {
            let sum = total(&[some, &[add]].concat());
            bits = match self.sums[1] {
                Accumulator::F16 => soft::pack(soft::F16, sum, Rounding::Nearest),
                _ => soft::pack(soft::F32, bounded(sum), Rounding::Zero),
            };
            add = open(self.sums[1], bits);
        }
        bits
    }

    fn whole(&self, pairs: impl Iterator<Item = (u64, u64)>, add: u64) -> u64 {
        let [a, b] = self.types;
        let product = |(x, y): (u64, u64)| match (a, self.bits) {
            (Element::B1, BitProduct::Xor) => (x ^ y) as i64,
            (Element::B1, BitProduct::And) => (x & y) as i64,
            _ => a.integer(x) * b.integer(y),
        };
        let sum = pairs.map(product).sum::<i64>() + i64::from(add as i32);
        let sum = if self.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
        u64::from(sum as u32)
    }
}

/// A number, or an infinity if it is too large for single precision.
fn bounded(sum: soft::Number) -> soft::Number {
    match sum {
        soft::Number::Finite(finite)
            if finite.exponent + 127 - finite.significand.leading_zeros() as i32 >= 128 =>
        {
            soft::Number::Infinity(finite.negative)
        }
        sum => sum,
    }
}

/// The sum of some numbers, with what lies too far below the largest cut off each.
fn total(terms: &[Number]) -> soft::Number {
    let mut infinite = None;
    let mut finite: Vec<Finite> = Vec::with_capacity(terms.len());
    for term in terms {
        match *term {
            Number::Nan => return soft::Number::Nan,
            Number::Infinity(sign) if infinite.is_some_and(|known| known != sign) => {
                return soft::Number::Nan;
            }
            Number::Infinity(sign) => infinite = Some(sign),
            Number::Finite(number) => finite.push(number),
        }
    }
    if let Some(sign) = infinite {
        return soft::Number::Infinity(sign);
    }
    let nonzero = || finite.iter().filter(|term| term.significand != 0);
    let top = nonzero().map(|term| term.exponent).max().unwrap_or(0);
    let sum: i64 = nonzero().map(|term| aligned(term, top)).sum();
    soft::Number::Finite(soft::Finite {
        negative: sum < 0,
        exponent: top - KEPT,
        significand: u128::from(sum.unsigned_abs()),
        more: false,
    })
}

/// A number in units of the last bit that is kept, towards zero.
fn aligned(term: &Finite, top: i32) -> i64 {
    let shift = term.exponent - top + KEPT - term.fraction;
    let magnitude = if shift >= 0 {
        term.significand << shift.min(40)
    } else {
        term.significand >> shift.unsigned_abs().min(63)
    };
    if term.negative { -(magnitude as i64) } else { magnitude as i64 }
}
