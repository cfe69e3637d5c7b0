//! The CUDA driver API as data: the C types and constants, one table line per function, and the
//! loading of a driver at run time. Building it needs no toolkit, no network and no GPU.
//!
//! Everything here is the raw ABI; the crate `grapture` is the safe library over it.

#[allow(
    clippy::all,
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnameable_types,
    reason = "generated"
)]
mod bindings;
mod codes;
mod driver;
mod functions;
mod load;
mod table;

pub use bindings::*;
pub use codes::{ErrorCode, error_code};
pub use driver::{Driver, Origin};
pub use load::{Attempt, LoadError};
pub use table::{Function, FunctionInfo, FunctionSet, Functions};
