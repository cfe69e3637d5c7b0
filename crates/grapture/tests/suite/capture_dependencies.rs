//! What the next operation of a capture waits for, set by hand.

use crate::common::words::{refusal, value, word};
use crate::common::{Setup, both_tiers};
use grapture::{CaptureMode, CudaError, CudaResult, EdgeData, Event, FillNode, Graph, Stream};

both_tiers! {
    dependencies_are_set_and_added,
    dependencies_have_data,
    dependencies_of_a_fork_are_changed_on_its_stream,
    a_fork_is_joined_by_its_nodes,
    what_a_fork_lets_go_of_needs_no_join,
    an_unjoined_fork_is_told_all_the_same,
    what_the_origin_lets_go_of_after_its_join_needs_no_other,
    a_node_that_waits_for_a_fork_joins_it,
    what_the_origin_waited_for_and_lets_go_of_needs_no_join,
    a_temporary_bars_another_order_while_it_lives,
    streams_that_do_not_capture_are_refused,
    another_thread_is_refused,
    eager_work_after_a_join_by_hand,
}

/// The dependencies, by the places of the nodes.
fn edges(graph: &Graph) -> Vec<(usize, usize)> {
    let nodes: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.id()).collect();
    let place = |id| nodes.iter().position(|node| *node == id).unwrap();
    let edges = graph.edges().unwrap();
    let mut edges: Vec<_> =
        edges.iter().map(|edge| (place(edge.from()), place(edge.to()))).collect();
    edges.sort_unstable();
    edges
}

/// Has `side` join the capture of `stream`.
fn begin_fork(stream: &Stream, side: &Stream) -> CudaResult<()> {
    let event = Event::new(stream.context())?;
    event.record(stream)?;
    event.wait(side)
}

fn dependencies_are_set_and_added(setup: &Setup) {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let stream = setup.stream();
        let mut words = [(); 5].map(|()| word(setup));
        let graph = stream.capture(mode, |capture| {
            assert_eq!(capture.dependencies()?, []);
            words[0].fill(1, &stream)?;
            let first = capture.dependencies()?;
            words[1].fill(1, &stream)?;
            let second = capture.dependencies()?;
            capture.set_dependencies(&first)?;
            words[2].fill(1, &stream)?;
            capture.add_dependencies(&[second[0], first[0], second[0]])?;
            assert_eq!(capture.dependencies()?.len(), 3);
            words[3].fill(1, &stream)?;
            capture.add_dependencies(&[])?;
            capture.set_dependencies(&[])?;
            words[4].fill(1, &stream)
        });
        let graph = graph.unwrap();
        assert_eq!(edges(&graph), [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)], "{mode:?}");
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(words.each_ref().map(|word| value(word, &stream)), [1; 5]);
    }
}

fn dependencies_have_data(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (word(setup), word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        setup.add(&mut a, 1, &stream)?;
        let first = capture.dependencies()?[0];
        capture.set_dependencies_with(&[(first, EdgeData::LAUNCH_ORDER)])?;
        setup.add(&mut b, 2, &stream)?;
        let second = capture.dependencies()?[0];
        capture.set_dependencies_with(&[(first, EdgeData::FULL), (second, EdgeData::FULL)])?;
        a.copy_from(&b, &stream)?;
        // A copy has no point but its end.
        let copy = capture.dependencies()?[0];
        let refused = capture.set_dependencies_with(&[(copy, EdgeData::PROGRAMMATIC)]);
        assert_eq!(refused.unwrap_err().code(), 1);
        assert!(capture.is_active());
        capture.set_dependencies_with(&[])
    });
    let graph = graph.unwrap();
    let data: Vec<_> = graph.edges().unwrap().iter().map(|edge| edge.data()).collect();
    assert_eq!(data.iter().filter(|data| **data == EdgeData::LAUNCH_ORDER).count(), 1);
    assert_eq!(edges(&graph), [(0, 1), (0, 2), (1, 2)]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(value(&a, &stream), 2);
}

fn dependencies_of_a_fork_are_changed_on_its_stream(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 4].map(|()| word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        words[0].fill(1, &stream)?;
        let first = capture.dependencies()?;
        words[1].fill(1, &stream)?;
        stream.fork(&[&side], || {
            side.set_capture_dependencies(&first)?;
            words[2].fill(1, &side)?;
            side.add_capture_dependencies(&capture.dependencies()?)?;
            words[3].fill(1, &side)
        })
    });
    assert_eq!(edges(&graph.unwrap()), [(0, 1), (0, 2), (1, 3), (2, 3)]);
}

fn a_fork_is_joined_by_its_nodes(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 3].map(|()| word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        words[0].fill(1, &stream)?;
        begin_fork(&stream, &side)?;
        words[1].fill(1, &side)?;
        let theirs = side.capture_info()?.dependencies().unwrap().to_vec();
        capture.add_dependencies(&theirs)?;
        words[2].fill(1, &stream)
    });
    assert_eq!(edges(&graph.unwrap()), [(0, 1), (0, 2), (1, 2)]);
    setup.assert_usable(&side);
}

fn what_a_fork_lets_go_of_needs_no_join(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 2].map(|()| word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        words[0].fill(1, &stream)?;
        begin_fork(&stream, &side)?;
        words[1].fill(1, &side)?;
        side.set_capture_dependencies(&[])
    });
    assert_eq!(edges(&graph.unwrap()), [(0, 1)]);
    setup.assert_usable(&side);
}

fn an_unjoined_fork_is_told_all_the_same(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 3].map(|()| word(setup));
    let error = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            words[0].fill(1, &stream)?;
            begin_fork(&stream, &side)?;
            words[1].fill(1, &side)?;
            side.set_capture_dependencies(&[])?;
            words[2].fill(1, &side)
        })
        .unwrap_err();
    let CudaError::Capture(error) = error else { panic!("{error}") };
    assert_eq!(error.code(), 904);
    let fork = &error.forks()[0];
    assert_eq!(fork.unjoined().map(|operation| operation.index()), Some(5), "{error}");
    setup.assert_usable(&stream);
    setup.assert_usable(&side);
}

fn what_the_origin_lets_go_of_after_its_join_needs_no_other(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 4].map(|()| word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        words[0].fill(1, &stream)?;
        stream.fork(&[&side], || words[1].fill(1, &side))?;
        words[2].fill(1, &stream)?;
        capture.set_dependencies(&[])?;
        words[3].fill(1, &stream)
    });
    assert_eq!(edges(&graph.unwrap()), [(0, 1), (0, 2), (1, 2)]);
}

fn a_node_that_waits_for_a_fork_joins_it(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 2].map(|()| word(setup));
    for told in [false, true] {
        let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
            words[0].fill(1, &stream)?;
            begin_fork(&stream, &side)?;
            words[1].fill(1, &side)?;
            let theirs = side.capture_info()?.dependencies().unwrap().to_vec();
            let added = capture.add_empty(&theirs)?;
            if told { capture.set_dependencies(&[added]) } else { Ok(()) }
        });
        assert_eq!(edges(&graph.unwrap()), [(0, 1), (1, 2)], "{told}");
    }
}

fn what_the_origin_waited_for_and_lets_go_of_needs_no_join(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [(); 2].map(|()| word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        words[0].fill(1, &stream)?;
        stream.fork(&[&side], || words[1].fill(1, &side))?;
        capture.set_dependencies(&[])
    });
    assert_eq!(edges(&graph.unwrap()), [(0, 1)]);
    setup.assert_usable(&side);
}

fn a_temporary_bars_another_order_while_it_lives(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut seen = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut temporary = capture.alloc_temporary::<u32>(1)?;
        temporary.fill(5, &stream)?;
        let first = capture.dependencies()?;
        let text = refusal(capture.set_dependencies(&[]));
        assert!(text.contains("a temporary or scratch of the capture is alive"), "{text}");
        stream.fork(&[&side], || {
            refusal(side.set_capture_dependencies(&first));
            seen.copy_from(&temporary, &side)
        })?;
        capture.add_dependencies(&first)?;
        drop(temporary);
        capture.set_dependencies(&[])?;
        // One that is left to the launch is used no more.
        let output = capture.alloc_temporary::<u32>(1)?.into_output();
        capture.set_dependencies(&[])?;
        drop(output);
        Ok(())
    });
    let exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(value(&seen, &stream), 5);
}

fn streams_that_do_not_capture_are_refused(setup: &Setup) {
    let stream = setup.stream();
    assert!(refusal(stream.set_capture_dependencies(&[])).contains("it is not capturing"));
    assert!(refusal(stream.add_capture_dependencies(&[])).contains("it is not capturing"));
    let legacy = Stream::legacy(&setup.context);
    assert!(refusal(legacy.set_capture_dependencies(&[])).contains("it is not capturing"));
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_fill(FillNode::new(&mut word(setup), 1).unwrap(), &[]).unwrap();
    refusal(stream.set_capture_dependencies(&[node]));
    setup.assert_usable(&stream);
}

fn another_thread_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut a = word(setup);
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        a.fill(1, &stream)?;
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let text = refusal(stream.set_capture_dependencies(&[]));
                assert!(text.contains("another thread began it"), "{text}");
                refusal(stream.add_capture_dependencies(&[]));
            });
            other.join().unwrap();
        });
        a.fill(2, &stream)
    });
    assert_eq!(edges(&graph.unwrap()), [(0, 1)]);
}

fn eager_work_after_a_join_by_hand(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (word(setup), word(setup));
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            a.fill(1, &stream)?;
            begin_fork(&stream, &side)?;
            b.fill(2, &side)?;
            let theirs = side.capture_info()?.dependencies().unwrap().to_vec();
            capture.capture()?.add_dependencies(&theirs)?;
            capture.eager(|stream| stream.synchronize())?;
            a.copy_from(&b, &stream)
        })
        .unwrap();
    segments.launch(&stream).unwrap();
    assert_eq!(value(&a, &stream), 2);
}
