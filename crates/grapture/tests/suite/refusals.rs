//! What would break a capture is refused before the driver sees it, and the capture goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_STATUS_ACTIVE, CaptureMode,
    CaptureStatus, CudaError, CudaResult, DeviceBuffer, Event, GraphExec, InstantiateOptions,
    Stream, StreamGraphCapture, StreamOptions,
};

both_tiers! {
    the_legacy_stream_is_refused_beside_a_blocking_capture,
    a_blocking_fork_keeps_off_the_legacy_stream,
    the_legacy_stream_runs_beside_other_captures,
    a_stream_of_other_hands_tells_whether_it_blocks,
    launches_that_do_not_fit_are_refused_in_a_capture,
    an_event_of_a_capture_is_refused_on_another_thread,
    waits_across_captures_are_refused_on_another_thread,
    a_wait_on_another_thread_breaks_no_capture_that_begins,
    an_external_wait_for_an_event_of_an_ended_capture_is_refused,
}

const LEGACY: &str = "stream: it is the legacy default stream, and a blocking stream of its context \
                      is capturing, which work here would invalidate: capture a stream made with \
                      `Stream::new`, or use another stream than the legacy one meanwhile";

fn blocking(setup: &Setup) -> Stream {
    Stream::with_options(&setup.context, StreamOptions::new().blocking(true)).unwrap()
}

#[track_caller]
fn assert_active(capture: &StreamGraphCapture<'_>, after: &str) {
    assert_eq!(capture.capture_status().unwrap(), CU_STREAM_CAPTURE_STATUS_ACTIVE, "{after}");
}

/// What can be done with a stream, none of which a capture records.
fn everything_on(stream: &Stream, setup: &Setup, exec: &GraphExec) -> Vec<(&'static str, u32)> {
    let context = &setup.context;
    let code = |result: CudaResult<()>| result.map_or_else(|error| error.code(), |()| 0);
    let word = || DeviceBuffer::from_slice(context, &[1u32]).unwrap();
    let event = || Event::new(context).unwrap();
    let recorded = event();
    recorded.record(&setup.stream()).unwrap();
    vec![
        ("kernel", code(setup.add(&mut word(), 1, stream))),
        ("fill", code(word().fill(1, stream))),
        ("copy", code(word().copy_from(&word(), stream))),
        ("copy from host", code(word().copy_from_host(&[1], stream))),
        ("copy to host", code(word().to_vec(stream).map(|_| ()))),
        ("copy to pinned", code(word().copy_to_pinned(&mut setup.pinned_word(), stream))),
        ("host function", code(stream.host_function(|| {}))),
        ("record", code(event().record(stream))),
        ("wait", code(recorded.wait(stream))),
        ("launch", code(exec.launch(stream))),
        ("upload", code(exec.upload(stream))),
        ("synchronize", code(stream.synchronize())),
        ("is_idle", code(stream.is_idle().map(|_| ()))),
    ]
}

/// Makes a graph executable with an upload on the stream.
fn upload_on(stream: &Stream, setup: &Setup) -> u32 {
    let graph = setup.stream().capture(CaptureMode::Relaxed, |_| Ok(())).unwrap();
    let made = graph.instantiate_with(&InstantiateOptions::new().upload_on(stream));
    made.map_or_else(|error| error.code(), |_| 0)
}

fn empty_graph(setup: &Setup) -> GraphExec {
    let stream = setup.stream();
    StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap().end().unwrap()
}

fn the_legacy_stream_is_refused_beside_a_blocking_capture(setup: &Setup) {
    let exec = empty_graph(setup);
    let legacy = Stream::legacy(&setup.context);
    for origin in [blocking(setup), Stream::per_thread(&setup.context)] {
        let capture = StreamGraphCapture::begin(&origin, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        for (what, code) in everything_on(&legacy, setup, &exec) {
            assert_eq!(code, 906, "{what}");
        }
        assert_eq!(upload_on(&legacy, setup), 906);
        let error = legacy.host_function(|| {}).unwrap_err();
        assert_eq!(error.to_string(), LEGACY);
        assert_eq!(legacy.capture_info().unwrap_err().code(), 906);
        assert_active(&capture, "the legacy stream");
        let elsewhere = || legacy.host_function(|| {}).unwrap_err().to_string();
        assert_eq!(thread::scope(|scope| scope.spawn(elsewhere).join().unwrap()), LEGACY);
        assert_active(&capture, "the legacy stream on another thread");
        capture.end().unwrap();
        for (what, code) in everything_on(&legacy, setup, &exec) {
            assert!(code == 0, "{what}: {code}");
        }
        assert_eq!(upload_on(&legacy, setup), 0);
        legacy.synchronize().unwrap();
        setup.assert_usable(&origin);
    }
}

fn a_blocking_fork_keeps_off_the_legacy_stream(setup: &Setup) {
    let (main, side, legacy) = (setup.stream(), blocking(setup), Stream::legacy(&setup.context));
    let event = Event::new(&setup.context).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    legacy.host_function(|| {}).unwrap();
    event.record(&main).unwrap();
    event.wait(&side).unwrap();
    assert_eq!(word.fill(1, &legacy).unwrap_err().to_string(), LEGACY);
    assert_active(&capture, "a blocking fork");
    drop(capture);
    word.fill(1, &legacy).unwrap();
    // A fork that is refused bars nothing.
    assert_eq!(event.wait(&side).unwrap_err().code(), 1);
    word.fill(1, &legacy).unwrap();
    legacy.synchronize().unwrap();
}

fn the_legacy_stream_runs_beside_other_captures(setup: &Setup) {
    let (stream, legacy, exec) =
        (setup.stream(), Stream::legacy(&setup.context), empty_graph(setup));
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    for (what, code) in everything_on(&legacy, setup, &exec) {
        assert_eq!(code, 0, "{what}");
        assert_active(&capture, what);
    }
    assert_eq!(capture.end().unwrap().node_count(), 0);
    legacy.synchronize().unwrap();
}

fn a_stream_of_other_hands_tells_whether_it_blocks(setup: &Setup) {
    let legacy = Stream::legacy(&setup.context);
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    for (owner, code) in [(blocking(setup), 906), (setup.stream(), 0)] {
        // SAFETY: `owner` outlives it.
        let borrowed = unsafe { Stream::borrow_raw(&setup.context, owner.as_raw()) };
        let capture = StreamGraphCapture::begin(&borrowed, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        let filled = word.fill(1, &legacy);
        assert_eq!(filled.map_or_else(|error| error.code(), |()| 0), code);
        assert_active(&capture, "the legacy stream");
        drop(capture);
        legacy.synchronize().unwrap();
    }
}

fn launches_that_do_not_fit_are_refused_in_a_capture(setup: &Setup) {
    let stream = setup.stream();
    let kernel = setup.module.kernel("nothing").unwrap();
    let processors = setup.context.device().multiprocessor_count().unwrap() as usize;
    let most = u32::try_from(kernel.max_active_blocks(32, 0).unwrap() * processors).unwrap();
    let clusters = setup.context.device().compute_capability().unwrap().0 >= 9;
    // SAFETY: it does nothing.
    let cooperative = |blocks: u32| unsafe {
        kernel.launch_builder(blocks, 32).cooperative(true).launch(&stream)
    };
    // SAFETY: as above.
    let clustered = |blocks: u32, both: bool| unsafe {
        let launch = kernel.launch_builder(blocks * 2, 32).cluster(blocks);
        launch.cooperative(both).launch(&stream)
    };
    assert_eq!(cooperative(most + 1), Err(CudaError::CooperativeLaunchTooLarge));
    cooperative(most).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let error = cooperative(most + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "kernel.grid_dim: a cooperative launch of {} blocks, and {most} of `nothing` are \
             resident at once: launch at most so many",
            most + 1
        )
    );
    assert_eq!(error.code(), 720);
    assert_active(&capture, "too many blocks");
    cooperative(most).unwrap();
    let mut nodes = 1;
    if clusters {
        let error = clustered(64, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel.cluster_dim: no cluster of 64 x 1 x 1 blocks of `nothing` fits on the device: \
             make it smaller"
        );
        assert_eq!(error.code(), 912);
        assert_active(&capture, "too large a cluster");
        clustered(8, false).unwrap();
        clustered(2, true).unwrap();
        nodes = 3;
    }
    assert_active(&capture, "launches with attributes");
    let exec = capture.end().unwrap();
    assert_eq!(exec.node_count(), nodes);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn an_event_of_a_capture_is_refused_on_another_thread(setup: &Setup) {
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    for mode in [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED] {
        let capture = StreamGraphCapture::begin(&stream, mode).unwrap();
        event.record(&stream).unwrap();
        let ask = || {
            let codes = [
                event.is_complete().map(|_| ()).unwrap_err().code(),
                event.synchronize().unwrap_err().code(),
                event.elapsed_since(&event).map(|_| ()).unwrap_err().code(),
            ];
            assert_eq!(codes, [907; 3]);
        };
        ask();
        thread::scope(|scope| scope.spawn(ask).join().unwrap());
        assert_active(&capture, "questions about its event");
        drop(capture);
        // It stands for nothing after the capture either.
        ask();
    }
}

fn waits_across_captures_are_refused_on_another_thread(setup: &Setup) {
    let (one, two) = (setup.stream(), setup.stream());
    let (event, ended) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let over = StreamGraphCapture::begin(&two, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    ended.record(&two).unwrap();
    drop(over);
    let capture = StreamGraphCapture::begin(&one, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    event.record(&one).unwrap();
    let other = || {
        let capture = StreamGraphCapture::begin(&two, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        assert_eq!(event.wait(&two).unwrap_err().code(), 902);
        assert_eq!(ended.wait(&two).unwrap_err().code(), 1);
        assert_active(&capture, "a wait across captures");
        capture.end().unwrap();
    };
    thread::scope(|scope| scope.spawn(other).join().unwrap());
    assert_active(&capture, "a wait across captures");
    capture.end().unwrap();
    assert_eq!(two.capture_info().unwrap().status(), CaptureStatus::None);
    setup.assert_usable(&two);
}

/// The look whether the stream captures, and the wait, are one.
fn a_wait_on_another_thread_breaks_no_capture_that_begins(setup: &Setup) {
    let stream = setup.stream();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for query in [false, true] {
            let (stream, over) = (&stream, &over);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let waited =
                        if query { stream.is_idle().map(|_| ()) } else { stream.synchronize() };
                    assert!(matches!(waited, Ok(()) | Err(CudaError::Refused(_))), "{waited:?}");
                }
            });
        }
        let captured: Vec<_> =
            (0..300).map(|_| stream.capture(CaptureMode::Relaxed, |_| Ok(())).map(drop)).collect();
        over.store(true, Ordering::SeqCst);
        assert!(captured.iter().all(Result::is_ok), "{captured:?}");
    });
}

/// The mark of a capture stays on the event until it is recorded by work that runs.
fn an_external_wait_for_an_event_of_an_ended_capture_is_refused(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let wait = || {
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        let waited = event.wait_external(&stream);
        assert_active(&capture, "an external wait");
        capture.end().unwrap();
        waited
    };
    let refused = "event: it was last recorded in a capture that has ended: record it again before \
                   the wait";
    wait().unwrap();
    other
        .capture(CaptureMode::Relaxed, |_| {
            event.record(&other)?;
            // A launch of the node would join that capture.
            let open = wait().unwrap_err().to_string();
            assert!(open.contains("in a capture that is open"), "{open}");
            Ok(())
        })
        .unwrap();
    assert_eq!(wait().unwrap_err().to_string(), refused);
    // A node that would record it has not run yet.
    let graph = other.capture(CaptureMode::Relaxed, |_| event.record_external(&other)).unwrap();
    let exec = graph.instantiate().unwrap();
    assert_eq!(wait().unwrap_err().to_string(), refused);
    exec.launch(&other).unwrap();
    wait().unwrap();
    other.capture(CaptureMode::Relaxed, |_| event.record(&other)).unwrap();
    assert_eq!(wait().unwrap_err().to_string(), refused);
    event.record(&other).unwrap();
    wait().unwrap();
    other.synchronize().unwrap();
}
