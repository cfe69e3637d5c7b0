//! Conditional nodes: what runs, and what their calls answer.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{RELAXED, Rig};
use crate::steering::{
    IF, SWITCH, Steering, WHILE, add, bodies, branch, conditional, handle, instantiation,
};

tiers! {
    both {
        handles_are_numbers_of_their_graph,
        what_a_handle_needs,
        how_many_bodies_a_node_has,
        what_a_node_needs,
        a_handle_is_for_one_node,
        a_handle_without_a_node_bars_instantiation,
        a_body_belongs_to_its_node,
        a_node_is_there_once,
        a_node_keeps_its_parameters,
        if_runs_its_body_unless_the_value_is_zero,
        else_runs_on_zero,
        switch_runs_the_body_of_its_number,
        while_runs_until_zero,
        a_kernel_before_the_node_decides,
        a_launch_begins_with_the_default,
        without_the_flag_the_value_stays,
        nested_nodes_run,
        the_default_is_given_once_a_launch,
        a_child_graph_can_decide,
        the_order_of_a_body_is_kept,
        bodies_are_taken_as_they_are_at_instantiation,
        a_node_of_a_body_can_be_changed_in_the_executable,
        a_node_in_a_capture,
        a_capture_fills_a_body,
        one_capture_fills_a_body_at_a_time,
        an_edge_to_a_node_is_full,
        a_number_that_is_no_handle_decides_nothing,
        a_graph_with_a_handle_is_there_once,
    }
    ruins {
        a_handle_outside_of_a_graph_breaks_the_context,
    }
}

fn handles_are_numbers_of_their_graph(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let made = [graph, graph, other, graph].map(|graph| handle(rig, graph, 0));
    assert_eq!(made, [1, 2, 1, 3]);
    for graph in [graph, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

fn what_a_handle_needs(rig: &Rig) {
    let graph = rig.new_graph();
    let mut out = 0;
    let mut make = |graph, context, flags| {
        cu!(rig, cuGraphConditionalHandleCreate(&mut out, graph, context, 5, flags))
    };
    let codes = [
        make(null_mut(), rig.context, 0),
        make(graph, null_mut(), 0),
        make(graph, rig.context, 2),
        make(graph, rig.context, 3),
        make(graph, rig.context, 0),
        make(graph, rig.context, 1),
        rig.in_context(null_mut(), || make(graph, rig.context, 0)),
        cu!(rig, cuGraphConditionalHandleCreate(null_mut(), graph, rig.context, 0, 0)),
    ];
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [1, 201, 1, 1, 0, 0, 0, 1]);
}

fn how_many_bodies_a_node_has(rig: &Rig) {
    let graph = rig.new_graph();
    let count = |kind, size| {
        let handle = handle(rig, graph, 0);
        add(rig, graph, &[], &mut conditional(rig, handle, kind, size)).0
    };
    let ifs = [0, 1, 2, 3].map(|size| count(IF, size));
    let whiles = [0, 1, 2].map(|size| count(WHILE, size));
    let switches = [0, 1, 5, 300].map(|size| count(SWITCH, size));
    let unknown = count(CUgraphConditionalNodeType(3), 1);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((ifs, whiles), ([1, 0, 0, 1], [1, 0, 1]));
    assert_eq!((switches, unknown), ([1, 0, 0, 0], 1));
}

fn what_a_node_needs(rig: &Rig) {
    let (graph, context) = (rig.new_graph(), rig.new_context());
    let change = |change: &dyn Fn(&mut CUgraphNodeParams)| {
        let mut params = conditional(rig, handle(rig, graph, 0), IF, 1);
        change(&mut params);
        add(rig, graph, &[], &mut params).0
    };
    let codes = [
        change(&|p| p.__bindgen_anon_1.conditional.handle = 0),
        change(&|p| p.__bindgen_anon_1.conditional.handle = 0xdead_beef),
        change(&|p| p.__bindgen_anon_1.conditional.ctx = null_mut()),
        change(&|p| p.__bindgen_anon_1.conditional.ctx = context),
        change(&|p| p.reserved0[0] = 1),
        change(&|p| p.reserved2 = 1),
        change(&|p| {
            // SAFETY: the parameters began as zeros, so that all of the words have a value.
            let mut words = unsafe { p.__bindgen_anon_1.reserved1 };
            words[20] = 1;
            p.__bindgen_anon_1.reserved1 = words;
        }),
        change(&|_| {}),
    ];
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuCtxDestroy_v2(context));
    assert_eq!(codes, [1, 1, 201, 1, 1, 1, 1, 0]);
}

fn a_handle_is_for_one_node(rig: &Rig) {
    let graph = rig.new_graph();
    let made = handle(rig, graph, 0);
    let (node, [body]) = branch(rig, graph, &[], made, IF);
    let again = |graph| add(rig, graph, &[], &mut conditional(rig, made, WHILE, 1)).0;
    let mut codes = vec![again(graph), again(body)];
    ok!(rig, cuGraphDestroyNode(node));
    codes.push(again(graph));
    assert_eq!(codes, [1, 1, 0]);
    // The number of a handle means another one in another graph.
    let other = rig.new_graph();
    let missing = again(other);
    handle(rig, other, 0);
    assert_eq!((missing, again(other)), (1, 0));
    for graph in [graph, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

fn a_handle_without_a_node_bars_instantiation(rig: &Rig) {
    let graph = rig.new_graph();
    let first = handle(rig, graph, 0);
    let none = instantiation(rig, graph);
    let (node, [_]) = branch(rig, graph, &[], first, IF);
    let one = instantiation(rig, graph);
    handle(rig, graph, 0);
    let one_of_two = instantiation(rig, graph);
    ok!(rig, cuGraphDestroyNode(node));
    let gone = instantiation(rig, graph);
    let flags = cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), graph, 0));
    ok!(rig, cuGraphDestroy(graph));
    let refused = (1, 5, None);
    assert_eq!([none, one, one_of_two, gone], [refused, (0, 0, None), refused, refused]);
    assert_eq!(flags, 1);
}

fn a_body_belongs_to_its_node(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let (_, [body]) = branch::<1>(rig, graph, &[], handle(rig, graph, 0), IF);
    let (mut clone, mut node) = (null_mut(), null_mut());
    let codes = [
        cu!(rig, cuGraphClone(&mut clone, body)),
        cu!(rig, cuGraphClone(&mut clone, graph)),
        cu!(rig, cuGraphAddChildGraphNode(&mut node, other, null(), 0, body)),
        cu!(rig, cuGraphAddChildGraphNode(&mut node, other, null(), 0, graph)),
        cu!(rig, cuGraphDestroy(body)),
    ];
    let alone = instantiation(rig, body);
    assert_eq!(rig.nodes(body).len(), 0, "it is still there");
    for graph in [graph, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!((codes, alone), ([801, 801, 801, 801, 1], (801, 1, None)));
}

fn a_node_is_there_once(rig: &Rig) {
    let graph = rig.new_graph();
    branch::<1>(rig, graph, &[], handle(rig, graph, 0), IF);
    let exec = rig.instantiate(graph);
    let second = instantiation(rig, graph);
    ok!(rig, cuGraphExecDestroy(exec));
    let after = instantiation(rig, graph);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((second, after), ((801, 1, None), (0, 0, None)));
}

fn a_node_keeps_its_parameters(rig: &Rig) {
    let graph = rig.new_graph();
    let made = handle(rig, graph, 0);
    let (node, [_]) = branch(rig, graph, &[], made, IF);
    let exec = rig.instantiate(graph);
    let mut enabled = 9;
    let mut same = conditional(rig, made, IF, 1);
    let codes = [
        cu!(rig, cuGraphNodeSetParams(node, &mut same)),
        cu!(rig, cuGraphExecNodeSetParams(exec, node, &mut same)),
        cu!(rig, cuGraphNodeSetEnabled(exec, node, 0)),
        cu!(rig, cuGraphNodeGetEnabled(exec, node, &mut enabled)),
    ];
    let kind = rig.kind(node);
    rig.release(graph, exec);
    assert_eq!((codes, kind), ([801, 801, 1, 1], 13));
}

fn if_runs_its_body_unless_the_value_is_zero(rig: &Rig) {
    let steering = Steering::new(rig);
    let run = |value| {
        let graph = rig.new_graph();
        let (_, [body]) = branch(rig, graph, &[], handle(rig, graph, value), IF);
        steering.adds(body, &[], 0, 1);
        let exec = rig.instantiate(graph);
        let [word] = steering.run(exec);
        rig.release(graph, exec);
        word
    };
    assert_eq!([0, 1, 7, u32::MAX].map(run), [0, 1, 1, 1]);
}

fn else_runs_on_zero(rig: &Rig) {
    let steering = Steering::new(rig);
    let run = |value| {
        let graph = rig.new_graph();
        let (_, [yes, no]) = branch(rig, graph, &[], handle(rig, graph, value), IF);
        steering.adds(yes, &[], 0, 1);
        steering.adds(no, &[], 1, 1);
        let exec = rig.instantiate(graph);
        let words: [u32; 2] = steering.run(exec);
        rig.release(graph, exec);
        words
    };
    assert_eq!([0, 1].map(run), [[0, 1], [1, 0]]);
}

fn switch_runs_the_body_of_its_number(rig: &Rig) {
    let steering = Steering::new(rig);
    let run = |value| {
        let graph = rig.new_graph();
        let made = handle(rig, graph, 0);
        let decides = steering.sets(graph, &[], made, value);
        let (_, cases) = branch::<3>(rig, graph, &[decides], made, SWITCH);
        for (word, body) in cases.into_iter().enumerate() {
            steering.adds(body, &[], word, 1);
        }
        let exec = rig.instantiate(graph);
        let words: [u32; 3] = steering.run(exec);
        rig.release(graph, exec);
        words
    };
    assert_eq!([0, 1, 2, 3, 9].map(run), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0; 3], [0; 3]]);
}

fn while_runs_until_zero(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let made = handle(rig, graph, 1);
    let (_, [body]) = branch(rig, graph, &[], made, WHILE);
    steering.counts(body, &[], made, (0, 5));
    let exec = rig.instantiate(graph);
    let [first] = steering.run(exec);
    let [second] = steering.again(exec);
    assert_eq!((first, second), (5, 6), "the body runs before it looks");
    rig.release(graph, exec);
}

fn a_kernel_before_the_node_decides(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let made = handle(rig, graph, 0);
    let decides = steering.sets(graph, &[], made, 1);
    let (node, [body]) = branch(rig, graph, &[decides], made, IF);
    steering.pushes(body, &[], 0, 1);
    steering.pushes(graph, &[node], 0, 2);
    let exec = rig.instantiate(graph);
    let [word] = steering.run(exec);
    assert_eq!(word, 12, "what is behind the node comes after its body");
    rig.release(graph, exec);
}

fn a_launch_begins_with_the_default(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let made = handle(rig, graph, 0);
    let (node, [body]) = branch(rig, graph, &[], made, IF);
    steering.adds(body, &[], 0, 1);
    steering.sets(graph, &[node], made, 1);
    let exec = rig.instantiate(graph);
    let [first] = steering.run(exec);
    let [second] = steering.again(exec);
    assert_eq!((first, second), (0, 0));
    rig.release(graph, exec);
}

fn without_the_flag_the_value_stays(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let made = make!(rig, cuGraphConditionalHandleCreate(graph, rig.context, 0, 0));
    let (node, [body]) = branch(rig, graph, &[], made, IF);
    steering.adds(body, &[], 0, 1);
    steering.sets(graph, &[node], made, 1);
    let exec = rig.instantiate(graph);
    let [first] = steering.run(exec);
    let [second] = steering.again(exec);
    assert_eq!((first, second), (0, 1));
    rig.release(graph, exec);
}

fn nested_nodes_run(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (outer, inner, innermost) =
        (handle(rig, graph, 1), handle(rig, graph, 2), handle(rig, graph, 1));
    let (_, [body]) = branch(rig, graph, &[], outer, IF);
    let (choice, [_, _, case]) = branch(rig, body, &[], inner, SWITCH);
    let (_, [round]) = branch(rig, case, &[], innermost, WHILE);
    steering.counts(round, &[], innermost, (0, 6));
    steering.pushes(body, &[choice], 1, 3);
    let exec = rig.instantiate(graph);
    let words: [u32; 2] = steering.run(exec);
    assert_eq!(words, [6, 3]);
    rig.release(graph, exec);
}

fn the_default_is_given_once_a_launch(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (outer, inner) = (handle(rig, graph, 1), handle(rig, graph, 1));
    let (_, [round]) = branch(rig, graph, &[], outer, WHILE);
    let (node, [once]) = branch(rig, round, &[], inner, WHILE);
    steering.counts(once, &[], inner, (0, 3));
    steering.counts(round, &[node], outer, (1, 4));
    let exec = rig.instantiate(graph);
    let words: [u32; 2] = steering.run(exec);
    assert_eq!(words, [3, 4], "the inner loop ends in the first round and stays ended");
    rig.release(graph, exec);
}

fn a_child_graph_can_decide(rig: &Rig) {
    let steering = Steering::new(rig);
    let (graph, child) = (rig.new_graph(), rig.new_graph());
    let made = handle(rig, graph, 0);
    steering.sets(child, &[], made, 1);
    let decides = make!(rig, cuGraphAddChildGraphNode(graph, null(), 0, child));
    let (_, [body]) = branch(rig, graph, &[decides], made, IF);
    steering.adds(body, &[], 0, 1);
    let exec = rig.instantiate(graph);
    let [word] = steering.run(exec);
    rig.release(graph, exec);
    ok!(rig, cuGraphDestroy(child));
    assert_eq!(word, 1);
}

fn the_order_of_a_body_is_kept(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (_, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
    let mut last = Vec::new();
    for digit in 1..=5 {
        last = vec![steering.pushes(body, &last, 0, digit)];
    }
    let exec = rig.instantiate(graph);
    let [word] = steering.run(exec);
    assert_eq!(word, 12345);
    rig.release(graph, exec);
}

fn bodies_are_taken_as_they_are_at_instantiation(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (_, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
    steering.adds(body, &[], 0, 1);
    let exec = rig.instantiate(graph);
    steering.adds(body, &[], 1, 1);
    ok!(rig, cuGraphDestroy(graph));
    let words: [u32; 2] = steering.run(exec);
    assert_eq!(words, [1, 0], "also when the graph is gone");
    ok!(rig, cuGraphExecDestroy(exec));
}

fn a_node_of_a_body_can_be_changed_in_the_executable(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (_, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
    let node = steering.adds(body, &[], 0, 1);
    let exec = rig.instantiate(graph);
    let (mut word, mut n) = (rig.buffer, 10_u32);
    let mut arguments = [(&raw mut word).cast(), (&raw mut n).cast()];
    let params = crate::steering::kernel(steering.add, &mut arguments);
    let set = cu!(rig, cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
    let [changed] = steering.run(exec);
    let disable = cu!(rig, cuGraphNodeSetEnabled(exec, node, 0));
    let [disabled] = steering.run(exec);
    rig.release(graph, exec);
    assert_eq!(((set, changed), (disable, disabled)), ((0, 10), (0, 0)));
}

fn a_node_in_a_capture(rig: &Rig) {
    let steering = Steering::new(rig);
    let s = rig.stream;
    rig.begin(s, RELAXED);
    let (mut status, mut id, mut graph) = (CUstreamCaptureStatus(0), 0, null_mut());
    let (mut nodes, mut count) = (null(), 0);
    ok!(
        rig,
        cuStreamGetCaptureInfo_v2(s, &mut status, &mut id, &mut graph, &mut nodes, &mut count)
    );
    let made = handle(rig, graph, 1);
    let mut params = conditional(rig, made, IF, 1);
    let (code, mut node) = add(rig, graph, &[], &mut params);
    let [body] = bodies(&params);
    let moved = cu!(rig, cuStreamUpdateCaptureDependencies_v2(s, &mut node, null(), 1, 1));
    steering.adds(body, &[], 0, 1);
    rig.fill_word(1, 9, s);
    let captured = rig.end_good(s);
    assert_eq!(rig.shape(captured), "13 2 | 0>1");
    let exec = rig.instantiate(captured);
    let words: [u32; 2] = steering.run(exec);
    rig.release(captured, exec);
    assert_eq!((code, moved, words), (0, 0, [1, 9]));
}

fn a_capture_fills_a_body(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (_, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
    let first = steering.adds(body, &[], 0, 1);
    let mode = CUstreamCaptureMode(RELAXED);
    ok!(rig, cuStreamBeginCaptureToGraph(rig.stream, body, &first, null(), 1, mode));
    rig.fill_word(1, 7, rig.stream);
    assert_eq!(rig.end_good(rig.stream), body);
    assert_eq!(rig.shape(body), "0 2 | 0>1");
    let exec = rig.instantiate(graph);
    let words: [u32; 2] = steering.run(exec);
    assert_eq!(words, [1, 7]);
    rig.release(graph, exec);
}

fn one_capture_fills_a_body_at_a_time(rig: &Rig) {
    let graph = rig.new_graph();
    let (_, [body]) = branch::<1>(rig, graph, &[], handle(rig, graph, 1), IF);
    let mode = CUstreamCaptureMode(RELAXED);
    let begin =
        |stream| cu!(rig, cuStreamBeginCaptureToGraph(stream, body, null(), null(), 0, mode));
    let codes = [begin(rig.stream), begin(rig.other)];
    assert_eq!(rig.end(rig.stream), (0, body));
    assert_eq!((codes, rig.end(rig.other).0), ([0, 401], 401));
    ok!(rig, cuGraphDestroy(graph));
}

fn an_edge_to_a_node_is_full(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let made = handle(rig, graph, 0);
    let decides = steering.sets(graph, &[], made, 1);
    let early = CUgraphEdgeData { from_port: 1, type_: 1, ..Default::default() };
    let mut params = conditional(rig, made, IF, 1);
    let mut node = null_mut();
    let code = cu!(rig, cuGraphAddNode_v2(&mut node, graph, &decides, &early, 1, &mut params));
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(code, 1);
}

fn a_handle_outside_of_a_graph_breaks_the_context(rig: &Rig) {
    let (steering, stream) = (Steering::new(rig), rig.new_stream(1));
    let (mut made, mut value) = (1_u64, 1_u32);
    let mut arguments = [(&raw mut made).cast(), (&raw mut value).cast()];
    assert_eq!(rig.launch(steering.set, stream, &mut arguments), 0);
    assert_eq!(cu!(rig, cuStreamSynchronize(stream)), 700);
    // The module is lost with the context.
    std::mem::forget(steering);
}

fn a_number_that_is_no_handle_decides_nothing(rig: &Rig) {
    let steering = Steering::new(rig);
    let graph = rig.new_graph();
    let (node, [body]) = branch(rig, graph, &[], handle(rig, graph, 1), IF);
    steering.adds(body, &[], 0, 1);
    for number in [0, 99] {
        steering.sets(graph, &[node], number, 1);
    }
    let exec = rig.instantiate(graph);
    let [word] = steering.run(exec);
    assert_eq!(word, 1);
    rig.release(graph, exec);
}

fn a_graph_with_a_handle_is_there_once(rig: &Rig) {
    let (graph, parent) = (rig.new_graph(), rig.new_graph());
    handle(rig, graph, 1);
    let mut params = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..Default::default() };
    params.__bindgen_anon_1.graph =
        CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership: CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE };
    let codes = [
        cu!(rig, cuGraphClone(&mut null_mut(), graph)),
        cu!(rig, cuGraphAddChildGraphNode(&mut null_mut(), parent, null(), 0, graph)),
        add(rig, parent, &[], &mut params).0,
    ];
    for graph in [graph, parent] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!(codes, [801; 3]);
}
