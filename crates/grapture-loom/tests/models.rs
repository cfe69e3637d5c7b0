//! Loom's answer to each model.

use grapture_loom::models;

#[test]
fn submissions_run_or_are_recorded() {
    models::submissions_run_or_are_recorded();
}

#[test]
fn captures_exclude_each_other() {
    models::captures_exclude_each_other();
}

#[test]
fn a_submission_is_of_one_capture() {
    models::a_submission_is_of_one_capture();
}

#[test]
fn a_stream_that_joins_runs_or_is_recorded() {
    models::a_stream_that_joins_runs_or_is_recorded();
}

#[test]
fn a_claimed_value_is_one_threads() {
    models::a_claimed_value_is_one_threads();
}

#[test]
fn a_context_is_waited_for_outside_of_captures() {
    models::a_context_is_waited_for_outside_of_captures();
}

#[test]
fn a_capture_may_end_on_another_thread() {
    models::a_capture_may_end_on_another_thread();
}
