//! Updates of executables: how nodes are paired, and why an update is refused.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{PTX, RELAXED, Rig};
use crate::steering::{IF, SWITCH, Steering, branch, handle};

tiers! {
    both {
        counts_and_ends_must_agree,
        each_node_has_as_many_dependencies,
        dependencies_pair_in_their_order,
        ends_pair_from_the_last,
        a_pair_is_never_broken,
        edges_carry_the_same,
        kinds_must_agree,
        a_cycle_has_no_ends,
        embedded_graphs_are_compared,
        an_embedded_graph_can_be_replaced,
        what_of_a_kernel_may_change,
        attributes_that_stay,
        contexts_of_nodes,
        a_disabled_node_stays_disabled,
        a_refused_update_changes_nothing,
        a_capture_does_not_bar_updates,
        what_an_update_needs,
        conditional_nodes_keep_their_shape_and_handle,
        bodies_of_conditional_nodes_are_updated,
    }
}

/// The nodes that a graph is to have: the kind of each, and the ones before it.
pub type Plan<'p> = &'p [(Kind, &'p [usize])];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Empty,
    Fill,
    Host,
}

use Kind::{Empty, Fill, Host};

unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}

pub fn fill(rig: &Rig, word: u64) -> CUDA_MEMSET_NODE_PARAMS_v1 {
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer + 4 * word,
        value: 7,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    }
}

pub fn build(rig: &Rig, plan: Plan<'_>) -> (CUgraph, Vec<CUgraphNode>) {
    let graph = rig.new_graph();
    let mut nodes: Vec<CUgraphNode> = Vec::new();
    for (kind, after) in plan {
        let after: Vec<_> = after.iter().map(|node| nodes[*node]).collect();
        let (list, count) = (after.as_ptr(), after.len());
        let host = CUDA_HOST_NODE_PARAMS_v1 { fn_: Some(nothing), userData: null_mut() };
        let (fill, context) = (fill(rig, 0), rig.context);
        nodes.push(match kind {
            Empty => make!(rig, cuGraphAddEmptyNode(graph, list, count)),
            Fill => make!(rig, cuGraphAddMemsetNode(graph, list, count, &fill, context)),
            Host => make!(rig, cuGraphAddHostNode(graph, list, count, &host)),
        });
    }
    (graph, nodes)
}

/// What an update comes to: the code, the result, and the two nodes by their place.
pub type Verdict = (u32, u32, Option<usize>, Option<usize>);

const TAKEN: Verdict = (0, 0, None, None);

fn refused(result: u32, node: impl Into<Option<usize>>, from: impl Into<Option<usize>>) -> Verdict {
    (910, result, node.into(), from.into())
}

pub fn update(rig: &Rig, exec: CUgraphExec, graph: CUgraph, names: &[CUgraphNode]) -> Verdict {
    let mut info = CUgraphExecUpdateResultInfo::default();
    let code = cu!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info));
    let place = |node: CUgraphNode| {
        let found = names.iter().position(|name| *name == node);
        assert_eq!(found.is_none(), node.is_null(), "a node of the graph");
        found
    };
    (code, info.result.0, place(info.errorNode), place(info.errorFromNode))
}

/// Updates an executable of one graph from another.
fn between(rig: &Rig, from: Plan<'_>, to: Plan<'_>) -> Verdict {
    let ((old, _), (new, nodes)) = (build(rig, from), build(rig, to));
    let exec = rig.instantiate(old);
    let verdict = update(rig, exec, new, &nodes);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    verdict
}

fn counts_and_ends_must_agree(rig: &Rig) {
    let (one, two) = ([(Empty, &[][..])], [(Empty, &[][..]), (Empty, &[])]);
    let chain = [(Empty, &[][..]), (Empty, &[0])];
    let verdicts = [
        between(rig, &[], &[]),
        between(rig, &[], &one),
        between(rig, &one, &two),
        between(rig, &chain, &two),
        between(rig, &two, &chain),
    ];
    let more = refused(2, 0, None);
    let count = refused(2, None, None);
    assert_eq!(verdicts, [TAKEN, count, count, more, count]);
    let (two_ends, three_ends) = (
        [(Empty, &[][..]), (Empty, &[]), (Empty, &[0]), (Empty, &[0, 1])],
        [(Empty, &[][..]), (Empty, &[]), (Empty, &[0]), (Empty, &[0])],
    );
    assert_eq!(between(rig, &two_ends, &three_ends), refused(2, 1, None), "the first end");
}

fn each_node_has_as_many_dependencies(rig: &Rig) {
    let chain = [(Empty, &[][..]), (Empty, &[0]), (Empty, &[1])];
    let join = [(Empty, &[][..]), (Empty, &[]), (Empty, &[0, 1])];
    let verdicts = [between(rig, &join, &chain), between(rig, &chain, &join)];
    assert_eq!(verdicts, [refused(2, 2, None); 2]);
}

fn dependencies_pair_in_their_order(rig: &Rig) {
    let join = [(Host, &[][..]), (Fill, &[]), (Empty, &[0, 1])];
    let verdicts = [
        between(rig, &join, &[(Host, &[]), (Fill, &[]), (Empty, &[1, 0])]),
        between(rig, &join, &[(Fill, &[]), (Host, &[]), (Empty, &[1, 0])]),
    ];
    assert_eq!(verdicts, [refused(3, 1, None), TAKEN], "whatever was made first");
}

fn ends_pair_from_the_last(rig: &Rig) {
    let verdict = between(rig, &[(Host, &[]), (Fill, &[])], &[(Fill, &[]), (Host, &[])]);
    let crossed = between(
        rig,
        &[(Empty, &[]), (Empty, &[]), (Empty, &[0]), (Empty, &[1])],
        &[(Empty, &[]), (Empty, &[]), (Empty, &[1]), (Empty, &[0])],
    );
    assert_eq!((verdict, crossed), (refused(3, 1, None), TAKEN));
    let breadth = between(
        rig,
        &[(Empty, &[]), (Host, &[]), (Fill, &[]), (Empty, &[0, 1]), (Empty, &[3, 2])],
        &[(Host, &[]), (Empty, &[]), (Empty, &[]), (Empty, &[0, 1]), (Empty, &[3, 2])],
    );
    assert_eq!(breadth, refused(3, 2, None), "nodes near the end come first");
}

fn a_pair_is_never_broken(rig: &Rig) {
    let verdict = between(
        rig,
        &[(Empty, &[]), (Empty, &[]), (Empty, &[0]), (Empty, &[0, 1])],
        &[(Empty, &[]), (Empty, &[]), (Empty, &[0]), (Empty, &[1, 0])],
    );
    assert_eq!(verdict, refused(2, 2, 0));
}

fn edges_carry_the_same(rig: &Rig) {
    let steering = Steering::new(rig);
    let early = CUgraphEdgeData { from_port: 1, type_: 1, ..Default::default() };
    let chain = |data: *const CUgraphEdgeData| {
        let graph = rig.new_graph();
        let nodes = [steering.adds(graph, &[], 0, 1), steering.adds(graph, &[], 0, 1)];
        ok!(rig, cuGraphAddDependencies_v2(graph, &nodes[0], &nodes[1], data, 1));
        (graph, nodes)
    };
    let ((plain, a), (soft, b)) = (chain(null()), chain(&early));
    let (of_plain, of_soft) = (rig.instantiate(plain), rig.instantiate(soft));
    let verdicts = [update(rig, of_plain, soft, &b), update(rig, of_soft, plain, &a)];
    rig.release(plain, of_plain);
    rig.release(soft, of_soft);
    assert_eq!(verdicts, [refused(2, 1, 0); 2]);
}

fn kinds_must_agree(rig: &Rig) {
    let verdicts = [
        between(rig, &[(Empty, &[])], &[(Fill, &[])]),
        between(
            rig,
            &[(Fill, &[]), (Host, &[0]), (Empty, &[1])],
            &[(Host, &[]), (Fill, &[0]), (Empty, &[1])],
        ),
    ];
    assert_eq!(verdicts, [refused(3, 0, None), refused(3, 1, None)]);
}

fn a_cycle_has_no_ends(rig: &Rig) {
    let chain = [(Empty, &[][..]), (Empty, &[0])];
    let ((old, _), (new, nodes)) = (build(rig, &chain), build(rig, &chain));
    ok!(rig, cuGraphAddDependencies(new, &nodes[1], &nodes[0], 1));
    let exec = rig.instantiate(old);
    let verdict = update(rig, exec, new, &nodes);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    assert_eq!(verdict, refused(2, None, None));
}

fn embedded_of(rig: &Rig, node: CUgraphNode) -> CUgraph {
    let mut graph = null_mut();
    ok!(rig, cuGraphChildGraphNodeGetGraph(node, &mut graph));
    graph
}

/// A graph of one node that embeds another graph; the node, and the nodes of what it embeds.
pub fn holder(rig: &Rig, plan: Plan<'_>) -> (CUgraph, Vec<CUgraphNode>) {
    let (graph, (child, _)) = (rig.new_graph(), build(rig, plan));
    let node: CUgraphNode = make!(rig, cuGraphAddChildGraphNode(graph, null(), 0, child));
    let embedded = embedded_of(rig, node);
    ok!(rig, cuGraphDestroy(child));
    let mut names = vec![node];
    names.extend(rig.nodes(embedded));
    (graph, names)
}

fn embedded_graphs_are_compared(rig: &Rig) {
    let one = [(Empty, &[][..])];
    let against = |plan: Plan<'_>| {
        let ((old, _), (new, names)) = (holder(rig, &one), holder(rig, plan));
        let exec = rig.instantiate(old);
        let verdict = update(rig, exec, new, &names);
        rig.release(old, exec);
        ok!(rig, cuGraphDestroy(new));
        verdict
    };
    let verdicts =
        [against(&one), against(&[(Empty, &[]), (Empty, &[0])]), against(&[(Fill, &[])])];
    assert_eq!(verdicts, [TAKEN, refused(2, None, None), refused(3, 1, None)]);
}

fn an_embedded_graph_can_be_replaced(rig: &Rig) {
    let one = [(Empty, &[][..])];
    let (graph, names) = holder(rig, &one);
    let ((same, _), (other, _)) = (build(rig, &one), build(rig, &[(Fill, &[]), (Fill, &[])]));
    let exec = rig.instantiate(graph);
    let executable = [same, other, graph, null_mut()]
        .map(|child| cu!(rig, cuGraphExecChildGraphNodeSetParams(exec, names[0], child)));
    let set = |child| {
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..Default::default() };
        params.__bindgen_anon_1.graph.graph = child;
        cu!(rig, cuGraphNodeSetParams(names[0], &mut params))
    };
    let definition = [set(same), set(other), set(null_mut())];
    let embedded = embedded_of(rig, names[0]);
    let nodes = rig.nodes(embedded).len();
    rig.release(graph, exec);
    for graph in [same, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!((executable, definition, nodes), ([0, 910, 910, 1], [0, 0, 1], 2));
}

/// Updates an executable of a kernel from a graph of a kernel that differs.
fn change_kernel(
    rig: &Rig,
    steering: &Steering<'_>,
    flags: u64,
    change: impl FnOnce(CUgraphNode, &mut CUDA_KERNEL_NODE_PARAMS_v2),
) -> Verdict {
    let (old, new) = (rig.new_graph(), rig.new_graph());
    steering.adds(old, &[], 0, 1);
    let node = steering.adds(new, &[], 0, 1);
    let exec = make!(rig, cuGraphInstantiateWithFlags(old, flags));
    let (mut word, mut n) = (rig.buffer, 1_u32);
    let mut arguments = [(&raw mut word).cast(), (&raw mut n).cast()];
    let mut params = crate::steering::kernel(steering.add, &mut arguments);
    change(node, &mut params);
    ok!(rig, cuGraphKernelNodeSetParams_v2(node, &params));
    let verdict = update(rig, exec, new, &[node]);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    verdict
}

fn what_of_a_kernel_may_change(rig: &Rig) {
    let steering = Steering::new(rig);
    let verdicts = [
        change_kernel(rig, &steering, 0, |_, _| {}),
        change_kernel(rig, &steering, 0, |_, params| params.gridDimX = 4),
        change_kernel(rig, &steering, 0, |_, params| params.blockDimX = 64),
        change_kernel(rig, &steering, 0, |_, params| params.sharedMemBytes = 1024),
        change_kernel(rig, &steering, 0, |_, params| params.func = steering.push),
    ];
    assert_eq!(verdicts, [TAKEN; 5]);
}

fn attributes_that_stay(rig: &Rig) {
    let steering = Steering::new(rig);
    let with = |flags, id, number: i32| {
        change_kernel(rig, &steering, flags, |node, _| {
            let value = CUlaunchAttributeValue { priority: number };
            ok!(rig, cuGraphKernelNodeSetAttribute(node, id, &value));
        })
    };
    let priority = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    let by_priority = u64::from(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0);
    let verdicts = [
        with(0, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1),
        with(0, priority, -1),
        with(by_priority, priority, -1),
        with(by_priority, priority, 0),
        with(0, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1),
        with(0, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1),
        with(0, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50),
    ];
    let changed = refused(8, 0, None);
    assert_eq!(verdicts, [changed, TAKEN, changed, TAKEN, TAKEN, TAKEN, TAKEN]);
}

fn contexts_of_nodes(rig: &Rig) {
    let steering = Steering::new(rig);
    let context = rig.new_context();
    let (old, new) = (rig.new_graph(), rig.new_graph());
    steering.adds(old, &[], 0, 1);
    let node = rig.in_context(context, || {
        let module = rig.module(PTX);
        let params = crate::steering::kernel(rig.function(module, "noarg"), &mut []);
        make!(rig, cuGraphAddKernelNode_v2(new, null(), 0, &params))
    });
    let exec = rig.instantiate(old);
    let kernel = update(rig, exec, new, &[node]);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    let (old, new) = (rig.new_graph(), rig.new_graph());
    let (params, none) = (fill(rig, 0), null::<CUgraphNode>());
    ok!(rig, cuGraphAddMemsetNode(&mut null_mut(), old, none, 0, &params, rig.context));
    ok!(rig, cuGraphAddMemsetNode(&mut null_mut(), new, none, 0, &params, context));
    let exec = rig.instantiate(old);
    let fill = update(rig, exec, new, &[]);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    ok!(rig, cuCtxDestroy_v2(context));
    assert_eq!((kernel, fill), (refused(7, 0, None), TAKEN));
}

fn a_disabled_node_stays_disabled(rig: &Rig) {
    let steering = Steering::new(rig);
    let (old, new) = (rig.new_graph(), rig.new_graph());
    let (a, b) = (steering.adds(old, &[], 0, 1), steering.adds(new, &[], 0, 5));
    let exec = rig.instantiate(old);
    ok!(rig, cuGraphNodeSetEnabled(exec, a, 0));
    let verdict = update(rig, exec, new, &[b]);
    let [off] = steering.run(exec);
    let mut enabled = 9;
    ok!(rig, cuGraphNodeGetEnabled(exec, a, &mut enabled));
    let of_new = cu!(rig, cuGraphNodeGetEnabled(exec, b, &mut { 9 }));
    ok!(rig, cuGraphNodeSetEnabled(exec, a, 1));
    let [on] = steering.run(exec);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    assert_eq!((verdict, off, enabled), (TAKEN, 0, 0));
    assert_eq!((of_new, on), (1, 5), "the old nodes name them, with the new parameters");
}

fn a_refused_update_changes_nothing(rig: &Rig) {
    let steering = Steering::new(rig);
    let (old, new) = (rig.new_graph(), rig.new_graph());
    steering.adds(old, &[], 0, 1);
    steering.adds(new, &[], 0, 5);
    ok!(rig, cuGraphAddEmptyNode(&mut null_mut(), new, null(), 0));
    let exec = rig.instantiate(old);
    let verdict = update(rig, exec, new, &[]);
    let [word] = steering.run(exec);
    rig.release(old, exec);
    ok!(rig, cuGraphDestroy(new));
    assert_eq!((verdict, word), (refused(2, None, None), 1));
}

fn a_capture_does_not_bar_updates(rig: &Rig) {
    let (graph, _) = build(rig, &[(Empty, &[])]);
    let exec = rig.instantiate(graph);
    let beside = rig.during(rig.stream, 0, || update(rig, exec, graph, &[]).0);
    let mode = CUstreamCaptureMode(RELAXED);
    ok!(rig, cuStreamBeginCaptureToGraph(rig.stream, graph, null(), null(), 0, mode));
    let within = update(rig, exec, graph, &[]);
    assert_eq!(rig.end_good(rig.stream), graph);
    rig.release(graph, exec);
    assert_eq!((beside, within), ((0, 1, 0, 0), TAKEN));
}

fn what_an_update_needs(rig: &Rig) {
    let (graph, _) = build(rig, &[(Empty, &[])]);
    let exec = rig.instantiate(graph);
    let mut info =
        CUgraphExecUpdateResultInfo { result: CUgraphExecUpdateResult(77), ..Default::default() };
    let codes = [
        cu!(rig, cuGraphExecUpdate_v2(exec, graph, null_mut())),
        cu!(rig, cuGraphExecUpdate_v2(null_mut(), graph, &mut info)),
        cu!(rig, cuGraphExecUpdate_v2(exec, null_mut(), &mut info)),
    ];
    rig.release(graph, exec);
    assert_eq!((codes, info.result.0), ([0, 1, 1], 0));
}

/// A graph of an adding kernel in the first of some bodies.
pub fn conditional_graph<const N: usize>(
    rig: &Rig,
    steering: &Steering<'_>,
    kind: CUgraphConditionalNodeType,
    (default, adds): (u32, u32),
) -> (CUgraph, CUgraphNode, CUgraph) {
    let graph = rig.new_graph();
    let made = handle(rig, graph, default);
    let (node, bodies) = branch::<N>(rig, graph, &[], made, kind);
    steering.adds(bodies[0], &[], 0, adds);
    (graph, node, bodies[0])
}

fn conditional_nodes_keep_their_shape_and_handle(rig: &Rig) {
    let steering = Steering::new(rig);
    let from = |(graph, node, _): (CUgraph, CUgraphNode, CUgraph)| {
        let (old, _, _) = conditional_graph::<1>(rig, &steering, IF, (1, 1));
        let exec = rig.instantiate(old);
        let verdict = update(rig, exec, graph, &[node]);
        rig.release(old, exec);
        ok!(rig, cuGraphDestroy(graph));
        verdict
    };
    let second = {
        let graph = rig.new_graph();
        handle(rig, graph, 1);
        let (node, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
        steering.adds(body, &[], 0, 1);
        (graph, node, body)
    };
    let longer = conditional_graph::<1>(rig, &steering, IF, (1, 1));
    ok!(rig, cuGraphAddEmptyNode(&mut null_mut(), longer.2, null(), 0));
    let verdicts = [
        from(conditional_graph::<1>(rig, &steering, IF, (1, 1))),
        from(conditional_graph::<2>(rig, &steering, IF, (1, 1))),
        from(conditional_graph::<1>(rig, &steering, SWITCH, (1, 1))),
        from(second),
        from(longer),
    ];
    let unsupported = refused(6, 0, None);
    assert_eq!(verdicts, [TAKEN, unsupported, unsupported, unsupported, refused(2, None, None)]);
}

fn bodies_of_conditional_nodes_are_updated(rig: &Rig) {
    let steering = Steering::new(rig);
    let run = |default| {
        let (old, _, _) = conditional_graph::<1>(rig, &steering, IF, (1, 1));
        let (new, node, _) = conditional_graph::<1>(rig, &steering, IF, (default, 10));
        let exec = rig.instantiate(old);
        let elsewhere = rig.instantiate(new);
        let verdict = update(rig, exec, new, &[node]);
        let [word] = steering.run(exec);
        rig.release(old, exec);
        rig.release(new, elsewhere);
        (verdict, word)
    };
    assert_eq!([run(1), run(0)], [(TAKEN, 10), (TAKEN, 0)], "with the default of the new graph");
}
