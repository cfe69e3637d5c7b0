//! Slots in clones, embedded graphs, bodies and caches.

use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use crate::slots::{add_slot, add_to_slot, added, buffer, capture, refusal, zeroed};
use grapture::{BufferSlot, BufferSlotMut};
use grapture::{
    CacheLimits, CaptureMode, CudaError, DeviceBuffer, FillNode, Graph, GraphBody, GraphCache,
    NodeId, Slot, Stream, WordCondition,
};

both_tiers! {
    slots_survive_a_clone,
    slots_survive_embedding,
    slots_survive_embedding_in_a_capture,
    slots_survive_a_move_into_a_node,
    slots_survive_nesting_and_clones_of_that,
    slots_are_set_in_bodies_that_were_built,
    slots_are_set_in_bodies_that_were_captured,
    a_graph_that_is_not_copied_needs_to_be_kept,
    nodes_within_embedded_graphs_use_other_slots,
    nodes_that_are_added_to_a_capture_have_slots,
    removed_nodes_have_no_slots,
    slots_of_a_capture_into_a_graph,
    a_cache_keeps_executables_with_slots,
    a_profile_of_a_graph_with_slots,
    a_saved_graph_has_the_first_values,
}

/// A node that adds a slot to a word.
#[track_caller]
pub fn add_node(
    setup: &Setup,
    graph: &mut Graph,
    word: &mut DeviceBuffer<u32>,
    value: &Slot<u32>,
    after: &[NodeId],
) -> NodeId {
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(word).slot(value);
    // SAFETY: `add` takes the address of a word and any value.
    unsafe { graph.add_kernel(launch, after) }.unwrap()
}

fn slots_survive_a_clone(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let mut graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let first = graph.nodes().unwrap()[0].id();
    add_node(setup, &mut graph, &mut word, &value, &[first]);
    let copy = graph.try_clone().unwrap();
    let again = copy.try_clone().unwrap();
    let execs = [graph.instantiate(), copy.instantiate(), copy.into_exec(), again.into_exec()];
    drop(graph);
    for (index, exec) in execs.into_iter().enumerate() {
        let mut exec = exec.unwrap();
        exec.set(&value, 10 + index as u32).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 2 * (10 + index as u32));
    }
}

fn slots_survive_embedding(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let child = capture(&stream, || {
        setup.add(&mut word, 1_000, &stream)?;
        add_slot(setup, &mut word, &value, &stream)
    });
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = graph.add_child(&child, &[]).unwrap();
    let second = graph.add_child(&child, &[first]).unwrap();
    add_node(setup, &mut graph, &mut word, &value, &[second]);
    let mut alone = child.into_exec().unwrap();
    let (mut exec, mut other) = (graph.instantiate().unwrap(), graph.instantiate().unwrap());
    assert_eq!(added(&exec, &mut word, &stream), 2_003);
    exec.set(&value, 5).unwrap();
    other.set(&value, 6).unwrap();
    alone.set(&value, 7).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 2_015);
    assert_eq!(added(&other, &mut word, &stream), 2_018);
    assert_eq!(added(&alone, &mut word, &stream), 1_007);
    // Another graph in the place of one has its own slots.
    let replaced = Slot::new(50u32);
    let child = capture(&stream, || {
        add_slot(setup, &mut word, &replaced, &stream)?;
        setup.add(&mut word, 100, &stream)
    });
    graph.node_mut(first).unwrap().set_child(&child).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.patch().set(&value, 2).set(&replaced, 70).apply().unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 1_174);
}

fn slots_survive_embedding_in_a_capture(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let child = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let whole = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.embed(&child)?;
        setup.add(&mut word, 100, &stream)?;
        capture.embed(&child)
    });
    drop(child);
    let whole = whole.unwrap();
    for exec in [whole.instantiate(), whole.into_exec()] {
        let mut exec = exec.unwrap();
        exec.set(&value, 5).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 110);
    }
}

fn slots_survive_a_move_into_a_node(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let child = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let mut graph = Graph::new(&setup.context).unwrap();
    match graph.add_child_moved(child, &[]) {
        Ok(_) => {}
        Err(CudaError::NotSupported) => return,
        Err(error) => panic!("{error}"),
    }
    let mut exec = graph.into_exec().unwrap();
    exec.set(&value, 5).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 5);
}

fn slots_survive_nesting_and_clones_of_that(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let (mut target, mut rebound) = (zeroed(setup, 1), zeroed(setup, 1));
    let mut memory = BufferSlotMut::new(&mut target);
    let inner = capture(&stream, || {
        memory.fill(3, &stream)?;
        add_slot(setup, &mut word, &value, &stream)
    });
    let mut middle = Graph::new(&setup.context).unwrap();
    let node = middle.add_child(&inner, &[]).unwrap();
    add_node(setup, &mut middle, &mut word, &value, &[node]);
    let mut outer = Graph::new(&setup.context).unwrap();
    let node = outer.add_child(&middle, &[]).unwrap();
    outer.add_child(&inner, &[node]).unwrap();
    let copy = outer.try_clone().unwrap();
    drop((inner, middle));
    for exec in [outer.instantiate(), copy.instantiate(), outer.into_exec(), copy.into_exec()] {
        let mut exec = exec.unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 3);
        exec.patch().set(&value, 5).set(&memory, &mut rebound).apply().unwrap();
        target.fill(0, &stream).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 15);
        assert_eq!(target.to_vec(&stream).unwrap(), [0]);
        assert_eq!(rebound.to_vec(&stream).unwrap(), [3]);
        rebound.fill(0, &stream).unwrap();
    }
}

fn slots_are_set_in_bodies_that_were_built(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let (one, two) = (buffer(setup, &[1]), buffer(setup, &[1]));
    let (one, two) = (WordCondition::new(&one).unwrap(), WordCondition::new(&two).unwrap());
    let mut graph = Graph::new(&setup.context).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let built = graph.add_if(&one, &[], |body: &mut GraphBody<'_>| {
        let launch = add.launch_builder(1, 1).arg_mut(&mut word).slot(&value);
        // SAFETY: `add` takes the address of a word and any value.
        let first = unsafe { body.add_kernel(launch, &[]) }?;
        let inner = body.add_if(&two, &[first], |body| {
            body.capture(&stream, &[], |_| add_slot(setup, &mut word, &value, &stream)).map(drop)
        });
        inner.map(drop)
    });
    match built {
        Ok(_) => {}
        Err(CudaError::NotSupported) => return,
        Err(error) => panic!("{error}"),
    }
    let mut exec = graph.into_exec().unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 2);
    exec.set(&value, 5).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 10);
}

fn slots_are_set_in_bodies_that_were_captured(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let one = buffer(setup, &[1]);
    let one = WordCondition::new(&one).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        add_slot(setup, &mut word, &value, &stream)?;
        capture.if_(&one, |body| {
            add_slot(setup, &mut word, &value, body.stream())?;
            body.if_(&one, |body| add_slot(setup, &mut word, &value, body.stream()))
        })?;
        add_slot(setup, &mut word, &value, &stream)
    });
    let graph = match graph {
        Err(CudaError::NotSupported) => return,
        graph => graph.unwrap(),
    };
    let mut exec = graph.into_exec().unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 4);
    exec.set(&value, 5).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 20);
}

fn a_graph_that_is_not_copied_needs_to_be_kept(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let mut graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let last = graph.nodes().unwrap()[0].id();
    let scratch = graph.add_alloc::<u32>(16, &[last]).unwrap();
    graph.add_free(&scratch, &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let text = refusal(exec.set(&value, 2));
    assert!(text.contains("make it with `Graph::into_exec`"), "{text}");
    assert_eq!(added(&exec, &mut word, &stream), 1);
    drop(exec);
    let mut exec = graph.into_exec().unwrap();
    exec.set(&value, 2).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 2);
}

fn nodes_within_embedded_graphs_use_other_slots(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, old, new) = (zeroed(setup, 1), Slot::new(1u32), Slot::new(100u32));
    let child = capture(&stream, || {
        add_slot(setup, &mut word, &old, &stream)?;
        add_slot(setup, &mut word, &old, &stream)
    });
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_child(&child, &[]).unwrap();
    let inner = graph.node(node).unwrap().child_nodes().unwrap()[0].id();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).slot(&new);
    // SAFETY: `add` takes the address of a word and any value.
    unsafe { graph.node_mut(inner).unwrap().set_kernel(launch) }.unwrap();
    let copy = graph.try_clone().unwrap();
    let mut outer = Graph::new(&setup.context).unwrap();
    outer.add_child(&graph, &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.patch().set(&old, 2).set(&new, 200).apply().unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 202);
    // By the name that it has in the graph, of which the executable has a copy.
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1_000u32);
    // SAFETY: as above.
    unsafe { exec.node_of(&graph, inner).unwrap().set_kernel(launch) }.unwrap();
    exec.set(&old, 3).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 1_003);
    assert!(refusal(exec.set(&new, 5)).contains("no node of the executable"));
    for exec in [copy.instantiate(), copy.into_exec(), outer.instantiate(), outer.into_exec()] {
        let mut exec = exec.unwrap();
        exec.patch().set(&old, 4).set(&new, 400).apply().unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 404);
    }
    let plain = capture(&stream, || setup.add(&mut word, 7, &stream));
    graph.node_mut(node).unwrap().set_child(&plain).unwrap();
    let mut exec = graph.into_exec().unwrap();
    assert!(refusal(exec.set(&new, 5)).contains("no node of the executable"));
    assert_eq!(added(&exec, &mut word, &stream), 7);
}

fn nodes_that_are_added_to_a_capture_have_slots(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let add = setup.module.kernel("add").unwrap();
    let child = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        add_slot(setup, &mut word, &value, &stream)?;
        let launch = add.launch_builder(1, 1).arg_mut(&mut word).slot(&value);
        // SAFETY: `add` takes the address of a word and any value.
        let first = unsafe { capture.add_kernel(launch, &capture.dependencies()?) }?;
        let second = capture.add_child(&child, &[first])?;
        capture.set_dependencies(&[second])?;
        capture.child("part", |part| add_slot(setup, &mut word, &value, part.stream()))?;
        add_slot(setup, &mut word, &value, &stream)
    });
    let graph = graph.unwrap();
    for exec in [graph.instantiate(), graph.try_clone().unwrap().instantiate(), graph.into_exec()] {
        let mut exec = exec.unwrap();
        exec.set(&value, 10).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 50);
    }
}

fn removed_nodes_have_no_slots(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let mut graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let node = graph.nodes().unwrap()[0].id();
    let mut before = graph.instantiate().unwrap();
    graph.remove_node(node).unwrap();
    // With the handle of the one that was removed, perhaps.
    graph.add_fill(FillNode::new(&mut word, 8).unwrap(), &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    assert!(refusal(exec.set(&value, 5)).contains("no node of the executable"));
    assert!(refusal(graph.into_exec().unwrap().set(&value, 5)).contains("no node"));
    before.set(&value, 5).unwrap();
    assert_eq!(added(&before, &mut word, &stream), 5);
    assert_eq!(added(&exec, &mut word, &stream), 8);
}

fn slots_of_a_capture_into_a_graph(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let mut graph = Graph::new(&setup.context).unwrap();
    let gone = graph.add_empty(&[]).unwrap();
    graph.remove_node(gone).unwrap();
    let first = add_node(setup, &mut graph, &mut word, &value, &[]);
    let record = |capture: &grapture::StreamGraphCapture<'_>| {
        add_slot(setup, &mut word, &value, capture.stream())
    };
    match stream.capture_into(&mut graph, &[first], CaptureMode::ThreadLocal, record) {
        Ok(_) => {}
        Err(CudaError::NotSupported) => return,
        Err(error) => panic!("{error}"),
    }
    for exec in [graph.instantiate(), graph.into_exec()] {
        let mut exec = exec.unwrap();
        exec.set(&value, 5).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 10);
    }
}

fn a_cache_keeps_executables_with_slots(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let cache = GraphCache::new(&setup.context, CacheLimits::new().entries(1));
    for (key, set) in [(1u32, 5u32), (1, 6), (2, 7), (3, 8)] {
        let exec = cache.get_or_capture(key, &stream, |_| {
            setup.add(&mut word, 100 * key, &stream)?;
            add_slot(setup, &mut word, &value, &stream)
        });
        let exec = exec.unwrap();
        exec.lock().set(&value, set).unwrap();
        word.fill(0, &stream).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [100 * key + set]);
        stream.synchronize().unwrap();
    }
    assert_eq!(cache.counters().hits, 1);
}

fn a_profile_of_a_graph_with_slots(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    assert_eq!(graph.profile(&stream, 2).unwrap().nodes().len(), 1);
    let mut exec = graph.into_exec().unwrap();
    assert_eq!(exec.profile(&stream, 2).unwrap().nodes().len(), 1);
    exec.set(&value, 2).unwrap();
    refusal(exec.profile(&stream, 1).map(drop));
}

fn a_saved_graph_has_the_first_values(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(4u32));
    let graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let bind = |word: &mut DeviceBuffer<u32>| {
        let bindings = grapture::Bindings::new(&setup.context);
        let image = crate::common::KERNELS.as_bytes();
        bindings.module(&setup.module, image).and_then(|bindings| bindings.memory("word", word))
    };
    let bindings = bind(&mut word).unwrap();
    let text = match graph.to_saved(&bindings) {
        Ok(text) => text,
        // The driver does not tell the sizes of arguments.
        Err(CudaError::Refused(_))
            if setup.module.kernel("add").unwrap().parameter_sizes().is_none() =>
        {
            return;
        }
        Err(error) => panic!("{error}"),
    };
    // SAFETY: the file was just written.
    let loaded = unsafe { Graph::from_saved(&text, &bindings) }.unwrap();
    assert_eq!(added(&loaded.instantiate().unwrap(), &mut word, &stream), 4);
}

/// What is in flight is not disturbed: here, since it is held.
pub fn held(stream: &Stream) -> Gate {
    let gate = Gate::new();
    gate.hold(stream);
    gate
}

#[test]
fn slots_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + Eq>() {}
    shared::<Slot<f32>>();
    shared::<BufferSlot<f32>>();
    shared::<BufferSlotMut<f32>>();
}

/// Adds to a slot, for the attacks.
pub fn adding(
    setup: &Setup,
    memory: &mut DeviceBuffer<u32>,
    stream: &Stream,
) -> (BufferSlotMut<u32>, Graph) {
    let mut slot = BufferSlotMut::new(memory);
    let graph = capture(stream, || add_to_slot(setup, &mut slot, 1, stream));
    (slot, graph)
}
