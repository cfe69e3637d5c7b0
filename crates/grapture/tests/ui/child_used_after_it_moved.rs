//! A graph that moved into a node is that node's.

use grapture::{CudaResult, Graph};

fn keep(graph: &mut Graph, child: Graph) -> CudaResult<usize> {
    graph.add_child_moved(child, &[])?;
    child.node_count() //~ E0382
}

fn main() {}
