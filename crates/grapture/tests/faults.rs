//! Work in flight when a driver call fails, when the context is lost, and when every handle goes.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::Setup;
use common::counted::{Token, counter};
use common::gate::Gate;
use grapture::{
    Bindings, CaptureMode, DeviceBuffer, Driver, Graph, GraphExec, PinnedBuffer, Stream,
    set_drop_error_hook,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_UNKNOWN, Function};

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

/// A graph that counts its runs, and whose function is counted when it is dropped.
fn counting(stream: &Stream, runs: &Arc<AtomicUsize>, dropped: &Arc<AtomicUsize>) -> GraphExec {
    let (runs, token) = (runs.clone(), Token(dropped.clone()));
    let record = || {
        stream.host_function(move || {
            let _ = &token;
            runs.fetch_add(1, Ordering::SeqCst);
        })
    };
    stream.capture(CaptureMode::Relaxed, |_| record()).unwrap().instantiate().unwrap()
}

/// The end of a launch is marked when its executable is dropped. What may still run because that
/// failed is leaked and not freed.
#[test]
fn sim_what_cannot_be_waited_for_is_leaked() {
    for failing in [Function::cuEventRecord, Function::cuEventCreate, Function::cuEventQuery] {
        let (sim, setup) = simulation(SimConfig::new());
        let stream = setup.stream();
        let (runs, dropped) = (counter(), counter());
        let exec = counting(&stream, &runs, &dropped);
        let gate = Gate::new();
        gate.hold(&stream);
        exec.launch(&stream).unwrap();
        // It is tried twice.
        sim.fail(failing, 1, CUDA_ERROR_UNKNOWN);
        sim.fail(failing, 2, CUDA_ERROR_UNKNOWN);
        drop(exec);
        setup.driver.reclaim();
        gate.open();
        stream.synchronize().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{failing:?}");
        setup.driver.reclaim();
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "{failing:?}");
    }
}

/// A default stream is another one on the reclaimer's thread, so each launch there is marked at
/// once, by one event.
#[test]
fn sim_launches_on_a_default_stream_are_waited_for() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = Stream::per_thread(&setup.context);
    let (runs, dropped) = (counter(), counter());
    let exec = counting(&setup.stream(), &runs, &dropped);
    let gate = Gate::new();
    gate.hold(&stream);
    let made = sim.calls(Function::cuEventCreate);
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(sim.calls(Function::cuEventCreate), made + 1);
    drop(exec);
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    gate.open();
    stream.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
}

/// A capture of a blocking stream bars a wait for the legacy one, but the copy borrows the host's
/// memory until it is done.
#[test]
fn sim_a_blocking_copy_whose_wait_is_barred_waits_on() {
    let (sim, setup) = simulation(SimConfig::new());
    let legacy = Stream::legacy(&setup.context);
    let word = DeviceBuffer::from_slice(&setup.context, &[7u32]).unwrap();
    let waits = sim.calls(Function::cuStreamSynchronize);
    sim.fail(Function::cuStreamSynchronize, 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_eq!(word.to_vec(&legacy).unwrap(), [7]);
    assert_eq!(sim.calls(Function::cuStreamSynchronize), waits + 2);
}

#[test]
fn sim_an_end_that_fails_leaves_no_stream_capturing() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    // Whoever has the raw handle may end the capture, so the driver is asked whose it is.
    let _ = stream.as_raw();
    for function in [Function::cuStreamGetCaptureInfo, Function::cuStreamEndCapture] {
        let dropped = counter();
        let error = stream
            .capture(CaptureMode::Relaxed, |capture| {
                capture.retain(Token(dropped.clone()));
                sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
                Ok(())
            })
            .unwrap_err();
        assert_eq!(error.code(), CUDA_ERROR_UNKNOWN.0, "{function:?}");
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "{function:?}");
        setup.context.synchronize().unwrap();
        setup.assert_usable(&stream);
    }
}

#[test]
fn sim_a_begin_that_fails_counts_no_capture() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    for function in [Function::cuStreamBeginCapture_v2, Function::cuStreamGetCaptureInfo] {
        sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
        let error = stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), CUDA_ERROR_UNKNOWN.0, "{function:?}");
        assert!(!stream.is_capturing());
        setup.context.synchronize().unwrap();
        setup.assert_usable(&stream);
    }
}

/// The launch in flight keeps the context, and it the driver.
#[test]
fn sim_work_in_flight_outlives_every_handle() {
    let (sim, setup) = simulation(SimConfig::new());
    let (runs, dropped) = (counter(), counter());
    let gate = Gate::new();
    {
        let setup = setup;
        let stream = setup.stream();
        let exec = counting(&stream, &runs, &dropped);
        gate.hold(&stream);
        exec.launch(&stream).unwrap();
        gate.wait_until_reached();
        // The module's unloading would wait for the gate.
        std::mem::forget(setup.module);
    }
    assert_eq!((runs.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (0, 0));
    gate.open();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while dropped.load(Ordering::SeqCst) == 0 {
        assert!(std::time::Instant::now() < limit, "{}", sim.live());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A kernel that writes where nothing is loses the context: every call says so, and nothing hangs,
/// is freed twice or panics.
#[test]
fn sim_a_lost_context_ends_in_errors() {
    let (_sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let (runs, dropped) = (counter(), counter());
    let exec = counting(&stream, &runs, &dropped);
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let ordered = DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap();
    word.copy_to_pinned(&mut pinned, &stream).unwrap();
    let add = setup.module.kernel("add").unwrap();
    // SAFETY: not sound, which is the point: on the simulated driver it is a fault of the kernel.
    unsafe { add.launch_builder(1, 1).address(8).value(1u32).launch(&stream) }.unwrap();
    assert!(stream.synchronize().is_err());
    assert!(word.to_vec(&stream).is_err());
    assert!(word.fill(1, &stream).is_err());
    assert!(exec.launch(&stream).is_err());
    assert!(stream.host_function(|| {}).is_err());
    assert!(stream.capture(CaptureMode::Relaxed, |_| Ok(())).is_err());
    assert!(!stream.is_capturing());
    drop((exec, word, pinned, ordered));
    setup.driver.reclaim();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// The hook is the program's, and runs where a handle is dropped.
#[test]
fn sim_a_hook_may_set_another_and_drop_handles() {
    let (sim, setup) = simulation(SimConfig::new());
    let calls = counter();
    let first = Mutex::new(Some(DeviceBuffer::<u32>::alloc(&setup.context, 1).unwrap()));
    let counted = calls.clone();
    set_drop_error_hook(Some(Box::new(move |_, error| {
        // The hook is the whole process's, and other tests run.
        if error.code() != CUDA_ERROR_UNKNOWN.0 {
            return;
        }
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            drop(first.lock().unwrap().take());
        } else {
            set_drop_error_hook(None);
        }
    })));
    let second = DeviceBuffer::<u32>::alloc(&setup.context, 1).unwrap();
    sim.fail(Function::cuMemFree_v2, 1, CUDA_ERROR_UNKNOWN);
    sim.fail(Function::cuMemFree_v2, 2, CUDA_ERROR_UNKNOWN);
    drop(second);
    set_drop_error_hook(None);
    assert!(calls.load(Ordering::SeqCst) >= 1);
}

/// What a refused operation uses is not kept by the graph; and it is, when the same operation is
/// recorded well after that.
#[test]
fn sim_a_graph_keeps_what_was_recorded_and_not_what_was_refused() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let mut refused = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        for buffer in [&mut words, &mut refused] {
            sim.fail(Function::cuMemsetD32Async, 1, CUDA_ERROR_UNKNOWN);
            buffer.fill(1, &stream).unwrap_err();
        }
        words.fill(7, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.retained().len(), 1, "{:?}", graph.retained());
    let before = sim.live().device_allocations;
    drop(refused);
    assert_eq!(sim.live().device_allocations, before - 1);
    drop(words);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sim.live().device_allocations, before - 1);
}

/// Whatever call of it fails, a profile leaves nothing behind, and the next one succeeds.
#[test]
fn sim_a_profile_that_fails_leaves_nothing() {
    // How many calls are made to fail: the reclaimer makes some of them too, and there a failure is
    // a leak.
    for (function, most) in [
        (Function::cuGraphClone, u64::MAX),
        (Function::cuGraphGetNodes, u64::MAX),
        (Function::cuGraphNodeGetType, u64::MAX),
        (Function::cuGraphNodeFindInClone, u64::MAX),
        (Function::cuGraphAddEventRecordNode, u64::MAX),
        (Function::cuGraphInstantiateWithFlags, u64::MAX),
        (Function::cuEventCreate, 5),
        (Function::cuEventRecord, 4),
        (Function::cuEventSynchronize, u64::MAX),
        (Function::cuEventElapsedTime, u64::MAX),
        (Function::cuGraphLaunch, u64::MAX),
    ] {
        let (sim, setup) = simulation(SimConfig::new());
        {
            let stream = setup.stream();
            let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
            let mut record = || {
                setup.add(&mut word, 1, &stream)?;
                stream.host_function(|| {})
            };
            let graph = stream.capture(CaptureMode::Relaxed, |_| record()).unwrap();
            let made = sim.live();
            let called = sim.calls(function);
            graph.profile(&stream, 2).unwrap();
            let called = sim.calls(function) - called;
            assert!(called > 0, "{function:?} is not called");
            for call in 1..=called.min(most) {
                setup.driver.reclaim();
                sim.fail(function, call, CUDA_ERROR_UNKNOWN);
                match graph.profile(&stream, 2) {
                    Err(error) => assert_eq!(error.code(), CUDA_ERROR_UNKNOWN.0, "{function:?}"),
                    // Asked for its reason, the driver makes the executable after all.
                    Ok(_) => assert_eq!(function, Function::cuGraphInstantiateWithFlags),
                }
                stream.synchronize().unwrap();
                setup.wait_until(|| {
                    setup.driver.reclaim();
                    sim.live().to_string() == made.to_string()
                });
            }
            assert_eq!(graph.profile(&stream, 2).unwrap().nodes().len(), 2);
            setup.assert_usable(&stream);
        }
    }
}

/// Whatever call of it fails, a load leaves nothing behind, and the next one succeeds.
#[test]
fn sim_a_load_that_fails_leaves_nothing() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let child = stream.capture(CaptureMode::Relaxed, |_| setup.add(&mut word, 1, &stream)).unwrap();
    let mut graph = stream.capture(CaptureMode::Relaxed, |_| word.fill(5, &stream)).unwrap();
    let fill = graph.nodes().unwrap()[0].id();
    let child = graph.add_child(&child, &[fill]).unwrap();
    let later = graph.add_empty(&[]).unwrap();
    graph.add_dependency(later, child).unwrap();
    let bindings = Bindings::new(&setup.context)
        .module(&setup.module, b"image")
        .and_then(|bindings| bindings.memory("word", &mut word))
        .unwrap();
    let text = graph.to_saved(&bindings).unwrap();
    // SAFETY: `add` takes the address of a word, which is bound, and a value.
    let load = || unsafe { Graph::from_saved(&text, &bindings) };
    drop(load().unwrap());
    let made = sim.live().to_string();
    for function in [
        Function::cuGraphCreate,
        Function::cuModuleGetFunction,
        Function::cuFuncGetAttribute,
        Function::cuGraphAddKernelNode_v2,
        Function::cuGraphAddMemsetNode,
        Function::cuGraphAddChildGraphNode,
        Function::cuGraphAddDependencies,
    ] {
        let called = sim.calls(function);
        drop(load().unwrap());
        let called = sim.calls(function) - called;
        assert!(called > 0, "{function:?} is not called");
        for call in 1..=called {
            sim.fail(function, call, CUDA_ERROR_UNKNOWN);
            // A limit that the driver does not tell is taken for the least.
            let loaded = load();
            assert!(loaded.is_err() || function == Function::cuFuncGetAttribute, "{function:?}");
            drop(loaded);
            assert_eq!(sim.live().to_string(), made, "{function:?}, call {call}");
        }
    }
    let loaded = load().unwrap();
    loaded.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [6]);
}
