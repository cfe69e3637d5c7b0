//! A host function runs on a thread of the driver, and perhaps on two at once.

use grapture::{CudaResult, Stream};
use std::cell::Cell;
use std::rc::Rc;

fn share_a_count(stream: &Stream) -> CudaResult<()> {
    let runs = Rc::new(1);
    stream.host_function(move || drop(runs.clone()))?; //~ E0277
    let cell = Cell::new(0);
    stream.host_function(move || cell.set(1)) //~ E0277
}

fn main() {}
