//! Nodes within embedded graphs: named, read, and changed in graphs and executables.

use crate::common::counted::{counter, get};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use crate::exec_node::{add_kernel, counting, set_kernel, zeroed};
use grapture::{
    BatchNode, CaptureMode, CopyNode, CudaError, CudaResult, Event, FillNode, Graph, Node, NodeId,
    NodeKind, NodeParams, Outcome, PinnedBuffer, UpdateOptions,
};

both_tiers! {
    every_kind_of_inner_node_is_changed_in_an_executable,
    every_kind_of_inner_node_is_changed_in_a_graph,
    nodes_are_reached_at_any_depth,
    nodes_of_a_moved_graph_are_changed,
    nodes_of_a_captured_child_are_changed,
    copies_of_one_graph_are_changed_apart,
    an_inner_node_is_switched_off,
    inner_names_are_the_same_each_time,
    inner_names_of_other_graphs_are_refused,
    inner_nodes_are_not_ordered_or_removed,
    names_within_what_is_gone_reach_nothing,
    the_copy_of_a_node_is_found_in_its_child,
    an_executable_follows_a_change_within,
    a_graph_that_was_embedded_later_is_taken_as_a_whole,
    a_change_within_what_is_replaced_is_not_followed,
    what_the_driver_cannot_change_within_is_refused_and_stays,
    a_profile_leaves_off_what_is_off_within,
}

#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

/// The names of the nodes that a node embeds.
#[track_caller]
pub fn within(graph: &Graph, child: NodeId) -> Vec<NodeId> {
    graph.node(child).unwrap().child_nodes().unwrap().iter().map(Node::id).collect()
}

/// A graph of one node that fills.
pub fn filling(setup: &Setup, words: &mut grapture::DeviceBuffer<u32>, value: u32) -> Graph {
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_fill(FillNode::new(words, value).unwrap(), &[]).unwrap();
    graph
}

/// A graph that embeds one, and its child graph node.
pub fn holding(setup: &Setup, child: &Graph) -> (Graph, NodeId) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_child(child, &[]).unwrap();
    (graph, node)
}

fn every_kind_of_inner_node_is_changed_in_an_executable(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (zeroed(setup, 4), zeroed(setup, 4));
    let (runs, dropped) = ([counter(), counter()], counter());
    let events = [(); 4].map(|()| Event::new(&setup.context).unwrap());
    let mut child = Graph::new(&setup.context).unwrap();
    let wait = child.add_event_wait(&events[0], &[]).unwrap();
    let fill = child.add_fill(FillNode::new(&mut a, 1).unwrap(), &[wait]).unwrap();
    let kernel = add_kernel(setup, &mut child, &mut a, 10, &[fill]);
    let copy = CopyNode::device(&mut b.view_mut(..2).unwrap(), &a.view(..2).unwrap()).unwrap();
    let copy = child.add_copy(copy, &[kernel]).unwrap();
    let host = child.add_host(counting(&runs[0], &dropped), &[copy]).unwrap();
    child.add_event_record(&events[1], &[host]).unwrap();
    let (graph, node) = holding(setup, &child);
    let names = within(&graph, node);
    let [wait, fill, kernel, copy, host, record] = names[..] else { panic!("{names:?}") };
    drop(child);
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
}

fn every_kind_of_inner_node_is_changed_in_a_graph(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup, 4), zeroed(setup, 4));
    let (runs, dropped) = ([counter(), counter()], [counter(), counter()]);
    let events = [(); 2].map(|()| Event::new(&setup.context).unwrap());
    let mut child = Graph::new(&setup.context).unwrap();
    let fill = child.add_fill(FillNode::new(&mut a, 1).unwrap(), &[]).unwrap();
    let kernel = add_kernel(setup, &mut child, &mut a, 10, &[fill]);
    let copy = child.add_copy(CopyNode::device(&mut b, &a).unwrap(), &[kernel]).unwrap();
    let host = child.add_host(counting(&runs[0], &dropped[0]), &[copy]).unwrap();
    let record = child.add_event_record(&events[0], &[host]).unwrap();
    let write = BatchNode::new(&setup.context).write(&mut a.view_mut(3..).unwrap(), 5u32).unwrap();
    child.add_batch(write, &[record]).unwrap();
    let (mut graph, node) = holding(setup, &child);
    let before = graph.instantiate().unwrap();
    let names = within(&graph, node);
    let [fill, kernel, copy, host, record, batch] = names[..] else { panic!("{names:?}") };

    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut b, 2).unwrap()).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut b).value(20u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.node_mut(kernel).unwrap().set_kernel(launch) }.unwrap();
    graph.node_mut(copy).unwrap().set_copy(CopyNode::device(&mut a, &b).unwrap()).unwrap();
    graph.node_mut(host).unwrap().set_host(counting(&runs[1], &dropped[1])).unwrap();
    graph.node_mut(record).unwrap().set_event(&events[1]).unwrap();
    let write = BatchNode::new(&setup.context).write(&mut a.view_mut(2..).unwrap(), 6u32).unwrap();
    graph.node_mut(batch).unwrap().set_batch(write).unwrap();

    let NodeParams::Memset { value, .. } = graph.node(fill).unwrap().params().unwrap() else {
        panic!("a fill")
    };
    assert_eq!(value, 2);
    let waits: Vec<_> = graph.node(copy).unwrap().dependencies().unwrap();
    assert_eq!(waits.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [kernel]);
    before.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [11, 1, 1, 5], "it is as it was");
    assert_eq!(b.to_vec(&stream).unwrap(), [11, 1, 1, 1]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [22, 2, 6, 2]);
    assert_eq!([get(&runs[0]), get(&runs[1])], [1, 1]);
    assert!(events[1].is_complete().unwrap());
    // The graph that was embedded is another one.
    child.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [11, 1, 1, 1]);
}

fn nodes_are_reached_at_any_depth(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 2);
    let mut graph = filling(setup, &mut words, 1);
    for _ in 0..3 {
        graph = holding(setup, &graph).0;
    }
    let mut node = graph.nodes().unwrap()[0];
    for _ in 0..3 {
        assert_eq!(node.kind(), NodeKind::ChildGraph);
        node = graph.node(node.id()).unwrap().child_nodes().unwrap()[0];
    }
    assert_eq!(node.kind(), NodeKind::Memset);
    let mut exec = graph.instantiate().unwrap();
    let fill = FillNode::new(&mut words, 2).unwrap();
    exec.node_of(&graph, node.id()).unwrap().set_fill(fill).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [2, 2]);
    let fill = FillNode::new(&mut words, 3).unwrap();
    graph.node_mut(node.id()).unwrap().set_fill(fill).unwrap();
    exec.update(&graph).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [3, 3]);
    // An embedded graph is replaced within another.
    let outer = within(&graph, graph.nodes().unwrap()[0].id())[0];
    let deep = within(&graph, outer)[0];
    let other = filling(setup, &mut words, 4);
    graph.node_mut(deep).unwrap().set_child(&other).unwrap();
    assert!(refusal(graph.node(node.id())).starts_with("node: the graph that it was in is"));
    exec.node_of(&graph, deep).unwrap().set_child(&other).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [4, 4]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [4, 4]);
}

fn nodes_of_a_moved_graph_are_changed(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut child = Graph::new(&setup.context).unwrap();
    let mut memory = child.add_alloc::<u32>(16, &[]).unwrap();
    let fill = child.add_fill(FillNode::new(&mut memory, 0).unwrap(), &[]).unwrap();
    let added = add_kernel(setup, &mut child, &mut word, 1, &[fill]);
    child.add_free(&memory, &[]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_child_moved(child, &[]).unwrap();
    let inner = within(&graph, node);
    assert_eq!(inner[2].as_raw(), added.as_raw());
    assert!(refusal(graph.node(added)).starts_with("node: it is a node of another graph"));
    let mut exec = graph.instantiate().unwrap();
    set_kernel(setup, &mut exec.node_of(&graph, inner[2]).unwrap(), &mut word, 5).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [5]);
}

fn nodes_of_a_captured_child_are_changed(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 4);
    let step = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(1, &stream)).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| capture.embed(&step)).unwrap();
    let child = graph.nodes().unwrap()[0].id();
    let inner = step.node_in_child(step.nodes().unwrap()[0].id(), &graph, child).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.node(inner).unwrap().set_fill(FillNode::new(&mut words, 2).unwrap()).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [2; 4]);
}

fn copies_of_one_graph_are_changed_apart(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut step = Graph::new(&setup.context).unwrap();
    add_kernel(setup, &mut step, &mut word, 1, &[]);
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = graph.add_child(&step, &[]).unwrap();
    let second = graph.add_child(&step, &[first]).unwrap();
    let [first, second] = [first, second].map(|child| within(&graph, child)[0]);
    assert_ne!(first, second);
    let mut exec = graph.into_exec().unwrap();
    set_kernel(setup, &mut exec.node(second).unwrap(), &mut word, 100).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [101]);
    set_kernel(setup, &mut exec.node(first).unwrap(), &mut word, 10).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [211]);
}

fn an_inner_node_is_switched_off(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 1);
    let (graph, child) = holding(setup, &filling(setup, &mut words, 7));
    let fill = within(&graph, child)[0];
    let mut exec = graph.into_exec().unwrap();
    let mut node = exec.node(fill).unwrap();
    node.set_enabled(false).unwrap();
    assert!(!node.is_enabled().unwrap());
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [0]);
    exec.node(fill).unwrap().set_enabled(true).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [7]);
}

fn inner_names_are_the_same_each_time(setup: &Setup) {
    let mut words = zeroed(setup, 1);
    let step = filling(setup, &mut words, 7);
    let (graph, child) = holding(setup, &step);
    let first = within(&graph, child);
    assert_eq!(within(&graph, child), first);
    let own = step.nodes().unwrap()[0].id();
    assert_eq!(step.node_in_child(own, &graph, child).unwrap(), first[0]);
    // A node that embeds nothing has no such nodes.
    assert_eq!(
        refusal(graph.node(first[0]).unwrap().child_nodes()),
        "node: its kind is `memset`, and the call is for `child graph`"
    );
}

fn inner_names_of_other_graphs_are_refused(setup: &Setup) {
    let mut words = zeroed(setup, 1);
    let step = filling(setup, &mut words, 7);
    let (mut graph, child) = holding(setup, &step);
    let (mut other, other_child) = holding(setup, &step);
    let (inner, other_inner) = (within(&graph, child)[0], within(&other, other_child)[0]);
    let foreign =
        "node: it is a node of another graph: only a graph's own nodes can be named to it";
    assert_eq!(refusal(graph.node(other_inner)), foreign);
    assert_eq!(refusal(graph.node_mut(other_inner)), foreign);
    assert_eq!(refusal(other.node_mut(inner)), foreign);
    assert_eq!(refusal(step.node(inner)), foreign);
    let mut exec = graph.instantiate().unwrap();
    assert_eq!(refusal(exec.node_of(&graph, other_inner)), foreign);
    assert!(refusal(exec.node_of(&other, other_inner)).starts_with("graph: the executable graph"));
    assert_eq!(refusal(step.node_in_child(inner, &graph, child)), foreign);
    assert_eq!(
        refusal(step.node_in_child(step.nodes().unwrap()[0].id(), &graph, inner)),
        "node: its kind is `memset`, and the call is for `child graph`"
    );
    // The child is no copy of that graph.
    let stranger = filling(setup, &mut words, 7);
    let node = stranger.nodes().unwrap()[0].id();
    assert_eq!(stranger.node_in_child(node, &graph, child), Err(CudaError::InvalidValue));
}

fn inner_nodes_are_not_ordered_or_removed(setup: &Setup) {
    let mut words = zeroed(setup, 1);
    let (mut graph, child) = holding(setup, &filling(setup, &mut words, 7));
    let (inner, own) = (within(&graph, child)[0], graph.add_empty(&[]).unwrap());
    let ends = "it is a node of an embedded graph: such can be looked at and changed, but not \
                ordered, removed or added to";
    assert_eq!(refusal(graph.add_empty(&[inner])), format!("after: {ends}"));
    assert_eq!(refusal(graph.add_dependency(inner, own)), format!("from: {ends}"));
    assert_eq!(refusal(graph.add_dependency(own, inner)), format!("to: {ends}"));
    assert_eq!(refusal(graph.remove_dependency(own, inner)), format!("to: {ends}"));
    assert_eq!(refusal(graph.remove_node(inner)), format!("node: {ends}"));
    let stream = setup.stream();
    let into = stream.capture_into(&mut graph, &[inner], CaptureMode::ThreadLocal, |_| Ok(()));
    assert_eq!(refusal(into), format!("after: {ends}"));
    assert_eq!(graph.node_count().unwrap(), 2);
}

fn names_within_what_is_gone_reach_nothing(setup: &Setup) {
    let mut words = zeroed(setup, 1);
    let step = filling(setup, &mut words, 7);
    let (mut graph, child) = holding(setup, &holding(setup, &step).0);
    let inner = within(&graph, child)[0];
    let deep = within(&graph, inner)[0];
    let mut exec = graph.instantiate().unwrap();
    let gone = "node: the graph that it was in is embedded no more: its node was removed, or \
                embeds another one";
    // Each time the driver may use a handle again.
    for _ in 0..3 {
        graph.node_mut(child).unwrap().set_child(&holding(setup, &step).0).unwrap();
        for old in [inner, deep] {
            assert_eq!(refusal(graph.node(old)), gone);
            assert_eq!(refusal(graph.node_mut(old)), gone);
            assert_eq!(refusal(exec.node_of(&graph, old)), gone);
        }
    }
    let inner = within(&graph, child)[0];
    let deep = within(&graph, inner)[0];
    graph.node(deep).unwrap();
    graph.remove_node(child).unwrap();
    let again = graph.add_child(&step, &[]).unwrap();
    for old in [inner, deep] {
        assert_eq!(refusal(graph.node(old)), gone);
        assert_eq!(refusal(graph.try_clone().and_then(|clone| graph.node_in(old, &clone))), gone);
    }
    graph.node(within(&graph, again)[0]).unwrap();
}

fn the_copy_of_a_node_is_found_in_its_child(setup: &Setup) {
    let mut words = zeroed(setup, 1);
    let mut step = filling(setup, &mut words, 7);
    let (mut middle, held) = holding(setup, &step);
    let deep = within(&middle, held)[0];
    let last = middle.add_empty(&[held]).unwrap();
    let (mut graph, child) = holding(setup, &middle);
    let names = within(&graph, child);
    assert_eq!(middle.node_in_child(held, &graph, child).unwrap(), names[0]);
    assert_eq!(middle.node_in_child(last, &graph, child).unwrap(), names[1]);
    let inner = within(&graph, names[0])[0];
    assert_eq!(middle.node_in_child(deep, &graph, child).unwrap(), inner);
    let own = step.nodes().unwrap()[0].id();
    // It is a copy of a copy.
    assert_eq!(step.node_in_child(own, &graph, names[0]), Err(CudaError::InvalidValue));
    let later = step.add_empty(&[]).unwrap();
    let set = graph.add_child(&step, &[]).unwrap();
    assert!(step.node_in_child(later, &graph, set).is_ok());
    let latest = step.add_empty(&[]).unwrap();
    assert_eq!(step.node_in_child(latest, &graph, set), Err(CudaError::InvalidValue));
}

fn an_executable_follows_a_change_within(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 8);
    let mut step = Graph::new(&setup.context).unwrap();
    for word in 0..8 {
        let mut one = words.view_mut(word..=word).unwrap();
        step.add_fill(FillNode::new(&mut one, 1).unwrap(), &[]).unwrap();
    }
    let (mut graph, child) = holding(setup, &step);
    let names = within(&graph, child);
    let mut exec = graph.instantiate().unwrap();
    for (changed, range) in [(1, 3..4), (2, 4..6)] {
        for word in range.clone() {
            let mut one = words.view_mut(word..=word).unwrap();
            let fill = FillNode::new(&mut one, 2).unwrap();
            graph.node_mut(names[word]).unwrap().set_fill(fill).unwrap();
        }
        assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed });
    }
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 0 });
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [1, 1, 1, 2, 2, 2, 1, 1]);
    // Many are taken as a whole.
    for (word, name) in names.iter().enumerate() {
        let mut one = words.view_mut(word..=word).unwrap();
        graph.node_mut(*name).unwrap().set_fill(FillNode::new(&mut one, 3).unwrap()).unwrap();
    }
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [3; 8]);
}

/// The executable does not know the nodes of a graph that was embedded after it was made.
fn a_graph_that_was_embedded_later_is_taken_as_a_whole(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 8);
    let mut step = filling(setup, &mut words, 1);
    for _ in 0..7 {
        step.add_empty(&[]).unwrap();
    }
    let (mut graph, child) = holding(setup, &step);
    let mut exec = graph.instantiate().unwrap();
    graph.node_mut(child).unwrap().set_child(&step).unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    let inner = within(&graph, child)[0];
    let set = exec.node_of(&graph, inner).unwrap().set_fill(FillNode::new(&mut words, 9).unwrap());
    assert_eq!(
        refusal(set),
        "node: the executable graph has no such node: it was added to the graph, or embedded \
         there, after the executable was made of it"
    );
    let strict = UpdateOptions::new().strict(true);
    for value in [2, 3] {
        let fill = FillNode::new(&mut words, value).unwrap();
        graph.node_mut(inner).unwrap().set_fill(fill).unwrap();
        let outcome = exec.update_with(&graph, strict).unwrap();
        assert_eq!(outcome, Outcome::Updated { changed: 1 });
        exec.launch(&stream).unwrap();
        assert_eq!(words.to_vec(&stream).unwrap(), [value; 8]);
    }
}

fn a_change_within_what_is_replaced_is_not_followed(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 1);
    let (mut graph, child) = holding(setup, &filling(setup, &mut words, 1));
    for _ in 0..16 {
        graph.add_empty(&[]).unwrap();
    }
    let mut exec = graph.instantiate().unwrap();
    let inner = within(&graph, child)[0];
    graph.node_mut(inner).unwrap().set_fill(FillNode::new(&mut words, 2).unwrap()).unwrap();
    let other = filling(setup, &mut words, 3);
    graph.node_mut(child).unwrap().set_child(&other).unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [3]);
    graph.node_mut(within(&graph, child)[0]).unwrap();
    let inner = within(&graph, child)[0];
    graph.node_mut(inner).unwrap().set_fill(FillNode::new(&mut words, 4).unwrap()).unwrap();
    graph.remove_node(child).unwrap();
    assert!(matches!(exec.update(&graph).unwrap(), Outcome::Rebuilt { .. }));
}

fn what_the_driver_cannot_change_within_is_refused_and_stays(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup, 4), zeroed(setup, 4));
    let mut step = filling(setup, &mut b, 7);
    let fill = step.nodes().unwrap()[0].id();
    step.add_copy(CopyNode::device(&mut a, &b).unwrap(), &[fill]).unwrap();
    let (graph, child) = holding(setup, &step);
    let names = within(&graph, child);
    let mut exec = graph.into_exec().unwrap();
    let mut node = exec.node(names[1]).unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let error = node.set_copy(CopyNode::from_pinned(&mut a, &pinned).unwrap()).unwrap_err();
    assert!(error.to_string().contains("at fault is a memcpy of a graph that the graph embeds"));
    assert_eq!(
        refusal(node.set_fill(FillNode::new(&mut a, 1).unwrap())),
        "node: its kind is `memcpy`, and the call is for `memset`"
    );
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [7; 4]);
}

fn a_profile_leaves_off_what_is_off_within(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 2);
    let mut step = Graph::new(&setup.context).unwrap();
    let [first, second] = [0, 1].map(|index: usize| {
        let mut word = words.view_mut(index..=index).unwrap();
        FillNode::new(&mut word, 7).unwrap()
    });
    step.add_fill(first, &[]).unwrap();
    step.add_fill(second, &[]).unwrap();
    let (graph, child) = holding(setup, &step);
    let off = within(&graph, child)[1];
    let mut exec = graph.into_exec().unwrap();
    exec.node(off).unwrap().set_enabled(false).unwrap();
    exec.profile(&stream, 1).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [7, 0]);
}
