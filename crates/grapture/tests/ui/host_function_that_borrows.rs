//! A host function runs long after the call that submits it has returned.

use grapture::{CudaResult, Stream};
use std::sync::atomic::{AtomicU32, Ordering};

fn count_here(stream: &Stream) -> CudaResult<()> {
    let runs = AtomicU32::new(0);
    let borrowed = &runs; //~ E0597
    stream.host_function(move || {
        borrowed.fetch_add(1, Ordering::SeqCst);
    })
}

fn main() {}
