//! The function of a node runs at every launch, and outlives the call that adds it.

use grapture::{CudaResult, Graph};

fn run_once(graph: &mut Graph, message: String) -> CudaResult<()> {
    graph.add_host(move || drop(message), &[])?; //~ E0507
    Ok(())
}

fn borrow(graph: &mut Graph) -> CudaResult<()> {
    let message = String::new();
    let borrowed = &message; //~ E0597
    graph.add_host(move || print!("{borrowed}"), &[])?;
    Ok(())
}

fn main() {}
