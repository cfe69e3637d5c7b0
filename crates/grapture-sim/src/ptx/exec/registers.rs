//! The registers of a warp, one value per lane.

use std::sync::Arc;

/// Lanes of a warp.
pub const LANES: usize = 32;
/// The mask of a full warp.
pub const FULL: u32 = u32::MAX;
/// Set in a [`Reg`] that names a constant.
const CONSTANT: u32 = 1 << 31;
/// Set in a [`Reg`] of the 64-bit file.
const WIDE: u32 = 1 << 30;
/// Set in a [`Reg`] that is a predicate.
const PRED: u32 = 1 << 29;
/// The bits that count.
const INDEX: u32 = PRED - 1;

/// A register, counted from the start of its function's frame in one of the files, or a constant of
/// the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg(pub u32);

impl Reg {
    /// The constant of the given number.
    pub fn constant(wide: bool, index: usize) -> Self {
        Self(index as u32 | CONSTANT | if wide { WIDE } else { 0 })
    }

    /// A register of the 32-bit file.
    pub fn narrow(index: u32) -> Self {
        Self(index)
    }

    /// A register of the 64-bit file.
    pub fn wide(index: u32) -> Self {
        Self(index | WIDE)
    }

    /// A predicate.
    pub fn pred(index: u32) -> Self {
        Self(index | PRED)
    }

    /// Whether it names a constant.
    pub fn is_constant(self) -> bool {
        self.0 & CONSTANT != 0
    }

    /// Whether it has 64 bits.
    pub fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    /// Whether it is a predicate.
    pub fn is_pred(self) -> bool {
        self.0 & PRED != 0
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & INDEX) as usize
    }
}

/// The values of one register.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Lanes<S>(pub [S; LANES]);

/// The constants of a module with their final values, every lane the same.
#[derive(Clone, Debug, Default)]
pub struct Constants {
    /// Those of at most 32 bits.
    pub narrow: Arc<[Lanes<u32>]>,
    /// Those of 64 bits.
    pub wide: Arc<[Lanes<u64>]>,
}

/// One register file.
#[derive(Debug, Default)]
pub struct File<S> {
    lanes: Vec<Lanes<S>>,
    constants: Arc<[Lanes<S>]>,
    base: usize,
}

impl<S: Copy + Default> File<S> {
    fn new(constants: Arc<[Lanes<S>]>) -> Self {
        Self { lanes: Vec::new(), constants, base: 0 }
    }

    /// The values of a register or constant.
    #[inline(always)]
    pub fn get(&self, reg: Reg) -> &[S; LANES] {
        // INVARIANT: lowering counts every register and constant that it names, and a frame of
        // that many registers is reserved before its code runs.
        if reg.0 & CONSTANT == 0 {
            &self.lanes[self.base + reg.index()].0
        } else {
            &self.constants[reg.index()].0
        }
    }

    /// The values of a register that is written to.
    #[inline(always)]
    pub fn get_mut(&mut self, reg: Reg) -> &mut [S; LANES] {
        // INVARIANT: as for `get`; lowering never names a constant as a destination.
        &mut self.lanes[self.base + reg.index()].0
    }

    /// Writes the lanes in `mask`.
    #[inline(always)]
    pub fn put(&mut self, reg: Reg, values: &[S; LANES], mask: u32) {
        blend(self.get_mut(reg), values, mask);
    }

    fn reserve(&mut self, count: usize) {
        if self.lanes.len() < count {
            self.lanes.resize(count, Lanes([S::default(); LANES]));
        }
    }
}

/// Writes the lanes in `mask`.
#[inline(always)]
pub fn blend<S: Copy>(into: &mut [S; LANES], values: &[S; LANES], mask: u32) {
    if mask == FULL {
        *into = *values;
        return;
    }
    for lane in 0..LANES {
        // A choice and not a branch, so that it becomes a blend of vectors.
        into[lane] = if mask >> lane & 1 != 0 { values[lane] } else { into[lane] };
    }
}

/// Where the frame of a function starts in each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// In the 32-bit file.
    pub narrow: u32,
    /// In the 64-bit file.
    pub wide: u32,
    /// In the predicates.
    pub preds: u32,
    /// In local memory.
    pub local: u32,
}

impl Frame {
    /// How many registers there are, predicates included.
    pub fn registers(self) -> usize {
        (self.narrow + self.wide + self.preds) as usize
    }

    /// The number of a register among all of a frame of this size.
    pub fn number(self, reg: Reg) -> usize {
        let before = match reg {
            reg if reg.is_pred() => self.narrow + self.wide,
            reg if reg.is_wide() => self.narrow,
            _ => 0,
        };
        before as usize + reg.index()
    }

    /// All registers of a frame of this size.
    pub fn each(self) -> impl Iterator<Item = Reg> {
        let narrow = (0..self.narrow).map(Reg::narrow);
        narrow.chain((0..self.wide).map(Reg::wide)).chain((0..self.preds).map(Reg::pred))
    }
}

/// All registers of a warp.
#[derive(Debug, Default)]
pub struct Registers {
    /// Registers of at most 32 bits; narrower ones are zero-extended.
    pub narrow: File<u32>,
    /// Registers of 64 bits.
    pub wide: File<u64>,
    /// The carry flag of each lane.
    pub carry: u32,
    preds: Vec<u32>,
    pred_base: usize,
}

impl Registers {
    /// Registers that know the constants, none reserved yet.
    pub fn new(constants: &Constants) -> Self {
        Self {
            narrow: File::new(constants.narrow.clone()),
            wide: File::new(constants.wide.clone()),
            ..Self::default()
        }
    }

    /// Makes room for registers up to the end of a frame.
    pub fn reserve(&mut self, end: Frame) {
        self.narrow.reserve(end.narrow as usize);
        self.wide.reserve(end.wide as usize);
        if self.preds.len() < end.preds as usize {
            self.preds.resize(end.preds as usize, 0);
        }
    }

    /// Zeroes registers in the lanes of `mask`.
    pub fn clear(&mut self, list: &[Reg], mask: u32) {
        for reg in list {
            match reg {
                reg if reg.is_pred() => self.put_pred(*reg, 0, mask),
                reg if reg.is_wide() => self.wide.put(*reg, &[0; LANES], mask),
                _ => self.narrow.put(*reg, &[0; LANES], mask),
            }
        }
    }

    /// Registers are counted from this frame on.
    #[inline]
    pub fn enter(&mut self, frame: Frame) {
        self.narrow.base = frame.narrow as usize;
        self.wide.base = frame.wide as usize;
        self.pred_base = frame.preds as usize;
    }

    /// The lanes where a predicate holds.
    #[inline(always)]
    pub fn pred(&self, reg: Reg) -> u32 {
        // INVARIANT: as for `File::get`.
        self.preds[self.pred_base + reg.index()]
    }

    /// Writes a predicate in the lanes of `mask`.
    #[inline(always)]
    pub fn put_pred(&mut self, reg: Reg, values: u32, mask: u32) {
        // INVARIANT: as for `File::get`.
        let into = &mut self.preds[self.pred_base + reg.index()];
        *into = *into & !mask | values & mask;
    }
}

/// The contents of a register of one file.
pub trait Slot: Copy + Default + 'static {
    /// The file.
    fn file(registers: &Registers) -> &File<Self>;
    /// The file, to write to.
    fn file_mut(registers: &mut Registers) -> &mut File<Self>;
}

impl Slot for u32 {
    #[inline(always)]
    fn file(registers: &Registers) -> &File<Self> {
        &registers.narrow
    }
    #[inline(always)]
    fn file_mut(registers: &mut Registers) -> &mut File<Self> {
        &mut registers.narrow
    }
}

impl Slot for u64 {
    #[inline(always)]
    fn file(registers: &Registers) -> &File<Self> {
        &registers.wide
    }
    #[inline(always)]
    fn file_mut(registers: &mut Registers) -> &mut File<Self> {
        &mut registers.wide
    }
}

/// A value as an instruction sees it, and how it sits in a register.
pub trait Scalar: Copy {
    /// The register that holds it.
    type Slot: Slot;
    /// The value of a register.
    fn load(slot: Self::Slot) -> Self;
    /// The register of a value.
    fn store(self) -> Self::Slot;
}

/// Integers of at most 32 bits, through the unsigned type of their size.
macro_rules! narrow_scalar {
    ($($ty:ty as $unsigned:ty),+) => {$(
        impl Scalar for $ty {
            type Slot = u32;
            #[inline(always)]
            fn load(slot: u32) -> Self { slot as $ty }
            #[inline(always)]
            fn store(self) -> u32 { u32::from(self as $unsigned) }
        }
    )+};
}

narrow_scalar!(u8 as u8, i8 as u8, u16 as u16, i16 as u16, u32 as u32, i32 as u32);

impl Scalar for u64 {
    type Slot = u64;
    #[inline(always)]
    fn load(slot: u64) -> Self {
        slot
    }
    #[inline(always)]
    fn store(self) -> u64 {
        self
    }
}

impl Scalar for i64 {
    type Slot = u64;
    #[inline(always)]
    fn load(slot: u64) -> Self {
        slot as i64
    }
    #[inline(always)]
    fn store(self) -> u64 {
        self as u64
    }
}

impl Scalar for f32 {
    type Slot = u32;
    #[inline(always)]
    fn load(slot: u32) -> Self {
        Self::from_bits(slot)
    }
    #[inline(always)]
    fn store(self) -> u32 {
        self.to_bits()
    }
}

impl Scalar for f64 {
    type Slot = u64;
    #[inline(always)]
    fn load(slot: u64) -> Self {
        Self::from_bits(slot)
    }
    #[inline(always)]
    fn store(self) -> u64 {
        self.to_bits()
    }
}
