//! The recorder that needs no driver.

use grapture::{
    CopyDirection, Dim3, OperationSpec, StreamCapture, Topology, TopologyEdge, TopologyNode,
};

#[test]
fn operations_wait_for_the_one_before() {
    let mut plan = StreamCapture::begin();
    assert!(plan.is_active());
    assert_eq!(plan.recorded_count(), 0);
    assert_eq!(plan.record_copy(CopyDirection::HostToDevice, 16), Ok(0));
    assert_eq!(plan.record_kernel("axpy", 2, (8, 8), 128), Ok(1));
    assert_eq!(plan.record_fill(8, 0xff, 1), Ok(2));
    assert_eq!(plan.record_host(), 3);
    assert_eq!(plan.record_empty(), 4);
    assert_eq!(plan.recorded_count(), 5);

    let topology = plan.end();
    let operations: Vec<_> = topology.nodes().iter().map(TopologyNode::operation).collect();
    let name = "axpy".to_owned();
    assert_eq!(
        operations,
        [
            &OperationSpec::Copy { direction: CopyDirection::HostToDevice, bytes: 16 },
            &OperationSpec::Kernel {
                name,
                grid: Dim3::new(2, 1, 1),
                block: Dim3::new(8, 8, 1),
                shared_bytes: 128
            },
            &OperationSpec::Fill { bytes: 8, value: 0xff, element_bytes: 1 },
            &OperationSpec::Host,
            &OperationSpec::Empty,
        ]
    );
    let chain: Vec<_> = (1..5).map(|node| TopologyEdge::new(node - 1, node, false)).collect();
    assert_eq!(topology.edges(), chain);
}

#[test]
fn a_plan_forks_and_joins() {
    let mut plan = StreamCapture::new();
    let root = plan.record_empty();
    let left = plan.record_host();
    plan.depends_on(&[root]).expect("it is recorded");
    let right = plan.record_host();
    plan.depends_on(&[right, left, right]).expect("they are recorded");
    let join = plan.record_empty();
    plan.depends_on(&[]).expect("no node is unknown");
    let other_root = plan.record_host();
    assert_eq!(other_root, 4);

    let edges = [(root, left), (root, right), (left, join), (right, join)];
    let edges: Vec<_> = edges.map(|(from, to)| TopologyEdge::new(from, to, false)).into();
    assert_eq!(plan.end().edges(), edges);
}

#[test]
fn nothing_recorded_is_the_empty_topology() {
    assert_eq!(StreamCapture::begin().end(), Topology::default());
}

#[test]
fn a_refused_operation_changes_nothing() {
    let mut plan = StreamCapture::begin();
    plan.record_host();
    let texts = [
        plan.record_kernel("", 1, 1, 0),
        plan.record_kernel("a\0b", 1, 1, 0),
        plan.record_kernel("k", 0, 1, 0),
        plan.record_kernel("k", (1, 0), 1, 0),
        plan.record_kernel("k", 1, (1, 1, 0), 0),
        plan.record_copy(CopyDirection::DeviceToHost, 0),
        plan.record_fill(0, 0, 1),
        plan.record_fill(8, 0, 3),
        plan.record_fill(8, 0x100, 1),
        plan.record_fill(8, 0x1_0000, 2),
        plan.record_fill(6, 0, 4),
        plan.depends_on(&[0, 1]).map(|()| 0),
    ]
    .map(|refused| refused.expect_err("it is refused").to_string());
    assert_eq!(
        texts,
        [
            "kernel.name: it is empty or has a NUL in it",
            "kernel.name: it is empty or has a NUL in it",
            "kernel.grid_dim.x: it is 0, and every dimension is at least 1",
            "kernel.grid_dim.y: it is 0, and every dimension is at least 1",
            "kernel.block_dim.z: it is 0, and every dimension is at least 1",
            "copy.bytes: it is 0, and a stream makes no node of that: leave it out",
            "fill.bytes: it is 0, and a stream makes no node of that: leave it out",
            "fill.element_bytes: it is 3, and a fill repeats 1, 2 or 4 bytes",
            "fill.value: 0x100 does not fit into 1 bytes",
            "fill.value: 0x10000 does not fit into 2 bytes",
            "fill.bytes: 6 is no multiple of the 4 of an element",
            "nodes: there is no node 1: 1 are recorded, counted from 0",
        ]
    );
    assert!(plan.is_active());
    assert_eq!(plan.recorded_count(), 1);
    plan.record_empty();
    assert_eq!(plan.end().edges(), [TopologyEdge::new(0, 1, false)]);
}
