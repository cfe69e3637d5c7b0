//! Nodes that are added to an open capture by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::counted::{Token, counter, get};
use crate::common::words::{refusal, value, word};
use crate::common::{Setup, both_tiers, comes_true};
use grapture::{
    BatchNode, CaptureMode, CopyNode, CudaError, DeviceBuffer, Driver, Event, FillNode, Graph,
    NodeKind, OperationKind, PinnedBuffer, Stream, StreamGraphCapture, WordCondition,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers! {
    nodes_of_every_kind_are_added,
    a_node_is_in_no_order_until_it_is_said,
    a_node_tells_the_line_that_added_it,
    what_added_nodes_use_outlives_its_handles,
    pinned_memory_of_added_nodes_is_marked,
    what_cannot_be_added_is_refused_and_the_capture_stays_valid,
    memory_that_only_a_graph_has_is_refused,
    a_node_in_a_body_needs_no_join,
    a_body_refuses_an_added_node_by_its_line,
    a_capture_into_a_graph_takes_nodes_and_takes_them_back,
    names_are_those_of_the_graph,
    a_broken_capture_takes_no_nodes,
    a_function_that_submits_when_it_is_dropped_blocks_nothing,
    nodes_are_added_beside_other_threads,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn kinds(graph: &Graph) -> Vec<NodeKind> {
    graph.nodes().unwrap().iter().map(|node| node.kind()).collect()
}

#[track_caller]
fn run(graph: &Graph, stream: &Stream) {
    graph.instantiate().unwrap().launch(stream).unwrap();
    stream.synchronize().unwrap();
}

fn nodes_of_every_kind_are_added(setup: &Setup) {
    let kernel = setup.module.kernel("add").unwrap();
    for mode in MODES {
        let stream = setup.stream();
        let (mut a, mut b) = (word(setup), word(setup));
        let (event, before) =
            (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
        before.record(&stream).unwrap();
        let child = stream.capture(mode, |_| setup.add(&mut b, 100, &stream)).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let graph = stream.capture(mode, |capture| {
            a.fill(1, &stream)?;
            let mut last = capture.dependencies()?;
            let launch = kernel.launch_builder(1, 1).arg_mut(&mut a).value(2u32).priority(0);
            // SAFETY: `add` takes the address of a word and a value.
            last = vec![unsafe { capture.add_kernel(launch, &last) }?];
            last = vec![capture.add_copy(CopyNode::device(&mut b, &a)?, &last)?];
            last = vec![capture.add_fill(FillNode::new(&mut a, 7)?, &last)?];
            last =
                vec![capture.add_host(move || _ = counted.fetch_add(1, Ordering::SeqCst), &last)?];
            last = vec![capture.add_empty(&last)?];
            last = vec![capture.add_event_record(&event, &last)?];
            last = vec![capture.add_event_wait(&before, &last)?];
            last = vec![
                capture.add_batch(BatchNode::new(&setup.context).write(&mut a, 8u32)?, &last)?,
            ];
            last = vec![capture.add_child(&child, &last)?];
            assert!(capture.is_active());
            capture.set_dependencies(&last)?;
            setup.add(&mut a, 1, &stream)
        });
        let graph = graph.unwrap();
        use NodeKind::*;
        assert_eq!(
            kinds(&graph),
            [
                Memset,
                Kernel,
                Memcpy,
                Memset,
                Host,
                Empty,
                EventRecord,
                EventWait,
                BatchMemOp,
                ChildGraph,
                Kernel
            ],
            "{mode:?}"
        );
        assert_eq!(graph.edges().unwrap().len(), 10);
        run(&graph, &stream);
        event.synchronize().unwrap();
        assert_eq!(
            (value(&a, &stream), value(&b, &stream), calls.load(Ordering::SeqCst)),
            (9, 103, 1)
        );
    }
}

fn a_node_is_in_no_order_until_it_is_said(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (word(setup), word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        a.fill(1, &stream)?;
        let first = capture.dependencies()?;
        let loose = capture.add_fill(FillNode::new(&mut b, 2)?, &[])?;
        assert_eq!(capture.dependencies()?, first, "the stream is as it was");
        setup.add(&mut a, 1, &stream)?;
        capture.add_dependencies(&[loose, loose])?;
        a.copy_from(&b, &stream)?;
        // Nothing joins that one, and nothing has to.
        capture.add_empty(&[loose]).map(drop)
    });
    let graph = graph.unwrap();
    let edges: Vec<_> = graph.edges().unwrap();
    let nodes: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.id()).collect();
    let place = |id| nodes.iter().position(|node| *node == id).unwrap();
    let mut edges: Vec<_> =
        edges.iter().map(|edge| (place(edge.from()), place(edge.to()))).collect();
    edges.sort_unstable();
    assert_eq!(edges, [(0, 2), (1, 3), (1, 4), (2, 3)]);
    run(&graph, &stream);
    assert_eq!(value(&a, &stream), 2);
}

fn a_node_tells_the_line_that_added_it(setup: &Setup) {
    let stream = setup.stream();
    let mut a = word(setup);
    let mut lines = Vec::new();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        lines.push(line!() + 1);
        a.fill(1, &stream)?;
        let fill = FillNode::new(&mut a, 2)?;
        let fill = capture.labelled("by hand", || {
            lines.push(line!() + 1);
            capture.add_fill(fill, &[])
        })?;
        capture.set_dependencies(&[fill])?;
        lines.push(line!() + 1);
        stream.host_function(|| {})
    });
    let topology = graph.unwrap().topology().unwrap();
    let told: Vec<_> =
        topology.nodes().iter().map(|node| node.line().map(|line| line.line())).collect();
    assert_eq!(told, lines.iter().map(|line| Some(*line)).collect::<Vec<_>>());
    assert_eq!(topology.nodes()[1].label(), Some("by hand"));
}

fn what_added_nodes_use_outlives_its_handles(setup: &Setup) {
    let stream = setup.stream();
    let dropped = counter();
    let token = Token(dropped.clone());
    let mut seen = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut gone = word(setup);
        let fill = capture.add_fill(FillNode::new(&mut gone, 5)?, &[])?;
        let copy = capture.add_copy(CopyNode::device(&mut seen, &gone)?, &[fill])?;
        let part = stream.context().clone();
        let inner = Stream::new(&part)?.capture(CaptureMode::Relaxed, |_| Ok(()))?;
        capture.add_child(&inner, &[copy])?;
        capture.add_host(move || _ = &token, &[copy]).map(drop)
    });
    let graph = graph.unwrap();
    assert!(graph.retained().iter().any(|kept| kept.to_string().contains("4 bytes")));
    let exec = graph.into_exec().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!((value(&seen, &stream), get(&dropped)), (5, 0));
    drop(exec);
    setup.wait_until(|| get(&dropped) == 1);
}

fn pinned_memory_of_added_nodes_is_marked(setup: &Setup) {
    let stream = setup.stream();
    let mut pinned = PinnedBuffer::from_slice(&setup.context, &[4u32]).unwrap();
    let mut a = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.add_copy(CopyNode::from_pinned(&mut a, &pinned)?, &[]).map(drop)
    });
    let exec = graph.unwrap().instantiate().unwrap();
    {
        let _held = pinned.write().unwrap();
        assert!(matches!(exec.launch(&stream), Err(CudaError::Refused(_))));
    }
    exec.launch(&stream).unwrap();
    assert_eq!(value(&a, &stream), 4);
}

fn what_cannot_be_added_is_refused_and_the_capture_stays_valid(setup: &Setup) {
    let stream = setup.stream();
    let mut a = word(setup);
    let mut other = Graph::new(&setup.context).unwrap();
    let foreign = other.add_empty(&[]).unwrap();
    let earlier = stream
        .capture(CaptureMode::ThreadLocal, |capture| capture.add_empty(&[]).map(drop))
        .unwrap()
        .nodes()
        .unwrap()[0]
        .id();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        for node in [foreign, earlier] {
            assert!(refusal(capture.add_empty(&[node])).contains("a node of another graph"));
            let fill = FillNode::new(&mut a, 1)?;
            assert!(refusal(capture.add_fill(fill, &[node])).contains("a node of another graph"));
            assert!(refusal(capture.set_dependencies(&[node])).contains("a node of another graph"));
            assert!(refusal(capture.add_dependencies(&[node])).contains("a node of another graph"));
        }
        let condition = WordCondition::new(&a)?;
        capture.if_(&condition, |_| {
            assert!(refusal(capture.add_empty(&[])).contains("capture waits"));
            assert!(refusal(capture.set_dependencies(&[])).contains("capture waits"));
            assert!(refusal(capture.dependencies()).contains("capture waits"));
            Ok(())
        })?;
        assert!(capture.is_active());
        capture.add_fill(FillNode::new(&mut a, 3)?, &capture.dependencies()?).map(drop)
    });
    run(&graph.unwrap(), &stream);
    assert_eq!(value(&a, &stream), 3);
}

fn memory_that_only_a_graph_has_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut other = Graph::new(&setup.context).unwrap();
    let mut memory = other.add_alloc::<u32>(1, &[]).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut temporary = capture.alloc_temporary::<u32>(1)?;
        temporary.fill(1, &stream)?;
        let text = refusal(capture.add_fill(FillNode::new(&mut temporary, 1)?, &[]));
        assert!(text.contains("exists only within the graph that is being captured"), "{text}");
        refusal(capture.add_fill(FillNode::new(&mut memory, 1)?, &[]));
        temporary.free()
    });
    assert_eq!(kinds(&graph.unwrap()), [NodeKind::MemAlloc, NodeKind::Memset, NodeKind::MemFree]);
}

fn a_node_in_a_body_needs_no_join(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (word(setup), word(setup));
    let wanted = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = WordCondition::new(&wanted).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.if_(&condition, |body| {
            setup.add(&mut a, 1, body.stream())?;
            let first = body.dependencies()?;
            body.set_dependencies(&[])?;
            b.fill(5, body.stream())?;
            body.add_fill(FillNode::new(&mut a, 9)?, &first).map(drop)
        })?;
        setup.add(&mut a, 1, &stream)
    });
    run(&graph.unwrap(), &stream);
    assert_eq!((value(&a, &stream), value(&b, &stream)), (10, 5));
}

fn a_body_refuses_an_added_node_by_its_line(setup: &Setup) {
    let stream = setup.stream();
    let condition = WordCondition::new(&word(setup)).unwrap();
    let mut line = 0;
    let error = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            capture.if_(&condition, |body| {
                line = line!() + 1;
                body.add_host(|| {}, &[]).map(drop)
            })
        })
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("host function, {}:{line}", file!())), "{text}");
    setup.assert_usable(&stream);
}

fn a_capture_into_a_graph_takes_nodes_and_takes_them_back(setup: &Setup) {
    let stream = setup.stream();
    let mut a = word(setup);
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = graph.add_fill(FillNode::new(&mut a, 1).unwrap(), &[]).unwrap();
    let dropped = counter();
    let token = Token(dropped.clone());
    let failed = stream.capture_into(&mut graph, &[], CaptureMode::ThreadLocal, |capture| {
        capture.add_host(move || _ = &token, &[first])?;
        Err(CudaError::NotFound)
    });
    assert_eq!(failed, Err(CudaError::NotFound));
    assert_eq!((graph.node_count(), get(&dropped)), (Ok(1), 1));
    let last = stream.capture_into(&mut graph, &[], CaptureMode::ThreadLocal, |capture| {
        let kernel = setup.module.kernel("add").unwrap();
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut a).value(4u32);
        // SAFETY: `add` takes the address of a word and a value.
        let added = unsafe { capture.add_kernel(launch, &[first]) }?;
        capture.set_dependencies(&[added])
    });
    let last = last.unwrap();
    assert_eq!(graph.nodes().unwrap()[1].id(), last[0]);
    run(&graph, &stream);
    assert_eq!(value(&a, &stream), 5);
}

fn names_are_those_of_the_graph(setup: &Setup) {
    let stream = setup.stream();
    let mut a = word(setup);
    let mut fill = None;
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        fill = Some(capture.add_fill(FillNode::new(&mut a, 1)?, &[])?);
        Ok(())
    });
    let (mut graph, fill) = (graph.unwrap(), fill.unwrap());
    assert_eq!(graph.node(fill).unwrap().kind(), NodeKind::Memset);
    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut a, 2).unwrap()).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(value(&a, &stream), 2);
    exec.node(fill).unwrap().set_fill(FillNode::new(&mut a, 3).unwrap()).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(value(&a, &stream), 3);
}

/// Breaks the capture of the stream, as a library would that knows nothing of it.
fn break_capture(stream: &Stream) {
    let functions = stream.driver().as_raw().functions();
    // SAFETY: a live stream.
    assert_eq!(unsafe { (functions.cuStreamQuery)(stream.as_raw()) }.0, 900);
}

fn a_broken_capture_takes_no_nodes(setup: &Setup) {
    let stream = setup.stream();
    let mut a = word(setup);
    let dropped = counter();
    let token = Token(dropped.clone());
    let error = stream
        .capture(CaptureMode::Relaxed, |capture| {
            let first = capture.add_fill(FillNode::new(&mut a, 1)?, &[])?;
            std::thread::scope(|scope| scope.spawn(|| break_capture(&stream)).join()).unwrap();
            assert_eq!(capture.add_empty(&[first]).unwrap_err().code(), 901);
            let host = capture.add_host(move || _ = &token, &[first]);
            assert_eq!((host.unwrap_err().code(), get(&dropped)), (901, 1));
            assert_eq!(capture.dependencies().unwrap_err().code(), 901);
            assert_eq!(capture.set_dependencies(&[first]).unwrap_err().code(), 901);
            capture.add_fill(FillNode::new(&mut a, 1)?, &[]).map(drop)
        })
        .unwrap_err();
    assert_eq!(error.code(), 901);
    setup.assert_usable(&stream);
}

/// Submits to a stream when it is dropped.
struct Submits(Stream, Arc<AtomicUsize>);

impl Drop for Submits {
    fn drop(&mut self) {
        self.0.host_function(|| {}).unwrap();
        assert!(self.0.capture_info().unwrap().dependencies().is_some());
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

fn a_function_that_submits_when_it_is_dropped_blocks_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut other = Graph::new(&setup.context).unwrap();
    let foreign = other.add_empty(&[]).unwrap();
    let submitted = Arc::new(AtomicUsize::new(0));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let submits = Submits(stream.clone(), submitted.clone());
        refusal(capture.add_host(move || _ = &submits, &[foreign]));
        Ok(())
    });
    assert_eq!(kinds(&graph.unwrap()), [NodeKind::Host]);
    assert_eq!(submitted.load(Ordering::SeqCst), 1);
}

fn nodes_are_added_beside_other_threads(setup: &Setup) {
    const EACH: usize = 100;
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut a, mut b, mut c) = (word(setup), word(setup), word(setup));
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        stream.fork(&[&side], || {
            std::thread::scope(|scope| {
                let on_side =
                    scope.spawn(|| (0..EACH).try_for_each(|_| setup.add(&mut a, 1, &side)));
                let on_main =
                    scope.spawn(|| (0..EACH).try_for_each(|_| setup.add(&mut b, 1, &stream)));
                let kernel = setup.module.kernel("add").unwrap();
                let mut last = Vec::new();
                for _ in 0..EACH {
                    let launch = kernel.launch_builder(1, 1).arg_mut(&mut c).value(1u32);
                    // SAFETY: `add` takes the address of a word and a value.
                    last = vec![unsafe { capture.add_kernel(launch, &last) }?];
                    capture.add_dependencies(&last)?;
                }
                on_side.join().unwrap()?;
                on_main.join().unwrap()
            })
        })
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count(), Ok(3 * EACH));
    run(&graph, &stream);
    assert_eq!([&a, &b, &c].map(|word| value(word, &stream)), [EACH as u32; 3]);
}

/// A capture with a node that was added, whose attribute the driver refuses.
fn with_a_refused_attribute(
    setup: &Setup,
    stream: &Stream,
    capture: &StreamGraphCapture<'_>,
) -> CudaError {
    let mut a = word(setup);
    let kernel = setup.module.kernel("add").unwrap();
    let launch = kernel.launch_builder(1, 1).arg_mut(&mut a).value(1u32).priority(-1);
    // SAFETY: `add` takes the address of a word and a value.
    let error = unsafe { capture.add_kernel(launch, &[]) }.unwrap_err();
    assert!(!capture.is_active() && stream.is_capturing());
    error
}

/// The node is there, without what its launch asked for, and cannot be taken out again.
#[test]
fn sim_a_refused_attribute_breaks_the_capture() {
    let sim = Simulation::new(SimConfig::default());
    {
        let setup = Setup::on(Driver::from(sim.driver()));
        let stream = setup.stream();
        let error = stream
            .capture(CaptureMode::ThreadLocal, |capture| {
                sim.fail(Function::cuGraphKernelNodeSetAttribute, 1, CUDA_ERROR_UNKNOWN);
                Err(with_a_refused_attribute(&setup, &stream, capture))
            })
            .unwrap_err();
        let CudaError::Capture(error) = error else { panic!("{error}") };
        let failure = error.first_failure().unwrap();
        assert_eq!((error.code(), failure.operation().kind()), (999, OperationKind::Kernel));
        setup.assert_usable(&stream);
    }
    assert!(comes_true(|| sim.live().is_clean()), "{}", sim.leaks());
}
