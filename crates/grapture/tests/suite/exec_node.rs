//! Nodes of executables, changed one by one, and executables that follow their graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::counted::{Token, counter, get};
use crate::common::gate::Gate;
use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{
    BatchNode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, CopyNode, CudaError, CudaResult,
    DeviceBuffer, Event, ExecNode, FillNode, Graph, LaunchBuilder, NodeId, Outcome, Region2d,
    StreamGraphCapture, UpdateReason,
};

both_tiers! {
    every_kind_of_node_is_changed,
    the_graph_keeps_what_it_says,
    nodes_of_a_capture_are_changed,
    names_of_other_graphs_are_refused,
    an_executable_without_its_graph_names_no_node,
    other_kinds_are_refused_by_name,
    what_the_driver_cannot_change_is_refused_and_stays,
    a_launch_that_names_attributes_is_refused,
    a_node_is_switched_off_and_on,
    what_cannot_be_switched_off_says_so,
    a_changed_node_keeps_what_it_used_until_the_launch_is_done,
    a_node_that_no_launch_used_lets_go_at_once,
    memory_is_flat_over_many_changes,
    an_embedded_graph_is_replaced,
    a_batch_is_changed_and_followed,
    pinned_memory_follows_the_node,
    changes_harm_no_capture,
    changes_are_made_on_another_thread,
    memory_that_a_graph_allocates_is_refused,
}

/// A function that counts its runs and its drop.
pub fn counting(
    runs: &Arc<AtomicUsize>,
    dropped: &Arc<AtomicUsize>,
) -> impl Fn() + Send + Sync + 'static {
    let (runs, token) = (runs.clone(), Token(dropped.clone()));
    move || {
        let _ = &token;
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

pub fn zeroed(setup: &Setup, len: usize) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, len).unwrap()
}

/// A node that adds to a word.
pub fn add_kernel(
    setup: &Setup,
    graph: &mut Graph,
    word: &mut DeviceBuffer<u32>,
    value: u32,
    after: &[NodeId],
) -> NodeId {
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(word).value(value);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.add_kernel(launch, after) }.unwrap()
}

/// Has a node add to a word.
pub fn set_kernel(
    setup: &Setup,
    node: &mut ExecNode<'_>,
    word: &mut DeviceBuffer<u32>,
    value: u32,
) -> CudaResult<()> {
    let add = setup.module.kernel("add").unwrap();
    let launch: LaunchBuilder<'_> = add.launch_builder(1, 1).arg_mut(word).value(value);
    // SAFETY: as above.
    unsafe { node.set_kernel(launch) }
}

fn every_kind_of_node_is_changed(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (zeroed(setup, 4), zeroed(setup, 4));
    let (runs, dropped) = ([counter(), counter()], counter());
    let events = [(); 4].map(|()| Event::new(&setup.context).unwrap());
    let mut graph = Graph::new(&setup.context).unwrap();
    let wait = graph.add_event_wait(&events[0], &[]).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut a, 1).unwrap(), &[wait]).unwrap();
    let kernel = add_kernel(setup, &mut graph, &mut a, 10, &[fill]);
    let copy = CopyNode::device(&mut b.view_mut(..2).unwrap(), &a.view(..2).unwrap()).unwrap();
    let copy = graph.add_copy(copy, &[kernel]).unwrap();
    let host = graph.add_host(counting(&runs[0], &dropped), &[copy]).unwrap();
    let record = graph.add_event_record(&events[1], &[host]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [11, 1, 1, 1]);
    assert_eq!(b.to_vec(&stream).unwrap(), [11, 1, 0, 0]);

    exec.node(fill).unwrap().set_fill(FillNode::new(&mut b, 2).unwrap()).unwrap();
    set_kernel(setup, &mut exec.node(kernel).unwrap(), &mut b, 20).unwrap();
    let copy_back = CopyNode::device(&mut a, &b).unwrap();
    exec.node(copy).unwrap().set_copy(copy_back).unwrap();
    exec.node(host).unwrap().set_host(counting(&runs[1], &dropped)).unwrap();
    exec.node(record).unwrap().set_event(&events[3]).unwrap();
    exec.node(wait).unwrap().set_event(&events[2]).unwrap();
    let gate = Gate::new();
    gate.hold(&other);
    events[2].record(&other).unwrap();
    exec.launch(&stream).unwrap();
    assert!(!events[3].is_complete().unwrap(), "it waits for the new event");
    gate.open();
    events[3].synchronize().unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [22, 2, 2, 2]);
    assert_eq!([get(&runs[0]), get(&runs[1])], [1, 1]);

    // Another kernel, with other parameters.
    let mul_add = setup.module.kernel("mul_add").unwrap();
    let launch = mul_add.launch_builder(1, 1).arg_mut(&mut b).value(3u32).value(1u32);
    // SAFETY: `mul_add` takes the address of a word and two values.
    unsafe { exec.node(kernel).unwrap().set_kernel(launch) }.unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [7, 2, 2, 2]);
}

fn the_graph_keeps_what_it_says(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let mut exec = graph.instantiate().unwrap();
    let unchanged = graph.instantiate().unwrap();
    let params = graph.node(node).unwrap().params().unwrap();
    set_kernel(setup, &mut exec.node_of(&graph, node).unwrap(), &mut word, 10).unwrap();
    assert_eq!(graph.node(node).unwrap().params().unwrap(), params);
    for exec in [&exec, &unchanged, &graph.instantiate().unwrap()] {
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [12]);
}

fn nodes_of_a_capture_are_changed(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    setup.add(&mut word, 2, &stream).unwrap();
    let mut exec = capture.end().unwrap();
    let nodes = exec.graph().unwrap().nodes().unwrap();
    set_kernel(setup, &mut exec.node(nodes[1].id()).unwrap(), &mut word, 20).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [21]);
}

fn names_of_other_graphs_are_refused(setup: &Setup) {
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let removed = add_kernel(setup, &mut graph, &mut word, 1, &[node]);
    let other = graph.try_clone().unwrap();
    let elsewhere = graph.node_in(node, &other).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let of_another = "node: it is a node of another graph: only a graph's own nodes can be named \
                      to it";
    assert_eq!(refusal(exec.node_of(&graph, elsewhere)), of_another);
    assert_eq!(
        refusal(exec.node_of(&other, elsewhere)),
        "graph: the executable graph was not made of it: name the nodes by the graph that it was \
         made of"
    );
    graph.remove_node(removed).unwrap();
    assert_eq!(refusal(exec.node_of(&graph, removed)), "node: it was removed from the graph");
    let added = add_kernel(setup, &mut graph, &mut word, 1, &[node]);
    let mut later = exec.node_of(&graph, added).unwrap();
    let unknown = "node: the executable graph has no such node: it was added to the graph, or \
                   embedded there, after the executable was made of it";
    assert_eq!(refusal(set_kernel(setup, &mut later, &mut word, 5)), unknown);
    assert_eq!(refusal(later.set_enabled(false)), unknown);
    assert_eq!(refusal(later.is_enabled()), unknown);
    set_kernel(setup, &mut exec.node_of(&graph, node).unwrap(), &mut word, 5).unwrap();
    let mut owning = other.into_exec().unwrap();
    assert_eq!(refusal(owning.node(node)), of_another);
    owning.node(elsewhere).unwrap().set_enabled(false).unwrap();
}

fn an_executable_without_its_graph_names_no_node(setup: &Setup) {
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let mut exec = graph.instantiate().unwrap();
    let text = "exec: it does not keep the graph that it was made of, whose nodes name its own: \
                name that graph with `node_of`, or make the executable with `Graph::into_exec`";
    assert_eq!(refusal(exec.node(node)), text);
    let mut longer = Graph::new(&setup.context).unwrap();
    let first = add_kernel(setup, &mut longer, &mut word, 1, &[]);
    add_kernel(setup, &mut longer, &mut word, 1, &[first]);
    exec.node_of(&graph, node).unwrap().set_enabled(false).unwrap();
    assert!(matches!(exec.update(&longer).unwrap(), Outcome::Rebuilt { .. }));
    assert!(refusal(exec.node_of(&graph, node)).contains("was not made of it"));
    assert!(exec.node_of(&longer, first).unwrap().is_enabled().unwrap(), "it is a new one");
}

fn other_kinds_are_refused_by_name(setup: &Setup) {
    let mut word = zeroed(setup, 1);
    let event = Event::new(&setup.context).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let kernel = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let fill = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    let child = Graph::new(&setup.context).unwrap();
    let mut exec = graph.into_exec().unwrap();
    let mut node = exec.node(fill).unwrap();
    assert_eq!(
        refusal(set_kernel(setup, &mut node, &mut word, 1)),
        "node: its kind is `memset`, and the call is for `kernel`"
    );
    let text = |kind| format!("node: its kind is `memset`, and the call is for `{kind}`");
    assert_eq!(refusal(node.set_host(|| {})), text("host function"));
    assert_eq!(refusal(node.set_event(&event)), text("event wait"));
    assert_eq!(refusal(node.set_child(&child)), text("child graph"));
    let other = zeroed(setup, 1);
    let copy = CopyNode::device(&mut word, &other).unwrap();
    assert_eq!(refusal(node.set_copy(copy)), text("memcpy"));
    assert_eq!(
        refusal(exec.node(kernel).unwrap().set_fill(FillNode::new(&mut word, 1).unwrap())),
        "node: its kind is `kernel`, and the call is for `memset`"
    );
}

fn what_the_driver_cannot_change_is_refused_and_stays(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, b) = (zeroed(setup, 16), DeviceBuffer::from_slice(&setup.context, &[7u32; 16]));
    let b = b.unwrap();
    let pinned = setup.pinned_word();
    let mut graph = Graph::new(&setup.context).unwrap();
    let copy = CopyNode::device(&mut a, &b).unwrap();
    let copy = graph.add_copy(copy, &[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    let mut node = exec.node(copy).unwrap();
    let region = Region2d::new(2, 2).pitch(4);
    for other in [
        CopyNode::from_pinned(&mut a.view_mut(..1).unwrap(), &pinned).unwrap(),
        CopyNode::device_2d(&mut a, region, &b, region).unwrap(),
    ] {
        let error = node.set_copy(other).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the executable graph could not be updated: an argument is null, out of range or not \
             valid here (CUDA_ERROR_INVALID_VALUE, 1); parameters changed that are fixed, such as \
             the shape of a copy; at fault is node 0 of the graph, a memcpy; it is as it was: \
             instantiate the graph, or update without `strict`"
        );
        let CudaError::Update(error) = error else { panic!("{error:?}") };
        assert_eq!((error.node(), error.code()), (Some(copy), 1));
    }
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [7; 16]);
}

fn a_launch_that_names_attributes_is_refused(setup: &Setup) {
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let mut exec = graph.into_exec().unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(2, 1).arg_mut(&mut word).value(1u32).cluster(2);
    // SAFETY: `add` takes the address of a word and a value.
    let error = unsafe { exec.node(node).unwrap().set_kernel(launch) };
    assert_eq!(
        refusal(error),
        "kernel.attributes: the driver changes no attributes of a node that is executable, and \
         does not say so: leave them out, and the node keeps its own, or change the graph and \
         instantiate it"
    );
    let launch = add.launch_builder(1, 1).arg_mut(&mut word);
    // SAFETY: it is refused for its arguments.
    let error = unsafe { exec.node(node).unwrap().set_kernel(launch) }.unwrap_err();
    assert!(error.to_string().starts_with("kernel.args"), "{error}");
}

fn a_node_is_switched_off_and_on(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup, 1), zeroed(setup, 1));
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = add_kernel(setup, &mut graph, &mut a, 1, &[]);
    let second = add_kernel(setup, &mut graph, &mut b, 1, &[first]);
    let mut exec = graph.instantiate().unwrap();
    exec.node_of(&graph, first).unwrap().set_enabled(false).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![0], vec![1]));
    // It can be changed while it is off, and an update leaves it off.
    let mut node = exec.node_of(&graph, first).unwrap();
    set_kernel(setup, &mut node, &mut a, 5).unwrap();
    assert!(!node.is_enabled().unwrap());
    exec.launch(&stream).unwrap();
    let other = graph.try_clone().unwrap();
    assert_eq!(exec.update(&other).unwrap(), Outcome::Updated { changed: 2 });
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [0]);
    let mut node = exec.node_of(&graph, first).unwrap();
    set_kernel(setup, &mut node, &mut a, 5).unwrap();
    node.set_enabled(true).unwrap();
    assert!(exec.node_of(&graph, second).unwrap().is_enabled().unwrap());
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![5], vec![4]));
}

fn what_cannot_be_switched_off_says_so(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let host = graph.add_host(|| {}, &[]).unwrap();
    let empty = graph.add_empty(&[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    assert_eq!(
        refusal(exec.node(host).unwrap().set_enabled(false)),
        "node: it is a host function node, and only kernels, copies and fills can be off"
    );
    assert!(refusal(exec.node(empty).unwrap().is_enabled()).starts_with("node: it is a empty"));
}

fn a_changed_node_keeps_what_it_used_until_the_launch_is_done(setup: &Setup) {
    let stream = setup.stream();
    let (runs, dropped) = ([counter(), counter()], [counter(), counter()]);
    let mut graph = Graph::new(&setup.context).unwrap();
    let host = graph.add_host(counting(&runs[0], &dropped[0]), &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    let mut node = exec.node_of(&graph, host).unwrap();
    node.set_host(counting(&runs[1], &dropped[1])).unwrap();
    exec.launch(&stream).unwrap();
    drop(graph);
    setup.driver.reclaim();
    assert_eq!([get(&dropped[0]), get(&dropped[1])], [0, 0]);
    gate.open();
    stream.synchronize().unwrap();
    assert_eq!([get(&runs[0]), get(&runs[1])], [1, 1]);
    setup.wait_until(|| get(&dropped[0]) == 1);
    drop(exec);
    setup.wait_until(|| get(&dropped[1]) == 1);
}

fn a_node_that_no_launch_used_lets_go_at_once(setup: &Setup) {
    let stream = setup.stream();
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let host = graph.add_host(|| {}, &[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    for round in 0..5 {
        assert_eq!(get(&dropped), (2usize * round).saturating_sub(1));
        for _ in 0..2 {
            exec.node(host).unwrap().set_host(counting(&runs, &dropped)).unwrap();
        }
    }
    exec.launch(&stream).unwrap();
    exec.node(host).unwrap().set_host(|| {}).unwrap();
    assert_eq!(get(&dropped), 9, "all but the one that was launched");
    gate.open();
    stream.synchronize().unwrap();
    setup.wait_until(|| get(&dropped) == 10);
    assert_eq!(get(&runs), 1);
}

fn memory_is_flat_over_many_changes(setup: &Setup) {
    const ROUNDS: usize = 2_000;
    let stream = setup.stream();
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let host = graph.add_host(counting(&runs, &dropped), &[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    for round in 1..=ROUNDS {
        exec.launch(&stream).unwrap();
        exec.node(host).unwrap().set_host(counting(&runs, &dropped)).unwrap();
        if round % 100 == 0 {
            stream.synchronize().unwrap();
            // The graph has the first, and the executable the last.
            setup.wait_until(|| round + 1 - get(&dropped) == 2);
        }
    }
    assert_eq!(get(&runs), ROUNDS);
    drop(exec);
    setup.wait_until(|| get(&dropped) == ROUNDS + 1);
}

fn an_embedded_graph_is_replaced(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut chain = |values: &[u32]| {
        let mut graph = Graph::new(&setup.context).unwrap();
        let mut after = vec![];
        for value in values {
            after = vec![add_kernel(setup, &mut graph, &mut word, *value, &after)];
        }
        graph
    };
    let (two, other, three) = (chain(&[1, 2]), chain(&[10, 20]), chain(&[100, 100, 100]));
    let mut graph = Graph::new(&setup.context).unwrap();
    let child = graph.add_child(&two, &[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.launch(&stream).unwrap();
    exec.node(child).unwrap().set_child(&other).unwrap();
    drop((two, other));
    exec.launch(&stream).unwrap();
    let error = exec.node(child).unwrap().set_child(&three).unwrap_err();
    let CudaError::Update(error) = error else { panic!("{error:?}") };
    assert_eq!((error.reason(), error.node()), (UpdateReason::TopologyChanged, Some(child)));
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [63]);
}

fn a_batch_is_changed_and_followed(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup, 1), zeroed(setup, 1));
    let write = |word: &mut DeviceBuffer<u32>, value| {
        BatchNode::new(&setup.context).write(word, value).unwrap()
    };
    let mut graph = Graph::new(&setup.context).unwrap();
    let batch = graph.add_batch(write(&mut a, 1), &[]).unwrap();
    let mut last = batch;
    for _ in 0..3 {
        last = graph.add_empty(&[last]).unwrap();
    }
    let mut exec = graph.instantiate().unwrap();
    exec.node_of(&graph, batch).unwrap().set_batch(write(&mut b, 2)).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![0], vec![2]));
    let longer = write(&mut b, 2).write(&mut a, 2).unwrap();
    let error = exec.node_of(&graph, batch).unwrap().set_batch(longer).unwrap_err();
    let CudaError::Update(error) = error else { panic!("{error:?}") };
    assert_eq!(error.reason(), UpdateReason::ParametersChanged);
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 4 });
    graph.node_mut(batch).unwrap().set_batch(write(&mut b, 3)).unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![0], vec![3]));
}

fn pinned_memory_follows_the_node(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let (mut a, mut b) = (setup.pinned_word(), setup.pinned_word());
    let mut graph = Graph::new(&setup.context).unwrap();
    let copy = graph.add_copy(CopyNode::from_pinned(&mut word, &a).unwrap(), &[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.node(copy).unwrap().set_copy(CopyNode::from_pinned(&mut word, &b).unwrap()).unwrap();
    b.write().unwrap()[0] = 9;
    let held = a.write().unwrap();
    exec.launch(&stream).unwrap();
    drop(held);
    assert_eq!(word.to_vec(&stream).unwrap(), [9]);
    let held = b.write().unwrap();
    assert!(refusal(exec.launch(&stream)).starts_with("pinned: the host writes it"));
    drop(held);
}

fn changes_harm_no_capture(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let mut graph = Graph::new(&setup.context).unwrap();
        let kernel = add_kernel(setup, &mut graph, &mut word, 1, &[]);
        let fill = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
        let host = graph.add_host(|| {}, &[]).unwrap();
        let child = graph.add_child(&Graph::new(&setup.context).unwrap(), &[]).unwrap();
        let event = Event::new(&setup.context).unwrap();
        let record = graph.add_event_record(&event, &[]).unwrap();
        let mut exec = graph.into_exec().unwrap();
        exec.launch(&stream).unwrap();
        let captured = stream.capture(mode, |_| {
            set_kernel(setup, &mut exec.node(kernel)?, &mut word, 2)?;
            exec.node(fill)?.set_fill(FillNode::new(&mut word, 2)?)?;
            exec.node(host)?.set_host(|| {})?;
            exec.node(child)?.set_child(&Graph::new(&setup.context)?)?;
            exec.node(record)?.set_event(&Event::new(&setup.context)?)?;
            exec.node(fill)?.set_enabled(false)?;
            assert!(!exec.node(fill)?.is_enabled()?);
            drop(exec);
            setup.add(&mut word, 1, &stream)
        });
        captured.unwrap().instantiate().unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
}

fn changes_are_made_on_another_thread(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.launch(&stream).unwrap();
    let changed = std::thread::spawn(move || {
        exec.node(fill).unwrap().set_fill(FillNode::new(&mut word, 2).unwrap()).unwrap();
        (exec, word)
    });
    let (exec, word) = changed.join().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn memory_that_a_graph_allocates_is_refused(setup: &Setup) {
    let mut word = zeroed(setup, 4);
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut memory = graph.add_alloc::<u32>(4, &[]).unwrap();
    let node = memory.node();
    let fill = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[node]).unwrap();
    let mut other = Graph::new(&setup.context).unwrap();
    let own = other.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    let inside = FillNode::new(&mut memory, 1).unwrap();
    let text = "memory: a node of a graph allocates it: change the node in that graph, and update \
                the executable from there";
    let mut exec = other.into_exec().unwrap();
    assert_eq!(refusal(exec.node(own).unwrap().set_fill(inside)), text);
    let inside = FillNode::new(&mut memory, 1).unwrap();
    graph.add_free(&memory, &[fill]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    assert_eq!(refusal(exec.node(fill).unwrap().set_fill(inside)), text);
}
