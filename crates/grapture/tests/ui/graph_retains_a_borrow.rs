//! What a graph keeps alive outlives every launch: a borrow does not.

use grapture::Graph;

fn retain_a_borrow(graph: &mut Graph) {
    let word = 1;
    graph.retain(&word); //~ E0597
}

fn main() {}
