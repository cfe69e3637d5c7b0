//! There is no empty graph to replay: a handle stands for a live object, or does not exist.

use grapture::{Graph, GraphExec, StreamGraphCapture};

fn make_up() {
    let _ = GraphExec::default(); //~ E0599
    let _ = Graph::default(); //~ E0599
    let _ = StreamGraphCapture {}; //~ error
}

fn main() {}
