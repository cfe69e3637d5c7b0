//! What a capture keeps alive is added by its own thread alone, without a lock.

use grapture::StreamGraphCapture;

fn retain_elsewhere(capture: &StreamGraphCapture<'_>) {
    std::thread::scope(|scope| {
        scope.spawn(|| capture.retain(1)); //~ E0277
    });
}

fn main() {}
