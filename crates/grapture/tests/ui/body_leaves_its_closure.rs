//! The body of a conditional node is the node's: it does not leave the closure that fills it.

use grapture::{Condition, Graph, GraphBody, StreamGraphCapture};

fn built(graph: &mut Graph, condition: &Condition) {
    let mut kept: Option<&mut GraphBody<'_>> = None;
    let _ = graph.add_if(condition, &[], |body| {
        kept = Some(body); //~ E0521
        Ok(())
    });
    let _ = kept;
}

fn captured(capture: &StreamGraphCapture<'_>, condition: &Condition) {
    let mut kept: Option<&StreamGraphCapture<'_>> = None;
    let _ = capture.if_(condition, |body| {
        kept = Some(body); //~ E0521
        Ok(())
    });
    let _ = kept;
}

fn main() {}
