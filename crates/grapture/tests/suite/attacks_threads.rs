//! Safe programs that try to bring threads, and several handles of one thing, between a capture and
//! what it records.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, Context, CudaError, DeviceBuffer, Driver, Event,
    PinnedBuffer, Stream, StreamGraphCapture,
};

checked_tiers! {
    two_drivers_of_one_library_share_their_captures,
    threads_start_with_the_driver_at_once,
    two_threads_capture_at_once,
    an_executable_in_a_lock_is_launched_by_many_threads,
    a_watchdog_may_query_events_during_a_capture,
    other_threads_may_make_handles_during_a_capture,
    a_lock_is_held_over_a_launch_that_wants_it,
    graphs_are_dropped_on_another_thread_while_they_run,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn upload(setup: &Setup, elements: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

/// The default stream of a thread is one, by whichever driver it was reached.
fn two_drivers_of_one_library_share_their_captures(setup: &Setup) {
    let again = Setup::on(Driver::from(setup.driver.as_raw().clone()));
    let (one, two) = (Stream::per_thread(&setup.context), Stream::per_thread(&again.context));
    let runs = Arc::new(AtomicUsize::new(0));
    let graph = one.capture(CaptureMode::Relaxed, |_| {
        assert!(two.is_capturing());
        assert!(matches!(two.synchronize(), Err(CudaError::Refused(_))));
        assert!(matches!(again.context.synchronize(), Err(CudaError::Refused(_))));
        let mut word = upload(&again, &[1]);
        again.add(&mut word, 1, &two)?;
        let count = runs.clone();
        two.host_function(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 2);
    let squatters: Vec<_> = (0..64).map(|_| upload(setup, &[7])).collect();
    let exec = graph.instantiate().unwrap();
    for _ in 0..3 {
        exec.launch(&one).unwrap();
    }
    two.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    for squatter in &squatters {
        assert_eq!(squatter.to_vec(&one).unwrap(), [7]);
    }
}

fn threads_start_with_the_driver_at_once(setup: &Setup) {
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let driver = Driver::from(setup.driver.as_raw().clone());
                let own = Setup::on(driver);
                own.assert_usable(&own.stream());
            });
        }
    });
}

fn two_threads_capture_at_once(setup: &Setup) {
    for mode in MODES {
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for value in [1, 2] {
                let both = &both;
                scope.spawn(move || {
                    let stream = setup.stream();
                    let mut word = upload(setup, &[10]);
                    both.wait();
                    let graph = stream.capture(mode, |_| {
                        both.wait();
                        (0..50).try_for_each(|_| setup.add(&mut word, value, &stream))?;
                        both.wait();
                        Ok(())
                    });
                    let graph = graph.unwrap();
                    assert_eq!(graph.node_count().unwrap(), 50, "{mode:?}");
                    graph.instantiate().unwrap().launch(&stream).unwrap();
                    assert_eq!(word.to_vec(&stream).unwrap(), [10 + 50 * value], "{mode:?}");
                });
            }
        });
    }
}

fn an_executable_in_a_lock_is_launched_by_many_threads(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[0]);
    let graph = stream.capture(CaptureMode::Global, |_| setup.add(&mut word, 1, &stream)).unwrap();
    let exec = Mutex::new(graph.instantiate().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = setup.stream();
                for _ in 0..25 {
                    exec.lock().unwrap().launch(&own).unwrap();
                }
                own.synchronize().unwrap();
            });
        }
    });
    // Launches of one executable never overlap, so none of these is lost.
    assert_eq!(word.to_vec(&stream).unwrap(), [100]);
}

fn a_watchdog_may_query_events_during_a_capture(setup: &Setup) {
    for mode in MODES {
        let (stream, busy) = (setup.stream(), setup.stream());
        let event = Event::new(&setup.context).unwrap();
        event.record(&busy).unwrap();
        busy.synchronize().unwrap();
        let mut word = upload(setup, &[1]);
        let graph = stream.capture(mode, |capture| {
            std::thread::scope(|scope| {
                let watch = || {
                    assert!(event.is_complete().unwrap());
                    event.synchronize().unwrap();
                    assert!(busy.is_idle().unwrap());
                    busy.synchronize().unwrap();
                };
                scope.spawn(watch).join().unwrap();
            });
            assert!(event.is_complete()?, "on the thread that captures");
            assert!(capture.is_active(), "{mode:?}");
            setup.add(&mut word, 1, &stream)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 1, "{mode:?}");
    }
}

/// Everything that can be made or asked, while a capture bars such calls.
fn make_all(setup: &Setup) {
    let context = Context::new(setup.context.device()).unwrap();
    let (stream, other) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    let module = context.load_ptx(crate::common::KERNELS).unwrap();
    let kernel = module.kernel("shared_sum").unwrap();
    kernel.suggested_block_size(0).unwrap();
    kernel.max_active_blocks(32, 0).unwrap();
    module.global("counter").unwrap();
    context.memory_info().unwrap();
    context.stream_priorities().unwrap();
    stream.priority().unwrap();
    let event = Event::new(&context).unwrap();
    event.record(&stream).unwrap();
    event.wait(&other).unwrap();
    drop(PinnedBuffer::<u32>::zeroed(&context, 1).unwrap());
    let mut sum = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let launch = |sum: &mut DeviceBuffer<u32>| {
        let launch = kernel.launch_builder(1, 32).shared_bytes(128).arg_mut(sum);
        // SAFETY: `shared_sum` takes the address of a word for each block.
        unsafe { launch.launch(&stream) }
    };
    launch(&mut sum).unwrap();
    assert_eq!(sum.to_vec(&stream).unwrap(), [496]);
    // The thread that captures with a mode that is not relaxed may have a second capture too.
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| launch(&mut sum)).unwrap();
    assert_eq!(graph.topology().unwrap().nodes().len(), 1);
    let exec = graph.instantiate().unwrap();
    exec.upload(&stream).unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn other_threads_may_make_handles_during_a_capture(setup: &Setup) {
    for mode in MODES {
        for own_thread in [true, false] {
            let stream = setup.stream();
            let mut word = upload(setup, &[1]);
            let graph = stream.capture(mode, |capture| {
                if own_thread {
                    make_all(setup);
                } else {
                    std::thread::scope(|scope| scope.spawn(|| make_all(setup)).join().unwrap());
                }
                assert!(capture.is_active(), "{mode:?}, own thread: {own_thread}");
                setup.add(&mut word, 1, &stream)
            });
            assert_eq!(graph.unwrap().node_count().unwrap(), 1, "{mode:?}");
        }
    }
}

/// No lock of the library is held where a host function runs, and no launch waits for one.
fn a_lock_is_held_over_a_launch_that_wants_it(setup: &Setup) {
    let stream = setup.stream();
    let count = Arc::new(Mutex::new(0));
    let (wants, probe) = (count.clone(), stream.clone());
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        stream.host_function(move || {
            *wants.lock().unwrap() += 1;
            assert!(!probe.is_capturing());
            drop(probe.clone());
        })
    });
    let exec = graph.unwrap().instantiate().unwrap();
    for _ in 0..5 {
        let held = count.lock().unwrap();
        exec.launch(&stream).unwrap();
        drop(held);
    }
    stream.synchronize().unwrap();
    assert_eq!(*count.lock().unwrap(), 5);
}

fn graphs_are_dropped_on_another_thread_while_they_run(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[0]);
    let (send, receive) = std::sync::mpsc::channel();
    let dropper = std::thread::spawn(move || receive.into_iter().for_each(drop));
    for _ in 0..50 {
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        setup.add(&mut word, 1, &stream).unwrap();
        let exec = capture.end().unwrap();
        exec.launch(&stream).unwrap();
        send.send(exec).unwrap();
    }
    drop(send);
    dropper.join().unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [50]);
}
