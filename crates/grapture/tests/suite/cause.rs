//! What a failed capture says: after which operation it was valid, what broke it, and what to do.

use std::thread;

use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureError, CaptureMode, CaptureStatus, CopyDirection,
    CudaError, CudaResult, DeviceBuffer, Event, Kernel, OperationKind, Stream, StreamGraphCapture,
};

both_tiers! {
    an_operation_that_breaks_the_capture_is_the_cause_of_all_that_follows,
    other_hands_are_found_between_two_operations,
    other_hands_are_found_before_the_end,
    another_thread_is_found_between_two_operations,
    a_refused_call_is_no_cause,
    an_operation_on_a_fork_is_named_with_its_stream,
    an_operation_of_another_thread_is_named,
    only_the_streams_that_are_not_joined_back_are_named,
    a_join_by_way_of_another_fork_counts,
    work_after_the_join_is_not_joined,
    a_capture_that_other_hands_ended_says_so,
    each_kind_of_operation_has_its_name,
}

/// A kernel that the driver launches with 32 threads only, which it does not tell beforehand.
const FIXED: &str = ".version 6.4\n.target sm_50\n.address_size 64\n\
                     .visible .entry fixed() .reqntid 32, 1, 1 { ret; }\n";

const FOREIGN: &str = "by a call that did not go through this library, or by another thread: look \
                       there for a synchronisation, a query or an allocation, and make it before \
                       the capture, after it, or under `ThreadCaptureMode::set`";
const INVALIDATED: &str = "the capture failed: the capture was invalidated by an earlier error \
                           (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)";
const UNJOINED: &str = "the capture failed: the capture has a forked stream that was not joined \
                        (CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)";

/// A line of this file.
fn at(line: u32) -> String {
    format!("{}:{line}", file!())
}

#[track_caller]
fn capture_error<T: std::fmt::Debug>(result: CudaResult<T>) -> CaptureError {
    match result {
        Err(CudaError::Capture(error)) => *error,
        other => panic!("not the error of a capture: {other:?}"),
    }
}

fn word(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap()
}

fn fixed(setup: &Setup) -> Kernel {
    setup.context.load_ptx(FIXED).unwrap().kernel("fixed").unwrap()
}

#[track_caller]
fn launch_wrongly(kernel: &Kernel, stream: &Stream) -> CudaResult<()> {
    // SAFETY: it does nothing.
    unsafe { kernel.launch_builder(1, 16).launch(stream) }
}

/// What other hands do to the stream, which no capture survives.
fn query_raw(setup: &Setup, stream: &Stream) {
    // SAFETY: a live stream.
    let code = unsafe { (setup.driver.as_raw().functions().cuStreamQuery)(stream.as_raw()) };
    assert_eq!(code.0, 900);
}

fn an_operation_that_breaks_the_capture_is_the_cause_of_all_that_follows(setup: &Setup) {
    let (stream, mut word, fixed) = (setup.stream(), word(setup), fixed(setup));
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let line = line!();
    setup.add(&mut word, 1, &stream).unwrap();
    let first = capture_error(launch_wrongly(&fixed, &stream));
    let second = capture_error(word.fill(1, &stream));
    let end = capture_error(capture.end());
    let valid = format!("valid after op 0 (`add`, {})", at(line + 1));
    let broken = format!("broken by op 1 (`fixed`, {})", at(line + 2));
    assert_eq!(
        first.to_string(),
        format!(
            "the capture failed: an argument is null, out of range or not valid here \
             (CUDA_ERROR_INVALID_VALUE, 1); {valid}, {broken}: correct the call, and capture again"
        )
    );
    assert_eq!(first.code(), 1);
    for error in [&second, &end] {
        assert_eq!(
            error.to_string(),
            format!(
                "{INVALIDATED}; {valid}, {broken}, which the driver answered with \"an argument is \
                 null, out of range or not valid here (CUDA_ERROR_INVALID_VALUE, 1)\": correct the \
                 call, and capture again"
            )
        );
        assert_eq!(error.code(), 901);
    }
    let failure = end.first_failure().unwrap();
    assert!(failure.broke_it());
    assert_eq!(failure.code(), 1);
    assert_eq!(failure.before(), CaptureStatus::Active);
    assert_eq!(failure.after(), Some(CaptureStatus::Invalidated));
    assert_eq!(failure.operation().name(), Some("fixed"));
    assert_eq!(failure.operation().index(), 1);
    assert_eq!(failure.operation().stream(), Some(stream.clone()));
    assert_eq!(end.last_operation().unwrap().name(), Some("add"));
    assert_eq!(end.recorded(), 1);
    setup.assert_usable(&stream);
    // An error that ends the closure brings the cause along.
    let line = line!();
    let error = stream.capture(CaptureMode::Global, |_| launch_wrongly(&fixed, &stream));
    assert_eq!(
        capture_error(error).to_string(),
        format!(
            "the capture failed: an argument is null, out of range or not valid here \
             (CUDA_ERROR_INVALID_VALUE, 1); nothing was recorded in it, broken by op 0 (`fixed`, \
             {}): correct the call, and capture again",
            at(line + 1)
        )
    );
    setup.assert_usable(&stream);
}

fn other_hands_are_found_between_two_operations(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup));
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let line = line!();
    setup.add(&mut word, 1, &stream).unwrap();
    query_raw(setup, &stream);
    let own = capture_error(word.fill(1, &stream));
    let later = capture_error(setup.add(&mut word, 1, &stream));
    let end = capture_error(capture.end());
    for error in [own, later, end] {
        assert_eq!(
            error.to_string(),
            format!(
                "{INVALIDATED}; valid after op 0 (`add`, {}), broken before op 1 (fill of 4 bytes, \
                 {}) {FOREIGN}",
                at(line + 1),
                at(line + 3)
            )
        );
        let failure = error.first_failure().unwrap();
        assert!(!failure.broke_it());
        assert_eq!((failure.code(), failure.before()), (901, CaptureStatus::Invalidated));
        assert_eq!(failure.operation().site().bytes(), Some(4));
    }
    setup.assert_usable(&stream);
}

fn other_hands_are_found_before_the_end(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup));
    for recorded in [false, true] {
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        let line = line!();
        if recorded {
            setup.add(&mut word, 1, &stream).unwrap();
        }
        query_raw(setup, &stream);
        let error = capture_error(capture.end_graph());
        let valid = match recorded {
            true => format!("valid after op 0 (`add`, {})", at(line + 2)),
            false => "nothing was recorded in it".to_owned(),
        };
        let end = at(line + 5);
        assert_eq!(
            error.to_string(),
            format!("{INVALIDATED}; {valid}, broken before its end ({end}) {FOREIGN}")
        );
        assert!(error.first_failure().is_none());
        setup.assert_usable(&stream);
    }
}

fn another_thread_is_found_between_two_operations(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup));
    let functions = setup.driver.as_raw().functions();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    let line = line!();
    word.fill(2, &stream).unwrap();
    let other = || {
        // SAFETY: the context is alive.
        unsafe { (functions.cuCtxSetCurrent)(setup.context.as_raw()) };
        // SAFETY: a live out-pointer; the capture bars the call.
        unsafe { (functions.cuMemAlloc_v2)(&mut 0, 4) }
    };
    assert_eq!(thread::scope(|scope| scope.spawn(other).join().unwrap()).0, 900);
    let error = capture_error(setup.add(&mut word, 1, &stream));
    assert_eq!(
        error.to_string(),
        format!(
            "{INVALIDATED}; valid after op 1 (fill of 4 bytes, {}), broken before op 2 (`add`, {}) \
             {FOREIGN}",
            at(line + 1),
            at(line + 9)
        )
    );
    drop(capture);
    setup.assert_usable(&stream);
}

fn a_refused_call_is_no_cause(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup));
    let outside = Event::new(&setup.context).unwrap();
    outside.record(&stream).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    assert_eq!(stream.synchronize().unwrap_err().code(), 900);
    assert_eq!(outside.wait(&stream).unwrap_err().code(), 905);
    assert_eq!(word.to_vec(&stream).unwrap_err().code(), 900);
    assert!(capture.is_active());
    query_raw(setup, &stream);
    let error = capture_error(capture.end());
    assert!(error.first_failure().is_none(), "{error}");
    assert!(error.barred_call().is_none(), "{error}");
    assert_eq!(error.last_operation().unwrap().name(), Some("add"));
    setup.assert_usable(&stream);
}

fn an_operation_on_a_fork_is_named_with_its_stream(setup: &Setup) {
    let (main, side, mut word, fixed) = (setup.stream(), setup.stream(), word(setup), fixed(setup));
    let event = Event::new(&setup.context).unwrap();
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let line = line!();
    event.record(&main).unwrap();
    event.wait(&side).unwrap();
    setup.add(&mut word, 1, &side).unwrap();
    let error = capture_error(launch_wrongly(&fixed, &side));
    assert_eq!(
        error.to_string(),
        format!(
            "the capture failed: an argument is null, out of range or not valid here \
             (CUDA_ERROR_INVALID_VALUE, 1); valid after op 2 (`add`, {}, on the stream that joined \
             at {2}), broken by op 3 (`fixed`, {}, on the stream that joined at {2}): correct the \
             call, and capture again",
            at(line + 3),
            at(line + 4),
            at(line + 2)
        )
    );
    assert_eq!(error.first_failure().unwrap().operation().stream(), Some(side.clone()));
    drop(capture);
    setup.assert_usable(&main);
    setup.assert_usable(&side);
}

fn an_operation_of_another_thread_is_named(setup: &Setup) {
    let (stream, mut word, fixed) = (setup.stream(), word(setup), fixed(setup));
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    let line = line!();
    let other = || launch_wrongly(&fixed, &stream);
    let there = capture_error(thread::scope(|scope| scope.spawn(other).join().unwrap()));
    let here = capture_error(setup.add(&mut word, 1, &stream));
    let broken = format!("broken by op 1 (`fixed`, {})", at(line + 1));
    assert_eq!(
        there.to_string(),
        format!(
            "the capture failed: an argument is null, out of range or not valid here \
             (CUDA_ERROR_INVALID_VALUE, 1); valid after op 0, of another thread, {broken}: correct \
             the call, and capture again"
        )
    );
    assert_eq!(
        here.to_string(),
        format!(
            "{INVALIDATED}; valid after op 0 (`add`, {}), {broken}, which the driver answered with \
             \"an argument is null, out of range or not valid here (CUDA_ERROR_INVALID_VALUE, \
             1)\": correct the call, and capture again",
            at(line - 1)
        )
    );
    drop(capture);
    setup.assert_usable(&stream);
}

fn only_the_streams_that_are_not_joined_back_are_named(setup: &Setup) {
    let (main, [joined, first, second]) = (setup.stream(), [(); 3].map(|()| setup.stream()));
    let mut words = [(); 4].map(|()| word(setup));
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    setup.add(&mut words[0], 1, &main).unwrap();
    fork.record(&main).unwrap();
    let line = line!();
    fork.wait(&joined).unwrap();
    fork.wait(&first).unwrap();
    fork.wait(&second).unwrap();
    setup.add(&mut words[1], 1, &joined).unwrap();
    setup.add(&mut words[2], 1, &first).unwrap();
    words[3].fill(1, &second).unwrap();
    join.record(&joined).unwrap();
    join.wait(&main).unwrap();
    let error = capture_error(capture.end());
    assert_eq!(
        error.to_string(),
        format!(
            "{UNJOINED}; valid after op 9 (event wait, {}), but the stream that joined at {} was \
             not joined back after op 6 (`add`, {}), and the stream that joined at {} was not \
             joined back after op 7 (fill of 4 bytes, {}): record an event on each and wait for \
             them on the stream that began the capture",
            at(line + 8),
            at(line + 2),
            at(line + 5),
            at(line + 3),
            at(line + 6)
        )
    );
    let forks: Vec<_> = error.forks().iter().map(|f| (f.stream(), f.is_joined())).collect();
    assert_eq!(forks, [(&joined, true), (&first, false), (&second, false)]);
    for stream in [&main, &joined, &first, &second] {
        setup.assert_usable(stream);
    }
}

/// One fork is joined by another one, which is not.
fn a_join_by_way_of_another_fork_counts(setup: &Setup) {
    let (main, [near, far]) = (setup.stream(), [(); 2].map(|()| setup.stream()));
    let mut words = [(); 2].map(|()| word(setup));
    let event = || Event::new(&setup.context).unwrap();
    let (fork, far_fork, far_join, near_join) = (event(), event(), event(), event());
    let record = |words: &mut [DeviceBuffer<u32>; 2], join: bool| {
        main.capture(CaptureMode::ThreadLocal, |_| {
            fork.record(&main)?;
            fork.wait(&near)?;
            far_fork.record(&near)?;
            far_fork.wait(&far)?;
            setup.add(&mut words[0], 1, &far)?;
            far_join.record(&far)?;
            far_join.wait(&near)?;
            setup.add(&mut words[1], 1, &near)?;
            near_join.record(&near)?;
            if join { near_join.wait(&main) } else { Ok(()) }
        })
    };
    let error = capture_error(record(&mut words, false));
    let unjoined = |fork: &grapture::Fork| fork.unjoined().map(|last| last.index());
    assert_eq!(error.forks().iter().map(unjoined).collect::<Vec<_>>(), [Some(7), Some(4)]);
    assert_eq!(record(&mut words, true).unwrap().node_count().unwrap(), 2);
}

fn work_after_the_join_is_not_joined(setup: &Setup) {
    let (main, side, mut word) = (setup.stream(), setup.stream(), word(setup));
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let line = line!();
    fork.record(&main).unwrap();
    fork.wait(&side).unwrap();
    setup.add(&mut word, 1, &side).unwrap();
    join.record(&side).unwrap();
    join.wait(&main).unwrap();
    setup.mul_add(&mut word, 1, 1, &side).unwrap();
    let error = capture_error(capture.end());
    assert_eq!(
        error.to_string(),
        format!(
            "{UNJOINED}; valid after op 5 (`mul_add`, {0}, on the stream that joined at {1}), but \
             the stream that joined at {1} was not joined back after op 5 (`mul_add`, {0}): record \
             an event on it and wait for that on the stream that began the capture",
            at(line + 6),
            at(line + 2)
        )
    );
    setup.assert_usable(&main);
    setup.assert_usable(&side);
}

/// A capture that is not relaxed is over when another thread ends it, with an error there.
fn a_capture_that_other_hands_ended_says_so(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), word(setup));
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let line = line!();
    setup.add(&mut word, 1, &stream).unwrap();
    let end = || {
        let mut raw = std::ptr::null_mut();
        let end = setup.driver.as_raw().functions().cuStreamEndCapture;
        // SAFETY: a live stream, and a live out-pointer.
        unsafe { end(stream.as_raw(), &mut raw) }
    };
    assert_eq!(thread::scope(|scope| scope.spawn(end).join().unwrap()).0, 908);
    let error = capture_error(capture.end());
    assert_eq!(
        error.to_string(),
        format!(
            "the capture failed: the object is not in the state that the call needs \
             (CUDA_ERROR_ILLEGAL_STATE, 401); valid after op 0 (`add`, {}), but when it was to be \
             ended the stream was not in this capture any more: who has the raw handle has ended \
             it, and must leave that to this library",
            at(line + 1)
        )
    );
    setup.assert_usable(&stream);
}

fn each_kind_of_operation_has_its_name(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, other) = (word(setup), word(setup));
    let (mut pinned, event) = (setup.pinned_word(), Event::new(&setup.context).unwrap());
    let region = grapture::Region2d::new(1, 1);
    let say = |what: &str, kind: OperationKind, record: &mut dyn FnMut() -> CudaResult<()>| {
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        record().unwrap();
        query_raw(setup, &stream);
        let error = capture_error(capture.end());
        let last = error.last_operation().unwrap();
        assert_eq!(last.kind(), kind);
        assert_eq!(
            last.to_string(),
            format!("op 0 ({what}, {})", at(last.location().line())),
            "{error}"
        );
        last.site().direction()
    };
    say("`add`", OperationKind::Kernel, &mut || setup.add(&mut word, 1, &stream));
    say("fill of 4 bytes", OperationKind::Fill, &mut || word.fill(1, &stream));
    say("fill of 4 bytes", OperationKind::Fill, &mut || word.fill_2d(1, region, &stream));
    let direction = say("copy of 4 bytes on the device", OperationKind::Copy, &mut || {
        word.copy_from(&other, &stream)
    });
    assert_eq!(direction, Some(CopyDirection::DeviceToDevice));
    say("copy of 4 bytes from the host", OperationKind::Copy, &mut || {
        word.copy_from_host_staged(&[1], &stream)
    });
    say("copy of 4 bytes to the host", OperationKind::Copy, &mut || {
        word.copy_to_pinned(&mut pinned, &stream)
    });
    say("host function", OperationKind::HostFunction, &mut || stream.host_function(|| {}));
    say("event record", OperationKind::EventRecord, &mut || event.record(&stream));
    say("external event record", OperationKind::EventRecordExternal, &mut || {
        event.record_external(&stream)
    });
    let event = Event::new(&setup.context).unwrap();
    say("external event wait", OperationKind::EventWaitExternal, &mut || {
        event.wait_external(&stream)
    });
}
