//! Which lanes of a warp run next.
//!
//! Lanes that are at the same place form a group. The group deepest in calls and, among those,
//! earliest in the text goes first, so that groups meet again where their paths join; a group that
//! has not run for long goes before that, so that lanes which spin cannot starve the one that they
//! wait for.

use super::barrier::{Outcome, Ticket};
use super::registers::Frame;

/// Instructions after which a waiting group counts as starved.
const STARVED: u64 = 2048;
/// Instructions that a starved group gets.
const QUANTUM: u64 = 512;

/// A call to return from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Where to go on.
    pub pc: u32,
    /// The caller's frame.
    pub frame: Frame,
    /// The call.
    pub site: u32,
    /// The function called.
    pub callee: u32,
}

/// Whether a group can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Ready,
    /// It waits for a barrier.
    Barrier(Ticket),
    /// It waits at its place for other lanes of the warp, as a set.
    Lanes(u32),
}

/// Lanes at the same place.
#[derive(Clone, Debug)]
pub struct Group {
    /// The next instruction.
    pub pc: u32,
    /// The lanes.
    pub mask: u32,
    /// The frame of the current function.
    pub frame: Frame,
    /// The calls to return from.
    pub stack: Vec<Return>,
    /// Whether it can run.
    pub state: State,
    /// When it ran last, in instructions of the warp.
    pub ran: u64,
}

impl Group {
    fn same_place(&self, other: &Self) -> bool {
        self.pc == other.pc && self.frame == other.frame && self.stack == other.stack
    }
}

/// A choice: the group, the place where it must stop, how long it may run.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The group.
    pub index: usize,
    /// It stops before it gets here or beyond.
    pub limit: u32,
    /// It stops after so many instructions.
    pub quantum: u64,
}

/// Releases and joins what can be, then chooses a group; `None` when all wait.
pub fn choose(
    groups: &mut Vec<Group>,
    clock: u64,
    yielded: bool,
    mut outcome: impl FnMut(&Group, Ticket) -> Option<Outcome>,
) -> Option<Choice> {
    if let [only] = groups.as_mut_slice()
        && only.state == State::Ready
    {
        return Some(Choice { index: 0, limit: u32::MAX, quantum: u64::MAX });
    }
    for group in groups.iter_mut() {
        if let State::Barrier(ticket) = group.state
            && outcome(group, ticket).is_some()
        {
            group.state = State::Ready;
            group.pc += 1;
        }
    }
    join(groups);
    release_lanes(groups);
    let ready = || groups.iter().enumerate().filter(|(_, group)| group.state == State::Ready);
    let (oldest, group) = ready().min_by_key(|(_, group)| group.ran)?;
    if ready().count() > 1 && (yielded || clock.saturating_sub(group.ran) > STARVED) {
        return Some(Choice { index: oldest, limit: u32::MAX, quantum: QUANTUM });
    }
    let key = |group: &Group| (std::cmp::Reverse(group.stack.len()), group.pc);
    let (index, chosen) = ready().min_by_key(|(_, group)| key(group))?;
    let depth = chosen.stack.len();
    let rivals = ready().filter(|(other, group)| *other != index && group.stack.len() == depth);
    let limit = rivals.map(|(_, group)| group.pc).min().unwrap_or(u32::MAX);
    let quantum = if ready().count() > 1 { STARVED } else { u64::MAX };
    Some(Choice { index, limit, quantum })
}

/// Joins groups that are at the same place in the same state.
fn join(groups: &mut Vec<Group>) {
    let mut index = 0;
    while index < groups.len() {
        let mut other = index + 1;
        while other < groups.len() {
            let (a, b) = (&groups[index], &groups[other]);
            let alike = matches!(
                (a.state, b.state),
                (State::Ready, State::Ready) | (State::Lanes(_), State::Lanes(_))
            );
            if alike && a.same_place(b) {
                let gone = groups.swap_remove(other);
                let kept = &mut groups[index];
                kept.mask |= gone.mask;
                kept.ran = kept.ran.min(gone.ran);
                if let (State::Lanes(a), State::Lanes(b)) = (kept.state, gone.state) {
                    kept.state = State::Lanes(a | b);
                }
            } else {
                other += 1;
            }
        }
        index += 1;
    }
}

/// Lets groups go on whose awaited lanes are all there or have ended.
fn release_lanes(groups: &mut [Group]) {
    let alive = groups.iter().fold(0, |mask, group| mask | group.mask);
    for group in groups {
        if let State::Lanes(wanted) = group.state
            && wanted & alive & !group.mask == 0
        {
            group.state = State::Ready;
        }
    }
}
