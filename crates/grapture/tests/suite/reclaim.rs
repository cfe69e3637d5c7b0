//! When the library frees what graphs owned: not while that would have other calls wait.

use std::sync::Arc;

use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{CaptureMode, CudaError, DeviceBuffer, Driver, GraphExec, PinnedBuffer, Stream};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_OUT_OF_MEMORY, Function};

both_tiers! {
    a_dropped_graph_has_no_launch_wait,
    what_is_asked_to_be_released_is,
}

/// An executable that was launched, and alone owns memory of both kinds and the token.
fn launched(setup: &Setup, stream: &Stream, token: Arc<()>) -> GraphExec {
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.retain(token);
        word.copy_from_pinned(&pinned, stream)?;
        setup.add(&mut word, 1, stream)
    });
    let exec = graph.unwrap().instantiate().unwrap();
    exec.launch(stream).unwrap();
    stream.synchronize().unwrap();
    exec
}

/// A driver that frees memory waits for all work, and has nearly every other call wait too.
fn a_dropped_graph_has_no_launch_wait(setup: &Setup) {
    let [stream, busy, other] = [(); 3].map(|()| setup.stream());
    let token = Arc::new(());
    let exec = launched(setup, &stream, token.clone());
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let replayed = other.capture(CaptureMode::ThreadLocal, |_| setup.add(&mut word, 1, &other));
    let replayed = replayed.unwrap().instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&busy);
    gate.wait_until_reached();
    drop(exec);
    setup.wait_until(|| Arc::strong_count(&token) == 1);
    for _ in 0..100 {
        replayed.launch(&other).unwrap();
        setup.add(&mut word, 1, &other).unwrap();
        other.synchronize().unwrap();
    }
    assert!(!busy.is_idle().unwrap());
    gate.open();
    assert_eq!(word.to_vec(&other).unwrap(), [200]);
    setup.assert_usable(&stream);
}

fn what_is_asked_to_be_released_is(setup: &Setup) {
    let stream = setup.stream();
    let token = Arc::new(());
    for _ in 0..10 {
        drop(launched(setup, &stream, token.clone()));
        // What is due then.
        setup.wait_until(|| {
            setup.driver.reclaim();
            Arc::strong_count(&token) == 1
        });
    }
}

#[test]
fn sim_memory_is_freed_when_the_streams_are_idle() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let [stream, busy] = [(); 2].map(|()| setup.stream());
    let token = Arc::new(());
    let exec = launched(&setup, &stream, token.clone());
    let gate = Gate::new();
    gate.hold(&busy);
    let frees = || sim.calls(Function::cuMemFree_v2) + sim.calls(Function::cuMemFreeHost);
    let (freed, asked) = (frees(), sim.calls(Function::cuStreamQuery));
    drop(exec);
    setup.wait_until(|| sim.calls(Function::cuStreamQuery) > asked + 5);
    assert_eq!(frees(), freed);
    gate.open();
    setup.wait_until(|| frees() == freed + 2);
}

/// While a stream captures, the others tell.
#[test]
fn sim_an_open_capture_keeps_no_memory() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let [stream, other] = [(); 2].map(|()| setup.stream());
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let exec = launched(&setup, &stream, Arc::new(()));
        let before = sim.live().device_allocations;
        let graph = other.capture(mode, |capture| {
            drop(exec);
            setup.wait_until(|| sim.live().device_allocations < before);
            assert!(capture.is_active());
            Ok(())
        });
        graph.unwrap();
    }
}

/// What waits for its release is released before there is said to be no room.
#[test]
fn sim_an_allocation_without_room_is_made_again() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let stream = setup.stream();
    drop(launched(&setup, &stream, Arc::new(())));
    for function in [Function::cuMemAlloc_v2, Function::cuMemHostAlloc, Function::cuMemAllocAsync] {
        let alloc = || match function {
            Function::cuMemAlloc_v2 => DeviceBuffer::<u32>::alloc(&setup.context, 4).map(drop),
            Function::cuMemHostAlloc => PinnedBuffer::<u32>::alloc(&setup.context, 4).map(drop),
            _ => DeviceBuffer::<u32>::alloc_async(&stream, 4).map(drop),
        };
        sim.fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
        alloc().unwrap();
        sim.fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
        sim.fail(function, 2, CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(alloc(), Err(CudaError::OutOfMemory));
        sim.clear_failures();
    }
}
