//! Slots when a driver call fails, on old drivers, and over very many sets.

mod common;

use std::time::{Duration, Instant};

use common::Setup;
use common::gate::Gate;
use grapture::{
    BufferSlot, BufferSlotMut, CaptureMode, CudaError, CudaResult, DeviceBuffer, Driver, Graph,
    GraphExec, Slot, Stream,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_UNKNOWN, Function,
};

const SET_KERNEL: Function = Function::cuGraphExecKernelNodeSetParams_v2;

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

fn zeroed(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, 1).unwrap()
}

/// Whether everything is given back within 10 seconds.
fn is_clean_soon(sim: &Simulation) -> bool {
    let limit = Instant::now() + Duration::from_secs(10);
    while !sim.live().is_clean() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
    sim.live().is_clean()
}

/// `word = word * factor + value`, so many times.
fn steps(
    setup: &Setup,
    word: &mut BufferSlotMut<u32>,
    (factor, value): (&Slot<u32>, &Slot<u32>),
    count: usize,
    stream: &Stream,
) -> CudaResult<Graph> {
    let mul_add = setup.module.kernel("mul_add").unwrap();
    stream.capture(CaptureMode::ThreadLocal, |_| {
        (0..count).try_for_each(|_| {
            let launch = mul_add.launch_builder(1, 1).arg_mut(word).slot(factor).slot(value);
            // SAFETY: `mul_add` takes the address of a word and two values.
            unsafe { launch.launch(stream) }
        })
    })
}

/// What three steps make of 1.
fn three(factor: u32, value: u32) -> u32 {
    (0..3).fold(1, |word, _| word * factor + value)
}

fn run(exec: &GraphExec, words: [&mut DeviceBuffer<u32>; 2], stream: &Stream) -> [u32; 2] {
    let words = words.map(|word| {
        word.fill(1, stream).unwrap();
        word
    });
    exec.launch(stream).unwrap();
    words.map(|word| word.to_vec(stream).unwrap()[0])
}

/// The slots of three steps.
struct Slots<'a> {
    word: &'a BufferSlotMut<u32>,
    factor: Slot<u32>,
    value: Slot<u32>,
}

/// A set, and what it has the steps make of the two words and the values be.
type Set = fn(&mut GraphExec, &Slots<'_>, &mut DeviceBuffer<u32>) -> CudaResult<()>;

/// Three slots together, and each kind of slot by itself.
const SETS: [(Set, [u32; 2], (u32, u32)); 3] = [
    (
        |exec, slots, memory| {
            exec.patch().set(slots.word, memory).set(&slots.factor, 5).set(&slots.value, 7).apply()
        },
        [1, 342],
        (5, 7),
    ),
    (|exec, slots, memory| exec.set(slots.word, memory), [1, 29], (2, 3)),
    (|exec, slots, _| exec.set(&slots.factor, 5), [218, 1], (5, 3)),
];

/// Makes a set fail at its nth driver call; gives how many it makes.
fn fail_a_set(
    (set, words, values): (Set, [u32; 2], (u32, u32)),
    nth: Option<u64>,
    code: grapture_sys::CUresult,
) -> u64 {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(&setup), zeroed(&setup));
    let (mut word, factor, value) = (BufferSlotMut::new(&mut a), Slot::new(2), Slot::new(3));
    let graph = steps(&setup, &mut word, (&factor, &value), 3, &stream).unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    let before = sim.total_calls();
    if let Some(nth) = nth {
        sim.fail_any(nth, code);
    }
    let slots = Slots { word: &word, factor: factor.clone(), value: value.clone() };
    let set = set(&mut exec, &slots, &mut b);
    let made = sim.total_calls() - before;
    sim.clear_failures();
    let (words, values) = if set.is_ok() { (words, values) } else { ([three(2, 3), 1], (2, 3)) };
    assert_eq!(run(&exec, [&mut a, &mut b], &stream), words, "call {nth:?}: {set:?}");
    assert_eq!((exec.get(&factor).unwrap(), exec.get(&value).unwrap()), values);
    // The next set works.
    exec.patch().set(&word, &mut b).set(&factor, 1).set(&value, 1).apply().unwrap();
    assert_eq!(run(&exec, [&mut a, &mut b], &stream), [1, 4]);
    drop((exec, graph, word, a, b, stream, setup));
    assert!(is_clean_soon(&sim), "call {nth:?}: {}", sim.leaks());
    made
}

/// Fails each driver call of a set, one by one: all nodes have the old values or all the new ones.
#[test]
fn sim_a_set_that_fails_leaves_all_nodes() {
    for code in [CUDA_ERROR_UNKNOWN, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE] {
        for set in SETS {
            let calls = fail_a_set(set, None, code);
            assert!(calls >= 3);
            for nth in 1..=calls {
                fail_a_set(set, Some(nth), code);
            }
        }
    }
}

/// If the old values cannot be had back either, nothing runs until an update.
#[test]
fn sim_a_set_that_fails_twice_runs_nothing() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(&setup), zeroed(&setup));
    let (mut word, factor, value) = (BufferSlotMut::new(&mut a), Slot::new(2), Slot::new(3));
    let graph = steps(&setup, &mut word, (&factor, &value), 3, &stream).unwrap();
    let mut exec = graph.instantiate().unwrap();
    for nth in [3, 4] {
        sim.fail(SET_KERNEL, nth, CUDA_ERROR_UNKNOWN);
    }
    let set = exec.set(&word, &mut b);
    assert_eq!(set, Err(CudaError::UnknownError));
    sim.clear_failures();
    drop(b);
    let error = exec.launch(&stream).unwrap_err();
    assert!(error.to_string().contains("update it again"), "{error}");
    exec.update(&graph).unwrap();
    let mut c = zeroed(&setup);
    assert_eq!(run(&exec, [&mut a, &mut c], &stream), [three(2, 3), 1]);
    exec.set(&word, &mut c).unwrap();
    assert_eq!(run(&exec, [&mut a, &mut c], &stream), [1, three(2, 3)]);
    drop((exec, graph, word, a, c, stream, setup));
    assert!(is_clean_soon(&sim), "{}", sim.leaks());
}

/// The cost of a set is a call for each node that uses the slot.
#[test]
fn sim_a_set_makes_a_call_for_each_node() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let mut a = zeroed(&setup);
    let (mut word, factor, value) = (BufferSlotMut::new(&mut a), Slot::new(2), Slot::new(3));
    for count in [1, 10, 100] {
        let graph = steps(&setup, &mut word, (&factor, &value), count, &stream).unwrap();
        let mut exec = graph.instantiate().unwrap();
        let made = |sim: &Simulation| (sim.calls(SET_KERNEL), sim.total_calls());
        sim.reset_calls();
        exec.set(&factor, 4).unwrap();
        let (sets, all) = made(&sim);
        assert_eq!(sets, count as u64);
        // Which context is current is asked for once, and it is made current once.
        assert!(all <= sets + 4, "{all} calls");
        sim.reset_calls();
        exec.patch().set(&factor, 5).set(&value, 6).apply().unwrap();
        assert_eq!(made(&sim).0, count as u64, "a node with two slots is set once");
        let _current = setup.context.make_current().unwrap();
        sim.reset_calls();
        exec.set(&value, 7).unwrap();
        assert_eq!(made(&sim), (count as u64, count as u64 + 1));
    }
}

/// What the driver refuses is told, and changes nothing.
#[test]
fn sim_a_refusal_names_the_node() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(&setup), zeroed(&setup));
    let (mut word, factor, value) = (BufferSlotMut::new(&mut a), Slot::new(2), Slot::new(3));
    let graph = steps(&setup, &mut word, (&factor, &value), 3, &stream).unwrap();
    let mut exec = graph.into_exec().unwrap();
    sim.fail(SET_KERNEL, 2, CUDA_ERROR_INVALID_VALUE);
    let error = exec.set(&factor, 9).unwrap_err();
    sim.clear_failures();
    assert!(error.to_string().contains("node 1 of the graph, a kernel `mul_add`"), "{error}");
    assert_eq!(run(&exec, [&mut a, &mut b], &stream), [three(2, 3), 1]);
}

/// Fails each driver call of a captured operation with slots.
#[test]
fn sim_a_captured_launch_that_fails_leaves_no_capture() {
    for nth in 1..20 {
        let (sim, setup) = simulation(SimConfig::new());
        let stream = setup.stream();
        let (mut a, b) = (zeroed(&setup), zeroed(&setup));
        let mut word = BufferSlotMut::new(&mut a);
        let (factor, value, source) = (Slot::new(2), Slot::new(3), BufferSlot::new(&b));
        let mul_add = setup.module.kernel("mul_add").unwrap();
        let before = sim.total_calls();
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
        let captured = stream.capture(CaptureMode::ThreadLocal, |_| {
            word.copy_from(&source, &stream)?;
            word.fill(1, &stream)?;
            let launch = mul_add.launch_builder(1, 1).arg_mut(&mut word);
            // SAFETY: `mul_add` takes the address of a word and two values.
            unsafe { launch.slot(&factor).slot(&value).launch(&stream) }
        });
        let made = sim.total_calls() - before;
        sim.clear_failures();
        setup.assert_usable(&stream);
        if let Ok(graph) = &captured {
            let mut exec = graph.instantiate().unwrap();
            exec.set(&factor, 4).unwrap();
            exec.launch(&stream).unwrap();
            assert_eq!(a.to_vec(&stream).unwrap(), [7]);
        }
        drop((captured, word, source, a, b, mul_add, stream, setup));
        assert!(is_clean_soon(&sim), "call {nth}: {}", sim.leaks());
        if made < nth {
            return;
        }
    }
    panic!("a capture makes more calls than this");
}

/// Memory is let go of as soon as no launch can use it, and not before.
#[test]
fn sim_memory_is_let_go_of_after_the_last_launch() {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let (mut a, factor, value) = (zeroed(&setup), Slot::new(2), Slot::new(3));
    let mut word = BufferSlotMut::new(&mut a);
    let graph = steps(&setup, &mut word, (&factor, &value), 3, &stream).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let few = sim.live().device_allocations;
    let live = || {
        setup.driver.reclaim();
        sim.live().device_allocations - few
    };
    for _ in 0..3 {
        exec.set(&word, &mut zeroed(&setup)).unwrap();
        assert_eq!(live(), 1, "no launch has used the one before");
    }
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    let mut other = zeroed(&setup);
    exec.set(&word, &mut other).unwrap();
    assert_eq!(sim.live().device_allocations - few, 2, "the launch in flight has one");
    gate.open();
    stream.synchronize().unwrap();
    setup.wait_until(|| {
        setup.driver.reclaim();
        sim.live().device_allocations - few == 1
    });
    // An update lets go of what slots were set to, and so does the end.
    drop(other);
    exec.launch(&stream).unwrap();
    exec.update(&graph).unwrap();
    stream.synchronize().unwrap();
    setup.wait_until(|| {
        setup.driver.reclaim();
        sim.live().device_allocations == few
    });
    exec.set(&word, &mut zeroed(&setup)).unwrap();
    exec.launch(&stream).unwrap();
    drop((exec, graph));
    stream.synchronize().unwrap();
    setup.wait_until(|| {
        setup.driver.reclaim();
        sim.live().device_allocations == few
    });
}

fn set_many(rounds: usize) {
    let (sim, setup) = simulation(SimConfig::new());
    let stream = setup.stream();
    let (mut a, factor, value) = (zeroed(&setup), Slot::new(1), Slot::new(0));
    let mut word = BufferSlotMut::new(&mut a);
    let graph = steps(&setup, &mut word, (&factor, &value), 1, &stream).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let mut kept = [zeroed(&setup), zeroed(&setup)];
    let mut resident = Vec::new();
    for round in 0..rounds {
        match round % 4 {
            0 => exec.set(&word, &mut zeroed(&setup)).unwrap(),
            1 | 2 => exec.set(&word, &mut kept[round % 2]).unwrap(),
            _ => exec.set(&value, round as u32).unwrap(),
        }
        if round % 3 == 0 {
            exec.launch(&stream).unwrap();
        }
        if round % (rounds / 10) == 0 {
            stream.synchronize().unwrap();
            // The three that are kept here, and what the slot is set to.
            setup.wait_until(|| {
                setup.driver.reclaim();
                sim.live().device_allocations <= 4
            });
            resident.push(resident_kib());
        }
    }
    assert!(resident[9] < resident[2] + 16 * 1024, "{resident:?}");
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn sim_memory_is_flat_over_many_sets() {
    set_many(20_000);
}

#[test]
#[ignore = "a million sets take a while: run by name"]
fn sim_memory_is_flat_over_a_million_sets() {
    set_many(1_000_000);
}

/// Slots on old drivers: kernels from 10.1 on, in captures from 11.3 on.
#[test]
fn sim_old_drivers_set_what_they_can() {
    for (version, captures, sets) in
        [(10_000, false, false), (10_010, false, true), (11_000, false, true), (11_030, true, true)]
    {
        let (_sim, setup) = simulation(SimConfig::new().driver_version(version));
        let stream = setup.stream();
        let mut a = zeroed(&setup);
        let (mut word, factor, value) = (BufferSlotMut::new(&mut a), Slot::new(2), Slot::new(3));
        let captured = steps(&setup, &mut word, (&factor, &value), 1, &stream).map(drop);
        let not_supported = Err(CudaError::NotSupported);
        assert_eq!(captured, if captures { Ok(()) } else { not_supported.clone() }, "{version}");
        let mul_add = setup.module.kernel("mul_add").unwrap();
        let mut graph = Graph::new(&setup.context).unwrap();
        let launch = mul_add.launch_builder(1, 1).arg_mut(&mut word).slot(&factor).slot(&value);
        // SAFETY: `mul_add` takes the address of a word and two values.
        unsafe { graph.add_kernel(launch, &[]) }.unwrap();
        let mut exec = graph.instantiate().unwrap();
        let set = exec.set(&value, 9);
        assert_eq!(set, if sets { Ok(()) } else { not_supported }, "{version}");
        exec.launch(&stream).unwrap();
        assert_eq!(a.to_vec(&stream).unwrap(), [if sets { 9 } else { 3 }], "{version}");
    }
}
