//! Safe programs that try to have the driver touch what is gone, to run something twice, or to
//! wedge a stream, a thread or the library.

use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::counted::{Token, counter};
use crate::common::gate::Gate;
use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CaptureStatus, CudaError, DeviceBuffer, Driver, Event, Stream, StreamGraphCapture,
};

both_tiers! {
    handles_of_one_default_stream_share_its_capture,
    the_default_stream_of_another_thread_does_not_capture,
    a_fork_to_a_default_stream_is_left_at_the_end,
    nothing_is_recorded_unseen_while_captures_begin_and_end,
    an_event_is_recorded_where_it_is_said_to_be,
    an_external_record_leaves_the_mark_of_the_capture,
    an_external_record_after_a_capture_can_be_waited_for,
    an_event_of_an_ended_capture_is_no_point_to_wait_for,
    the_legacy_stream_joins_no_capture,
    a_released_value_may_ask_for_the_release_of_others,
    a_retained_value_that_panics_is_contained,
    a_panic_of_a_host_function_is_let_go_of_elsewhere,
    a_handle_is_dropped_in_a_host_function,
    a_capture_ends_with_its_thread,
}

fn count(counter: &Arc<AtomicUsize>) -> impl Fn() + Send + Sync + 'static {
    let counter = counter.clone();
    move || {
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until the other thread is done, for 10 seconds at most.
#[track_caller]
fn within_limit<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    wait.recv_timeout(Duration::from_secs(10)).expect("it hangs")
}

fn handles_of_one_default_stream_share_its_capture(setup: &Setup) {
    let (one, two) = (Stream::per_thread(&setup.context), Stream::per_thread(&setup.context));
    let (runs, dropped) = (counter(), counter());
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let graph = one
        .capture(CaptureMode::Relaxed, |_| {
            assert!(two.is_capturing());
            let (token, run) = (Token(dropped.clone()), count(&runs));
            two.host_function(move || {
                let _ = &token;
                run();
            })?;
            setup.add(&mut word, 1, &two)
        })
        .unwrap();
    assert_eq!(graph.node_count().unwrap(), 2);
    assert!(!two.is_capturing());
    drop(word);
    // Memory that would take the place of what was freed too early.
    let reused: Vec<_> =
        (0..64).map(|_| DeviceBuffer::from_slice(&setup.context, &[7u32]).unwrap()).collect();
    let exec = graph.instantiate().unwrap();
    drop(graph);
    exec.launch(&one).unwrap();
    exec.launch(&two).unwrap();
    one.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    for buffer in &reused {
        assert_eq!(buffer.to_vec(&one).unwrap(), [7]);
    }
    drop(exec);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
}

fn the_default_stream_of_another_thread_does_not_capture(setup: &Setup) {
    let stream = Stream::per_thread(&setup.context);
    let runs = counter();
    let graph = stream
        .capture(CaptureMode::Relaxed, |_| {
            std::thread::scope(|scope| {
                let work = || {
                    assert!(!stream.is_capturing());
                    stream.host_function(count(&runs))?;
                    stream.synchronize()
                };
                scope.spawn(work).join().unwrap()
            })
        })
        .unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(graph.node_count().unwrap(), 0);
}

fn a_fork_to_a_default_stream_is_left_at_the_end(setup: &Setup) {
    let main = setup.stream();
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let side = Stream::per_thread(&setup.context);
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let graph = main
        .capture(CaptureMode::Relaxed, |_| {
            fork.record(&main)?;
            fork.wait(&side)?;
            setup.add(&mut word, 1, &Stream::per_thread(&setup.context))?;
            join.record(&side)?;
            join.wait(&main)
        })
        .unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
    assert!(!side.is_capturing());
    setup.assert_usable(&side);
}

/// Each operation runs once, or stands in a graph, and what it owns is dropped once.
fn nothing_is_recorded_unseen_while_captures_begin_and_end(setup: &Setup) {
    const EACH: usize = 2_000;
    let stream = setup.stream();
    let (runs, dropped, submitted) = (counter(), counter(), counter());
    let mut recorded = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let (token, run) = (Token(dropped.clone()), count(&runs));
                    let function = move || {
                        let _ = &token;
                        run();
                    };
                    stream.host_function(function).unwrap();
                    submitted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while submitted.load(Ordering::SeqCst) < 2 * EACH {
            let graph = stream
                .capture(CaptureMode::Relaxed, |_| {
                    std::thread::yield_now();
                    Ok(())
                })
                .unwrap();
            recorded += graph.node_count().unwrap();
            let exec = graph.instantiate().unwrap();
            drop(graph);
            exec.launch(&stream).unwrap();
            exec.launch(&stream).unwrap();
        }
    });
    stream.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2 * EACH + recorded);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 2 * EACH);
}

fn an_event_is_recorded_where_it_is_said_to_be(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let (runs, submitted) = (counter(), counter());
    let over = AtomicBool::new(false);
    let mut recorded = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                match event.record(&stream) {
                    Ok(()) => {}
                    Err(error) => panic!("{error}"),
                }
                // It joins, or waits, or is told that the capture has ended.
                if let Err(error) = event.wait(&side) {
                    assert!(matches!(error, CudaError::Refused(_)), "{error}");
                }
                side.host_function(count(&runs)).unwrap();
                submitted.fetch_add(1, Ordering::SeqCst);
            }
        });
        for _ in 0..300 {
            match stream.capture(CaptureMode::Relaxed, |_| {
                std::thread::yield_now();
                Ok(())
            }) {
                Ok(graph) => recorded += graph.node_count().unwrap(),
                // The side stream joined, and nobody joined it back.
                Err(error) => assert_eq!(error.code(), 904, "{error}"),
            }
        }
        over.store(true, Ordering::SeqCst);
    });
    for stream in [&stream, &side] {
        assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
        stream.synchronize().unwrap();
    }
    assert_eq!(recorded, 0);
    assert!(runs.load(Ordering::SeqCst) <= submitted.load(Ordering::SeqCst));
    setup.assert_usable(&side);
}

fn an_external_record_leaves_the_mark_of_the_capture(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let runs = counter();
    let graph = main
        .capture(CaptureMode::Relaxed, |_| {
            fork.record(&main)?;
            fork.record_external(&main)?;
            fork.wait(&side)?;
            assert_eq!(side.capture_info()?.status(), CaptureStatus::Active);
            assert!(side.is_capturing());
            side.host_function(count(&runs))?;
            join.record(&side)?;
            join.wait(&main)
        })
        .unwrap();
    assert_eq!(graph.node_count().unwrap(), 2);
    let exec = graph.instantiate().unwrap();
    exec.launch(&main).unwrap();
    main.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

fn an_external_record_after_a_capture_can_be_waited_for(setup: &Setup) {
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    stream.capture(CaptureMode::Relaxed, |_| event.record(&stream)).unwrap();
    let exec = stream
        .capture(CaptureMode::Relaxed, |_| event.record_external(&stream))
        .unwrap()
        .instantiate()
        .unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    // SAFETY: a live event.
    let raw = unsafe { (setup.driver.as_raw().functions().cuEventSynchronize)(event.as_raw()) };
    assert_eq!(
        event.synchronize().map_err(|error| error.code()),
        match raw.0 {
            0 => Ok(()),
            code => Err(code),
        }
    );
}

fn an_event_of_an_ended_capture_is_no_point_to_wait_for(setup: &Setup) {
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |_| event.record(&stream)).unwrap();
    drop(graph);
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        let text = refusal(event.wait_external(&stream));
        assert!(text.contains("in a capture that has ended"), "{text}");
        assert!(capture.is_active());
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    event.record(&stream).unwrap();
    stream.capture(CaptureMode::Relaxed, |_| event.wait_external(&stream)).unwrap();
}

fn the_legacy_stream_joins_no_capture(setup: &Setup) {
    let (stream, legacy) = (setup.stream(), Stream::legacy(&setup.context));
    let event = Event::new(&setup.context).unwrap();
    stream
        .capture(CaptureMode::Relaxed, |capture| {
            event.record(&stream)?;
            let text = refusal(event.wait(&legacy));
            assert!(text.starts_with("stream: the legacy default stream cannot"), "{text}");
            assert!(capture.is_active());
            Ok(())
        })
        .unwrap();
    event.record(&stream).unwrap();
    event.wait(&legacy).unwrap();
}

/// The library has no lock that a release waits for. (A real driver may have one: a copy to
/// memory that is not page-locked blocks in the driver.)
#[test]
fn sim_a_release_does_not_wait_for_a_copy_of_another_thread() {
    let setup = Setup::simulated();
    let stream = setup.stream();
    let word = DeviceBuffer::from_slice(&setup.context, &[3u32]).unwrap();
    let ordered = DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| word.to_vec(&stream).unwrap());
        gate.wait_until_reached();
        std::thread::sleep(Duration::from_millis(20));
        drop(ordered);
        drop(DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap());
        assert!(!copy.is_finished());
        gate.open();
        assert_eq!(copy.join().unwrap(), [3]);
    });
}

/// Waits for the reclaimer in its `Drop`.
struct Reclaims(Driver, Token);

impl Drop for Reclaims {
    fn drop(&mut self) {
        self.0.reclaim();
        let _ = &self.1;
    }
}

fn a_released_value_may_ask_for_the_release_of_others(setup: &Setup) {
    let stream = setup.stream();
    let dropped = counter();
    let value = Reclaims(setup.driver.clone(), Token(dropped.clone()));
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        capture.retain(value);
        Ok(())
    });
    drop(graph);
    let driver = setup.driver.clone();
    within_limit(move || driver.reclaim());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

/// Panics in its `Drop`.
struct Panics(Arc<AtomicUsize>);

impl Drop for Panics {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("in a drop");
    }
}

fn a_retained_value_that_panics_is_contained(setup: &Setup) {
    let stream = setup.stream();
    let dropped = counter();
    for ending in 0..3 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _ = stream.capture(CaptureMode::Relaxed, |capture| {
                capture.retain(Panics(dropped.clone()));
                match ending {
                    0 => Ok(()),
                    1 => Err(CudaError::NotReady),
                    _ => panic!("in the closure"),
                }
            });
        }));
        assert_eq!(result.is_err(), ending == 2, "{ending}");
        setup.wait_until(|| dropped.load(Ordering::SeqCst) == ending + 1);
        setup.assert_usable(&stream);
    }
}

fn a_panic_of_a_host_function_is_let_go_of_elsewhere(setup: &Setup) {
    let stream = setup.stream();
    let dropped = counter();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let payload = dropped.clone();
    stream.host_function(move || panic_any(Panics(payload.clone()))).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
    let driver = setup.driver.clone();
    within_limit(move || driver.reclaim());
    setup.assert_usable(&stream);
}

fn a_handle_is_dropped_in_a_host_function(setup: &Setup) {
    let stream = setup.stream();
    let things = (
        DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap(),
        DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap(),
        setup.context.load_ptx(crate::common::KERNELS).unwrap(),
        Event::new(&setup.context).unwrap(),
        setup.stream(),
        setup.pinned_word(),
        std::sync::Mutex::new(
            stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap().instantiate().unwrap(),
        ),
    );
    let things = std::sync::Mutex::new(Some(things));
    let runs = counter();
    let run = count(&runs);
    stream
        .host_function(move || {
            let things = things.lock().unwrap().take();
            drop(things);
            run();
        })
        .unwrap();
    let waited = stream.clone();
    within_limit(move || waited.synchronize()).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    setup.assert_usable(&stream);
}

thread_local! {
    static LAST: RefCell<Option<StreamGraphCapture<'static>>> = const { RefCell::new(None) };
}

/// The guard is dropped after the thread's own code, among the values of the thread.
fn a_capture_ends_with_its_thread(setup: &Setup) {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let stream: &'static Stream = Box::leak(Box::new(setup.stream()));
        let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        std::thread::scope(|scope| {
            let work = || {
                let capture = StreamGraphCapture::begin(stream, mode.as_raw()).unwrap();
                setup.add(&mut word, 1, stream).unwrap();
                LAST.set(Some(capture));
            };
            scope.spawn(work).join().unwrap();
        });
        setup.wait_until(|| !stream.is_capturing());
        assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None, "{mode:?}");
        assert_eq!(word.to_vec(stream).unwrap(), [1]);
        setup.assert_usable(stream);
    }
}

/// The stream of a forgotten capture stays in it; nothing that it recorded is let go of.
#[test]
fn sim_a_forgotten_capture_leaks_and_no_more() {
    let sim = grapture_sim::Simulation::new(grapture_sim::SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let dropped = counter();
    let side = setup.stream();
    {
        let stream = setup.stream();
        let event = Event::new(&setup.context).unwrap();
        let mode = grapture::CU_STREAM_CAPTURE_MODE_RELAXED;
        let capture = grapture::StreamGraphCapture::begin(&stream, mode).unwrap();
        capture.retain(Token(dropped.clone()));
        event.record(&stream).unwrap();
        event.wait(&side).unwrap();
        mem::forget(capture);
    }
    side.host_function(|| {}).unwrap();
    assert!(refusal(side.synchronize()).contains("it is capturing"));
    setup.assert_usable(&setup.stream());
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
}

/// An event means nothing to another driver.
#[test]
fn sim_an_event_of_another_driver_is_refused() {
    let (one, two) = (Setup::simulated(), Setup::simulated());
    let (ours, theirs) = (one.stream(), two.stream());
    let options = grapture::EventOptions::new().timing(true);
    let [event, other] =
        [&one, &two].map(|setup| Event::with_options(&setup.context, options).unwrap());
    event.record(&ours).unwrap();
    other.record(&theirs).unwrap();
    assert!(refusal(event.wait(&theirs)).contains("another driver"));
    theirs
        .capture(CaptureMode::Relaxed, |capture| {
            assert!(refusal(event.wait(&theirs)).contains("another driver"));
            assert!(refusal(event.wait_external(&theirs)).contains("another driver"));
            assert!(capture.is_active());
            Ok(())
        })
        .unwrap();
    assert!(refusal(event.elapsed_since(&other)).contains("another context"));
}
