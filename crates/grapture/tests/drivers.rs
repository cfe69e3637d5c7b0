//! Old drivers, missing functions and failing calls, which only the simulated driver can show; and
//! how many driver calls an operation makes.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::Setup;
use grapture::sys::{CUresult, Function};
use grapture::{
    BatchNode, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode,
    CaptureStatus, Context, CudaError, CudaResult, DeviceBuffer, Driver, DriverVersion, EdgeData,
    Event, Feature, FillNode, Graph, Kernel, LaunchBuilder, NodeId, NodeParams, Stream,
    StreamGraphCapture, set_drop_error_hook,
};
use grapture_sim::{SimConfig, Simulation};

fn setup_of(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

/// Everything is released, and nothing is left of it in the driver.
fn assert_clean(sim: &Simulation, setup: Setup) {
    let driver = setup.driver.clone();
    drop(setup);
    driver.reclaim();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !sim.live().is_clean() {
        assert!(std::time::Instant::now() < limit, "left over: {}", sim.live());
        driver.reclaim();
        std::thread::yield_now();
    }
}

fn assert_not_supported<T: std::fmt::Debug>(result: Result<T, CudaError>) {
    assert!(matches!(result, Err(CudaError::NotSupported)), "{result:?}");
}

#[test]
fn sim_a_driver_without_capture_answers_not_supported() {
    let sim = Simulation::new(SimConfig::new().driver_version(9020));
    let driver = Driver::from(sim.driver());
    assert_eq!(driver.version(), DriverVersion::new(9, 2));
    assert!(!driver.supports(Feature::StreamCapture));
    let context = Context::new(&driver.device(0).unwrap()).unwrap();
    let stream = Stream::new(&context).unwrap();
    for mode in [CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED] {
        assert_not_supported(StreamGraphCapture::begin(&stream, mode));
    }
    assert!(!stream.is_capturing());
    let mut word = DeviceBuffer::from_slice(&context, &[1u32]).unwrap();
    word.fill(2, &stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
    drop((word, stream, context));
    assert!(sim.live().is_clean(), "{}", sim.live());
}

#[test]
fn sim_the_first_driver_with_capture_captures_in_relaxed_mode_only() {
    let (sim, setup) = setup_of(SimConfig::new().driver_version(10_000));
    let stream = setup.stream();
    assert_not_supported(StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    assert_eq!(capture.id(), None);
    assert!(capture.is_active());
    setup.add(&mut word, 1, &stream).unwrap();
    let exec = capture.end().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
    drop((exec, word, stream));
    assert_clean(&sim, setup);
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Without user objects the library holds the owners until the last launch is done (O5).
#[test]
fn sim_a_launch_outlives_its_executable_without_user_objects() {
    for version in [10_010, 10_020, 11_000, 11_020] {
        let (sim, setup) = setup_of(SimConfig::new().driver_version(version));
        assert!(!setup.driver.supports(Feature::UserObjects));
        let (stream, gate_stream) = (setup.stream(), setup.stream());
        let mut gate = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let (exec, names) = {
            let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
            let graph = stream
                .capture(CaptureMode::Global, |capture| {
                    capture.retain(Dropped(dropped.clone()));
                    setup.wait_for(&gate, &stream)?;
                    setup.add(&mut word, 1, &stream)
                })
                .unwrap();
            (graph.instantiate().unwrap(), graph.topology().unwrap().to_string())
        };
        assert!(names.contains("wait_for") && names.contains("add"), "{names}");
        exec.launch(&stream).unwrap();
        drop(exec);
        // Time for a mistake: the reclaimer has the bundle, and must wait for the launch.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "driver {version}: the launch still runs");
        gate.fill(1, &gate_stream).unwrap();
        setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
        drop((gate, stream, gate_stream));
        assert_clean(&sim, setup);
    }
}

#[test]
fn sim_a_driver_that_lacks_a_function_says_which_it_needs() {
    let (_sim, setup) = setup_of(SimConfig::new().driver_version(11_000));
    let stream = setup.stream();
    let event = Event::new(&setup.context).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    assert_not_supported(event.record_external(&stream));
    capture.end().unwrap();
    assert_eq!(Feature::UserObjects.since(), DriverVersion::new(11, 3));
    let error = DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap_err();
    assert_eq!(error, CudaError::NotSupported);
}

#[test]
fn sim_no_device_is_an_error_and_not_a_panic() {
    let sim = Simulation::new(SimConfig::new().no_device());
    let error = sim.load().unwrap_err();
    assert_eq!(error.code().0, 100);
}

/// A launch is one driver call, a captured operation too, and so is one that runs.
#[test]
fn sim_hot_paths_make_one_driver_call() {
    let (sim, setup) = setup_of(SimConfig::new());
    let stream = setup.stream();
    let add = setup.module.kernel("add").unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
    let mut other = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
    let event = Event::new(&setup.context).unwrap();
    // The reclaimer's thread makes a call when it starts.
    stream.host_function(|| {}).unwrap();
    stream.synchronize().unwrap();
    setup.driver.reclaim();
    let mut operations = |captured: bool| {
        for _ in 0..3 {
            sim.reset_calls();
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { add.launch_builder(1, 1).arg_mut(&mut word).value(1u32).launch(&stream) }
                .unwrap();
            assert_eq!((sim.total_calls(), sim.calls(Function::cuLaunchKernel)), (1, 1));
            sim.reset_calls();
            other.fill(1, &stream).unwrap();
            assert_eq!((sim.total_calls(), sim.calls(Function::cuMemsetD32Async)), (1, 1));
            sim.reset_calls();
            other.copy_from(&word, &stream).unwrap();
            assert_eq!((sim.total_calls(), sim.calls(Function::cuMemcpyDtoDAsync_v2)), (1, 1));
            sim.reset_calls();
            stream.host_function(|| {}).unwrap();
            assert_eq!((sim.total_calls(), sim.calls(Function::cuLaunchHostFunc)), (1, 1));
            sim.reset_calls();
            event.record(&stream).unwrap();
            assert_eq!((sim.total_calls(), sim.calls(Function::cuEventRecord)), (1, 1));
            if captured {
                sim.reset_calls();
                event.wait(&stream).unwrap();
                assert_eq!((sim.total_calls(), sim.calls(Function::cuStreamWaitEvent)), (1, 1));
            }
        }
    };
    operations(false);
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    operations(true);
    let exec = capture.end().unwrap();
    exec.launch(&stream).unwrap();
    sim.reset_calls();
    for _ in 0..5 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!((sim.total_calls(), sim.calls(Function::cuGraphLaunch)), (5, 5));
    stream.synchronize().unwrap();
}

/// Each driver call of a capture's life is failed once: an error comes out, the stream is usable,
/// and nothing is left over but what a failing release itself leaves, which is reported.
#[test]
fn sim_a_failing_driver_call_leaves_nothing() {
    let (sim, setup) = setup_of(SimConfig::new());
    let reported = Arc::new(AtomicUsize::new(0));
    let hook = reported.clone();
    set_drop_error_hook(Some(Box::new(move |_, _| {
        hook.fetch_add(1, Ordering::SeqCst);
    })));
    let (stream, side) = (setup.stream(), setup.stream());
    life(&setup, &stream, &side).unwrap();
    // What is released later is released when the count has not changed for a while.
    let settled = || {
        let mut last = String::new();
        let mut unchanged = 0;
        while unchanged < 5 {
            setup.context.synchronize().unwrap();
            setup.driver.reclaim();
            let live = sim.live().to_string();
            unchanged = if live == last { unchanged + 1 } else { 0 };
            last = live;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        last
    };
    let mut before = settled();
    let mut failed = 0;
    for nth in 1.. {
        reported.store(0, Ordering::SeqCst);
        sim.reset_calls();
        sim.fail_any(nth, CUresult(2));
        let result = life(&setup, &stream, &side);
        let reached = sim.total_calls() >= nth;
        sim.clear_failures();
        if !reached {
            result.unwrap();
            break;
        }
        failed += 1;
        // An error may name streams, and keeps them.
        let result = format!("{result:?}");
        for stream in [&stream, &side] {
            let status = stream.capture_info().unwrap().status();
            assert_eq!(status, CaptureStatus::None, "failing call {nth}, with {result}");
            setup.assert_usable(stream);
        }
        let after = settled();
        if reported.load(Ordering::SeqCst) == 0 {
            assert_eq!(after, before, "failing call {nth} left something, with {result}");
        }
        before = after;
    }
    set_drop_error_hook(None);
    assert!(failed > 60, "{failed}");
}

fn life(setup: &Setup, stream: &Stream, side: &Stream) -> CudaResult<()> {
    let (fork, join) = (Event::new(&setup.context)?, Event::new(&setup.context)?);
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32])?;
    let kernel = setup.module.kernel("add")?;
    let exec = {
        let capture = StreamGraphCapture::begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { kernel.launch_builder(1, 1).arg_mut(&mut word).value(1u32).launch(stream)? };
        fork.record(stream)?;
        fork.wait(side)?;
        side.host_function(|| {})?;
        join.record(side)?;
        join.wait(stream)?;
        capture.end()?
    };
    exec.launch(stream)?;
    assert_eq!(word.to_vec(stream)?, [2]);
    Ok(())
}

fn mul_add<'a>(
    kernel: &'a Kernel,
    word: &'a mut DeviceBuffer<u32>,
    value: u32,
) -> LaunchBuilder<'a> {
    kernel.launch_builder(1, 1).arg_mut(word).value(10u32).value(value)
}

/// A graph is built on every driver with graphs; what came later is refused by name.
#[test]
fn sim_graphs_are_built_on_every_driver() {
    for version in [10_000, 10_020, 11_000, 11_020, 11_040, 11_070, 12_000, 12_020, 12_030, 13_000]
    {
        let (sim, setup) = setup_of(SimConfig::new().driver_version(version));
        let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
        let mut graph = Graph::new(&setup.context).unwrap();
        let kernel = setup.module.kernel("mul_add").unwrap();
        // SAFETY: `mul_add` takes the address of a word and two values.
        let first = unsafe { graph.add_kernel(mul_add(&kernel, &mut word, 1), &[]) }.unwrap();
        // SAFETY: as above.
        let second = unsafe { graph.add_kernel(mul_add(&kernel, &mut word, 9), &[]) }.unwrap();
        // SAFETY: as above.
        unsafe { graph.node_mut(second).unwrap().set_kernel(mul_add(&kernel, &mut word, 2)) }
            .unwrap();
        graph.add_dependency(first, second).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut word, 0).unwrap(), &[]).unwrap();
        graph.add_dependency(fill, first).unwrap();
        graph.remove_node(fill).unwrap();
        let NodeParams::Kernel { name, .. } = graph.node(first).unwrap().params().unwrap() else {
            panic!("it is a kernel")
        };
        assert_eq!(name, "mul_add");
        let clone = graph.try_clone().unwrap();
        let mut parent = Graph::new(&setup.context).unwrap();
        let child = parent.add_child(&clone, &[]).unwrap();

        let event = Event::new(&setup.context).unwrap();
        let since = |since, result: Result<NodeId, CudaError>| match version >= since {
            true => drop(result.unwrap()),
            false => assert_not_supported(result),
        };
        since(11_010, parent.add_event_record(&event, &[child]));
        since(11_010, parent.add_event_wait(&event, &[child]));
        let batch = BatchNode::new(&setup.context).write(&mut word, 7).unwrap();
        since(11_070, Graph::new(&setup.context).unwrap().add_batch(batch, &[]));
        let alloc = Graph::new(&setup.context).unwrap().add_alloc::<u32>(4, &[]);
        since(11_040, alloc.map(|memory| memory.node()));
        let moved = Graph::new(&setup.context).unwrap();
        since(12_090, parent.add_child_moved(moved, &[]));
        let stream = setup.stream();
        let into = stream.capture_into(&mut graph, &[], CaptureMode::Relaxed, |_| Ok(()));
        since(12_030, into.map(|_| first));
        let early = graph.add_dependency_with(second, first, EdgeData::PROGRAMMATIC);
        since(12_030, early.map(|()| first));
        if version >= 12_030 {
            graph.remove_dependency(second, first).unwrap();
        }

        parent.instantiate().unwrap().launch(&stream).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [11212], "{version}");
        drop((word, graph, kernel, clone, parent, event, stream));
        assert_clean(&sim, setup);
    }
}
