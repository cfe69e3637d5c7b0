//! Instructions by which the lanes of a warp exchange values.

use super::registers::{LANES, Reg};
use super::schedule::State;
use super::warp::{Flow, Warp};
use crate::ptx::fault::FaultKind;
use crate::ptx::ir::{NO_REG, Op, Redux, Shuffle, Vote};

impl Warp {
    /// Runs one of these instructions, or lets the group wait until its partners are there.
    pub(super) fn collective(&mut self, index: usize, op: &Op) -> Result<Flow, FaultKind> {
        let alive = self.alive();
        // INVARIANT: the group was chosen among those of this warp.
        let group = &mut self.groups[index];
        let mask = group.mask;
        if let Op::ActiveMask { d } = *op {
            self.regs.narrow.put(d, &[mask; LANES], mask);
            return Ok(Flow::Next);
        }
        let members = match *op {
            Op::WarpSync { members }
            | Op::Vote { members, .. }
            | Op::Shuffle { members, .. }
            | Op::MatchAny { members, .. }
            | Op::MatchAll { members, .. }
            | Op::Redux { members, .. } => *self.regs.narrow.get(members),
            // Every other instruction was handled before.
            _ => return Err(FaultKind::IllegalInstruction),
        };
        let wanted = lanes(mask).fold(0, |wanted, lane| wanted | members[lane]);
        if wanted & alive & !mask != 0 {
            group.state = State::Lanes(wanted);
            return Ok(Flow::Choose);
        }
        // Who takes part, as each lane sees it.
        let members = members.map(|members| members & mask);
        match *op {
            Op::Vote { mode, d, p, negated, .. } => {
                let held = self.regs.pred(p) ^ if negated { u32::MAX } else { 0 };
                self.vote(mode, d, held, &members, mask);
            }
            Op::Shuffle { mode, d, p, a, b, c, .. } => {
                self.shuffle(mode, [d, p, a, b, c], &members, mask)
            }
            Op::MatchAny { wide, d, a, .. } => {
                let values = self.values(wide, a);
                let found = std::array::from_fn(|lane| equal_to(&values, lane) & members[lane]);
                self.regs.narrow.put(d, &found, mask);
            }
            Op::MatchAll { wide, d, p, a, .. } => {
                let values = self.values(wide, a);
                let same = |lane: usize| equal_to(&values, lane) & members[lane] == members[lane];
                let found = std::array::from_fn(|lane| if same(lane) { members[lane] } else { 0 });
                let holds = lanes(mask).fold(0, |held, lane| held | u32::from(same(lane)) << lane);
                self.regs.narrow.put(d, &found, mask);
                if p != NO_REG {
                    self.regs.put_pred(p, holds, mask);
                }
            }
            Op::Redux { mode, d, a, .. } => self.redux(mode, d, a, &members, mask),
            _ => {}
        }
        Ok(Flow::Next)
    }

    fn values(&self, wide: bool, a: Reg) -> [u64; LANES] {
        if wide { *self.regs.wide.get(a) } else { self.regs.narrow.get(a).map(u64::from) }
    }

    fn vote(&mut self, mode: Vote, d: Reg, held: u32, members: &[u32; LANES], mask: u32) {
        if mode == Vote::Ballot {
            self.regs.narrow.put(d, &members.map(|members| members & held), mask);
            return;
        }
        let result = lanes(mask).fold(0, |result, lane| {
            let (yes, all) = (members[lane] & held, members[lane]);
            let holds = match mode {
                Vote::All => yes == all,
                Vote::Any => yes != 0,
                Vote::Uni | Vote::Ballot => yes == all || yes == 0,
            };
            result | u32::from(holds) << lane
        });
        self.regs.put_pred(d, result, mask);
    }

    fn shuffle(
        &mut self,
        mode: Shuffle,
        [d, p, a, b, c]: [Reg; 5],
        members: &[u32; LANES],
        mask: u32,
    ) {
        let (values, by, control) =
            (self.regs.narrow.get(a), self.regs.narrow.get(b), self.regs.narrow.get(c));
        let mut out = [0; LANES];
        let mut inside = 0;
        for lane in lanes(mask) {
            let (offset, clamp) = (by[lane] & 31, control[lane] & 31);
            let segment = control[lane] >> 8 & 31;
            let own = lane as u32;
            let last = own & segment | clamp & !segment;
            let (source, valid) = match mode {
                Shuffle::Up => {
                    (own.wrapping_sub(offset), own as i32 - offset as i32 >= last as i32)
                }
                Shuffle::Down => (own + offset, own + offset <= last),
                Shuffle::Butterfly => (own ^ offset, own ^ offset <= last),
                Shuffle::Index => {
                    let source = own & segment | offset & !segment;
                    (source, source <= last)
                }
            };
            let source = if valid { source & 31 } else { own };
            // Reading a lane that does not take part is undefined; it reads its own value.
            let source = if members[lane] >> source & 1 != 0 { source } else { own };
            out[lane] = values[source as usize];
            inside |= u32::from(valid) << lane;
        }
        self.regs.narrow.put(d, &out, mask);
        if p != NO_REG {
            self.regs.put_pred(p, inside, mask);
        }
    }

    fn redux(&mut self, mode: Redux, d: Reg, a: Reg, members: &[u32; LANES], mask: u32) {
        let values = *self.regs.narrow.get(a);
        let combine = |x: u32, y: u32| match mode {
            Redux::Add => x.wrapping_add(y),
            Redux::MinU => x.min(y),
            Redux::MaxU => x.max(y),
            Redux::MinS => (x as i32).min(y as i32) as u32,
            Redux::MaxS => (x as i32).max(y as i32) as u32,
            Redux::And => x & y,
            Redux::Or => x | y,
            Redux::Xor => x ^ y,
        };
        let out = std::array::from_fn(|lane| {
            lanes(members[lane]).map(|other| values[other]).reduce(combine).unwrap_or(values[lane])
        });
        self.regs.narrow.put(d, &out, mask);
    }
}

/// The lanes of a mask.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}

/// The lanes that hold the same value as one of them.
fn equal_to(values: &[u64; LANES], lane: usize) -> u32 {
    (0..LANES).fold(0, |mask, other| mask | u32::from(values[other] == values[lane]) << other)
}
