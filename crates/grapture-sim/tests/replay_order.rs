//! The orders in which a launch of a graph runs its nodes.

mod common;

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null;

use common::Setup;
use grapture_sim::{ReplayOrder, SimConfig};
use grapture_sys::*;

/// Appends a number to a list whose first word is its length.
const PTX: &str = "\
.version 6.4
.target sm_50
.address_size 64
.visible .entry append(.param .u64 list, .param .u32 node){
 .reg .b64 %rd<4>; .reg .b32 %r<4>;
 ld.param.u64 %rd1,[list]; ld.param.u32 %r1,[node];
 atom.global.add.u32 %r2,[%rd1],1;
 mul.wide.u32 %rd2,%r2,4; add.u64 %rd3,%rd1,%rd2; st.global.u32 [%rd3+4],%r1; ret;}
";

/// The orders of so many launches of a graph of kernels, each behind some of the ones before.
fn orders(config: SimConfig, after: &[&[usize]], launches: usize) -> Vec<Vec<u32>> {
    let t = Setup::with(config);
    let stream = t.stream();
    let module = t.module(PTX);
    let func = t.function(module, "append");
    let mut list = t.alloc(4 + 4 * after.len());
    let graph: CUgraph = make!(t, cuGraphCreate(0));
    let mut nodes: Vec<CUgraphNode> = Vec::new();
    for (mut node, after) in (0_u32..).zip(after) {
        let mut arguments: [*mut c_void; 2] = [(&raw mut list).cast(), (&raw mut node).cast()];
        let params = CUDA_KERNEL_NODE_PARAMS_v1 {
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
        let after: Vec<_> = after.iter().map(|node| nodes[*node]).collect();
        let (before, count) = (after.as_ptr(), after.len());
        nodes.push(make!(t, cuGraphAddKernelNode(graph, before, count, &params)));
    }
    let exec: CUgraphExec = make!(t, cuGraphInstantiateWithFlags(graph, 0));
    let mut orders = Vec::new();
    for _ in 0..launches {
        assert_eq!(call!(t, cuMemsetD8Async(list, 0, 4, stream)), 0);
        assert_eq!(call!(t, cuGraphLaunch(exec, stream)), 0);
        assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
        orders.push(t.read::<u32>(list + 4, after.len()));
    }
    assert_eq!(call!(t, cuGraphExecDestroy(exec)), 0);
    assert_eq!(call!(t, cuGraphDestroy(graph)), 0);
    assert_eq!(call!(t, cuModuleUnload(module)), 0);
    assert_eq!(call!(t, cuMemFree_v2(list)), 0);
    assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 0);
    t.finish();
    orders
}

/// Two branches that meet, beside a lone node: ten orders.
const SHAPE: [&[usize]; 5] = [&[], &[0], &[0], &[1, 2], &[]];

fn permuted(seed: u64) -> SimConfig {
    SimConfig::default().replay_order(ReplayOrder::Permuted).seed(seed)
}

#[test]
fn permuted_launches_try_every_order_that_the_edges_allow() {
    let orders = orders(permuted(0), &SHAPE, 120);
    for order in &orders {
        let place = |node| order.iter().position(|other| *other as usize == node).unwrap();
        for (node, after) in SHAPE.iter().enumerate() {
            assert!(after.iter().all(|before| place(*before) < place(node)), "{order:?}");
        }
    }
    assert_eq!(orders[..2], [[0, 1, 2, 3, 4], [4, 0, 2, 1, 3]], "both extremes come first");
    assert_eq!(orders.into_iter().collect::<BTreeSet<_>>().len(), 10);
}

#[test]
fn a_seed_repeats_the_orders_and_another_one_changes_them() {
    let run = |seed| orders(permuted(seed), &SHAPE, 20);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn one_worker_repeats_the_order_of_concurrent_nodes() {
    let run = |seed| orders(SimConfig::default().workers(1).seed(seed), &[[].as_slice(); 12], 4);
    let first = run(3);
    assert_eq!(first, run(3));
    assert_ne!(first, run(4));
    assert!(first.iter().any(|order| !order.is_sorted()));
}

#[test]
fn the_bodies_of_conditional_nodes_are_permuted_too() {
    let t = Setup::with(permuted(1));
    let stream = t.stream();
    let word = t.alloc(4);
    let graph: CUgraph = make!(t, cuGraphCreate(0));
    let handle: u64 = make!(t, cuGraphConditionalHandleCreate(graph, t.context, 1, 1));
    let mut params =
        CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_CONDITIONAL, ..Default::default() };
    params.__bindgen_anon_1.conditional =
        CUDA_CONDITIONAL_NODE_PARAMS { handle, size: 1, ctx: t.context, ..Default::default() };
    let _: CUgraphNode = make!(t, cuGraphAddNode_v2(graph, null(), null(), 0, &mut params));
    // SAFETY: these are the parameters of a conditional node.
    let conditional = unsafe { params.__bindgen_anon_1.conditional };
    // SAFETY: the call made the node, of one body, and the array of its bodies.
    let body = unsafe { *conditional.phGraph_out };
    // Two fills that nothing orders: the last one wins.
    for value in [1, 2] {
        let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
            dst: word,
            value,
            elementSize: 4,
            width: 1,
            height: 1,
            ..Default::default()
        };
        let none: *const CUgraphNode = null();
        let _: CUgraphNode = make!(t, cuGraphAddMemsetNode(body, none, 0, &fill, t.context));
    }
    let exec: CUgraphExec = make!(t, cuGraphInstantiateWithFlags(graph, 0));
    let mut last = Vec::new();
    for _ in 0..2 {
        assert_eq!(call!(t, cuGraphLaunch(exec, stream)), 0);
        assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
        last.extend(t.read::<u32>(word, 1));
    }
    assert_eq!(last, [2, 1]);
}
