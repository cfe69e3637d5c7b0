//! Forks of a stream, in captures and outside, and captures that are left unjoined.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::gate::Gate;
use crate::common::words::word;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CaptureOptions, CaptureStatus, Context, CudaError, CudaResult, Driver, Event,
    Graph, JoinPolicy, Stream,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers! {
    branches_become_part_of_the_graph,
    any_number_of_streams_is_forked,
    forks_nest,
    outside_a_capture_the_order_is_the_same,
    an_error_in_the_body_joins_the_streams,
    a_panic_in_the_body_joins_the_streams,
    a_stream_of_another_capture_is_refused_and_the_others_are_joined,
    a_body_that_ends_the_capture_leaves_all_streams_usable,
    a_stream_that_is_not_joined_is_named,
    leaves_are_joined_on_demand,
    default_streams_are_forked_and_joined,
    other_threads_work_on_the_sides,
    a_fork_without_work_adds_nothing,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

#[track_caller]
fn run(graph: Graph, stream: &Stream) {
    graph.instantiate().unwrap().launch(stream).unwrap();
    stream.synchronize().unwrap();
}

/// How many nodes and edges there are.
fn size(graph: &Graph) -> (usize, usize) {
    (graph.node_count().unwrap(), graph.edges().unwrap().len())
}

fn branches_become_part_of_the_graph(setup: &Setup) {
    for mode in MODES {
        let [stream, left, right] = [(); 3].map(|()| setup.stream());
        let [mut first, mut a, mut b] = [(); 3].map(|()| word(setup));
        let graph = stream.capture(mode, |_| {
            setup.add(&mut first, 1, &stream)?;
            let value = stream.fork(&[&left, &right], || {
                a.copy_from(&first, &left)?;
                b.copy_from(&first, &right)?;
                setup.add(&mut b, 1, &right)?;
                Ok(7)
            })?;
            assert_eq!(value, 7);
            setup.add(&mut first, 10, &stream)?;
            first.copy_from(&b, &stream)
        });
        let graph = graph.unwrap();
        // The node behind the join waits for both branches.
        assert_eq!(size(&graph), (6, 7), "{mode:?}");
        run(graph, &stream);
        let words = [&first, &a, &b].map(|word| word.to_vec(&stream).unwrap()[0]);
        assert_eq!(words, [2, 1, 2], "{mode:?}");
        setup.assert_usable(&left);
    }
}

fn any_number_of_streams_is_forked(setup: &Setup) {
    let stream = setup.stream();
    let sides: Vec<Stream> = (0..20).map(|_| setup.stream()).collect();
    let mut words: Vec<_> = sides.iter().map(|_| word(setup)).collect();
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        stream.fork(&sides.iter().collect::<Vec<_>>(), || {
            let mut both = sides.iter().zip(&mut words);
            both.try_for_each(|(side, word)| setup.add(word, 3, side))
        })?;
        stream.fork(&[], || Ok(()))
    });
    let graph = graph.unwrap();
    assert_eq!(size(&graph), (20, 0));
    run(graph, &stream);
    for word in &words {
        assert_eq!(word.to_vec(&stream).unwrap(), [3]);
    }
}

fn forks_nest(setup: &Setup) {
    let [stream, outer, inner] = [(); 3].map(|()| setup.stream());
    let [mut a, mut b, mut c] = [(); 3].map(|()| word(setup));
    let graph = stream.capture(CaptureMode::Global, |_| {
        stream.fork(&[&outer, &stream], || {
            outer.fork(&[&inner], || {
                setup.add(&mut a, 1, &inner)?;
                setup.add(&mut b, 1, &outer)
            })?;
            // After both.
            setup.add(&mut a, 1, &outer)?;
            // The inner stream is forked again, from where the outer one is now.
            outer.fork(&[&inner], || setup.add(&mut a, 1, &inner))?;
            setup.add(&mut c, 1, &stream)
        })?;
        a.copy_from(&b, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(size(&graph), (6, 7));
    run(graph, &stream);
    let words = [&a, &b, &c].map(|word| word.to_vec(&stream).unwrap()[0]);
    assert_eq!(words, [1, 1, 1]);
}

fn outside_a_capture_the_order_is_the_same(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let mut value = word(setup);
    let gate = Gate::new();
    gate.hold(&stream);
    setup.add(&mut value, 1, &stream).unwrap();
    stream.fork(&[&side], || setup.mul_add(&mut value, 10, 2, &side)).unwrap();
    gate.wait_until_reached();
    assert!(!side.is_idle().unwrap(), "the side stream does not wait for the fork");
    setup.mul_add(&mut value, 10, 3, &stream).unwrap();
    gate.open();
    assert_eq!(value.to_vec(&stream).unwrap(), [123]);
}

fn an_error_in_the_body_joins_the_streams(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let mut value = word(setup);
    let graph = stream.capture(CaptureMode::Global, |capture| {
        let failed: CudaResult<()> = stream.fork(&[&side], || {
            setup.add(&mut value, 1, &side)?;
            Err(CudaError::NotReady)
        });
        assert_eq!(failed, Err(CudaError::NotReady));
        assert!(capture.is_active());
        setup.mul_add(&mut value, 10, 2, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(size(&graph), (2, 1));
    run(graph, &stream);
    assert_eq!(value.to_vec(&stream).unwrap(), [12]);
}

fn a_panic_in_the_body_joins_the_streams(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let mut value = word(setup);
    let graph = stream.capture(CaptureMode::Global, |_| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _: CudaResult<()> = stream.fork(&[&side], || {
                setup.add(&mut value, 1, &side).unwrap();
                panic!("in the body");
            });
        }));
        assert!(panicked.is_err());
        setup.mul_add(&mut value, 10, 2, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(size(&graph), (2, 1));
    run(graph, &stream);
    assert_eq!(value.to_vec(&stream).unwrap(), [12]);

    // A panic that nobody catches ends the capture too.
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = stream.capture(CaptureMode::Global, |_| {
            let _: CudaResult<()> = stream.fork(&[&side], || panic!("in the body"));
            Ok(())
        });
    }));
    assert!(panicked.is_err());
    for stream in [&stream, &side] {
        assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
        setup.assert_usable(stream);
    }
}

fn a_stream_of_another_capture_is_refused_and_the_others_are_joined(setup: &Setup) {
    let [stream, side, other] = [(); 3].map(|()| setup.stream());
    let mut value = word(setup);
    let inner = other.capture(CaptureMode::Relaxed, |there| {
        let graph = stream.capture(CaptureMode::Relaxed, |here| {
            let refused = stream.fork(&[&side, &other], || -> CudaResult<()> {
                panic!("it does not run");
            });
            let refused = refused.unwrap_err();
            assert!(matches!(refused, CudaError::Refused(_)), "{refused}");
            assert_eq!(refused.code(), 902);
            let legacy = Stream::legacy(&setup.context);
            assert!(stream.fork(&[&side, &legacy], || Ok(())).is_err());
            assert!(here.is_active());
            setup.add(&mut value, 1, &stream)
        });
        assert_eq!(size(&graph.unwrap()), (1, 0));
        assert!(there.is_active());
        Ok(())
    });
    inner.unwrap();
    // Not captured: a capture that is open elsewhere does not take the stream.
    other
        .capture(CaptureMode::Relaxed, |there| {
            assert!(stream.fork(&[&side, &other], || Ok(())).is_err());
            assert!(there.is_active());
            Ok(())
        })
        .unwrap();
    setup.assert_usable(&side);
}

fn a_body_that_ends_the_capture_leaves_all_streams_usable(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let capture =
        grapture::StreamGraphCapture::begin(&stream, grapture::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    let mut capture = Some(capture.unwrap());
    let mut value = word(setup);
    let ended = stream.fork(&[&side], || {
        setup.add(&mut value, 1, &side)?;
        let error = capture.take().unwrap().end_graph().unwrap_err();
        Ok(error.code())
    });
    assert_eq!(ended, Ok(904));
    // And a capture that begins in the body is not joined by a stream of before.
    let begun = stream.fork(&[&side], || {
        capture = Some(
            grapture::StreamGraphCapture::begin(&stream, grapture::CU_STREAM_CAPTURE_MODE_RELAXED)
                .unwrap(),
        );
        Ok(())
    });
    assert_eq!(begun.unwrap_err().code(), 905);
    assert!(capture.take().unwrap().end_graph().is_ok());
    for stream in [&stream, &side] {
        setup.assert_usable(stream);
    }
}

fn a_stream_that_is_not_joined_is_named(setup: &Setup) {
    let [stream, side, joined] = [(); 3].map(|()| setup.stream());
    let [mut a, mut b] = [(); 2].map(|()| word(setup));
    let line = std::sync::atomic::AtomicU32::new(0);
    let error = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            let event = Event::new(&setup.context)?;
            event.record(&stream)?;
            event.wait(&side)?;
            line.store(line!() - 1, std::sync::atomic::Ordering::SeqCst);
            setup.add(&mut a, 1, &side)?;
            stream.fork(&[&joined], || setup.add(&mut b, 1, &joined))
        })
        .unwrap_err();
    assert_eq!(error.code(), 904);
    let CudaError::Capture(failed) = &error else { panic!("{error}") };
    let line = line.into_inner();
    let fork = failed.forks().iter().find(|fork| *fork.stream() == side).unwrap();
    assert_eq!((fork.location().file(), fork.location().line()), (file!(), line));
    setup.assert_usable(&side);
}

fn leaves_are_joined_on_demand(setup: &Setup) {
    for mode in MODES {
        let [stream, side, deep] = [(); 3].map(|()| setup.stream());
        let [mut a, mut b, mut c] = [(); 3].map(|()| word(setup));
        let event = Event::new(&setup.context).unwrap();
        let joins = CaptureOptions::new(mode).join_policy(JoinPolicy::JoinLeaves);
        let graph = stream.capture_with(joins, |_| {
            event.record(&stream)?;
            event.wait(&side)?;
            setup.add(&mut a, 1, &side)?;
            event.record(&side)?;
            event.wait(&deep)?;
            setup.add(&mut b, 1, &deep)?;
            setup.add(&mut c, 1, &stream)
        });
        let graph = graph.unwrap();
        // No edge is made up.
        assert_eq!(size(&graph), (3, 1), "{mode:?}");
        run(graph, &stream);
        for word in [&a, &b, &c] {
            assert_eq!(word.to_vec(&stream).unwrap(), [1], "{mode:?}");
        }
        setup.assert_usable(&deep);
    }
}

fn default_streams_are_forked_and_joined(setup: &Setup) {
    let stream = setup.stream();
    let default = Stream::per_thread(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| word(setup));
    let joins = CaptureOptions::new(CaptureMode::ThreadLocal).join_policy(JoinPolicy::JoinLeaves);
    let graph = stream.capture_with(joins, |_| {
        stream.fork(&[&default], || setup.add(&mut a, 1, &default))?;
        // The default stream begins a fork too.
        default.fork(&[&stream], || setup.add(&mut b, 1, &stream))?;
        setup.add(&mut b, 1, &default)
    });
    run(graph.unwrap(), &stream);
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![1], vec![2]));
    setup.assert_usable(&default);
}

fn other_threads_work_on_the_sides(setup: &Setup) {
    for mode in MODES {
        let [stream, left, right] = [(); 3].map(|()| setup.stream());
        let [mut a, mut b] = [(); 2].map(|()| word(setup));
        let graph = stream.capture(mode, |_| {
            stream.fork(&[&left, &right], || {
                std::thread::scope(|scope| {
                    let left =
                        scope.spawn(|| (0..50).try_for_each(|_| setup.add(&mut a, 1, &left)));
                    let right =
                        scope.spawn(|| (0..50).try_for_each(|_| setup.add(&mut b, 1, &right)));
                    left.join().unwrap().and(right.join().unwrap())
                })
            })
        });
        let graph = graph.unwrap();
        assert_eq!(size(&graph), (100, 98), "{mode:?}");
        run(graph, &stream);
        assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![50], vec![50]));
    }
}

fn a_fork_without_work_adds_nothing(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let mut value = word(setup);
    let graph = stream.capture(CaptureMode::Global, |_| {
        stream.fork(&[&side], || Ok(()))?;
        setup.add(&mut value, 1, &stream)?;
        stream.fork(&[&side], || Ok(()))?;
        setup.add(&mut value, 1, &stream)
    });
    assert_eq!(size(&graph.unwrap()), (2, 1));
}

/// Each driver call of a fork fails, and each call of the join.
#[test]
fn sim_a_failure_leaves_every_stream_usable() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let [stream, left, right] = [(); 3].map(|()| setup.stream());
    let [mut a, mut b] = [(); 2].map(|()| word(&setup));
    let functions = [Function::cuEventCreate, Function::cuEventRecord, Function::cuStreamWaitEvent];
    for (function, nth, captured) in functions.into_iter().flat_map(|function| {
        (1..=4).flat_map(move |nth| [(function, nth, true), (function, nth, false)])
    }) {
        let before = sim.live().to_string();
        sim.fail(function, nth, CUDA_ERROR_UNKNOWN);
        let mut fork = || {
            stream.fork(&[&left, &right], || {
                setup.add(&mut a, 1, &left)?;
                setup.add(&mut b, 1, &right)
            })
        };
        let result = match captured {
            true => stream.capture(CaptureMode::Global, |_| fork()).map(drop),
            false => fork(),
        };
        sim.clear_failures();
        // Each side is waited for, and waits, and has an event; one more marks the fork.
        let calls = if function == Function::cuStreamWaitEvent { 4 } else { 3 };
        assert_eq!(result.is_err(), nth <= calls, "{function:?} {nth} {captured} {result:?}");
        for stream in [&stream, &left, &right] {
            assert!(!stream.is_capturing());
            stream.synchronize().unwrap();
            setup.assert_usable(stream);
        }
        setup.wait_until(|| sim.live().to_string() == before);
    }
}

/// The streams of a fork are of two devices.
#[test]
fn sim_a_fork_reaches_other_devices() {
    let driver = Driver::from(grapture_sim::driver(SimConfig::default().devices(2)));
    let setups = [0, 1].map(|ordinal| {
        let context = Context::new(&driver.device(ordinal).unwrap()).unwrap();
        let module = context.load_ptx(crate::common::KERNELS).unwrap();
        Setup { driver: driver.clone(), context, module }
    });
    let [here, there] = &setups;
    let (stream, side) = (here.stream(), there.stream());
    let (mut a, mut b) = (word(here), word(there));
    for captured in [true, false] {
        let mut work = || {
            here.add(&mut a, 1, &stream)?;
            stream.fork(&[&side], || there.add(&mut b, 1, &side))?;
            here.add(&mut a, 1, &stream)
        };
        if captured {
            let graph = stream.capture(CaptureMode::Global, |_| work()).unwrap();
            assert_eq!(size(&graph), (3, 3));
            let exec = graph.instantiate().unwrap();
            exec.launch(&stream).unwrap();
            exec.launch(&stream).unwrap();
        } else {
            work().unwrap();
        }
        stream.synchronize().unwrap();
        side.synchronize().unwrap();
    }
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&side).unwrap()), (vec![6], vec![3]));
    for (setup, stream) in [(here, &stream), (there, &side)] {
        setup.assert_usable(stream);
    }
}
