//! Nodes by the struct that describes every kind.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::Rig;

tiers! {
    both {
        every_kind_is_added_and_runs,
        what_is_reserved_must_be_zero,
    }
    simulator {
        what_is_not_modelled_says_so,
    }
}

fn params(kind: CUgraphNodeType) -> CUgraphNodeParams {
    CUgraphNodeParams { type_: kind, ..Default::default() }
}

fn add(rig: &Rig, graph: CUgraph, params: &mut CUgraphNodeParams) -> (u32, CUgraphNode) {
    let mut node = null_mut();
    let code = cu!(rig, cuGraphAddNode_v2(&mut node, graph, null(), null(), 0, params));
    (code, node)
}

fn every_kind_is_added_and_runs(rig: &Rig) {
    let graph = rig.new_graph();
    let counter = Counter::default();
    let mut host = params(CU_GRAPH_NODE_TYPE_HOST);
    // Field by field: what is unused must be zero, padding too.
    host.__bindgen_anon_1.host.fn_ = Some(Counter::count);
    host.__bindgen_anon_1.host.userData = counter.argument();
    let mut fill = params(CU_GRAPH_NODE_TYPE_MEMSET);
    fill.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: rig.buffer,
        value: 3,
        elementSize: 4,
        width: 1,
        height: 1,
        ctx: rig.context,
        ..Default::default()
    };
    let mut copy = params(CU_GRAPH_NODE_TYPE_MEMCPY);
    copy.__bindgen_anon_1.memcpy = CUDA_MEMCPY_NODE_PARAMS {
        copyCtx: rig.context,
        copyParams: CUDA_MEMCPY3D_v2 {
            srcMemoryType: CU_MEMORYTYPE_DEVICE,
            srcDevice: rig.buffer + 400,
            dstMemoryType: CU_MEMORYTYPE_DEVICE,
            dstDevice: rig.buffer + 800,
            WidthInBytes: 4,
            Height: 1,
            Depth: 1,
            ..Default::default()
        },
        ..Default::default()
    };
    let child = rig.new_graph();
    assert_eq!(add(rig, child, &mut params(CU_GRAPH_NODE_TYPE_EMPTY)).0, 0);
    let mut embedded = params(CU_GRAPH_NODE_TYPE_GRAPH);
    embedded.__bindgen_anon_1.graph =
        CUDA_CHILD_GRAPH_NODE_PARAMS { graph: child, ..Default::default() };
    let mut record = params(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    record.__bindgen_anon_1.eventRecord =
        CUDA_EVENT_RECORD_NODE_PARAMS { event: rig.event, ..Default::default() };
    let mut wait = params(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    wait.__bindgen_anon_1.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS { event: rig.event };
    let mut nodes = Vec::new();
    for params in [&mut host, &mut fill, &mut copy, &mut embedded, &mut record, &mut wait] {
        let (code, node) = add(rig, graph, params);
        assert_eq!(code, 0);
        nodes.push(node);
    }
    assert_eq!(rig.shape(graph), "3 2 1 4 7 6 |");
    let exec = rig.instantiate(graph);
    fill.__bindgen_anon_1.memset.value = 9;
    ok!(rig, cuGraphExecNodeSetParams(exec, nodes[1], &mut fill));
    ok!(rig, cuGraphExecNodeSetParams(exec, nodes[3], &mut embedded));
    assert_eq!(cu!(rig, cuGraphExecNodeSetParams(exec, nodes[0], &mut fill)), 1, "another kind");
    assert_eq!(cu!(rig, cuGraphNodeSetParams(nodes[0], &mut fill)), 1, "another kind");
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!((counter.get(), rig.read_word(0)), (1, 9));
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuGraphDestroy(child));
}

fn what_is_reserved_must_be_zero(rig: &Rig) {
    let graph = rig.new_graph();
    let mut empty = params(CU_GRAPH_NODE_TYPE_EMPTY);
    empty.reserved0[1] = 1;
    assert_eq!(add(rig, graph, &mut empty).0, 1);
    empty.reserved0[1] = 0;
    empty.reserved2 = 1;
    assert_eq!(add(rig, graph, &mut empty).0, 1);
    empty.reserved2 = 0;
    let mut unused = [0; 29];
    unused[28] = 1;
    empty.__bindgen_anon_1.reserved1 = unused;
    assert_eq!(add(rig, graph, &mut empty).0, 1);
    assert_eq!(rig.nodes(graph).len(), 0);
    ok!(rig, cuGraphDestroy(graph));
}

fn what_is_not_modelled_says_so(rig: &Rig) {
    let graph = rig.new_graph();
    for kind in [CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] {
        assert_eq!(add(rig, graph, &mut params(kind)).0, 801);
    }
    assert_eq!(rig.nodes(graph).len(), 0);
    ok!(rig, cuGraphDestroy(graph));
}
