//! Random sequences of calls, legal and illegal: no crash, no hang, no leak, and the state that the
//! rules say.
//!
//! As they are, the tests run a fixed number of cases from fixed seeds. With
//! `GRAPTURE_FUZZ_SECONDS` each goes on for so long, from seeds that differ from run to run
//! (`cargo xtask fuzz`).

#[path = "../common/mod.rs"]
mod common;

mod action;
mod budget;
mod every_function;
mod model;
mod source;
mod threads;

use budget::Budget;

#[test]
fn captures_and_graphs_are_as_the_rules_say() {
    Budget::new(300).run(action::sequence_holds);
}

#[test]
fn no_argument_of_any_function_crashes_or_hangs() {
    Budget::new(60).run(every_function::sequence_holds);
}

#[test]
fn threads_leave_nothing_behind() {
    Budget::new(20).run(threads::sequence_holds);
}
