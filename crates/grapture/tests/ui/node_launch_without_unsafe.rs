//! What a kernel does with its arguments is the caller's promise, in a node too.

use grapture::{CudaResult, Graph, Kernel, NodeId};

fn add(graph: &mut Graph, kernel: &Kernel, node: NodeId) -> CudaResult<()> {
    graph.add_kernel(kernel.launch_builder(1, 1), &[])?; //~ E0133
    graph.node_mut(node)?.set_kernel(kernel.launch_builder(1, 1)) //~ E0133
}

fn main() {}
