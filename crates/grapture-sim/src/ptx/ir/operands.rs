//! Which registers an instruction reads and writes.

use super::{Address, Base, NO_REG, Op};
use crate::ptx::exec::registers::Reg;

/// How an instruction uses a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It reads it.
    Read,
    /// It writes it, in the lanes that run the instruction.
    Write,
}

impl Op {
    /// Calls `visit` for every register, those that are read before those that are written.
    /// Constants are none. `lists` are the registers of vectors.
    pub fn registers(&self, lists: &[Reg], mut visit: impl FnMut(Use, Reg)) {
        let (reads, writes) = self.operands();
        let mut each = |how: Use, reg: Reg| {
            if reg != NO_REG && !reg.is_constant() {
                visit(how, reg);
            }
        };
        reads.into_iter().for_each(|reg| each(Use::Read, reg));
        if let Op::LoadList { list, count, .. } | Op::StoreList { list, count, .. } = *self {
            let how = if matches!(self, Op::LoadList { .. }) { Use::Write } else { Use::Read };
            let list = lists.iter().skip(list as usize).take(usize::from(count));
            list.for_each(|reg| each(how, *reg));
        }
        if let Op::Extra { list, reads, writes, .. } = *self {
            let all = lists.iter().skip(list as usize);
            let (reads, writes) = (usize::from(reads), usize::from(writes));
            all.clone().take(reads).for_each(|reg| each(Use::Read, *reg));
            all.skip(reads).take(writes).for_each(|reg| each(Use::Write, *reg));
        }
        writes.into_iter().for_each(|reg| each(Use::Write, reg));
    }

    /// The registers that are read and those that are written, but for those of lists; what is
    /// absent is [`NO_REG`].
    fn operands(&self) -> ([Reg; 5], [Reg; 2]) {
        const NO: Reg = NO_REG;
        match *self {
            Op::Alu1 { d, a, .. } | Op::Copy { d, a } | Op::Test { d, a, .. } => {
                ([a, NO, NO, NO, NO], [d, NO])
            }
            Op::IsSpace { d, a, .. } => ([a, NO, NO, NO, NO], [d, NO]),
            Op::Alu2 { d, a, b, .. } => ([a, b, NO, NO, NO], [d, NO]),
            Op::Alu3 { d, a, b, c, .. } => ([a, b, c, NO, NO], [d, NO]),
            Op::Alu4 { d, a, b, c, e, .. } => ([a, b, c, e, NO], [d, NO]),
            Op::Compare { d, q, a, b, .. } => ([a, b, NO, NO, NO], [d, q]),
            Op::CompareWith { d, q, a, b, c, .. } => ([a, b, c, NO, NO], [d, q]),
            Op::Pred { d, a, b, .. } => ([a, b, NO, NO, NO], [d, NO]),
            Op::Select { d, a, b, p, .. } => ([a, b, p, NO, NO], [d, NO]),
            Op::Special { d, .. } | Op::FrameAddress { d, .. } | Op::ActiveMask { d } => {
                ([NO; 5], [d, NO])
            }
            Op::Load { d, address, .. } => ([address.register(), NO, NO, NO, NO], [d, NO]),
            Op::Store { a, address, .. } => ([address.register(), a, NO, NO, NO], [NO; 2]),
            Op::Extra { .. } => ([NO; 5], [NO; 2]),
            Op::LoadList { address, .. } | Op::StoreList { address, .. } => {
                ([address.register(), NO, NO, NO, NO], [NO; 2])
            }
            Op::Atomic { d, a, b, address, .. } => ([address.register(), a, b, NO, NO], [d, NO]),
            Op::BranchTable { index, .. } => ([index, NO, NO, NO, NO], [NO; 2]),
            Op::CallIndirect { target, .. } => ([target, NO, NO, NO, NO], [NO; 2]),
            Op::Barrier { id, count, p, d, .. } => ([id, count, p, NO, NO], [d, NO]),
            Op::WarpSync { members } => ([members, NO, NO, NO, NO], [NO; 2]),
            Op::Vote { d, p, members, .. } => ([p, members, NO, NO, NO], [d, NO]),
            Op::Shuffle { d, p, a, b, c, members, .. } => ([a, b, c, members, NO], [d, p]),
            Op::MatchAny { d, a, members, .. } => ([a, members, NO, NO, NO], [d, NO]),
            Op::MatchAll { d, p, a, members, .. } => ([a, members, NO, NO, NO], [d, p]),
            Op::Redux { d, a, members, .. } => ([a, members, NO, NO, NO], [d, NO]),
            Op::Fence
            | Op::Branch { .. }
            | Op::Call { .. }
            | Op::Return
            | Op::Exit
            | Op::Trap
            | Op::Yield
            | Op::Nop => ([NO; 5], [NO; 2]),
        }
    }

    /// Whether what follows in the text need not follow in time.
    pub fn ends_block(&self) -> bool {
        matches!(
            self,
            Op::Branch { .. } | Op::BranchTable { .. } | Op::Return | Op::Exit | Op::Trap
        )
    }
}

impl Address {
    fn register(self) -> Reg {
        match self.base {
            Base::Narrow(reg) | Base::Wide(reg) => reg,
            Base::Absolute | Base::Frame => NO_REG,
        }
    }
}
