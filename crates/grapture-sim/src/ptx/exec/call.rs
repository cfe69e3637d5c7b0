//! Instructions that change the course of a group.

use super::barrier::Barriers;
use super::local::Local;
use super::registers::{Frame, LANES, Reg};
use super::schedule::{Group, Return, State};
use super::warp::{Flow, Machine, Stop, Warp};
use crate::ptx::fault::FaultKind;
use crate::ptx::ir::{BarrierKind, FUNCTION_BASE, NO_REG, Op, Slice};

/// How deep calls may nest.
const DEPTH_LIMIT: usize = 8192;
/// Local memory of a thread, calls included.
const STACK_LIMIT: u32 = 512 << 10;

impl Warp {
    /// Runs an instruction that is not [`plain`](Self::run); all lanes of the group take part.
    pub(super) fn control(
        &mut self,
        machine: &Machine<'_>,
        barriers: &mut Barriers,
        index: usize,
        op: &Op,
    ) -> Result<Flow, Stop> {
        // INVARIANT: the group was chosen among those of this warp, and nothing removed it since.
        let group = &mut self.groups[index];
        let (pc, mask) = (group.pc, group.mask);
        let stop = |kind| Stop { kind, lane: mask.trailing_zeros(), pc };
        match *op {
            Op::Branch { target } => group.pc = target,
            Op::BranchTable { list, count, index: selector } => {
                self.branch_table(machine, index, (list, count), selector);
            }
            Op::Call { site } => {
                let callee = machine.code.sites[site as usize].callee;
                self.call(machine, index, site, callee).map_err(stop)?;
            }
            Op::CallIndirect { site, target } => {
                self.call_indirect(machine, index, site, target).map_err(stop)?
            }
            Op::Return => self.ret(machine, barriers, index),
            Op::Exit => self.exit(barriers, index),
            Op::Trap => return Err(stop(FaultKind::Trap)),
            Op::Barrier { kind, id, count, p, negated, .. } => {
                let held = if p == NO_REG {
                    0
                } else {
                    self.regs.pred(p) ^ if negated { u32::MAX } else { 0 }
                };
                return self.barrier(barriers, index, (kind, id, count), held & mask).map_err(stop);
            }
            Op::Yield => {
                self.yielded = true;
                group.pc += 1;
            }
            _ => return self.collective(index, op).map_err(stop),
        }
        Ok(Flow::Choose)
    }

    /// Splits a group by a value that its lanes may disagree on; one group for each value.
    fn split(&mut self, index: usize, value: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
        let mut rest = self.groups[index].mask;
        let mut parts = Vec::new();
        while rest != 0 {
            let first = value(rest.trailing_zeros() as usize);
            let same = (0..LANES)
                .fold(0, |mask, lane| mask | u32::from(value(lane) == first) << lane)
                & rest;
            rest &= !same;
            if parts.is_empty() {
                self.groups[index].mask = same;
                parts.push((index, first));
            } else {
                let part = Group { mask: same, ..self.groups[index].clone() };
                self.groups.push(part);
                parts.push((self.groups.len() - 1, first));
            }
        }
        parts
    }

    fn branch_table(
        &mut self,
        machine: &Machine<'_>,
        index: usize,
        (list, count): (u32, u32),
        selector: Reg,
    ) {
        let values = *self.regs.narrow.get(selector);
        for (part, value) in self.split(index, |lane| u64::from(values[lane])) {
            let place = list as usize + value as usize;
            let inside = value < u64::from(count);
            // An index past the list is undefined; it falls through.
            let target = machine.code.targets.get(place).filter(|_| inside).copied();
            let group = &mut self.groups[part];
            group.pc = target.unwrap_or(group.pc + 1);
        }
    }

    fn call_indirect(
        &mut self,
        machine: &Machine<'_>,
        index: usize,
        site: u32,
        target: Reg,
    ) -> Result<(), FaultKind> {
        let values = *self.regs.wide.get(target);
        let site_info = &machine.code.sites[site as usize];
        for (part, address) in self.split(index, |lane| values[lane]) {
            let invalid = FaultKind::InvalidFunction { address };
            let number = address.wrapping_sub(FUNCTION_BASE);
            let callee = u32::try_from(number / 16).map_err(|_| invalid)?;
            let info = machine.code.functions.get(callee as usize).ok_or(invalid)?;
            let same = |ours: &[Slice], theirs: &[Slice]| {
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(a, b)| a.bytes == b.bytes)
            };
            let matches = same(&site_info.arguments, &info.params)
                && (site_info.results.is_empty() || same(&site_info.results, &info.returns));
            if number % 16 != 0 || !info.defined || !matches || info.name == machine.kernel.name {
                return Err(invalid);
            }
            self.call(machine, part, site, callee)?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        machine: &Machine<'_>,
        index: usize,
        site: u32,
        callee: u32,
    ) -> Result<(), FaultKind> {
        // INVARIANT: lowering numbers sites and functions; an indirect callee was looked up.
        let (code, group) = (machine.code, &mut self.groups[index]);
        let site_info = &code.sites[site as usize];
        let (caller, info) =
            (&code.functions[site_info.caller as usize], &code.functions[callee as usize]);
        let old = group.frame;
        let frame = beyond(old, caller.frame);
        let end = beyond(frame, info.frame);
        if group.stack.len() >= DEPTH_LIMIT || end.local > STACK_LIMIT {
            return Err(FaultKind::StackOverflow);
        }
        group.stack.push(Return { pc: group.pc + 1, frame: old, site, callee });
        group.pc = info.entry;
        group.frame = frame;
        let mask = group.mask;
        self.regs.reserve(end);
        self.regs.enter(frame);
        self.regs.clear(&info.unset, mask);
        self.local.reserve(end.local);
        let (arguments, params) = (&site_info.arguments, &info.params);
        copy(&mut self.local, (old.local, arguments), (frame.local, params), mask);
        Ok(())
    }

    fn ret(&mut self, machine: &Machine<'_>, barriers: &mut Barriers, index: usize) {
        let group = &mut self.groups[index];
        let Some(back) = group.stack.pop() else {
            self.exit(barriers, index);
            return;
        };
        let callee_frame = group.frame;
        group.pc = back.pc;
        group.frame = back.frame;
        let mask = group.mask;
        // INVARIANT: the call that is returned from pushed these numbers.
        let site = &machine.code.sites[back.site as usize];
        let info = &machine.code.functions[back.callee as usize];
        let (returns, results) = (&info.returns, &site.results);
        copy(&mut self.local, (callee_frame.local, returns), (back.frame.local, results), mask);
    }

    fn exit(&mut self, barriers: &mut Barriers, index: usize) {
        let gone = self.groups.swap_remove(index);
        barriers.leave(gone.mask.count_ones());
    }

    fn barrier(
        &mut self,
        barriers: &mut Barriers,
        index: usize,
        (kind, id, count): (BarrierKind, Reg, Reg),
        held: u32,
    ) -> Result<Flow, FaultKind> {
        let alive = self.alive();
        let group = &mut self.groups[index];
        let lane = group.mask.trailing_zeros() as usize;
        let uniform = |reg: Reg| {
            let values = self.regs.narrow.get(reg);
            let same = (0..LANES)
                .all(|other| group.mask >> other & 1 == 0 || values[other] == values[lane]);
            if same { Ok(values[lane]) } else { Err(FaultKind::InvalidBarrier) }
        };
        let id = uniform(id)?;
        let expected = if count == NO_REG { None } else { Some(uniform(count)?) };
        // A barrier with a count counts whole warps, even those with fewer threads.
        let whole = expected.is_some() && group.mask == alive;
        let threads = if whole { LANES as u32 } else { group.mask.count_ones() };
        let ticket = barriers
            .arrive(id, expected, threads, held.count_ones(), kind)
            .ok_or(FaultKind::InvalidBarrier)?;
        if kind == BarrierKind::Arrive {
            return Ok(Flow::Next);
        }
        group.state = State::Barrier(ticket);
        Ok(Flow::Choose)
    }
}

/// The frame that starts where another ends.
fn beyond(frame: Frame, size: Frame) -> Frame {
    Frame {
        narrow: frame.narrow + size.narrow,
        wide: frame.wide + size.wide,
        preds: frame.preds + size.preds,
        local: frame.local.saturating_add(size.local),
    }
}

/// Copies values between two frames of the lanes' local memory.
fn copy(local: &mut Local, from: (u32, &[Slice]), to: (u32, &[Slice]), mask: u32) {
    for (source, target) in from.1.iter().zip(to.1) {
        let start = u64::from(from.0) + u64::from(source.offset);
        let end = u64::from(to.0) + u64::from(target.offset);
        local.copy(start, end, source.bytes.min(target.bytes), mask);
    }
}
