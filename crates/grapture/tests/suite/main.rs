//! The tests that need no control of the driver: pure ones, and ones that run on both drivers.

#[path = "../common/mod.rs"]
mod common;

mod allowed;
mod attacks;
mod attacks_graphs;
mod attacks_memory;
mod attacks_order;
mod attacks_random;
mod attacks_threads;
mod batch;
mod build;
mod build_edit;
mod build_owners;
mod cache;
mod capture;
mod capture_into;
mod capture_threads;
mod cause;
mod conditional;
mod conditional_failures;
mod device;
mod escape;
mod exec_follow;
mod exec_node;
mod field_capture;
mod graph;
mod graph_memory;
mod graph_update;
mod launch;
mod lost;
mod memory;
mod memory_capture;
mod memory_ordered;
mod pinned;
mod profile;
mod recorder;
mod refusals;
mod regions;
mod saved;
mod seeing;
mod soak;
mod topology;
mod topology_diff;
mod update_attributes;
