//! Who changes a node has the graph for itself.

use grapture::{CudaResult, Graph, NodeId};

fn remove_beside(graph: &mut Graph, node: NodeId) -> CudaResult<()> {
    let change = graph.node_mut(node)?;
    graph.remove_node(node)?; //~ E0499
    change.set_host(|| {})
}

fn main() {}
