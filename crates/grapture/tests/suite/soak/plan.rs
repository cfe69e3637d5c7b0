//! What a piece of work does, and what it makes of its numbers.

/// Numbers that look random and come from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn value(&mut self) -> u32 {
        self.next() as u32
    }
}

/// One operation on the numbers of a piece.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Add(u32),
    MulAdd(u32, u32),
    Fill(u32),
    Save,
    Restore,
    FromHost(u32),
    FromPinned,
    ToPinned,
    Count,
    /// On another stream, beside the next step but one, and joined.
    Fork(u32),
}

impl Step {
    pub fn any(random: &mut Random) -> Step {
        match random.below(10) {
            0 | 1 => Step::Add(random.value()),
            2 => Step::MulAdd(random.value(), random.value()),
            3 => Step::Fill(random.value()),
            4 => Step::Save,
            5 => Step::Restore,
            6 => [Step::FromHost(random.value()), Step::FromPinned][random.below(2)],
            7 => Step::ToPinned,
            8 => Step::Count,
            _ => Step::Fork(random.value()),
        }
    }
}

impl Step {
    /// The same with another value.
    pub fn varied(self, random: &mut Random) -> Step {
        match self {
            Step::Add(_) => Step::Add(random.value()),
            Step::MulAdd(_, value) => Step::MulAdd(random.value(), value),
            Step::Fill(_) => Step::Fill(random.value()),
            Step::FromHost(_) => Step::FromHost(random.value()),
            Step::Fork(_) => Step::Fork(random.value()),
            Step::Save | Step::Restore | Step::FromPinned | Step::ToPinned | Step::Count => self,
        }
    }
}

/// The numbers of a piece, as they are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub word: u32,
    pub saved: u32,
    pub input: u32,
    pub output: u32,
    pub runs: u32,
}

impl Numbers {
    pub fn after(mut self, steps: &[Step]) -> Numbers {
        for step in steps {
            match *step {
                Step::Add(value) => self.word = self.word.wrapping_add(value),
                Step::MulAdd(factor, value) => {
                    self.word = self.word.wrapping_mul(factor).wrapping_add(value);
                }
                Step::Fill(value) | Step::FromHost(value) => self.word = value,
                Step::Save => self.saved = self.word,
                Step::Restore => self.word = self.saved,
                Step::FromPinned => self.word = self.input,
                Step::ToPinned => self.output = self.word,
                Step::Count => self.runs += 1,
                Step::Fork(value) => self.saved = self.saved.wrapping_add(value),
            }
        }
        self
    }
}
