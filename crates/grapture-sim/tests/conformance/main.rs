//! One case per rule of the driver, written once and run on both: the tests of `sim_tier` on the
//! simulated driver, those of `gpu_tier` on the one that the system has. What they state is what a
//! real driver (13.0, on an H200) answered, or what is guessed until one is asked.
//!
//! The tests of the GPU share a process, a device and its primary context, so they run one by one
//! (`--test-threads=1`), and each leaves the context as it found it.

#[macro_use]
mod tiers;

mod host;
mod rig;
mod subject;

mod asked;
mod capture_contexts;
mod capture_corners;
mod capture_matrix;
mod capture_rules;
mod codes;
mod contexts;
mod graph_corners;
mod graph_errors;
mod graph_generic;
mod graph_kernels;
mod graph_launch;
mod graph_shapes;
mod graph_users;
mod memory_corners;
mod ordering;
