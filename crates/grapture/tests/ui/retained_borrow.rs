//! What a graph keeps alive outlives every launch: a borrow does not.

use grapture::StreamGraphCapture;

fn retain_a_borrow(capture: &StreamGraphCapture<'_>) {
    let word = 1;
    capture.retain(&word); //~ E0597
}

fn main() {}
