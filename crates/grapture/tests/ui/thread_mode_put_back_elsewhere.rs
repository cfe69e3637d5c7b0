//! The capture mode belongs to a thread: the guard puts it back there.

use grapture::ThreadCaptureMode;

fn put_back_elsewhere(guard: ThreadCaptureMode) {
    std::thread::spawn(move || drop(guard)); //~ E0277
}

fn main() {}
