//! Execution: warps of 32 lanes over the compact form.

mod access;
pub mod atomics;
mod barrier;
mod block;
mod call;
mod collective;
mod grid;
pub(super) mod local;
pub mod memory;
pub mod registers;
mod schedule;
pub mod special;
pub(super) mod warp;
mod workspace;

pub use grid::{Launch, Options, RunStats};
