//! Where the allocation of a node may be freed by other nodes: in which graphs, in which order, and
//! after an executable was made.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::Rig;
use crate::transcript::{quietly, saw};

rules! { both;
    frees_in_several_graphs(rig) {
        for order in 0..27 {
            let graphs = [rig.new_graph(), rig.new_graph(), rig.new_graph()];
            let (node, address) = allocation(rig, graphs[0]);
            let places = [order % 3, order / 3 % 3, order / 9];
            let codes = places.map(|place| {
                let after: &[CUgraphNode] = if place == 0 { &[node] } else { &[] };
                free(rig, graphs[place], after, address)
            });
            saw(&format!("{places:?}"), codes);
            for graph in graphs {
                ok!(rig, cuGraphDestroy(graph));
            }
        }
    }
    frees_with_and_without_a_way_from_the_allocation(rig) {
        for way in 0..8 {
            let graph = rig.new_graph();
            let before: CUgraphNode =
                make!(rig, cuGraphAddEmptyNode(graph, std::ptr::null(), 0));
            let (node, address) = allocation(rig, graph);
            let between: CUgraphNode = make!(rig, cuGraphAddEmptyNode(graph, &node, 1));
            let cycle = way >= 4;
            if cycle {
                ok!(rig, cuGraphAddDependencies(graph, &node, &before, 1));
                ok!(rig, cuGraphAddDependencies(graph, &before, &node, 1));
            }
            let after: &[CUgraphNode] = match way % 4 {
                0 => &[],
                1 => &[node],
                2 => &[between],
                _ => &[before],
            };
            let first = free(rig, graph, after, address);
            let second = free(rig, graph, after, address);
            let mut exec = null_mut();
            let code = quietly(|| cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0)));
            if !exec.is_null() {
                ok!(rig, cuGraphExecDestroy(exec));
            }
            saw(&format!("way {} cycle {cycle}", way % 4), (first, second, code));
            ok!(rig, cuGraphDestroy(graph));
        }
    }
    frees_after_an_instantiation(rig) {
        for way in 0..8 {
            let [early, alive, other] = [way & 1 == 0, way & 2 == 0, way & 4 == 0];
            let graph = rig.new_graph();
            let there = early.then(|| allocation(rig, graph));
            let exec = rig.instantiate(graph);
            if !alive {
                ok!(rig, cuGraphExecDestroy(exec));
            }
            let (node, address) = there.unwrap_or_else(|| allocation(rig, graph));
            let elsewhere = rig.new_graph();
            let code = if other {
                free(rig, elsewhere, &[], address)
            } else {
                free(rig, graph, &[node], address)
            };
            saw(&format!("before {early} alive {alive} elsewhere {other}"), code);
            if alive {
                ok!(rig, cuGraphExecDestroy(exec));
            }
            let mut again = null_mut();
            let code = quietly(|| cu!(rig, cuGraphInstantiateWithFlags(&mut again, graph, 0)));
            saw("again", code);
            if !again.is_null() {
                ok!(rig, cuGraphExecDestroy(again));
            }
            ok!(rig, cuGraphDestroy(elsewhere));
            ok!(rig, cuGraphDestroy(graph));
        }
    }
    late_memory_is_freed_beside_what_was_instantiated(rig) {
        let graph = rig.new_graph();
        let (_, early) = allocation(rig, graph);
        assert_eq!(free(rig, graph, &[], early), 0);
        ok!(rig, cuGraphExecDestroy(rig.instantiate(graph)));
        let (_, late) = allocation(rig, graph);
        assert_eq!(saw("late", free(rig, graph, &[], late)), 0);
        ok!(rig, cuGraphDestroy(graph));
    }
    frees_of_what_is_no_allocation(rig) {
        let graph = rig.new_graph();
        let (node, address) = allocation(rig, graph);
        let pooled: CUdeviceptr = make!(rig, cuMemAllocAsync(64, rig.stream));
        rig.sync(rig.stream);
        for (what, address) in
            [("inside", address + 16), ("pool", pooled), ("device", rig.buffer), ("null", 0)]
        {
            saw(what, free(rig, graph, &[node], address));
        }
        ok!(rig, cuMemFreeAsync(pooled, rig.stream));
        rig.sync(rig.stream);
        ok!(rig, cuGraphDestroy(graph));
    }
    nodes_of_a_graph_that_allocates_under_capture(rig) {
        let graph = rig.new_graph();
        let (node, _) = allocation(rig, graph);
        let other: CUgraphNode = make!(rig, cuGraphAddEmptyNode(graph, std::ptr::null(), 0));
        let mode = CUstreamCaptureMode(2);
        let (none, no_data) = (std::ptr::null(), std::ptr::null());
        ok!(rig, cuStreamBeginCaptureToGraph(rig.stream, graph, none, no_data, 0, mode));
        for node in [node, other] {
            cu!(rig, cuGraphDestroyNode(node));
        }
        cu!(rig, cuGraphDestroy(graph));
        assert_eq!(rig.end_good(rig.stream), graph);
        cu!(rig, cuGraphDestroyNode(other));
        ok!(rig, cuGraphDestroy(graph));
    }
}

fn allocation(rig: &Rig, graph: CUgraph) -> (CUgraphNode, CUdeviceptr) {
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: 64, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    let (mut node, none) = (null_mut(), std::ptr::null());
    ok!(rig, cuGraphAddMemAllocNode(&mut node, graph, none, 0, &mut params));
    (node, params.dptr)
}

fn free(rig: &Rig, graph: CUgraph, after: &[CUgraphNode], address: CUdeviceptr) -> u32 {
    let (mut node, list, count) = (null_mut(), after.as_ptr(), after.len());
    quietly(|| cu!(rig, cuGraphAddMemFreeNode(&mut node, graph, list, count, address)))
}
