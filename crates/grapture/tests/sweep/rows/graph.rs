//! Graphs and executables.

use grapture::{
    BatchNode, Bindings, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, FillNode, Graph,
    InstantiateFlags, InstantiateOptions, Stream, StreamGraphCapture, WordCondition,
};
use grapture_sys::Function;
use tempfile::NamedTempFile;

use crate::engine::{Row, row};
use crate::world::World;

/// By which the end of a launch is marked on a default stream, with two tries.
const MARKS: &[Function] =
    &[Function::cuCtxPushCurrent_v2, Function::cuEventCreate, Function::cuEventRecord];

/// The context is entered for the instantiation, which is asked for again to learn the reason. And
/// what the kernels have of attributes may stay unknown: then the executable is made anew, where it
/// might have been updated.
pub const ASKED_AGAIN: &[Function] = &[
    Function::cuCtxPushCurrent_v2,
    Function::cuGraphGetNodes,
    Function::cuGraphNodeGetType,
    Function::cuGraphKernelNodeGetAttribute,
    Function::cuGraphChildGraphNodeGetGraph,
];

/// Memory that the driver says nothing of has no name in a topology.
const UNNAMED: &[Function] = &[
    Function::cuCtxPushCurrent_v2,
    Function::cuGraphGetNodes,
    Function::cuGraphNodeGetType,
    Function::cuGraphKernelNodeGetAttribute,
    Function::cuGraphChildGraphNodeGetGraph,
    Function::cuMemGetAddressRange_v2,
    Function::cuPointerGetAttribute,
];

/// A graph with what else there is in files, and what it refers to.
fn saved_kinds(w: &World) -> (Graph, Bindings) {
    let (mut words, event) = (w.buffer(), w.event());
    let mut graph = Graph::new(&w.context).unwrap();
    let host = graph.add_host(|| {}, &[]).unwrap();
    graph.set_label(host, "host").unwrap();
    let record = graph.add_event_record(&event, &[host]).unwrap();
    let mut scratch = graph.add_alloc::<u32>(4, &[record]).unwrap();
    graph.add_fill(FillNode::new(&mut scratch, 1).unwrap(), &[]).unwrap();
    graph.add_free(&scratch, &[]).unwrap();
    let batch = BatchNode::new(&w.context).write(&mut words.view_mut(..1).unwrap(), 1u32);
    graph.add_batch(batch.unwrap(), &[]).unwrap();
    let condition = WordCondition::new(&words).unwrap();
    let built = graph.add_while(&condition, &[], |body| {
        body.add_fill(FillNode::new(&mut words, 0)?, &[]).map(drop)
    });
    built.unwrap();
    let bindings = Bindings::new(&w.context).host("host", || {}).unwrap();
    let bindings = bindings.event("event", &event).unwrap();
    (graph, bindings.memory("words", &mut words).unwrap())
}

/// A graph of a kernel and a child, what it refers to, and a file.
fn saved(w: &World) -> (Graph, Bindings, NamedTempFile) {
    let mut words = w.buffer();
    let child = w.stream.capture(CaptureMode::Relaxed, |_| words.fill(7, &w.stream)).unwrap();
    let mut graph =
        w.stream.capture(CaptureMode::Relaxed, |_| w.launch(&mut words, &w.stream)).unwrap();
    let first = graph.nodes().unwrap()[0].id();
    graph.add_child(&child, &[first]).unwrap();
    let bindings = Bindings::new(&w.context).module(&w.module, b"image").unwrap();
    (graph, bindings.memory("words", &mut words).unwrap(), NamedTempFile::new().unwrap())
}

pub const ROWS: &[Row] = &[
    row("Graph::node_count", |w| {
        let graph = w.graph();
        w.attempt(|| graph.node_count());
    }),
    row("Graph::nodes", |w| {
        let graph = w.graph();
        w.attempt(|| graph.nodes());
    }),
    row("Graph::roots", |w| {
        let graph = w.graph();
        w.attempt(|| graph.roots());
    }),
    row("Graph::edges", |w| {
        let graph = w.graph();
        w.attempt(|| graph.edges());
    }),
    row("Graph::topology", |w| {
        let graph = w.graph();
        w.attempt(|| graph.topology());
    })
    .tolerates(UNNAMED),
    row("Graph::profile", |w| {
        let graph = w.graph();
        w.attempt(|| graph.profile(&w.stream, 2));
    })
    .tolerates(UNNAMED),
    row("Graph::profile_of", |w| {
        w.attempt(|| {
            let build = || w.captured(|stream| stream.host_function(|| {}));
            Graph::profile_of(&w.stream, 2, build)
        });
    })
    .tolerates(UNNAMED),
    row("GraphExec::profile", |w| {
        let mut words = w.buffer();
        w.attempt(|| {
            let capture =
                StreamGraphCapture::begin(&w.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
            w.launch(&mut words, &w.stream)?;
            capture.end()?.profile(&w.stream, 2)
        });
    })
    .tolerates(UNNAMED),
    row("Graph::save", |w| {
        let (graph, bindings, file) = saved(w);
        w.attempt(|| graph.save(file.path(), &bindings));
    })
    .tolerates(UNNAMED)
    .also(&["Graph::to_saved"]),
    row("Graph::load", |w| {
        let (graph, bindings, file) = saved(w);
        graph.save(file.path(), &bindings).unwrap();
        // SAFETY: the kernel of the file touches the memory that is bound.
        w.attempt(|| unsafe { Graph::load(file.path(), &bindings) });
    })
    // As for `Module::kernel`.
    .tolerates(&[Function::cuFuncGetAttribute, Function::cuDeviceGetAttribute])
    .also(&["Graph::from_saved"]),
    row("Graph::to_saved, of other kinds", |w| {
        let (graph, bindings) = saved_kinds(w);
        w.attempt(|| graph.to_saved(&bindings));
    })
    .tolerates(UNNAMED),
    row("Graph::from_saved, of other kinds", |w| {
        let (graph, bindings) = saved_kinds(w);
        let text = graph.to_saved(&bindings).unwrap();
        // SAFETY: it has no kernel but the library's.
        w.attempt(|| unsafe { Graph::from_saved(&text, &bindings) });
    })
    .tolerates(&[Function::cuFuncGetAttribute, Function::cuDeviceGetAttribute]),
    row("Graph::from_saved, with an image", |w| {
        let graph = Graph::new(&w.context).unwrap();
        let image =
            ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry none() { ret; }";
        let bindings = Bindings::new(&w.context).embedded_module(&w.module, image.as_bytes());
        let text = graph.to_saved(&bindings.unwrap()).unwrap();
        let none = Bindings::new(&w.context);
        // SAFETY: it has no kernel.
        w.attempt(|| unsafe { Graph::from_saved(&text, &none) });
    }),
    row("Graph::write_debug_dot", |w| {
        let (graph, file) = (w.graph(), tempfile::NamedTempFile::new().unwrap());
        w.attempt(|| graph.write_debug_dot(file.path(), true));
    }),
    row("Graph::instantiate", |w| {
        let graph = w.graph();
        w.attempt(|| graph.instantiate());
    })
    .tolerates(ASKED_AGAIN),
    row("Graph::instantiate_with, flags", |w| {
        let graph = w.graph();
        let options = InstantiateOptions::new().flags(InstantiateFlags::USE_NODE_PRIORITY);
        w.attempt(|| graph.instantiate_with(&options));
    })
    .tolerates(ASKED_AGAIN),
    row("Graph::instantiate_with, an upload", |w| {
        let graph = w.graph();
        let options = InstantiateOptions::new().upload_on(&w.side);
        w.attempt(|| graph.instantiate_with(&options));
    })
    .tolerates(ASKED_AGAIN),
    row("GraphExec::flags", |w| {
        let exec = w.exec();
        w.attempt(|| exec.flags());
    }),
    row("GraphExec::upload", |w| {
        let exec = w.exec();
        w.attempt(|| exec.upload(&w.stream));
    }),
    row("GraphExec::launch", |w| {
        let exec = w.exec();
        w.attempt(|| exec.launch(&w.stream));
    }),
    row("GraphExec::launch, on a thread's stream", |w| {
        let exec = w.small_graph().instantiate().unwrap();
        w.attempt(|| exec.launch(&Stream::per_thread(&w.context)));
    })
    .tolerates(MARKS),
];
