//! Edges, attributes of kernel nodes, and embedded graphs: what is taken, and what is told back.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{RELAXED, Rig};
use crate::steering::Steering;

tiers! {
    both {
        which_edges_there_are,
        edges_are_added_up_to_one_that_is_there,
        edges_are_removed_whatever_they_carry,
        edges_are_removed_up_to_one_that_is_missing,
        a_node_with_a_bad_dependency_is_not_added,
        which_attributes_a_kernel_node_has,
        priorities_are_kept_within_the_range,
        an_embedded_graph_is_no_graph_of_the_programs,
        a_graph_moves_into_a_node,
        what_can_move_into_a_node,
        graphs_clone_after_one_moved,
        one_capture_fills_a_graph_at_a_time,
    }
}

fn data(from_port: u8, to_port: u8, type_: u8, reserved: u8) -> CUgraphEdgeData {
    let mut data = CUgraphEdgeData { from_port, to_port, type_, ..Default::default() };
    data.reserved[0] = reserved;
    data
}

fn empty(rig: &Rig, graph: CUgraph) -> CUgraphNode {
    make!(rig, cuGraphAddEmptyNode(graph, null::<CUgraphNode>(), 0))
}

/// The codes of an edge between kernels, to a kernel, from a kernel and between others.
fn which_edges_there_are(rig: &Rig) {
    let steering = Steering::new(rig);
    let between = |data: CUgraphEdgeData| {
        [(true, true), (false, true), (true, false), (false, false)].map(|(from, to)| {
            let graph = rig.new_graph();
            let node = |kernel: bool| match kernel {
                true => steering.adds(graph, &[], 0, 1),
                false => empty(rig, graph),
            };
            let (from, to) = (node(from), node(to));
            let code = cu!(rig, cuGraphAddDependencies_v2(graph, &from, &to, &data, 1));
            ok!(rig, cuGraphDestroy(graph));
            code
        })
    };
    assert_eq!(between(data(0, 0, 0, 0)), [0; 4]);
    assert_eq!(between(data(1, 0, 1, 0)), [0, 1, 1, 1]);
    assert_eq!(between(data(2, 0, 1, 0)), [0, 1, 1, 1]);
    assert_eq!(between(data(2, 0, 0, 0)), [0, 1, 0, 1]);
    let none = [(1, 0, 0, 0), (0, 0, 1, 0), (3, 0, 1, 0), (0, 1, 0, 0), (0, 0, 2, 0), (0, 0, 0, 1)];
    for (from_port, to_port, type_, reserved) in none {
        assert_eq!(between(data(from_port, to_port, type_, reserved)), [1; 4]);
    }
}

fn edges_are_added_up_to_one_that_is_there(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let (a, b, c) = (empty(rig, graph), empty(rig, graph), empty(rig, graph));
    let foreign = empty(rig, other);
    let add = |from: [CUgraphNode; 2], to: [CUgraphNode; 2]| {
        let code = cu!(rig, cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 2));
        (code, rig.edges(graph).len())
    };
    let steps = [
        add([a, a], [b, foreign]),
        add([a, a], [a, c]),
        add([a, a], [b, b]),
        add([b, c], [c, c]),
        add([b, b], [c, a]),
    ];
    for graph in [graph, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!(steps, [(1, 0), (1, 0), (1, 1), (1, 1), (0, 3)], "and a cycle is no matter yet");
}

fn edges_are_removed_whatever_they_carry(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (a, b) = (steering.adds(graph, &[], 0, 1), steering.adds(graph, &[], 0, 1));
    let (early, full) = (data(1, 0, 1, 0), data(0, 0, 0, 0));
    let add = |data: &CUgraphEdgeData| cu!(rig, cuGraphAddDependencies_v2(graph, &a, &b, data, 1));
    let remove = |data| cu!(rig, cuGraphRemoveDependencies_v2(graph, &a, &b, data, 1));
    let mut codes = vec![add(&early), add(&full), remove(&full), remove(&early)];
    codes.extend([add(&full), remove(&early), add(&early), remove(null())]);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [0, 1, 0, 1, 0, 0, 0, 0]);
}

fn edges_are_removed_up_to_one_that_is_missing(rig: &Rig) {
    let graph = rig.new_graph();
    let (a, b, c) = (empty(rig, graph), empty(rig, graph), empty(rig, graph));
    let edges = |function: bool, from: [CUgraphNode; 2], to: [CUgraphNode; 2], count| {
        let (from, to) = (from.as_ptr(), to.as_ptr());
        let code = match function {
            true => cu!(rig, cuGraphAddDependencies(graph, from, to, count)),
            false => cu!(rig, cuGraphRemoveDependencies(graph, from, to, count)),
        };
        (code, rig.edges(graph).len())
    };
    let steps = [
        edges(true, [a, a], [b, c], 1),
        edges(false, [a, a], [b, c], 2),
        edges(true, [a, a], [c, c], 1),
        edges(false, [a, a], [c, c], 2),
    ];
    let none = cu!(rig, cuGraphRemoveDependencies(graph, null(), null(), 0));
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((steps, none), ([(0, 1), (1, 0), (0, 1), (1, 0)], 0));
}

fn a_node_with_a_bad_dependency_is_not_added(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let (a, foreign) = (empty(rig, graph), empty(rig, other));
    let add = |after: [CUgraphNode; 2]| {
        let code = cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, after.as_ptr(), 2));
        (code, rig.nodes(graph).len(), rig.edges(graph).len())
    };
    let results = [add([a, a]), add([a, foreign])];
    for graph in [graph, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!(results, [(1, 1, 0); 2]);
}

fn which_attributes_a_kernel_node_has(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (node, other) = (steering.adds(graph, &[], 0, 1), empty(rig, graph));
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    let mut get = |node, id| {
        cu!(rig, cuGraphKernelNodeGetAttribute(node, CUlaunchAttributeID(id), &mut value))
    };
    let told: Vec<u32> = (0..20).filter(|id| get(node, *id) == 0).collect();
    let of_other = get(other, 8);
    let zero = CUlaunchAttributeValue { pad: [0; 64] };
    let set =
        |node, id| cu!(rig, cuGraphKernelNodeSetAttribute(node, CUlaunchAttributeID(id), &zero));
    let taken: Vec<u32> = (0..20).filter(|id| set(node, *id) == 0).collect();
    let codes = [of_other, set(other, 8)];
    ok!(rig, cuGraphKernelNodeCopyAttributes(node, node));
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(told, [1, 2, 4, 5, 8, 9, 10, 13, 14]);
    assert_eq!((taken, codes), (vec![1, 2, 4, 5, 8, 9, 10, 13, 14, 16], [1, 1]));
}

fn priorities_are_kept_within_the_range(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let node = steering.adds(graph, &[], 0, 1);
    let priority = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    let told = [-100, -5, -2, 0, 3].map(|number| {
        let mut value = CUlaunchAttributeValue { priority: number };
        ok!(rig, cuGraphKernelNodeSetAttribute(node, priority, &value));
        ok!(rig, cuGraphKernelNodeGetAttribute(node, priority, &mut value));
        // SAFETY: the driver told a priority.
        unsafe { value.priority }
    });
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(told, [-5, -5, -2, 0, 0]);
}

fn child(graph: CUgraph, ownership: CUgraphChildGraphNodeOwnership) -> CUgraphNodeParams {
    let mut params = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..Default::default() };
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership };
    params
}

fn embed(
    rig: &Rig,
    into: CUgraph,
    graph: CUgraph,
    ownership: CUgraphChildGraphNodeOwnership,
) -> (u32, CUgraphNode) {
    let (mut node, mut params) = (null_mut(), child(graph, ownership));
    (cu!(rig, cuGraphAddNode_v2(&mut node, into, null(), null(), 0, &mut params)), node)
}

const MOVE: CUgraphChildGraphNodeOwnership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
const CLONE: CUgraphChildGraphNodeOwnership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;

fn embedded_in(rig: &Rig, node: CUgraphNode) -> (u32, CUgraph) {
    let mut graph = null_mut();
    let code = cu!(rig, cuGraphChildGraphNodeGetGraph(node, &mut graph));
    (code, graph)
}

fn an_embedded_graph_is_no_graph_of_the_programs(rig: &Rig) {
    let (graph, holder) = (rig.new_graph(), rig.new_graph());
    empty(rig, graph);
    let (_, node) = embed(rig, holder, graph, CLONE);
    let (_, embedded) = embedded_in(rig, node);
    let mut clone = null_mut();
    let codes = [
        cu!(rig, cuGraphDestroy(embedded)),
        cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), embedded, 0)),
        embed(rig, holder, embedded, MOVE).0,
        cu!(rig, cuGraphClone(&mut clone, embedded)),
        cu!(rig, cuGraphDestroyNode(rig.nodes(embedded)[0])),
    ];
    for graph in [graph, clone, holder] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!(codes, [1, 801, 801, 0, 0]);
}

fn a_graph_moves_into_a_node(rig: &Rig) {
    let (graph, holder, other) = (rig.new_graph(), rig.new_graph(), rig.new_graph());
    let (code, node) = embed(rig, holder, graph, MOVE);
    let mut clone = null_mut();
    let codes = [
        embed(rig, holder, graph, MOVE).0,
        embed(rig, other, graph, CLONE).0,
        cu!(rig, cuGraphDestroy(graph)),
        cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), graph, 0)),
        cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, null(), 0)),
        cu!(rig, cuGraphClone(&mut clone, graph)),
    ];
    let embedded = embedded_in(rig, node);
    for graph in [clone, holder, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!((code, embedded), (0, (0, graph)));
    assert_eq!(codes, [801, 801, 1, 801, 0, 0]);
}

fn what_can_move_into_a_node(rig: &Rig) {
    let (holder, instantiated, captured) = (rig.new_graph(), rig.new_graph(), rig.new_graph());
    let exec = rig.instantiate(instantiated);
    let unknown = embed(rig, holder, instantiated, CUgraphChildGraphNodeOwnership(2)).0;
    let of_executable = embed(rig, holder, instantiated, MOVE).0;
    let mode = CUstreamCaptureMode(RELAXED);
    ok!(rig, cuStreamBeginCaptureToGraph(rig.stream, captured, null(), null(), 0, mode));
    let of_capture = embed(rig, holder, captured, MOVE).0;
    assert_eq!(rig.end_good(rig.stream), captured);
    rig.release(holder, exec);
    assert_eq!([unknown, of_executable, of_capture], [0; 3], "what is unknown is copied");
}

/// A graph into which another moved, and what moved, cloned again and again.
fn graphs_clone_after_one_moved(rig: &Rig) {
    for nodes in [0, 1, 3] {
        let (graph, holder, outer) = (rig.new_graph(), rig.new_graph(), rig.new_graph());
        for _ in 0..nodes {
            empty(rig, graph);
        }
        let mut moves = vec![embed(rig, holder, graph, MOVE).0];
        let mut codes = Vec::new();
        let mut clones = |of: CUgraph| {
            for _ in 0..3 {
                let mut clone = null_mut();
                codes.push(cu!(rig, cuGraphClone(&mut clone, of)));
                if !clone.is_null() {
                    ok!(rig, cuGraphDestroy(clone));
                }
            }
        };
        clones(holder);
        clones(graph);
        moves.push(embed(rig, outer, holder, MOVE).0);
        clones(outer);
        clones(holder);
        clones(graph);
        ok!(rig, cuGraphDestroy(outer));
        assert_eq!((moves, codes), (vec![0; 2], vec![0; 15]));
    }
}

fn one_capture_fills_a_graph_at_a_time(rig: &Rig) {
    let graph = rig.new_graph();
    let mode = CUstreamCaptureMode(RELAXED);
    let begin =
        |stream| cu!(rig, cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, mode));
    let codes = [begin(rig.stream), begin(rig.other)];
    let ends = [rig.end(rig.stream).0, rig.end(rig.other).0];
    let again = begin(rig.other);
    assert_eq!(rig.end_good(rig.other), graph);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((codes, ends, again), ([0, 401], [0, 401], 0));
}
