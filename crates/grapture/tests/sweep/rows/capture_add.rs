//! Nodes that are added to an open capture by hand.

use grapture::{
    BatchNode, CaptureMode, CopyNode, CudaResult, FillNode, NodeId, StreamGraphCapture,
};
use grapture_sys::Function;

use crate::engine::{Row, row};
use crate::world::World;

/// Has `add` add a node to a capture.
fn adding(world: &World, mut add: impl FnMut(&StreamGraphCapture<'_>) -> CudaResult<NodeId>) {
    world.attempt(|| {
        world.stream.capture(CaptureMode::ThreadLocal, |capture| add(capture).map(drop))
    });
}

pub const ROWS: &[Row] = &[
    row("StreamGraphCapture::add_kernel", |w| {
        let mut words = w.buffer();
        adding(w, |capture| {
            let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { capture.add_kernel(launch, &[]) }
        });
    }),
    row("StreamGraphCapture::add_kernel, with an attribute", |w| {
        let mut words = w.buffer();
        adding(w, |capture| {
            let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32).priority(-1);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { capture.add_kernel(launch, &[]) }
        });
    })
    // Asked before, for the case that the attribute is refused.
    .tolerates(&[Function::cuGraphGetNodes]),
    row("StreamGraphCapture::add_copy", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        adding(w, |capture| capture.add_copy(CopyNode::device(&mut words, &other)?, &[]));
    }),
    row("StreamGraphCapture::add_fill", |w| {
        let mut words = w.ordered();
        adding(w, |capture| capture.add_fill(FillNode::new(&mut words, 1)?, &[]));
    }),
    row("StreamGraphCapture::add_host", |w| adding(w, |capture| capture.add_host(|| {}, &[]))),
    row("StreamGraphCapture::add_empty", |w| adding(w, |capture| capture.add_empty(&[]))),
    row("StreamGraphCapture::add_event_record", |w| {
        let event = w.event();
        adding(w, |capture| capture.add_event_record(&event, &[]));
    }),
    row("StreamGraphCapture::add_event_wait", |w| {
        let event = w.event();
        adding(w, |capture| capture.add_event_wait(&event, &[]));
    }),
    row("StreamGraphCapture::add_batch", |w| {
        let mut words = w.buffer();
        adding(w, |capture| {
            capture.add_batch(BatchNode::new(&w.context).write(&mut words, 1u32)?, &[])
        });
    }),
    row("StreamGraphCapture::add_child", |w| {
        let child = w.small_graph();
        adding(w, |capture| capture.add_child(&child, &[]));
    }),
];
