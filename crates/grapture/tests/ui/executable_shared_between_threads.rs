//! NVIDIA forbids that two threads use one executable graph at once.

use grapture::{CudaResult, GraphExec, Stream};

fn launch_on_two_threads(exec: &GraphExec, stream: &Stream) -> CudaResult<()> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| exec.launch(stream)); //~ E0277
        exec.launch(stream)?;
        other.join().unwrap()
    })
}

fn main() {}
