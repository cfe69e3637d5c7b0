//! The values of conditional handles, which kernels set and conditional nodes read.

use std::sync::Arc;

use crate::memory::SharedBytes;
use crate::ptx::{CONDITIONAL_BASE, Region};

/// The bytes of a value.
const WORD: usize = size_of::<u32>();

/// The values of the handles of an executable. Handles are numbers from 1 on.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalWords(Arc<SharedBytes>);

impl ConditionalWords {
    /// The values of so many handles, all zero.
    pub(crate) fn new(count: usize) -> ConditionalWords {
        ConditionalWords(Arc::new(SharedBytes::new(count * WORD)))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len() / WORD
    }

    /// The value of a handle; zero where there is none.
    pub(crate) fn get(&self, handle: u64) -> u32 {
        let mut word = [0; WORD];
        let read = place(handle).map(|offset| self.0.read(offset, &mut word).is_ok());
        if read == Some(true) { u32::from_ne_bytes(word) } else { 0 }
    }

    /// Sets the value of a handle, where there is one.
    pub(crate) fn set(&self, handle: u64, value: u32) {
        if let Some(offset) = place(handle) {
            // There is nothing to set beyond the last handle.
            let _ = self.0.write(offset, &value.to_ne_bytes());
        }
    }

    /// More values, of which the first are these.
    pub(crate) fn grown(&self, count: usize) -> ConditionalWords {
        let grown = ConditionalWords::new(count);
        for handle in 1..=self.len() as u64 {
            grown.set(handle, self.get(handle));
        }
        grown
    }

    /// Where kernels find them, if the address is that of one.
    pub(crate) fn region(&self, address: u64) -> Option<Region> {
        let region = Region::whole(CONDITIONAL_BASE + WORD as u64, self.0.clone());
        (address.wrapping_sub(region.base) < region.len).then_some(region)
    }
}

fn place(handle: u64) -> Option<usize> {
    usize::try_from(handle).ok()?.checked_sub(1)?.checked_mul(WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_begin_with_one_and_end_with_the_last() {
        let words = ConditionalWords::new(2);
        for handle in 0..4 {
            words.set(handle, 7 + handle as u32);
        }
        assert_eq!([0, 1, 2, 3].map(|handle| words.get(handle)), [0, 8, 9, 0]);
        let grown = words.grown(3);
        assert_eq!([1, 2, 3].map(|handle| grown.get(handle)), [8, 9, 0]);
        let known = [0, 4, 8, 12].map(|offset| words.region(CONDITIONAL_BASE + offset).is_some());
        assert_eq!(known, [false, true, true, false]);
    }
}
