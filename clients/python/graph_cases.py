"""Captures and graphs through the package `cuda-bindings`."""

import ctypes
import os
import tempfile

import numpy
from cuda.bindings import driver as cu

from bindings_cases import download, function, launch_add, ok, setup, upload
from harness import CASES, case, main

CASES.clear()

ACTIVE = cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
GLOBAL = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
RELAXED = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


def word_of(value):
    return upload(numpy.array([value], dtype=numpy.uint32))


def read(word):
    return int(download(word, 1, numpy.uint32)[0])


def launch_mul_add(kernel, stream, word, factor, value):
    kinds = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
    ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, ((int(word), factor, value), kinds), 0))


def kernel_params(kernel, word, value):
    """The parameters of a node that adds to a word, and what must stay until it is added."""
    word, value = ctypes.c_void_p(int(word)), ctypes.c_uint32(value)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(word), ctypes.addressof(value))
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.func = kernel
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX = params.blockDimY = params.blockDimZ = 1
    params.kernelParams = ctypes.addressof(pointers)
    return params, (word, value, pointers)


def kernel_node(graph, dependencies, kernel, word, value):
    params, _kept = kernel_params(kernel, word, value)
    return ok(cu.cuGraphAddKernelNode(graph, dependencies, len(dependencies), params))


@case
def a_capture_is_replayed():
    _, stream = setup()
    kernel, word = function("add"), word_of(0)
    ok(cu.cuStreamBeginCapture(stream, GLOBAL))
    assert ok(cu.cuStreamIsCapturing(stream)) == ACTIVE
    for _ in range(3):
        launch_add(kernel, stream, word, 2)
    graph = ok(cu.cuStreamEndCapture(stream))
    assert read(word) == 0
    assert ok(cu.cuGraphGetNodes(graph))[1] == 3
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(5):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert read(word) == 30
    ok(cu.cuGraphExecDestroy(executable))
    ok(cu.cuGraphDestroy(graph))


@case
def a_capture_forks_and_joins():
    _, stream = setup()
    other = ok(cu.cuStreamCreate(1))
    kernel, word, side = function("mul_add"), word_of(1), word_of(1)
    fork, join = ok(cu.cuEventCreate(2)), ok(cu.cuEventCreate(2))
    ok(cu.cuStreamBeginCapture(stream, GLOBAL))
    launch_mul_add(kernel, stream, word, 3, 0)
    ok(cu.cuEventRecord(fork, stream))
    ok(cu.cuStreamWaitEvent(other, fork, 0))
    launch_mul_add(kernel, other, side, 5, 1)
    launch_mul_add(kernel, stream, word, 2, 1)
    ok(cu.cuEventRecord(join, other))
    ok(cu.cuStreamWaitEvent(stream, join, 0))
    launch_mul_add(kernel, stream, side, 10, 0)
    graph = ok(cu.cuStreamEndCapture(stream))
    assert ok(cu.cuGraphGetEdges(graph))[3] == 4
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert (read(word), read(side)) == (7, 60)


@case
def a_capture_is_asked_and_changed():
    _, stream = setup()
    kernel, word = function("add"), word_of(0)
    ok(cu.cuStreamBeginCapture(stream, RELAXED))
    launch_add(kernel, stream, word, 1)
    status, number, graph, nodes, _edges, count = ok(cu.cuStreamGetCaptureInfo(stream))
    assert status == ACTIVE and int(number) > 0 and count == 1
    node = kernel_node(graph, [nodes[0]], kernel, word, 10)
    flag = cu.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
    ok(cu.cuStreamUpdateCaptureDependencies(stream, [node], [cu.CUgraphEdgeData()], 1, flag))
    launch_add(kernel, stream, word, 100)
    graph = ok(cu.cuStreamEndCapture(stream))
    ok(cu.cuGraphLaunch(ok(cu.cuGraphInstantiate(graph, 0)), stream))
    ok(cu.cuStreamSynchronize(stream))
    assert read(word) == 111


@case
def a_capture_goes_into_a_graph():
    _, stream = setup()
    kernel, word = function("mul_add"), word_of(0)
    graph = ok(cu.cuGraphCreate(0))
    first = kernel_node(graph, [], function("add"), word, 4)
    ok(cu.cuStreamBeginCaptureToGraph(stream, graph, [first], [cu.CUgraphEdgeData()], 1, RELAXED))
    launch_mul_add(kernel, stream, word, 10, 2)
    ok(cu.cuStreamEndCapture(stream))
    ok(cu.cuGraphLaunch(ok(cu.cuGraphInstantiate(graph, 0)), stream))
    ok(cu.cuStreamSynchronize(stream))
    assert read(word) == 42


@case
def an_unsafe_call_breaks_a_capture():
    _, stream = setup()
    ok(cu.cuStreamBeginCapture(stream, GLOBAL))
    unsupported = cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    assert cu.cuMemAlloc(16)[0] == unsupported
    invalidated = cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    assert cu.cuStreamEndCapture(stream)[0] == invalidated
    previous = ok(cu.cuThreadExchangeStreamCaptureMode(RELAXED))
    assert previous == GLOBAL
    ok(cu.cuStreamBeginCapture(stream, GLOBAL))
    ok(cu.cuMemAlloc(16))
    ok(cu.cuStreamEndCapture(stream))


@case
def nodes_of_many_kinds_run():
    device, stream = setup()
    context = ok(cu.cuCtxGetCurrent())
    word, copy = word_of(0), word_of(0)
    graph = ok(cu.cuGraphCreate(0))
    fill = cu.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.elementSize, fill.value, fill.width, fill.height = word, 4, 5, 1, 1
    first = ok(cu.cuGraphAddMemsetNode(graph, [], 0, fill, context))
    second = kernel_node(graph, [first], function("add"), word, 37)
    params = cu.CUDA_MEMCPY3D()
    params.srcMemoryType = params.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    params.srcDevice, params.dstDevice = word, copy
    params.WidthInBytes, params.Height, params.Depth = 4, 1, 1
    third = ok(cu.cuGraphAddMemcpyNode(graph, [second], 1, params, context))
    event = ok(cu.cuEventCreate(0))
    fourth = ok(cu.cuGraphAddEventRecordNode(graph, [third], 1, event))
    ok(cu.cuGraphAddEmptyNode(graph, [third, fourth], 2))
    kinds = [ok(cu.cuGraphNodeGetType(node)).name for node in ok(cu.cuGraphGetNodes(graph, 5))[0]]
    assert [kind.removeprefix("CU_GRAPH_NODE_TYPE_") for kind in kinds] == [
        "MEMSET", "KERNEL", "MEMCPY", "EVENT_RECORD", "EMPTY"]
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    ok(cu.cuGraphUpload(executable, stream))
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuEventSynchronize(event))
    ok(cu.cuStreamSynchronize(stream))
    assert read(copy) == 42


@case
def a_host_node_runs():
    _, stream = setup()
    seen = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append)
    address = ctypes.c_void_p(ctypes.cast(callback, ctypes.c_void_p).value)
    params = cu.CUDA_HOST_NODE_PARAMS()
    params.fn, params.userData = cu.CUhostFn(_ptr=ctypes.addressof(address)), 11
    graph = ok(cu.cuGraphCreate(0))
    ok(cu.cuGraphAddHostNode(graph, [], 0, params))
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert seen == [11, 11]


@case
def a_child_graph_runs_and_a_clone_is_apart():
    _, stream = setup()
    kernel, word = function("add"), word_of(0)
    child = ok(cu.cuGraphCreate(0))
    node = kernel_node(child, [], kernel, word, 1)
    clone = ok(cu.cuGraphClone(child))
    assert int(ok(cu.cuGraphNodeFindInClone(node, clone))) != int(node)
    graph = ok(cu.cuGraphCreate(0))
    first = ok(cu.cuGraphAddChildGraphNode(graph, [], 0, child))
    ok(cu.cuGraphAddChildGraphNode(graph, [first], 1, clone))
    inner = ok(cu.cuGraphChildGraphNodeGetGraph(first))
    assert ok(cu.cuGraphGetNodes(inner))[1] == 1
    ok(cu.cuGraphLaunch(ok(cu.cuGraphInstantiate(graph, 0)), stream))
    ok(cu.cuStreamSynchronize(stream))
    assert read(word) == 2


@case
def an_executable_is_updated():
    _, stream = setup()
    kernel, word = function("add"), word_of(0)
    graph = ok(cu.cuGraphCreate(0))
    node = kernel_node(graph, [], kernel, word, 1)
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    params, _kept = kernel_params(kernel, word, 10)
    ok(cu.cuGraphExecKernelNodeSetParams(executable, node, params))
    ok(cu.cuGraphLaunch(executable, stream))
    other = ok(cu.cuGraphCreate(0))
    kernel_node(other, [], kernel, word, 100)
    assert ok(cu.cuGraphExecUpdate(executable, other)).result.value == 0
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuGraphNodeSetEnabled(executable, node, 0))
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert read(word) == 110
    assert ok(cu.cuGraphNodeGetEnabled(executable, node)) == 0


@case
def an_update_that_does_not_fit_fails():
    setup()
    graph, other = ok(cu.cuGraphCreate(0)), ok(cu.cuGraphCreate(0))
    kernel_node(graph, [], function("add"), word_of(0), 1)
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    code = cu.cuGraphExecUpdate(executable, other)[0]
    assert code == cu.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE


@case
def edges_are_added_and_removed():
    setup()
    graph = ok(cu.cuGraphCreate(0))
    nodes = [ok(cu.cuGraphAddEmptyNode(graph, [], 0)) for _ in range(3)]
    ok(cu.cuGraphAddDependencies(graph, nodes[:2], nodes[1:], [cu.CUgraphEdgeData()] * 2, 2))
    assert ok(cu.cuGraphNodeGetDependencies(nodes[2]))[2] == 1
    assert ok(cu.cuGraphNodeGetDependentNodes(nodes[0]))[2] == 1
    ok(cu.cuGraphRemoveDependencies(graph, nodes[:1], nodes[1:2], [cu.CUgraphEdgeData()], 1))
    assert ok(cu.cuGraphGetRootNodes(graph))[1] == 2
    ok(cu.cuGraphDestroyNode(nodes[1]))
    assert ok(cu.cuGraphGetNodes(graph))[1] == 2


@case
def a_graph_allocates_its_memory():
    device, stream = setup()
    graph = ok(cu.cuGraphCreate(0))
    params = cu.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    params.poolProps.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    params.poolProps.location.id = int(device)
    params.bytesize = 4096
    node = ok(cu.cuGraphAddMemAllocNode(graph, [], 0, params))
    address = int(params.dptr)
    assert address != 0
    ok(cu.cuGraphAddMemFreeNode(graph, [node], 1, address))
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    ok(cu.cuDeviceGraphMemTrim(device))


@case
def a_captured_allocation_belongs_to_the_graph():
    _, stream = setup()
    word = word_of(0)
    ok(cu.cuStreamBeginCapture(stream, GLOBAL))
    address = ok(cu.cuMemAllocAsync(64, stream))
    ok(cu.cuMemsetD32Async(address, 6, 16, stream))
    ok(cu.cuMemcpyDtoDAsync(word, address, 4, stream))
    ok(cu.cuMemFreeAsync(address, stream))
    graph = ok(cu.cuStreamEndCapture(stream))
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert read(word) == 6


@case
def a_graph_keeps_a_user_object():
    setup()
    gone = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gone.append)
    address = ctypes.c_void_p(ctypes.cast(destroy, ctypes.c_void_p).value)
    flag = cu.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
    thing = ok(cu.cuUserObjectCreate(3, cu.CUhostFn(_ptr=ctypes.addressof(address)), 1, flag))
    graph = ok(cu.cuGraphCreate(0))
    move = cu.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
    ok(cu.cuGraphRetainUserObject(graph, thing, 1, move))
    assert gone == []
    ok(cu.cuGraphDestroy(graph))
    assert gone == [3]


@case
def a_graph_is_drawn():
    setup()
    graph = ok(cu.cuGraphCreate(0))
    kernel_node(graph, [], function("add"), word_of(0), 1)
    path = os.path.join(tempfile.mkdtemp(), "graph.dot")
    ok(cu.cuGraphDebugDotPrint(graph, path.encode(), 0))
    with open(path, encoding="utf-8") as text:
        assert text.read().startswith("digraph")


@case
def a_kernel_node_has_attributes():
    setup()
    graph = ok(cu.cuGraphCreate(0))
    node = kernel_node(graph, [], function("add"), word_of(0), 1)
    priority = cu.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    value = cu.CUkernelNodeAttrValue()
    value.priority = -2
    ok(cu.cuGraphKernelNodeSetAttribute(node, priority, value))
    assert ok(cu.cuGraphKernelNodeGetAttribute(node, priority)).priority == -2
    params = ok(cu.cuGraphKernelNodeGetParams(node))
    assert (params.gridDimX, params.blockDimX) == (1, 1)


if __name__ == "__main__":
    main()
