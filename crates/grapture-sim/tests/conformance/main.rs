//! One case per rule of the driver, written once and run on both: the tests of `sim_tier` on the
//! simulated driver, those of `gpu_tier` on the one that the system has. What an H200 with driver
//! 13.0 answered stands in a golden file that both tiers are held against, and in assertions where
//! these explain the rule.
//!
//! The tests of the GPU share a process, a device and its primary context, so they run one by one
//! (`--test-threads=1`), and each leaves the context as it found it.

#[macro_use]
mod tiers;

mod golden;
mod host;
mod rig;
mod steering;
mod subject;
mod transcript;

mod asked;
mod batch_memops;
mod capture_broken;
mod capture_contexts;
mod capture_corners;
mod capture_info;
mod capture_orders;
mod capture_rules;
mod capture_to_graph;
mod codes;
mod conditional_bodies;
mod conditional_programs;
mod conditionals;
mod context_state;
mod contexts;
mod devices;
mod events;
mod functions;
mod graph_clusters;
mod graph_copies;
mod graph_corners;
mod graph_edges;
mod graph_errors;
mod graph_frees;
mod graph_generic;
mod graph_kernels;
mod graph_launch;
mod graph_memory;
mod graph_places;
mod graph_shapes;
mod graph_text;
mod graph_update;
mod graph_update_versions;
mod graph_users;
mod inner_nodes;
mod matrix;
mod memory;
mod memory_corners;
mod nulls;
mod occupancy;
mod ordering;
mod pointers;
mod pools;
mod sticky;
mod sticky_kinds;
mod stream_tuning;
mod streams;
mod words;
