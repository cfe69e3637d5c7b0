//! Instructions that need not be run by every block.
//!
//! What a kernel reads of its parameters and of special registers is the same for a warp in every
//! block of a launch, or in all of one block. Such instructions leave the body: they are run when a
//! warp is made, or when it starts a block.

use crate::ptx::exec::registers::{Frame, Reg};
use crate::ptx::exec::special::Special;
use crate::ptx::ir::{Base, Code, Guard, Op, PredOp, Use};
use crate::ptx::types::Space;

/// How long a value stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Span {
    /// All blocks that a warp runs.
    Launch,
    /// One block.
    Block,
}

/// The instructions that left a kernel's body.
#[derive(Clone, Debug, Default)]
pub struct Hoisted {
    /// Run once for each warp.
    pub launch: Vec<Op>,
    /// Run whenever a warp starts a block.
    pub block: Vec<Op>,
}

impl Hoisted {
    /// Whether one of them writes a register.
    pub fn writes(&self, reg: Reg) -> bool {
        self.launch.iter().chain(&self.block).any(|op| destination(op) == Some(reg))
    }
}

/// Takes such instructions out of a kernel's body, which starts at `start` and is the last in the
/// code; `frame` has its registers, and `param_bytes` is the size of its parameters.
pub fn hoist(code: &mut Code, start: usize, frame: Frame, param_bytes: u64) -> Hoisted {
    let written = write_counts(code, start, frame);
    let once = |reg: Reg| written[frame.number(reg)] == 1;
    let mut spans = vec![None; frame.registers()];
    let mut hoisted = Hoisted::default();
    // The new place of each instruction.
    let mut moved = Vec::with_capacity(code.insts.len() - start);
    let mut kept = start;
    for at in start..code.insts.len() {
        moved.push(kept as u32);
        let inst = code.insts[at];
        let span = match (inst.guard, destination(&inst.op)) {
            (Guard::ALWAYS, Some(d)) if once(d) => {
                span(&inst.op, param_bytes, |reg| spans[frame.number(reg)])
            }
            _ => None,
        };
        match (span, destination(&inst.op)) {
            (Some(span), Some(d)) => {
                spans[frame.number(d)] = Some(span);
                match span {
                    Span::Launch => hoisted.launch.push(inst.op),
                    Span::Block => hoisted.block.push(inst.op),
                }
            }
            _ => {
                code.insts[kept] = inst;
                code.lines[kept] = code.lines[at];
                kept += 1;
            }
        }
    }
    code.insts.truncate(kept);
    code.lines.truncate(kept);
    retarget(code, start, &moved);
    hoisted
}

/// The register that an instruction of these writes.
fn destination(op: &Op) -> Option<Reg> {
    match *op {
        Op::Special { d, .. }
        | Op::Load { d, .. }
        | Op::Copy { d, .. }
        | Op::FrameAddress { d, .. }
        | Op::Pred { d, .. } => Some(d),
        _ => None,
    }
}

/// How long the result of an instruction stays the same; `None` when it has to be run in its place.
fn span(op: &Op, param_bytes: u64, known: impl Fn(Reg) -> Option<Span>) -> Option<Span> {
    match *op {
        Op::Special { what, .. } => match what {
            Special::Clock
            | Special::ClockHigh
            | Special::Clock64
            | Special::GlobalTimer
            | Special::GlobalTimerLow
            | Special::GlobalTimerHigh => None,
            Special::Ctaid(_)
            | Special::SmId
            | Special::ClusterId(_)
            | Special::ClusterCtaid(_)
            | Special::ClusterRank => Some(Span::Block),
            _ => Some(Span::Launch),
        },
        Op::Load { space: Space::Param, element, address, .. } => {
            let (Base::Absolute, Ok(offset)) = (address.base, u64::try_from(address.offset)) else {
                return None;
            };
            let bytes = u64::from(element.bytes);
            let sound = offset % bytes == 0 && offset + bytes <= param_bytes;
            sound.then_some(Span::Launch)
        }
        Op::Copy { a, .. } if a.is_constant() => Some(Span::Launch),
        Op::Copy { a, .. } => known(a),
        // The frame of a kernel starts at zero.
        Op::FrameAddress { .. } => Some(Span::Launch),
        Op::Pred { op: PredOp::True | PredOp::False, .. } => Some(Span::Launch),
        _ => None,
    }
}

/// How many instructions write each register, by its number.
fn write_counts(code: &Code, start: usize, frame: Frame) -> Vec<u32> {
    let mut counts = vec![0; frame.registers()];
    for inst in code.insts.iter().skip(start) {
        inst.op.registers(&code.registers, |how, reg| {
            if how == Use::Write {
                counts[frame.number(reg)] += 1;
            }
        });
    }
    counts
}

/// Points the branches of a function to the new places.
fn retarget(code: &mut Code, start: usize, moved: &[u32]) {
    let new = |old: &mut u32| {
        if let Some(place) = (*old as usize).checked_sub(start).and_then(|at| moved.get(at)) {
            *old = *place;
        }
    };
    for inst in code.insts.iter_mut().skip(start) {
        match &mut inst.op {
            Op::Branch { target } => new(target),
            Op::BranchTable { list, count, .. } => {
                let targets = code.targets.iter_mut().skip(*list as usize).take(*count as usize);
                targets.for_each(new);
            }
            _ => {}
        }
    }
}
