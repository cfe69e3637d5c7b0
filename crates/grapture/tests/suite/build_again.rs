//! Clones of graphs with conditional nodes, which the library builds again.

use super::conditional::{PTX, words};
use crate::common::{Setup, both_tiers};
use grapture::{
    BatchNode, CaptureMode, CopyNode, CudaError, DeviceBuffer, Event, FillNode, Graph, GraphExec,
    KernelAttribute, NodeParams, PinnedBuffer, Stream, WordCondition,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

both_tiers! {
    a_clone_does_what_the_graph_does,
    conditions_of_kernels_are_those_of_the_clone,
    a_clone_owns_what_it_uses,
    every_kind_of_node_is_built_again,
    nodes_of_the_clone_are_found,
    clones_of_clones_are_changed_apart,
    a_condition_without_a_node_bars_a_clone,
    memory_nodes_bar_a_clone,
}

fn read(stream: &Stream, word: &DeviceBuffer<u32>) -> u32 {
    word.to_vec(stream).unwrap()[0]
}

/// A loop of so many rounds that adds to a word, with a choice in it, and a fill behind.
fn nested(setup: &Setup, left: &mut DeviceBuffer<u32>, word: &mut DeviceBuffer<u32>) -> Graph {
    let stream = setup.stream();
    let rounds = WordCondition::new(left).unwrap();
    stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            left.fill(3, &stream)?;
            capture.while_(&rounds, |round| {
                round.if_else(&rounds, |body| setup.add(word, 1, body.stream()), |_| Ok(()))?;
                setup.add(left, u32::MAX, round.stream())
            })?;
            setup.add(word, 10, &stream)
        })
        .unwrap()
}

fn a_clone_does_what_the_graph_does(setup: &Setup) {
    let (stream, mut left, mut word) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let graph = nested(setup, &mut left, &mut word);
    let copy = graph.try_clone().unwrap();
    let (one, other) = (graph.topology().unwrap(), copy.topology().unwrap());
    assert_eq!(one.to_string(), other.to_string());
    // Only one executable of a graph with conditional nodes can be there, but one of each.
    let (exec, twin) = (graph.instantiate().unwrap(), copy.instantiate().unwrap());
    for (exec, expected) in [(&exec, 13), (&twin, 26), (&exec, 39)] {
        exec.launch(&stream).unwrap();
        assert_eq!(read(&stream, &word), expected);
    }
}

fn conditions_of_kernels_are_those_of_the_clone(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), words(setup, &[0]));
    let count = setup.context.load_ptx(PTX).unwrap().kernel("count").unwrap();
    let mut other = words(setup, &[0]);
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            // The second of them decides first.
            let (second, first) = (capture.condition(1)?, capture.condition(1)?);
            for (condition, word, limit) in [(first, &mut word, 5u32), (second, &mut other, 7)] {
                capture.while_(&condition, |body| {
                    let launch =
                        count.launch_builder(1, 1).condition(&condition).arg_mut(word).value(limit);
                    // SAFETY: `count` takes a condition, the address of a word, and a value.
                    unsafe { launch.launch(body.stream()) }
                })?;
            }
            Ok(())
        })
        .unwrap();
    let copy = graph.try_clone().unwrap();
    drop(graph);
    copy.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((read(&stream, &word), read(&stream, &other)), (5, 7));
}

fn a_clone_owns_what_it_uses(setup: &Setup) {
    let (stream, mut result) = (setup.stream(), setup.pinned_word());
    let exec: GraphExec = {
        let mut word = words(setup, &[0]);
        let mut left = words(setup, &[0]);
        let mut graph = nested(setup, &mut left, &mut word);
        let last = graph.nodes().unwrap().last().unwrap().id();
        graph.add_copy(CopyNode::to_pinned(&mut result, &word).unwrap(), &[last]).unwrap();
        graph.try_clone().unwrap().instantiate().unwrap()
    };
    exec.launch(&stream).unwrap();
    assert_eq!(*result.read().unwrap(), [13]);
}

fn every_kind_of_node_is_built_again(setup: &Setup) {
    let (stream, mut word, mut other) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let (event, add) = (Event::new(&setup.context).unwrap(), setup.module.kernel("add").unwrap());
    let pinned = PinnedBuffer::from_slice(&setup.context, &[5u32]).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let child = stream.capture(CaptureMode::ThreadLocal, |_| setup.add(&mut word, 1, &stream));
    let mut graph = Graph::new(&setup.context).unwrap();
    let load = CopyNode::from_pinned(&mut word, &pinned).unwrap();
    let load = graph.add_copy(load, &[]).unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(2u32).priority(-1);
    // SAFETY: `add` takes the address of a word and a value.
    let kernel = unsafe { graph.add_kernel(launch, &[load]) }.unwrap();
    let child = graph.add_child(&child.unwrap(), &[kernel]).unwrap();
    let step = stream.capture(CaptureMode::ThreadLocal, |_| other.fill(9, &stream)).unwrap();
    let mut outer = Graph::new(&setup.context).unwrap();
    outer.add_child(&step, &[]).unwrap();
    let condition = graph.condition(1).unwrap();
    let built = graph.add_if(&condition, &[child], |body| {
        // The driver copies no graph that is embedded beside a condition.
        let nested = body.add_child(&outer, &[])?;
        let fill = body.add_fill(FillNode::new(&mut other, 3)?, &[nested])?;
        let empty = body.add_empty(&[fill])?;
        body.add_copy(CopyNode::device(&mut other, &word)?, &[empty]).map(drop)
    });
    let host =
        graph.add_host(move || _ = counted.fetch_add(1, Ordering::Relaxed), &[built.unwrap()]);
    let record = graph.add_event_record(&event, &[host.unwrap()]).unwrap();
    let wait = graph.add_event_wait(&event, &[record]).unwrap();
    let batch = BatchNode::new(&setup.context).write(&mut word, 77u32).unwrap();
    graph.add_batch(batch, &[wait]).unwrap();

    let copy = graph.try_clone().unwrap();
    let (one, again) = (graph.topology().unwrap(), copy.topology().unwrap());
    assert_eq!(one.to_string(), again.to_string());
    assert_eq!(graph.edges().unwrap().len(), copy.edges().unwrap().len());
    let attributes = |graph: &Graph, node| match graph.node(node).unwrap().params().unwrap() {
        NodeParams::Kernel { attributes, .. } => attributes,
        other => panic!("{other:?}"),
    };
    let kept = attributes(&copy, graph.node_in(kernel, &copy).unwrap());
    assert_eq!(kept, attributes(&graph, kernel));
    assert!(kept.iter().any(|one| matches!(one, KernelAttribute::Priority(_))));
    drop(graph);
    copy.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!((read(&stream, &word), read(&stream, &other)), (77, 8));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

fn nodes_of_the_clone_are_found(setup: &Setup) {
    let (mut left, mut word) = (words(setup, &[0]), words(setup, &[0]));
    let graph = nested(setup, &mut left, &mut word);
    let mut copy = graph.try_clone().unwrap();
    let nodes = graph.nodes().unwrap();
    let found: Vec<_> = nodes.iter().map(|node| graph.node_in(node.id(), &copy).unwrap()).collect();
    let copies: Vec<_> = copy.nodes().unwrap().iter().map(|node| node.id()).collect();
    assert_eq!(found, copies);
    copy.remove_node(found[3]).unwrap();
    assert_eq!(graph.node_in(nodes[3].id(), &copy).unwrap_err(), CudaError::InvalidValue);
    let other = nested(setup, &mut left, &mut word);
    assert!(matches!(graph.node_in(nodes[0].id(), &other), Err(CudaError::Refused(_))));
    assert!(matches!(other.node_in(nodes[0].id(), &copy), Err(CudaError::Refused(_))));
}

fn clones_of_clones_are_changed_apart(setup: &Setup) {
    let (stream, mut left, mut word) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let graph = nested(setup, &mut left, &mut word);
    let copy = graph.try_clone().unwrap();
    let mut again = copy.try_clone().unwrap();
    drop(copy);
    let last = again.nodes().unwrap().last().unwrap().id();
    let condition = again.condition(1).unwrap();
    let built = again.add_if(&condition, &[last], |body| {
        body.add_fill(FillNode::new(&mut word, 5)?, &[]).map(drop)
    });
    built.unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &word), 13);
    again.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &word), 5);
    setup.assert_usable(&stream);
}

fn a_condition_without_a_node_bars_a_clone(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let (_unused, used) = (graph.condition(1).unwrap(), graph.condition(1).unwrap());
    graph.add_if(&used, &[], |_| Ok(())).unwrap();
    assert_eq!(
        graph.try_clone().unwrap_err().to_string(),
        "graph: it has a condition that no conditional node goes by: it cannot be copied"
    );
    graph.add_empty(&[]).unwrap();
}

fn memory_nodes_bar_a_clone(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let condition = graph.condition(1).unwrap();
    graph.add_if(&condition, &[], |_| Ok(())).unwrap();
    let memory = graph.add_alloc::<u32>(4, &[]).unwrap();
    graph.add_free(&memory, &[]).unwrap();
    let error = graph.try_clone().unwrap_err().to_string();
    assert_eq!(error, "graph: it has nodes that allocate or free memory: it cannot be cloned");
}
