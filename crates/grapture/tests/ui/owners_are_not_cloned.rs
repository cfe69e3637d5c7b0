//! Each of these is destroyed or freed once, by its one owner.

use grapture::{DeviceBuffer, Graph, GraphExec, LaunchBuilder, PinnedBuffer, StreamGraphCapture};

fn twice<'a>(
    graph: &Graph,
    exec: &GraphExec,
    memory: &DeviceBuffer<u32>,
    pinned: &PinnedBuffer<u32>,
    capture: &StreamGraphCapture<'_>,
    launch: LaunchBuilder<'a>,
) -> LaunchBuilder<'a> {
    let _: Graph = graph.clone(); //~ E0308
    let _: GraphExec = exec.clone(); //~ E0308
    let _: DeviceBuffer<u32> = memory.clone(); //~ E0308
    let _: PinnedBuffer<u32> = pinned.clone(); //~ E0308
    let _: StreamGraphCapture<'_> = capture.clone(); //~ E0308
    launch.clone() //~ E0599
}

fn main() {}
