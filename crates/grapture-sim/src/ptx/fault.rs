//! What ends a kernel before its time.

use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An access outside every allocation.
    IllegalAddress {
        /// The address.
        address: u64,
        /// Bytes of the access.
        len: usize,
        /// Whether it was a store or an atomic.
        write: bool,
    },
    /// An address that is not a multiple of the access size.
    Misaligned {
        /// The address.
        address: u64,
        /// Bytes of the access.
        len: usize,
        /// Whether it was a store or an atomic.
        write: bool,
    },
    /// A read of bytes that nobody wrote since they were allocated.
    Uninitialised {
        /// The address.
        address: u64,
        /// Bytes of the access.
        len: usize,
    },
    /// An instruction that cannot be executed.
    IllegalInstruction,
    /// The instruction `trap`.
    Trap,
    /// A failed `assert`.
    Assert,
    /// Every thread that is left waits for others that never come.
    BarrierDeadlock,
    /// A barrier number or thread count that does not exist, or differs within a warp.
    InvalidBarrier,
    /// A call of an address where no function lies.
    InvalidFunction {
        /// The address.
        address: u64,
    },
    /// Calls nested too deeply.
    StackOverflow,
    /// The launch was stopped from outside.
    Stopped,
    /// The launch itself was impossible; nothing ran.
    InvalidLaunch(&'static str),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |write: &bool| if *write { "write" } else { "read" };
        match self {
            Self::IllegalAddress { address, len, write } => {
                write!(f, "illegal address {address:#x} in a {len}-byte {}", kind(write))
            }
            Self::Misaligned { address, len, write } => {
                write!(f, "misaligned address {address:#x} in a {len}-byte {}", kind(write))
            }
            Self::Uninitialised { address, len } => {
                write!(f, "uninitialised memory at {address:#x} in a {len}-byte read")
            }
            Self::IllegalInstruction => f.write_str("illegal instruction"),
            Self::Trap => f.write_str("trap instruction"),
            Self::Assert => f.write_str("device-side assertion failed"),
            Self::BarrierDeadlock => {
                f.write_str("deadlock: all remaining threads wait at barriers")
            }
            Self::InvalidBarrier => f.write_str("invalid barrier number or thread count"),
            Self::InvalidFunction { address } => {
                write!(f, "call of {address:#x}, where no function lies")
            }
            Self::StackOverflow => f.write_str("stack overflow"),
            Self::Stopped => f.write_str("stopped from outside"),
            Self::InvalidLaunch(why) => write!(f, "invalid launch: {why}"),
        }
    }
}

/// What went wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// The kernel.
    pub kernel: String,
    /// The line of the PTX text, zero when there is none.
    pub line: u32,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "{} in kernel '{}', line {}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz})",
            self.kind, self.kernel, self.line
        )
    }
}

impl std::error::Error for Fault {}
