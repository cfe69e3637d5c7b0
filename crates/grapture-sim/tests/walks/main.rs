//! Random walks: the same calls, legal and illegal, drawn from a seed, on the simulated driver and
//! on the one that the system has. Each answers as it answered on an H200 with driver 13.0.

#[path = "../sequences/source.rs"]
mod source;

mod bodies;
mod graphs;
mod memory;
mod record;
mod streams;
mod walk;

use grapture_sys::Driver;
use walk::{Step, Walk};

const STEPS: usize = 60;

/// Takes the walk of a seed.
fn walk(driver: Driver, seed: u64) -> Vec<Step> {
    let mut walk = Walk::new(driver, seed);
    // Some walks are more about captures, some about graphs, and some about memory.
    let about = walk.source.below(4);
    graphs::create(&mut walk);
    for _ in 0..STEPS {
        match walk.source.below(8) {
            0 => on_streams(&mut walk),
            1 => on_graphs(&mut walk),
            2 if about > 1 => on_memory(&mut walk),
            _ if about == 0 => on_streams(&mut walk),
            _ if about == 3 => on_memory(&mut walk),
            _ => on_graphs(&mut walk),
        }
    }
    walk.finish()
}

fn on_streams(walk: &mut Walk) {
    match walk.source.below(22) {
        0..3 => streams::begin(walk),
        3 => streams::begin_to_graph(walk),
        4 | 5 => streams::end(walk),
        6 => streams::exchange(walk),
        7 => streams::info(walk),
        8 => streams::dependencies(walk),
        9..12 => streams::record(walk),
        12..15 => streams::wait(walk),
        15 => streams::ask_event(walk),
        16..20 => streams::on_a_stream(walk),
        _ => streams::anywhere(walk),
    }
}

fn on_graphs(walk: &mut Walk) {
    match walk.source.below(24) {
        0 => graphs::create(walk),
        1 => graphs::destroy(walk),
        2 => graphs::clone(walk),
        3..9 => graphs::add(walk),
        9..12 => graphs::edit(walk),
        12 | 13 => graphs::instantiate(walk),
        14 => graphs::destroy_exec(walk),
        15 | 16 => graphs::launch(walk),
        17 | 18 => graphs::update(walk),
        19 => bodies::branch(walk),
        20 | 21 => bodies::edit(walk),
        _ => graphs::set(walk),
    }
}

fn on_memory(walk: &mut Walk) {
    match walk.source.below(10) {
        0..3 => memory::allocate(walk),
        3 | 4 => memory::free(walk),
        5 => memory::ask(walk),
        6 | 7 => memory::access(walk),
        _ => memory::node(walk),
    }
}
