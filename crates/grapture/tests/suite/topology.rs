//! Topologies: equality up to node order, DOT, JSON and the list to read. Needs no driver.

use grapture::{
    ConditionalForm, CopyDirection, CudaError, Dim3, OperationSpec, SourceLine, Topology,
    TopologyEdge, TopologyNode,
};
use proptest::prelude::*;

/// A kernel that differs from others by its name.
fn kernel(name: &str) -> OperationSpec {
    let name = name.to_owned();
    OperationSpec::Kernel { name, grid: Dim3::x(4), block: Dim3::new(16, 16, 1), shared_bytes: 0 }
}

fn topology(operations: Vec<OperationSpec>, edges: &[(usize, usize)]) -> Topology {
    try_topology(operations, edges).expect("it is valid")
}

fn try_topology(
    operations: Vec<OperationSpec>,
    edges: &[(usize, usize)],
) -> Result<Topology, CudaError> {
    let nodes = operations.into_iter().map(TopologyNode::new).collect();
    let edges = edges.iter().map(|(from, to)| TopologyEdge::new(*from, *to, false)).collect();
    Topology::new(nodes, edges)
}

/// A loop in a body, with labels that try to break out of more than one graph.
fn hostile_body() -> Topology {
    let evil = "}\n} \"]; end\nend --> n0 \u{202e}";
    let rounds = TopologyNode::new(kernel("then"))
        .with_label(evil)
        .with_line(SourceLine::new("a\"}\nb.rs", 1, 2))
        .with_parameter("argument 0", "d0 }");
    let rounds = Topology::new(vec![rounds], vec![]).expect("it is valid");
    let form = ConditionalForm::While;
    let loops = TopologyNode::new(OperationSpec::Conditional { form, bodies: vec![rounds] })
        .with_label(evil)
        .with_parameter("by", "d1");
    let nodes = vec![TopologyNode::new(OperationSpec::Empty), loops];
    Topology::new(nodes, vec![TopologyEdge::new(0, 1, false)]).expect("it is valid")
}

/// Every kind of node, and labels that try to break out.
fn hostile() -> Topology {
    let child = topology(vec![kernel("inner \"kernel\""), OperationSpec::Empty], &[(0, 1)]);
    let nodes = [
        kernel("quote\" backslash\\ <b>{record|port}</b> &lt; \u{3bb}"),
        OperationSpec::Kernel {
            name: "line\nfeed\r\ttab\0nul\"]; evil [label=\"".to_owned(),
            grid: Dim3::new(65_535, 2, 3),
            block: Dim3::x(1_024),
            shared_bytes: 49_152,
        },
        OperationSpec::Copy { direction: CopyDirection::HostToDevice, bytes: 4_096 },
        OperationSpec::Copy { direction: CopyDirection::Other, bytes: 1 },
        OperationSpec::Fill { bytes: 64, value: 0xdead_beef, element_bytes: 4 },
        OperationSpec::Host,
        OperationSpec::Empty,
        OperationSpec::EventRecord,
        OperationSpec::EventWait,
        OperationSpec::ChildGraph(child),
        OperationSpec::Other("conditional \\N \\G".to_owned()),
        OperationSpec::Conditional {
            form: ConditionalForm::If,
            bodies: vec![hostile_body(), Topology::default()],
        },
        OperationSpec::Allocation { bytes: 1_024 },
        OperationSpec::Free,
        OperationSpec::BatchMemOp { operations: 1 },
        OperationSpec::Host,
        kernel(&format!("_Z{}E", "long_\u{1f600}".repeat(1_000))),
    ];
    let edges = vec![
        TopologyEdge::new(0, 1, true),
        TopologyEdge::new(0, 2, false),
        TopologyEdge::new(1, 3, false),
        TopologyEdge::new(2, 3, false),
        TopologyEdge::new(3, 9, false),
        TopologyEdge::new(10, 9, false),
        TopologyEdge::new(11, 15, false),
    ];
    let mut nodes = nodes.map(TopologyNode::new);
    nodes[2] = nodes[2]
        .clone()
        .with_parameter("from", "h0 + 16")
        .with_parameter("to\n\"]", "d0 --> \u{202e}evil\u{202c} `x` #quot; %%{init}%%");
    nodes[15] = nodes[15]
        .clone()
        .with_label(
            "\u{1f600} \u{200f}\u{5d0}\u{200e} \"]; end --> n0 <img src=x onerror=alert(1)>",
        )
        .with_line(SourceLine::new("src/\"a b\".rs", 7, 9));
    Topology::new(nodes.into(), edges).expect("it is valid")
}

/// Compares with a golden file; `GRAPTURE_BLESS=1` writes it.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("GRAPTURE_BLESS").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file is there");
    assert_eq!(text, golden, "{name} differs");
}

#[test]
fn dot_is_as_in_the_golden_file() {
    golden("hostile.dot", &hostile().to_dot());
}

#[test]
fn mermaid_is_as_in_the_golden_file() {
    golden("hostile.mmd", &hostile().to_mermaid());
}

#[test]
fn json_is_as_in_the_golden_file() {
    golden("hostile.json", &(hostile().to_json() + "\n"));
}

#[test]
fn the_list_is_as_in_the_golden_file() {
    golden("hostile.txt", &(hostile().to_string() + "\n"));
}

#[test]
fn json_gives_the_same_topology_back() {
    let read = Topology::from_json(&hostile().to_json()).expect("it was just written");
    assert_eq!(read.nodes(), hostile().nodes());
    assert_eq!(read.edges(), hostile().edges());
    assert_eq!(read.to_json(), hostile().to_json());
}

#[test]
fn json_that_is_no_topology_is_refused_with_the_reason() {
    let document = |topology: &str| format!("{{\"version\": 1, \"topology\": {topology}}}");
    let host = r#"{"operation": "host"}"#;
    for (json, reason) in [
        (String::new(), "EOF"),
        ("{".to_owned(), "EOF"),
        ("[]".to_owned(), "invalid length 0"),
        ("{}".to_owned(), "missing field `version`"),
        (r#"{"version": "1"}"#.to_owned(), "invalid type"),
        (r#"{"version": 3, "topology": 7}"#.to_owned(), "it is of version 3"),
        (r#"{"version": 0, "topology": 7}"#.to_owned(), "this library reads 1 to 2"),
        (r#"{"version": 1}"#.to_owned(), "missing field `topology`"),
        (document("7"), "invalid type"),
        (document(r#"{"nodes": []}"#), "missing field `edges`"),
        (document(r#"{"nodes": [], "edges": [], "more": 1}"#), "unknown field `more`"),
        (document(r#"{"nodes": [{"operation": "dance"}], "edges": []}"#), "unknown variant"),
        (
            document(
                r#"{"nodes": [{"operation": {"copy": {"direction": "up", "bytes": 1}}}], "edges": []}"#,
            ),
            "unknown variant `up`",
        ),
        (
            document(
                r#"{"nodes": [{"operation": {"copy": {"direction": "other", "bytes": -1}}}], "edges": []}"#,
            ),
            "invalid value",
        ),
        (
            document(&format!(r#"{{"nodes": [{host}], "edges": [{{"from": 0, "to": 1}}]}}"#)),
            "0 -> 1 names node 1, and there are 1 nodes",
        ),
        (
            document(&format!(r#"{{"nodes": [{host}], "edges": [{{"from": 0, "to": 0}}]}}"#)),
            "cycle",
        ),
        (document(r#"{"nodes": [], "edges": []}"#) + "x", "trailing"),
    ] {
        let error = Topology::from_json(&json).expect_err(&json);
        assert!(matches!(error, CudaError::Refused(_)), "{json}");
        assert!(error.to_string().starts_with("topology.json: "), "{error}");
        assert!(error.to_string().contains(reason), "{json}: {error}");
    }
}

#[test]
fn json_of_the_first_version_is_still_read() {
    let json = r#"{"version": 1, "topology": {
        "nodes": [{"operation": "host"}, {"operation": {"copy": {"direction": "other", "bytes": 1}}}],
        "edges": [{"from": 0, "to": 1, "programmatic": false}]}}"#;
    let read = Topology::from_json(json).expect("the first version");
    let copy = OperationSpec::Copy { direction: CopyDirection::Other, bytes: 1 };
    assert_eq!(read, topology(vec![OperationSpec::Host, copy], &[(0, 1)]));
}

#[test]
fn json_that_is_nested_too_deep_is_refused() {
    let depth = 10_000;
    let open = r#"{"nodes": [{"operation": {"child_graph": "#.repeat(depth);
    let json = format!("{{\"version\": 1, \"topology\": {open}");
    assert!(Topology::from_json(&json).is_err());
}

#[test]
fn edges_that_cannot_be_are_refused() {
    let three = || vec![OperationSpec::Host, OperationSpec::Host, OperationSpec::Host];
    for (edges, text) in [
        (
            &[(0, 3)][..],
            "topology.edges: 0 -> 3 names node 3, and there are 3 nodes, counted from 0",
        ),
        (&[(usize::MAX, 0)], "names node 18446744073709551615"),
        (&[(1, 1)], "they form a cycle, and node 1 waits for it or is on it"),
        (&[(0, 1), (1, 2), (2, 0)], "they form a cycle, and node 0"),
        (&[(1, 2), (2, 1)], "they form a cycle, and node 1"),
    ] {
        let error = try_topology(three(), edges).expect_err(text);
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn an_edge_given_twice_counts_once() {
    let twice = topology(vec![OperationSpec::Host, OperationSpec::Empty], &[(0, 1), (0, 1)]);
    assert_eq!(twice.edges().len(), 1);
}

#[test]
fn a_programmatic_edge_is_another_one() {
    let nodes = || vec![TopologyNode::new(kernel("a")), TopologyNode::new(kernel("a"))];
    let plain = Topology::new(nodes(), vec![TopologyEdge::new(0, 1, false)]).expect("valid");
    let programmatic = Topology::new(nodes(), vec![TopologyEdge::new(0, 1, true)]).expect("valid");
    let both = vec![TopologyEdge::new(0, 1, true), TopologyEdge::new(0, 1, false)];
    let both = Topology::new(nodes(), both).expect("valid");
    assert_ne!(plain, programmatic);
    assert_ne!(both, plain);
    assert_eq!(both, both.clone());
}

#[test]
fn child_graphs_are_equal_up_to_node_order_too() {
    let forward = topology(vec![kernel("a"), kernel("b")], &[(0, 1)]);
    let backward = topology(vec![kernel("b"), kernel("a")], &[(1, 0)]);
    let other = topology(vec![kernel("b"), kernel("a")], &[(0, 1)]);
    let parent = |first: &Topology, second: &Topology| {
        let child = |topology: &Topology| OperationSpec::ChildGraph(topology.clone());
        topology(vec![child(first), OperationSpec::Empty, child(second)], &[(0, 1), (1, 2)])
    };
    let reordered = topology(
        vec![
            OperationSpec::ChildGraph(other.clone()),
            OperationSpec::ChildGraph(backward),
            OperationSpec::Empty,
        ],
        &[(1, 2), (2, 0)],
    );
    assert_eq!(parent(&forward, &other), reordered);
    assert_ne!(parent(&forward, &forward), reordered);
}

/// Two hexagons against three pairs and the like: every node has the same surroundings.
#[test]
fn graphs_that_only_the_whole_tells_apart_are_told_apart() {
    let hosts = |count| vec![OperationSpec::Host; count];
    // The same number of sources and sinks, each with two neighbours: one ring of 8, two of 4.
    let ring =
        topology(hosts(8), &[(0, 4), (1, 4), (1, 5), (2, 5), (2, 6), (3, 6), (3, 7), (0, 7)]);
    let two = topology(hosts(8), &[(0, 4), (0, 5), (1, 4), (1, 5), (2, 6), (2, 7), (3, 6), (3, 7)]);
    assert_ne!(ring, two);
    let turned =
        topology(hosts(8), &[(7, 0), (6, 0), (6, 1), (5, 1), (5, 2), (4, 2), (4, 3), (7, 3)]);
    assert_eq!(ring, turned);
}

#[test]
fn large_graphs_are_compared_in_no_time() {
    let size = 10_000;
    let hosts = || vec![OperationSpec::Host; size];
    let chain: Vec<_> = (1..size).map(|node| (node - 1, node)).collect();
    let backward: Vec<_> = (1..size).map(|node| (node, node - 1)).collect();
    assert_eq!(topology(hosts(), &chain), topology(hosts(), &backward));
    let mut cut = backward.clone();
    cut.pop();
    cut.push((size - 1, size - 3));
    assert_ne!(topology(hosts(), &chain), topology(hosts(), &cut));
    // Twenty equal branches from one node, of a hundred nodes each.
    let size = 2_000;
    let hosts = || vec![OperationSpec::Host; size];
    let branches: Vec<_> =
        (1..size).map(|node| if node % 100 == 1 { (0, node) } else { (node - 1, node) }).collect();
    let shuffled: Vec<_> =
        branches.iter().map(|(from, to)| (size - 1 - from, size - 1 - to)).collect();
    assert_eq!(topology(hosts(), &branches), topology(hosts(), &shuffled));
}

/// Whether two small topologies are equal up to node order, by trying every order.
fn equal_by_trying(one: &Topology, other: &Topology) -> bool {
    fn orders(len: usize) -> Vec<Vec<usize>> {
        let mut orders = vec![vec![]];
        for _ in 0..len {
            orders = orders
                .into_iter()
                .flat_map(|order: Vec<usize>| {
                    (0..len)
                        .filter(|next| !order.contains(next))
                        .map(|next| [&order[..], &[next]].concat())
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        orders
    }
    one.nodes().len() == other.nodes().len()
        && orders(one.nodes().len())
            .iter()
            .any(|order| *other == permuted_exactly(one, order, other))
}

/// `one` with node `n` at `order[n]` if that is `other` to the letter, else nothing.
fn permuted_exactly(one: &Topology, order: &[usize], other: &Topology) -> Topology {
    let permuted = permuted(one, order);
    if permuted.nodes() == other.nodes() && permuted.edges() == other.edges() {
        return other.clone();
    }
    topology(vec![OperationSpec::Other("not this order".to_owned())], &[])
}

fn permuted(one: &Topology, order: &[usize]) -> Topology {
    let mut nodes = one.nodes().to_vec();
    for (node, place) in one.nodes().iter().zip(order) {
        nodes[*place] = node.clone();
    }
    let edges = one.edges().iter();
    let edges = edges.map(|edge| {
        TopologyEdge::new(order[edge.from()], order[edge.to()], edge.is_programmatic())
    });
    Topology::new(nodes, edges.collect()).expect("an order changes nothing")
}

prop_compose! {
    /// A topology of a few nodes that are hard to tell apart.
    fn small()(len in 1usize..6)(
        names in prop::collection::vec(0..2u8, len),
        edges in prop::collection::vec((0..len, 0..len, prop::bool::weighted(0.2)), 0..8),
    ) -> Topology {
        let nodes = names.iter().map(|name| TopologyNode::new(kernel(&name.to_string()))).collect();
        let forward = edges.into_iter().filter(|(from, to, _)| from < to);
        let edges = forward.map(|(from, to, kind)| TopologyEdge::new(from, to, kind)).collect();
        Topology::new(nodes, edges).expect("edges lead forward")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equality_is_what_trying_every_order_says(one in small(), other in small()) {
        prop_assert_eq!(one == other, equal_by_trying(&one, &other));
    }

    #[test]
    fn the_order_of_the_nodes_does_not_count(
        (one, order) in small().prop_flat_map(|one| {
            let order: Vec<usize> = (0..one.nodes().len()).collect();
            (Just(one), Just(order).prop_shuffle())
        }),
    ) {
        prop_assert_eq!(&one, &permuted(&one, &order));
    }

    #[test]
    fn an_edge_more_is_another_topology(one in small(), choice in any::<prop::sample::Index>()) {
        let len = one.nodes().len();
        let forward = (0..len).flat_map(|from| (from + 1..len).map(move |to| (from, to)));
        let new: Vec<_> = forward
            .map(|(from, to)| TopologyEdge::new(from, to, false))
            .filter(|edge| !one.edges().contains(edge))
            .collect();
        if !new.is_empty() {
            let mut edges = one.edges().to_vec();
            edges.push(*choice.get(&new));
            prop_assert_ne!(&one, &Topology::new(one.nodes().to_vec(), edges).expect("forward"));
        }
    }

    #[test]
    fn json_gives_any_name_back(name in any::<String>()) {
        let one = topology(vec![kernel(&name), OperationSpec::Other(name)], &[(0, 1)]);
        let read = Topology::from_json(&one.to_json()).expect("it was just written");
        prop_assert_eq!(read.nodes(), one.nodes());
    }

    /// Within the quotes of a label there is no bare quote or line end, so the number of lines and
    /// of bare quotes does not depend on the name.
    #[test]
    fn no_name_breaks_out_of_its_label(name in any::<String>()) {
        let dot = topology(vec![kernel(&name)], &[]).to_dot();
        let plain = topology(vec![kernel("plain")], &[]).to_dot();
        prop_assert_eq!(dot.lines().count(), plain.lines().count());
        let bare_quotes = |text: &str| {
            let mut escaped = false;
            text.chars().filter(|character| {
                let bare = *character == '"' && !escaped;
                escaped = *character == '\\' && !escaped;
                bare
            }).count()
        };
        prop_assert_eq!(bare_quotes(&dot), bare_quotes(&plain));
    }

    /// In Mermaid there are no escapes: nothing but the quotes of the label is a quote, and no
    /// bracket or arrow comes from a name.
    #[test]
    fn no_name_breaks_out_of_its_label_in_mermaid(name in any::<String>()) {
        let labelled = TopologyNode::new(kernel(&name)).with_label(&*name);
        let mermaid = Topology::new(vec![labelled], vec![]).expect("valid").to_mermaid();
        prop_assert_eq!(mermaid.lines().count(), 2);
        for mark in ['"', '[', ']'] {
            let expected = if mark == '"' { 2 } else { 1 };
            prop_assert_eq!(mermaid.matches(mark).count(), expected);
        }
        prop_assert!(!mermaid.contains("-->") && !mermaid.contains("%%"));
    }
}
