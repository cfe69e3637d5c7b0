//! Outputs: what the launches of a captured graph leave.

use crate::common::gate::Gate;
use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CudaError, DeviceBuffer, Driver, Graph, GraphExec, GraphOutput, InstantiateFlags,
    InstantiateOptions, NodeKind, Stream,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers! {
    what_a_launch_leaves_is_taken,
    a_launch_is_refused_while_the_result_is_somebodys,
    an_executable_that_frees_by_itself_is_launched_again,
    what_nobody_can_take_is_freed_by_the_next_launch,
    results_are_released_in_every_order_of_drops,
    a_result_outlives_graph_and_executable,
    launches_on_several_streams_are_in_order,
    a_result_is_the_input_of_another_graph,
    a_result_in_flight_is_taken_and_dropped,
    a_graph_that_allocates_is_not_embedded,
    the_stream_of_the_capture_need_not_live,
    default_streams_take_no_launch_that_leaves_memory,
    growth_of_repeated_captures,
    results_are_taken_while_another_thread_launches,
}

const LEN: usize = 1_000;

fn buffer(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, LEN).unwrap()
}

fn count(graph: &Graph, kind: NodeKind) -> usize {
    graph.nodes().unwrap().iter().filter(|node| node.kind() == kind).count()
}

/// A graph that leaves `LEN` times `value`.
fn leaves(stream: &Stream, value: u32) -> (Graph, GraphOutput<u32>) {
    let mut output = None;
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut left = capture.alloc_temporary::<u32>(LEN)?;
        left.fill(value, stream)?;
        output = Some(left.into_output());
        Ok(())
    });
    (graph.unwrap(), output.unwrap())
}

fn frees_itself(graph: &Graph) -> GraphExec {
    let options = InstantiateOptions::new().flags(InstantiateFlags::AUTO_FREE_ON_LAUNCH);
    graph.instantiate_with(&options).unwrap()
}

fn what_a_launch_leaves_is_taken(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, output) = leaves(&stream, 7);
    assert_eq!((count(&graph, NodeKind::MemAlloc), count(&graph, NodeKind::MemFree)), (1, 0));
    let text = "output: no launch has left it: launch the graph first";
    assert_eq!(refusal(output.take()), text);
    let exec = graph.instantiate().unwrap();
    assert_eq!(refusal(output.take()), text);
    for round in 0..4 {
        let launched = [&stream, &other][round % 2];
        exec.launch(launched).unwrap();
        let result = output.take().unwrap();
        assert_eq!((result.len(), result.as_raw()), (LEN, output.as_raw()));
        assert_eq!(
            refusal(output.take()),
            "output: the last launch's is taken already: launch again once that is dropped"
        );
        // On another stream than that of the launch too.
        assert_eq!(result.to_vec([&other, &stream][round / 2]).unwrap(), [7; LEN]);
    }
    assert!(graph.retained().iter().any(|kept| kept.bytes() == 4 * LEN));
}

fn a_launch_is_refused_while_the_result_is_somebodys(setup: &Setup) {
    let stream = setup.stream();
    let (graph, output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    let left = refusal(exec.launch(&stream));
    assert_eq!(
        left,
        "output: what the last launch has left is not taken: take and drop it, drop its \
         `GraphOutput`, or instantiate with `AUTO_FREE_ON_LAUNCH`"
    );
    assert_eq!(exec.launch(&stream).unwrap_err().code(), 1);
    let result = output.take().unwrap();
    let text = "output: a buffer has what the last launch has left: drop it before the graph runs \
                again";
    assert_eq!(refusal(exec.launch(&stream)), text);
    // Also another graph that uses it has it.
    let mut target = buffer(setup);
    let uses = stream.capture(CaptureMode::Global, |_| target.copy_from(&result, &stream));
    let uses = uses.unwrap().instantiate().unwrap();
    drop(result);
    assert_eq!(refusal(exec.launch(&stream)), text);
    uses.launch(&stream).unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [7; LEN]);
    drop(uses);
    setup.wait_until(|| exec.launch(&stream).is_ok());
    stream.synchronize().unwrap();
}

fn an_executable_that_frees_by_itself_is_launched_again(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, output) = leaves(&stream, 7);
    let exec = frees_itself(&graph);
    for round in 0..4 {
        exec.launch([&stream, &other][round % 2]).unwrap();
    }
    let result = output.take().unwrap();
    // Not under the hands of who has the result.
    assert!(refusal(exec.launch(&stream)).contains("a buffer has"));
    assert_eq!(result.to_vec(&stream).unwrap(), [7; LEN]);
    drop(result);
    exec.launch(&stream).unwrap();
    // And over what an executable of before has left.
    drop(exec);
    let exec = frees_itself(&graph);
    exec.launch(&other).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(output.take().unwrap().to_vec(&other).unwrap(), [7; LEN]);
}

fn what_nobody_can_take_is_freed_by_the_next_launch(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert!(exec.launch(&stream).is_err());
    drop(output);
    for round in 0..6 {
        exec.launch([&stream, &other][round / 2 % 2]).unwrap();
    }
    drop(exec);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    drop((graph, exec));
    setup.assert_usable(&stream);
}

/// What of graph, executable, handle and result is dropped first, and what next.
fn results_are_released_in_every_order_of_drops(setup: &Setup) {
    for order in 0..24usize {
        for taken in [false, true] {
            for held in [false, true] {
                let stream = setup.stream();
                let (graph, output) = leaves(&stream, 7);
                let exec = graph.instantiate().unwrap();
                let gate = Gate::new();
                if held {
                    gate.hold(&stream);
                }
                exec.launch(&stream).unwrap();
                let result = taken.then(|| output.take().unwrap());
                let mut things: Vec<Box<dyn std::any::Any>> =
                    vec![Box::new(graph), Box::new(exec), Box::new(output), Box::new(result)];
                let mut rest = order;
                for left in (1..=4).rev() {
                    drop(things.swap_remove(rest % left));
                    rest /= left;
                }
                gate.open();
                setup.assert_usable(&stream);
            }
        }
    }
}

fn a_result_outlives_graph_and_executable(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    drop((exec, graph, stream));
    let mut result = output.take().unwrap();
    drop(output);
    let mut copy = buffer(setup);
    copy.copy_from(&result, &other).unwrap();
    result.fill(8, &other).unwrap();
    gate.wait_until_reached();
    assert!(!other.is_idle().unwrap());
    gate.open();
    assert_eq!(copy.to_vec(&other).unwrap(), [7; LEN]);
    assert_eq!(result.to_vec(&other).unwrap(), [8; LEN]);
}

/// The next launch, on whatever stream, comes after the release of what the last has left.
fn launches_on_several_streams_are_in_order(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    let mut copies: Vec<_> = (0..4).map(|_| buffer(setup)).collect();
    let gate = Gate::new();
    gate.hold(&stream);
    for (round, copy) in copies.iter_mut().enumerate() {
        let launched = [&stream, &other][round % 2];
        exec.launch(launched).unwrap();
        let result = output.take().unwrap();
        copy.copy_from(&result, launched).unwrap();
    }
    gate.wait_until_reached();
    assert!(!other.is_idle().unwrap());
    gate.open();
    for copy in &copies {
        assert_eq!(copy.to_vec(&other).unwrap(), [7; LEN]);
    }
}

fn a_result_is_the_input_of_another_graph(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    let result = output.take().unwrap();
    let mut target = buffer(setup);
    let next = other.capture(CaptureMode::Global, |_| target.copy_from(&result, &other));
    let next = next.unwrap().instantiate().unwrap();
    drop(result);
    for _ in 0..2 {
        target.fill(0, &other).unwrap();
        next.launch(&other).unwrap();
        assert_eq!(target.to_vec(&other).unwrap(), [7; LEN]);
    }
}

fn a_result_in_flight_is_taken_and_dropped(setup: &Setup) {
    let stream = setup.stream();
    let (graph, output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
        drop(output.take().unwrap());
    }
    // Also while the stream captures: the release is made when that has ended.
    exec.launch(&stream).unwrap();
    let result = output.take().unwrap();
    exec_is_refused_until_released(setup, &stream, &exec, result, gate);
    setup.assert_usable(&stream);
}

fn exec_is_refused_until_released(
    setup: &Setup,
    stream: &Stream,
    exec: &GraphExec,
    result: DeviceBuffer<u32>,
    gate: Gate,
) {
    let other = setup.stream();
    let graph = stream.capture(CaptureMode::Global, |_| {
        drop(result);
        assert!(refusal(exec.launch(&other)).contains("a buffer has"));
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    // A driver may have the launch on another stream wait for the release.
    gate.open();
    setup.wait_until(|| exec.launch(&other).is_ok());
}

fn a_graph_that_allocates_is_not_embedded(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let (graph, _output) = leaves(&stream, 7);
    let temporary = other.capture(CaptureMode::Global, |capture| {
        capture.alloc_temporary::<u32>(LEN)?.fill(1, &other)
    });
    let whole = stream.capture(CaptureMode::Global, |capture| {
        for graph in [&graph, temporary.as_ref().unwrap()] {
            let text = refusal(capture.embed(graph));
            assert!(text.contains("cannot be copied into a capture"), "{text}");
        }
        assert!(capture.is_active());
        Ok(())
    });
    assert_eq!(whole.unwrap().node_count().unwrap(), 0);
}

fn the_stream_of_the_capture_need_not_live(setup: &Setup) {
    let other = setup.stream();
    let mut target = buffer(setup);
    let (exec, output) = {
        let stream = setup.stream();
        let mut output = None;
        let graph = stream.capture(CaptureMode::Relaxed, |capture| {
            let mut left = capture.alloc_temporary::<u32>(LEN)?;
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            scratch.fill(6, &stream)?;
            left.copy_from(&scratch, &stream)?;
            output = Some(left.into_output());
            Ok(())
        });
        (graph.unwrap().instantiate().unwrap(), output.unwrap())
    };
    exec.launch(&other).unwrap();
    target.copy_from(&output.take().unwrap(), &other).unwrap();
    assert_eq!(target.to_vec(&other).unwrap(), [6; LEN]);
}

fn default_streams_take_no_launch_that_leaves_memory(setup: &Setup) {
    let stream = setup.stream();
    let (graph, _output) = leaves(&stream, 7);
    let exec = graph.instantiate().unwrap();
    for default in [Stream::per_thread(&setup.context), Stream::legacy(&setup.context)] {
        let text = refusal(exec.launch(&default));
        assert!(text.starts_with("stream: it is a default stream"), "{text}");
    }
    let into = stream.capture(CaptureMode::Global, |_| {
        assert!(refusal(exec.launch(&stream)).contains("embed its graph"));
        Ok(())
    });
    into.unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

/// Memory that would be leaked by each cycle soon were more than the device has.
fn growth_of_repeated_captures(setup: &Setup) {
    let stream = setup.stream();
    let total = setup.context.memory_info().unwrap().total_bytes;
    let large = total / 16;
    for round in 0..50 {
        let mut output = None;
        let graph = stream.capture(CaptureMode::Global, |capture| {
            let mut left = capture.alloc_temporary::<u8>(large)?;
            left.view_mut(..16)?.fill(1, &stream)?;
            output = Some(left.into_output());
            Ok(())
        });
        let graph = graph.unwrap();
        let exec = if round % 2 == 0 { graph.instantiate().unwrap() } else { frees_itself(&graph) };
        exec.launch(&stream).unwrap();
        match round % 3 {
            0 => drop(output.unwrap().take().unwrap()),
            1 => drop(output),
            _ => {}
        }
        drop((graph, exec));
        stream.synchronize().unwrap();
        setup.driver.reclaim();
        stream.synchronize().unwrap();
        graph_memory(setup);
    }
}

/// Whatever the order of the two, nobody sees what is freed or what another launch writes.
fn results_are_taken_while_another_thread_launches(setup: &Setup) {
    for itself in [false, true] {
        let stream = setup.stream();
        let (graph, output) = leaves(&stream, 7);
        let exec = if itself { frees_itself(&graph) } else { graph.instantiate().unwrap() };
        let mut launched = 0;
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mine = setup.stream();
                let mut taken = 0;
                while taken < 50 {
                    if let Ok(result) = output.take() {
                        assert_eq!(result.to_vec(&mine).unwrap(), [7; LEN]);
                        taken += 1;
                    }
                    std::thread::yield_now();
                }
            });
            while !taker.is_finished() {
                match exec.launch(&stream) {
                    Ok(()) => launched += 1,
                    Err(error) => assert!(matches!(error, CudaError::Refused(_)), "{error}"),
                }
                std::thread::yield_now();
            }
        });
        assert!(launched >= 50);
    }
}

/// What graphs use and have reserved on the device, in bytes.
fn graph_memory(setup: &Setup) -> u64 {
    let functions = setup.driver.as_raw().functions();
    let mut used = 0u64;
    let attribute = grapture_sys::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT;
    // SAFETY: a device of the driver.
    let trimmed = unsafe { (functions.cuDeviceGraphMemTrim)(0) };
    // SAFETY: a device of the driver, and an out-pointer to what the attribute has.
    let code =
        unsafe { (functions.cuDeviceGetGraphMemAttribute)(0, attribute, (&raw mut used).cast()) };
    assert_eq!(trimmed.0, 0);
    assert_eq!(code.0, 0);
    used
}

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

#[test]
fn sim_nothing_is_left_of_a_graph_that_allocates() {
    let (sim, setup) = simulation(SimConfig::default());
    let before = sim.live().to_string();
    for body in [
        what_a_launch_leaves_is_taken,
        a_launch_is_refused_while_the_result_is_somebodys,
        an_executable_that_frees_by_itself_is_launched_again,
        what_nobody_can_take_is_freed_by_the_next_launch,
        results_are_released_in_every_order_of_drops,
        a_result_outlives_graph_and_executable,
        a_result_in_flight_is_taken_and_dropped,
    ] {
        body(&setup);
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while sim.live().to_string() != before {
            assert!(std::time::Instant::now() < limit, "{}\n{}", sim.live(), sim.leaks());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(graph_memory(&setup), 0);
    }
}

#[test]
fn sim_failures_of_a_launch_leave_the_result_as_it_was() {
    let (sim, setup) = simulation(SimConfig::default());
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let before = sim.live().to_string();
    {
        let (graph, output) = leaves(&stream, 7);
        let exec = graph.instantiate().unwrap();
        let unknown = Err(CudaError::from(CUDA_ERROR_UNKNOWN));
        for round in 0..6 {
            sim.fail(Function::cuGraphLaunch, 1, CUDA_ERROR_UNKNOWN);
            assert_eq!(exec.launch(&other), unknown);
            if round > 0 {
                // The release is ordered before the launch on the other stream.
                for function in
                    [Function::cuEventCreate, Function::cuEventRecord, Function::cuStreamWaitEvent]
                {
                    sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
                    let launched = [&stream, &other][round % 2];
                    assert_eq!(exec.launch(launched), unknown, "{function:?}");
                }
            }
            sim.clear_failures();
            exec.launch([&stream, &other][round % 2]).unwrap();
            for function in [Function::cuEventCreate, Function::cuEventRecord] {
                sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
                assert_eq!(output.take().map(drop), unknown, "{function:?}");
            }
            assert_eq!(output.take().unwrap().to_vec(&stream).unwrap(), [7; LEN]);
        }
    }
    setup.wait_until(|| sim.live().to_string() == before);
}
