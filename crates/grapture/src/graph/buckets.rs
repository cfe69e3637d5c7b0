//! [`Buckets`]: sizes that others are rounded up to.

/// Sizes that others are rounded up to, so that a graph for each of few sizes serves them all: what
/// is left of a bucket is padded.
///
/// ```
/// use grapture::Buckets;
///
/// let batches = Buckets::powers_of_two(48);
/// assert_eq!(batches.sizes(), [1, 2, 4, 8, 16, 32, 48]);
/// assert_eq!(batches.fit(5), Some(8));
/// assert_eq!(batches.fit(49), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// In ascending order, each once.
    sizes: Vec<usize>,
}

impl Buckets {
    /// These sizes, in whatever order.
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> Buckets {
        let mut sizes: Vec<_> = sizes.into_iter().collect();
        sizes.sort_unstable();
        sizes.dedup();
        Buckets { sizes }
    }

    /// The powers of two up to `largest`, and `largest` itself. None for 0.
    pub fn powers_of_two(largest: usize) -> Buckets {
        let powers = (0..usize::BITS).map(|bit| 1 << bit).take_while(|size| *size < largest);
        Buckets::new(powers.chain((largest > 0).then_some(largest)))
    }

    /// Every multiple of `step` that is below `largest`, and `largest` itself. A step of 0 is one
    /// of 1.
    pub fn multiples(step: usize, largest: usize) -> Buckets {
        let step = step.max(1);
        let multiples = (1..).map_while(|count: usize| count.checked_mul(step));
        let below = multiples.take_while(|size| *size < largest);
        Buckets::new(below.chain((largest > 0).then_some(largest)))
    }

    /// The smallest size that is at least `size`. None: it is larger than all of them, and work of
    /// that size is not captured.
    pub fn fit(&self, size: usize) -> Option<usize> {
        let index = self.sizes.partition_point(|bucket| *bucket < size);
        self.sizes.get(index).copied()
    }

    /// The sizes, in ascending order: what to warm up.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }
}

#[cfg(test)]
mod tests {
    use super::Buckets;

    #[test]
    fn sizes_are_rounded_up_to_the_next_bucket() {
        let buckets = Buckets::new([8, 2, 8, 32]);
        assert_eq!(buckets.sizes(), [2, 8, 32]);
        let fits: Vec<_> = [0, 2, 3, 8, 9, 32, 33].map(|size| buckets.fit(size)).into();
        let expected = [Some(2), Some(2), Some(8), Some(8), Some(32), Some(32), None];
        assert_eq!(fits, expected);
        assert_eq!(Buckets::default().fit(0), None);
    }

    #[test]
    fn rows_of_sizes_end_with_the_largest() {
        assert_eq!(Buckets::powers_of_two(0).sizes(), [0; 0]);
        assert_eq!(Buckets::powers_of_two(1).sizes(), [1]);
        assert_eq!(Buckets::powers_of_two(8).sizes(), [1, 2, 4, 8]);
        assert_eq!(Buckets::powers_of_two(usize::MAX).sizes().len(), 65);
        assert_eq!(Buckets::multiples(16, 40).sizes(), [16, 32, 40]);
        assert_eq!(Buckets::multiples(0, 2).sizes(), [1, 2]);
        assert_eq!(Buckets::multiples(usize::MAX, 5).sizes(), [5]);
        assert_eq!(Buckets::multiples(3, 0).sizes(), [0; 0]);
    }
}
