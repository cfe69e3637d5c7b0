//! Captures that add to a graph that there is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::build::{FOREIGN, mul_add, read, refusal, run, word};
use crate::common::counted::{Token, counter};
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Event, Graph, NodeId, RetainedKind, Stream,
};

both_tiers! {
    a_capture_adds_to_a_graph,
    what_follows_is_told,
    captures_add_one_after_the_other,
    a_graph_that_was_captured_takes_another_capture,
    what_a_capture_adds_is_owned,
    nodes_are_named_while_they_are_captured,
    an_error_leaves_the_graph_as_it_was,
    a_panic_leaves_the_graph_as_it_was,
    what_was_recorded_before_an_error_is_let_go_of,
    a_broken_capture_leaves_an_empty_graph,
    an_unjoined_capture_leaves_an_empty_graph,
    an_executable_survives_the_graph_that_broke,
    a_capture_that_cannot_begin_changes_nothing,
    forks_are_captured_into_a_graph,
    an_event_of_a_capture_before_joins_no_other,
}

const MODE: CaptureMode = CaptureMode::ThreadLocal;

/// A graph with one node, `word = word * 10 + 1`, and the node.
fn one(setup: &Setup, word: &mut DeviceBuffer<u32>) -> (Graph, NodeId) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = mul_add(setup, &mut graph, word, (10, 1), &[]);
    (graph, node)
}

/// Breaks the capture of the stream.
fn break_capture(stream: &Stream) -> CudaResult<()> {
    // SAFETY: a live stream.
    let code = unsafe { (stream.driver().as_raw().functions().cuStreamQuery)(stream.as_raw()) };
    assert_eq!(code.0, 900);
    Ok(())
}

fn a_capture_adds_to_a_graph(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    stream
        .capture_into(&mut graph, &[first], MODE, |_| {
            setup.mul_add(&mut word, 10, 2, &stream)?;
            setup.mul_add(&mut word, 10, 3, &stream)
        })
        .unwrap();
    assert_eq!((graph.node_count().unwrap(), graph.edges().unwrap().len()), (3, 2));
    assert!(!stream.is_capturing());
    run(setup, &graph);
    assert_eq!(read(setup, &word), [1123]);
}

fn what_follows_is_told(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let record = |word: &mut DeviceBuffer<u32>| setup.mul_add(word, 10, 2, &stream);
    let last = stream.capture_into(&mut graph, &[first], MODE, |_| record(&mut word)).unwrap();
    assert_eq!(last, [graph.nodes().unwrap()[1].id()]);
    mul_add(setup, &mut graph, &mut word, (10, 3), &last);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [1123]);
    // Nothing recorded: what follows comes after the same nodes.
    let same = stream.capture_into(&mut graph, &last, MODE, |_| Ok(())).unwrap();
    assert_eq!(same, last);
}

fn captures_add_one_after_the_other(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let mut last = vec![first];
    for value in 2..6 {
        last = stream
            .capture_into(&mut graph, &last, MODE, |_| setup.mul_add(&mut word, 10, value, &stream))
            .unwrap();
    }
    run(setup, &graph);
    assert_eq!(read(setup, &word), [112_345]);
}

fn a_graph_that_was_captured_takes_another_capture(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let mut graph = stream.capture(MODE, |_| setup.mul_add(&mut word, 10, 1, &stream)).unwrap();
    let first = graph.nodes().unwrap()[0].id();
    let record = |word: &mut DeviceBuffer<u32>| setup.mul_add(word, 10, 2, &stream);
    stream.capture_into(&mut graph, &[first], MODE, |_| record(&mut word)).unwrap();
    run(setup, &graph);
    assert_eq!(read(setup, &word), [112]);
}

fn what_a_capture_adds_is_owned(setup: &Setup) {
    let (stream, mut sum) = (setup.stream(), word(setup, 1));
    let mut graph = Graph::new(&setup.context).unwrap();
    let dropped = counter();
    stream
        .capture_into(&mut graph, &[], MODE, |capture| {
            capture.retain(Token(dropped.clone()));
            let value = word(setup, 41);
            let kernel = setup.module.kernel("add")?;
            drop(value);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { kernel.launch_builder(1, 1).arg_mut(&mut sum).value(41u32).launch(&stream) }
        })
        .unwrap();
    let kinds: Vec<_> = graph.retained().iter().map(|one| one.kind().clone()).collect();
    assert!(kinds.contains(&RetainedKind::DeviceMemory), "{kinds:?}");
    assert!(kinds.contains(&RetainedKind::Kernel("add".to_owned())), "{kinds:?}");
    let exec = graph.instantiate().unwrap();
    drop(graph);
    exec.launch(&stream).unwrap();
    assert_eq!(sum.to_vec(&stream).unwrap(), [42]);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(exec);
    setup.wait_until(|| {
        setup.driver.reclaim();
        dropped.load(Ordering::SeqCst) == 1
    });
}

fn nodes_are_named_while_they_are_captured(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    // Handles of removed nodes are used again.
    for _ in 0..20 {
        let gone = graph.add_empty(&[]).unwrap();
        graph.remove_node(gone).unwrap();
    }
    let mut named = Vec::new();
    stream
        .capture_into(&mut graph, &[first], MODE, |_| {
            let info = stream.capture_info()?;
            assert_eq!(info.dependencies(), Some(&[first][..]));
            setup.mul_add(&mut word, 10, 2, &stream)?;
            named.extend_from_slice(stream.capture_info()?.dependencies().unwrap());
            Ok(())
        })
        .unwrap();
    mul_add(setup, &mut graph, &mut word, (10, 3), &named);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [1123]);
}

fn an_error_leaves_the_graph_as_it_was(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let before = (graph.nodes().unwrap(), graph.edges().unwrap(), graph.retained());
    let mut named = Vec::new();
    let failed = stream.capture_into(&mut graph, &[first], MODE, |_| {
        setup.mul_add(&mut word, 10, 2, &stream)?;
        named.extend_from_slice(stream.capture_info()?.dependencies().unwrap());
        Err(CudaError::NotReady)
    });
    assert_eq!(failed, Err(CudaError::NotReady));
    assert_eq!((graph.nodes().unwrap(), graph.edges().unwrap(), graph.retained()), before);
    assert_eq!(refusal(graph.node(named[0])), "node: it was removed from the graph");
    run(setup, &graph);
    assert_eq!(read(setup, &word), [11]);
    setup.assert_usable(&stream);
}

fn a_panic_leaves_the_graph_as_it_was(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture_into(&mut graph, &[first], MODE, |_| {
            setup.mul_add(&mut word, 10, 2, &stream)?;
            panic!("in the closure")
        })
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"in the closure"));
    assert_eq!(graph.node_count().unwrap(), 1);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [11]);
    setup.assert_usable(&stream);
}

fn what_was_recorded_before_an_error_is_let_go_of(setup: &Setup) {
    let (stream, dropped) = (setup.stream(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let record = |broken: bool| {
        let token = Token(dropped.clone());
        stream.host_function(move || _ = &token)?;
        if broken { break_capture(&stream) } else { Err(CudaError::NotReady) }
    };
    assert!(stream.capture_into(&mut graph, &[], MODE, |_| record(false)).is_err());
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert!(stream.capture_into(&mut graph, &[], MODE, |_| record(true)).is_err());
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    assert_eq!(graph.retained(), []);
}

/// Measured: the driver destroys a graph whose capture was broken.
fn a_broken_capture_leaves_an_empty_graph(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let clone = graph.try_clone().unwrap();
    let broken = stream.capture_into(&mut graph, &[first], MODE, |_| {
        setup.mul_add(&mut word, 10, 2, &stream)?;
        break_capture(&stream)
    });
    assert!(matches!(broken, Err(CudaError::Capture(error)) if error.code() == 901));
    assert_eq!((graph.node_count().unwrap(), graph.retained().len()), (0, 0));
    assert_eq!(refusal(graph.node(first)), FOREIGN.replace("{}", "node"));
    assert!(refusal(graph.node_in(first, &clone)).contains("another graph"));
    setup.assert_usable(&stream);
    // It is a graph as any other.
    mul_add(setup, &mut graph, &mut word, (10, 5), &[]);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [15]);
    run(setup, &clone);
    assert_eq!(read(setup, &word), [151]);
}

fn an_unjoined_capture_leaves_an_empty_graph(setup: &Setup) {
    let (stream, other, mut word) = (setup.stream(), setup.stream(), word(setup, 1));
    let event = Event::new(&setup.context).unwrap();
    let (mut graph, first) = one(setup, &mut word);
    let unjoined = stream.capture_into(&mut graph, &[first], MODE, |_| {
        event.record(&stream)?;
        event.wait(&other)?;
        setup.mul_add(&mut word, 10, 2, &other)
    });
    assert!(matches!(unjoined, Err(CudaError::Capture(error)) if error.code() == 904));
    assert_eq!(graph.node_count().unwrap(), 0);
    setup.assert_usable(&stream);
    setup.assert_usable(&other);
}

fn an_executable_survives_the_graph_that_broke(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let exec = graph.instantiate().unwrap();
    let broken = stream.capture_into(&mut graph, &[first], MODE, |_| break_capture(&stream));
    assert!(broken.is_err());
    drop(graph);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [11]);
}

fn a_capture_that_cannot_begin_changes_nothing(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup, 1));
    let (mut graph, first) = one(setup, &mut word);
    let mut other = Graph::new(&setup.context).unwrap();
    let foreign = other.add_empty(&[]).unwrap();
    let never = |_: &grapture::StreamGraphCapture<'_>| panic!("it has not begun");
    let refused = stream.capture_into(&mut graph, &[foreign], MODE, never);
    assert_eq!(refusal(refused), FOREIGN.replace("{}", "after"));
    let legacy = Stream::legacy(&setup.context);
    let refused = legacy.capture_into(&mut graph, &[first], MODE, never);
    assert!(refusal(refused).starts_with("stream: the legacy default stream"));
    let foreign = Setup::simulated();
    let refused = foreign.stream().capture_into(&mut graph, &[first], MODE, never);
    assert!(refusal(refused).starts_with("stream: it belongs to another driver"));
    let captured = stream.capture(MODE, |_| {
        let refused = stream.capture_into(&mut graph, &[first], MODE, never);
        assert!(refusal(refused).starts_with("stream: it is capturing already"));
        Ok(())
    });
    captured.unwrap();
    run(setup, &graph);
    assert_eq!(read(setup, &word), [11]);
}

fn forks_are_captured_into_a_graph(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let (mut left, mut right) = (word(setup, 1), word(setup, 2));
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let (mut graph, first) = one(setup, &mut left);
    let last = stream
        .capture_into(&mut graph, &[first], MODE, |_| {
            fork.record(&stream)?;
            fork.wait(&other)?;
            setup.mul_add(&mut right, 10, 3, &other)?;
            setup.mul_add(&mut left, 10, 2, &stream)?;
            join.record(&other)?;
            join.wait(&stream)
        })
        .unwrap();
    assert_eq!(last.len(), 2);
    mul_add(setup, &mut graph, &mut right, (10, 4), &last);
    run(setup, &graph);
    assert_eq!((read(setup, &left), read(setup, &right)), (vec![112], vec![234]));
}

/// Both captures are of one graph on one stream: what was part of the first is not of the second.
fn an_event_of_a_capture_before_joins_no_other(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    stream.capture_into(&mut graph, &[], MODE, |_| event.record(&stream)).unwrap();
    stream
        .capture_into(&mut graph, &[], MODE, |_| {
            for stream in [&stream, &other] {
                let refused = refusal(event.wait(stream));
                assert!(refused.contains("in a capture that has ended"), "{refused}");
            }
            Ok(())
        })
        .unwrap();
    assert!(!other.is_capturing());
}
