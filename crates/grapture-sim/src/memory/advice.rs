//! [`Advice`]: what a program said of managed memory, page by page. Nothing depends on it here;
//! it is only told back.

use std::collections::BTreeSet;
use std::ops::Range;

/// The bytes of a page.
const PAGE: usize = 4096;

/// Where memory should be or be reached from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    /// A device, by ordinal.
    Device(i32),
    /// The host.
    Host,
    /// A node of the host.
    HostNode(i32),
    /// The node of the host that the calling thread is on.
    ThisHostNode,
}

/// What was said of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageAdvice {
    /// That it is mostly read.
    pub(crate) read_mostly: bool,
    /// Where it should be.
    pub(crate) preferred: Option<Location>,
    /// From where it is reached.
    pub(crate) accessed_by: BTreeSet<Location>,
    /// Where it was last fetched to.
    pub(crate) last_prefetch: Option<Location>,
}

/// What was said of an allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Advice {
    pages: Vec<PageAdvice>,
}

impl Advice {
    /// Changes what is said of the pages that a range of bytes touches.
    pub(crate) fn change(&mut self, bytes: Range<usize>, change: impl Fn(&mut PageAdvice)) {
        let pages = bytes.start / PAGE..bytes.end.div_ceil(PAGE);
        if self.pages.len() < pages.end {
            self.pages.resize(pages.end, PageAdvice::default());
        }
        self.pages.iter_mut().take(pages.end).skip(pages.start).for_each(change);
    }

    /// What all pages of a range of bytes say, as far as they agree.
    pub(crate) fn common<T: PartialEq + Default>(
        &self,
        bytes: Range<usize>,
        ask: impl Fn(&PageAdvice) -> T,
    ) -> T {
        let unsaid = PageAdvice::default();
        let mut answers = (bytes.start / PAGE..bytes.end.div_ceil(PAGE))
            .map(|page| ask(self.pages.get(page).unwrap_or(&unsaid)));
        let first = answers.next().unwrap_or_default();
        if answers.all(|answer| answer == first) { first } else { T::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_says_what_all_its_pages_say() {
        let mut advice = Advice::default();
        advice.change(100..200, |page| page.preferred = Some(Location::Host));
        let preferred = |page: &PageAdvice| page.preferred;
        assert_eq!(advice.common(0..PAGE, preferred), Some(Location::Host));
        assert_eq!(advice.common(0..PAGE + 1, preferred), None);
        assert_eq!(advice.common(PAGE..3 * PAGE, preferred), None);
        advice.change(0..2 * PAGE, |page| page.read_mostly = true);
        assert!(advice.common(0..2 * PAGE, |page| page.read_mostly));
    }
}
