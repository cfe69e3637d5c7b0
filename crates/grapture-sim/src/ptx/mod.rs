//! Kernels: PTX text, its compilation to a compact register form, and the execution of that.
//!
//! [`Module::compile`] makes a module of PTX text, [`Launch::run`] runs one of its kernels over the
//! memory that a [`GlobalMemory`] gives meaning to. What is not supported fails to compile, with
//! the instruction and its line; nothing is left out silently.

// A lane is a number that indexes several arrays at once; iterators would hide that.
#![allow(clippy::needless_range_loop)]

mod alu;
mod ast;
mod contract;
mod error;
mod exec;
mod extra;
mod fault;
mod ir;
mod lexer;
mod lower;
mod module;
mod parser;
mod types;
mod vectors;

pub use error::{CompileError, CompileErrorKind};
pub use exec::memory::{GlobalMemory, LOCAL_WINDOW, PARAM_WINDOW, Region, SHARED_WINDOW};
pub use exec::{Launch, Options, RunStats};
pub use extra::{Channel, Console};
pub use fault::{Fault, FaultKind};
pub use ir::CONDITIONAL_BASE;
pub use module::{Global, Kernel, Module, Param, Relocation};
pub use types::Space;
