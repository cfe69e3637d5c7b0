//! The values of conditional handles, which kernels set and conditional nodes read.

use std::sync::Arc;

use crate::memory::SharedBytes;
use crate::ptx::{CONDITIONAL_BASE, Region};

/// The bytes of a value.
const WORD: usize = size_of::<u32>();

/// The numbers that kernels of a graph with handles may use without harm, as a real driver lets
/// them. What is no handle decides nothing.
const NUMBERS: usize = 1024;

/// The values of the handles of an executable. Handles are numbers from 1 on.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalWords {
    count: usize,
    words: Arc<SharedBytes>,
}

impl ConditionalWords {
    /// The values of so many handles, all zero.
    pub(crate) fn new(count: usize) -> ConditionalWords {
        let words = Arc::new(SharedBytes::new((count + 1).max(NUMBERS) * WORD));
        ConditionalWords { count, words }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The value of a handle; zero where there is none.
    pub(crate) fn get(&self, handle: u64) -> u32 {
        let mut word = [0; WORD];
        let read = place(handle).map(|offset| self.words.read(offset, &mut word).is_ok());
        if read == Some(true) { u32::from_ne_bytes(word) } else { 0 }
    }

    /// Sets the value of a handle, where there is one.
    pub(crate) fn set(&self, handle: u64, value: u32) {
        if let Some(offset) = place(handle) {
            // There is nothing to set beyond the last handle.
            let _ = self.words.write(offset, &value.to_ne_bytes());
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

    /// Where kernels find them, if the address is that of one, or of a number that is no handle.
    pub(crate) fn region(&self, address: u64) -> Option<Region> {
        let region = Region::whole(CONDITIONAL_BASE, self.words.clone());
        (address.wrapping_sub(region.base) < region.len).then_some(region)
    }
}

fn place(handle: u64) -> Option<usize> {
    usize::try_from(handle).ok()?.checked_mul(WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_last_when_there_are_more_handles() {
        let words = ConditionalWords::new(2);
        for handle in 1..4 {
            words.set(handle, 7 + handle as u32);
        }
        let grown = words.grown(3);
        assert_eq!([1, 2, 3].map(|handle| grown.get(handle)), [8, 9, 0]);
        assert_eq!(grown.len(), 3);
    }

    #[test]
    fn kernels_reach_a_window() {
        let words = ConditionalWords::new(1);
        let end = 4 * NUMBERS as u64;
        let known = |offset: u64| words.region(CONDITIONAL_BASE.wrapping_add(offset)).is_some();
        assert_eq!([0, 4, end - 4, end, u64::MAX].map(known), [true, true, true, false, false]);
    }
}
