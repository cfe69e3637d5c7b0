//! [`Shadow`]: which bytes of an allocation were ever written.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One bit for each byte.
#[derive(Debug)]
pub(super) struct Shadow(Box<[AtomicU64]>);

impl Shadow {
    /// So many bytes, none written.
    pub(super) fn new(len: usize) -> Shadow {
        Shadow((0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// The words of a range, each with the bits that lie in it.
    fn words(&self, offset: usize, len: usize) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let end = offset + len;
        (offset / 64..end.div_ceil(64)).filter_map(move |index| {
            let (from, to) = (offset.max(64 * index), end.min(64 * index + 64));
            let count = to.checked_sub(from).filter(|count| *count > 0)?;
            Some((self.0.get(index)?, u64::MAX >> (64 - count) << (from % 64)))
        })
    }

    /// The bytes of a range are written.
    pub(super) fn set(&self, offset: usize, len: usize) {
        for (word, bits) in self.words(offset, len) {
            word.fetch_or(bits, Relaxed);
        }
    }

    /// Whether all bytes of a range were written.
    pub(super) fn has(&self, offset: usize, len: usize) -> bool {
        self.words(offset, len).all(|(word, bits)| word.load(Relaxed) & bits == bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_each_byte() {
        let shadow = Shadow::new(200);
        shadow.set(60, 70);
        assert!(shadow.has(60, 70) && shadow.has(127, 2) && shadow.has(60, 0));
        assert!(!shadow.has(59, 2) && !shadow.has(129, 2) && !shadow.has(190, 1));
        shadow.set(0, 200);
        assert!(shadow.has(0, 200));
    }
}
