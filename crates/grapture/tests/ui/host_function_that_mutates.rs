//! Two executables of one graph may run a host function at the same time.

use grapture::{CudaResult, Stream};

fn count_up(stream: &Stream) -> CudaResult<()> {
    let mut runs = 0;
    stream.host_function(move || runs += 1) //~ E0594
}

fn main() {}
