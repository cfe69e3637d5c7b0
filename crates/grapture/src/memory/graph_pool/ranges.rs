//! [`Ranges`]: which parts of a pool's memory one capture uses, and who has used them before.

use std::ops::Range;

/// A part of the memory: of the segment with that number, from and to those bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) segment: usize,
    pub(super) bytes: Range<usize>,
}

impl Part {
    fn overlaps(&self, other: &Part) -> bool {
        self.segment == other.segment
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }

    /// What of this one the other leaves.
    fn without(self, other: &Part) -> impl Iterator<Item = Part> {
        let Part { segment, bytes } = self;
        let cut = if other.segment == segment { other.bytes.clone() } else { 0..0 };
        let before = bytes.start..bytes.end.min(cut.start.max(bytes.start));
        let after = bytes.start.max(cut.end)..bytes.end;
        let rest = if cut.is_empty() { [bytes, 0..0] } else { [before, after] };
        rest.into_iter().filter(|bytes| !bytes.is_empty()).map(move |bytes| Part { segment, bytes })
    }
}

/// Parts, without an order and each byte once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(Vec<Part>);

impl Parts {
    /// Adds a part, joined with those that it overlaps or touches.
    pub(super) fn add(&mut self, part: &Part) {
        let mut joined = part.clone();
        self.0.retain(|known| {
            let apart = known.segment != joined.segment
                || known.bytes.end < joined.bytes.start
                || joined.bytes.end < known.bytes.start;
            if !apart {
                let start = joined.bytes.start.min(known.bytes.start);
                joined.bytes = start..joined.bytes.end.max(known.bytes.end);
            }
            apart
        });
        self.0.push(joined);
    }

    /// Adds those of another one.
    pub(super) fn extend(&mut self, others: &Parts) {
        others.0.iter().for_each(|part| self.add(part));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|part| part.bytes.len()).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.0.iter()
    }
}

/// What is allocated, and what was.
pub(super) struct Ranges<U> {
    live: Vec<Live<U>>,
    /// What was freed, with who has used it last. No two overlap that have the same user.
    past: Vec<(Part, U)>,
    next: usize,
}

/// An allocation.
struct Live<U> {
    number: usize,
    part: Part,
    /// Who has used the memory before.
    before: Vec<U>,
    users: Vec<U>,
}

impl<U> Default for Ranges<U> {
    fn default() -> Ranges<U> {
        Ranges { live: Vec::new(), past: Vec::new(), next: 0 }
    }
}

impl<U: Clone + PartialEq> Ranges<U> {
    /// The first place with room for so many bytes in segments of these sizes, but for what is
    /// allocated, and for what somebody has used before who is not `allowed`.
    pub(super) fn place(
        &self,
        segments: &[usize],
        bytes: usize,
        allowed: impl Fn(&U) -> bool,
    ) -> Option<Part> {
        let barred = self.past.iter().filter(|(_, user)| !allowed(user)).map(|(part, _)| part);
        let mut taken: Vec<_> = self.live.iter().map(|live| &live.part).chain(barred).collect();
        taken.sort_unstable_by_key(|part| (part.segment, part.bytes.start));
        segments.iter().enumerate().find_map(|(segment, size)| {
            let mut start = 0;
            for part in taken.iter().filter(|part| part.segment == segment) {
                if part.bytes.start.saturating_sub(start) >= bytes {
                    break;
                }
                start = start.max(part.bytes.end);
            }
            let end = start.checked_add(bytes).filter(|end| end <= size)?;
            Some(Part { segment, bytes: start..end })
        })
    }

    /// Takes a part. Gives the number of the allocation.
    pub(super) fn take(&mut self, part: Part) -> usize {
        let number = self.next;
        self.next += 1;
        let before = self.users_of(&part);
        self.live.push(Live { number, part, before, users: Vec::new() });
        number
    }

    /// Frees an allocation. Who used it came after whoever used the memory before.
    pub(super) fn free(&mut self, number: usize) {
        let Some(index) = self.live.iter().position(|live| live.number == number) else { return };
        let Live { part, users, .. } = self.live.swap_remove(index);
        self.used(&part, users);
    }

    /// Notes uses of a part that come after all that were before.
    pub(super) fn used(&mut self, part: &Part, users: Vec<U>) {
        if users.is_empty() {
            return;
        }
        let past = std::mem::take(&mut self.past).into_iter();
        self.past = past
            .flat_map(|(old, user)| old.without(part).map(move |left| (left, user.clone())))
            .collect();
        self.past.extend(users.into_iter().map(|user| (part.clone(), user)));
    }

    /// Whether something is allocated there.
    pub(super) fn is_taken(&self, part: &Part) -> bool {
        self.live.iter().any(|live| live.part.overlaps(part))
    }

    /// Who has used a part before, each once.
    pub(super) fn users_of(&self, part: &Part) -> Vec<U> {
        let mut users = Vec::new();
        for (_, user) in self.past.iter().filter(|(old, _)| old.overlaps(part)) {
            if !users.contains(user) {
                users.push(user.clone());
            }
        }
        users
    }

    /// Who has used the memory of an allocation before it, and who uses it.
    pub(super) fn of(&mut self, number: usize) -> Option<(&[U], &mut Vec<U>)> {
        let live = self.live.iter_mut().find(|live| live.number == number)?;
        Some((&live.before, &mut live.users))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Part, Parts, Ranges};

    fn part(bytes: std::ops::Range<usize>) -> Part {
        Part { segment: 0, bytes }
    }

    fn take(ranges: &mut Ranges<u8>, bytes: usize) -> (usize, Part) {
        let part = ranges.place(&[100, 50], bytes, |_| true).expect("there is room");
        (ranges.take(part.clone()), part)
    }

    #[test]
    fn parts_that_touch_are_one() {
        let mut parts = Parts::default();
        for bytes in [0..10, 20..30, 40..50, 25..28] {
            parts.add(&part(bytes));
        }
        assert_eq!((parts.iter().count(), parts.bytes()), (3, 30));
        parts.add(&part(10..20));
        assert_eq!((parts.iter().count(), parts.bytes()), (2, 40));
        parts.add(&Part { segment: 1, bytes: 0..5 });
        parts.add(&part(5..45));
        assert_eq!((parts.iter().count(), parts.bytes()), (2, 55));
        let mut others = Parts::default();
        others.extend(&parts);
        assert_eq!(others.bytes(), 55);
    }

    #[test]
    fn the_first_room_is_taken() {
        let mut ranges = Ranges::<u8>::default();
        let (first, at) = take(&mut ranges, 40);
        assert_eq!(at, part(0..40));
        let (_, second) = take(&mut ranges, 60);
        assert_eq!(second, part(40..100));
        assert_eq!(take(&mut ranges, 10).1, Part { segment: 1, bytes: 0..10 });
        ranges.free(first);
        assert_eq!(take(&mut ranges, 30).1, part(0..30));
        assert_eq!(ranges.place(&[100, 50], 41, |_| true), None);
        assert_eq!(ranges.place(&[100, 50], usize::MAX, |_| true), None);
        assert_eq!(ranges.place(&[], 0, |_| true), None);
    }

    #[test]
    fn who_used_it_is_known_until_others_have_used_all_of_it() {
        let mut ranges = Ranges::<u8>::default();
        let (number, _) = take(&mut ranges, 100);
        ranges.of(number).expect("it is there").1.push(1);
        ranges.free(number);
        let (unused, _) = take(&mut ranges, 50);
        assert_eq!(ranges.of(unused).expect("it is there").0, [1]);
        ranges.free(unused);
        let (number, at) = take(&mut ranges, 50);
        assert_eq!(ranges.users_of(&at), [1], "what is not used orders nothing");
        ranges.of(number).expect("it is there").1.extend([2, 3]);
        ranges.free(number);
        assert_eq!(ranges.users_of(&part(0..50)), [2, 3]);
        assert_eq!(ranges.users_of(&part(50..100)), [1]);
        assert_eq!(ranges.users_of(&part(49..51)).len(), 3);
        assert_eq!(ranges.place(&[100], 50, |user| *user == 1), Some(part(50..100)));
        assert_eq!(ranges.place(&[100], 51, |user| *user == 1), None);
        ranges.free(usize::MAX);
    }

    proptest! {
        /// No two allocations overlap, and who used a byte last is always among those who are told.
        #[test]
        fn nothing_overlaps_and_nobody_is_forgotten(
            steps in prop::collection::vec((1usize..40, 0u8..4, any::<bool>()), 1..60),
        ) {
            let (mut ranges, mut last) = (Ranges::<u8>::default(), [None::<u8>; 128]);
            let mut live: Vec<(usize, Part)> = Vec::new();
            for (bytes, user, frees) in steps {
                if let Some(at) = ranges.place(&[128], bytes, |_| true) {
                    prop_assert!(live.iter().all(|(_, other)| !other.overlaps(&at)));
                    let before = ranges.users_of(&at);
                    let known = last[at.bytes.clone()].iter().flatten();
                    prop_assert!(known.clone().all(|user| before.contains(user)));
                    let number = ranges.take(at.clone());
                    if user > 0 {
                        ranges.of(number).expect("it is there").1.push(user);
                        last[at.bytes.clone()].fill(Some(user));
                    }
                    live.push((number, at));
                }
                if frees && !live.is_empty() {
                    ranges.free(live.remove(bytes % live.len()).0);
                }
            }
        }
    }
}
