//! The fundamental types and the state spaces.

/// A fundamental type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is the PTX type of the same name
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    U16x2,
    S16x2,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

/// What a type's bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A predicate.
    Pred,
    /// Untyped bits.
    Bits,
    /// An unsigned integer.
    Unsigned,
    /// A signed integer.
    Signed,
    /// A floating-point number, or a pair of them.
    Float,
}

impl Type {
    /// The type that a dotted word names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "u16x2" => Self::U16x2,
            "s16x2" => Self::S16x2,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// The name, as PTX writes it without the dot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::B128 => "b128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::U16x2 => "u16x2",
            Self::S16x2 => "s16x2",
            Self::F16 => "f16",
            Self::F16x2 => "f16x2",
            Self::Bf16 => "bf16",
            Self::Bf16x2 => "bf16x2",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// The size in bytes; a predicate has none.
    pub fn bytes(self) -> usize {
        match self {
            Self::Pred => 0,
            Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 4,
            Self::U16x2 | Self::S16x2 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }

    /// What its bits mean.
    pub fn class(self) -> Class {
        match self {
            Self::Pred => Class::Pred,
            Self::B8 | Self::B16 | Self::B32 | Self::B64 | Self::B128 => Class::Bits,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::U16x2 => Class::Unsigned,
            Self::S8 | Self::S16 | Self::S32 | Self::S64 | Self::S16x2 => Class::Signed,
            Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2 | Self::F32 | Self::F64 => {
                Class::Float
            }
        }
    }

    /// Whether it is a number or bits of 16, 32 or 64, which every instruction that only moves takes;
    /// the halves are moved as bits.
    pub fn is_plain(self) -> bool {
        !matches!(self, Self::Pred | Self::B128 | Self::B8 | Self::U8 | Self::S8)
            && !matches!(self, Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2)
            && !matches!(self, Self::U16x2 | Self::S16x2)
    }

    /// Whether a register of this type lives in the 64-bit file.
    pub fn is_wide(self) -> bool {
        self.bytes() == 8
    }

    /// Whether an operand of type `self` may stand where an instruction wants `wanted`: same size,
    /// and not an integer for a float or the other way round.
    pub fn fits(self, wanted: Self) -> bool {
        let (have, want) = (self.class(), wanted.class());
        let integer = |class| matches!(class, Class::Unsigned | Class::Signed);
        self.bytes() == wanted.bytes()
            && (have == Class::Pred) == (want == Class::Pred)
            && !(integer(have) && want == Class::Float)
            && !(have == Class::Float && integer(want))
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// No space named: an address of any of them.
    Generic,
    /// Device memory.
    Global,
    /// Constant memory.
    Const,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// Parameters.
    Param,
}

impl Space {
    /// The space that a dotted word names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "global" => Self::Global,
            "const" => Self::Const,
            "shared" | "shared::cta" => Self::Shared,
            "local" => Self::Local,
            "param" | "param::entry" | "param::func" => Self::Param,
            _ => return None,
        })
    }
}
