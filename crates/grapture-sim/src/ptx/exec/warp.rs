//! A warp and the loop that runs it.

use super::access::At;
use super::barrier::{Barriers, Outcome, Ticket};
use super::local::Local;
use super::memory::{Memory, classify};
use super::registers::{Constants, FULL, Frame, LANES, Reg, Registers};
use super::schedule::{Choice, Group, State, choose};
use super::special::{Place, Special};
use crate::ptx::extra::{self, Console, Env};
use crate::ptx::fault::FaultKind;
use crate::ptx::ir::{BarrierKind, Code, NO_REG, Op, PredOp};
use crate::ptx::module::Kernel;
use crate::ptx::types::Space;

/// What a launch runs, the same for all its warps.
#[derive(Debug)]
pub struct Machine<'a> {
    /// The code.
    pub code: &'a Code,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The constants.
    pub constants: Constants,
    /// Where `printf` writes.
    pub console: Option<&'a dyn Console>,
    /// Whether the host has the vectors that code is compiled for a second time.
    pub vectors: bool,
}

/// How far a warp got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All its threads have ended.
    Done,
    /// All its threads wait.
    Blocked,
    /// It could go on.
    Paused,
}

/// A fault within a warp.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// What happened.
    pub kind: FaultKind,
    /// The lane.
    pub lane: u32,
    /// The instruction.
    pub pc: u32,
}

/// What the loop does after an instruction that may change the course of a group.
pub(super) enum Flow {
    /// Goes on behind it.
    Next,
    /// Chooses a group anew.
    Choose,
}

/// A warp.
#[derive(Debug)]
pub struct Warp {
    pub(super) regs: Registers,
    pub(super) local: Local,
    pub(super) groups: Vec<Group>,
    pub(super) place: Place,
    pub(super) yielded: bool,
    /// Whether what the launch sets is set.
    made: bool,
    /// The instructions of the warp so far.
    pub clock: u64,
    /// The instructions of its threads so far.
    pub executed: u64,
}

impl Warp {
    /// A warp that is yet to be started.
    pub fn new(machine: &Machine<'_>, place: Place) -> Self {
        Self {
            regs: Registers::new(&machine.constants),
            local: Local::default(),
            groups: Vec::new(),
            place,
            yielded: false,
            made: false,
            clock: 0,
            executed: 0,
        }
    }

    /// Starts it at the kernel's entry, in the given block, with the given lanes.
    pub fn start(
        &mut self,
        machine: &Machine<'_>,
        memory: &mut Memory<'_>,
        block: [u32; 3],
        mask: u32,
    ) {
        // INVARIANT: lowering gave the kernel the number of its function.
        let info = &machine.code.functions[machine.kernel.function as usize];
        self.place.ctaid = block;
        self.regs.reserve(info.frame);
        self.regs.enter(Frame::default());
        self.regs.clear(&info.unset, FULL);
        self.regs.carry = 0;
        self.local.reset(info.frame.local);
        if !self.made {
            self.made = true;
            self.straight(machine, &info.launch_ops, memory);
        }
        self.straight(machine, &info.block_ops, memory);
        // They stand for instructions of every thread.
        let hoisted = (info.launch_ops.len() + info.block_ops.len()) as u64;
        (self.clock, self.yielded) = (hoisted, false);
        self.executed = hoisted * u64::from(mask.count_ones());
        self.groups.clear();
        self.groups.push(Group {
            pc: info.entry,
            mask,
            frame: Frame::default(),
            stack: Vec::new(),
            state: State::Ready,
            ran: 0,
        });
    }

    /// Runs instructions that were hoisted; they read parameters and registers of the warp only,
    /// so none can fail.
    fn straight(&mut self, machine: &Machine<'_>, ops: &[Op], memory: &mut Memory<'_>) {
        for op in ops {
            let _ = self.plain(machine, op, (Frame::default(), 0), memory, FULL);
        }
    }

    /// Lanes whose threads have not ended.
    pub(super) fn alive(&self) -> u32 {
        self.groups.iter().fold(0, |mask, group| mask | group.mask)
    }

    /// Where its first waiting thread is.
    pub fn waiting(&self) -> Option<(u32, u32)> {
        self.groups.first().map(|group| (group.pc, group.mask.trailing_zeros()))
    }

    /// Runs for at most `budget` instructions.
    pub fn run(
        &mut self,
        machine: &Machine<'_>,
        memory: &mut Memory<'_>,
        barriers: &mut Barriers,
        budget: u64,
    ) -> Result<Status, Stop> {
        let end = self.clock + budget;
        while self.clock < end {
            let (regs, groups) = (&mut self.regs, &mut self.groups);
            let outcome = |group: &Group, ticket| release(machine, regs, barriers, group, ticket);
            let yielded = std::mem::take(&mut self.yielded);
            let Some(choice) = choose(groups, self.clock, yielded, outcome) else {
                return Ok(if self.groups.is_empty() { Status::Done } else { Status::Blocked });
            };
            let quantum = choice.quantum.min(end - self.clock);
            self.run_group(machine, memory, barriers, Choice { quantum, ..choice })?;
            if self.yielded && self.groups.len() == 1 {
                return Ok(Status::Paused);
            }
        }
        Ok(if self.groups.is_empty() { Status::Done } else { Status::Paused })
    }

    /// Runs a group as long as the choice says, compiled for what the host has.
    fn run_group(
        &mut self,
        machine: &Machine<'_>,
        memory: &mut Memory<'_>,
        barriers: &mut Barriers,
        choice: Choice,
    ) -> Result<(), Stop> {
        #[cfg(target_arch = "x86_64")]
        if machine.vectors {
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
            fn vectors(
                warp: &mut Warp,
                machine: &Machine<'_>,
                memory: &mut Memory<'_>,
                barriers: &mut Barriers,
                choice: Choice,
            ) -> Result<(), Stop> {
                warp.group_loop(machine, memory, barriers, choice)
            }
            // SAFETY: the function needs the features that `has_vectors` looks for, and a launch
            // sets `vectors` only after that has answered true.
            return unsafe { vectors(self, machine, memory, barriers, choice) };
        }
        self.group_loop(machine, memory, barriers, choice)
    }

    #[inline(always)]
    fn group_loop(
        &mut self,
        machine: &Machine<'_>,
        memory: &mut Memory<'_>,
        barriers: &mut Barriers,
        choice: Choice,
    ) -> Result<(), Stop> {
        let index = choice.index;
        // INVARIANT: the choice names a group of this warp, and groups are only removed by the
        // instruction that ends this function; every `pc` lies in the code, because lowering ends
        // each function with a return and resolves every branch inside it.
        let Group { mut pc, mask, frame, .. } = self.groups[index];
        self.regs.enter(frame);
        let threads = u64::from(mask.count_ones());
        // Counted here and not in the warp, so that they stay in registers of the host.
        let (mut clock, mut executed) = (self.clock, self.executed);
        let start = clock;
        let stop = clock.saturating_add(choice.quantum);
        // It goes at least one step, also where a group of another frame stands at its limit.
        while clock < stop && (pc < choice.limit || clock == start) {
            clock += 1;
            let inst = &machine.code.insts[pc as usize];
            let mut active = mask;
            if inst.guard.pred == NO_REG {
                executed += threads;
            } else {
                let holds = self.regs.pred(inst.guard.pred);
                active &= if inst.guard.negated { !holds } else { holds };
                executed += u64::from(active.count_ones());
                if active == 0 {
                    pc += 1;
                    continue;
                }
            }
            if memory.notes() {
                memory.line = machine.code.lines[pc as usize];
            }
            match self.plain(machine, &inst.op, (frame, clock), memory, active) {
                Some(Ok(())) => pc += 1,
                Some(Err((kind, lane))) => return Err(Stop { kind, lane, pc }),
                None => {
                    if let (Op::Branch { target }, true) = (&inst.op, active == mask) {
                        pc = *target;
                        continue;
                    }
                    (self.clock, self.executed) = (clock, executed);
                    self.park(index, pc, active);
                    match self.control(machine, barriers, index, &inst.op)? {
                        Flow::Next if active == mask => pc += 1,
                        Flow::Next => {
                            self.groups[index].pc = pc + 1;
                            return Ok(());
                        }
                        Flow::Choose => return Ok(()),
                    }
                }
            }
        }
        (self.clock, self.executed) = (clock, executed);
        let group = &mut self.groups[index];
        group.pc = pc;
        group.ran = clock;
        Ok(())
    }

    /// Writes a group back before an instruction that only its `active` lanes run; the others
    /// become a group of their own behind it.
    fn park(&mut self, index: usize, pc: u32, active: u32) {
        let clock = self.clock;
        // INVARIANT: as in `run_group`.
        let group = &mut self.groups[index];
        group.pc = pc;
        group.ran = clock;
        let rest = group.mask & !active;
        if rest != 0 {
            group.mask = active;
            let other = Group { pc: pc + 1, mask: rest, ..group.clone() };
            self.groups.push(other);
        }
    }

    /// An instruction after which the next one follows; `None` when it is another sort.
    #[inline(always)]
    fn plain(
        &mut self,
        machine: &Machine<'_>,
        op: &Op,
        (frame, clock): (Frame, u64),
        memory: &mut Memory<'_>,
        active: u32,
    ) -> Option<Result<(), (FaultKind, u32)>> {
        let regs = &mut self.regs;
        match *op {
            Op::Alu1 { f, d, a } => f(regs, d, a, active),
            Op::Alu2 { f, d, a, b } => f(regs, d, a, b, active),
            Op::Alu3 { f, d, a, b, c } => f(regs, d, a, b, c, active),
            Op::Alu4 { f, d, a, b, c, e } => f(regs, d, a, b, c, e, active),
            Op::Copy { d, a } if d.is_wide() => {
                let values = *regs.wide.get(a);
                regs.wide.put(d, &values, active);
            }
            Op::Copy { d, a } => {
                let values = *regs.narrow.get(a);
                regs.narrow.put(d, &values, active);
            }
            Op::Compare { f, d, q, a, b } => {
                let holds = f(regs, a, b);
                regs.put_pred(d, holds, active);
                if q != NO_REG {
                    regs.put_pred(q, !holds, active);
                }
            }
            Op::CompareWith { f, d, q, a, b, c, negated, combine } => {
                let holds = f(regs, a, b);
                let with = regs.pred(c) ^ if negated { FULL } else { 0 };
                regs.put_pred(d, combine.apply(holds, with), active);
                if q != NO_REG {
                    regs.put_pred(q, combine.apply(!holds, with), active);
                }
            }
            Op::Load { space, element, d, address } => {
                let (what, place) = ((space, element, d), (address, frame.local));
                return Some(memory.load(regs, &self.local, what, place, active));
            }
            Op::Store { space, element, a, address } => {
                let (what, place) = ((space, element, a), (address, frame.local));
                return Some(memory.store(regs, &mut self.local, what, place, active));
            }
            Op::LoadList { space, element, list, count, address } => {
                let what = (space, element, vector(machine, list, count));
                let place = (address, frame.local);
                return Some(memory.load_list(regs, &self.local, what, place, active));
            }
            Op::StoreList { space, element, list, count, address } => {
                let what = (space, element, vector(machine, list, count));
                let place = (address, frame.local);
                return Some(memory.store_list(regs, &mut self.local, what, place, active));
            }
            Op::Select { wide, d, a, b, p, negated } => {
                let first = regs.pred(p) ^ if negated { FULL } else { 0 };
                select(regs, wide, [d, a, b], first, active);
            }
            Op::Special { what, wide, d } => match (what, wide) {
                (Special::Tid(axis), false) => regs.narrow.put(d, self.place.thread(axis), active),
                (Special::Ctaid(axis), false) => {
                    regs.narrow.put(d, &[self.place.block(axis); LANES], active);
                }
                (_, true) => regs.wide.put(d, &self.place.read(what, clock), active),
                _ => {
                    let values = self.place.read(what, clock).map(|value| value as u32);
                    regs.narrow.put(d, &values, active);
                }
            },
            Op::Pred { op, d, a, b } => {
                let value = match op {
                    PredOp::True => FULL,
                    PredOp::False => 0,
                    PredOp::Move => regs.pred(a),
                    PredOp::Not => !regs.pred(a),
                    PredOp::And => regs.pred(a) & regs.pred(b),
                    PredOp::Or => regs.pred(a) | regs.pred(b),
                    PredOp::Xor => regs.pred(a) ^ regs.pred(b),
                };
                regs.put_pred(d, value, active);
            }
            Op::Test { f, d, a } => {
                let holds = f(regs, a);
                regs.put_pred(d, holds, active);
            }
            Op::FrameAddress { d, offset, wide } => {
                let value = frame.local + offset;
                if wide {
                    regs.wide.put(d, &[u64::from(value); LANES], active);
                } else {
                    regs.narrow.put(d, &[value; LANES], active);
                }
            }
            Op::Atomic { space, kind, d, a, b, address } => {
                let at = At::of(regs, address, frame.local);
                return Some(memory.atomic(regs, (space, kind), [d, a, b], &at.lanes(), active));
            }
            Op::IsSpace { space, d, a } => {
                let inside = |address: u64| {
                    let (found, _) = classify(address);
                    found == space || (space == Space::Local && found == Space::Param)
                };
                let holds =
                    regs.wide.get(a).iter().enumerate().fold(0, |mask, (lane, address)| {
                        mask | u32::from(inside(*address)) << lane
                    });
                regs.put_pred(d, holds, active);
            }
            Op::Extra { what, list, reads, writes } => {
                let (local, place) = (&mut self.local, &self.place);
                let env = Env { machine, regs, local, memory, frame, place };
                return Some(extra::run(env, what, (list, reads, writes), active));
            }
            Op::Fence => std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst),
            Op::Nop => {}
            _ => return None,
        }
        Some(Ok(()))
    }
}

/// The registers of a vector.
fn vector<'m>(machine: &Machine<'m>, list: u32, count: u8) -> &'m [Reg] {
    let start = list as usize;
    // INVARIANT: lowering put so many registers there.
    &machine.code.registers[start..start + usize::from(count)]
}

#[inline(always)]
fn select(regs: &mut Registers, wide: bool, [d, a, b]: [Reg; 3], first: u32, active: u32) {
    if wide {
        let (x, y) = (regs.wide.get(a), regs.wide.get(b));
        let out =
            std::array::from_fn(|lane| if first >> lane & 1 != 0 { x[lane] } else { y[lane] });
        regs.wide.put(d, &out, active);
    } else {
        let (x, y) = (regs.narrow.get(a), regs.narrow.get(b));
        let out =
            std::array::from_fn(|lane| if first >> lane & 1 != 0 { x[lane] } else { y[lane] });
        regs.narrow.put(d, &out, active);
    }
}

/// The outcome of the barrier that a group waits for; it is written where the instruction says.
fn release(
    machine: &Machine<'_>,
    regs: &mut Registers,
    barriers: &Barriers,
    group: &Group,
    ticket: Ticket,
) -> Option<Outcome> {
    let outcome = barriers.outcome(ticket)?;
    // INVARIANT: a group waits at the instruction that its `pc` names.
    let Op::Barrier { kind, d, .. } = machine.code.insts[group.pc as usize].op else {
        return Some(outcome);
    };
    regs.enter(group.frame);
    let lanes = |holds: bool| if holds { FULL } else { 0 };
    match kind {
        BarrierKind::Count => regs.narrow.put(d, &[outcome.count; LANES], group.mask),
        BarrierKind::All => regs.put_pred(d, lanes(outcome.all), group.mask),
        BarrierKind::Any => regs.put_pred(d, lanes(outcome.count > 0), group.mask),
        BarrierKind::Sync | BarrierKind::Arrive => {}
    }
    Some(outcome)
}
