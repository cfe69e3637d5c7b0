//! A host function in a graph runs at every launch: one that can run once would use what is gone.

use grapture::{CudaResult, Stream};

fn run_once(stream: &Stream, message: String) -> CudaResult<()> {
    stream.host_function(move || drop(message)) //~ E0507
}

fn main() {}
