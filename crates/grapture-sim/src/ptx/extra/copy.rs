//! Copies from global to shared memory that a thread need not wait for. Here they are done at once,
//! which is one of the moments when they may be.

use super::{Env, Operands, lanes};
use crate::memory::accesses::AccessKind;
use crate::ptx::exec::memory::LaneFault;
use crate::ptx::fault::FaultKind;
use crate::ptx::types::Space;

/// `cp.async`: reads two addresses and perhaps how many bytes to take, or whether to take none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncCopy {
    /// The bytes that are written.
    pub bytes: u8,
    /// What limits the bytes that are read; zeros stand for the rest.
    pub limit: Limit,
}

/// What limits the bytes that a copy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing.
    None,
    /// A number in the third register.
    Size,
    /// None are read where the third register, a predicate, holds; or does not, if negated.
    Ignored {
        /// Whether the predicate is negated.
        negated: bool,
    },
}

impl AsyncCopy {
    pub(super) fn run(
        self,
        env: &mut Env<'_, '_>,
        operands: Operands<'_>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let [to, from, ..] = *operands.reads else { return Ok(()) };
        let len = usize::from(self.bytes);
        for lane in lanes(mask) {
            let (to, from) = (env.regs.wide.get(to)[lane], env.regs.wide.get(from)[lane]);
            let fault = |kind| (kind, lane as u32);
            for (address, write) in [(from, false), (to, true)] {
                if address % len as u64 != 0 {
                    return Err(fault(FaultKind::Misaligned { address, len, write }));
                }
            }
            let taken = self.taken(env, operands, lane).min(len);
            let mut bytes = [0; 16];
            let illegal = |address, write| fault(FaultKind::IllegalAddress { address, len, write });
            if taken != 0 {
                let found = env.memory.find(Space::Global, from, taken);
                let (region, offset) = found.map_err(|_| illegal(from, false))?;
                let into = bytes.get_mut(..taken).unwrap_or(&mut []);
                if !region.is_written(offset, taken) {
                    return Err(fault(FaultKind::Uninitialised { address: from, len: taken }));
                }
                region.read(offset, into).map_err(|_| illegal(from, false))?;
                env.memory.note(AccessKind::Read, Space::Global, from, taken);
            }
            let found = env.memory.find(Space::Shared, to, len);
            let (region, offset) = found.map_err(|_| illegal(to, true))?;
            let from = bytes.get(..len).unwrap_or(&bytes);
            region.write(offset, from).map_err(|_| illegal(to, true))?;
        }
        Ok(())
    }

    /// The bytes that a lane reads.
    fn taken(self, env: &Env<'_, '_>, operands: Operands<'_>, lane: usize) -> usize {
        let Some(reg) = operands.reads.get(2) else { return usize::from(self.bytes) };
        match self.limit {
            Limit::None => usize::from(self.bytes),
            Limit::Size => env.regs.narrow.get(*reg)[lane] as usize,
            Limit::Ignored { negated } => {
                let ignored = (env.regs.pred(*reg) >> lane & 1 != 0) != negated;
                if ignored { 0 } else { usize::from(self.bytes) }
            }
        }
    }
}
