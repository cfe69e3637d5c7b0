//! Who changes a node of an executable has it for itself, and the graph that names the node stays.

use grapture::{CudaResult, Graph, GraphExec, NodeId, Stream};

fn launch_beside(exec: &mut GraphExec, node: NodeId, stream: &Stream) -> CudaResult<()> {
    let mut change = exec.node(node)?;
    exec.launch(stream)?; //~ E0502
    change.set_host(|| {})
}

fn drop_the_graph(exec: &mut GraphExec, graph: Graph, node: NodeId) -> CudaResult<()> {
    let mut change = exec.node_of(&graph, node)?;
    drop(graph); //~ E0505
    change.set_host(|| {})
}

fn main() {}
