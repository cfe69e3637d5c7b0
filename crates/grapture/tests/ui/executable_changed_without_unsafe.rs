//! What a kernel does with its arguments is the caller's promise, in an executable too.

use grapture::{CudaResult, ExecNode, Kernel};

fn change(mut node: ExecNode<'_>, kernel: &Kernel) -> CudaResult<()> {
    node.set_kernel(kernel.launch_builder(1, 1)) //~ E0133
}

fn main() {}
