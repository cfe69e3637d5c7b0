//! Segments are launched by one thread at a time.

use grapture::{Segments, Stream};

fn share(segments: &mut Segments<'_>, stream: &Stream) {
    std::thread::scope(|scope| {
        scope.spawn(|| segments.launch(stream));
        scope.spawn(|| segments.launch(stream)); //~ E0499
    });
}

fn main() {}
