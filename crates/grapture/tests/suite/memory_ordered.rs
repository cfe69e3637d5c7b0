//! Memory that is allocated and released in the order of a stream.

use crate::common::gate::Gate;
use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{CaptureMode, CudaError, DeviceBuffer, Driver, Event, Stream};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_OUT_OF_MEMORY, Function};

both_tiers!(
    neither_the_allocation_nor_the_release_blocks,
    the_first_use_on_another_stream_waits_for_the_allocation,
    the_release_waits_for_the_other_streams,
    a_capture_waits_for_the_allocation,
    a_graph_keeps_the_memory,
    a_release_while_the_home_stream_captures_is_made_later,
    a_release_while_another_stream_captures_is_made_later,
    uses_on_default_streams_are_refused,
    streams_on_which_nothing_can_be_allocated_are_refused,
);

const LEN: usize = 1_000;

fn target(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, LEN).unwrap()
}

/// Takes the memory that was just released on the stream, and overwrites it.
fn overwrite(stream: &Stream) -> DeviceBuffer<u32> {
    let mut next = DeviceBuffer::<u32>::alloc_async(stream, LEN).unwrap();
    next.fill(0xdead, stream).unwrap();
    next
}

fn neither_the_allocation_nor_the_release_blocks(setup: &Setup) {
    let stream = setup.stream();
    let mut target = target(setup);
    let gate = Gate::new();
    gate.hold(&stream);
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&stream, LEN).unwrap();
    buffer.fill(5, &stream).unwrap();
    target.copy_from(&buffer, &stream).unwrap();
    drop(buffer);
    let _next = overwrite(&stream);
    assert!(!stream.is_idle().unwrap());
    gate.open();
    assert_eq!(target.to_vec(&stream).unwrap(), [5; LEN]);
}

fn the_first_use_on_another_stream_waits_for_the_allocation(setup: &Setup) {
    let (home, other) = (setup.stream(), setup.stream());
    let gate = Gate::new();
    gate.hold(&home);
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    buffer.fill(5, &other).unwrap();
    gate.wait_until_reached();
    assert!(!other.is_idle().unwrap());
    gate.open();
    assert_eq!(buffer.to_vec(&other).unwrap(), [5; LEN]);
}

fn the_release_waits_for_the_other_streams(setup: &Setup) {
    let (home, other) = (setup.stream(), setup.stream());
    let mut target = target(setup);
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    buffer.fill(5, &home).unwrap();
    home.synchronize().unwrap();
    let gate = Gate::new();
    gate.hold(&other);
    target.copy_from(&buffer, &other).unwrap();
    drop(buffer);
    let _next = overwrite(&home);
    gate.wait_until_reached();
    assert!(!home.is_idle().unwrap());
    gate.open();
    assert_eq!(target.to_vec(&other).unwrap(), [5; LEN]);
}

fn a_capture_waits_for_the_allocation(setup: &Setup) {
    let (home, other) = (setup.stream(), setup.stream());
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    let mut second = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    let on_home = home.capture(CaptureMode::Global, |_| buffer.fill(5, &home));
    let elsewhere = other.capture(CaptureMode::Global, |_| second.fill(6, &other));
    // Each runs on the stream that was not captured.
    on_home.unwrap().instantiate().unwrap().launch(&other).unwrap();
    elsewhere.unwrap().instantiate().unwrap().launch(&home).unwrap();
    assert_eq!(buffer.to_vec(&other).unwrap(), [5; LEN]);
    assert_eq!(second.to_vec(&home).unwrap(), [6; LEN]);
}

fn a_graph_keeps_the_memory(setup: &Setup) {
    let (home, other) = (setup.stream(), setup.stream());
    let mut target = target(setup);
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    buffer.fill(5, &home).unwrap();
    let graph = home.capture(CaptureMode::ThreadLocal, |_| target.copy_from(&buffer, &home));
    drop(buffer);
    let _next = overwrite(&home);
    home.synchronize().unwrap();
    let exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&other).unwrap();
    drop(exec);
    assert_eq!(target.to_vec(&other).unwrap(), [5; LEN]);
    setup.driver.reclaim();
    setup.assert_usable(&home);
}

fn a_release_while_the_home_stream_captures_is_made_later(setup: &Setup) {
    let home = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    buffer.fill(5, &home).unwrap();
    let graph = home.capture(CaptureMode::Global, |_| {
        drop(buffer);
        setup.add(&mut word, 1, &home)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
    graph.instantiate().unwrap().launch(&home).unwrap();
    assert_eq!(word.to_vec(&home).unwrap(), [1]);
}

fn a_release_while_another_stream_captures_is_made_later(setup: &Setup) {
    let (home, other) = (setup.stream(), setup.stream());
    let mut target = target(setup);
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    buffer.fill(5, &home).unwrap();
    let event = Event::new(&setup.context).unwrap();
    event.record(&home).unwrap();
    event.wait(&other).unwrap();
    target.copy_from(&buffer, &other).unwrap();
    let graph = other.capture(CaptureMode::Global, |_| {
        drop(buffer);
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    assert_eq!(target.to_vec(&other).unwrap(), [5; LEN]);
}

fn uses_on_default_streams_are_refused(setup: &Setup) {
    for stream in [Stream::legacy(&setup.context), Stream::per_thread(&setup.context)] {
        let home = setup.stream();
        let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
        let text = "memory: it was allocated in the order of a stream, and its release could not be \
                    ordered behind a use on a default stream: use it on a stream of your own, or \
                    allocate it with `DeviceBuffer::alloc`";
        assert_eq!(buffer.fill(5, &stream).unwrap_err().to_string(), text);
        assert_eq!(buffer.to_vec(&stream).unwrap_err().to_string(), text);
        assert_eq!(setup.add(&mut buffer, 1, &stream).unwrap_err().to_string(), text);
        // A graph that uses it may run there: it keeps the memory until its launch is done.
        let mut target = target(setup);
        let exec = home
            .capture(CaptureMode::Relaxed, |_| {
                buffer.fill(5, &home)?;
                target.copy_from(&buffer, &home)
            })
            .unwrap()
            .instantiate()
            .unwrap();
        drop(buffer);
        exec.launch(&stream).unwrap();
        drop(exec);
        assert_eq!(target.to_vec(&stream).unwrap(), [5; LEN]);
    }
}

fn streams_on_which_nothing_can_be_allocated_are_refused(setup: &Setup) {
    for stream in [Stream::legacy(&setup.context), Stream::per_thread(&setup.context)] {
        let text = refusal(DeviceBuffer::<u32>::alloc_async(&stream, 1));
        assert!(text.starts_with("stream: it is a default stream"), "{text}");
    }
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        let text = refusal(DeviceBuffer::<u32>::alloc_async(&stream, 1));
        assert!(text.contains("a buffer is not part of a graph"), "{text}");
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
}

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

#[test]
fn sim_an_old_driver_does_not_support_it() {
    let (_sim, setup) = simulation(SimConfig::default().driver_version(11_010));
    let refused = DeviceBuffer::<u32>::alloc_async(&setup.stream(), 1);
    assert_eq!(refused.unwrap_err(), CudaError::NotSupported);
}

#[test]
fn sim_a_failed_allocation_leaves_nothing() {
    for function in [Function::cuMemAllocAsync, Function::cuEventCreate, Function::cuEventRecord] {
        let (sim, setup) = simulation(SimConfig::default());
        let stream = setup.stream();
        let before = sim.live();
        sim.fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
        let failed = DeviceBuffer::<u32>::alloc_async(&stream, LEN);
        assert_eq!(failed.unwrap_err(), CudaError::OutOfMemory, "{function:?}");
        stream.synchronize().unwrap();
        assert_eq!(sim.live().to_string(), before.to_string(), "{function:?}");
        setup.assert_usable(&stream);
    }
}

#[test]
fn sim_every_release_is_made_in_the_end() {
    let (sim, setup) = simulation(SimConfig::default());
    let (home, other) = (setup.stream(), setup.stream());
    let before = sim.live().to_string();
    for (capturing, used_on) in [(&home, &home), (&home, &other), (&other, &other)] {
        let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
        buffer.fill(1, used_on).unwrap();
        let graph = capturing.capture(CaptureMode::Global, |_| {
            drop(buffer);
            Ok(())
        });
        drop(graph);
        setup.wait_until(|| sim.live().to_string() == before);
    }
    setup.assert_usable(&home);
    setup.assert_usable(&other);
}

/// The graph may be launched on any stream, so the memory must be there when it is captured.
#[test]
fn sim_a_capture_waits_until_the_memory_is_there() {
    let (sim, setup) = simulation(SimConfig::default());
    let (home, other) = (setup.stream(), setup.stream());
    let gate = Gate::new();
    gate.hold(&home);
    let mut buffer = DeviceBuffer::<u32>::alloc_async(&home, LEN).unwrap();
    std::thread::scope(|scope| {
        let capture = scope.spawn(|| {
            let graph = other.capture(CaptureMode::Global, |_| buffer.fill(5, &other));
            (graph.map(drop), gate.is_open())
        });
        let waits = || sim.calls(Function::cuEventSynchronize) > 0;
        setup.wait_until(|| waits() || capture.is_finished());
        gate.open();
        assert_eq!(capture.join().unwrap(), (Ok(()), true));
    });
}
