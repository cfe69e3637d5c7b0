//! What the driver answers about graphs in corners that NVIDIA's documentation leaves open.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{GLOBAL, PTX, Rig, THREAD_LOCAL};

tiers! {
    both {
        edges_stay_in_graphs_that_allocate,
        what_an_executable_fill_may_become,
        what_an_executable_copy_may_become,
        fills_of_nothing_and_of_no_context,
        copies_of_nothing_and_of_no_context,
        a_kernel_by_its_library_handle_needs_no_context,
        a_kernel_by_its_function_tells_its_context,
        copies_of_any_memory_tell_their_kinds,
        an_allocation_has_one_free_node,
        a_graph_that_is_instantiated_gets_no_free_node,
        arrays_without_room_are_refused,
    }
}

/// A graph with an allocation node, and its address.
fn allocating(rig: &Rig) -> (CUgraph, CUgraphNode, CUdeviceptr) {
    let graph = rig.new_graph();
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: 1000, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    let mut node = null_mut();
    ok!(rig, cuGraphAddMemAllocNode(&mut node, graph, null(), 0, &mut params));
    (graph, node, params.dptr)
}

fn empty(rig: &Rig, graph: CUgraph, after: &[CUgraphNode]) -> CUgraphNode {
    let mut node = null_mut();
    ok!(rig, cuGraphAddEmptyNode(&mut node, graph, after.as_ptr(), after.len()));
    node
}

fn edges_stay_in_graphs_that_allocate(rig: &Rig) {
    let (graph, allocation, _) = allocating(rig);
    let first = empty(rig, graph, &[allocation]);
    let second = empty(rig, graph, &[first]);
    let remove = |from, to| cu!(rig, cuGraphRemoveDependencies(graph, &from, &to, 1));
    // Of the allocation; beside it; one that is not there; and more edges, which are welcome.
    let codes = [
        remove(allocation, first),
        remove(first, second),
        remove(second, first),
        cu!(rig, cuGraphAddDependencies(graph, &allocation, &second, 1)),
        cu!(rig, cuGraphDestroyNode(second)),
    ];
    assert_eq!(codes, [801, 801, 801, 0, 801]);
    ok!(rig, cuGraphDestroy(graph));
}

fn fill(rig: &Rig) -> CUDA_MEMSET_NODE_PARAMS_v1 {
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer,
        elementSize: 4,
        width: 4,
        height: 1,
        ..Default::default()
    }
}

fn add_fill(rig: &Rig, graph: CUgraph, params: &CUDA_MEMSET_NODE_PARAMS_v1) -> CUgraphNode {
    let mut node = null_mut();
    ok!(rig, cuGraphAddMemsetNode(&mut node, graph, null(), 0, params, rig.context));
    node
}

/// The code of an update, and its result.
fn update(rig: &Rig, exec: CUgraphExec, graph: CUgraph) -> (u32, u32) {
    let mut info = CUgraphExecUpdateResultInfo::default();
    let code = cu!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info));
    (code, info.result.0)
}

/// What a change comes to: the code of setting the parameters of the executable node, and those of
/// an update from a graph that has them.
type Change = (u32, (u32, u32));

const TAKEN: Change = (0, (0, 0));
const REFUSED: Change = (1, (910, 5));

fn change_fill(
    rig: &Rig,
    from: &CUDA_MEMSET_NODE_PARAMS_v1,
    to: impl FnOnce(&mut CUDA_MEMSET_NODE_PARAMS_v1),
) -> Change {
    let (graph, changed) = (rig.new_graph(), rig.new_graph());
    let node = add_fill(rig, graph, from);
    let exec = rig.instantiate(graph);
    let mut params = *from;
    to(&mut params);
    let set = cu!(rig, cuGraphExecMemsetNodeSetParams(exec, node, &params, rig.context));
    ok!(rig, cuGraphExecDestroy(exec));
    let exec = rig.instantiate(graph);
    add_fill(rig, changed, &params);
    let whole = update(rig, exec, changed);
    rig.release(graph, exec);
    ok!(rig, cuGraphDestroy(changed));
    (set, whole)
}

fn what_an_executable_fill_may_become(rig: &Rig) {
    let line = fill(rig);
    let lines = [
        change_fill(rig, &line, |p| p.value = 9),
        change_fill(rig, &line, |p| p.dst += 64),
        change_fill(rig, &line, |p| p.width = 8),
        change_fill(rig, &line, |p| (p.elementSize, p.width) = (1, 16)),
        change_fill(rig, &line, |p| (p.pitch, p.height) = (64, 2)),
    ];
    let block = CUDA_MEMSET_NODE_PARAMS_v1 { pitch: 64, height: 4, ..line };
    let blocks = [
        change_fill(rig, &block, |p| p.value = 9),
        change_fill(rig, &block, |p| p.dst += 64),
        change_fill(rig, &block, |p| p.pitch = 128),
        change_fill(rig, &block, |p| p.width = 2),
        change_fill(rig, &block, |p| p.height = 2),
        change_fill(rig, &block, |p| p.height = 1),
    ];
    assert_eq!(
        (lines, blocks),
        ([TAKEN, TAKEN, TAKEN, TAKEN, REFUSED], [TAKEN, TAKEN, REFUSED, REFUSED, REFUSED, REFUSED])
    );
}

fn copy(rig: &Rig) -> CUDA_MEMCPY3D_v2 {
    CUDA_MEMCPY3D_v2 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: rig.buffer,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        dstDevice: rig.buffer + 4096,
        WidthInBytes: 16,
        Height: 1,
        Depth: 1,
        ..Default::default()
    }
}

fn add_copy(rig: &Rig, graph: CUgraph, params: &CUDA_MEMCPY3D_v2) -> CUgraphNode {
    let mut node = null_mut();
    ok!(rig, cuGraphAddMemcpyNode(&mut node, graph, null(), 0, params, rig.context));
    node
}

fn change_copy(
    rig: &Rig,
    from: &CUDA_MEMCPY3D_v2,
    to: impl FnOnce(&mut CUDA_MEMCPY3D_v2),
) -> Change {
    let (graph, changed) = (rig.new_graph(), rig.new_graph());
    let node = add_copy(rig, graph, from);
    let exec = rig.instantiate(graph);
    let mut params = *from;
    to(&mut params);
    let set = cu!(rig, cuGraphExecMemcpyNodeSetParams(exec, node, &params, rig.context));
    ok!(rig, cuGraphExecDestroy(exec));
    let exec = rig.instantiate(graph);
    add_copy(rig, changed, &params);
    let whole = update(rig, exec, changed);
    rig.release(graph, exec);
    ok!(rig, cuGraphDestroy(changed));
    (set, whole)
}

fn what_an_executable_copy_may_become(rig: &Rig) {
    let pinned = rig.pinned(64);
    let line = copy(rig);
    let lines = [
        change_copy(rig, &line, |p| p.srcDevice += 64),
        change_copy(rig, &line, |p| p.dstDevice += 64),
        change_copy(rig, &line, |p| p.WidthInBytes = 32),
        change_copy(rig, &line, |p| {
            (p.Height, p.srcPitch, p.dstPitch) = (2, 64, 64);
        }),
        change_copy(rig, &line, |p| {
            (p.srcMemoryType, p.srcHost, p.srcDevice) = (CU_MEMORYTYPE_HOST, pinned, 0);
        }),
        change_copy(rig, &line, |p| p.srcMemoryType = CU_MEMORYTYPE_UNIFIED),
    ];
    let block = CUDA_MEMCPY3D_v2 { Height: 4, srcPitch: 64, dstPitch: 64, ..line };
    let blocks = [
        change_copy(rig, &block, |p| p.dstDevice += 64),
        change_copy(rig, &block, |p| p.srcPitch = 128),
        change_copy(rig, &block, |p| p.WidthInBytes = 8),
        change_copy(rig, &block, |p| p.Height = 2),
        change_copy(rig, &block, |p| p.Height = 1),
    ];
    ok!(rig, cuMemFreeHost(pinned));
    assert_eq!((lines, blocks), ([TAKEN, TAKEN, TAKEN, REFUSED, REFUSED, REFUSED], [REFUSED; 5]));
}

fn fills_of_nothing_and_of_no_context(rig: &Rig) {
    let graph = rig.new_graph();
    let add = |params: &CUDA_MEMSET_NODE_PARAMS_v1, context| {
        cu!(rig, cuGraphAddMemsetNode(&mut null_mut(), graph, null(), 0, params, context))
    };
    let whole = fill(rig);
    let codes = [
        add(&CUDA_MEMSET_NODE_PARAMS_v1 { width: 0, ..whole }, rig.context),
        add(&CUDA_MEMSET_NODE_PARAMS_v1 { height: 0, ..whole }, rig.context),
        add(&CUDA_MEMSET_NODE_PARAMS_v1 { pitch: 8, height: 2, ..whole }, rig.context),
        add(&CUDA_MEMSET_NODE_PARAMS_v1 { dst: 0, ..whole }, rig.context),
        add(&whole, null_mut()),
    ];
    let generic = |context| {
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEMSET, ..Default::default() };
        params.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
            dst: rig.buffer,
            elementSize: 4,
            width: 4,
            height: 1,
            ctx: context,
            ..Default::default()
        };
        cu!(rig, cuGraphAddNode_v2(&mut null_mut(), graph, null(), null(), 0, &mut params))
    };
    let by_kind = [generic(rig.context), generic(null_mut())];
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((codes, by_kind), ([1, 1, 1, 1, 0], [0, 0]));
}

fn copies_of_nothing_and_of_no_context(rig: &Rig) {
    let graph = rig.new_graph();
    let add = |params: &CUDA_MEMCPY3D_v2, context| {
        cu!(rig, cuGraphAddMemcpyNode(&mut null_mut(), graph, null(), 0, params, context))
    };
    let whole = copy(rig);
    let codes = [
        add(&CUDA_MEMCPY3D_v2 { WidthInBytes: 0, ..whole }, rig.context),
        add(&CUDA_MEMCPY3D_v2 { Height: 0, ..whole }, rig.context),
        add(&CUDA_MEMCPY3D_v2 { Depth: 0, ..whole }, rig.context),
        add(&CUDA_MEMCPY3D_v2 { dstDevice: 0, ..whole }, rig.context),
        add(&whole, null_mut()),
    ];
    let generic = |context| {
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEMCPY, ..Default::default() };
        params.__bindgen_anon_1.memcpy =
            CUDA_MEMCPY_NODE_PARAMS { copyCtx: context, copyParams: whole, ..Default::default() };
        cu!(rig, cuGraphAddNode_v2(&mut null_mut(), graph, null(), null(), 0, &mut params))
    };
    let by_kind = [generic(rig.context), generic(null_mut())];
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((codes, by_kind), ([1, 1, 1, 1, 0], [0, 0]));
}

/// A null context stands for the current one; the node tells the kernel, the context, and the
/// function that the kernel is there.
fn a_kernel_by_its_library_handle_needs_no_context(rig: &Rig) {
    let text = std::ffi::CString::new(PTX).expect("no NUL");
    let none: *mut *mut c_void = null_mut();
    let library: CUlibrary = make!(
        rig,
        cuLibraryLoadData(text.as_ptr().cast(), none.cast(), none.cast(), 0, none.cast(), none, 0)
    );
    let kern: CUkernel = make!(rig, cuLibraryGetKernel(library, c"noarg".as_ptr()));
    let graph = rig.new_graph();
    let params = CUDA_KERNEL_NODE_PARAMS_v2 {
        kern,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        ..Default::default()
    };
    let mut node = null_mut();
    let code = cu!(rig, cuGraphAddKernelNode_v2(&mut node, graph, null(), 0, &params));
    let mut told = CUDA_KERNEL_NODE_PARAMS_v2::default();
    if code == 0 {
        ok!(rig, cuGraphKernelNodeGetParams_v2(node, &mut told));
    }
    let what = (told.func.is_null(), told.kern == kern, told.ctx == rig.context);
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuLibraryUnload(library));
    assert_eq!((code, what), (0, (false, true, true)));
}

fn a_kernel_by_its_function_tells_its_context(rig: &Rig) {
    let module = rig.module(PTX);
    let graph = rig.new_graph();
    let params = CUDA_KERNEL_NODE_PARAMS_v2 {
        func: rig.function(module, "noarg"),
        ctx: rig.context,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        ..Default::default()
    };
    let node: CUgraphNode = make!(rig, cuGraphAddKernelNode_v2(graph, null(), 0, &params));
    let mut told = CUDA_KERNEL_NODE_PARAMS_v2::default();
    assert_eq!(cu!(rig, cuGraphKernelNodeGetParams_v2(node, &mut told)), 0);
    let what = (told.func == params.func, told.kern.is_null(), told.ctx == rig.context);
    assert_eq!(what, (true, true, true));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuModuleUnload(module));
}

fn copies_of_any_memory_tell_their_kinds(rig: &Rig) {
    let (s, pinned) = (rig.stream, rig.pinned(64));
    let mut pageable = [0_u8; 64];
    let (host, own) = (pinned.addr() as u64, pageable.as_mut_ptr().addr() as u64);
    let (a, b) = (rig.buffer, rig.buffer + 4096);
    rig.begin(s, THREAD_LOCAL);
    for (to, from) in [(b, a), (host, a), (a, host), (own, a), (a, own)] {
        ok!(rig, cuMemcpyAsync(to, from, 16, s));
    }
    let graph = rig.end_good(s);
    let kinds: Vec<_> = rig
        .nodes(graph)
        .into_iter()
        .map(|node| {
            let mut p = CUDA_MEMCPY3D_v2::default();
            ok!(rig, cuGraphMemcpyNodeGetParams(node, &mut p));
            (p.srcMemoryType.0, p.dstMemoryType.0)
        })
        .collect();
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuMemFreeHost(pinned));
    assert_eq!(kinds, [(4, 4); 5]);
}

fn an_allocation_has_one_free_node(rig: &Rig) {
    let (graph, node, address) = allocating(rig);
    let add = || cu!(rig, cuGraphAddMemFreeNode(&mut null_mut(), graph, &node, 1, address));
    let mut codes = vec![add(), add()];
    let exec = rig.instantiate(graph);
    codes.push(add());
    ok!(rig, cuGraphExecDestroy(exec));
    codes.push(add());
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [0, 1, 1, 1]);
}

fn a_graph_that_is_instantiated_gets_no_free_node(rig: &Rig) {
    let (graph, node, address) = allocating(rig);
    let add = || cu!(rig, cuGraphAddMemFreeNode(&mut null_mut(), graph, &node, 1, address));
    let exec = rig.instantiate(graph);
    let mut codes = vec![add()];
    // Another graph may free it.
    let other = rig.new_graph();
    codes.push(cu!(rig, cuGraphAddMemFreeNode(&mut null_mut(), other, null(), 0, address)));
    ok!(rig, cuGraphExecDestroy(exec));
    codes.push(add());
    ok!(rig, cuGraphDestroy(other));
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [1, 0, 1]);
}

fn arrays_without_room_are_refused(rig: &Rig) {
    let graph = rig.new_graph();
    let (mut from, mut to) = ([null_mut(); 2], [null_mut(); 2]);
    let mut ask = |graph, node: Option<CUgraphNode>| {
        let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
        let mut counts = [0; 5];
        let [edges, nodes, roots, before, behind] = &mut counts;
        let mut codes = vec![
            cu!(rig, cuGraphGetEdges(graph, from, to, edges)),
            cu!(rig, cuGraphGetNodes(graph, from, nodes)),
            cu!(rig, cuGraphGetRootNodes(graph, from, roots)),
        ];
        if let Some(node) = node {
            codes.push(cu!(rig, cuGraphNodeGetDependencies(node, from, before)));
            codes.push(cu!(rig, cuGraphNodeGetDependentNodes(node, from, behind)));
        }
        codes
    };
    let of_nothing = ask(graph, None);
    let first = empty(rig, graph, &[]);
    let of_one = ask(graph, Some(first));
    empty(rig, graph, &[first]);
    let of_two = ask(graph, Some(first));
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((of_nothing, of_one, of_two), (vec![1; 3], vec![1; 5], vec![1; 5]));
    // Null arrays ask for the length, whatever the count holds.
    rig.begin(rig.stream, GLOBAL);
    let graph = rig.end_good(rig.stream);
    let mut count = 7;
    ok!(rig, cuGraphGetEdges(graph, null_mut(), null_mut(), &mut count));
    assert_eq!(count, 0);
    ok!(rig, cuGraphDestroy(graph));
}
