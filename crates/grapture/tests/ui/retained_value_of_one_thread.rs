//! What a graph keeps alive is dropped on a thread of the library.

use grapture::StreamGraphCapture;
use std::rc::Rc;

fn retain_a_count(capture: &StreamGraphCapture<'_>) {
    capture.retain(Rc::new(1)); //~ E0277
}

fn main() {}
