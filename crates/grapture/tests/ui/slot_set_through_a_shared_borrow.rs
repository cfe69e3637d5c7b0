//! A slot is set by who has the executable for himself.

use grapture::{GraphExec, Slot};

fn set(exec: &GraphExec, value: &Slot<f32>) {
    let _ = exec.set(value, 1.0); //~ E0596
}

fn patch(exec: &mut GraphExec, value: &Slot<f32>) {
    let patch = exec.patch().set(value, 1.0);
    let _ = exec.node_count(); //~ E0502
    let _ = patch.apply();
}

fn main() {}
