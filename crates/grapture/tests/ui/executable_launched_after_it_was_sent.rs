//! What was sent to another thread is launched there alone.

use grapture::{CudaResult, GraphExec, Stream};

fn launch_here_too(exec: GraphExec, stream: Stream) -> CudaResult<()> {
    let there = stream.clone();
    let other = std::thread::spawn(move || exec.launch(&there));
    exec.launch(&stream)?; //~ E0382
    other.join().unwrap()
}

fn main() {}
