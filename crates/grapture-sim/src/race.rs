//! [`Race`]: two operations that access the same bytes, and that nothing orders.

mod log;

use std::fmt;

pub(crate) use log::RaceLog;

use crate::memory::accesses::AccessKind;

/// Whether races are looked for, and what happens then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RaceCheck {
    /// They are not looked for.
    #[default]
    Off,
    /// They are kept for [`Simulation::races`](crate::Simulation::races).
    Report,
    /// Beyond that, the context of the operation that came second breaks with
    /// `CUDA_ERROR_LAUNCH_FAILED`.
    Fail,
}

/// One of the two sides of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceSide {
    /// What it does with the bytes.
    pub kind: AccessKind,
    /// What it is: a kernel by its name, a copy, a fill, a free, a memory operation.
    pub operation: String,
    /// The line of PTX; 0 where it is no kernel.
    pub line: u32,
    /// Its number: operations are counted as they are submitted, those of a graph at its launch.
    pub number: u64,
}

impl fmt::Display for RaceSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.kind, self.operation)?;
        if self.line != 0 {
            write!(f, ", line {}", self.line)?;
        }
        Ok(())
    }
}

/// Two operations that access the same bytes, one of them writing, and that nothing orders: no
/// stream, no event, no edge of a graph, no wait of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The first of the bytes.
    pub address: u64,
    /// How many from there on.
    pub bytes: u64,
    /// Where they lie.
    pub allocation: String,
    /// The operation that was submitted first.
    pub first: RaceSide,
    /// The other one.
    pub second: RaceSide,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Race { address, bytes, allocation, first, second } = self;
        write!(
            f,
            "race on {bytes} bytes at {address:#x} ({allocation}): {first}, and {second}, are not \
             ordered"
        )
    }
}
