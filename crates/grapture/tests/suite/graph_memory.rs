//! Memory that nodes of a graph allocate and free.

use super::build::{FOREIGN, refusal, run};
use crate::common::words::word;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CopyNode, CudaError, DeviceBuffer, EdgeData, FillNode, Graph, GraphBuffer,
    NodeKind, NodeParams, PinnedBuffer,
};

both_tiers! {
    memory_of_a_graph_is_used_in_its_nodes,
    nodes_come_between_the_allocation_and_the_free,
    a_kernel_uses_memory_of_its_graph,
    memory_of_a_graph_is_refused_outside,
    memory_of_another_graph_is_refused,
    memory_that_is_freed_is_refused,
    memory_that_nobody_frees_bars_the_executable,
    a_graph_that_allocates_is_changed_by_additions_only,
    a_graph_that_allocates_is_there_once,
    a_graph_that_allocates_moves_into_another,
    a_node_is_changed_to_memory_that_is_there_by_then,
    memory_is_told_back,
    an_allocation_of_nothing_is_refused,
    a_graph_that_allocates_runs_again_and_again,
    a_capture_adds_to_a_graph_that_allocates,
}

/// A graph that fills scratch memory with a value and copies the last element to `word`.
fn through_scratch(
    setup: &Setup,
    word: &mut DeviceBuffer<u32>,
    value: u32,
) -> (Graph, GraphBuffer<u32>) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut scratch = graph.add_alloc::<u32>(1024, &[]).unwrap();
    let fill = FillNode::new(&mut scratch, value).unwrap();
    let fill = graph.add_fill(fill, &[]).unwrap();
    let copy = CopyNode::device(word, &scratch.view(1023..).unwrap()).unwrap();
    graph.add_copy(copy, &[fill]).unwrap();
    (graph, scratch)
}

#[track_caller]
fn value(setup: &Setup, word: &DeviceBuffer<u32>) -> u32 {
    word.to_vec(&setup.stream()).unwrap()[0]
}

fn memory_of_a_graph_is_used_in_its_nodes(setup: &Setup) {
    let mut word = word(setup);
    let (mut graph, scratch) = through_scratch(setup, &mut word, 7);
    graph.add_free(&scratch, &[]).unwrap();
    run(setup, &graph);
    assert_eq!(value(setup, &word), 7);
}

/// Whatever dependencies are named: one node waits for the allocation, and the free for all users.
fn nodes_come_between_the_allocation_and_the_free(setup: &Setup) {
    let mut word = word(setup);
    let (mut graph, mut scratch) = through_scratch(setup, &mut word, 7);
    let apart = FillNode::new(&mut scratch.view_mut(..1).unwrap(), 1).unwrap();
    let apart = graph.add_fill(apart, &[]).unwrap();
    let freed = graph.add_free(&scratch, &[]).unwrap();
    let allocated = (scratch.node(), EdgeData::FULL);
    assert_eq!(graph.node(apart).unwrap().dependencies().unwrap(), [allocated]);
    let waits = graph.node(freed).unwrap().dependencies().unwrap();
    let users: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.id()).collect();
    for user in &users[..4] {
        assert!(waits.contains(&(*user, EdgeData::FULL)), "{user:?}");
    }
    run(setup, &graph);
    assert_eq!(value(setup, &word), 7);
}

fn a_kernel_uses_memory_of_its_graph(setup: &Setup) {
    let mut word = word(setup);
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut scratch = graph.add_alloc::<u32>(4, &[]).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut scratch, 40).unwrap(), &[]).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut scratch).value(2u32);
    // SAFETY: `add` takes the address of a word and a value.
    let added = unsafe { graph.add_kernel(launch, &[fill]) }.unwrap();
    let copy = CopyNode::device(&mut word, &scratch.view(..1).unwrap()).unwrap();
    graph.add_copy(copy, &[added]).unwrap();
    graph.add_free(&scratch, &[]).unwrap();
    run(setup, &graph);
    assert_eq!(value(setup, &word), 42);
}

fn memory_of_a_graph_is_refused_outside(setup: &Setup) {
    let stream = setup.stream();
    let mut word = word(setup);
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let (mut graph, mut scratch) = through_scratch(setup, &mut word, 7);
    let text = "memory: a node of a graph allocates it, and it is there only while that graph \
                runs: use it in nodes that are added to the same graph";
    let add = setup.module.kernel("add").unwrap();
    let mut tries = |scratch: &mut GraphBuffer<u32>| {
        let mut first = scratch.view_mut(..1).unwrap();
        assert_eq!(refusal(first.fill(1, &stream)), text);
        assert_eq!(refusal(first.copy_from(&word, &stream)), text);
        assert_eq!(refusal(first.copy_from_host(&[1], &stream)), text);
        assert_eq!(refusal(first.copy_to_pinned(&mut pinned, &stream)), text);
        assert_eq!(refusal(word.copy_from(&first, &stream)), text);
        if !stream.is_capturing() {
            assert_eq!(refusal(first.to_vec(&stream)), text);
        }
        let launch = add.launch_builder(1, 1).arg_mut(&mut first).value(1u32);
        // SAFETY: it is refused.
        assert_eq!(refusal(unsafe { launch.launch(&stream) }), text);
    };
    tries(&mut scratch);
    let captured = stream.capture(CaptureMode::ThreadLocal, |_| {
        tries(&mut scratch);
        Ok(())
    });
    assert_eq!(captured.unwrap().node_count().unwrap(), 0);
    graph.add_free(&scratch, &[]).unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    tries(&mut scratch);
    drop((exec, graph));
    tries(&mut scratch);
    assert_eq!(value(setup, &word), 7);
}

fn memory_of_another_graph_is_refused(setup: &Setup) {
    let mut word = word(setup);
    let (_graph, mut scratch) = through_scratch(setup, &mut word, 7);
    let mut other = Graph::new(&setup.context).unwrap();
    let foreign = FOREIGN.replace("{}", "memory");
    let fill = FillNode::new(&mut scratch, 1).unwrap();
    assert_eq!(refusal(other.add_fill(fill, &[])), foreign);
    assert_eq!(refusal(other.add_free(&scratch, &[])), foreign);
    let own = other.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    let fill = FillNode::new(&mut scratch, 1).unwrap();
    assert_eq!(refusal(other.node_mut(own).unwrap().set_fill(fill)), foreign);
    assert_eq!(other.node_count().unwrap(), 1);
}

fn memory_that_is_freed_is_refused(setup: &Setup) {
    let mut word = word(setup);
    let (mut graph, mut scratch) = through_scratch(setup, &mut word, 7);
    graph.add_free(&scratch, &[]).unwrap();
    let text = "memory: a node of the graph frees it already: add what uses it before";
    let fill = FillNode::new(&mut scratch, 1).unwrap();
    assert_eq!(refusal(graph.add_fill(fill, &[])), text);
    assert_eq!(refusal(graph.add_free(&scratch, &[])), text);
    let node = graph.nodes().unwrap()[1].id();
    let fill = FillNode::new(&mut scratch, 1).unwrap();
    assert_eq!(refusal(graph.node_mut(node).unwrap().set_fill(fill)), text);
    run(setup, &graph);
    assert_eq!(value(setup, &word), 7);
}

fn memory_that_nobody_frees_bars_the_executable(setup: &Setup) {
    let mut word = word(setup);
    let (mut graph, scratch) = through_scratch(setup, &mut word, 7);
    let text = refusal(graph.instantiate());
    assert!(text.starts_with("graph: no node frees the 4096 bytes at 0x"), "{text}");
    assert!(text.ends_with("add one with `Graph::add_free`"), "{text}");
    let mut parent = Graph::new(&setup.context).unwrap();
    graph.add_free(&scratch, &[]).unwrap();
    run(setup, &graph);
    let (leaky, _scratch) = through_scratch(setup, &mut word, 7);
    assert!(refusal(parent.add_child_moved(leaky, &[])).contains("no node frees"));
}

fn a_graph_that_allocates_is_changed_by_additions_only(setup: &Setup) {
    let mut word = word(setup);
    let (mut graph, scratch) = through_scratch(setup, &mut word, 7);
    let nodes = graph.nodes().unwrap();
    let has = "graph: it has nodes that allocate or free memory: ";
    assert_eq!(
        refusal(graph.remove_node(nodes[1].id())),
        format!("{has}its nodes cannot be removed")
    );
    assert_eq!(
        refusal(graph.remove_dependency(nodes[0].id(), nodes[1].id())),
        format!("{has}its dependencies cannot be removed")
    );
    let before = graph.add_empty(&[]).unwrap();
    graph.add_dependency(before, nodes[1].id()).unwrap();
    graph.add_free(&scratch, &[]).unwrap();
    run(setup, &graph);
    assert_eq!(value(setup, &word), 7);
}

fn a_graph_that_allocates_is_there_once(setup: &Setup) {
    let mut word = word(setup);
    let (mut graph, scratch) = through_scratch(setup, &mut word, 7);
    graph.add_free(&scratch, &[]).unwrap();
    let mut parent = Graph::new(&setup.context).unwrap();
    let has = "graph: it has nodes that allocate or free memory: ";
    assert_eq!(refusal(graph.try_clone()), format!("{has}it cannot be cloned"));
    let no_copy =
        format!("{has}it cannot be copied into a node: move it there with `add_child_moved`");
    assert_eq!(refusal(parent.add_child(&graph, &[])), no_copy);
    let empty = Graph::new(&setup.context).unwrap();
    let node = parent.add_child(&empty, &[]).unwrap();
    assert_eq!(refusal(parent.node_mut(node).unwrap().set_child(&graph)), no_copy);
    let exec = graph.instantiate().unwrap();
    assert!(
        matches!(graph.instantiate(), Err(CudaError::Instantiate(error)) if error.code() == 801)
    );
    drop(exec);
    run(setup, &graph);
    assert_eq!(value(setup, &word), 7);
}

fn a_graph_that_allocates_moves_into_another(setup: &Setup) {
    let mut word = word(setup);
    let (mut child, mut scratch) = through_scratch(setup, &mut word, 7);
    child.add_free(&scratch, &[]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let moved = graph.add_child_moved(child, &[]).unwrap();
    let fill = FillNode::new(&mut scratch, 1).unwrap();
    assert!(graph.add_fill(fill, &[moved]).is_err());
    let has = "graph: it has nodes that allocate or free memory: ";
    assert_eq!(refusal(graph.remove_node(moved)), format!("{has}its nodes cannot be removed"));
    assert_eq!(refusal(graph.try_clone()), format!("{has}it cannot be cloned"));
    run(setup, &graph);
    assert_eq!(value(setup, &word), 7);
}

fn a_node_is_changed_to_memory_that_is_there_by_then(setup: &Setup) {
    let mut word = word(setup);
    let mut graph = Graph::new(&setup.context).unwrap();
    let before = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    let mut scratch = graph.add_alloc::<u32>(1, &[before]).unwrap();
    let behind = graph.add_empty(&[scratch.node()]).unwrap();
    let after = graph.add_fill(FillNode::new(&mut word, 2).unwrap(), &[behind]).unwrap();
    let fill = FillNode::new(&mut scratch, 3).unwrap();
    assert_eq!(
        refusal(graph.node_mut(before).unwrap().set_fill(fill)),
        "memory: the node that allocates it does not come before: add that dependency first"
    );
    let fill = FillNode::new(&mut scratch, 3).unwrap();
    graph.node_mut(after).unwrap().set_fill(fill).unwrap();
    let freed = graph.add_free(&scratch, &[]).unwrap();
    let waits = graph.node(freed).unwrap().dependencies().unwrap();
    assert!(waits.contains(&(after, EdgeData::FULL)));
    run(setup, &graph);
    assert_eq!(value(setup, &word), 1);
}

fn memory_is_told_back(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let scratch = graph.add_alloc::<u64>(5, &[]).unwrap();
    let freed = graph.add_free(&scratch, &[]).unwrap();
    assert_eq!((scratch.len(), scratch.is_empty()), (5, false));
    let address = scratch.as_raw();
    let params = |node| graph.node(node).unwrap().params().unwrap();
    assert_eq!(params(scratch.node()), NodeParams::MemAlloc { address, bytes: 40 });
    assert_eq!(params(freed), NodeParams::MemFree { address });
    let kinds: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.kind()).collect();
    assert_eq!(kinds, [NodeKind::MemAlloc, NodeKind::MemFree]);
}

fn an_allocation_of_nothing_is_refused(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    assert_eq!(
        refusal(graph.add_alloc::<u32>(0, &[])),
        "memory.len: it is 0, and no node allocates nothing"
    );
    assert!(refusal(graph.add_alloc::<u32>(usize::MAX, &[])).starts_with("memory.len: "));
    assert_eq!(graph.add_alloc::<u8>(1 << 60, &[]).unwrap_err(), CudaError::OutOfMemory);
    run(setup, &graph);
}

fn a_graph_that_allocates_runs_again_and_again(setup: &Setup) {
    let stream = setup.stream();
    let mut word = word(setup);
    let (mut graph, scratch) = through_scratch(setup, &mut word, 7);
    graph.add_free(&scratch, &[]).unwrap();
    let exec = graph.instantiate().unwrap();
    drop((graph, scratch));
    for _ in 0..10 {
        word.fill(0, &stream).unwrap();
        exec.launch(&stream).unwrap();
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [7]);
}

/// No node can be removed from it, so a failed closure leaves it empty.
fn a_capture_adds_to_a_graph_that_allocates(setup: &Setup) {
    let stream = setup.stream();
    let mut word = word(setup);
    let (mut graph, scratch) = through_scratch(setup, &mut word, 7);
    let freed = graph.add_free(&scratch, &[]).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mode = CaptureMode::ThreadLocal;
    stream.capture_into(&mut graph, &[freed], mode, |_| other.copy_from(&word, &stream)).unwrap();
    run(setup, &graph);
    assert_eq!(value(setup, &other), 7);
    let failed = stream.capture_into(&mut graph, &[freed], mode, |_| {
        other.fill(1, &stream)?;
        Err(CudaError::NotReady)
    });
    assert_eq!(failed, Err(CudaError::NotReady));
    assert_eq!((graph.node_count().unwrap(), graph.retained()), (0, vec![]));
    graph.add_fill(FillNode::new(&mut other, 3).unwrap(), &[]).unwrap();
    run(setup, &graph);
    assert_eq!(value(setup, &other), 3);
    drop(scratch);
    let _clone = graph.try_clone().unwrap();
}
