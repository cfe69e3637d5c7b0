//! What a real driver (13.0, on an H200) answered to mistakes with graphs, and the rules that its
//! documentation states.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::{GLOBAL, Rig};
use crate::subject::Subject;

tiers! {
    both {
        null_handles,
        edges_and_cycles,
        instantiation_flags,
        updates_that_do_not_fit,
        graph_memory,
        a_launch_frees_what_it_left_alive_if_asked,
        parameters_that_no_node_takes,
    }
}

fn empty(rig: &Rig, graph: CUgraph, after: &[CUgraphNode]) -> (u32, CUgraphNode) {
    let mut node = null_mut();
    let code = cu!(rig, cuGraphAddEmptyNode(&mut node, graph, after.as_ptr(), after.len()));
    (code, node)
}

fn host(rig: &Rig, graph: CUgraph) -> CUgraphNode {
    let params = CUDA_HOST_NODE_PARAMS_v1 { fn_: Some(Counter::count), userData: null_mut() };
    let mut node = null_mut();
    ok!(rig, cuGraphAddHostNode(&mut node, graph, null(), 0, &params));
    node
}

fn add_edge(rig: &Rig, graph: CUgraph, from: CUgraphNode, to: CUgraphNode) -> u32 {
    cu!(rig, cuGraphAddDependencies(graph, &from, &to, 1))
}

fn instantiate_with(rig: &Rig, graph: CUgraph, flags: u64) -> (u32, u32, bool, CUgraphExec) {
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS { flags, ..Default::default() };
    let mut exec = null_mut();
    let code = cu!(rig, cuGraphInstantiateWithParams(&mut exec, graph, &mut params));
    (code, params.result_out.0, !params.hErrNode_out.is_null(), exec)
}

fn update(rig: &Rig, exec: CUgraphExec, graph: CUgraph) -> (u32, u32, CUgraphNode, CUgraphNode) {
    let mut info = CUgraphExecUpdateResultInfo::default();
    let code = cu!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info));
    (code, info.result.0, info.errorNode, info.errorFromNode)
}

fn null_handles(rig: &Rig) {
    let (mut graph, mut exec, mut count) = (null_mut(), null_mut(), 0);
    assert_eq!(cu!(rig, cuGraphCreate(&mut graph, 1)), 1);
    assert_eq!(cu!(rig, cuGraphDestroy(null_mut())), 1);
    assert_eq!(cu!(rig, cuGraphExecDestroy(null_mut())), 1);
    assert_eq!(cu!(rig, cuGraphLaunch(null_mut(), rig.stream)), 1);
    assert_eq!(cu!(rig, cuGraphInstantiateWithFlags(&mut exec, null_mut(), 0)), 1);
    assert_eq!(cu!(rig, cuGraphGetNodes(null_mut(), null_mut(), &mut count)), 1);
    let graph = rig.new_graph();
    assert_eq!(cu!(rig, cuGraphDebugDotPrint(graph, null(), 0)), 1);
    assert_eq!(cu!(rig, cuGraphDebugDotPrint(graph, c"/no/such/folder/x.dot".as_ptr(), 0)), 304);
    ok!(rig, cuGraphDestroy(graph));
    rig.on_simulation(|_| {
        assert_eq!(cu!(rig, cuGraphDestroy(graph)), 1, "a stale handle");
    });
}

fn edges_and_cycles(rig: &Rig) {
    let graph = rig.new_graph();
    let (_, a) = empty(rig, graph, &[]);
    let (_, b) = empty(rig, graph, &[a]);
    assert_eq!(empty(rig, graph, &[a, a]).0, 1, "a dependency named twice");
    assert_eq!(add_edge(rig, graph, a, a), 1, "a node after itself");
    assert_eq!(add_edge(rig, graph, a, b), 1, "an edge that is there");
    assert_eq!(cu!(rig, cuGraphRemoveDependencies(graph, &b, &a, 1)), 1, "an edge that is not");
    assert_eq!(add_edge(rig, graph, b, a), 0, "a cycle is accepted");
    let (code, result, node, exec) = instantiate_with(rig, graph, 0);
    assert_eq!((code, result, node, exec.is_null()), (1, 2, true, true));
    ok!(rig, cuGraphRemoveDependencies(graph, &b, &a, 1));
    let other = rig.new_graph();
    let (_, foreign) = empty(rig, other, &[]);
    assert_eq!(empty(rig, graph, &[foreign]).0, 1);
    assert_eq!(add_edge(rig, graph, foreign, b), 1);
    assert_eq!(rig.shape(graph), "5 5 | 0>1");
    ok!(rig, cuGraphDestroyNode(a));
    assert_eq!(rig.shape(graph), "5 |");
    rig.on_simulation(|_| assert_eq!(cu!(rig, cuGraphDestroyNode(a)), 1, "a stale handle"));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuGraphDestroy(other));
}

fn instantiation_flags(rig: &Rig) {
    rig.begin(rig.stream, GLOBAL);
    assert_eq!(rig.fill(rig.stream), 0);
    let graph = rig.end_good(rig.stream);
    // The flags, the code, and the flags that the executable tells.
    for (flags, expected, told) in
        [(64, 1, 0), (5, 1, 0), (2, 1, 0), (4, 0, 4), (8, 0, 0), (1, 0, 1)]
    {
        let mut exec = null_mut();
        let code = cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, flags));
        assert_eq!(code, expected, "flags {flags}");
        if code == 0 {
            let mut kept = 99;
            ok!(rig, cuGraphExecGetFlags(exec, &mut kept));
            assert_eq!(kept, told, "flags {flags}");
            ok!(rig, cuGraphExecDestroy(exec));
        }
    }
    let (code, result, _, exec) = instantiate_with(rig, graph, 2);
    assert_eq!((code, result), (0, 0), "an upload on the null stream");
    let mut kept = 99;
    ok!(rig, cuGraphExecGetFlags(exec, &mut kept));
    assert_eq!(kept, 0);
    ok!(rig, cuGraphExecDestroy(exec));
    let (code, result, ..) = instantiate_with(rig, graph, 64);
    assert_eq!((code, result), (1, 1));
    ok!(rig, cuCtxSetCurrent(null_mut()));
    let mut exec = null_mut();
    assert_eq!(cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0)), 201);
    ok!(rig, cuCtxSetCurrent(rig.context));
    ok!(rig, cuGraphDestroy(graph));
}

fn updates_that_do_not_fit(rig: &Rig) {
    let fills = |count: usize| {
        rig.begin(rig.stream, GLOBAL);
        for _ in 0..count {
            assert_eq!(rig.fill(rig.stream), 0);
        }
        rig.end_good(rig.stream)
    };
    let (one, two) = (fills(1), fills(2));
    let exec = rig.instantiate(one);
    assert_eq!(update(rig, exec, two), (910, 2, null_mut(), null_mut()));
    let of_host = rig.new_graph();
    let node = host(rig, of_host);
    assert_eq!(update(rig, exec, of_host), (910, 3, node, null_mut()));
    assert_eq!(update(rig, exec, one), (0, 0, null_mut(), null_mut()));
    let wide = rig.new_graph();
    let ends = [empty(rig, wide, &[]).1, empty(rig, wide, &[]).1];
    let exec_of_two = rig.instantiate(two);
    assert_eq!(update(rig, exec_of_two, wide), (910, 2, ends[0], null_mut()));
    for graph in [one, two, of_host, wide] {
        ok!(rig, cuGraphDestroy(graph));
    }
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphExecDestroy(exec_of_two));
}

fn graph_memory(rig: &Rig) {
    let (graph, s) = (rig.new_graph(), rig.stream);
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: 1000, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    let mut node = null_mut();
    ok!(rig, cuGraphAddMemAllocNode(&mut node, graph, null(), 0, &mut params));
    let address = params.dptr;
    let exec = rig.instantiate(graph);
    let mut second = null_mut();
    assert_eq!(cu!(rig, cuGraphInstantiateWithFlags(&mut second, graph, 0)), 801);
    let mut clone = null_mut();
    assert_eq!(cu!(rig, cuGraphClone(&mut clone, graph)), 801);
    assert_eq!(cu!(rig, cuGraphDestroyNode(node)), 801);
    ok!(rig, cuGraphLaunch(exec, s));
    assert_eq!(cu!(rig, cuGraphLaunch(exec, s)), 1, "still alive");
    ok!(rig, cuMemFreeAsync(address, s));
    ok!(rig, cuGraphLaunch(exec, s));
    let mut free = null_mut();
    let mut add = |address| cu!(rig, cuGraphAddMemFreeNode(&mut free, graph, &node, 1, address));
    assert_eq!((add(0x1234), add(address), add(address)), (1, 1, 1));
    let parent = rig.new_graph();
    assert_eq!(cu!(rig, cuGraphAddChildGraphNode(&mut node, parent, null(), 0, graph)), 801);
    ok!(rig, cuMemFreeAsync(address, s));
    assert_eq!(cu!(rig, cuMemFreeAsync(address, s)), 1, "freed already");
    rig.sync(s);
    rig.on_simulation(|sim| assert_eq!(sim.live().device_allocations, 1, "the rig's alone"));
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuGraphDestroy(parent));
}

fn a_launch_frees_what_it_left_alive_if_asked(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, GLOBAL);
    let mut address = 0;
    ok!(rig, cuMemAllocAsync(&mut address, 4096, s));
    ok!(rig, cuMemsetD32Async(address, 5, 1024, s));
    let graph = rig.end_good(s);
    let mut exec = null_mut();
    ok!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 1));
    for _ in 0..3 {
        ok!(rig, cuGraphLaunch(exec, s));
    }
    let mut word = 0u32;
    rig.sync(s);
    ok!(rig, cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
    assert_eq!(word, 5);
    rig.on_simulation(|sim| assert_eq!(sim.live().device_allocations, 2));
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuMemFree_v2(address));
}

fn parameters_that_no_node_takes(rig: &Rig) {
    let graph = rig.new_graph();
    let mut node = null_mut();
    let nothing = CUDA_HOST_NODE_PARAMS_v1::default();
    assert_eq!(cu!(rig, cuGraphAddHostNode(&mut node, graph, null(), 0, &nothing)), 1);
    let mut fill = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer,
        elementSize: 4,
        width: 4,
        height: 1,
        ..Default::default()
    };
    let add = |fill: &CUDA_MEMSET_NODE_PARAMS_v1| {
        let mut node = null_mut();
        cu!(rig, cuGraphAddMemsetNode(&mut node, graph, null(), 0, fill, rig.context))
    };
    assert_eq!(add(&fill), 0);
    fill.elementSize = 3;
    assert_eq!(add(&fill), 1);
    fill.elementSize = 4;
    fill.dst += 1;
    assert_eq!(add(&fill), 1);
    assert_eq!(rig.nodes(graph).len(), 1);
    ok!(rig, cuGraphDestroy(graph));
}

#[test]
fn sim_a_failed_call_leaves_nothing() {
    let functions = [
        Function::cuStreamBeginCapture_v2,
        Function::cuStreamEndCapture,
        Function::cuGraphInstantiateWithFlags,
        Function::cuGraphLaunch,
    ];
    for function in functions {
        let rig = Rig::on(Subject::simulated());
        rig.on_simulation(|sim| sim.fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY));
        let begun = cu!(rig, cuStreamBeginCapture_v2(rig.stream, CUstreamCaptureMode(0)));
        assert_eq!(rig.fill(rig.stream), 0);
        let mut graph = null_mut();
        let mut ended = cu!(rig, cuStreamEndCapture(rig.stream, &mut graph));
        if ended == 2 {
            assert_eq!(rig.status(rig.stream), 1, "the capture goes on");
            ended = cu!(rig, cuStreamEndCapture(rig.stream, &mut graph));
        }
        assert_eq!(ended, if begun == 2 { 401 } else { 0 });
        if ended == 0 {
            let mut exec = null_mut();
            if cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0)) == 0 {
                let launched = cu!(rig, cuGraphLaunch(exec, rig.stream));
                assert_eq!(launched == 2, function == Function::cuGraphLaunch);
                ok!(rig, cuGraphExecDestroy(exec));
            }
            ok!(rig, cuGraphDestroy(graph));
        }
        rig.close();
    }
}
