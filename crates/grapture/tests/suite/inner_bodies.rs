//! Nodes within the bodies of conditional nodes: named, read and changed.

use crate::common::{Setup, both_tiers};
use crate::exec_node::zeroed;
use crate::inner_nodes::{filling, refusal, within};
use grapture::{
    CaptureMode, DeviceBuffer, FillNode, Graph, Node, NodeId, NodeKind, NodeParams, WordCondition,
};

both_tiers! {
    nodes_of_a_body_are_changed_in_an_executable,
    nodes_of_a_captured_body_are_changed,
    nodes_of_nested_bodies_are_changed,
    an_executable_follows_a_change_in_a_body,
    bodies_that_are_not_there_are_refused,
    names_in_the_bodies_of_a_removed_node_reach_nothing,
    clones_have_names_for_nodes_of_bodies,
}

fn words(setup: &Setup, values: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, values).unwrap()
}

#[track_caller]
fn body(graph: &Graph, node: NodeId, index: usize) -> Vec<NodeId> {
    graph.node(node).unwrap().body_nodes(index).unwrap().iter().map(Node::id).collect()
}

/// A graph of a node that fills one word if another is not zero, and the second if it is.
fn choosing(
    setup: &Setup,
    flag: &DeviceBuffer<u32>,
    out: &mut DeviceBuffer<u32>,
) -> (Graph, NodeId) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let condition = WordCondition::new(flag).unwrap();
    let nodes = [0, 1].map(|index: usize| {
        FillNode::new(&mut out.view_mut(index..=index).unwrap(), index as u32 + 1).unwrap()
    });
    let [then, otherwise] = nodes;
    let node = graph.add_if_else(
        &condition,
        &[],
        |body| body.add_fill(then, &[]).map(|_| ()),
        |body| body.add_fill(otherwise, &[]).map(|_| ()),
    );
    (graph, node.unwrap())
}

fn nodes_of_a_body_are_changed_in_an_executable(setup: &Setup) {
    let stream = setup.stream();
    let (mut flag, mut out) = (words(setup, &[1]), zeroed(setup, 2));
    let (graph, node) = choosing(setup, &flag, &mut out);
    let [then, otherwise] = [0, 1].map(|index| body(&graph, node, index)[0]);
    assert_ne!(then, otherwise);
    let NodeParams::Memset { value, .. } = graph.node(otherwise).unwrap().params().unwrap() else {
        panic!("a fill")
    };
    assert_eq!(value, 2);
    let mut exec = graph.into_exec().unwrap();
    let mut set = |exec: &mut grapture::GraphExec, node, index: usize, value| {
        let mut word = out.view_mut(index..=index).unwrap();
        exec.node(node).unwrap().set_fill(FillNode::new(&mut word, value).unwrap()).unwrap();
    };
    set(&mut exec, then, 0, 10);
    set(&mut exec, otherwise, 1, 20);
    exec.launch(&stream).unwrap();
    flag.fill(0, &stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [10, 20]);
    exec.node(otherwise).unwrap().set_enabled(false).unwrap();
    out.fill(0, &stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [0, 0]);
}

fn nodes_of_a_captured_body_are_changed(setup: &Setup) {
    let stream = setup.stream();
    let (flag, mut out) = (words(setup, &[1]), zeroed(setup, 1));
    let condition = WordCondition::new(&flag).unwrap();
    let graph = stream.capture(CaptureMode::Global, |capture| {
        capture.if_(&condition, |body| out.fill(1, body.stream()))
    });
    let graph = graph.unwrap();
    let nodes = graph.nodes().unwrap();
    let node = nodes.iter().find(|node| node.kind() == NodeKind::Conditional).unwrap().id();
    let fill = body(&graph, node, 0)[0];
    let mut exec = graph.into_exec().unwrap();
    exec.node(fill).unwrap().set_fill(FillNode::new(&mut out, 7).unwrap()).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [7]);
}

fn nodes_of_nested_bodies_are_changed(setup: &Setup) {
    let stream = setup.stream();
    let (flag, mut out) = (words(setup, &[1]), zeroed(setup, 1));
    let condition = WordCondition::new(&flag).unwrap();
    let step = filling(setup, &mut out, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_if(&condition, &[], |body| {
        body.add_if(&condition, &[], |body| body.add_child(&step, &[]).map(|_| ())).map(|_| ())
    });
    let outer = graph.node(node.unwrap()).unwrap().body_nodes(0).unwrap();
    let inner = outer.iter().find(|node| node.kind() == NodeKind::Conditional).unwrap();
    let deep = body(&graph, inner.id(), 0)[0];
    let fill = within(&graph, deep)[0];
    let mut exec = graph.instantiate().unwrap();
    let change = FillNode::new(&mut out, 5).unwrap();
    exec.node_of(&graph, fill).unwrap().set_fill(change).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [5]);
    drop(exec);
    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut out, 6).unwrap()).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [6]);
}

fn an_executable_follows_a_change_in_a_body(setup: &Setup) {
    let stream = setup.stream();
    let (flag, mut out) = (words(setup, &[1]), zeroed(setup, 2));
    let (mut graph, node) = choosing(setup, &flag, &mut out);
    let then = body(&graph, node, 0)[0];
    let mut exec = graph.instantiate().unwrap();
    for value in [3, 4] {
        let mut word = out.view_mut(..1).unwrap();
        graph.node_mut(then).unwrap().set_fill(FillNode::new(&mut word, value).unwrap()).unwrap();
        exec.update(&graph).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(out.to_vec(&stream).unwrap(), [value, 0]);
    }
}

fn bodies_that_are_not_there_are_refused(setup: &Setup) {
    let (flag, mut out) = (words(setup, &[1]), zeroed(setup, 2));
    let (graph, node) = choosing(setup, &flag, &mut out);
    let none = refusal(graph.node(node).unwrap().body_nodes(2));
    assert!(none.starts_with("node: it has no such body"), "{none}");
    assert_eq!(
        refusal(graph.node(node).unwrap().child_nodes()),
        "node: its kind is `conditional`, and the call is for `child graph`"
    );
    let fill = body(&graph, node, 0)[0];
    assert_eq!(
        refusal(graph.node(fill).unwrap().body_nodes(0)),
        "node: its kind is `memset`, and the call is for `conditional`"
    );
}

fn names_in_the_bodies_of_a_removed_node_reach_nothing(setup: &Setup) {
    let (flag, mut out) = (words(setup, &[1]), zeroed(setup, 2));
    let (mut graph, node) = choosing(setup, &flag, &mut out);
    let names = [0, 1].map(|index| body(&graph, node, index)[0]);
    graph.remove_node(node).unwrap();
    for name in names {
        assert!(refusal(graph.node(name)).starts_with("node: the graph that it was in is"));
        assert!(refusal(graph.node_mut(name)).starts_with("node: the graph that it was in is"));
    }
}

fn clones_have_names_for_nodes_of_bodies(setup: &Setup) {
    let stream = setup.stream();
    let (flag, mut out) = (words(setup, &[0]), zeroed(setup, 2));
    let (graph, node) = choosing(setup, &flag, &mut out);
    let otherwise = body(&graph, node, 1)[0];
    let mut clone = graph.try_clone().unwrap();
    let name = graph.node_in(otherwise, &clone).unwrap();
    assert_eq!(name, body(&clone, graph.node_in(node, &clone).unwrap(), 1)[0]);
    let mut word = out.view_mut(1..).unwrap();
    clone.node_mut(name).unwrap().set_fill(FillNode::new(&mut word, 9).unwrap()).unwrap();
    clone.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [0, 9]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [0, 2]);
}
