//! What is known of the order of operations, and of the bytes that each accessed.
//!
//! Every task keeps the tasks that it waits for, also when they are done: an operation is ordered
//! after those that can be reached so. Two tasks are compared when the second of them ends, so
//! neither has to be looked at again. What the host has waited for is ordered before everything
//! that is submitted later; once nothing older is left to end, it is forgotten.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use super::{Race, RaceCheck, RaceSide};
use crate::engine::TaskId;
use crate::memory::Memory;
use crate::memory::accesses::{AccessKind, Accesses, Conflict};
use crate::sim::lock;

/// Races that are kept; what comes beyond is most likely the same again.
const KEPT: usize = 1000;

/// A task that others may race with.
#[derive(Debug, Default)]
struct Known {
    after: Vec<TaskId>,
    /// The key of its context.
    context: u64,
    /// What it is and did, once it is done.
    done: Option<(String, Accesses)>,
    /// The last task that was submitted before the host knew that this one is done.
    settled: Option<TaskId>,
}

#[derive(Debug, Default)]
struct Inner {
    tasks: BTreeMap<TaskId, Known>,
    found: Vec<Race>,
}

/// The log of a simulation that looks for races.
#[derive(Debug)]
pub(crate) struct RaceLog {
    check: RaceCheck,
    inner: Mutex<Inner>,
}

impl RaceLog {
    /// A log, if the check wants one.
    pub(crate) fn new(check: RaceCheck) -> Option<RaceLog> {
        (check != RaceCheck::Off).then(|| RaceLog { check, inner: Mutex::default() })
    }

    /// Whether a race breaks the context.
    pub(crate) fn breaks(&self) -> bool {
        self.check == RaceCheck::Fail
    }

    /// The races found so far.
    pub(crate) fn found(&self) -> Vec<Race> {
        lock(&self.inner).found.clone()
    }

    /// A task was submitted in a context.
    pub(crate) fn begin(&self, task: TaskId, context: u64) {
        lock(&self.inner).tasks.entry(task).or_default().context = context;
    }

    /// A task comes after others; more may be said of it later.
    pub(crate) fn order(&self, task: TaskId, after: &[TaskId]) {
        let mut inner = lock(&self.inner);
        inner.tasks.entry(task).or_default().after.extend_from_slice(after);
    }

    /// The host knows that a task is done, and what came before it; `last` is the last task that
    /// was submitted.
    pub(crate) fn settle(&self, task: TaskId, last: TaskId) {
        let mut inner = lock(&self.inner);
        let mut known = inner.before(task);
        known.insert(task);
        inner.settle(known, last);
    }

    /// The host knows that what came before a task is done.
    pub(crate) fn settle_before(&self, task: TaskId, last: TaskId) {
        let mut inner = lock(&self.inner);
        let known = inner.before(task);
        inner.settle(known, last);
    }

    /// The host waited for what was submitted in a context up to a task.
    pub(crate) fn settle_context(&self, key: u64, until: TaskId, last: TaskId) {
        let mut inner = lock(&self.inner);
        let ends = inner.tasks.iter().filter(|(id, known)| **id <= until && known.context == key);
        let mut known = HashSet::new();
        for task in ends.map(|(id, _)| *id).collect::<Vec<_>>() {
            known.extend(inner.before(task));
            known.insert(task);
        }
        inner.settle(known, last);
    }

    /// A task waited until a word had some value: it comes after all that wrote the word.
    pub(crate) fn awaited(&self, task: TaskId, address: u64, bytes: u64) {
        let mut word = Accesses::default();
        word.add(AccessKind::Read, 0, address, bytes);
        let mut inner = lock(&self.inner);
        let wrote = |known: &Known| {
            known.done.as_ref().is_some_and(|(_, accesses)| accesses.conflict(&word).is_some())
        };
        let writers: Vec<_> =
            inner.tasks.iter().filter(|(_, known)| wrote(known)).map(|(id, _)| *id).collect();
        inner.tasks.entry(task).or_default().after.extend(writers);
    }

    /// A task is done; answers the races of it with others. `oldest` is the oldest task that is
    /// not done.
    pub(crate) fn finish(
        &self,
        task: TaskId,
        (operation, accesses): (String, Accesses),
        oldest: Option<TaskId>,
        memory: &Memory,
    ) -> Vec<Race> {
        let mut inner = lock(&self.inner);
        let mut races = Vec::new();
        if !accesses.is_empty() {
            let before = inner.before(task);
            for (other, known) in &inner.tasks {
                let ordered = *other == task
                    || before.contains(other)
                    || known.settled.is_some_and(|last| last < task);
                if let (false, Some((name, theirs))) = (ordered, &known.done)
                    && let Some(conflict) = theirs.conflict(&accesses)
                {
                    let sides = [(*other, name), (task, &operation)];
                    races.push(race(conflict, sides, memory));
                }
            }
        }
        inner.tasks.entry(task).or_default().done = Some((operation, accesses));
        inner.forget(oldest);
        let room = KEPT.saturating_sub(inner.found.len());
        inner.found.extend(races.iter().take(room).cloned());
        races
    }
}

impl Inner {
    /// The tasks that come before one.
    fn before(&self, task: TaskId) -> HashSet<TaskId> {
        let mut seen = HashSet::new();
        let mut open = vec![task];
        while let Some(next) = open.pop() {
            for earlier in self.tasks.get(&next).into_iter().flat_map(|known| &known.after) {
                if *earlier != task && self.tasks.contains_key(earlier) && seen.insert(*earlier) {
                    open.push(*earlier);
                }
            }
        }
        seen
    }

    fn settle(&mut self, tasks: HashSet<TaskId>, last: TaskId) {
        for task in tasks {
            if let Some(known) = self.tasks.get_mut(&task) {
                known.settled.get_or_insert(last);
            }
        }
    }

    /// Forgets what everything that is yet to end comes after.
    fn forget(&mut self, oldest: Option<TaskId>) {
        self.tasks.retain(|_, known| match (known.settled, oldest) {
            (Some(last), Some(oldest)) => oldest <= last,
            (Some(_), None) => false,
            (None, _) => true,
        });
    }
}

fn race(conflict: Conflict, sides: [(TaskId, &String); 2], memory: &Memory) -> Race {
    let Conflict { address, bytes, kinds, lines } = conflict;
    let side = |index: usize| {
        // INVARIANT: all three arrays have two elements, and the index is 0 or 1.
        let (task, operation) = (sides[index].0, sides[index].1.clone());
        RaceSide { kind: kinds[index], operation, line: lines[index], number: task.number() }
    };
    let (mut first, mut second) = (side(0), side(1));
    if first.number > second.number {
        std::mem::swap(&mut first, &mut second);
    }
    let allocation = memory.snapshot().describe(address);
    let allocation = allocation.unwrap_or_else(|| "memory of the program".to_owned());
    Race { address, bytes, allocation, first, second }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::accesses::AccessKind::Write;

    struct Rig {
        log: RaceLog,
        memory: Memory,
    }

    impl Rig {
        fn new() -> Rig {
            let log = RaceLog::new(RaceCheck::Report).unwrap();
            Rig { log, memory: Memory::new(1, 1 << 20, false) }
        }

        fn begin(&self, task: u64, after: &[u64]) {
            let after: Vec<TaskId> = after.iter().map(|id| TaskId::from_number(*id)).collect();
            self.log.begin(TaskId::from_number(task), 0);
            self.log.order(TaskId::from_number(task), &after);
        }

        /// Ends a task that wrote the same word as all others; answers how many it races with.
        fn finish(&self, task: u64, oldest: Option<u64>) -> usize {
            let mut word = Accesses::default();
            word.add(Write, 0, 64, 4);
            let (task, oldest) = (TaskId::from_number(task), oldest.map(TaskId::from_number));
            self.log.finish(task, (String::new(), word), oldest, &self.memory).len()
        }

        fn remembered(&self) -> usize {
            lock(&self.log.inner).tasks.len()
        }
    }

    #[test]
    fn what_the_host_waited_for_is_forgotten_once_nothing_older_is_left() {
        let rig = Rig::new();
        (1..=3).for_each(|task| rig.begin(task, &[]));
        assert_eq!(rig.finish(1, Some(2)), 0);
        rig.log.settle(TaskId::from_number(1), TaskId::from_number(3));
        assert_eq!(rig.remembered(), 3);
        // It was submitted before the host waited, so it may still race.
        assert_eq!(rig.finish(2, Some(3)), 1);
        rig.begin(4, &[]);
        assert_eq!(rig.finish(4, Some(3)), 1, "with 2 alone");
        assert_eq!(rig.finish(3, None), 3);
        assert_eq!(rig.remembered(), 3, "the first is gone");
    }

    #[test]
    fn an_order_that_is_learnt_late_counts() {
        let rig = Rig::new();
        (1..=3).for_each(|task| rig.begin(task, &[]));
        assert_eq!(rig.finish(1, None), 0);
        rig.log.order(TaskId::from_number(2), &[TaskId::from_number(1)]);
        rig.log.order(TaskId::from_number(3), &[TaskId::from_number(2)]);
        assert_eq!(rig.finish(2, None), 0);
        assert_eq!(rig.finish(3, None), 0);
    }

    #[test]
    fn a_wait_for_a_context_counts_for_what_came_before_it_elsewhere() {
        let rig = Rig::new();
        rig.begin(1, &[]);
        rig.finish(1, None);
        rig.log.begin(TaskId::from_number(2), 7);
        rig.log.order(TaskId::from_number(2), &[TaskId::from_number(1)]);
        rig.finish(2, None);
        rig.log.settle_context(7, TaskId::from_number(2), TaskId::from_number(2));
        rig.begin(3, &[]);
        assert_eq!(rig.finish(3, None), 0);
    }
}
