//! Null where a place or a handle is wanted: the driver's answer, or that it looks no further. Each
//! case has a process of its own on a GPU, where a null may be followed.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{GLOBAL, PTX, Rig};
use crate::transcript::saw;

/// A graph of one fill, its node and an executable.
fn graph(rig: &Rig) -> (CUgraph, CUgraphNode, CUgraphExec) {
    let graph = rig.new_graph_of_one_fill();
    (graph, rig.nodes(graph)[0], rig.instantiate(graph))
}

rules! { ruins;
    what_a_stream_tells_needs_a_place(rig) {
        cu!(rig, cuStreamGetPriority(rig.stream, null_mut()));
        cu!(rig, cuStreamGetFlags(rig.stream, null_mut()));
        cu!(rig, cuStreamGetId(rig.stream, null_mut()));
        cu!(rig, cuStreamGetCtx(rig.stream, null_mut()));
        cu!(rig, cuStreamGetDevice(rig.stream, null_mut()));
    }
    what_a_capture_tells_needs_a_status(rig) {
        cu!(rig, cuStreamIsCapturing(rig.stream, null_mut()));
        cu!(rig, cuStreamGetCaptureInfo(rig.stream, null_mut(), &mut 0));
        let none = null_mut();
        cu!(rig, cuStreamGetCaptureInfo_v2(rig.stream, null_mut(), &mut 0, none, null_mut(), null_mut()));
        rig.begin(rig.stream, GLOBAL);
        cu!(rig, cuStreamIsCapturing(rig.stream, null_mut()));
        cu!(rig, cuStreamGetCaptureInfo(rig.stream, null_mut(), &mut 0));
        rig.status(rig.stream);
    }
    a_graph_needs_a_place(rig) {
        cu!(rig, cuGraphCreate(null_mut(), 0));
        cu!(rig, cuGraphCreate(null_mut(), 1));
        cu!(rig, cuGraphCreate(&mut null_mut(), 1));
    }
    no_graph_to_destroy_or_clone(rig) {
        cu!(rig, cuGraphDestroy(null_mut()));
        cu!(rig, cuGraphClone(&mut null_mut(), null_mut()));
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphClone(null_mut(), graph));
    }
    no_graph_to_ask(rig) {
        cu!(rig, cuGraphGetNodes(null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphGetRootNodes(null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphGetEdges(null_mut(), null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphGetEdges_v2(null_mut(), null_mut(), null_mut(), null_mut(), &mut 0));
    }
    the_nodes_of_a_graph_need_a_count(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphGetNodes(graph, null_mut(), null_mut()));
    }
    the_roots_of_a_graph_need_a_count(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphGetRootNodes(graph, null_mut(), null_mut()));
    }
    the_edges_of_a_graph_need_a_count(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphGetEdges_v2(graph, null_mut(), null_mut(), null_mut(), null_mut()));
    }
    no_node_to_ask(rig) {
        let mut kind = CUgraphNodeType(0);
        cu!(rig, cuGraphNodeGetType(null_mut(), &mut kind));
        cu!(rig, cuGraphNodeGetDependencies(null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphNodeGetDependencies_v2(null_mut(), null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphNodeGetDependentNodes(null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphNodeGetDependentNodes_v2(null_mut(), null_mut(), null_mut(), &mut 0));
        cu!(rig, cuGraphDestroyNode(null_mut()));
    }
    the_kind_of_a_node_needs_a_place(rig) {
        let (_, node, _) = graph(rig);
        cu!(rig, cuGraphNodeGetType(node, null_mut()));
    }
    the_dependencies_of_a_node_need_a_count(rig) {
        let (_, node, _) = graph(rig);
        cu!(rig, cuGraphNodeGetDependencies(node, null_mut(), null_mut()));
    }
    no_graph_to_add_to(rig) {
        let (mut node, none) = (null_mut(), null_mut());
        let mut copy = CUDA_MEMCPY3D::default();
        let fill = CUDA_MEMSET_NODE_PARAMS_v1::default();
        cu!(rig, cuGraphAddEmptyNode(&mut node, none, null(), 0));
        cu!(rig, cuGraphAddMemcpyNode(&mut node, none, null(), 0, &mut copy, rig.context));
        cu!(rig, cuGraphAddMemsetNode(&mut node, none, null(), 0, &fill, rig.context));
        cu!(rig, cuGraphAddHostNode(&mut node, none, null(), 0, &CUDA_HOST_NODE_PARAMS_v1::default()));
        cu!(rig, cuGraphAddEventRecordNode(&mut node, none, null(), 0, rig.event));
        cu!(rig, cuGraphAddEventWaitNode(&mut node, none, null(), 0, rig.event));
        cu!(rig, cuGraphAddMemFreeNode(&mut node, none, null(), 0, rig.buffer));
    }
    an_empty_node_needs_a_place(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddEmptyNode(null_mut(), graph, null(), 0));
        saw("nodes", rig.nodes(graph).len());
    }
    an_empty_node_with_dependencies_that_are_not_there(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, null(), 1));
        let none: CUgraphNode = null_mut();
        cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, &none, 1));
        saw("nodes", rig.nodes(graph).len());
    }
    a_fill_node_needs_its_parameters(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddMemsetNode(&mut null_mut(), graph, null(), 0, null(), rig.context));
    }
    a_copy_node_needs_its_parameters(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddMemcpyNode(&mut null_mut(), graph, null(), 0, null_mut(), rig.context));
    }
    a_host_node_needs_its_parameters(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddHostNode(&mut null_mut(), graph, null(), 0, null()));
    }
    a_host_node_needs_its_function(rig) {
        let graph = rig.new_graph();
        let params = CUDA_HOST_NODE_PARAMS_v1::default();
        cu!(rig, cuGraphAddHostNode(&mut null_mut(), graph, null(), 0, &params));
    }
    a_kernel_node_needs_its_parameters(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddKernelNode_v2(&mut null_mut(), graph, null(), 0, null()));
    }
    a_kernel_node_needs_its_kernel(rig) {
        let graph = rig.new_graph();
        let params = CUDA_KERNEL_NODE_PARAMS_v2 {
            gridDimX: 1, gridDimY: 1, gridDimZ: 1, blockDimX: 1, blockDimY: 1, blockDimZ: 1,
            ..Default::default()
        };
        cu!(rig, cuGraphAddKernelNode_v2(&mut null_mut(), graph, null(), 0, &params));
    }
    an_event_node_needs_its_event(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddEventRecordNode(&mut null_mut(), graph, null(), 0, null_mut()));
        cu!(rig, cuGraphAddEventWaitNode(&mut null_mut(), graph, null(), 0, null_mut()));
    }
    a_child_node_needs_its_graph(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddChildGraphNode(&mut null_mut(), graph, null(), 0, null_mut()));
    }
    an_allocation_node_needs_its_parameters(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuGraphAddMemAllocNode(&mut null_mut(), graph, null(), 0, null_mut()));
    }
    the_parameters_of_no_node(rig) {
        let none = null_mut();
        cu!(rig, cuGraphMemsetNodeGetParams(none, &mut CUDA_MEMSET_NODE_PARAMS_v1::default()));
        cu!(rig, cuGraphMemcpyNodeGetParams(none, &mut CUDA_MEMCPY3D::default()));
        cu!(rig, cuGraphHostNodeGetParams(none, &mut CUDA_HOST_NODE_PARAMS_v1::default()));
        cu!(rig, cuGraphKernelNodeGetParams_v2(none, &mut CUDA_KERNEL_NODE_PARAMS_v2::default()));
        cu!(rig, cuGraphEventRecordNodeGetEvent(none, &mut null_mut()));
        cu!(rig, cuGraphEventWaitNodeGetEvent(none, &mut null_mut()));
        cu!(rig, cuGraphChildGraphNodeGetGraph(none, &mut null_mut()));
        cu!(rig, cuGraphMemFreeNodeGetParams(none, &mut 0));
    }
    the_parameters_of_a_node_need_a_place(rig) {
        let (_, node, _) = graph(rig);
        cu!(rig, cuGraphMemsetNodeGetParams(node, null_mut()));
        cu!(rig, cuGraphMemsetNodeSetParams(node, null()));
    }
    the_parameters_of_a_node_of_another_kind(rig) {
        let (_, node, exec) = graph(rig);
        cu!(rig, cuGraphMemcpyNodeGetParams(node, &mut CUDA_MEMCPY3D::default()));
        cu!(rig, cuGraphHostNodeGetParams(node, &mut CUDA_HOST_NODE_PARAMS_v1::default()));
        cu!(rig, cuGraphKernelNodeGetParams_v2(node, &mut CUDA_KERNEL_NODE_PARAMS_v2::default()));
        cu!(rig, cuGraphEventRecordNodeGetEvent(node, &mut null_mut()));
        cu!(rig, cuGraphChildGraphNodeGetGraph(node, &mut null_mut()));
        cu!(rig, cuGraphExecEventRecordNodeSetEvent(exec, node, rig.event));
    }
    no_executable(rig) {
        let (graph, node, _) = graph(rig);
        let mut info = CUgraphExecUpdateResultInfo::default();
        let fill = CUDA_MEMSET_NODE_PARAMS_v1::default();
        cu!(rig, cuGraphLaunch(null_mut(), rig.stream));
        cu!(rig, cuGraphUpload(null_mut(), rig.stream));
        cu!(rig, cuGraphExecDestroy(null_mut()));
        cu!(rig, cuGraphExecUpdate_v2(null_mut(), graph, &mut info));
        cu!(rig, cuGraphExecGetFlags(null_mut(), &mut 0));
        cu!(rig, cuGraphExecMemsetNodeSetParams(null_mut(), node, &fill, rig.context));
        cu!(rig, cuGraphNodeSetEnabled(null_mut(), node, 1));
        cu!(rig, cuGraphNodeGetEnabled(null_mut(), node, &mut 0));
    }
    an_executable_needs_a_place(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphInstantiateWithFlags(null_mut(), graph, 0));
        cu!(rig, cuGraphInstantiateWithFlags(null_mut(), null_mut(), 0));
    }
    an_executable_has_known_flags(rig) {
        let (graph, _, _) = graph(rig);
        for flags in [1, 2, 4, 8, 16, 32, 1 << 20] {
            saw("flags", flags);
            cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), graph, flags));
        }
    }
    an_executable_needs_its_parameters(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphInstantiateWithParams(&mut null_mut(), graph, null_mut()));
    }
    an_update_needs_a_place_for_its_result(rig) {
        let (graph, _, exec) = graph(rig);
        cu!(rig, cuGraphExecUpdate_v2(exec, graph, null_mut()));
    }
    an_update_needs_a_graph(rig) {
        let (_, _, exec) = graph(rig);
        let mut info = CUgraphExecUpdateResultInfo::default();
        cu!(rig, cuGraphExecUpdate_v2(exec, null_mut(), &mut info));
    }
    the_flags_of_an_executable_need_a_place(rig) {
        let (_, _, exec) = graph(rig);
        cu!(rig, cuGraphExecGetFlags(exec, null_mut()));
    }
    whether_a_node_is_enabled_needs_a_place(rig) {
        let (_, node, exec) = graph(rig);
        cu!(rig, cuGraphNodeGetEnabled(exec, node, null_mut()));
        cu!(rig, cuGraphNodeGetEnabled(exec, null_mut(), &mut 0));
        cu!(rig, cuGraphNodeSetEnabled(exec, null_mut(), 0));
    }
    dependencies_that_are_not_there(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphAddDependencies(graph, null(), null(), 0));
        cu!(rig, cuGraphAddDependencies(null_mut(), null(), null(), 0));
        cu!(rig, cuGraphRemoveDependencies(graph, null(), null(), 0));
        cu!(rig, cuGraphAddDependencies(graph, null(), null(), 1));
        cu!(rig, cuGraphRemoveDependencies(graph, null(), null(), 1));
    }
    a_clone_is_searched_for_nothing(rig) {
        let (graph, node, _) = graph(rig);
        let clone: CUgraph = make!(rig, cuGraphClone(graph));
        cu!(rig, cuGraphNodeFindInClone(&mut null_mut(), null_mut(), clone));
        cu!(rig, cuGraphNodeFindInClone(&mut null_mut(), node, null_mut()));
        cu!(rig, cuGraphNodeFindInClone(&mut null_mut(), node, graph));
        cu!(rig, cuGraphNodeFindInClone(null_mut(), node, clone));
    }
    a_picture_needs_a_path(rig) {
        let (graph, _, _) = graph(rig);
        cu!(rig, cuGraphDebugDotPrint(null_mut(), c"/dev/null".as_ptr(), 0));
        cu!(rig, cuGraphDebugDotPrint(graph, c"/nowhere/at/all".as_ptr(), 0));
        cu!(rig, cuGraphDebugDotPrint(graph, null(), 0));
    }
    no_user_object(rig) {
        let graph = rig.new_graph();
        cu!(rig, cuUserObjectRetain(null_mut(), 1));
        cu!(rig, cuUserObjectRelease(null_mut(), 1));
        cu!(rig, cuGraphRetainUserObject(graph, null_mut(), 1, 0));
        cu!(rig, cuGraphReleaseUserObject(graph, null_mut(), 1));
        cu!(rig, cuUserObjectCreate(&mut null_mut(), null_mut(), None, 1, 1));
    }
    a_launch_with_a_configuration_needs_it(rig) {
        let function = rig.function(rig.module(PTX), "noarg");
        cu!(rig, cuLaunchKernelEx(null(), function, null_mut(), null_mut()));
    }
    a_launch_with_attributes_that_are_not_there(rig) {
        let function = rig.function(rig.module(PTX), "noarg");
        let config = CUlaunchConfig {
            gridDimX: 1, gridDimY: 1, gridDimZ: 1, blockDimX: 1, blockDimY: 1, blockDimZ: 1,
            sharedMemBytes: 0, hStream: rig.stream, attrs: null_mut(), numAttrs: 0,
        };
        cu!(rig, cuLaunchKernelEx(&config, function, null_mut(), null_mut()));
        let config = CUlaunchConfig { numAttrs: 1, ..config };
        cu!(rig, cuLaunchKernelEx(&config, function, null_mut(), null_mut()));
    }
    a_copy_of_rows_needs_its_description(rig) {
        cu!(rig, cuMemcpy2DAsync_v2(null(), rig.stream));
        cu!(rig, cuMemcpy3DAsync_v2(null(), rig.stream));
    }
    the_state_of_the_primary_context_needs_a_place(rig) {
        cu!(rig, cuDevicePrimaryCtxGetState(0, null_mut(), null_mut()));
    }
    no_kernel_node_to_ask(rig) {
        let (what, none) = (CU_LAUNCH_ATTRIBUTE_PRIORITY, null_mut());
        let mut value = CUlaunchAttributeValue::default();
        cu!(rig, cuGraphKernelNodeGetAttribute(none, what, &mut value));
        cu!(rig, cuGraphKernelNodeSetAttribute(none, what, &value));
        cu!(rig, cuGraphKernelNodeCopyAttributes(none, none));
    }
    the_name_of_a_device_needs_a_place(rig) {
        cu!(rig, cuDeviceGetName(null_mut(), 8, 0));
    }
    the_shared_memory_of_no_blocks(rig) {
        let function = rig.function(rig.module(PTX), "noarg");
        cu!(rig, cuOccupancyAvailableDynamicSMemPerBlock(&mut 0, function, 0, 128));
        cu!(rig, cuOccupancyAvailableDynamicSMemPerBlock(&mut 0, function, 1, 0));
    }
}
