//! Attempts to have a launch join a capture: its stream would record from then on, and nobody would know.

use crate::common::checked::checked_tiers;
use crate::common::{Setup, comes_true};
use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Event, Graph, Stream, StreamGraphCapture,
};

checked_tiers! {
    a_launch_joins_no_capture,
    no_node_waits_for_a_point_of_an_open_capture,
    an_event_is_free_again_when_no_node_waits_for_it,
    what_waits_in_its_own_capture_is_launched_after_a_record,
}

fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result.unwrap_err() {
        CudaError::Refused(refusal) => refusal.to_string(),
        other => panic!("not refused: {other}"),
    }
}

/// A graph that waits for the event and adds one to the word.
fn waits(setup: &Setup, event: &Event, word: &mut DeviceBuffer<u32>, stream: &Stream) -> Graph {
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        event.wait_external(stream)?;
        setup.add(word, 1, stream)
    });
    graph.unwrap()
}

fn begin(stream: &Stream) -> StreamGraphCapture<'_> {
    StreamGraphCapture::begin(stream, CaptureMode::Relaxed.as_raw()).unwrap()
}

/// Measured: the driver answers such a launch with success, and has the stream in the capture then.
fn a_launch_joins_no_capture(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
    let exec = waits(setup, &event, &mut word, &stream).instantiate().unwrap();
    let capture = begin(&other);
    let text = refusal(event.record(&other));
    assert!(text.contains("a node of a graph waits for it"), "{text}");
    exec.launch(&stream).unwrap();
    assert!(capture.is_active());
    stream.synchronize().unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
    assert_eq!(capture.end_graph().unwrap().node_count().unwrap(), 0);
    event.record(&other).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn no_node_waits_for_a_point_of_an_open_capture(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let [event, free] = [(); 2].map(|()| Event::new(&setup.context).unwrap());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_event_wait(&free, &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let capture = begin(&other);
    event.record(&other).unwrap();
    let open = "it was last recorded in a capture that is open";
    for text in [
        refusal(graph.add_event_wait(&event, &[])),
        refusal(graph.node_mut(node).unwrap().set_event(&event)),
        refusal(exec.node_of(&graph, node).unwrap().set_event(&event)),
        refusal(stream.capture(CaptureMode::Relaxed, |_| event.wait_external(&stream))),
    ] {
        assert!(text.contains(open), "{text}");
    }
    assert!(capture.is_active());
    exec.launch(&stream).unwrap();
    capture.end_graph().unwrap();
    event.record(&other).unwrap();
    exec.node_of(&graph, node).unwrap().set_event(&event).unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn an_event_is_free_again_when_no_node_waits_for_it(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let [event, next] = [(); 2].map(|()| Event::new(&setup.context).unwrap());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_event_wait(&event, &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let record = |event: &Event| other.capture(CaptureMode::Relaxed, |_| event.record(&other));
    exec.launch(&stream).unwrap();
    graph.node_mut(node).unwrap().set_event(&next).unwrap();
    refusal(record(&event));
    exec.node_of(&graph, node).unwrap().set_event(&next).unwrap();
    stream.synchronize().unwrap();
    // What was replaced is let go of when the launch is known to be done.
    assert!(comes_true(|| record(&event).is_ok()));
    refusal(record(&next));
    drop((exec, graph));
    assert!(comes_true(|| record(&next).is_ok()));
    // A capture that is thrown away leaves no node.
    drop(stream.capture(CaptureMode::Relaxed, |_| {
        event.record(&stream)?;
        Err::<(), _>(CudaError::NotFound)
    }));
    event.record(&stream).unwrap();
    drop(stream.capture(CaptureMode::Relaxed, |_| {
        event.wait_external(&stream)?;
        Err::<(), _>(CudaError::NotFound)
    }));
    record(&event).unwrap();
}

/// The graph is there when the capture is over: no launch of it can join that.
fn what_waits_in_its_own_capture_is_launched_after_a_record(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        event.record(&stream)?;
        event.wait_external(&stream)?;
        setup.add(&mut word, 1, &stream)
    });
    let exec = graph.unwrap().instantiate().unwrap();
    event.record(&side).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
}
