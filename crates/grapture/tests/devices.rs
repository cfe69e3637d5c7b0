//! Several devices, which only the simulated driver is sure to have.

mod common;

use common::places::{Place, assert_clean, places};
use grapture::{CaptureMode, CudaError, DeviceBuffer, Event, FillNode, Graph, StreamGraphCapture};

/// Each graph keeps its own device's memory, whichever was captured last.
#[test]
fn sim_graphs_of_two_devices_are_both_valid() {
    let (sim, places) = places(2);
    let mut results: Vec<_> = places.iter().map(|place| place.upload(&[0])).collect();
    let execs: Vec<_> = (0..6)
        .map(|index| {
            let place = &places[index % 2];
            let mut between = place.upload(&[0]);
            let graph = place.stream.capture(CaptureMode::Global, |_| {
                between.fill(10 * index as u32, &place.stream)?;
                place.add(&mut between, 1)?;
                results[index % 2].copy_from(&between, &place.stream)
            });
            graph.unwrap().instantiate().unwrap()
        })
        .collect();
    let _squatters: Vec<_> =
        places.iter().flat_map(|place| (0..16).map(|_| place.upload(&[7]))).collect();
    for (index, exec) in execs.iter().enumerate() {
        let place = &places[index % 2];
        exec.launch(&place.stream).unwrap();
        let expected = [10 * index as u32 + 1];
        assert_eq!(results[index % 2].to_vec(&place.stream).unwrap(), expected);
        let elsewhere = exec.launch(&places[1 - index % 2].stream);
        assert!(matches!(elsewhere, Err(CudaError::Refused(_))), "{elsewhere:?}");
    }
    drop((execs, results, _squatters));
    assert_clean(&sim, places);
}

/// Waiting for a device breaks the captures on that device, and the library refuses it; of another
/// device nothing is known to a capture.
#[test]
fn sim_waiting_for_another_device_leaves_a_capture_alone() {
    let (sim, places) = places(2);
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let mut word = places[0].upload(&[1]);
        let graph = places[0].stream.capture(mode, |capture| {
            let wait = || {
                places[1].context.synchronize().unwrap();
                places[1].stream.synchronize().unwrap();
                assert_eq!(places[0].context.synchronize().unwrap_err().code(), 900);
            };
            wait();
            std::thread::scope(|scope| scope.spawn(wait).join().unwrap());
            assert!(capture.is_active(), "{mode:?}");
            places[0].add(&mut word, 1)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 1);
    }
    assert_clean(&sim, places);
}

/// A stream of another device that joined is part of the capture, and so is its device.
#[test]
fn sim_waiting_for_the_device_of_a_fork_is_refused() {
    let (sim, places) = places(2);
    let (fork, join) =
        (Event::new(&places[0].context).unwrap(), Event::new(&places[1].context).unwrap());
    let (mut one, mut two) = (places[0].upload(&[1]), places[1].upload(&[1]));
    let graph = places[0].stream.capture(CaptureMode::Global, |capture| {
        places[0].add(&mut one, 1)?;
        fork.record(&places[0].stream)?;
        fork.wait(&places[1].stream)?;
        places[1].add(&mut two, 1)?;
        for place in &places {
            assert_eq!(place.stream.synchronize().unwrap_err().code(), 900);
            assert_eq!(place.context.synchronize().unwrap_err().code(), 900);
            assert!(capture.is_active());
        }
        join.record(&places[1].stream)?;
        join.wait(&places[0].stream)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 2);
    for place in &places {
        place.context.synchronize().unwrap();
    }
    graph.instantiate().unwrap().launch(&places[0].stream).unwrap();
    assert_eq!(one.to_vec(&places[0].stream).unwrap(), [2]);
    places[0].context.synchronize().unwrap();
    assert_eq!(two.to_vec(&places[1].stream).unwrap(), [2]);
    drop((one, two, graph, fork, join));
    assert_clean(&sim, places);
}

/// What goes to a stream of another device runs there, and the graph says that it has no node.
#[test]
fn sim_work_on_another_device_is_no_part_of_a_capture() {
    let (sim, places) = places(2);
    let mut word = places[1].upload(&[1]);
    let graph = places[0].stream.capture(CaptureMode::ThreadLocal, |_| places[1].add(&mut word, 1));
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    assert_eq!(word.to_vec(&places[1].stream).unwrap(), [2]);
    drop(word);
    assert_clean(&sim, places);
}

/// Memory, kernels, events and streams of one device are refused where another's are due, and the
/// capture stays as it is; a copy is between two devices.
#[test]
fn sim_things_of_two_devices_are_not_mixed() {
    let (sim, places) = places(2);
    let (mut here, mut there) = (places[0].upload(&[1]), places[1].upload(&[2]));
    let event = Event::new(&places[1].context).unwrap();
    let refused = |result: grapture::CudaResult<()>| {
        assert!(matches!(result, Err(CudaError::Refused(_))), "{result:?}");
    };
    let graph = places[0].stream.capture(CaptureMode::Global, |capture| {
        refused(there.fill(1, &places[0].stream));
        refused(places[0].add(&mut there, 1));
        refused(event.record(&places[0].stream));
        assert!(capture.is_active());
        here.fill(3, &places[0].stream)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 1);
    drop((here, there, event));
    assert_clean(&sim, places);
}

/// One thread for each device, all at once.
#[test]
fn sim_eight_devices_capture_at_once() {
    let (sim, places) = places(8);
    std::thread::scope(|scope| {
        for (index, place) in places.iter().enumerate() {
            scope.spawn(move || {
                let mut word = place.upload(&[index as u32]);
                for _ in 0..20 {
                    let mode = CaptureMode::Global.as_raw();
                    let capture = StreamGraphCapture::begin(&place.stream, mode).unwrap();
                    place.add(&mut word, 100).unwrap();
                    let exec = capture.end().unwrap();
                    exec.launch(&place.stream).unwrap();
                }
                let expected = [index as u32 + 2_000];
                assert_eq!(word.to_vec(&place.stream).unwrap(), expected);
            });
        }
    });
    assert_clean(&sim, places);
}

/// A node runs in the context of its own graph, also where that is embedded in one of another
/// device, whatever is current on the thread.
#[test]
fn sim_a_child_runs_on_its_own_device() {
    let (sim, places) = places(2);
    let mut words = [places[0].upload(&[1]), places[1].upload(&[1])];
    let build = |place: &Place, word: &mut DeviceBuffer<u32>, value: u32| {
        let kernel = place.module.kernel("mul_add").unwrap();
        let launch = kernel.launch_builder(1, 1).arg_mut(word).value(10u32).value(value);
        let mut graph = Graph::new(&place.context).unwrap();
        // SAFETY: `mul_add` takes the address of a word and two values.
        let node = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
        (graph, node)
    };
    let (mut graph, first) = build(&places[0], &mut words[0], 2);
    let (child, _) = build(&places[1], &mut words[1], 3);
    let embedded = graph.add_child(&child, &[first]).unwrap();
    let moved = graph.add_child_moved(child, &[embedded]).unwrap();
    let event = Event::new(&places[1].context).unwrap();
    graph.add_event_wait(&event, &[moved]).unwrap();
    let fill = FillNode::new(&mut words[1], 0).unwrap();
    let filled = graph.add_fill(fill, &[moved]).unwrap();
    graph.add_event_record(&event, &[filled]).unwrap();

    let exec = graph.instantiate().unwrap();
    drop(graph);
    exec.launch(&places[0].stream).unwrap();
    places[0].stream.synchronize().unwrap();
    assert_eq!(words[0].to_vec(&places[0].stream).unwrap(), [12]);
    assert!(event.is_complete().unwrap());
    assert_eq!(words[1].to_vec(&places[1].stream).unwrap(), [0]);
    drop((words, exec, event));
    assert_clean(&sim, places);
}

/// A capture on a stream of another device adds to a graph.
#[test]
fn sim_a_stream_of_another_device_is_captured_into_a_graph() {
    let (sim, places) = places(2);
    let mut words = [places[0].upload(&[1]), places[1].upload(&[1])];
    let mut graph = Graph::new(&places[0].context).unwrap();
    let [first, second] = &mut words;
    let filled = graph.add_fill(FillNode::new(first, 5).unwrap(), &[]).unwrap();
    let stream = &places[1].stream;
    let last = stream
        .capture_into(&mut graph, &[filled], CaptureMode::ThreadLocal, |_| places[1].add(second, 4))
        .unwrap();
    graph.add_fill(FillNode::new(first, 6).unwrap(), &last).unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&places[0].stream).unwrap();
    places[0].stream.synchronize().unwrap();
    assert_eq!(first.to_vec(&places[0].stream).unwrap(), [6]);
    assert_eq!(second.to_vec(stream).unwrap(), [5]);
    drop((words, exec, graph));
    assert_clean(&sim, places);
}
