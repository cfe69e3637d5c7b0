//! First causes that need a driver that fails on demand.

mod common;

use std::thread;

use common::Setup;
use grapture::sys::{
    CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_UNKNOWN, Function,
};
use grapture::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureError, CaptureMode,
    CaptureStatus, CudaError, CudaResult, DeviceBuffer, Driver, Event, Stream, StreamGraphCapture,
};
use grapture_sim::{SimConfig, Simulation};

fn simulation() -> (Simulation, Setup) {
    let sim = Simulation::new(SimConfig::new());
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

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

fn query_raw(setup: &Setup, stream: &Stream) {
    // SAFETY: a live stream.
    let code = unsafe { (setup.driver.as_raw().functions().cuStreamQuery)(stream.as_raw()) };
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/// Everything is released, and nothing is left of it in the driver.
fn assert_clean(sim: &Simulation, setup: Setup) {
    let driver = setup.driver.clone();
    drop(setup);
    driver.reclaim();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !sim.live().is_clean() {
        assert!(std::time::Instant::now() < limit, "left over: {}", sim.leaks());
        driver.reclaim();
        thread::yield_now();
    }
}

/// An operation that fails and leaves the capture valid is no cause of what comes later.
#[test]
fn sim_an_operation_that_fails_and_breaks_nothing_is_no_cause() {
    let (sim, setup) = simulation();
    let stream = setup.stream();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    sim.fail(Function::cuMemsetD32Async, 1, CUDA_ERROR_UNKNOWN);
    assert_eq!(word.fill(1, &stream), Err(CudaError::UnknownError));
    assert!(capture.is_active());
    setup.add(&mut word, 1, &stream).unwrap();
    query_raw(&setup, &stream);
    let error = capture_error(capture.end());
    assert!(error.first_failure().is_none(), "{error}");
    assert_eq!((error.recorded(), error.last_operation().unwrap().index()), (1, 0));
    // One that is captured well although another failed gives a graph.
    let graph = stream.capture(CaptureMode::Global, |_| {
        sim.fail(Function::cuMemsetD32Async, 1, CUDA_ERROR_UNKNOWN);
        assert!(word.fill(1, &stream).is_err());
        setup.add(&mut word, 1, &stream)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 1);
    drop((word, stream));
    assert_clean(&sim, setup);
}

/// A driver that cannot tell how the capture is leaves the operation suspected.
#[test]
fn sim_an_operation_after_which_nothing_is_known_is_suspected() {
    let (sim, setup) = simulation();
    let stream = setup.stream();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    sim.fail(Function::cuMemsetD32Async, 1, CUDA_ERROR_UNKNOWN);
    sim.fail(Function::cuStreamIsCapturing, 1, CUDA_ERROR_UNKNOWN);
    let error = capture_error(word.fill(1, &stream));
    let failure = error.first_failure().unwrap();
    assert_eq!((failure.code(), failure.after()), (CUDA_ERROR_UNKNOWN.0, None));
    assert_eq!(failure.before(), CaptureStatus::Active);
    drop(capture);
    setup.assert_usable(&stream);
    drop((word, stream));
    assert_clean(&sim, setup);
}

/// A join that fails leaves the stream outside, and the capture as it was.
#[test]
fn sim_a_join_that_fails_is_no_cause() {
    let (sim, setup) = simulation();
    let (main, side) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    event.record(&main).unwrap();
    sim.fail(Function::cuStreamWaitEvent, 1, CUDA_ERROR_UNKNOWN);
    assert_eq!(event.wait(&side), Err(CudaError::UnknownError));
    assert!(!side.is_capturing());
    event.wait(&side).unwrap();
    assert!(side.is_capturing());
    capture.end().unwrap();
    setup.context.synchronize().unwrap();
    setup.assert_usable(&side);
    drop((main, side, event));
    assert_clean(&sim, setup);
}

/// A call that slipped in beside the beginning of a capture is named as what broke it.
#[test]
fn sim_a_call_that_a_capture_barred_is_named() {
    let (sim, setup) = simulation();
    let (stream, other) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    event.record(&other).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let slip = || {
        sim.fail(Function::cuEventSynchronize, 1, CUDA_ERROR_CAPTURED_EVENT);
        event.synchronize()
    };
    // Before the capture it has nothing to do with it.
    assert_eq!(slip(), Err(CudaError::CapturedEvent));
    for on_another_thread in [false, true] {
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        let line = line!();
        setup.add(&mut word, 1, &stream).unwrap();
        let wait = || {
            sim.fail(Function::cuEventSynchronize, 1, CUDA_ERROR_CAPTURED_EVENT);
            event.synchronize().unwrap_err();
        };
        if on_another_thread {
            thread::scope(|scope| scope.spawn(wait).join().unwrap());
        } else {
            wait();
        }
        query_raw(&setup, &stream);
        let error = capture_error(word.fill(1, &stream));
        assert_eq!(
            error.to_string(),
            format!(
                "the capture failed: the capture was invalidated by an earlier error \
                 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901); valid after op 0 (`add`, {}), \
                 broken before op 1 (fill of 4 bytes, {}) by `Event::synchronize` ({}){}, which \
                 the driver answered with \"the event was last recorded in a capture \
                 (CUDA_ERROR_CAPTURED_EVENT, 907)\": record the event outside of the capture, or \
                 in it with `Event::record_external`",
                at(line + 1),
                at(line + 12),
                at(line + 4),
                if on_another_thread { " on another thread" } else { "" },
            )
        );
        let call = error.barred_call().unwrap();
        assert_eq!((call.function(), call.code()), ("Event::synchronize", 907));
        assert_eq!(call.thread() == thread::current().id(), !on_another_thread);
        drop(capture);
    }
    // Nor has it to do with the next capture.
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    query_raw(&setup, &stream);
    assert!(capture_error(capture.end()).barred_call().is_none());
}

/// The driver is not asked for what the library knows, and asked only where the library must.
#[test]
fn sim_a_refusal_is_no_driver_call() {
    let (sim, setup) = simulation();
    let (stream, other) = (setup.stream(), setup.stream());
    let blocking =
        Stream::with_options(&setup.context, grapture::StreamOptions::new().blocking(true))
            .unwrap();
    let legacy = Stream::legacy(&setup.context);
    let (inside, outside) =
        (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    outside.record(&other).unwrap();
    let exec = other.capture(CaptureMode::Global, |_| Ok(())).unwrap().instantiate().unwrap();
    let mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let captures = [&stream, &blocking].map(|stream| StreamGraphCapture::begin(stream, mode));
    inside.record(&stream).unwrap();
    let calls = sim.total_calls();
    stream.synchronize().unwrap_err();
    stream.is_idle().unwrap_err();
    setup.context.synchronize().unwrap_err();
    inside.is_complete().unwrap_err();
    inside.synchronize().unwrap_err();
    inside.wait(&blocking).unwrap_err();
    outside.wait(&stream).unwrap_err();
    exec.launch(&stream).unwrap_err();
    stream.capture(CaptureMode::Global, |_| Ok(())).unwrap_err();
    stream.capture_or_run(CaptureMode::Global, |_| Ok(())).unwrap_err();
    assert_eq!(sim.total_calls(), calls);
    // The context is made current, and no more.
    legacy.synchronize().unwrap_err();
    assert_eq!(sim.calls(Function::cuStreamSynchronize), 0, "{}", sim.total_calls() - calls);
    for capture in captures {
        capture.unwrap().end().unwrap();
    }
}

/// Work that is captured or run: whichever driver call of the capture fails, the work is done.
#[test]
fn sim_work_runs_whatever_call_of_its_capture_fails() {
    let (sim, setup) = simulation();
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut run = || {
        stream
            .capture_or_run(CaptureMode::Global, |attempt| word.fill(7, attempt.stream()))
            .unwrap()
    };
    let before = sim.total_calls();
    assert!(run().is_captured());
    let calls = sim.total_calls() - before;
    assert!(calls >= 4);
    let mut ran = 0;
    for nth in 1..=calls {
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
        let outcome = run();
        sim.clear_failures();
        ran += usize::from(!outcome.is_captured());
        drop(outcome);
        assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None, "call {nth}");
        setup.context.synchronize().unwrap();
    }
    assert!(ran >= 3, "{ran} of {calls}");
    assert_eq!(word.to_vec(&stream).unwrap(), [7]);
    drop((word, stream));
    assert_clean(&sim, setup);
}
