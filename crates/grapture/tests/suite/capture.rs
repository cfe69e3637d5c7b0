//! Captures: beginning, ending, what they record, and what breaks them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_STATUS_ACTIVE,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_NONE, CUstreamCaptureMode,
    CaptureMode, CaptureStatus, CudaError, DeviceBuffer, Event, NodeKind, Stream,
    StreamGraphCapture,
};

both_tiers! {
    capture_records_instead_of_running,
    an_empty_capture_gives_an_empty_graph,
    every_mode_captures,
    a_mode_that_is_none_is_refused,
    the_legacy_stream_is_refused,
    a_second_capture_of_the_stream_is_refused,
    an_abandoned_capture_is_ended,
    panic_ends_the_capture,
    an_error_in_the_closure_ends_the_capture,
    fork_and_join_make_one_graph,
    an_unjoined_fork_is_named,
    waiting_for_a_capturing_stream_is_refused,
    waiting_for_the_context_is_refused,
    a_captured_event_is_refused,
    an_event_from_outside_is_refused,
    captures_are_not_merged,
    launching_into_a_capture_is_refused,
    a_capture_that_other_hands_ended_is_left_alone,
    an_operation_that_breaks_the_capture_is_named,
    the_capture_id_is_shared_by_forks,
    retained_values_outlive_the_graph,
    a_host_function_runs_at_every_launch,
    a_graph_outlives_what_it_uses,
    a_launch_outlives_its_executable,
    drops_break_no_capture,
}

fn capture_records_instead_of_running(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[5u32]).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    assert!(capture.is_active());
    assert!(stream.is_capturing());
    assert_eq!(capture.capture_status().unwrap(), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    setup.add(&mut word, 2, &stream).unwrap();
    setup.mul_add(&mut word, 10, 1, &stream).unwrap();
    let exec = capture.end().unwrap();
    assert!(!stream.is_capturing());
    assert_eq!(exec.node_count(), 2);
    assert_eq!(word.to_vec(&stream).unwrap(), [5]);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [71]);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [731]);
}

fn an_empty_capture_gives_an_empty_graph(setup: &Setup) {
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::Global, |_| Ok(())).unwrap();
    assert_eq!(graph.node_count().unwrap(), 0);
    assert!(graph.nodes().unwrap().is_empty());
    assert!(graph.edges().unwrap().is_empty());
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn every_mode_captures(setup: &Setup) {
    for mode in [
        CU_STREAM_CAPTURE_MODE_GLOBAL,
        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED,
    ] {
        let stream = setup.stream();
        let mut word = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
        let capture = StreamGraphCapture::begin(&stream, mode).unwrap();
        setup.add(&mut word, 3, &stream).unwrap();
        let exec = capture.end().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [3], "mode {}", mode.0);
    }
}

fn a_mode_that_is_none_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let error = StreamGraphCapture::begin(&stream, CUstreamCaptureMode(9)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mode: 9 is no capture mode: use one of `CU_STREAM_CAPTURE_MODE_*`"
    );
    assert_eq!(error.code(), 1);
    setup.assert_usable(&stream);
}

fn the_legacy_stream_is_refused(setup: &Setup) {
    let stream = Stream::legacy(&setup.context);
    let error = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stream: the legacy default stream cannot be captured: make one with `Stream::new`"
    );
    assert_eq!(error.code(), 900);
    // The other default stream can be.
    let stream = Stream::per_thread(&setup.context);
    setup.assert_usable(&stream);
}

fn a_second_capture_of_the_stream_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let error = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stream: it is capturing already: end that capture first, capture another stream and \
         `embed` the graph, or have a part become one node with `Stream::as_child`"
    );
    assert_eq!(error.code(), 401);
    assert!(capture.is_active());
    capture.end().unwrap();
    setup.assert_usable(&stream);
}

fn an_abandoned_capture_is_ended(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    drop(capture);
    assert!(!stream.is_capturing());
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    assert_eq!(word.to_vec(&stream).unwrap(), [0]);
    setup.assert_usable(&stream);
}

fn panic_ends_the_capture(setup: &Setup) {
    let stream = setup.stream();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = stream.capture(CaptureMode::Global, |_| panic!("in the closure"));
    }));
    assert!(panicked.is_err());
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    setup.assert_usable(&stream);
}

fn an_error_in_the_closure_ends_the_capture(setup: &Setup) {
    let stream = setup.stream();
    let error = stream.capture(CaptureMode::Global, |_| Err(CudaError::NotReady)).unwrap_err();
    assert_eq!(error, CudaError::NotReady);
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    setup.assert_usable(&stream);
}

fn fork_and_join_make_one_graph(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    let mut first = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let mut second = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let graph = main
        .capture(CaptureMode::ThreadLocal, |_| {
            setup.add(&mut first, 1, &main)?;
            fork.record(&main)?;
            fork.wait(&side)?;
            assert!(side.is_capturing());
            setup.mul_add(&mut second, 3, 0, &side)?;
            setup.mul_add(&mut first, 5, 0, &main)?;
            join.record(&side)?;
            join.wait(&main)?;
            setup.add(&mut second, 7, &main)
        })
        .unwrap();
    assert!(!side.is_capturing());
    let nodes = graph.nodes().unwrap();
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().all(|node| node.kind() == NodeKind::Kernel));
    let at = |id| nodes.iter().position(|node| node.id() == id).unwrap();
    let mut edges: Vec<_> =
        graph.edges().unwrap().iter().map(|edge| (at(edge.from()), at(edge.to()))).collect();
    edges.sort_unstable();
    assert_eq!(edges, [(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert_eq!(graph.roots().unwrap(), [nodes[0].id()]);
    graph.instantiate().unwrap().launch(&main).unwrap();
    assert_eq!(first.to_vec(&main).unwrap(), [10]);
    assert_eq!(second.to_vec(&main).unwrap(), [10]);
    setup.assert_usable(&side);
}

fn an_unjoined_fork_is_named(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let fork = Event::new(&setup.context).unwrap();
    let mut line = 0;
    let error = main
        .capture(CaptureMode::ThreadLocal, |_| {
            fork.record(&main)?;
            line = line!() + 1;
            fork.wait(&side)?;
            setup.add(&mut word, 1, &side)
        })
        .unwrap_err();
    assert_eq!(error.code(), 904);
    let CudaError::Capture(error) = error else { panic!("{error:?}") };
    assert_eq!(error.forks().len(), 1);
    assert_eq!(error.forks()[0].stream(), &side);
    assert_eq!(error.forks()[0].location().line(), line);
    assert!(!error.forks()[0].is_joined());
    setup.assert_usable(&main);
    setup.assert_usable(&side);
}

fn waiting_for_a_capturing_stream_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "stream: it is capturing; `Stream::synchronize` ({}:{}) was refused, and the capture \
             is still valid: a capturing stream cannot be waited on; record an event instead, or \
             wait after the capture has ended",
            file!(),
            line!() - 8
        )
    );
    assert_eq!(error.code(), 900);
    assert_eq!(stream.is_idle().unwrap_err().code(), 900);
    assert!(capture.is_active());
    capture.end().unwrap();
}

fn waiting_for_the_context_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| setup.context.synchronize()).join().unwrap().unwrap_err()
    });
    assert_eq!(error.code(), 900);
    assert!(capture.is_active());
    capture.end().unwrap();
    setup.context.synchronize().unwrap();
}

fn a_captured_event_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    event.record(&stream).unwrap();
    for error in [event.synchronize().unwrap_err(), event.is_complete().unwrap_err()] {
        assert_eq!(
            error.to_string(),
            "event: it was last recorded in a capture, where it stands for no point in time: \
             record it outside, or with `record_external`"
        );
        assert_eq!(error.code(), 907);
    }
    assert!(capture.is_active());
    capture.end().unwrap();
    event.record(&stream).unwrap();
    event.synchronize().unwrap();
}

fn an_event_from_outside_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let (outside, never) =
        (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    outside.record(&stream).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let error = outside.wait(&stream).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event: it was recorded outside the stream's capture: wait for it before the capture \
         begins, or use `wait_external` to wait at every launch"
    );
    assert_eq!(error.code(), 905);
    never.wait(&stream).unwrap();
    outside.wait_external(&stream).unwrap();
    outside.record_external(&stream).unwrap();
    let exec = capture.end().unwrap();
    assert_eq!(exec.node_count(), 2);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert!(outside.is_complete().unwrap());
    // Outside a capture there is no node to make.
    assert_eq!(outside.record_external(&stream).unwrap_err().code(), 401);
    assert_eq!(outside.wait_external(&stream).unwrap_err().code(), 401);
}

fn captures_are_not_merged(setup: &Setup) {
    let (one, two) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let first = StreamGraphCapture::begin(&one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let second = StreamGraphCapture::begin(&two, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    event.record(&one).unwrap();
    assert_eq!(event.wait(&two).unwrap_err().code(), 902);
    assert!(first.is_active() && second.is_active());
    first.end().unwrap();
    second.end().unwrap();
    // The event stands for a point of a graph that is done with.
    let error = event.wait(&two).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event: it was last recorded in a capture that has ended: record it again before the wait"
    );
    setup.assert_usable(&two);
}

fn launching_into_a_capture_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let exec = stream.capture(CaptureMode::Global, |_| Ok(())).unwrap().instantiate().unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    for error in [exec.launch(&stream).unwrap_err(), exec.upload(&stream).unwrap_err()] {
        assert_eq!(
            error.to_string(),
            "stream: it is capturing, and an executable graph cannot be launched into a capture: \
             embed its graph there with `Graph::embed`, or launch it on another stream"
        );
        assert_eq!(error.code(), 900);
    }
    assert!(capture.is_active());
    exec.launch(&setup.stream()).unwrap();
    capture.end().unwrap();
}

fn a_capture_that_other_hands_ended_is_left_alone(setup: &Setup) {
    let stream = setup.stream();
    let functions = setup.driver.as_raw().functions();
    let end_raw = || {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a live stream, and a live out-pointer.
        let code = unsafe { (functions.cuStreamEndCapture)(stream.as_raw(), &mut raw) };
        assert_eq!(code.0, 0);
        // SAFETY: the graph was just given to us.
        unsafe { (functions.cuGraphDestroy)(raw) };
    };
    let begin_raw = || {
        // SAFETY: a live stream.
        let code = unsafe {
            (functions.cuStreamBeginCapture_v2)(stream.as_raw(), CU_STREAM_CAPTURE_MODE_RELAXED)
        };
        assert_eq!(code.0, 0);
    };
    for end in [true, false] {
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        end_raw();
        begin_raw();
        assert!(!capture.is_active());
        assert_eq!(capture.capture_status().unwrap(), CU_STREAM_CAPTURE_STATUS_NONE);
        if end {
            assert_eq!(capture.end().unwrap_err().code(), 401);
        } else {
            drop(capture);
        }
        assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::Active);
        end_raw();
    }
    setup.assert_usable(&stream);
}

fn an_operation_that_breaks_the_capture_is_named(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    // Other hands break it: a query of a capturing stream.
    // SAFETY: a live stream.
    let code = unsafe { (setup.driver.as_raw().functions().cuStreamQuery)(stream.as_raw()) };
    assert_eq!(code.0, 900);
    assert_eq!(capture.capture_status().unwrap(), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert!(!capture.is_active());
    assert_eq!(setup.add(&mut word, 1, &stream).unwrap_err().code(), 901);
    let error = capture.end().unwrap_err();
    assert_eq!(error.code(), 901);
    let CudaError::Capture(error) = error else { panic!("{error:?}") };
    assert_eq!(error.last_operation().unwrap().index(), 0);
    let failure = error.first_failure().unwrap();
    assert_eq!((failure.operation().index(), failure.code()), (1, 901));
    setup.assert_usable(&stream);
}

fn the_capture_id_is_shared_by_forks(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    assert_eq!(main.capture_info().unwrap().id(), None);
    let event = Event::new(&setup.context).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    setup.add(&mut word, 1, &main).unwrap();
    event.record(&main).unwrap();
    event.wait(&side).unwrap();
    let (of_main, of_side) = (main.capture_info().unwrap(), side.capture_info().unwrap());
    assert_eq!(of_main.id(), capture.id());
    assert_eq!(of_main.id(), of_side.id());
    assert_eq!(of_main.status(), CaptureStatus::Active);
    assert_eq!(of_main.dependencies(), of_side.dependencies());
    let waits_for = of_main.dependencies().unwrap().to_vec();
    let graph = capture.end_graph().unwrap();
    assert_eq!(waits_for, [graph.nodes().unwrap()[0].id()]);
    assert_eq!(main.capture_info().unwrap().dependencies(), None);
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn retained_values_outlive_the_graph(setup: &Setup) {
    let stream = setup.stream();
    let dropped = Arc::new(AtomicUsize::new(0));
    let graph = stream
        .capture(CaptureMode::Relaxed, |capture| {
            capture.retain(Dropped(dropped.clone()));
            Ok(())
        })
        .unwrap();
    let exec = graph.instantiate().unwrap();
    drop(graph);
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    drop(exec);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
    // One that never came to be a graph lets go at once.
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    capture.retain(Dropped(dropped.clone()));
    drop(capture);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

fn a_host_function_runs_at_every_launch(setup: &Setup) {
    let stream = setup.stream();
    let (calls, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let function = |value: Dropped, calls: Arc<AtomicUsize>| {
        move || {
            let _ = &value;
            calls.fetch_add(1, Ordering::SeqCst);
        }
    };
    let exec = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            stream.host_function(function(Dropped(dropped.clone()), calls.clone()))
        })
        .unwrap()
        .instantiate()
        .unwrap();
    for _ in 0..5 {
        exec.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 5);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(exec);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
    // Outside a capture it runs once, and is let go of.
    stream.host_function(function(Dropped(dropped.clone()), calls.clone())).unwrap();
    stream.host_function(|| panic!("in a host function")).unwrap();
    stream.host_function(function(Dropped(dropped.clone()), calls.clone())).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 7);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 3);
}

fn a_graph_outlives_what_it_uses(setup: &Setup) {
    let stream = setup.stream();
    let other = setup.stream();
    let exec = {
        let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        let mut copy = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let module = setup.context.load_ptx(crate::common::KERNELS).unwrap();
        let kernel = module.kernel("add").unwrap();
        let capture_stream = setup.stream();
        let host = vec![41u32];
        let graph = capture_stream
            .capture(CaptureMode::Global, |_| {
                word.copy_from_host_staged(&host, &capture_stream)?;
                // SAFETY: `add` takes an address of a word and a value.
                unsafe {
                    kernel
                        .launch_builder(1, 1)
                        .arg_mut(&mut word)
                        .value(1u32)
                        .launch(&capture_stream)?;
                }
                copy.copy_from(&word, &capture_stream)?;
                copy.copy_to_pinned(&mut setup.pinned_word(), &capture_stream)
            })
            .unwrap();
        graph.instantiate().unwrap()
        // The buffers, the kernel, the module, the stream, the host slice, the pinned word and
        // the graph are gone here.
    };
    // Memory that takes the place of what a careless library would have freed.
    let reused: Vec<_> =
        (0..64).map(|_| DeviceBuffer::from_slice(&setup.context, &[7u32]).unwrap()).collect();
    for _ in 0..10 {
        exec.launch(&other).unwrap();
    }
    other.synchronize().unwrap();
    for buffer in &reused {
        assert_eq!(buffer.to_vec(&stream).unwrap(), [7]);
    }
}

fn a_launch_outlives_its_executable(setup: &Setup) {
    let (stream, gate_stream) = (setup.stream(), setup.stream());
    let mut gate = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let exec = stream
        .capture(CaptureMode::Global, |capture| {
            capture.retain(Dropped(dropped.clone()));
            setup.wait_for(&gate, &stream)?;
            setup.add(&mut word, 1, &stream)
        })
        .unwrap()
        .instantiate()
        .unwrap();
    exec.launch(&stream).unwrap();
    drop(exec);
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the launch still runs");
    gate.fill(1, &gate_stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
}

fn drops_break_no_capture(setup: &Setup) {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        for own_thread in [true, false] {
            let stream = setup.stream();
            let things = (
                DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap(),
                setup.context.load_ptx(crate::common::KERNELS).unwrap(),
                Event::new(&setup.context).unwrap(),
                setup.stream(),
                setup.pinned_word(),
                stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap(),
                stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap().instantiate().unwrap(),
            );
            let capture = StreamGraphCapture::begin(&stream, mode.as_raw()).unwrap();
            if own_thread {
                drop(things);
            } else {
                std::thread::scope(|scope| scope.spawn(|| drop(things)).join().unwrap());
            }
            assert!(capture.is_active(), "{mode:?}, own thread: {own_thread}");
            capture.end().unwrap();
        }
    }
}
