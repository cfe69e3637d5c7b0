//! [`Value`]: what an operand holds, and the values that are worth a try.

/// What an operand holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Pred,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
    /// A shift amount, a position or a length of bits.
    Amount,
}

impl Value {
    /// What an operand of a PTX type holds. Eight bits live in a register of 16.
    pub fn of(ty: &str) -> Self {
        match ty {
            "pred" => Self::Pred,
            "u8" | "s8" | "b8" | "u16" | "s16" | "b16" => Self::I16,
            "u32" | "s32" | "b32" | "u16x2" | "s16x2" => Self::I32,
            "u64" | "s64" | "b64" => Self::I64,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "amount" => Self::Amount,
            other => panic!("no type {other}"),
        }
    }

    /// The bits of its register; those of a predicate are those of the word that it comes from.
    pub fn bits(self) -> u32 {
        match self {
            Self::I16 | Self::F16 | Self::Bf16 => 16,
            Self::I64 | Self::F64 => 64,
            _ => 32,
        }
    }

    /// The bytes that a result of it takes in a record.
    pub fn bytes(self) -> usize {
        if self == Self::Pred { 1 } else { self.bits() as usize / 8 }
    }

    /// The values where something may change.
    pub fn edges(self) -> Vec<u64> {
        match self {
            Self::Pred => vec![0, 1],
            Self::I16 | Self::I32 | Self::I64 => integers(self.bits()),
            Self::Amount => (0..=70).chain([127, 128, 129, 255, 256, 257, 0xffff_ffff]).collect(),
            Self::F16x2 => pairs(&Self::F16.edges()),
            Self::Bf16x2 => pairs(&Self::Bf16.edges()),
            Self::F16 => numbers(HALF),
            Self::Bf16 => numbers(BRAIN),
            Self::F32 => numbers(SINGLE),
            Self::F64 => numbers(DOUBLE),
        }
    }

    /// NaNs, infinities, zeros and the like, of the types that have them.
    pub fn specials(self) -> Vec<u64> {
        match self {
            Self::F16 => specials(HALF),
            Self::Bf16 => specials(BRAIN),
            Self::F32 => specials(SINGLE),
            Self::F64 => specials(DOUBLE),
            Self::F16x2 => pairs(&specials(HALF)),
            Self::Bf16x2 => pairs(&specials(BRAIN)),
            _ => self.edges(),
        }
    }

    /// A value made of random bits, such that all orders of magnitude come up.
    pub fn random(self, next: &mut impl FnMut() -> u64) -> u64 {
        match self {
            Self::Pred => next() >> 63,
            Self::I16 | Self::I32 | Self::I64 => random_integer(self.bits(), next),
            Self::Amount => next() >> 58,
            Self::F16x2 => Self::F16.random(next) << 16 | Self::F16.random(next),
            Self::Bf16x2 => Self::Bf16.random(next) << 16 | Self::Bf16.random(next),
            Self::F16 => random_number(HALF, next),
            Self::Bf16 => random_number(BRAIN, next),
            Self::F32 => random_number(SINGLE, next),
            Self::F64 => random_number(DOUBLE, next),
        }
    }
}

/// Bits of the exponent and of the stored mantissa.
type Format = (u32, u32);
const HALF: Format = (5, 10);
const BRAIN: Format = (8, 7);
const SINGLE: Format = (8, 23);
const DOUBLE: Format = (11, 52);

fn integers(bits: u32) -> Vec<u64> {
    let all = u64::MAX >> (64 - bits);
    let sign = 1 << (bits - 1);
    let mut list = vec![0, 1, 2, 3, 7, 0x7f, 0x80, 0xff, 0x100, 0x1234, 0x7fff, 0x8000];
    list.extend([all, all - 1, all - 6, sign, sign + 1, sign - 1, sign - 2, sign | sign >> 1]);
    if bits > 16 {
        list.extend([0xffff, 0x1_0000, 0x00ff_ffff, 0x0080_0000, 0x7654_3210, 0xfedc_ba98]);
    }
    if bits > 32 {
        list.extend([0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, 1 << 53, (1 << 53) + 1]);
    }
    list
}

fn random_integer(bits: u32, next: &mut impl FnMut() -> u64) -> u64 {
    let all = u64::MAX >> (64 - bits);
    let shape = next();
    let value = (next() & all) >> ((shape >> 8) % u64::from(bits));
    match shape & 7 {
        0 => !value & all,
        1 => value.wrapping_neg() & all,
        2 => next() & next() & all,
        3 | 4 => next() & all,
        _ => value,
    }
}

/// Numbers given as doubles: integers and halves around the limits of the integer types, and what
/// lies half-way between two numbers of a smaller format.
fn landmarks() -> Vec<f64> {
    let mut list = vec![0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 10.0, 100.5];
    for power in [7, 8, 15, 16, 31, 32, 63, 64] {
        let limit = 2_f64.powi(power);
        list.extend([limit, limit - 0.5, limit - 1.0, limit + 0.5]);
    }
    for (mantissa, lowest, highest) in
        [(2, -16, 15), (3, -9, 8), (10, -24, 15), (7, -133, 127), (23, -149, 127)]
    {
        let (ulp, least) = (2_f64.powi(-mantissa), 2_f64.powi(lowest));
        list.extend([1.0 + ulp / 2.0, 1.0 + 1.5 * ulp, 1.0 + 0.75 * ulp, 1.0 + 0.5001 * ulp]);
        list.extend([least, least / 2.0, 1.5 * least, 0.5001 * least, 0.25 * least]);
        let top = 2_f64.powi(highest);
        list.extend([
            top * (2.0 - ulp),
            top * (2.0 - ulp / 2.0),
            top * (2.0 - ulp * 0.75),
            top * 1.75,
        ]);
    }
    list.extend([448.0, 464.0, 465.0, 480.0, 57344.0, 61440.0, 61441.0, 65504.0, 65519.0, 65520.0]);
    list
}

/// The edges of a format, with both signs.
fn numbers(format @ (exponent, mantissa): Format) -> Vec<u64> {
    let one = (1 << (exponent - 1)) - 1;
    let ulp = |exponent: u64, mantissa_bits: u64| exponent << mantissa | mantissa_bits;
    let (ones, quiet) = ((1_u64 << mantissa) - 1, 1_u64 << (mantissa - 1));
    let top = (1 << exponent) - 1;
    let mut list = vec![0, 1, 2, 3, quiet, ones, ones - 1, ulp(1, 0), ulp(1, 1), ulp(2, 0)];
    list.extend([ulp(one, 0), ulp(one, 1), ulp(one - 1, ones), ulp(top - 1, ones)]);
    list.extend([ulp(top - 1, 0), ulp(top, 0), ulp(top, 1), ulp(top, quiet), ulp(top, ones)]);
    list.extend([ulp(top, quiet | 5), ulp(top, quiet - 1), ulp(one, 0), ulp(one + 1, 0)]);
    list.extend(landmarks().into_iter().map(|value| narrowed(format, value)));
    let sign = 1 << (exponent + mantissa);
    list.extend(list.clone().iter().map(|bits| bits | sign));
    list.sort_unstable();
    list.dedup();
    list
}

/// Quiet and signalling NaNs with payloads, infinities, zeros, one and the least subnormal.
fn specials((exponent, mantissa): Format) -> Vec<u64> {
    let infinity = ((1 << exponent) - 1) << mantissa;
    let quiet = infinity | 1 << (mantissa - 1);
    let one = ((1 << (exponent - 1)) - 1) << mantissa;
    let list = [infinity, infinity | 1, infinity | 6, quiet, quiet | 3, 0, 1, one];
    let sign = 1 << (exponent + mantissa);
    list.into_iter().flat_map(|bits| [bits, bits | sign]).collect()
}

/// A double cut down to a format, towards zero.
fn narrowed((exponent, mantissa): Format, value: f64) -> u64 {
    let bits = value.to_bits();
    let bias = |bits: u32| (1_i64 << (bits - 1)) - 1;
    let power = (bits >> 52) as i64 - bias(11) + bias(exponent);
    let fraction = bits & ((1 << 52) - 1);
    if power >= (1 << exponent) - 1 {
        ((1 << exponent) - 1) << mantissa
    } else if power > 0 {
        (power as u64) << mantissa | fraction >> (52 - mantissa)
    } else {
        (fraction | 1 << 52).checked_shr((53 - i64::from(mantissa) - power) as u32).unwrap_or(0)
    }
}

fn random_number((exponent, mantissa): Format, next: &mut impl FnMut() -> u64) -> u64 {
    let one = (1_u64 << (exponent - 1)) - 1;
    let (shape, bits) = (next(), next());
    let sign = (shape >> 63) << (exponent + mantissa);
    let fraction = bits & ((1 << mantissa) - 1);
    let near = one.wrapping_add_signed((shape >> 8 & 15) as i64 - 7);
    sign | match shape & 7 {
        // Anything at all, NaNs among it.
        0 | 1 => bits & ((1 << (exponent + mantissa)) - 1),
        // Subnormal.
        2 => fraction >> (shape >> 16 & 7),
        // About one, with few or all bits.
        3 => near << mantissa | fraction & next() & next(),
        _ => near << mantissa | fraction,
    }
}

fn pairs(edges: &[u64]) -> Vec<u64> {
    // Each edge once in the lower half, next to another that has nothing to do with it.
    let count = edges.len();
    (0..count).map(|at| edges[(at * 37 + 11) % count] << 16 | edges[at]).collect()
}
