//! What changed from one topology to another, in words. Needs no driver.

use grapture::{
    CopyDirection, Dim3, OperationSpec, SourceLine, StreamCapture, Topology, TopologyChange,
    TopologyEdge, TopologyNode,
};
use proptest::prelude::*;

fn kernel(name: &str) -> OperationSpec {
    let name = name.to_owned();
    OperationSpec::Kernel { name, grid: Dim3::x(4), block: Dim3::x(64), shared_bytes: 0 }
}

/// One node after another.
fn chain(nodes: Vec<TopologyNode>) -> Topology {
    let edges = (1..nodes.len()).map(|node| TopologyEdge::new(node - 1, node, false)).collect();
    Topology::new(nodes, edges).expect("a chain is valid")
}

fn kernels(names: &[&str]) -> Topology {
    chain(names.iter().map(|name| TopologyNode::new(kernel(name))).collect())
}

#[track_caller]
fn assert_diff(one: &Topology, other: &Topology, lines: &[&str]) {
    assert_eq!(one.diff(other).to_string(), lines.join("\n"));
}

#[test]
fn equal_topologies_have_no_diff() {
    let (one, same) = (kernels(&["a", "b"]), kernels(&["a", "b"]));
    assert!(one.diff(&same).is_empty());
    assert_eq!(one.diff(&same).to_string(), "no change");
    let nodes = ["b", "a"].map(|name| TopologyNode::new(kernel(name))).to_vec();
    let turned = Topology::new(nodes, vec![TopologyEdge::new(1, 0, false)]).expect("valid");
    assert!(one.diff(&turned).is_empty());
    assert!(Topology::default().diff(&Topology::default()).is_empty());
}

#[test]
fn what_changed_of_an_operation_is_told() {
    let node = |bytes, grid: u32| {
        let mut plan = StreamCapture::new();
        plan.record_copy(CopyDirection::HostToDevice, bytes).expect("valid");
        plan.record_fill(bytes, 7, 4).expect("valid");
        plan.record_kernel("scale", grid, 256, bytes).expect("valid");
        plan.end()
    };
    assert_diff(
        &node(64, 1),
        &node(128, 2),
        &[
            "node 0 (copy): bytes from 64 to 128",
            "node 1 (fill): bytes from 64 to 128",
            "node 2 (kernel scale): grid from 1 x 1 x 1 to 2 x 1 x 1",
            "node 2 (kernel scale): shared bytes from 64 to 128",
        ],
    );
}

#[test]
fn labels_and_parameters_count_and_lines_do_not() {
    let plain = || TopologyNode::new(kernel("a"));
    let one = chain(vec![plain().with_parameter("argument 0", "d0").with_parameter("old", "1")]);
    let other = chain(vec![
        plain().with_parameter("argument 0", "d1").with_parameter("new", "2").with_label("x"),
    ]);
    assert_eq!(one, other);
    assert_diff(
        &one,
        &other,
        &[
            "node 0 (kernel a): argument 0 from d0 to d1",
            "node 0 (kernel a): old is gone: it was 1",
            "node 0 (kernel a): label is new: x",
            "node 0 (kernel a): new is new: 2",
        ],
    );
    let here = chain(vec![plain().with_line(SourceLine::new("a.rs", 1, 1))]);
    let there = chain(vec![plain().with_line(SourceLine::new("b.rs", 2, 2))]);
    assert!(here.diff(&there).is_empty());
}

#[test]
fn a_node_between_others_is_new_with_its_dependencies() {
    assert_diff(
        &kernels(&["a", "b"]),
        &kernels(&["a", "x", "b"]),
        &[
            "node 1 is new: kernel x, 4 x 1 x 1 blocks of 64 x 1 x 1 threads",
            "node 2 waits no longer for node 0",
            "node 1 waits for node 0",
            "node 2 waits for node 1",
        ],
    );
}

#[test]
fn a_node_that_is_gone_is_told_as_it_was() {
    assert_diff(
        &kernels(&["a", "x", "b"]),
        &kernels(&["a", "b"]),
        &[
            "node 1 of the first is gone: kernel x, 4 x 1 x 1 blocks of 64 x 1 x 1 threads",
            "node 1 waits for node 0",
        ],
    );
}

#[test]
fn one_of_many_equal_nodes_that_is_gone_moves_no_other() {
    let many = kernels(&["add"; 20]);
    let fewer = kernels(&["add"; 19]);
    let diff = many.diff(&fewer);
    let gone = |change: &&TopologyChange| matches!(change, TopologyChange::NodeRemoved { .. });
    assert_eq!(diff.changes().iter().filter(gone).count(), 1, "{diff}");
    assert!(diff.changes().len() <= 3, "{diff}");
}

#[test]
fn another_kernel_in_the_same_place_is_a_change_of_name() {
    assert_diff(
        &kernels(&["a", "b", "c"]),
        &kernels(&["a", "x", "c"]),
        &["node 1 (kernel x): name from b to x"],
    );
}

#[test]
fn another_kind_in_the_same_place_is_another_node() {
    let host = chain(vec![TopologyNode::new(OperationSpec::Host)]);
    assert_diff(
        &host,
        &kernels(&["a"]),
        &[
            "node 0 of the first is gone: host function",
            "node 0 is new: kernel a, 4 x 1 x 1 blocks of 64 x 1 x 1 threads",
        ],
    );
}

#[test]
fn dependencies_and_their_kind_are_told() {
    let nodes = || ["a", "b"].map(|name| TopologyNode::new(kernel(name))).to_vec();
    let with = |edges| Topology::new(nodes(), edges).expect("valid");
    let (none, full) = (with(vec![]), with(vec![TopologyEdge::new(0, 1, false)]));
    let programmatic = with(vec![TopologyEdge::new(0, 1, true)]);
    assert_diff(&none, &full, &["node 1 waits for node 0"]);
    assert_diff(&full, &none, &["node 1 waits no longer for node 0"]);
    assert_diff(
        &full,
        &programmatic,
        &["node 1 waits no longer for node 0", "node 1 waits for node 0, programmatically"],
    );
}

#[test]
fn changes_within_child_graphs_say_where() {
    let parent = |names: &[&str]| {
        let child = OperationSpec::ChildGraph(kernels(names));
        chain(vec![TopologyNode::new(OperationSpec::Host), TopologyNode::new(child)])
    };
    assert_diff(
        &parent(&["a", "b"]),
        &parent(&["a", "x"]),
        &["in the child graph of node 1: node 1 (kernel x): name from b to x"],
    );
    assert!(parent(&["a", "b"]).diff(&parent(&["a", "b"])).is_empty());
}

#[test]
fn hostile_names_stay_on_their_line() {
    let diff = kernels(&["a\n\u{202e}b"]).diff(&kernels(&["c\0\"d\""]));
    assert_eq!(
        diff.to_string(),
        "node 0 (kernel c\\u{0}\"d\"): name from a\\n\\u{202e}b to c\\u{0}\"d\""
    );
}

#[test]
fn large_topologies_are_compared_in_no_time() {
    let names: Vec<String> = (0..5_000).map(|index| format!("k{}", index % 7)).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = kernels(&names);
    names.remove(2_500);
    names[10] = "other";
    let diff = before.diff(&kernels(&names));
    assert!((3..8).contains(&diff.changes().len()), "{} changes", diff.changes().len());
}

prop_compose! {
    /// A topology of a few nodes that are hard to tell apart.
    fn small()(len in 0usize..6)(
        names in prop::collection::vec(0..3u8, len),
        edges in prop::collection::vec((0..len.max(1), 0..len.max(1), any::<bool>()), 0..8),
    ) -> Topology {
        let nodes = names.iter().map(|name| {
            let node = TopologyNode::new(kernel(&(name % 2).to_string()));
            if *name == 2 { node.with_label("labelled") } else { node }
        });
        let forward = edges.into_iter().filter(|(from, to, _)| from < to);
        let edges = forward.map(|(from, to, kind)| TopologyEdge::new(from, to, kind)).collect();
        Topology::new(nodes.collect(), edges).expect("edges lead forward")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What differs has a diff, and what has no diff is equal.
    #[test]
    fn no_diff_means_equal(one in small(), other in small()) {
        let (there, back) = (one.diff(&other), other.diff(&one));
        if one != other {
            prop_assert!(!there.is_empty());
        }
        prop_assert_eq!(there.is_empty(), back.is_empty());
        prop_assert_eq!(there.to_string(), one.diff(&other).to_string());
    }

    /// Nodes are counted right: what is gone and what is new makes up for the difference.
    #[test]
    fn the_nodes_add_up(one in small(), other in small()) {
        let diff = one.diff(&other);
        let count = |of: fn(&TopologyChange) -> bool| diff.changes().iter().filter(|change| of(change)).count();
        let gone = count(|change| matches!(change, TopologyChange::NodeRemoved { .. }));
        let new = count(|change| matches!(change, TopologyChange::NodeAdded { .. }));
        prop_assert_eq!(one.nodes().len() + new, other.nodes().len() + gone);
    }
}
