//! [`Source`]: random choices from a seed.

/// A stream of numbers that a seed decides.
pub struct Source(u64);

impl Source {
    pub fn new(seed: u64) -> Source {
        let mut source = Source(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            source.next();
        }
        source
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a limit; 0 for the limit 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) as usize).checked_rem(limit).unwrap_or(0)
    }

    /// One of some.
    pub fn of<T: Copy>(&mut self, some: &[T]) -> Option<T> {
        let index = self.below(some.len());
        some.get(index).copied()
    }

    /// Whether something with one chance in `of` happens.
    pub fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}
