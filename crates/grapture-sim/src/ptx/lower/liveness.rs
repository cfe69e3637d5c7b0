//! Which registers of a function can be read before they are written.
//!
//! Those hold zero at first, so that a run can be repeated; all others need no such care.

use std::collections::BTreeSet;

use crate::ptx::exec::registers::{Frame, Reg};
use crate::ptx::ir::{Code, Guard, Inst, Op, Use};

/// A set of registers by their number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    fn add(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }
}

/// Instructions that are run one after the other.
struct Block {
    start: usize,
    end: usize,
    /// Read before they are written in it.
    reads: Set,
    /// Written in it, whatever happens.
    writes: Set,
    /// Read before they are written, from its start on.
    live: Set,
}

/// The registers of the function from `start` to the end of the code that can be read before they
/// are written.
pub fn unset(code: &Code, start: usize, frame: Frame) -> Vec<Reg> {
    let mut blocks = blocks(code, start, frame);
    let starts: Vec<usize> = blocks.iter().map(|block| block.start).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for index in (0..blocks.len()).rev() {
            let mut live = Set::new(frame.registers());
            for place in successors(code, start, &blocks[index]) {
                let Ok(next) = starts.binary_search(&place) else { continue };
                for (all, word) in live.0.iter_mut().zip(&blocks[next].live.0) {
                    *all |= word;
                }
            }
            let block = &mut blocks[index];
            for ((live, reads), writes) in
                live.0.iter_mut().zip(&block.reads.0).zip(&block.writes.0)
            {
                *live = *live & !writes | reads;
            }
            changed |= live != block.live;
            block.live = live;
        }
    }
    let Some(first) = blocks.first() else { return Vec::new() };
    frame.each().filter(|reg| first.live.has(frame.number(*reg))).collect()
}

/// The blocks of a function, by place.
fn blocks(code: &Code, start: usize, frame: Frame) -> Vec<Block> {
    let mut starts = BTreeSet::from([start]);
    for (at, inst) in code.insts.iter().enumerate().skip(start) {
        match inst.op {
            Op::Branch { target } => {
                starts.insert(target as usize);
            }
            Op::BranchTable { list, count, .. } => starts.extend(table(code, list, count)),
            _ => {}
        }
        if inst.op.ends_block() {
            starts.insert(at + 1);
        }
    }
    starts.insert(code.insts.len());
    let places: Vec<usize> = starts.into_iter().filter(|at| *at <= code.insts.len()).collect();
    places.windows(2).map(|pair| block(code, pair[0], pair[1], frame)).collect()
}

fn block(code: &Code, start: usize, end: usize, frame: Frame) -> Block {
    let empty = Set::new(frame.registers());
    let (mut reads, mut writes) = (empty.clone(), empty.clone());
    for Inst { guard, op } in &code.insts[start..end] {
        let mut read = |writes: &Set, reg: Reg| {
            let number = frame.number(reg);
            if !writes.has(number) {
                reads.add(number);
            }
        };
        if *guard != Guard::ALWAYS {
            read(&writes, guard.pred);
        }
        op.registers(&code.registers, |how, reg| match how {
            Use::Read => read(&writes, reg),
            // A thread for which the guard does not hold keeps what was there.
            Use::Write if *guard == Guard::ALWAYS => writes.add(frame.number(reg)),
            Use::Write => {}
        });
    }
    Block { start, end, reads, writes, live: empty }
}

fn table(code: &Code, list: u32, count: u32) -> impl Iterator<Item = usize> {
    let targets = code.targets.iter().skip(list as usize).take(count as usize);
    targets.map(|target| *target as usize)
}

/// Where a thread can be after a block.
fn successors(code: &Code, start: usize, block: &Block) -> Vec<usize> {
    let mut next = Vec::new();
    let Some(last) = code.insts[start..block.end].last() else { return next };
    match last.op {
        Op::Branch { target } => next.push(target as usize),
        Op::BranchTable { list, count, .. } => next.extend(table(code, list, count)),
        _ => {}
    }
    // An index past a table falls through.
    let falls = matches!(last.op, Op::BranchTable { .. });
    if falls || last.guard != Guard::ALWAYS || !last.op.ends_block() {
        next.push(block.end);
    }
    next
}
