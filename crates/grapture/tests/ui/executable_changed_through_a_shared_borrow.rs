//! Who launches an executable may share it on its thread; who changes it may not.

use grapture::{CudaResult, Graph, GraphExec};

fn update(exec: &GraphExec, graph: &Graph) -> CudaResult<()> {
    exec.update(graph)?; //~ E0596
    Ok(())
}

fn main() {}
