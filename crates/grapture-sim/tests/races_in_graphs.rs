//! What is an order inside a graph, and what only looks like one, where races are looked for.

mod common;

use std::ffi::c_void;
use std::ptr::null;

use common::Setup;
use grapture_sim::{RaceCheck, ReplayOrder, SimConfig};
use grapture_sys::*;

/// Counts in a word and gives a handle whether it is still less than three.
const PTX: &str = "\
.version 6.4
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 h, .param .b32 v);
.visible .entry again(.param .u64 h, .param .u64 p){
 .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %q;
 ld.param.u64 %rd1,[h]; ld.param.u64 %rd2,[p];
 ld.global.u32 %r1,[%rd2]; add.u32 %r1,%r1,1; st.global.u32 [%rd2],%r1;
 setp.lt.u32 %q,%r1,3; selp.u32 %r2,1,0,%q;
 { .param .b64 a; st.param.b64 [a+0],%rd1; .param .b32 b; st.param.b32 [b+0],%r2;
 call.uni cudaGraphSetConditional,(a,b); } ret;}
";

fn fill(t: &Setup, graph: CUgraph, after: &[CUgraphNode], address: u64) -> CUgraphNode {
    let params = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: address,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    };
    make!(t, cuGraphAddMemsetNode(graph, after.as_ptr(), after.len(), &params, t.context))
}

/// How many races so many launches of a graph come to.
fn races(t: &Setup, graph: CUgraph, launches: usize) -> usize {
    let stream = t.stream();
    let exec: CUgraphExec = make!(t, cuGraphInstantiateWithFlags(graph, 0));
    for _ in 0..launches {
        assert_eq!(call!(t, cuGraphLaunch(exec, stream)), 0);
    }
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
    t.sim.races().len()
}

#[test]
fn nodes_that_run_one_by_one_in_some_order_still_race() {
    for order in [ReplayOrder::Concurrent, ReplayOrder::Permuted] {
        let t = Setup::with(SimConfig::new().races(RaceCheck::Report).replay_order(order));
        let word = t.alloc(4);
        let graph: CUgraph = make!(t, cuGraphCreate(0));
        let first = fill(&t, graph, &[], word);
        fill(&t, graph, &[first], word);
        assert_eq!(races(&t, graph, 2), 0, "an edge is an order");
        fill(&t, graph, &[], word);
        assert!(races(&t, graph, 1) > 0);
    }
}

#[test]
fn bodies_of_conditional_nodes_are_ordered_with_what_surrounds_them() {
    let t = Setup::with(SimConfig::new().races(RaceCheck::Report));
    let module = t.module(PTX);
    let func = t.function(module, "again");
    let mut word = t.alloc(4);
    let graph: CUgraph = make!(t, cuGraphCreate(0));
    let mut handle: u64 = make!(t, cuGraphConditionalHandleCreate(graph, t.context, 1, 1));
    let before = fill(&t, graph, &[], word);
    let mut params =
        CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_CONDITIONAL, ..Default::default() };
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: CU_GRAPH_COND_TYPE_WHILE,
        size: 1,
        ctx: t.context,
        ..Default::default()
    };
    let node: CUgraphNode = make!(t, cuGraphAddNode_v2(graph, &before, null(), 1, &mut params));
    // SAFETY: these are the parameters of a conditional node.
    let conditional = unsafe { params.__bindgen_anon_1.conditional };
    // SAFETY: the call made the node, of one body, and the array of its bodies.
    let body = unsafe { *conditional.phGraph_out };
    let mut arguments: [*mut c_void; 2] = [(&raw mut handle).cast(), (&raw mut word).cast()];
    let kernel = CUDA_KERNEL_NODE_PARAMS_v1 {
        func,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: arguments.as_mut_ptr(),
        ..Default::default()
    };
    let none: *const CUgraphNode = null();
    let _: CUgraphNode = make!(t, cuGraphAddKernelNode(body, none, 0, &kernel));
    fill(&t, graph, &[node], word);
    assert_eq!(races(&t, graph, 2), 0, "rounds come one after the other, behind what is before");
}
