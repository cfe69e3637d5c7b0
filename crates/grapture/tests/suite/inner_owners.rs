//! Nodes within embedded graphs: what is kept alive for them, and until when.

use crate::common::counted::{counter, get};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use crate::exec_node::{counting, zeroed};
use crate::inner_nodes::{filling, holding, refusal, within};
use grapture::{CopyNode, CudaError, FillNode, Graph, GraphExec, PinnedBuffer};

both_tiers! {
    clones_keep_what_was_changed_within,
    an_inner_node_keeps_what_it_used_until_the_launch_is_done,
    replacing_the_child_lets_go_of_what_was_changed_within,
    removing_the_child_lets_go_of_what_was_changed_within,
    pinned_memory_follows_the_inner_node,
    memory_of_the_graph_is_refused_within,
}

fn clones_keep_what_was_changed_within(setup: &Setup) {
    let stream = setup.stream();
    let (runs, dropped) = (counter(), counter());
    let mut step = Graph::new(&setup.context).unwrap();
    step.add_host(|| {}, &[]).unwrap();
    let (middle, _) = holding(setup, &step);
    let (mut graph, child) = holding(setup, &middle);
    let deep = within(&graph, within(&graph, child)[0])[0];
    graph.node_mut(deep).unwrap().set_host(counting(&runs, &dropped)).unwrap();
    let mut clone = graph.try_clone().unwrap();
    let name = graph.node_in(deep, &clone).unwrap();
    let cloned_child = graph.node_in(child, &clone).unwrap();
    assert_eq!(name, within(&clone, within(&clone, cloned_child)[0])[0]);
    assert!(refusal(graph.node(name)).starts_with("node: it is a node of another graph"));
    graph.node_mut(deep).unwrap().set_host(|| {}).unwrap();
    drop(graph);
    clone.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!((get(&runs), get(&dropped)), (1, 0));
    clone.node_mut(name).unwrap().set_host(|| {}).unwrap();
    setup.wait_until(|| get(&dropped) == 1);
}

fn an_inner_node_keeps_what_it_used_until_the_launch_is_done(setup: &Setup) {
    let stream = setup.stream();
    let (runs, dropped) = ([counter(), counter()], [counter(), counter()]);
    let mut step = Graph::new(&setup.context).unwrap();
    step.add_host(|| {}, &[]).unwrap();
    let (graph, child) = holding(setup, &step);
    let host = within(&graph, child)[0];
    let mut exec = graph.instantiate().unwrap();
    let set = |exec: &mut GraphExec, index: usize| {
        let function = counting(&runs[index], &dropped[index]);
        exec.node_of(&graph, host).unwrap().set_host(function).unwrap();
    };
    set(&mut exec, 0);
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    set(&mut exec, 1);
    exec.launch(&stream).unwrap();
    setup.driver.reclaim();
    assert_eq!([get(&dropped[0]), get(&dropped[1])], [0, 0]);
    gate.open();
    stream.synchronize().unwrap();
    assert_eq!([get(&runs[0]), get(&runs[1])], [1, 1]);
    setup.wait_until(|| get(&dropped[0]) == 1);
    drop(exec);
    setup.wait_until(|| get(&dropped[1]) == 1);
}

fn replacing_the_child_lets_go_of_what_was_changed_within(setup: &Setup) {
    let stream = setup.stream();
    let (runs, dropped) = (counter(), counter());
    let mut step = Graph::new(&setup.context).unwrap();
    step.add_host(|| {}, &[]).unwrap();
    let (mut graph, child) = holding(setup, &step);
    let host = within(&graph, child)[0];
    // In an executable, before a launch and after one.
    let mut exec = graph.instantiate().unwrap();
    for launched in [false, true] {
        let before = get(&dropped);
        exec.node_of(&graph, host).unwrap().set_host(counting(&runs, &dropped)).unwrap();
        let gate = Gate::new();
        gate.hold(&stream);
        if launched {
            exec.launch(&stream).unwrap();
        }
        exec.node_of(&graph, child).unwrap().set_child(&step).unwrap();
        assert_eq!(get(&dropped) - before, usize::from(!launched));
        gate.open();
        setup.wait_until(|| get(&dropped) == before + 1);
        assert_eq!(get(&runs), usize::from(launched));
    }
    // In the graph.
    let before = get(&dropped);
    graph.node_mut(host).unwrap().set_host(counting(&runs, &dropped)).unwrap();
    graph.node_mut(child).unwrap().set_child(&step).unwrap();
    assert_eq!(get(&dropped), before + 1);
}

fn removing_the_child_lets_go_of_what_was_changed_within(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut step = Graph::new(&setup.context).unwrap();
    step.add_host(|| {}, &[]).unwrap();
    let (mut graph, child) = holding(setup, &step);
    let host = within(&graph, child)[0];
    graph.node_mut(host).unwrap().set_host(counting(&runs, &dropped)).unwrap();
    let exec = graph.instantiate().unwrap();
    graph.remove_node(child).unwrap();
    assert_eq!(get(&dropped), 0, "the executable runs it");
    drop(exec);
    assert_eq!(get(&dropped), 1);
}

fn pinned_memory_follows_the_inner_node(setup: &Setup) {
    let stream = setup.stream();
    let mut words = zeroed(setup, 1);
    let first = PinnedBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let mut second = PinnedBuffer::from_slice(&setup.context, &[2u32]).unwrap();
    let mut step = Graph::new(&setup.context).unwrap();
    step.add_copy(CopyNode::from_pinned(&mut words, &first).unwrap(), &[]).unwrap();
    let (graph, child) = holding(setup, &step);
    let copy = within(&graph, child)[0];
    let mut exec = graph.into_exec().unwrap();
    let other = CopyNode::from_pinned(&mut words, &second).unwrap();
    exec.node(copy).unwrap().set_copy(other).unwrap();
    let write = second.write().unwrap();
    let launched = refusal(exec.launch(&stream));
    assert!(launched.starts_with("pinned"), "{launched}");
    drop(write);
    exec.launch(&stream).unwrap();
    assert_eq!(words.to_vec(&stream).unwrap(), [2]);
}

fn memory_of_the_graph_is_refused_within(setup: &Setup) {
    let mut words = zeroed(setup, 4);
    let (mut graph, child) = holding(setup, &filling(setup, &mut words, 1));
    let fill = within(&graph, child)[0];
    let mut memory = graph.add_alloc::<u32>(4, &[]).unwrap();
    let set = graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut memory, 2).unwrap());
    assert!(refusal(set).starts_with("node: it is a node of an embedded graph"));
    graph.add_free(&memory, &[]).unwrap();
    let mut other = Graph::new(&setup.context).unwrap();
    let mut foreign = other.add_alloc::<u32>(4, &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    for memory in [&mut memory, &mut foreign] {
        let set =
            FillNode::new(memory, 2).and_then(|node| exec.node_of(&graph, fill)?.set_fill(node));
        assert!(matches!(set, Err(CudaError::Refused(_))), "{set:?}");
    }
    other.add_free(&foreign, &[]).unwrap();
}
