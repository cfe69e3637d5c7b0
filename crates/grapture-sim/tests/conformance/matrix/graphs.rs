//! Graphs, executables and user objects that have nothing to do with the capture.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use super::Field;
use crate::host::Counter;

/// A graph of one fill, and an executable of it.
fn pair(m: &Field<'_>) -> (CUgraph, CUgraphExec) {
    let graph = m.new_graph_of_one_fill();
    (graph, m.instantiate(graph))
}

fn fill(m: &Field<'_>) -> CUDA_MEMSET_NODE_PARAMS_v1 {
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: m.buffer,
        value: 7,
        elementSize: 4,
        width: 1,
        height: 1,
        ..Default::default()
    }
}

super::matrix! {
    graph_create(m) {
        let mut graph = null_mut();
        if m.call(|| cu!(m, cuGraphCreate(&mut graph, 0))) {
            ok!(m, cuGraphDestroy(graph));
        }
    }
    graph_destroy(m) {
        let graph = m.new_graph_of_one_fill();
        if !m.call(|| cu!(m, cuGraphDestroy(graph))) {
            ok!(m, cuGraphDestroy(graph));
        }
    }
    graph_clone(m) {
        let (graph, mut clone) = (m.new_graph_of_one_fill(), null_mut());
        if m.call(|| cu!(m, cuGraphClone(&mut clone, graph))) {
            ok!(m, cuGraphDestroy(clone));
        }
        ok!(m, cuGraphDestroy(graph));
    }
    graph_instantiate_with_flags(m) {
        let (graph, mut exec) = (m.new_graph_of_one_fill(), null_mut());
        if m.call(|| cu!(m, cuGraphInstantiateWithFlags(&mut exec, graph, 0))) {
            ok!(m, cuGraphExecDestroy(exec));
        }
        ok!(m, cuGraphDestroy(graph));
    }
    graph_instantiate_with_params(m) {
        let (graph, mut exec) = (m.new_graph_of_one_fill(), null_mut());
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
        if m.call(|| cu!(m, cuGraphInstantiateWithParams(&mut exec, graph, &mut params))) {
            ok!(m, cuGraphExecDestroy(exec));
        }
        ok!(m, cuGraphDestroy(graph));
    }
    graph_instantiate_of_an_empty_graph(m) {
        let (graph, mut exec) = (m.new_graph(), null_mut());
        if m.call(|| cu!(m, cuGraphInstantiateWithFlags(&mut exec, graph, 0))) {
            ok!(m, cuGraphExecDestroy(exec));
        }
        ok!(m, cuGraphDestroy(graph));
    }
    graph_exec_destroy(m) {
        let (graph, exec) = pair(m);
        if !m.call(|| cu!(m, cuGraphExecDestroy(exec))) {
            ok!(m, cuGraphExecDestroy(exec));
        }
        ok!(m, cuGraphDestroy(graph));
    }
    graph_exec_update(m) {
        let (graph, exec) = pair(m);
        let mut info = CUgraphExecUpdateResultInfo::default();
        m.call(|| cu!(m, cuGraphExecUpdate_v2(exec, graph, &mut info)));
        m.release(graph, exec);
    }
    graph_exec_memset_node_set_params(m) {
        let (graph, exec) = pair(m);
        let (node, params) = (m.nodes(graph)[0], fill(m));
        m.call(|| cu!(m, cuGraphExecMemsetNodeSetParams(exec, node, &params, m.context)));
        m.release(graph, exec);
    }
    graph_memset_node_set_params(m) {
        let graph = m.new_graph_of_one_fill();
        let (node, params) = (m.nodes(graph)[0], fill(m));
        m.call(|| cu!(m, cuGraphMemsetNodeSetParams(node, &params)));
        ok!(m, cuGraphDestroy(graph));
    }
    graph_node_set_enabled(m) {
        let (graph, exec) = pair(m);
        let node = m.nodes(graph)[0];
        m.call(|| cu!(m, cuGraphNodeSetEnabled(exec, node, 0)));
        m.release(graph, exec);
    }
    graph_launch_on_another_stream(m) {
        let (graph, exec) = pair(m);
        m.call(|| cu!(m, cuGraphLaunch(exec, m.other)));
        m.sync(m.other);
        m.release(graph, exec);
    }
    graph_launch_on_the_capturing_stream(m) {
        let (graph, exec) = pair(m);
        m.call(|| cu!(m, cuGraphLaunch(exec, m.stream)));
        m.release(graph, exec);
    }
    graph_upload_on_another_stream(m) {
        let (graph, exec) = pair(m);
        m.call(|| cu!(m, cuGraphUpload(exec, m.other)));
        m.sync(m.other);
        m.release(graph, exec);
    }
    graph_add_empty_node(m) {
        let graph = m.new_graph();
        m.call(|| cu!(m, cuGraphAddEmptyNode(&mut null_mut(), graph, null(), 0)));
        ok!(m, cuGraphDestroy(graph));
    }
    graph_add_memset_node(m) {
        let (graph, params) = (m.new_graph(), fill(m));
        let mut node = null_mut();
        m.call(|| cu!(m, cuGraphAddMemsetNode(&mut node, graph, null(), 0, &params, m.context)));
        ok!(m, cuGraphDestroy(graph));
    }
    graph_add_mem_alloc_node(m) {
        let graph = m.new_graph();
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS_v1 { bytesize: 64, ..Default::default() };
        params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        let mut node = null_mut();
        m.call(|| cu!(m, cuGraphAddMemAllocNode(&mut node, graph, null(), 0, &mut params)));
        ok!(m, cuGraphDestroy(graph));
    }
    graph_destroy_node(m) {
        let graph = m.new_graph_of_one_fill();
        let node = m.nodes(graph)[0];
        m.call(|| cu!(m, cuGraphDestroyNode(node)));
        ok!(m, cuGraphDestroy(graph));
    }
    graph_get_nodes(m) {
        let graph = m.new_graph_of_one_fill();
        m.call(|| cu!(m, cuGraphGetNodes(graph, null_mut(), &mut 0)));
        ok!(m, cuGraphDestroy(graph));
    }
    user_object_create_and_release(m) {
        let (counter, mut object) = (Counter::default(), null_mut());
        let sync = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
        m.call(|| {
            let (at, free) = (counter.argument(), Some(Counter::count as _));
            let create = cu!(m, cuUserObjectCreate(&mut object, at, free, 1, sync));
            create + cu!(m, cuUserObjectRelease(object, 1))
        });
    }
}
