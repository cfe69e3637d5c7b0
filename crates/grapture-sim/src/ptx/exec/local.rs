//! The local memory of a warp's threads.

use super::registers::{LANES, Lanes};

/// Local memory, in words: each holds the bytes at one address of all lanes, because lanes mostly
/// access the same address.
#[derive(Debug, Default)]
pub struct Local {
    words: Vec<Lanes<u32>>,
}

impl Local {
    /// So many zero bytes for every lane.
    pub fn reset(&mut self, bytes: u32) {
        self.words.clear();
        self.reserve(bytes);
    }

    /// Makes sure of so many bytes for every lane.
    pub fn reserve(&mut self, bytes: u32) {
        let words = bytes.div_ceil(4) as usize;
        if self.words.len() < words {
            self.words.resize(words, Lanes([0; LANES]));
        }
    }

    /// The word at an address, a multiple of four.
    #[inline]
    pub fn word(&self, at: u64) -> Option<&[u32; LANES]> {
        self.words.get(usize::try_from(at / 4).ok()?).map(|word| &word.0)
    }

    /// The word at an address, a multiple of four.
    #[inline]
    pub fn word_mut(&mut self, at: u64) -> Option<&mut [u32; LANES]> {
        self.words.get_mut(usize::try_from(at / 4).ok()?).map(|word| &mut word.0)
    }

    /// Reads 1, 2, 4 or 8 bytes of a lane at an address that is a multiple of that.
    pub fn read(&self, lane: usize, at: u64, len: usize) -> Option<u64> {
        let low = u64::from(*self.word(at)?.get(lane)?);
        if len == 8 {
            let high = u64::from(*self.word(at.checked_add(4)?)?.get(lane)?);
            return Some(high << 32 | low);
        }
        Some(low >> (8 * (at % 4)) & (u64::MAX >> (64 - 8 * len)))
    }

    /// Writes 1, 2, 4 or 8 bytes of a lane at an address that is a multiple of that.
    pub fn write(&mut self, lane: usize, at: u64, len: usize, value: u64) -> Option<()> {
        if len == 8 {
            // Looked for first, so that nothing is written when it is not there.
            *self.word_mut(at.checked_add(4)?)?.get_mut(lane)? = (value >> 32) as u32;
        }
        let word = self.word_mut(at)?.get_mut(lane)?;
        let mask = (u64::MAX >> (64 - 8 * len.min(4))) as u32;
        let shift = 8 * (at % 4);
        *word = *word & !(mask << shift) | (value as u32 & mask) << shift;
        Some(())
    }

    /// Copies bytes within the memory of the lanes in `mask`.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u32, mask: u32) {
        let whole = if from.is_multiple_of(4) && to.is_multiple_of(4) { bytes / 4 * 4 } else { 0 };
        for at in (0..u64::from(whole)).step_by(4) {
            let Some(word) = self.word(from + at).copied() else { return };
            let Some(into) = self.word_mut(to + at) else { return };
            for lane in 0..LANES {
                into[lane] = if mask >> lane & 1 != 0 { word[lane] } else { into[lane] };
            }
        }
        for at in u64::from(whole)..u64::from(bytes) {
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                if let Some(byte) = self.read(lane, from + at, 1) {
                    self.write(lane, to + at, 1, byte);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_bytes_of_every_size_by_lane() {
        let mut local = Local::default();
        local.reset(16);
        for lane in 0..LANES {
            local.write(lane, 8, 8, 0x1122_3344_5566_7700 + lane as u64).unwrap();
            local.write(lane, 2, 2, 0xffff).unwrap();
            local.write(lane, 3, 1, 0xee).unwrap();
        }
        assert_eq!(local.read(7, 8, 8), Some(0x1122_3344_5566_7707));
        assert_eq!(local.read(7, 12, 2), Some(0x3344));
        assert_eq!(local.read(7, 0, 4), Some(0xeeff_0000));
        assert_eq!(local.read(7, 16, 1), None);
        assert_eq!(local.write(7, 16, 8, 0), None);
    }

    #[test]
    fn copies_only_the_lanes_of_the_mask() {
        let mut local = Local::default();
        local.reset(32);
        for lane in 0..LANES {
            local.write(lane, 0, 8, 0x0807_0605_0403_0201).unwrap();
        }
        local.copy(0, 16, 7, 0b10);
        assert_eq!(local.read(1, 16, 8), Some(0x0007_0605_0403_0201));
        assert_eq!(local.read(0, 16, 8), Some(0));
        local.copy(1, 25, 3, 0b1);
        assert_eq!(local.read(0, 24, 4), Some(0x0403_0200));
    }
}
