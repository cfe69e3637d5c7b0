//! The graph that an executable keeps, which is made when somebody asks for it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::common::counted::{Token, counter, get};
use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, DeviceBuffer, GraphExec, Outcome, Stream,
    StreamGraphCapture,
};

both_tiers! {
    a_graph_that_is_asked_for_is_the_captured_one,
    a_graph_that_nobody_asks_for_goes_with_the_executable,
    an_updated_executable_gives_the_graph_as_it_was,
    a_changed_node_leaves_the_graph_as_it_was,
    an_executable_made_anew_lets_go_of_its_graph,
    an_executable_with_its_graph_moves_to_another_thread,
}

/// An executable that adds to the word so often, and owns a token.
fn adding(
    setup: &Setup,
    stream: &Stream,
    word: &mut DeviceBuffer<u32>,
    times: u32,
    dropped: &Arc<AtomicUsize>,
) -> GraphExec {
    let capture = StreamGraphCapture::begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    capture.retain(Token(dropped.clone()));
    (0..times).for_each(|_| setup.add(word, 1, stream).unwrap());
    capture.end().unwrap()
}

fn zeroed(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, 1).unwrap()
}

fn a_graph_that_is_asked_for_is_the_captured_one(setup: &Setup) {
    let (stream, mut word, dropped) = (setup.stream(), zeroed(setup), counter());
    let exec = adding(setup, &stream, &mut word, 3, &dropped);
    let graph = exec.graph().unwrap();
    assert_eq!((graph.node_count().unwrap(), graph.edges().unwrap().len()), (3, 2));
    assert!(graph.retained().iter().any(|one| one.to_string().contains("Token")));
    assert!(graph.topology().unwrap().nodes().iter().all(|node| node.line().is_some()));
    assert!(std::ptr::eq(graph, exec.graph().unwrap()));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [6]);
    drop(exec);
    setup.wait_until(|| get(&dropped) == 1);
}

fn a_graph_that_nobody_asks_for_goes_with_the_executable(setup: &Setup) {
    let (stream, mut word, dropped) = (setup.stream(), zeroed(setup), counter());
    drop(adding(setup, &stream, &mut word, 1, &dropped));
    assert_eq!(get(&dropped), 1);
    let exec = adding(setup, &stream, &mut word, 1, &dropped);
    exec.launch(&stream).unwrap();
    drop(exec);
    setup.wait_until(|| get(&dropped) == 2);
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
}

fn an_updated_executable_gives_the_graph_as_it_was(setup: &Setup) {
    let (stream, mut word, dropped) = (setup.stream(), zeroed(setup), [counter(), counter()]);
    let mut exec = adding(setup, &stream, &mut word, 1, &dropped[0]);
    let other = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.retain(Token(dropped[1].clone()));
        setup.add(&mut word, 5, &stream)
    });
    let other = other.unwrap();
    assert_eq!(exec.update(&other).unwrap(), Outcome::Updated { changed: 1 });
    drop(other);
    // Asked for only now, and it owns what its own node uses.
    assert_eq!([get(&dropped[0]), get(&dropped[1])], [0, 0]);
    let again = exec.graph().unwrap().instantiate().unwrap();
    drop(exec);
    assert_eq!([get(&dropped[0]), get(&dropped[1])], [0, 1]);
    again.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
    drop(again);
    setup.wait_until(|| get(&dropped[0]) == 1);
}

fn a_changed_node_leaves_the_graph_as_it_was(setup: &Setup) {
    let (stream, mut word, mut other) = (setup.stream(), zeroed(setup), zeroed(setup));
    let mut exec = adding(setup, &stream, &mut word, 1, &counter());
    let node = exec.graph().unwrap().nodes().unwrap()[0].id();
    let kernel = setup.module.kernel("add").unwrap();
    let launch = kernel.launch_builder(1, 1).arg_mut(&mut other).value(7u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { exec.node(node).unwrap().set_kernel(launch) }.unwrap();
    exec.launch(&stream).unwrap();
    exec.graph().unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((word.to_vec(&stream).unwrap(), other.to_vec(&stream).unwrap()), (vec![1], vec![7]));
}

fn an_executable_made_anew_lets_go_of_its_graph(setup: &Setup) {
    let (stream, mut word, dropped) = (setup.stream(), zeroed(setup), counter());
    let mut exec = adding(setup, &stream, &mut word, 1, &dropped);
    let longer = stream.capture(CaptureMode::ThreadLocal, |_| {
        (0..2).try_for_each(|_| setup.add(&mut word, 1, &stream))
    });
    let outcome = exec.update(&longer.unwrap()).unwrap();
    assert!(matches!(outcome, Outcome::Rebuilt { .. }));
    assert!(exec.graph().is_none());
    assert_eq!(get(&dropped), 1);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn an_executable_with_its_graph_moves_to_another_thread(setup: &Setup) {
    let (stream, mut word, dropped) = (setup.stream(), zeroed(setup), counter());
    let exec = adding(setup, &stream, &mut word, 2, &dropped);
    let its = stream.clone();
    let moved = std::thread::spawn(move || {
        exec.launch(&its).unwrap();
        assert_eq!(exec.graph().unwrap().node_count().unwrap(), 2);
    });
    moved.join().unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
    setup.wait_until(|| get(&dropped) == 1);
}
