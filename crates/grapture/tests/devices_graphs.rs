//! Graphs whose nodes run on several devices, which only the simulated driver is sure to have.

mod common;

use common::gate::Gate;
use common::places::{Place, assert_clean, places};
use grapture::{
    BatchNode, CacheLimits, CaptureMode, CopyNode, CudaError, CudaResult, DeviceBuffer, Event,
    FillNode, Graph, GraphCache, Kernel, NodeId, NodeKind, Outcome, Region2d, Stream,
    UpdateOptions, UpdateReason, WordCondition,
};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

fn add(place: &Place) -> Kernel {
    place.module.kernel("add").unwrap()
}

/// A node that adds to a word of the place.
fn add_node(
    graph: &mut Graph,
    place: &Place,
    word: &mut DeviceBuffer<u32>,
    after: &[NodeId],
) -> NodeId {
    let kernel = add(place);
    let launch = kernel.launch_builder(1, 1).arg_mut(word).value(1u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.add_kernel(launch, after) }.unwrap()
}

/// Copies from the second memory to the first.
fn from_the_second(words: &mut [DeviceBuffer<u32>]) -> CopyNode {
    let (first, rest) = words.split_at_mut(1);
    CopyNode::device(&mut first[0], &rest[0]).unwrap()
}

/// Every device adds to words of its own, and the first one gathers the sums: captured, whatever
/// context is current on the thread.
#[test]
fn sim_a_capture_forks_over_all_devices() {
    for devices in [2, 8] {
        let (sim, places) = places(devices);
        let mut words: Vec<_> = places.iter().map(|place| place.upload(&[100])).collect();
        let mut sums = places[0].upload(&vec![0; devices]);
        let sides: Vec<&Stream> = places.iter().skip(1).map(|place| &place.stream).collect();
        let graph = {
            let _current = places[devices - 1].context.make_current().unwrap();
            places[0].stream.capture(CaptureMode::ThreadLocal, |_| {
                places[0].stream.fork(&sides, || {
                    places
                        .iter()
                        .zip(&mut words)
                        .enumerate()
                        .try_for_each(|(index, (place, word))| place.add(word, index as u32))
                })?;
                words.iter().enumerate().try_for_each(|(index, word)| {
                    let mut sum = sums.view_mut(index..=index)?;
                    sum.copy_from(word, &places[0].stream)
                })
            })
        };
        let graph = graph.unwrap();
        assert_eq!(graph.node_count().unwrap(), 2 * devices);
        assert_eq!(graph.roots().unwrap().len(), devices, "nothing orders the devices before");
        let exec = {
            let _current = places[1].context.make_current().unwrap();
            graph.instantiate().unwrap()
        };
        drop((graph, words));
        for round in 1..=3 {
            let _current = places[round as usize % devices].context.make_current().unwrap();
            exec.launch(&places[0].stream).unwrap();
            let expected: Vec<u32> = (0..devices as u32).map(|index| 100 + round * index).collect();
            assert_eq!(places[0].read(&sums), expected);
        }
        drop((exec, sums));
        assert_clean(&sim, places);
    }
}

/// The same, built by hand: each node runs in the context of its kernel or its memory.
#[test]
fn sim_a_built_graph_has_nodes_of_all_devices() {
    for devices in [2, 8] {
        let (sim, places) = places(devices);
        let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0; 2])).collect();
        let mut sums = places[0].upload(&vec![0; devices]);
        let events: Vec<_> =
            places.iter().map(|place| Event::new(&place.context).unwrap()).collect();
        let mut graph = Graph::new(&places[0].context).unwrap();
        for (index, place) in places.iter().enumerate() {
            let word = &mut words[index];
            let fill = graph.add_fill(FillNode::new(word, index as u32).unwrap(), &[]).unwrap();
            let added = add_node(&mut graph, place, word, &[fill]);
            let flag = BatchNode::new(&place.context);
            let flag = flag.write(&mut word.view_mut(1..).unwrap(), 9u32).unwrap();
            let flag = graph.add_batch(flag, &[added]).unwrap();
            let mut sum = sums.view_mut(index..=index).unwrap();
            let copy = CopyNode::device(&mut sum, &word.view(..1).unwrap()).unwrap();
            let copy = graph.add_copy(copy, &[flag]).unwrap();
            graph.add_event_record(&events[index], &[copy]).unwrap();
        }
        let exec = {
            let _current = places[devices - 1].context.make_current().unwrap();
            graph.instantiate().unwrap()
        };
        drop(graph);
        exec.launch(&places[0].stream).unwrap();
        let expected: Vec<u32> = (1..=devices as u32).collect();
        assert_eq!(places[0].read(&sums), expected);
        for (index, place) in places.iter().enumerate() {
            assert!(events[index].is_complete().unwrap());
            assert_eq!(place.read(&words[index]), [index as u32 + 1, 9]);
        }
        drop((exec, sums, words, events));
        assert_clean(&sim, places);
    }
}

/// An executable keeps the context of every device that it runs on, and what is there.
#[test]
fn sim_an_executable_keeps_all_its_devices() {
    let (sim, mut places) = places(3);
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[1])).collect();
    let mut result = places[0].upload(&[0]);
    let mut graph = Graph::new(&places[0].context).unwrap();
    let first = add_node(&mut graph, &places[1], &mut words[1], &[]);
    let second = add_node(&mut graph, &places[2], &mut words[2], &[first]);
    graph.add_copy(CopyNode::device(&mut result, &words[1]).unwrap(), &[second]).unwrap();
    let exec = graph.instantiate().unwrap();
    drop((graph, words));
    drop(places.split_off(1));
    places[0].context.driver().reclaim();
    let gate = Gate::new();
    gate.hold(&places[0].stream);
    exec.launch(&places[0].stream).unwrap();
    drop(exec);
    gate.open();
    assert_eq!(places[0].read(&result), [2]);
    drop(result);
    assert_clean(&sim, places);
}

/// Each device has its own executables and its own cache, used by one thread in turn.
#[test]
fn sim_one_thread_drives_a_cache_for_each_device() {
    let (sim, places) = places(8);
    let caches: Vec<_> = places
        .iter()
        .map(|place| GraphCache::<u32>::new(&place.context, CacheLimits::new()))
        .collect();
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0])).collect();
    for round in 0..3 {
        for key in [1, 10] {
            for ((place, cache), word) in places.iter().zip(&caches).zip(&mut words) {
                let exec =
                    cache.get_or_capture(key, &place.stream, |_| place.add(word, key)).unwrap();
                exec.launch(&place.stream).unwrap();
                let other = places.iter().find(|other| other.context != place.context).unwrap();
                assert!(refusal(exec.launch(&other.stream)).starts_with("stream: it belongs to"));
            }
        }
        for (place, word) in places.iter().zip(&words) {
            assert_eq!(place.read(word), [11 * (round + 1)]);
        }
    }
    for cache in &caches {
        assert_eq!((cache.counters().captures, cache.counters().hits), (2, 4));
    }
    drop((caches, words));
    assert_clean(&sim, places);
}

/// A copy between two devices runs at once, on a stream of either, and its memory is not released
/// before it is done.
#[test]
fn sim_memory_of_a_copy_between_devices_outlives_it() {
    for stream in [0, 1] {
        let (sim, places) = places(2);
        let (mut here, there) = (places[0].upload(&[0; 4]), places[1].upload(&[1, 2, 3, 4]));
        let gate = Gate::new();
        gate.hold(&places[stream].stream);
        here.copy_from(&there, &places[stream].stream).unwrap();
        let held = sim.live().device_allocations;
        drop(there);
        places[0].context.driver().reclaim();
        assert_eq!(sim.live().device_allocations, held, "the copy has still to read it");
        gate.open();
        places[stream].stream.synchronize().unwrap();
        assert_eq!(places[0].read(&here), [1, 2, 3, 4]);
        // And a part, the other way.
        let mut back = places[1].upload(&[0; 2]);
        back.copy_from(&here.view(2..).unwrap(), &places[stream].stream).unwrap();
        places[stream].stream.synchronize().unwrap();
        assert_eq!(places[1].read(&back), [3, 4]);
        drop((here, back));
        assert_clean(&sim, places);
    }
}

#[test]
fn sim_copies_between_devices_that_cannot_be_are_refused() {
    let (sim, places) = places(3);
    let (mut here, there) = (places[0].upload(&[0; 4]), places[1].upload(&[1; 4]));
    let third = &places[2].stream;
    assert!(refusal(here.copy_from(&there, third)).starts_with("memory: it belongs to another"));
    let short = there.view(..3).unwrap();
    assert!(refusal(here.copy_from(&short, &places[0].stream)).starts_with("copy.len"));
    let ordered = DeviceBuffer::<u32>::alloc_async(&places[1].stream, 4).unwrap();
    let alone = "memory: memory that was allocated in the order of a stream, or by a graph, is for \
                 its own context alone: copy it there to memory from `alloc` first";
    assert_eq!(refusal(here.copy_from(&ordered, &places[0].stream)), alone);
    assert_eq!(refusal(CopyNode::device(&mut here, &ordered)), alone);
    let (row, mut third) = (Region2d::new(4, 1), places[2].upload(&[0; 4]));
    let elsewhere = here.copy_2d_from(row, &there, row, &places[2].stream);
    assert!(refusal(elsewhere).starts_with("memory: it belongs to another"));
    assert_eq!(refusal(here.copy_2d_from(row, &ordered, row, &places[0].stream)), alone);
    let long = here.copy_2d_from(row, &there, Region2d::new(5, 1), &places[0].stream);
    assert!(refusal(long).starts_with("copy.source_region"));
    third.copy_2d_from(row, &there, row, &places[2].stream).unwrap();
    assert_eq!(places[2].read(&third), [1; 4]);
    let (empty, mut none) = (places[1].upload(&[]), places[0].upload(&[]));
    none.copy_from(&empty, &places[0].stream).unwrap();
    // Another driver has nothing to do with it.
    let (other_sim, others) = common::places::places(1);
    let foreign = others[0].upload(&[1; 4]);
    assert!(refusal(here.copy_from(&foreign, &places[0].stream)).starts_with("memory: it belongs"));
    assert!(refusal(CopyNode::device(&mut here, &foreign)).starts_with("copy.source: it belongs"));
    drop(foreign);
    assert_clean(&other_sim, others);
    drop((here, there, third, ordered, empty, none));
    assert_clean(&sim, places);
}

/// Whichever call fails, nothing is left over and the next copy works.
#[test]
fn sim_a_copy_between_devices_may_fail() {
    for captured in [false, true] {
        for nth in 1.. {
            let (sim, places) = places(2);
            let (mut here, there) = (places[0].upload(&[0; 4]), places[1].upload(&[1; 4]));
            let calls = sim.total_calls();
            sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
            let stream = &places[0].stream;
            let copied = match captured {
                false => here.copy_from(&there, stream),
                true => stream
                    .capture(CaptureMode::ThreadLocal, |_| here.copy_from(&there, stream))
                    .map(drop),
            };
            let made = sim.total_calls() - calls;
            sim.clear_failures();
            here.copy_from(&there, stream).unwrap();
            assert_eq!(places[0].read(&here), [1; 4], "call {nth}: {copied:?}");
            drop((here, there));
            if nth > made {
                copied.unwrap();
                assert_clean(&sim, places);
                break;
            }
            places[0].context.driver().reclaim();
        }
    }
}

/// A node is changed to memory, and to a kernel, of the device on which it runs. An executable is
/// made anew for another one.
#[test]
fn sim_changes_of_the_device_of_a_node() {
    let (sim, places) = places(2);
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0; 2])).collect();
    let mut others: Vec<_> = places.iter().map(|place| place.upload(&[0; 2])).collect();
    let mut graph = Graph::new(&places[0].context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut words[1], 5).unwrap(), &[]).unwrap();
    let kernel = add_node(&mut graph, &places[1], &mut words[1], &[fill]);
    let copy = from_the_second(&mut words);
    let copy = graph.add_copy(copy, &[kernel]).unwrap();
    for _ in 0..16 {
        graph.add_empty(&[]).unwrap();
    }
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&places[0].stream).unwrap();
    assert_eq!(places[0].read(&words[0]), [6, 5]);

    // In the executable, on its own device.
    let there = add(&places[1]);
    let launch = there.launch_builder(1, 1).arg_mut(&mut others[1]).value(10u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { exec.node_of(&graph, kernel).unwrap().set_kernel(launch) }.unwrap();
    let node = FillNode::new(&mut others[1], 7).unwrap();
    exec.node_of(&graph, fill).unwrap().set_fill(node).unwrap();
    let node = from_the_second(&mut others);
    exec.node_of(&graph, copy).unwrap().set_copy(node).unwrap();
    exec.launch(&places[0].stream).unwrap();
    assert_eq!(places[0].read(&others[0]), [17, 7]);

    // A kernel of another device.
    let here = add(&places[0]);
    let launch = here.launch_builder(1, 1).arg_mut(&mut others[0]).value(1u32);
    // SAFETY: as above.
    let set = unsafe { exec.node_of(&graph, kernel).unwrap().set_kernel(launch) };
    assert_eq!(
        refusal(set),
        "kernel: it belongs to another context than the node, which keeps its own in an \
         executable: change the node in the graph, and update the executable from there"
    );
    let launch = here.launch_builder(1, 1).arg_mut(&mut others[0]).value(1u32);
    // SAFETY: as above.
    unsafe { graph.node_mut(kernel).unwrap().set_kernel(launch) }.unwrap();
    let strict = exec.update_with(&graph, UpdateOptions::new().strict(true));
    let Err(CudaError::Update(error)) = strict else { panic!("{strict:?}") };
    assert_eq!(error.node(), Some(kernel));
    let outcome = exec.update(&graph).unwrap();
    assert!(matches!(outcome, Outcome::Rebuilt { .. }), "{outcome:?}");
    // The graph's other nodes fill and copy as it says.
    for (node, value) in
        [(FillNode::new(&mut others[0], 3), 4), (FillNode::new(&mut others[1], 8), 8)]
    {
        graph.node_mut(fill).unwrap().set_fill(node.unwrap()).unwrap();
        let node = CopyNode::device(&mut words[1], &others[(value == 8) as usize]).unwrap();
        graph.node_mut(copy).unwrap().set_copy(node).unwrap();
        exec.update(&graph).unwrap();
        exec.launch(&places[0].stream).unwrap();
        places[0].stream.synchronize().unwrap();
        assert_eq!(places[1].read(&words[1])[0], value);
    }
    drop((graph, exec, words, others, here, there));
    assert_clean(&sim, places);
}

/// Recorded again with the same devices a graph is an update; with others it is made anew.
#[test]
fn sim_captures_over_devices_update_one_another() {
    let (sim, places) = places(3);
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0])).collect();
    let mut record = |side: usize, value: u32| {
        let stream = &places[0].stream;
        let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
            stream.fork(&[&places[side].stream], || places[side].add(&mut words[side], value))
        });
        graph.unwrap()
    };
    let mut exec = record(1, 1).instantiate().unwrap();
    let outcome = exec.update(&record(1, 10)).unwrap();
    assert!(matches!(outcome, Outcome::Updated { .. }), "{outcome:?}");
    exec.launch(&places[0].stream).unwrap();
    let outcome = exec.update(&record(2, 100)).unwrap();
    let Outcome::Rebuilt { reason, node } = outcome else { panic!("{outcome:?}") };
    assert_eq!((reason, node.is_some()), (UpdateReason::UnsupportedFunctionChange, true));
    exec.launch(&places[0].stream).unwrap();
    places[0].stream.synchronize().unwrap();
    assert_eq!([places[1].read(&words[1]), places[2].read(&words[2])], [[10], [100]]);
    // The graph of another device's stream is not an update at all.
    let mut other = places[1].upload(&[0]);
    let graph =
        places[1].stream.capture(CaptureMode::ThreadLocal, |_| places[1].add(&mut other, 1));
    let graph = graph.unwrap();
    assert!(refusal(exec.update(&graph)).starts_with("graph: it belongs to another context"));
    drop((exec, words, other, graph));
    assert_clean(&sim, places);
}

/// The driver has nodes of one context in a body.
#[test]
fn sim_a_body_has_nodes_of_one_device() {
    let (sim, places) = places(2);
    let flag = places[0].upload(&[1]);
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0])).collect();
    let condition = WordCondition::new(&flag).unwrap();
    let mut graph = Graph::new(&places[0].context).unwrap();
    let added = graph.add_if(&condition, &[], |body| {
        let [here, there] = &mut words[..] else { panic!("two") };
        let node = FillNode::new(there, 1).unwrap();
        assert!(
            refusal(body.add_fill(node, &[]))
                .starts_with("fill: it belongs to another context than the body")
        );
        let kernel = add(&places[1]);
        let launch = kernel.launch_builder(1, 1).arg_mut(there).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        let kernel = unsafe { body.add_kernel(launch, &[]) };
        assert!(refusal(kernel).starts_with("kernel: it belongs to another context than the body"));
        body.add_fill(FillNode::new(here, 2).unwrap(), &[]).map(|_| ())
    });
    added.unwrap();
    graph.instantiate().unwrap().launch(&places[0].stream).unwrap();
    assert_eq!(places[0].read(&words[0]), [2]);
    drop((graph, condition, flag, words));
    assert_clean(&sim, places);
}

/// Nodes within a graph of another device are changed as any.
#[test]
fn sim_nodes_within_a_child_of_another_device_are_changed() {
    let (sim, places) = places(2);
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0; 8])).collect();
    let mut other = places[1].upload(&[0; 8]);
    let mut child = Graph::new(&places[1].context).unwrap();
    let fill = child.add_fill(FillNode::new(&mut words[1], 1).unwrap(), &[]).unwrap();
    let copy = from_the_second(&mut words);
    child.add_copy(copy, &[fill]).unwrap();
    for _ in 0..8 {
        child.add_empty(&[]).unwrap();
    }
    let mut graph = Graph::new(&places[0].context).unwrap();
    let node = graph.add_child(&child, &[]).unwrap();
    let names: Vec<_> = graph.node(node).unwrap().child_nodes().unwrap();
    assert_eq!((names[0].kind(), names[1].kind()), (NodeKind::Memset, NodeKind::Memcpy));
    let mut exec = graph.instantiate().unwrap();
    let change = FillNode::new(&mut words[1], 2).unwrap();
    exec.node_of(&graph, names[0].id()).unwrap().set_fill(change).unwrap();
    exec.launch(&places[0].stream).unwrap();
    assert_eq!(places[0].read(&words[0]), [2; 8]);
    graph.node_mut(names[0].id()).unwrap().set_fill(FillNode::new(&mut other, 3).unwrap()).unwrap();
    exec.update(&graph).unwrap();
    graph
        .node_mut(names[1].id())
        .unwrap()
        .set_copy(CopyNode::device(&mut words[0], &other).unwrap())
        .unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    exec.launch(&places[0].stream).unwrap();
    assert_eq!(places[0].read(&words[0]), [3; 8]);
    drop((graph, exec, child, words, other));
    assert_clean(&sim, places);
}

/// On a driver that cannot be told the context of a node that is changed, what would need that is
/// refused.
#[test]
fn sim_an_old_driver_does_not_move_nodes_between_devices() {
    let config = grapture_sim::SimConfig::new().devices(2).driver_version(12_010);
    let sim = grapture_sim::Simulation::new(config);
    let driver = grapture::Driver::from(sim.driver());
    assert!(!sim.driver().has(Function::cuGraphNodeSetParams));
    let places = vec![Place::on(&driver, 0), Place::on(&driver, 1)];
    let mut words: Vec<_> = places.iter().map(|place| place.upload(&[0])).collect();
    let mut graph = Graph::new(&places[0].context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut words[1], 1).unwrap(), &[]).unwrap();
    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut words[1], 2).unwrap()).unwrap();
    let moved = graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut words[0], 3).unwrap());
    assert_eq!(moved, Err(CudaError::NotSupported));
    graph.instantiate().unwrap().launch(&places[0].stream).unwrap();
    places[0].stream.synchronize().unwrap();
    assert_eq!((places[0].read(&words[0]), places[1].read(&words[1])), (vec![0], vec![2]));
    drop((graph, words));
    assert_clean(&sim, places);
}
