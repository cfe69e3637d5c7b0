//! Work of the capturing thread that runs outside of its capture, and work that runs because it
//! could not be captured.

use std::cell::Cell;
use std::thread;

use crate::common::{Setup, both_tiers};
use grapture::{
    Attempt, CaptureError, CaptureMode, CaptureOptions, CaptureOutcome, CaptureStatus, CudaError,
    CudaResult, DeviceBuffer, EscapePolicy, Event, OperationKind, StreamGraphCapture,
};

both_tiers! {
    escaped_work_is_counted_and_named,
    escaped_work_can_be_an_error,
    an_error_of_the_closure_comes_before_escapes,
    what_is_no_work_has_not_escaped,
    each_capture_counts_for_itself,
    nothing_escapes_from_a_capture_that_does_not_look,
    work_is_captured_or_run,
    work_that_cannot_be_captured_runs_once,
    work_that_fails_both_ways_is_an_error,
    work_does_not_run_into_another_capture,
    a_panic_in_the_attempt_ends_the_capture,
}

fn at(line: u32) -> String {
    format!("{}:{line}", file!())
}

fn words<const N: usize>(setup: &Setup) -> [DeviceBuffer<u32>; N] {
    [(); N].map(|()| DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap())
}

fn options(policy: EscapePolicy) -> CaptureOptions {
    CaptureOptions::new(CaptureMode::ThreadLocal).escapes(policy)
}

#[track_caller]
fn capture_error<T: std::fmt::Debug>(result: CudaResult<T>) -> CaptureError {
    match result {
        Err(CudaError::Capture(error)) => *error,
        other => panic!("not the error of a capture: {other:?}"),
    }
}

fn escaped_work_is_counted_and_named(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let [mut inside, mut outside] = words(setup);
    let exec = other.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap().instantiate().unwrap();
    let capture = StreamGraphCapture::begin_with(&stream, options(EscapePolicy::Warn)).unwrap();
    setup.add(&mut inside, 1, &stream).unwrap();
    assert!(capture.escapes().is_empty());
    let line = line!();
    setup.add(&mut outside, 1, &other).unwrap();
    outside.fill(5, &other).unwrap();
    exec.launch(&other).unwrap();
    assert_eq!(outside.to_vec(&other).unwrap(), [5]);
    outside.copy_from_host(&[6], &other).unwrap();
    other.host_function(|| {}).unwrap();
    let escapes = capture.escapes();
    assert_eq!(escapes.count(), 6);
    let sites: Vec<_> = escapes.first().iter().map(ToString::to_string).collect();
    let expected = [
        ("`add`", 1),
        ("fill of 4 bytes", 2),
        ("graph launch", 3),
        ("copy of 4 bytes to the host", 4),
        ("copy of 4 bytes from the host", 5),
        ("host function", 6),
    ];
    assert_eq!(sites, expected.map(|(what, after)| format!("{what} ({})", at(line + after))));
    // A warning is no error.
    assert_eq!(capture.end_graph().unwrap().node_count().unwrap(), 1);
    other.synchronize().unwrap();
}

fn escaped_work_can_be_an_error(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let [mut inside, mut outside] = words(setup);
    let line = line!();
    let error = capture_error(stream.capture_with(options(EscapePolicy::Error), |_| {
        setup.add(&mut inside, 1, &stream)?;
        setup.add(&mut outside, 1, &other)
    }));
    assert_eq!(
        error.to_string(),
        format!(
            "the capture failed: 1 operation of this thread ran outside of it at once and is \
             missing from the graph: `add` ({}): submit it to a stream of the capture, or before \
             the capture begins, or let it pass with `CaptureOptions::escapes`",
            at(line + 3)
        )
    );
    assert_eq!((error.code(), error.recorded(), error.escapes().count()), (905, 1, 1));
    let line = line!();
    let error = capture_error(stream.capture_with(options(EscapePolicy::Error), |_| {
        (0..10).try_for_each(|_| outside.fill(1, &other))
    }));
    let site = format!("fill of 4 bytes ({})", at(line + 2));
    assert_eq!(
        error.to_string(),
        format!(
            "the capture failed: nothing was recorded in it, and 10 operations of this thread ran \
             outside of it at once and are missing from the graph: {} and 2 more: submit it to a \
             stream of the capture, or before the capture begins, or let it pass with \
             `CaptureOptions::escapes`",
            vec![site; 8].join(", ")
        )
    );
    assert_eq!(error.escapes().first()[0].kind(), OperationKind::Fill);
    // What is empty and let nothing out is a graph.
    let graph = stream.capture_with(options(EscapePolicy::Error), |_| Ok(())).unwrap();
    assert_eq!(graph.node_count().unwrap(), 0);
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    setup.assert_usable(&stream);
    setup.assert_usable(&other);
}

fn an_error_of_the_closure_comes_before_escapes(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let [mut outside] = words(setup);
    let error = stream.capture_with(options(EscapePolicy::Error), |_| {
        outside.fill(1, &other)?;
        Err(CudaError::NotReady)
    });
    assert_eq!(error.unwrap_err(), CudaError::NotReady);
    setup.assert_usable(&stream);
}

fn what_is_no_work_has_not_escaped(setup: &Setup) {
    let (stream, side, other) = (setup.stream(), setup.stream(), setup.stream());
    let [mut word, mut elsewhere, mut copy] = words(setup);
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let outside = Event::new(&setup.context).unwrap();
    let graph = stream
        .capture_with(options(EscapePolicy::Error), |_| {
            // A fork is a part of the capture.
            fork.record(&stream)?;
            fork.wait(&side)?;
            setup.add(&mut word, 1, &side)?;
            join.record(&side)?;
            join.wait(&stream)?;
            // Memory that is made meanwhile is made at once, as it says.
            let _zeroed = DeviceBuffer::<u32>::zeroed(&setup.context, 4)?;
            let _copied = DeviceBuffer::from_slice(&setup.context, &[1u32])?;
            let _pinned = setup.pinned_word();
            copy.copy_from_host_staged(&[3], &stream)?;
            // So are events and waits.
            outside.record(&other)?;
            outside.wait(&other)?;
            // Another thread has its own work.
            let mut work = || elsewhere.fill(2, &other);
            thread::scope(|scope| scope.spawn(&mut work).join().unwrap())
        })
        .unwrap();
    assert_eq!(graph.node_count().unwrap(), 2);
}

fn each_capture_counts_for_itself(setup: &Setup) {
    let (one, two, other) = (setup.stream(), setup.stream(), setup.stream());
    let [mut word] = words(setup);
    let first = StreamGraphCapture::begin_with(&one, options(EscapePolicy::Warn)).unwrap();
    word.fill(1, &other).unwrap();
    let second = StreamGraphCapture::begin_with(&two, options(EscapePolicy::Error)).unwrap();
    assert!(second.escapes().is_empty());
    setup.add(&mut word, 1, &other).unwrap();
    assert_eq!((first.escapes().count(), second.escapes().count()), (2, 1));
    assert_eq!(second.escapes().first()[0].name(), Some("add"));
    assert_eq!(first.escapes().first()[0].kind(), OperationKind::Fill);
    // What one capture records is no escape from the other.
    word.fill(1, &one).unwrap();
    assert_eq!(second.escapes().count(), 1);
    assert_eq!(capture_error(second.end_graph()).escapes().count(), 1);
    word.fill(1, &other).unwrap();
    assert_eq!(first.escapes().count(), 3);
    first.end_graph().unwrap();
    let third = StreamGraphCapture::begin_with(&one, options(EscapePolicy::Error)).unwrap();
    assert!(third.escapes().is_empty());
    third.end_graph().unwrap();
}

fn nothing_escapes_from_a_capture_that_does_not_look(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let [mut word] = words(setup);
    let capture = StreamGraphCapture::begin_with(&stream, options(EscapePolicy::Ignore)).unwrap();
    word.fill(1, &other).unwrap();
    assert!(capture.escapes().is_empty());
    capture.end_graph().unwrap();
    // Nor when another capture did, and is over.
    let looks = StreamGraphCapture::begin_with(&other, options(EscapePolicy::Warn)).unwrap();
    word.fill(1, &stream).unwrap();
    let capture = StreamGraphCapture::begin_with(&stream, options(EscapePolicy::Ignore)).unwrap();
    assert_eq!(looks.escapes().count(), 1);
    drop(looks);
    assert!(capture.escapes().is_empty());
    capture.end_graph().unwrap();
}

fn work_is_captured_or_run(setup: &Setup) {
    let stream = setup.stream();
    let [mut word] = words(setup);
    let calls = Cell::new((0, 0));
    let outcome = stream.capture_or_run(CaptureMode::ThreadLocal, |attempt| {
        assert_eq!(attempt.stream(), &stream);
        let (captured, ran) = calls.get();
        calls.set(match attempt {
            Attempt::Capture(capture) => {
                capture.retain(());
                (captured + 1, ran)
            }
            Attempt::Run(_) => (captured, ran + 1),
        });
        setup.add(&mut word, 1, attempt.stream())
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_captured() && outcome.error().is_none());
    assert_eq!(calls.get(), (1, 0));
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
    outcome.graph().unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn work_that_cannot_be_captured_runs_once(setup: &Setup) {
    let stream = setup.stream();
    let [mut word] = words(setup);
    let (runs, waits) = (Cell::new(0), Cell::new(true));
    let mut work = |attempt: Attempt<'_>| {
        setup.add(&mut word, 1, attempt.stream())?;
        if waits.get() {
            attempt.stream().synchronize()?;
        }
        runs.set(runs.get() + usize::from(attempt.capture().is_none()));
        Ok(())
    };
    let outcome = stream.capture_or_run(CaptureMode::Global, &mut work).unwrap();
    assert!(!outcome.is_captured());
    assert_eq!(outcome.error().unwrap().code(), 900);
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    assert!(outcome.graph().is_none());
    // The next time it can be captured.
    waits.set(false);
    let outcome = stream.capture_or_run(CaptureMode::Global, &mut work).unwrap();
    assert_eq!(runs.get(), 1);
    let CaptureOutcome::Captured(graph) = outcome else { panic!("it ran") };
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
    // The legacy stream never captures.
    let legacy = grapture::Stream::legacy(&setup.context);
    let outcome =
        legacy.capture_or_run(CaptureMode::Global, |attempt| word.fill(9, attempt.stream()));
    assert_eq!(outcome.unwrap().error().unwrap().code(), 900);
    assert_eq!(word.to_vec(&legacy).unwrap(), [9]);
}

fn work_that_fails_both_ways_is_an_error(setup: &Setup) {
    let stream = setup.stream();
    let calls = Cell::new(0);
    let outcome = stream.capture_or_run(CaptureMode::Global, |attempt| {
        calls.set(calls.get() + 1);
        Err(if attempt.capture().is_some() { CudaError::NotReady } else { CudaError::NotFound })
    });
    assert_eq!(outcome.unwrap_err(), CudaError::NotFound);
    assert_eq!(calls.get(), 2);
    setup.assert_usable(&stream);
}

fn work_does_not_run_into_another_capture(setup: &Setup) {
    let stream = setup.stream();
    let capture = StreamGraphCapture::begin_with(&stream, options(EscapePolicy::Error)).unwrap();
    let outcome = stream.capture_or_run(CaptureMode::Global, |_| panic!("it is called"));
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "stream: it is capturing already: end that capture first, capture another stream and \
         `embed` the graph, or have a part become one node with `Stream::as_child`"
    );
    assert!(capture.is_active());
    assert_eq!(capture.end_graph().unwrap().node_count().unwrap(), 0);
}

fn a_panic_in_the_attempt_ends_the_capture(setup: &Setup) {
    let stream = setup.stream();
    let [mut word] = words(setup);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = stream.capture_or_run(CaptureMode::Global, |attempt| {
            setup.add(&mut word, 1, attempt.stream())?;
            panic!("in the closure")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    assert_eq!(word.to_vec(&stream).unwrap(), [1], "nothing ran");
    setup.assert_usable(&stream);
}
