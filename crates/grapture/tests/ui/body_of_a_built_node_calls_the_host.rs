//! A body has no host functions, no events and no allocations, so that there is nothing to call.

use grapture::{Condition, Event, Graph};

fn built(graph: &mut Graph, condition: &Condition, event: &Event) {
    let _ = graph.add_if(condition, &[], |body| {
        body.add_host(|| (), &[])?; //~ E0596
        body.add_event_record(event, &[])?; //~ E0596
        body.add_alloc::<u32>(4, &[])?; //~ E0596
        Ok(())
    });
}

fn main() {}
