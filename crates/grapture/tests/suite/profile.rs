//! Timing the nodes of a graph.

use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, CopyNode, DeviceBuffer, Event, FillNode,
    Graph, GraphExec, PinnedBuffer, Profile, Stream, StreamGraphCapture, WordCondition,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

both_tiers! {
    every_node_is_timed,
    the_graph_runs_as_often_as_is_said,
    an_executable_is_profiled_by_its_graph,
    an_executable_without_its_graph_is_refused,
    an_executable_that_was_changed_is_refused,
    a_node_that_is_off_stays_off,
    what_cannot_be_measured_is_refused,
    a_capturing_stream_is_refused_and_stays_valid,
    graphs_that_fork_have_one_critical_path,
    pinned_memory_in_the_hands_of_the_host_is_refused,
    an_empty_graph_has_an_empty_profile,
    events_of_the_graph_still_record,
    the_trace_is_json_of_all_nodes,
    conditional_nodes_are_timed,
    a_graph_that_is_built_twice_is_timed,
    graphs_that_differ_are_refused,
}

fn chain(setup: &Setup, stream: &Stream, word: &mut DeviceBuffer<u32>, nodes: usize) -> Graph {
    stream
        .capture(CaptureMode::ThreadLocal, |_| {
            (0..nodes).try_for_each(|_| setup.add(word, 1, stream))
        })
        .unwrap()
}

#[track_caller]
fn assert_plausible(profile: &Profile) {
    for node in profile.nodes() {
        let time = node.time();
        assert!(time.min <= time.median && time.median <= time.max, "{profile}");
    }
    let path = profile.critical_path();
    assert!(path.windows(2).all(|pair| pair[0] != pair[1]));
    for (index, node) in profile.nodes().iter().enumerate() {
        assert_eq!(node.is_critical(), path.contains(&index));
    }
    let sum: Duration = path.iter().map(|index| profile.nodes()[*index].time().median).sum();
    assert_eq!(profile.critical_time(), sum);
    assert!(profile.replay().min > Duration::ZERO);
    assert!(profile.profiled().min > Duration::ZERO);
}

fn every_node_is_timed(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = chain(setup, &stream, &mut word, 5);
    let profile = graph.profile(&stream, 4).unwrap();
    assert_plausible(&profile);
    assert_eq!(profile.runs(), 4);
    assert_eq!(profile.critical_path(), [0, 1, 2, 3, 4]);
    assert_eq!(profile.topology(), &graph.topology().unwrap());
    for node in graph.nodes().unwrap() {
        assert!(profile.node(node.id()).is_some());
    }
    let other = chain(setup, &stream, &mut word, 1);
    assert!(profile.node(other.nodes().unwrap()[0].id()).is_none());
    let text = profile.to_string();
    assert_eq!(text.lines().count(), 2 + 5 + 3, "{text}");
    assert!(text.contains("kernel add"), "{text}");
    setup.assert_usable(&stream);
}

fn the_graph_runs_as_often_as_is_said(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            setup.add(&mut word, 1, &stream)?;
            stream.host_function(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            })
        })
        .unwrap();
    for (runs, total) in [(1, 4), (3, 12)] {
        let profile = graph.profile(&stream, runs).unwrap();
        assert_eq!(profile.nodes().len(), 2);
        assert_eq!(calls.load(Ordering::Relaxed), total);
        assert_eq!(word.to_vec(&stream).unwrap(), [total as u32]);
    }
    drop(graph);
    // The copy keeps nothing alive.
    setup.wait_until(|| {
        setup.driver.reclaim();
        Arc::strong_count(&calls) == 1
    });
}

fn exec_of(setup: &Setup, stream: &Stream, word: &mut DeviceBuffer<u32>) -> GraphExec {
    let capture =
        grapture::StreamGraphCapture::begin(stream, grapture::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .unwrap();
    setup.add(word, 1, stream).unwrap();
    capture.end().unwrap()
}

fn an_executable_is_profiled_by_its_graph(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let exec = exec_of(setup, &stream, &mut word);
    let profile = exec.profile(&stream, 2).unwrap();
    assert_eq!(profile.nodes().len(), 1);
    assert_eq!(word.to_vec(&stream).unwrap(), [6]);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [7]);
}

fn an_executable_without_its_graph_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let exec = chain(setup, &stream, &mut word, 1).instantiate().unwrap();
    let error = exec.profile(&stream, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "graph: the executable did not keep it, and the driver does not tell what an executable \
         does: use `Graph::profile`"
    );
    assert_eq!(word.to_vec(&stream).unwrap(), [0], "nothing ran");
}

fn an_executable_that_was_changed_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let capture =
        grapture::StreamGraphCapture::begin(&stream, grapture::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .unwrap();
    word.fill(1, &stream).unwrap();
    let mut exec = capture.end().unwrap();
    let fill = exec.graph().unwrap().nodes().unwrap()[0].id();
    exec.node(fill).unwrap().set_fill(FillNode::new(&mut word, 2).unwrap()).unwrap();
    let error = exec.profile(&stream, 1).unwrap_err();
    assert!(
        error.to_string().starts_with("graph: nodes of the executable were changed"),
        "{error}"
    );
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn a_node_that_is_off_stays_off(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut exec = exec_of(setup, &stream, &mut word);
    let add = exec.graph().unwrap().nodes().unwrap()[0].id();
    exec.node(add).unwrap().set_enabled(false).unwrap();
    assert_eq!(exec.profile(&stream, 2).unwrap().nodes().len(), 1);
    assert_eq!(word.to_vec(&stream).unwrap(), [0]);
    exec.node(add).unwrap().set_enabled(true).unwrap();
    exec.profile(&stream, 2).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [6]);
}

fn what_cannot_be_measured_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = chain(setup, &stream, &mut word, 1);
    let error = graph.profile(&stream, 0).unwrap_err();
    assert_eq!(error.to_string(), "runs: it is 0: measure at least once");
    assert_eq!(word.to_vec(&stream).unwrap(), [0], "nothing ran");
}

fn a_capturing_stream_is_refused_and_stays_valid(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut second = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = chain(setup, &stream, &mut word, 2);
    let outer = stream.capture(CaptureMode::Global, |_| {
        setup.add(&mut second, 1, &stream)?;
        let error = graph.profile(&stream, 1).unwrap_err();
        assert_eq!(error.code(), 900, "{error}");
        // On another stream it can be measured meanwhile, and the capture does not notice.
        assert_eq!(graph.profile(&other, 1).unwrap().nodes().len(), 2);
        setup.add(&mut second, 1, &stream)
    });
    outer.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(second.to_vec(&stream).unwrap(), [2]);
    assert_eq!(word.to_vec(&stream).unwrap(), [8]);
}

fn graphs_that_fork_have_one_critical_path(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    let mut words: Vec<_> =
        (0..2).map(|_| DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap()).collect();
    let [left, right] = &mut words[..] else { unreachable!() };
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let graph = main
        .capture(CaptureMode::ThreadLocal, |_| {
            setup.add(left, 1, &main)?;
            fork.record(&main)?;
            fork.wait(&side)?;
            setup.add(right, 1, &side)?;
            setup.add(left, 1, &main)?;
            join.record(&side)?;
            join.wait(&main)?;
            setup.add(left, 1, &main)
        })
        .unwrap();
    let profile = graph.profile(&main, 3).unwrap();
    assert_plausible(&profile);
    let path = profile.critical_path();
    assert!(path == [0, 1, 3] || path == [0, 2, 3], "{profile}");
    assert_eq!(left.to_vec(&main).unwrap(), [24]);
    assert_eq!(right.to_vec(&main).unwrap(), [8]);
}

fn pinned_memory_in_the_hands_of_the_host_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut pinned = PinnedBuffer::from_slice(&setup.context, &[3u32]).unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| word.copy_from_pinned(&pinned, &stream))
        .unwrap();
    let guard = pinned.write().unwrap();
    assert!(graph.profile(&stream, 1).is_err());
    drop(guard);
    assert_eq!(graph.profile(&stream, 1).unwrap().nodes().len(), 1);
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
}

fn an_empty_graph_has_an_empty_profile(setup: &Setup) {
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| Ok(())).unwrap();
    let profile = graph.profile(&stream, 2).unwrap();
    assert!(profile.nodes().is_empty() && profile.critical_path().is_empty());
    assert_eq!(profile.critical_time(), Duration::ZERO);
}

fn events_of_the_graph_still_record(setup: &Setup) {
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            setup.add(&mut word, 1, &stream)?;
            event.record_external(&stream)?;
            event.wait_external(&stream)?;
            setup.add(&mut word, 1, &stream)
        })
        .unwrap();
    let profile = graph.profile(&stream, 2).unwrap();
    assert_eq!(profile.critical_path(), [0, 1, 2, 3]);
    event.synchronize().unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [12]);
}

fn the_trace_is_json_of_all_nodes(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let profile = chain(setup, &stream, &mut word, 3).profile(&stream, 2).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&profile.to_chrome_trace()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.len(), 3);
    // In which order and which rows depends on the times.
    for event in events {
        assert_eq!(event["ph"], "X");
        assert_eq!(event["name"], "kernel add");
        assert!(event["ts"].is_number() && event["dur"].is_number() && event["tid"].is_number());
    }
    let mut nodes: Vec<_> =
        events.iter().map(|event| event["args"]["node"].as_u64().unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2]);
}

fn conditional_nodes_are_timed(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut left = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let rounds = WordCondition::new(&left).unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            left.fill(3, &stream)?;
            capture.labelled("rounds", || {
                capture.while_(&rounds, |body| {
                    setup.add(&mut word, 1, body.stream())?;
                    setup.add(&mut left, u32::MAX, body.stream())
                })
            })
        })
        .unwrap();
    // An executable of the graph bars another one of it, and none of a copy.
    let exec = graph.instantiate().unwrap();
    let profile = graph.profile(&stream, 2).unwrap();
    assert_plausible(&profile);
    assert_eq!(profile.critical_path(), [0, 1, 2], "{profile}");
    assert!(profile.to_string().contains("while of 1 body, labelled \"rounds\""), "{profile}");
    assert_eq!(word.to_vec(&stream).unwrap(), [3 * 6]);
    let loops = graph.nodes().unwrap()[2].id();
    assert_eq!(profile.node(loops).unwrap().time(), profile.nodes()[2].time());
    let trace = profile.to_chrome_trace();
    assert!(trace.contains("\"conditional\""), "{trace}");
    drop(exec);
    let exec = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        .and_then(|capture| {
            left.fill(1, &stream)?;
            capture.while_(&rounds, |body| setup.add(&mut left, u32::MAX, body.stream()))?;
            capture.end()
        })
        .unwrap();
    let profile = exec.profile(&stream, 1).unwrap();
    assert_eq!(profile.nodes().len(), 3, "{profile}");
    exec.launch(&stream).unwrap();
    setup.assert_usable(&stream);
}

fn a_graph_that_is_built_twice_is_timed(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let built = || {
        let mut graph = Graph::new(&setup.context)?;
        let mut scratch = graph.add_alloc::<u32>(16, &[])?;
        let fill = graph.add_fill(FillNode::new(&mut scratch, 7)?, &[])?;
        let copy = CopyNode::device(&mut word, &scratch.view(..1)?)?;
        let copy = graph.add_copy(copy, &[fill])?;
        let condition = graph.condition(1)?;
        graph.add_if(&condition, &[copy], |body| body.add_empty(&[]).map(drop))?;
        graph.add_free(&scratch, &[])?;
        Ok(graph)
    };
    let profile = Graph::profile_of(&stream, 2, built).unwrap();
    assert_plausible(&profile);
    assert_eq!(profile.nodes().len(), 5, "{profile}");
    assert_eq!(word.to_vec(&stream).unwrap(), [7]);
    let captured = || {
        stream.capture(CaptureMode::ThreadLocal, |capture| {
            let mut scratch = capture.alloc_temporary::<u32>(16)?;
            scratch.fill(3, &stream)?;
            word.copy_from(&scratch.view(..1)?, &stream)
        })
    };
    let profile = Graph::profile_of(&stream, 2, captured).unwrap();
    assert_eq!(profile.critical_path(), [0, 1, 2, 3], "{profile}");
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
    setup.assert_usable(&stream);
}

fn graphs_that_differ_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut values = [1, 2].into_iter();
    let error = Graph::profile_of(&stream, 1, || {
        let value = values.next().unwrap();
        stream.capture(CaptureMode::ThreadLocal, |_| word.fill(value, &stream))
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("graph: the second one that was built does something else"),
        "{error}"
    );
    let failed = Graph::profile_of(&stream, 1, || Err(grapture::CudaError::InvalidValue));
    assert_eq!(failed.unwrap_err(), grapture::CudaError::InvalidValue);
    let none = Graph::profile_of(&stream, 0, || Graph::new(&setup.context)).unwrap_err();
    assert_eq!(none.to_string(), "runs: it is 0: measure at least once");
    setup.assert_usable(&stream);
}
