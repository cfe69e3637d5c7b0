//! [`ContextLost`]: a fault of earlier work has taken the context, and who saw it first.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{CudaError, write_code};
use crate::operation::{Line, OperationSite};

/// The environment variable that has each context remember its last launches, to name them when a
/// fault has taken it: set it to 1.
///
/// A fault is told by a later call, which is innocent. Without the variable nothing is kept of work
/// that was submitted outside of a capture, so that submitting it costs nothing more.
pub const LAUNCH_HISTORY_VARIABLE: &str = "GRAPTURE_LAUNCH_HISTORY";

/// How many launches are remembered.
const REMEMBERED: usize = 16;

/// The context is lost: a kernel faulted, and nothing runs in it any more.
///
/// The driver tells of a fault at whichever call comes next. So the call that got this error did
/// nothing wrong, and which work did can only be suspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextLost {
    code: u32,
    witness: Option<Witness>,
    suspects: Vec<OperationSite>,
    /// This is what the first call was answered. It may still say which call that was.
    first: bool,
}

/// The call that the driver told of the fault first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// A function of this library.
    Call(&'static str, &'static Location<'static>),
    /// An operation that was to be submitted.
    Operation(OperationSite),
}

impl ContextLost {
    /// The driver's code.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The line of the program that saw the fault first. The work at fault was submitted before.
    /// None if that was a call which does not say where it is made, such as `Stream::new`.
    pub fn first_seen(&self) -> Option<&'static Location<'static>> {
        self.witness.as_ref().map(|witness| match witness {
            Witness::Call(_, location) => *location,
            Witness::Operation(site) => site.location(),
        })
    }

    /// The last launches in the context before that, the oldest first, if the process was started
    /// with [`LAUNCH_HISTORY_VARIABLE`].
    pub fn suspects(&self) -> &[OperationSite] {
        &self.suspects
    }
}

impl fmt::Display for ContextLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the context is lost: ")?;
        write_code(f, self.code)?;
        f.write_str(", in work that was submitted earlier")?;
        match &self.witness {
            None => {}
            Some(Witness::Call(function, location)) => {
                write!(f, "; first seen by `{function}` ({})", Line(location))?;
            }
            Some(Witness::Operation(site)) => write!(f, "; first seen by {site}")?,
        }
        match self.suspects.split_last() {
            None => write!(
                f,
                "; to have the last launches named, run it again with {LAUNCH_HISTORY_VARIABLE}=1"
            )?,
            Some((last, before)) => {
                write!(f, "; first suspect: {last}, the last launch before that")?;
                for (index, site) in before.iter().rev().enumerate() {
                    write!(f, "{} {site}", if index == 0 { "; before it:" } else { "," })?;
                }
            }
        }
        f.write_str(
            "; nothing runs in this context any more, nor perhaps in another one of the \
                     process: start a new process",
        )
    }
}

impl std::error::Error for ContextLost {}

/// What is known of the faults in one of the driver's contexts.
#[derive(Default)]
pub(crate) struct Faults {
    lost: Mutex<Option<ContextLost>>,
    launches: Mutex<VecDeque<OperationSite>>,
}

impl Faults {
    /// The error for a code of the driver: the one from when the context was lost, if it is.
    #[cold]
    pub(crate) fn explain(&self, error: CudaError) -> CudaError {
        if !error.is_sticky() || matches!(error, CudaError::ContextLost(_)) {
            return error;
        }
        let mut lost = lock(&self.lost);
        let first = lost.is_none();
        let lost = lost.get_or_insert_with(|| ContextLost {
            code: error.code(),
            witness: None,
            suspects: lock(&self.launches).iter().cloned().collect(),
            first: false,
        });
        CudaError::ContextLost(Box::new(ContextLost { first, ..lost.clone() }))
    }

    /// Says which call got the error, if that is the first to tell that the context is lost.
    #[cold]
    pub(crate) fn witnessed(
        &self,
        error: CudaError,
        witness: impl FnOnce() -> Witness,
    ) -> CudaError {
        if !matches!(&error, CudaError::ContextLost(lost) if lost.first) {
            return error;
        }
        let mut lost = lock(&self.lost);
        let Some(lost) = lost.as_mut() else { return error };
        lost.witness = Some(witness());
        CudaError::ContextLost(Box::new(lost.clone()))
    }

    /// Remembers a launch that was just made.
    #[cold]
    pub(crate) fn remember(&self, site: OperationSite) {
        let mut launches = lock(&self.launches);
        if launches.len() == REMEMBERED {
            launches.pop_front();
        }
        launches.push_back(site);
    }
}

/// Whether launches are to be remembered.
pub(crate) fn remembers_launches() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED
        .get_or_init(|| std::env::var_os(LAUNCH_HISTORY_VARIABLE).is_some_and(|value| value == "1"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
