//! Parameters of an executable's nodes within embedded graphs and bodies, by the handles there.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::Rig;
use crate::steering::{IF, Steering, branch, handle, kernel};

tiers! {
    both {
        every_kind_is_set_within_an_embedded_graph,
        nodes_are_set_at_any_depth,
        nodes_of_a_moved_graph_are_set,
        nodes_of_bodies_are_set,
        names_within_stay_after_an_update,
        an_embedded_graph_is_taken_again,
        names_within_are_found_in_copies,
        what_is_embedded_beside_a_condition_is_not_copied,
        a_graph_that_allocates_is_not_taken_again,
    }
}

fn child(rig: &Rig, graph: CUgraph, child: CUgraph) -> CUgraphNode {
    make!(rig, cuGraphAddChildGraphNode(graph, null(), 0, child))
}

/// A node that takes a graph as it is.
fn moved(rig: &Rig, graph: CUgraph, child: CUgraph) -> CUgraphNode {
    let mut params = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..Default::default() };
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: child,
        ownership: CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
    };
    make!(rig, cuGraphAddNode_v2(graph, null(), null(), 0, &mut params))
}

fn embedded(rig: &Rig, node: CUgraphNode) -> CUgraph {
    let mut graph = null_mut();
    ok!(rig, cuGraphChildGraphNodeGetGraph(node, &mut graph));
    graph
}

/// A graph that adds 1 to a word.
fn adding(rig: &Rig, steering: &Steering<'_>) -> CUgraph {
    let graph = rig.new_graph();
    steering.adds(graph, &[], 0, 1);
    graph
}

/// Has a kernel of an executable add another number.
fn set(rig: &Rig, steering: &Steering<'_>, exec: CUgraphExec, node: CUgraphNode, n: u32) -> u32 {
    let (mut word, mut n) = (rig.buffer, n);
    let mut arguments = [(&raw mut word).cast(), (&raw mut n).cast()];
    let params = kernel(steering.add, &mut arguments);
    cu!(rig, cuGraphExecKernelNodeSetParams_v2(exec, node, &params))
}

/// What a launch adds to the word.
fn adds(rig: &Rig, exec: CUgraphExec) -> u32 {
    let before = rig.read_word(0);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    rig.read_word(0) - before
}

fn every_kind_is_set_within_an_embedded_graph(rig: &Rig) {
    let (inner, outer, context) = (rig.new_graph(), rig.new_graph(), rig.context);
    let (events, counters) =
        ([(); 2].map(|()| rig.new_event()), [(); 2].map(|()| Counter::default()));
    let fill = |word: u64, value| CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer + 4 * word,
        value,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    };
    let copy = |from: u64, to: u64| CUDA_MEMCPY3D {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: rig.buffer + 4 * from,
        dstDevice: rig.buffer + 4 * to,
        WidthInBytes: 4,
        Height: 1,
        Depth: 1,
        ..Default::default()
    };
    let host = |counter: &Counter| CUDA_HOST_NODE_PARAMS_v1 {
        fn_: Some(Counter::count),
        userData: counter.argument(),
    };
    ok!(rig, cuGraphAddMemsetNode(&mut null_mut(), inner, null(), 0, &fill(1, 1), context));
    ok!(rig, cuGraphAddMemcpyNode(&mut null_mut(), inner, null(), 0, &copy(8, 2), context));
    ok!(rig, cuGraphAddHostNode(&mut null_mut(), inner, null(), 0, &host(&counters[0])));
    ok!(rig, cuGraphAddEventRecordNode(&mut null_mut(), inner, null(), 0, events[0]));
    ok!(rig, cuGraphAddEventWaitNode(&mut null_mut(), inner, null(), 0, events[1]));
    let node = child(rig, outer, inner);
    let exec = rig.instantiate(outer);
    let nodes = rig.nodes(embedded(rig, node));
    let codes = [
        cu!(rig, cuGraphExecMemsetNodeSetParams(exec, nodes[0], &fill(17, 5), context)),
        cu!(rig, cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy(17, 18), context)),
        cu!(rig, cuGraphExecHostNodeSetParams(exec, nodes[2], &host(&counters[1]))),
        cu!(rig, cuGraphExecEventRecordNodeSetEvent(exec, nodes[3], events[1])),
        cu!(rig, cuGraphExecEventWaitNodeSetEvent(exec, nodes[4], events[0])),
    ];
    let enabled = [0, 1, 2, 3].map(|node| {
        let mut on = 7;
        let code = cu!(rig, cuGraphNodeSetEnabled(exec, nodes[node], u32::from(node > 1)));
        (code, cu!(rig, cuGraphNodeGetEnabled(exec, nodes[node], &mut on)), on)
    });
    ok!(rig, cuGraphNodeSetEnabled(exec, nodes[0], 1));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!((rig.read_word(1), rig.read_word(17), rig.read_word(18)), (0, 5, 0));
    assert_eq!(counters.each_ref().map(Counter::get), [0, 1]);
    rig.release(outer, exec);
    ok!(rig, cuGraphDestroy(inner));
    for event in events {
        ok!(rig, cuEventDestroy_v2(event));
    }
    assert_eq!((codes, enabled), ([0; 5], [(0, 0, 0), (0, 0, 0), (1, 1, 7), (1, 1, 7)]));
}

fn nodes_are_set_at_any_depth(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, middle, outer) = (adding(rig, &steering), rig.new_graph(), rig.new_graph());
    child(rig, middle, inner);
    let [first, second] = [(); 2].map(|()| child(rig, outer, middle));
    let exec = rig.instantiate(outer);
    let deep = |node| rig.nodes(embedded(rig, rig.nodes(embedded(rig, node))[0]))[0];
    assert_eq!(set(rig, &steering, exec, deep(first), 10), 0);
    ok!(rig, cuGraphNodeSetEnabled(exec, deep(second), 0));
    assert_eq!(adds(rig, exec), 10, "each copy has its own");
    rig.release(outer, exec);
    for graph in [inner, middle] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

fn nodes_of_a_moved_graph_are_set(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, outer) = (rig.new_graph(), rig.new_graph());
    let node = steering.adds(inner, &[], 0, 1);
    let embeds = moved(rig, outer, inner);
    assert_eq!((embedded(rig, embeds) == inner, rig.nodes(inner)[0] == node), (true, true));
    let exec = rig.instantiate(outer);
    assert_eq!(set(rig, &steering, exec, node, 10), 0);
    assert_eq!(adds(rig, exec), 10);
    rig.release(outer, exec);
}

fn nodes_of_bodies_are_set(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, outer) = (adding(rig, &steering), rig.new_graph());
    let (_, [body]) = branch(rig, outer, &[], handle(rig, outer, 1), IF);
    let (_, [deep]) = branch(rig, body, &[], handle(rig, outer, 1), IF);
    let node = steering.adds(body, &[], 0, 1);
    let deeper = steering.adds(deep, &[], 0, 1);
    let embeds = child(rig, deep, inner);
    let exec = rig.instantiate(outer);
    let within = rig.nodes(embedded(rig, embeds))[0];
    let codes = [node, deeper, within].map(|node| set(rig, &steering, exec, node, 0));
    ok!(rig, cuGraphNodeSetEnabled(exec, within, 0));
    assert_eq!(codes, [0; 3]);
    assert_eq!(set(rig, &steering, exec, node, 10), 0);
    assert_eq!(adds(rig, exec), 10);
    rig.release(outer, exec);
    ok!(rig, cuGraphDestroy(inner));
}

fn names_within_stay_after_an_update(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, old, new) = (adding(rig, &steering), rig.new_graph(), rig.new_graph());
    let (node, other) = (child(rig, old, inner), child(rig, new, inner));
    let exec = rig.instantiate(old);
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(rig, cuGraphExecUpdate_v2(exec, new, &mut info));
    let codes =
        [other, node].map(|node| set(rig, &steering, exec, rig.nodes(embedded(rig, node))[0], 10));
    assert_eq!((codes, adds(rig, exec)), ([1, 0], 10));
    rig.release(old, exec);
    for graph in [inner, new] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

fn an_embedded_graph_is_taken_again(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, outer) = (adding(rig, &steering), rig.new_graph());
    let node = child(rig, outer, inner);
    let exec = rig.instantiate(outer);
    let (mut word, mut n) = (rig.buffer, 10_u32);
    let mut arguments = [(&raw mut word).cast(), (&raw mut n).cast()];
    let params = kernel(steering.add, &mut arguments);
    let within = rig.nodes(embedded(rig, node))[0];
    assert_eq!(cu!(rig, cuGraphKernelNodeSetParams_v2(within, &params)), 0);
    assert_eq!(adds(rig, exec), 1, "the executable is as it was");
    let own = embedded(rig, node);
    assert_eq!(cu!(rig, cuGraphExecChildGraphNodeSetParams(exec, node, own)), 0);
    assert_eq!(adds(rig, exec), 10);
    assert_eq!(set(rig, &steering, exec, within, 100), 0);
    assert_eq!(adds(rig, exec), 100);
    rig.release(outer, exec);
    ok!(rig, cuGraphDestroy(inner));
}

fn names_within_are_found_in_copies(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, outer) = (adding(rig, &steering), rig.new_graph());
    let node = child(rig, outer, inner);
    let within = rig.nodes(embedded(rig, node))[0];
    let (mut clone, mut copy, mut found) = (null_mut(), null_mut(), null_mut());
    ok!(rig, cuGraphClone(&mut clone, outer));
    ok!(rig, cuGraphNodeFindInClone(&mut copy, node, clone));
    let (there, own) = (embedded(rig, copy), embedded(rig, node));
    let codes = [
        cu!(rig, cuGraphNodeFindInClone(&mut found, within, there)),
        cu!(rig, cuGraphNodeFindInClone(&mut null_mut(), within, clone)),
        cu!(rig, cuGraphNodeFindInClone(&mut null_mut(), rig.nodes(inner)[0], own)),
    ];
    assert_eq!((codes, found), ([0, 1, 0], rig.nodes(there)[0]));
    for graph in [inner, outer, clone] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

/// The handles of a graph bar copies of all that is embedded in it, at any depth.
fn what_is_embedded_beside_a_condition_is_not_copied(rig: &Rig) {
    let steering = Steering::new(rig);
    let (step, middle, outer) = (adding(rig, &steering), rig.new_graph(), rig.new_graph());
    child(rig, middle, step);
    let within = embedded(rig, child(rig, outer, middle));
    let deep = embedded(rig, rig.nodes(within)[0]);
    let copy = |graph| {
        let mut clone = null_mut();
        let code = cu!(rig, cuGraphClone(&mut clone, graph));
        if !clone.is_null() {
            ok!(rig, cuGraphDestroy(clone));
        }
        code
    };
    let before = copy(within);
    let condition = handle(rig, outer, 1);
    let beside = copy(within);
    let (_, [body]) = branch(rig, outer, &[], condition, IF);
    let of_body = embedded(rig, child(rig, body, middle));
    let deep_in_body = embedded(rig, rig.nodes(of_body)[0]);
    let codes = [within, of_body, deep_in_body, deep, step].map(copy);
    assert_eq!((before, beside, codes), (0, 801, [801, 801, 801, 801, 0]));
    for graph in [step, middle, outer] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

/// Its nodes can be set, and the whole graph can be updated.
fn a_graph_that_allocates_is_not_taken_again(rig: &Rig) {
    let steering = Steering::new(rig);
    let (inner, outer) = (rig.new_graph(), rig.new_graph());
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: 512, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    let (mut allocation, mut free) = (null_mut(), null_mut());
    ok!(rig, cuGraphAddMemAllocNode(&mut allocation, inner, null(), 0, &mut params));
    let node = steering.adds(inner, &[allocation], 0, 1);
    ok!(rig, cuGraphAddMemFreeNode(&mut free, inner, &node, 1, params.dptr));
    let embeds = moved(rig, outer, inner);
    let exec = rig.instantiate(outer);
    assert_eq!(set(rig, &steering, exec, node, 5), 0);
    assert_eq!(adds(rig, exec), 5);
    assert_eq!(cu!(rig, cuGraphExecChildGraphNodeSetParams(exec, embeds, inner)), 910);
    let mut info = CUgraphExecUpdateResultInfo::default();
    assert_eq!(cu!(rig, cuGraphExecUpdate_v2(exec, outer, &mut info)), 0);
    rig.release(outer, exec);
}
