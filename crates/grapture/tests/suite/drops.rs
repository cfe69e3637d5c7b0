//! Handles that are dropped where CUDA's calls are barred: while captures are open, in every mode,
//! on the thread of the capture and on others, and in host functions (O9).

use std::any::Any;
use std::sync::{Arc, Mutex};

use crate::common::gate::Gate;
use crate::common::words::word;
use crate::common::{KERNELS, Setup, both_tiers};
use grapture::{
    CaptureMode, CaptureStatus, Context, DeviceBuffer, Driver, Event, EventOptions, GraphOutput,
    Stream, StreamGraphCapture, ThreadCaptureMode,
};
use grapture_sim::{SimConfig, Simulation};

both_tiers! {
    handles_dropped_in_a_capture_leave_it_valid,
    handles_dropped_in_host_functions_are_released,
    an_executable_in_flight_is_dropped_in_a_capture,
    a_capture_dropped_in_another_leaves_it_valid,
    the_mode_of_the_thread_is_put_back,
    memory_dropped_where_calls_are_barred_is_freed,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

type Thing = Box<dyn Any + Send>;
type Make = fn(&Setup, &Stream) -> Thing;

/// Every handle of the library, fresh and used. The stream is the one that captures later.
const THINGS: &[(&str, Make)] = &[
    ("device buffer", |setup, _| Box::new(word(setup))),
    ("device buffer of nothing", |setup, _| {
        Box::new(DeviceBuffer::<u32>::alloc(&setup.context, 0).unwrap())
    }),
    ("device buffer that was used", |setup, stream| {
        let mut word = word(setup);
        setup.add(&mut word, 1, stream).unwrap();
        Box::new(word)
    }),
    ("ordered buffer", |setup, _| {
        Box::new((DeviceBuffer::<u32>::alloc_async(&setup.stream(), 4).unwrap(),))
    }),
    ("ordered buffer of the stream", |_, stream| {
        Box::new(DeviceBuffer::<u32>::alloc_async(stream, 4).unwrap())
    }),
    ("ordered buffer used on the stream", |setup, stream| {
        let mut buffer = DeviceBuffer::<u32>::alloc_async(&setup.stream(), 4).unwrap();
        buffer.fill(1, stream).unwrap();
        Box::new(buffer)
    }),
    ("pinned buffer", |setup, _| Box::new(setup.pinned_word())),
    ("pinned buffer that was used", |setup, stream| {
        let pinned = setup.pinned_word();
        word(setup).copy_from_pinned(&pinned, stream).unwrap();
        stream.synchronize().unwrap();
        Box::new(pinned)
    }),
    ("module", |setup, _| Box::new(setup.context.load_ptx(KERNELS).unwrap())),
    ("kernel that ran", |setup, stream| {
        let other = Setup {
            driver: setup.driver.clone(),
            context: setup.context.clone(),
            module: setup.context.load_ptx(KERNELS).unwrap(),
        };
        other.add(&mut word(setup), 1, stream).unwrap();
        Box::new(other.module.kernel("add").unwrap())
    }),
    ("event", |setup, _| Box::new(Event::new(&setup.context).unwrap())),
    ("event that was recorded", |setup, stream| {
        let options = EventOptions::new().timing(true).blocking_sync(true);
        let event = Event::with_options(&setup.context, options).unwrap();
        event.record(stream).unwrap();
        event.wait(&setup.stream()).unwrap();
        Box::new(event)
    }),
    ("stream", |setup, _| Box::new(setup.stream())),
    ("stream that was used", |setup, _| {
        let stream = setup.stream();
        setup.add(&mut word(setup), 1, &stream).unwrap();
        Box::new(stream)
    }),
    ("default streams", |setup, _| {
        Box::new((Stream::legacy(&setup.context), Stream::per_thread(&setup.context)))
    }),
    ("graph", |setup, stream| Box::new(graph(setup, stream))),
    ("executable", |setup, stream| Box::new(graph(setup, stream).instantiate().unwrap())),
    ("executable and its graph", |setup, stream| {
        let graph = graph(setup, stream);
        Box::new((graph.instantiate().unwrap(), graph))
    }),
    ("executable that was launched on the stream", |setup, stream| {
        let exec = graph(setup, stream).instantiate().unwrap();
        exec.launch(stream).unwrap();
        Box::new(exec)
    }),
    ("executable that was launched elsewhere", |setup, stream| {
        let exec = graph(setup, stream).instantiate().unwrap();
        exec.launch(&setup.stream()).unwrap();
        Box::new(exec)
    }),
    ("executable that was launched on a default stream", |setup, stream| {
        let exec = graph(setup, stream).instantiate().unwrap();
        exec.launch(&Stream::per_thread(&setup.context)).unwrap();
        Box::new(exec)
    }),
    ("executable with temporaries, launched", |_, stream| {
        let exec = allocating(stream, false).0.instantiate().unwrap();
        exec.launch(stream).unwrap();
        Box::new(exec)
    }),
    ("what a launch has left", |_, stream| {
        let (graph, output) = allocating(stream, true);
        let exec = graph.instantiate().unwrap();
        exec.launch(stream).unwrap();
        Box::new((graph, exec, output))
    }),
    ("output without its graph", |_, stream| {
        let (graph, output) = allocating(stream, true);
        graph.instantiate().unwrap().launch(stream).unwrap();
        Box::new(output)
    }),
    ("result of a launch", |setup, stream| {
        let (graph, output) = allocating(stream, true);
        graph.instantiate().unwrap().launch(&setup.stream()).unwrap();
        let mut result = output.unwrap().take().unwrap();
        result.fill(2, stream).unwrap();
        Box::new(result)
    }),
    ("context", |setup, _| Box::new(Context::new(&setup.driver.device(0).unwrap()).unwrap())),
    ("driver", |setup, _| Box::new(setup.driver.clone())),
];

/// A graph that allocates, and what its launches leave if they are to leave it.
fn allocating(stream: &Stream, leaves: bool) -> (grapture::Graph, Option<GraphOutput<u32>>) {
    let mut output = None;
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut memory = capture.alloc_temporary::<u32>(4)?;
        memory.fill(1, stream)?;
        output = leaves.then(|| memory.into_output());
        Ok(())
    });
    (graph.unwrap(), output)
}

/// A graph that uses one of each.
fn graph(setup: &Setup, stream: &Stream) -> grapture::Graph {
    let mut word = word(setup);
    let pinned = setup.pinned_word();
    let event = Event::new(&setup.context).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        word.copy_from_pinned(&pinned, stream)?;
        setup.add(&mut word, 1, stream)?;
        stream.host_function(|| {})?;
        event.record_external(stream)?;
        word.copy_from_host_staged(&[1], stream)?;
        capture.retain(setup.context.load_ptx(KERNELS)?);
        Ok(())
    });
    graph.unwrap()
}

/// Captures on the stream while `drop_it` runs between two operations.
#[track_caller]
fn survives(setup: &Setup, stream: &Stream, mode: CaptureMode, what: &str, drop_it: impl FnOnce()) {
    let mut word = word(setup);
    let graph = stream.capture(mode, |capture| {
        setup.mul_add(&mut word, 10, 1, stream)?;
        drop_it();
        // As the driver says.
        assert!(capture.is_active(), "{what}, {mode:?}");
        setup.mul_add(&mut word, 10, 2, stream)
    });
    let graph = graph.unwrap_or_else(|error| panic!("{what}, {mode:?}: {error}"));
    assert_eq!(graph.node_count().unwrap(), 2, "{what}, {mode:?}");
    graph.instantiate().unwrap().launch(stream).unwrap();
    assert_eq!(word.to_vec(stream).unwrap(), [12], "{what}, {mode:?}");
}

fn every_drop_in_every_mode(setup: &Setup) {
    for (what, make) in THINGS {
        for mode in MODES {
            let stream = setup.stream();
            let thing = make(setup, &stream);
            survives(setup, &stream, mode, what, || drop(thing));
            let thing = make(setup, &stream);
            survives(setup, &stream, mode, what, || {
                std::thread::scope(|scope| scope.spawn(|| drop(thing)).join().unwrap());
            });
        }
    }
}

fn handles_dropped_in_a_capture_leave_it_valid(setup: &Setup) {
    every_drop_in_every_mode(setup);
    setup.driver.reclaim();
}

/// Drops the things in a host function of the stream, or of a graph that is launched on it.
fn drop_in_a_host_function(stream: &Stream, things: Vec<Thing>, captured: bool) {
    let things = Mutex::new(things);
    let submit =
        || stream.host_function(move || drop(std::mem::take(&mut *things.lock().unwrap())));
    if captured {
        let exec =
            stream.capture(CaptureMode::Relaxed, |_| submit()).unwrap().instantiate().unwrap();
        exec.launch(stream).unwrap();
        exec.launch(stream).unwrap();
        stream.synchronize().unwrap();
    } else {
        submit().unwrap();
        stream.synchronize().unwrap();
    }
}

fn handles_dropped_in_host_functions_are_released(setup: &Setup) {
    let stream = setup.stream();
    for captured in [false, true] {
        let things = THINGS.iter().map(|(_, make)| make(setup, &stream)).collect();
        drop_in_a_host_function(&stream, things, captured);
        setup.assert_usable(&stream);
    }
}

/// The executable, and all that only it owns, is let go of when the launch is done.
fn an_executable_in_flight_is_dropped_in_a_capture(setup: &Setup) {
    for mode in MODES {
        for elsewhere in [false, true] {
            let [stream, other] = [(); 2].map(|()| setup.stream());
            let mut word = word(setup);
            let dropped = Arc::new(());
            let (kept, gate) = (dropped.clone(), Gate::new());
            let exec = other
                .capture(CaptureMode::Relaxed, |capture| {
                    capture.retain(kept);
                    setup.add(&mut word, 1, &other)
                })
                .unwrap()
                .instantiate()
                .unwrap();
            gate.hold(&other);
            exec.launch(&other).unwrap();
            let graph = stream.capture(mode, |capture| {
                if elsewhere {
                    std::thread::scope(|scope| scope.spawn(|| drop(exec)).join().unwrap());
                } else {
                    drop(exec);
                }
                assert!(capture.is_active());
                assert_eq!(Arc::strong_count(&dropped), 2);
                gate.open();
                Ok(())
            });
            assert_eq!(graph.unwrap().node_count().unwrap(), 0, "{mode:?}");
            setup.wait_until(|| Arc::strong_count(&dropped) == 1);
            assert_eq!(word.to_vec(&other).unwrap(), [1]);
        }
    }
}

fn a_capture_dropped_in_another_leaves_it_valid(setup: &Setup) {
    for mode in MODES {
        for inner in MODES {
            let [stream, other, side] = [(); 3].map(|()| setup.stream());
            let mut value = word(setup);
            survives(setup, &stream, mode, "capture", || {
                let capture = StreamGraphCapture::begin(&other, inner.as_raw()).unwrap();
                setup.add(&mut value, 1, &other).unwrap();
                // Also one that could not be ended well.
                let event = Event::new(&setup.context).unwrap();
                event.record(&other).unwrap();
                event.wait(&side).unwrap();
                setup.add(&mut value, 1, &side).unwrap();
                drop(capture);
            });
            for stream in [&other, &side] {
                assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
                setup.assert_usable(stream);
            }
        }
    }
}

/// The mode, as it is: the driver tells only by an exchange.
fn mode(driver: &Driver) -> Option<CaptureMode> {
    ThreadCaptureMode::set(driver, CaptureMode::Relaxed).unwrap().previous()
}

fn the_mode_of_the_thread_is_put_back(setup: &Setup) {
    for thread in MODES {
        let guard = ThreadCaptureMode::set(&setup.driver, thread).unwrap();
        for (what, make) in THINGS {
            let stream = setup.stream();
            let thing = make(setup, &stream);
            assert_eq!(mode(&setup.driver), Some(thread), "{what} is made");
            drop(thing);
            assert_eq!(mode(&setup.driver), Some(thread), "{what} is dropped");
        }
        drop(guard);
        assert_eq!(mode(&setup.driver), Some(CaptureMode::Global));
    }
}

/// More than the device has, if it were not freed.
fn memory_dropped_where_calls_are_barred_is_freed(setup: &Setup) {
    let total = setup.context.memory_info().unwrap().total_bytes;
    let large = || {
        setup.driver.reclaim();
        DeviceBuffer::<u8>::alloc(&setup.context, total / 4).unwrap()
    };
    for mode in MODES {
        let stream = setup.stream();
        let buffer = large();
        survives(setup, &stream, mode, "large buffer", || drop(buffer));
        let buffer = large();
        survives(setup, &stream, mode, "large buffer", || {
            std::thread::scope(|scope| scope.spawn(|| drop(buffer)).join().unwrap());
        });
        let buffer = large();
        drop_in_a_host_function(&stream, vec![Box::new(buffer)], false);
        // One that only a graph owns.
        let mut buffer = large();
        let filled = stream.capture(mode, |_| buffer.view_mut(..1)?.fill(1, &stream));
        let exec = filled.unwrap().instantiate().unwrap();
        drop(buffer);
        exec.launch(&stream).unwrap();
        survives(setup, &stream, mode, "executable", || drop(exec));
    }
}

#[test]
fn sim_whatever_is_dropped_is_released() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let stream = setup.stream();
    let clean = |before: &str, what: &str| {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while sim.live().to_string() != before {
            assert!(std::time::Instant::now() < limit, "{what}: {}; before: {before}", sim.live());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let before = sim.live().to_string();
    for (what, make) in THINGS {
        for mode in MODES {
            let thing = make(&setup, &stream);
            survives(&setup, &stream, mode, what, || drop(thing));
            clean(&before, what);
            let thing = make(&setup, &stream);
            survives(&setup, &stream, mode, what, || {
                std::thread::scope(|scope| scope.spawn(|| drop(thing)).join().unwrap());
            });
            clean(&before, what);
        }
        for captured in [false, true] {
            drop_in_a_host_function(&stream, vec![make(&setup, &stream)], captured);
            clean(&before, what);
        }
    }
    drop((stream, setup));
    clean(&Simulation::new(SimConfig::default()).live().to_string(), "at the end");
}

/// The whole program goes in a host function: the last handles of the stream that runs it, of the
/// context and of the driver.
#[test]
fn sim_the_last_handles_are_dropped_in_a_host_function() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let stream = setup.stream();
    let things: Vec<Thing> = THINGS.iter().map(|(_, make)| make(&setup, &stream)).collect();
    let all = Mutex::new(None);
    let all = Arc::new(all);
    let taken = all.clone();
    let gate = Gate::new();
    gate.hold(&stream);
    stream.host_function(move || drop(taken.lock().unwrap().take())).unwrap();
    *all.lock().unwrap() = Some((things, stream, setup));
    gate.open();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !sim.live().is_clean() {
        assert!(std::time::Instant::now() < limit, "{}", sim.live());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
