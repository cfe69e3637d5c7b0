//! Updates of executables when a driver call fails, on old drivers, and over very many rounds.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::Setup;
use common::counted::{Token, counter};
use common::gate::Gate;
use grapture::{
    CaptureMode, CudaError, DeviceBuffer, Driver, FillNode, Graph, NodeId, Outcome, Stream,
    UpdateOptions, UpdateReason,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, Function};

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

/// Whether everything is given back within 10 seconds, but for so many executables.
fn is_clean_soon(sim: &Simulation, execs: usize) -> bool {
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let mut live = sim.live();
        if live.execs <= execs {
            live.execs = 0;
        }
        if live.is_clean() || Instant::now() > limit {
            return live.is_clean();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A graph that adds to the word so many times, and owns a token.
fn adding(
    setup: &Setup,
    word: &mut DeviceBuffer<u32>,
    (value, times): (u32, usize),
    dropped: &Arc<AtomicUsize>,
) -> Graph {
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::Relaxed, |cap| {
        cap.retain(Token(dropped.clone()));
        (0..times).try_for_each(|_| setup.add(word, value, &stream))
    });
    graph.unwrap()
}

/// Makes an update fail at its nth driver call; gives how many it makes.
fn fail_an_update(strict: bool, nth: Option<u64>) -> u64 {
    let (sim, setup) = simulation(SimConfig::new());
    let dropped = counter();
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let old = adding(&setup, &mut word, (1, 1), &dropped);
    let new = adding(&setup, &mut word, (10, 2), &dropped);
    let mut exec = old.instantiate().unwrap();
    drop(old);
    exec.launch(&stream).unwrap();
    let before = sim.total_calls();
    if let Some(nth) = nth {
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
    }
    let outcome = exec.update_with(&new, UpdateOptions::new().strict(strict));
    let made = sim.total_calls() - before;
    sim.clear_failures();
    exec.launch(&stream).unwrap();
    let rebuilt = matches!(outcome, Ok(Outcome::Rebuilt { .. }));
    let sum = word.to_vec(&stream).unwrap()[0];
    assert_eq!(sum, if rebuilt { 21 } else { 2 }, "call {nth:?}: {outcome:?}");
    drop((exec, new));
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 2);
    drop((stream, word, setup));
    // One that could not be destroyed is reported.
    let lost = usize::from(nth.is_some());
    assert!(is_clean_soon(&sim, lost), "call {nth:?}: {}", sim.leaks());
    made
}

/// Fails each driver call of an update, one by one: the executable does the old work or the new,
/// all of it, and nothing is leaked.
#[test]
fn sim_an_update_that_fails_leaves_an_executable() {
    for strict in [false, true] {
        let calls = fail_an_update(strict, None);
        assert!(calls >= 1);
        for nth in 1..=calls {
            fail_an_update(strict, Some(nth));
        }
    }
}

/// What cannot be waited for is leaked, also when it is replaced later than the launch's last mark.
#[test]
fn sim_what_was_replaced_and_cannot_be_waited_for_is_leaked() {
    for failing in [Function::cuEventRecord, Function::cuEventCreate, Function::cuEventQuery] {
        let (sim, setup) = simulation(SimConfig::new());
        let stream = setup.stream();
        let tokens = [counter(), counter(), counter()];
        let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let mut exec = adding(&setup, &mut word, (1, 1), &tokens[0]).instantiate().unwrap();
        let gate = Gate::new();
        gate.hold(&stream);
        exec.launch(&stream).unwrap();
        // A mark that fails is tried again.
        for nth in [1, 2] {
            sim.fail(failing, nth, CUDA_ERROR_UNKNOWN);
        }
        exec.update(&adding(&setup, &mut word, (2, 1), &tokens[1])).unwrap();
        setup.driver.reclaim();
        sim.clear_failures();
        exec.launch(&stream).unwrap();
        exec.update(&adding(&setup, &mut word, (4, 1), &tokens[2])).unwrap();
        gate.open();
        assert_eq!(word.to_vec(&stream).unwrap(), [3], "{failing:?}");
        // The second launch is marked again.
        setup.wait_until(|| tokens[1].load(Ordering::SeqCst) == 1);
        let dropped = tokens.each_ref().map(|token| token.load(Ordering::SeqCst));
        assert_eq!(dropped, [0, 1, 0], "{failing:?}");
    }
}

/// Drivers before 10.2 cannot update, and those before 12.0 say less: that there are more nodes is
/// an update that is not supported, as the old call answers on an H200 too.
#[test]
fn sim_old_drivers_update_or_make_anew() {
    for (version, updates) in [(10_010, false), (10_020, true), (11_000, true), (11_020, true)] {
        let (_sim, setup) = simulation(SimConfig::new().driver_version(version));
        let stream = setup.stream();
        let dropped = counter();
        let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let first = adding(&setup, &mut word, (1, 1), &dropped);
        let second = adding(&setup, &mut word, (5, 1), &dropped);
        let longer = adding(&setup, &mut word, (20, 2), &dropped);
        let mut exec = first.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let strict = UpdateOptions::new().strict(true);
        if updates {
            assert_eq!(exec.update(&second).unwrap(), Outcome::Updated { changed: 1 });
            let error = exec.update_with(&longer, strict).unwrap_err();
            let CudaError::Update(error) = error else { panic!("{error:?}") };
            assert_eq!(error.reason(), UpdateReason::NotSupported);
        } else {
            assert_eq!(exec.update_with(&second, strict), Err(CudaError::NotSupported));
            let outcome = exec.update(&second).unwrap();
            let reason = UpdateReason::NotSupported;
            assert_eq!(outcome, Outcome::Rebuilt { reason, node: None });
        }
        exec.launch(&stream).unwrap();
        assert!(matches!(exec.update(&longer).unwrap(), Outcome::Rebuilt { .. }));
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [46], "{version}");
        drop((first, second, longer, exec));
        setup.wait_until(|| dropped.load(Ordering::SeqCst) == 3);
    }
}

/// An update makes one driver call, and the release of what it replaced a few for very many.
#[test]
fn sim_an_update_makes_one_driver_call() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let dropped = counter();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut graphs: Vec<_> =
        (0..300).map(|value| adding(&setup, &mut word, (value, 1), &dropped)).collect();
    let mut exec = graphs.pop().unwrap().instantiate().unwrap();
    setup.driver.reclaim();
    sim.pause();
    sim.reset_calls();
    let (mut updates, mut launches) = (0, 0);
    for graph in &graphs {
        exec.launch(&stream).unwrap();
        exec.update(graph).unwrap();
        (updates, launches) = (updates + 1, launches + 1);
    }
    assert_eq!(sim.calls(Function::cuGraphExecUpdate_v2), updates);
    assert_eq!(sim.calls(Function::cuGraphLaunch), launches);
    let events = sim.calls(Function::cuEventRecord) + sim.calls(Function::cuEventCreate);
    assert!(events <= 2, "one group waits, whatever there is: {events}");
    sim.resume();
    drop(exec);
}

/// Memory over a million updates; half a minute, so not among the others.
#[test]
#[ignore = "a million updates take a while: run by name"]
fn sim_memory_is_flat_over_a_million_updates() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let dropped = counter();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut exec = adding(&setup, &mut word, (1, 1), &dropped).instantiate().unwrap();
    let (mut most, mut resident) = (0, Vec::new());
    for round in 1..=1_000_000_usize {
        exec.update(&adding(&setup, &mut word, (1, 1), &dropped)).unwrap();
        exec.launch(&stream).unwrap();
        most = most.max(round + 1 - dropped.load(Ordering::SeqCst));
        if round % 100_000 == 0 {
            setup.wait_until(|| dropped.load(Ordering::SeqCst) == round);
            resident.push((sim.live(), resident_kib()));
        }
    }
    eprintln!("at most {most} owners at once; {resident:?}");
    let (first, last) = (&resident[1], &resident[9]);
    assert_eq!(first.0, last.0);
    assert!(last.1 < first.1 + 16 * 1024, "{resident:?}");
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A graph of so many fills, one after the other.
fn fills(setup: &Setup, buffers: &mut [DeviceBuffer<u32>]) -> (Graph, Vec<NodeId>) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut nodes: Vec<NodeId> = vec![];
    for buffer in buffers {
        let after: Vec<_> = nodes.last().copied().into_iter().collect();
        nodes.push(graph.add_fill(FillNode::new(buffer, 1).unwrap(), &after).unwrap());
    }
    (graph, nodes)
}

fn buffers(setup: &Setup, count: usize) -> Vec<DeviceBuffer<u32>> {
    (0..count).map(|_| DeviceBuffer::zeroed(&setup.context, 1).unwrap()).collect()
}

fn read(buffers: &[DeviceBuffer<u32>], stream: &Stream) -> Vec<u32> {
    buffers.iter().map(|buffer| buffer.to_vec(stream).unwrap()[0]).collect()
}

/// What an update costs is a call for each changed node, and one to read it.
#[test]
fn sim_an_executable_follows_with_a_call_for_each_changed_node() {
    let (sim, setup) = simulation(SimConfig::new());
    let mut buffers = buffers(&setup, 100);
    let (mut graph, nodes) = fills(&setup, &mut buffers);
    let mut exec = graph.instantiate().unwrap();
    for changed in [0, 1, 7] {
        for index in 0..changed {
            let fill = FillNode::new(&mut buffers[index], 9).unwrap();
            graph.node_mut(nodes[index]).unwrap().set_fill(fill).unwrap();
        }
        sim.reset_calls();
        assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed });
        assert_eq!(sim.calls(Function::cuGraphExecMemsetNodeSetParams), changed as u64);
        assert_eq!(sim.calls(Function::cuGraphExecUpdate_v2), 0);
        // The node's kind and its parameters; the context once for all of them.
        let others = sim.total_calls() - changed as u64;
        assert!(others <= 2 * changed as u64 + 4 * u64::from(changed > 0), "{others}");
    }
}

/// An update that fails at a later node makes the executable anew, and if that fails too it is not
/// launched until an update succeeds.
#[test]
fn sim_an_update_that_stops_half_way_runs_nothing() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let mut buffers = buffers(&setup, 20);
    let (mut graph, nodes) = fills(&setup, &mut buffers);
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    let change = |buffers: &mut [DeviceBuffer<u32>], graph: &mut Graph, value| {
        for index in 0..3 {
            let fill = FillNode::new(&mut buffers[index], value).unwrap();
            graph.node_mut(nodes[index]).unwrap().set_fill(fill).unwrap();
        }
    };
    change(&mut buffers, &mut graph, 2);
    sim.fail(Function::cuGraphExecMemsetNodeSetParams, 2, CUDA_ERROR_UNKNOWN);
    let reason = UpdateReason::ParametersChanged;
    let outcome = exec.update(&graph).unwrap();
    assert_eq!(outcome, Outcome::Rebuilt { reason, node: Some(nodes[1]) });
    exec.launch(&stream).unwrap();
    assert_eq!(read(&buffers, &stream)[..4], [2, 2, 2, 1]);

    change(&mut buffers, &mut graph, 3);
    sim.fail(Function::cuGraphExecMemsetNodeSetParams, 3, CUDA_ERROR_UNKNOWN);
    for function in [Function::cuGraphInstantiateWithFlags, Function::cuGraphInstantiateWithParams]
    {
        sim.fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    }
    let error = exec.update(&graph).unwrap_err();
    assert!(matches!(error, CudaError::Instantiate(_)), "{error:?}");
    assert_eq!(
        exec.launch(&stream).unwrap_err().to_string(),
        "exec: an update failed when some nodes had new parameters, and it could not be made anew: \
         update it again"
    );
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 20 });
    exec.launch(&stream).unwrap();
    assert_eq!(read(&buffers, &stream)[..4], [3, 3, 3, 1]);

    // A strict update gives them all at once, which the driver does or does not.
    change(&mut buffers, &mut graph, 4);
    sim.fail(Function::cuGraphExecMemsetNodeSetParams, 1, CUDA_ERROR_UNKNOWN);
    let strict = UpdateOptions::new().strict(true);
    assert_eq!(exec.update_with(&graph, strict).unwrap(), Outcome::Updated { changed: 20 });
}

/// Nodes of executables on old drivers: what they can, and what they say of the rest.
#[test]
fn sim_old_drivers_change_what_they_can() {
    let versions = [(10_000, false, false), (10_010, false, false), (10_020, true, false)];
    for (version, fills_change, switches) in
        versions.into_iter().chain([(11_000, true, false), (11_060, true, true)])
    {
        let (_sim, setup) = simulation(SimConfig::new().driver_version(version));
        let stream = setup.stream();
        let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
        let mut graph = Graph::new(&setup.context).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
        let add = setup.module.kernel("add").unwrap();
        let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        let kernel = unsafe { graph.add_kernel(launch, &[fill]) }.unwrap();
        let mut exec = graph.into_exec().unwrap();
        let changed = exec.node(fill).unwrap().set_fill(FillNode::new(&mut word, 7).unwrap());
        let not_supported = Err(CudaError::NotSupported);
        assert_eq!(changed, if fills_change { Ok(()) } else { not_supported.clone() });
        let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(10u32);
        // SAFETY: as above.
        let changed = unsafe { exec.node(kernel).unwrap().set_kernel(launch) };
        assert_eq!(changed, if version >= 10_010 { Ok(()) } else { not_supported.clone() });
        let off = exec.node(kernel).unwrap().set_enabled(false);
        assert_eq!(off, if switches { Ok(()) } else { not_supported });
        exec.launch(&stream).unwrap();
        let sum = if fills_change { 7 } else { 1 }
            + match (version >= 10_010, switches) {
                (_, true) => 0,
                (true, false) => 10,
                (false, false) => 1,
            };
        assert_eq!(word.to_vec(&stream).unwrap(), [sum], "{version}");
    }
}

/// Fails each driver call of a change of a node, one by one.
#[test]
fn sim_a_change_that_fails_leaves_the_node() {
    for nth in 1..10 {
        let (sim, setup) = simulation(SimConfig::new());
        let stream = setup.stream();
        let mut words = buffers(&setup, 2);
        let mut graph = Graph::new(&setup.context).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut words[0], 1).unwrap(), &[]).unwrap();
        let mut exec = graph.into_exec().unwrap();
        exec.launch(&stream).unwrap();
        let new = FillNode::new(&mut words[1], 2).unwrap();
        let before = sim.total_calls();
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
        let changed = exec.node(fill).unwrap().set_fill(new);
        let made = sim.total_calls() - before;
        sim.clear_failures();
        exec.launch(&stream).unwrap();
        let expected = if changed.is_ok() { [1, 2] } else { [1, 0] };
        assert_eq!(read(&words, &stream), expected, "call {nth}: {changed:?}");
        drop((exec, words, stream));
        drop(setup);
        assert!(is_clean_soon(&sim, 0), "call {nth}: {}", sim.leaks());
        if made < nth {
            return;
        }
    }
    panic!("a change makes more calls than this");
}
