//! What ends the program early, as its user reads it.

use std::fmt;
use std::process::ExitCode;

/// A failure, and how the program ends with it.
#[derive(Debug)]
pub enum Failure {
    /// It could not be done: the input, the machine or the driver does not allow it.
    Cannot(String),
    /// It was done, and the result is wrong.
    Wrong(String),
}

impl Failure {
    /// That something could not be done, for this reason.
    pub fn cannot(what: impl fmt::Display, reason: impl fmt::Display) -> Failure {
        Failure::Cannot(format!("cannot {what}: {reason}"))
    }

    /// What the program ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Wrong(_) => ExitCode::from(1),
            Failure::Cannot(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Cannot(text) | Failure::Wrong(text) => f.write_str(text),
        }
    }
}
