//! Why a module does not compile.

use std::fmt;

/// A place in PTX text; both numbers count from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
}

/// The sort of mistake, as the driver tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileErrorKind {
    /// The text is not valid PTX (`CUDA_ERROR_INVALID_PTX`).
    Invalid,
    /// The text asks for a newer PTX version than is known (`CUDA_ERROR_UNSUPPORTED_PTX_VERSION`).
    Version,
    /// Valid PTX that the simulation does not implement (`CUDA_ERROR_NOT_SUPPORTED`).
    Unsupported,
}

/// Why and where a module does not compile; its text is the line of the JIT error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The sort of mistake.
    pub kind: CompileErrorKind,
    /// The line, counted from one.
    pub line: usize,
    /// The column, counted from one.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// The result of a compile step.
pub type Result<T> = std::result::Result<T, CompileError>;

impl CompileError {
    /// An error of the given kind.
    pub fn new(kind: CompileErrorKind, at: Position, message: impl Into<String>) -> Self {
        Self { kind, line: at.line as usize, column: at.column as usize, message: message.into() }
    }

    /// The text is not valid PTX.
    pub fn invalid(at: Position, message: impl Into<String>) -> Self {
        Self::new(CompileErrorKind::Invalid, at, message)
    }

    /// The text is valid, but not implemented.
    pub fn unsupported(at: Position, message: impl Into<String>) -> Self {
        Self::new(CompileErrorKind::Unsupported, at, message)
    }

    /// The same error, in the operands of an instruction.
    #[must_use]
    pub fn within(mut self, opcode: &str) -> Self {
        self.message = format!("{} in '{opcode}'", self.message);
        self
    }

    /// The driver's code for this error.
    #[must_use]
    pub fn driver_code(&self) -> u32 {
        match self.kind {
            CompileErrorKind::Invalid => 218,
            CompileErrorKind::Version => 222,
            CompileErrorKind::Unsupported => 801,
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for CompileError {}
