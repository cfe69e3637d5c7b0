//! The sweep: every public operation, with each of its driver calls failing in turn.
//!
//! A row of `rows` names an operation and runs it. The engine counts the driver calls that the
//! operation makes, and then runs it once for each of them and each of several codes, with that
//! call doing nothing but answer the code. After each run:
//!
//! - there is an error with the code, unless `rules` says that the library does without the call;
//! - nothing panicked, no stream captures, the thread's capture mode and current context are as
//!   they were;
//! - the same operation works on the same objects, and so do a capture and its launch;
//! - when the row has dropped its objects, as much is alive as before. What a release that failed
//!   leaves behind is one object of its kind, and it was reported.
//!
//! `public` reads the sources, and fails for a public function that has no row here.

#[path = "../common/mod.rs"]
mod common;

mod engine;
mod panics;
mod public;
mod rows;
mod rules;
mod world;

use engine::Row;

#[track_caller]
fn sweep(rows: &[Row]) {
    let done = engine::sweep(rows);
    println!("{} operations, {} driver calls, {} failures", rows.len(), done.calls, done.failures);
}

/// A test for each table of rows, and all rows together.
macro_rules! tables {
    ($($test:ident: $table:ident;)*) => {
        $(
            #[test]
            fn $test() {
                sweep(rows::$table::ROWS);
            }
        )*

        fn all_rows() -> Vec<&'static Row> {
            [$(rows::$table::ROWS),*].into_iter().flatten().collect()
        }
    };
}

tables! {
    sim_devices_survive_every_failure: device;
    sim_modules_survive_every_failure: module;
    sim_streams_survive_every_failure: stream;
    sim_events_survive_every_failure: event;
    sim_memory_survives_every_failure: memory;
    sim_captured_operations_survive_every_failure: captured;
    sim_captures_survive_every_failure: capture;
    sim_nodes_added_to_captures_survive_every_failure: capture_add;
    sim_conditional_nodes_survive_every_failure: conditional;
    sim_graphs_survive_every_failure: graph;
    sim_built_graphs_survive_every_failure: build;
    sim_updates_survive_every_failure: update;
    sim_the_cache_survives_every_failure: cache;
    sim_slots_survive_every_failure: slots;
    sim_drops_survive_every_failure: drops;
}

/// Nothing that a program does in a context that is lost panics, hangs, or is told that it worked
/// where the driver was asked.
#[test]
fn sim_every_operation_answers_in_a_lost_context() {
    engine::sweep_lost(&all_rows());
}
