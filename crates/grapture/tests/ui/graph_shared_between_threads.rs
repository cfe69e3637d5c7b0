//! NVIDIA forbids concurrent calls on one graph, also those that seem to only read.

use grapture::{CudaResult, Graph};

fn count_on_two_threads(graph: &Graph) -> CudaResult<usize> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| graph.node_count()); //~ E0277
        graph.node_count()?;
        other.join().unwrap()
    })
}

fn main() {}
