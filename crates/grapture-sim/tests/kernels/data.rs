//! Values for the kernels: the same bits on every machine.

/// A scalar type of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    F8,
    Bf16,
    F16,
    F32,
    F64,
    U8,
    U32,
    I16,
    I32,
    I64,
}

/// The names, longer ones before what they end with.
const SCALARS: [(&str, Scalar); 13] = [
    ("fp8_e4m3", Scalar::F8),
    ("f8_e4m3", Scalar::F8),
    ("bf16", Scalar::Bf16),
    ("f16", Scalar::F16),
    ("f32", Scalar::F32),
    ("f64", Scalar::F64),
    ("u64", Scalar::I64),
    ("u32", Scalar::U32),
    ("u8", Scalar::U8),
    ("i64", Scalar::I64),
    ("i32", Scalar::I32),
    ("i16", Scalar::I16),
    ("i8", Scalar::U8),
];

impl Scalar {
    /// The types whose names a text begins with, and the rest of the text.
    pub fn prefixes(text: &str) -> impl Iterator<Item = (Scalar, &str)> {
        SCALARS.iter().filter_map(move |(name, ty)| Some((*ty, text.strip_prefix(name)?)))
    }

    pub fn named(name: &str) -> Option<Scalar> {
        SCALARS.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    pub fn bytes(self) -> usize {
        match self {
            Scalar::F8 | Scalar::U8 => 1,
            Scalar::Bf16 | Scalar::F16 | Scalar::I16 => 2,
            Scalar::F32 | Scalar::U32 | Scalar::I32 => 4,
            Scalar::F64 | Scalar::I64 => 8,
        }
    }

    /// The bits of mantissa and exponent, of a floating-point type.
    fn layout(self) -> Option<(u32, u32)> {
        Some(match self {
            Scalar::F8 => (3, 4),
            Scalar::Bf16 => (7, 8),
            Scalar::F16 => (10, 5),
            Scalar::F32 => (23, 8),
            Scalar::F64 => (52, 11),
            _ => return None,
        })
    }

    /// The bits of a number that the type can hold.
    pub fn encode(self, value: f64) -> u64 {
        let Some((mantissa, exponent)) = self.layout() else {
            return value as i64 as u64;
        };
        if value == 0.0 {
            return 0;
        }
        let bits = value.to_bits();
        let sign = bits >> 63 << (mantissa + exponent);
        let bias = (1_u64 << (exponent - 1)) - 1;
        let rebiased = (bits >> 52 & 0x7ff) + bias - 1023;
        sign | rebiased << mantissa | (bits & ((1 << 52) - 1)) >> (52 - mantissa)
    }

    /// The number that bits stand for; whole numbers exactly up to 2^53.
    pub fn decode(self, bits: u64) -> f64 {
        match self {
            Scalar::U8 | Scalar::U32 => return bits as f64,
            Scalar::I16 => return f64::from(bits as i16),
            Scalar::I32 => return f64::from(bits as i32),
            Scalar::I64 => return bits as i64 as f64,
            Scalar::F32 => return f64::from(f32::from_bits(bits as u32)),
            Scalar::F64 => return f64::from_bits(bits),
            Scalar::F8 | Scalar::Bf16 | Scalar::F16 => {}
        }
        let (mantissa, exponent) = self.layout().unwrap_or((23, 8));
        let bias = (1_i32 << (exponent - 1)) - 1;
        let sign = if bits >> (mantissa + exponent) & 1 != 0 { -1.0 } else { 1.0 };
        let biased = (bits >> mantissa & ((1 << exponent) - 1)) as i32;
        let fraction = (bits & ((1 << mantissa) - 1)) as f64 / f64::from(1 << mantissa);
        if biased == (1 << exponent) - 1 && self != Scalar::F8 {
            return if fraction == 0.0 { sign * f64::INFINITY } else { f64::NAN };
        }
        if biased == 0 {
            return sign * fraction * 2_f64.powi(1 - bias);
        }
        sign * (1.0 + fraction) * 2_f64.powi(biased - bias)
    }

    /// A number between 1/8 and 8, of either sign; any number of an integer type.
    fn moderate(self, random: u64) -> u64 {
        let Some((mantissa, exponent)) = self.layout() else {
            return random;
        };
        let bias = (1_u64 << (exponent - 1)) - 1;
        let biased = bias - 3 + (random >> 8) % 6;
        let sign = (random & 1) << (mantissa + exponent);
        sign | biased << mantissa | random >> 11 & ((1 << mantissa) - 1)
    }
}

impl Scalar {
    /// A number between 2^-12 and 2^12, of either sign; any number of an integer type.
    fn spread(self, random: u64) -> u64 {
        let Some((mantissa, exponent)) = self.layout() else {
            return random;
        };
        let bias = (1_u64 << (exponent - 1)) - 1;
        let biased = bias - 12 + (random >> 8) % 24;
        let sign = (random & 1) << (mantissa + exponent);
        sign | biased << mantissa | random >> 11 & ((1 << mantissa) - 1)
    }
}

/// How a buffer is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    Zero,
    Moderate,
    Wild,
    Whole,
    Bits,
    Below(u64),
    /// As `Moderate`, with exponents further apart.
    Spread,
    /// As `Below`, but the second is the largest number of the type.
    BelowOrNone(u64),
}

/// A repeatable stream of bits.
pub struct Random(u64);

impl Random {
    /// The stream of a name.
    pub fn named(name: &str) -> Random {
        Random(hash(name.as_bytes()) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 3
    }
}

/// The bytes of a buffer.
pub fn fill(random: &mut Random, ty: Scalar, count: usize, how: Filling) -> Vec<u8> {
    let none = match ty {
        Scalar::I64 => i64::MAX as u64,
        Scalar::I32 => i32::MAX as u64,
        Scalar::I16 => i16::MAX as u64,
        _ => u64::MAX,
    };
    let mut bytes = Vec::with_capacity(count * ty.bytes());
    for index in 0..count {
        let drawn = random.next();
        let value = match how {
            Filling::Zero => 0,
            Filling::Moderate => ty.moderate(drawn),
            Filling::Wild if drawn & 3 == 0 => drawn >> 2 ^ random.next() << 20,
            Filling::Wild => ty.moderate(drawn >> 2),
            Filling::Spread => ty.spread(drawn),
            Filling::Whole => ty.encode((drawn % 8) as f64),
            Filling::Bits => drawn >> 5 & 1,
            Filling::BelowOrNone(_) if index == 1 => none,
            Filling::Below(end) | Filling::BelowOrNone(end) => drawn % end,
        };
        bytes.extend_from_slice(&value.to_le_bytes()[..ty.bytes()]);
    }
    bytes
}

/// A type of quantised blocks: values and bytes of a block, and where scales lie in it.
#[derive(Clone, Copy, Debug)]
pub struct Quant {
    pub name: &'static str,
    values: usize,
    bytes: usize,
    halves: &'static [usize],
}

const QUANTS: [Quant; 12] = [
    Quant { name: "q4_0", values: 32, bytes: 18, halves: &[0] },
    Quant { name: "q4_1", values: 32, bytes: 20, halves: &[0, 2] },
    Quant { name: "q5_0", values: 32, bytes: 22, halves: &[0] },
    Quant { name: "q5_1", values: 32, bytes: 24, halves: &[0, 2] },
    Quant { name: "q8_0", values: 32, bytes: 34, halves: &[0] },
    Quant { name: "q8_1", values: 32, bytes: 36, halves: &[0, 2] },
    Quant { name: "q2k", values: 256, bytes: 84, halves: &[80, 82] },
    Quant { name: "q3k", values: 256, bytes: 110, halves: &[108] },
    Quant { name: "q4k", values: 256, bytes: 144, halves: &[0, 2] },
    Quant { name: "q5k", values: 256, bytes: 176, halves: &[0, 2] },
    Quant { name: "q6k", values: 256, bytes: 210, halves: &[208] },
    // Its scale is a single, whose upper half is enough.
    Quant { name: "q8k", values: 256, bytes: 292, halves: &[2] },
];

impl Quant {
    /// The type that a name begins with, `q2_K`, `q2_k` or `q2k`, and the rest of the name.
    pub fn prefix(text: &str) -> Option<(Quant, &str)> {
        let plain = QUANTS.iter().find_map(|q| Some((*q, text.strip_prefix(q.name)?)));
        plain.or_else(|| {
            let (start, rest) = text.split_at_checked(2)?;
            let rest = rest.strip_prefix("_K").or_else(|| rest.strip_prefix("_k"))?;
            QUANTS.iter().find(|q| q.name.strip_suffix('k') == Some(start)).map(|q| (*q, rest))
        })
    }

    pub fn size(&self, values: usize) -> usize {
        values / self.values * self.bytes
    }

    /// Blocks of any quants, with scales that are numbers of moderate size.
    pub fn fill(&self, random: &mut Random, values: usize) -> Vec<u8> {
        let mut bytes = fill(random, Scalar::U8, self.size(values), Filling::Moderate);
        for block in bytes.chunks_mut(self.bytes) {
            for at in self.halves {
                let ty = if self.name == "q8k" { Scalar::Bf16 } else { Scalar::F16 };
                let half = ty.moderate(random.next()) as u16;
                block[*at..at + 2].copy_from_slice(&half.to_le_bytes());
            }
        }
        bytes
    }
}

/// FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
