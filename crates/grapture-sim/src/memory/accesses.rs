//! [`Accesses`]: which bytes an operation read and wrote.

use std::collections::BTreeMap;
use std::fmt;

/// How bytes are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessKind {
    /// Read.
    Read,
    /// Written.
    Write,
    /// By an atomic operation, or a load or store that is as strong as one.
    Atomic,
}

impl AccessKind {
    /// Whether two accesses of the same bytes need an order.
    #[must_use]
    pub fn conflicts(self, other: AccessKind) -> bool {
        self != other || self == AccessKind::Write
    }
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "a read",
            AccessKind::Write => "a write",
            AccessKind::Atomic => "an atomic access",
        })
    }
}

/// Ranges of addresses that neither touch nor overlap: the first address of each, and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        // The one that begins before may be prolonged; those that begin inside are taken in.
        if let Some((before, last)) = self.0.range_mut(..=start).next_back()
            && *last >= start
        {
            if *last >= end {
                return;
            }
            start = *before;
        }
        while let Some((inside, last)) = self.0.range(start..=end).next() {
            let (inside, last) = (*inside, *last);
            end = end.max(last);
            self.0.remove(&inside);
        }
        self.0.insert(start, end);
    }

    /// The first bytes that are in both.
    fn overlap(&self, other: &Ranges) -> Option<(u64, u64)> {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            let ((a, a_end), (b, b_end)) = (*ours.peek()?, *theirs.peek()?);
            let (start, end) = (*a.max(b), *a_end.min(b_end));
            if start < end {
                return Some((start, end));
            }
            if a_end <= b_end {
                ours.next()
            } else {
                theirs.next()
            };
        }
    }
}

/// Bytes that two operations access and need an order for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The first address.
    pub address: u64,
    /// How many bytes from there on.
    pub bytes: u64,
    /// How each accesses them.
    pub kinds: [AccessKind; 2],
    /// The line of PTX of each; 0 where it is no kernel.
    pub lines: [u32; 2],
}

/// Which bytes an operation read and wrote, by kind and line of PTX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses(BTreeMap<(AccessKind, u32), Ranges>);

impl Accesses {
    /// Adds bytes; the line is 0 where there is no PTX.
    pub fn add(&mut self, kind: AccessKind, line: u32, address: u64, bytes: u64) {
        let ranges = self.0.entry((kind, line)).or_default();
        ranges.add(address, address.saturating_add(bytes));
    }

    /// Adds what another part of the same operation did.
    pub fn merge(&mut self, other: Accesses) {
        for (key, ranges) in other.0 {
            let into = self.0.entry(key).or_default();
            ranges.0.into_iter().for_each(|(start, end)| into.add(start, end));
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first bytes for which the two operations need an order.
    #[must_use]
    pub fn conflict(&self, other: &Accesses) -> Option<Conflict> {
        let pairs = self.0.iter().flat_map(|ours| other.0.iter().map(move |theirs| (ours, theirs)));
        pairs
            .filter(|(((a, _), _), ((b, _), _))| a.conflicts(*b))
            .filter_map(|(((a, line), ours), ((b, other_line), theirs))| {
                let (address, end) = ours.overlap(theirs)?;
                let (kinds, lines) = ([*a, *b], [*line, *other_line]);
                Some(Conflict { address, bytes: end - address, kinds, lines })
            })
            .min_by_key(|conflict| (conflict.address, conflict.lines))
    }
}

#[cfg(test)]
mod tests {
    use super::AccessKind::{Atomic, Read, Write};
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Ranges::default();
        for (start, end) in [(0, 4), (8, 12), (20, 24), (4, 8), (10, 21), (30, 30)] {
            ranges.add(start, end);
        }
        assert_eq!(ranges.0, BTreeMap::from([(0, 24)]));
        ranges.add(2, 5);
        ranges.add(100, 101);
        assert_eq!(ranges.0, BTreeMap::from([(0, 24), (100, 101)]));
    }

    #[test]
    fn a_conflict_is_an_overlap_of_which_one_side_writes() {
        let accesses = |list: &[(AccessKind, u32, u64, u64)]| {
            let mut all = Accesses::default();
            list.iter().for_each(|(kind, line, start, bytes)| {
                all.add(*kind, *line, *start, *bytes);
            });
            all
        };
        let first = accesses(&[(Read, 3, 0, 64), (Write, 4, 100, 8), (Atomic, 5, 200, 4)]);
        assert_eq!(first.conflict(&accesses(&[(Read, 1, 0, 64), (Atomic, 2, 200, 8)])), None);
        assert_eq!(first.conflict(&accesses(&[(Write, 1, 64, 36)])), None);
        let found = first.conflict(&accesses(&[(Write, 9, 60, 44), (Write, 8, 202, 1)])).unwrap();
        let (kinds, lines) = ([Read, Write], [3, 9]);
        assert_eq!(found, Conflict { address: 60, bytes: 4, kinds, lines });
        let found = first.conflict(&accesses(&[(Read, 8, 203, 10)])).unwrap();
        assert_eq!((found.address, found.bytes, found.kinds), (203, 1, [Atomic, Read]));
    }
}
