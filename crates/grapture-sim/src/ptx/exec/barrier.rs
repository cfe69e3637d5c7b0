//! The barriers of a block.

use crate::ptx::ir::BarrierKind;

/// Barriers of a block.
const BARRIERS: usize = 16;
/// Finished rounds whose results are kept for threads that have not read them.
const HISTORY: usize = 64;

/// What the threads at a barrier said together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// How many predicates held.
    pub count: u32,
    /// Whether all held.
    pub all: bool,
}

#[derive(Clone, Debug)]
struct Barrier {
    arrived: u32,
    /// The threads that are awaited; all when absent.
    expected: Option<u32>,
    held: u32,
    asked: u32,
    round: u64,
    outcomes: [Outcome; HISTORY],
}

/// The barriers of a block.
#[derive(Clone, Debug)]
pub struct Barriers {
    list: Vec<Barrier>,
    /// Threads that have not ended.
    pub alive: u32,
}

/// A round of a barrier that threads wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: usize,
    round: u64,
}

impl Barriers {
    /// The barriers of a block of so many threads.
    pub fn new(threads: u32) -> Self {
        let barrier = Barrier {
            arrived: 0,
            expected: None,
            held: 0,
            asked: 0,
            round: 0,
            outcomes: [Outcome::default(); HISTORY],
        };
        Self { list: vec![barrier; BARRIERS], alive: threads }
    }

    /// Makes them ready for another block of so many threads.
    pub fn reset(&mut self, threads: u32) {
        for barrier in &mut self.list {
            (barrier.arrived, barrier.held, barrier.asked, barrier.expected) = (0, 0, 0, None);
            barrier.round = 0;
        }
        self.alive = threads;
    }

    /// Threads arrive, of which `held` say yes; `None` when the barrier or count is impossible.
    pub fn arrive(
        &mut self,
        id: u32,
        expected: Option<u32>,
        threads: u32,
        held: u32,
        kind: BarrierKind,
    ) -> Option<Ticket> {
        let id = id as usize;
        let alive = self.alive;
        let barrier = self.list.get_mut(id)?;
        if expected.is_some_and(|count| count == 0 || count % 32 != 0) {
            return None;
        }
        let ticket = Ticket { id, round: barrier.round };
        barrier.arrived += threads;
        barrier.expected = expected;
        if kind != BarrierKind::Arrive && kind != BarrierKind::Sync {
            barrier.held += held;
            barrier.asked += threads;
        }
        barrier.finish(alive);
        Some(ticket)
    }

    /// Threads end; barriers that waited for them no longer do.
    pub fn leave(&mut self, threads: u32) {
        self.alive = self.alive.saturating_sub(threads);
        for barrier in self.list.iter_mut().filter(|barrier| barrier.expected.is_none()) {
            barrier.finish(self.alive);
        }
    }

    /// The outcome of a round, once it is over.
    pub fn outcome(&self, ticket: Ticket) -> Option<Outcome> {
        let barrier = self.list.get(ticket.id)?;
        (barrier.round > ticket.round).then(|| barrier.outcomes[ticket.round as usize % HISTORY])
    }
}

impl Barrier {
    fn finish(&mut self, alive: u32) {
        if self.arrived == 0 || self.arrived < self.expected.unwrap_or(alive) {
            return;
        }
        self.outcomes[self.round as usize % HISTORY] =
            Outcome { count: self.held, all: self.held == self.asked };
        self.round += 1;
        (self.arrived, self.held, self.asked, self.expected) = (0, 0, 0, None);
    }
}
