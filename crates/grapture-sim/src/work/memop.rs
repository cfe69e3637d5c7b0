//! Waits for and writes of words of memory.

use std::sync::Arc;
use std::time::Duration;

use grapture_sys::CUDA_ERROR_ILLEGAL_ADDRESS;

use crate::context::ContextCore;
use crate::fault::Fault;
use crate::memory::accesses::{AccessKind, Accesses};
use crate::sim::Sim;

/// How long a wait sleeps between two looks.
const POLL: Duration = Duration::from_micros(50);

/// One operation on a word of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemOp {
    /// Waits until the word compares so with the value.
    Wait {
        /// Where.
        address: u64,
        /// With what.
        value: u64,
        /// 4 or 8.
        bytes: usize,
        /// The flags as given.
        flags: u32,
    },
    /// Writes the word.
    Write {
        /// Where.
        address: u64,
        /// What.
        value: u64,
        /// 4 or 8.
        bytes: usize,
        /// The flags as given.
        flags: u32,
    },
    /// Orders memory; nothing to do here.
    Barrier {
        /// The flags as given.
        flags: u32,
    },
}

/// Does the operations in order; gives up where the context breaks or the simulation ends.
pub(crate) fn run(
    ops: &[MemOp],
    sim: &Arc<Sim>,
    context: &ContextCore,
    mut accesses: Option<&mut Accesses>,
) -> Result<(), Fault> {
    for op in ops {
        match *op {
            MemOp::Wait { address, value, bytes, flags } => {
                while !holds(read(sim, address, bytes)?, value, bytes, flags) {
                    if sim.engine.is_closing() || context.fault().is_some() {
                        return Ok(());
                    }
                    std::thread::sleep(POLL);
                }
                sim.engine.awaited(address, bytes as u64);
            }
            MemOp::Write { address, value, bytes, .. } => {
                let word = value.to_ne_bytes();
                if let Some(accesses) = &mut accesses {
                    accesses.add(AccessKind::Atomic, 0, address, bytes as u64);
                }
                // INVARIANT: the API functions make words of 4 or 8 bytes only.
                sim.memory.write(address, &word[..bytes.min(8)]).map_err(illegal)?;
            }
            MemOp::Barrier { .. } => {}
        }
    }
    Ok(())
}

fn read(sim: &Arc<Sim>, address: u64, bytes: usize) -> Result<u64, Fault> {
    let mut word = [0; 8];
    // INVARIANT: the API functions make words of 4 or 8 bytes only.
    sim.memory.read(address, &mut word[..bytes.min(8)]).map_err(illegal)?;
    Ok(u64::from_ne_bytes(word))
}

fn illegal(reason: impl std::fmt::Display) -> Fault {
    Fault::new(CUDA_ERROR_ILLEGAL_ADDRESS, format!("a memory operation: {reason}"))
}

fn holds(word: u64, value: u64, bytes: usize, flags: u32) -> bool {
    let ones = if bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
    match flags & 3 {
        0 if bytes == 4 => (word as u32).wrapping_sub(value as u32) as i32 >= 0,
        0 => word.wrapping_sub(value) as i64 >= 0,
        1 => word == value,
        2 => word & value != 0,
        _ => !(word | value) & ones != 0,
    }
}
