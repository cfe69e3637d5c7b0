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
mod steering;
mod subject;

mod batch_memops;
mod capture_contexts;
mod capture_corners;
mod capture_matrix;
mod capture_rules;
mod codes;
mod conditional_bodies;
mod conditional_programs;
mod conditionals;
mod contexts;
mod graph_copies;
mod graph_corners;
mod graph_edges;
mod graph_errors;
mod graph_generic;
mod graph_kernels;
mod graph_launch;
mod graph_memory;
mod graph_shapes;
mod graph_text;
mod graph_update;
mod graph_users;
mod memory_corners;
mod ordering;
