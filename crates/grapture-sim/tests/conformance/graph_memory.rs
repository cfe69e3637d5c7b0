//! The memory of graphs: allocation and free nodes, and the attributes of what they take.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{NULL_STREAM, RELAXED, Rig};

tiers! {
    both {
        which_attributes_there_are,
        which_attributes_can_be_set,
        attributes_are_no_matter_of_captures,
        memory_is_taken_by_the_launch_and_kept_until_trimmed,
        memory_is_taken_in_large_pieces,
        living_allocations_of_two_graphs_take_memory_each,
        a_mark_is_set_back_to_what_there_is,
        what_an_allocation_node_needs,
        an_allocation_node_tells_its_rights,
        more_than_there_is_can_be_planned,
        an_address_is_used_again_behind_its_free,
        shared_addresses_hold_what_is_written_last,
        an_allocation_lives_from_launch_to_free,
        a_free_node_needs_a_living_allocation,
        a_launch_frees_what_it_was_told_to,
        what_lives_outlives_its_graph,
        an_update_takes_other_allocations,
        allocation_nodes_keep_their_parameters,
        a_graph_that_allocates_moves_into_a_node,
        no_allocation_goes_into_a_copy,
        a_captured_allocation_is_like_a_node,
    }
}

const MIB: usize = 1 << 20;
/// What the driver takes at once.
const PIECE: u64 = 32 << 20;

/// The parameters of an allocation node.
fn request(bytes: usize) -> CUDA_MEM_ALLOC_NODE_PARAMS {
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS { bytesize: bytes, ..Default::default() };
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
    params
}

fn alloc_code(rig: &Rig, graph: CUgraph, params: &mut CUDA_MEM_ALLOC_NODE_PARAMS) -> u32 {
    cu!(rig, cuGraphAddMemAllocNode(&mut null_mut(), graph, null(), 0, params))
}

/// An allocation node and its address.
fn alloc(
    rig: &Rig,
    graph: CUgraph,
    after: &[CUgraphNode],
    bytes: usize,
) -> (CUgraphNode, CUdeviceptr) {
    let (mut node, mut params) = (null_mut(), request(bytes));
    let (list, count) = (after.as_ptr(), after.len());
    ok!(rig, cuGraphAddMemAllocNode(&mut node, graph, list, count, &mut params));
    (node, params.dptr)
}

fn free(rig: &Rig, graph: CUgraph, after: &[CUgraphNode], address: CUdeviceptr) -> CUgraphNode {
    make!(rig, cuGraphAddMemFreeNode(graph, after.as_ptr(), after.len(), address))
}

fn attribute(rig: &Rig, attribute: CUgraphMem_attribute) -> u64 {
    let mut value = 0_u64;
    ok!(rig, cuDeviceGetGraphMemAttribute(0, attribute, (&raw mut value).cast()));
    value
}

/// The bytes that graphs use and have reserved, which are the same.
fn taken(rig: &Rig) -> u64 {
    let used = attribute(rig, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
    assert_eq!(attribute(rig, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), used);
    used
}

fn trim(rig: &Rig) -> u64 {
    ok!(rig, cuDeviceGraphMemTrim(0));
    taken(rig)
}

fn launch(rig: &Rig, exec: CUgraphExec) -> u32 {
    let code = cu!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    code
}

fn which_attributes_there_are(rig: &Rig) {
    let mut value = 0_u64;
    let out: *mut std::ffi::c_void = (&raw mut value).cast();
    let ask = |device, attribute, out| {
        cu!(rig, cuDeviceGetGraphMemAttribute(device, CUgraphMem_attribute(attribute), out))
    };
    let known = [0, 1, 2, 3, 4, 99, u32::MAX].map(|attribute| ask(0, attribute, out));
    let bad = [ask(0, 0, null_mut()), ask(99, 0, out), ask(-1, 0, out), ask(99, 99, null_mut())];
    assert_eq!((known, bad), ([0, 0, 0, 0, 1, 1, 1], [1, 101, 101, 101]));
    assert_eq!([-1, 99].map(|device| cu!(rig, cuDeviceGraphMemTrim(device))), [101, 101]);
}

fn which_attributes_can_be_set(rig: &Rig) {
    let set = |device, attribute, value: u64| {
        let mut value = value;
        let (attribute, value) = (CUgraphMem_attribute(attribute), (&raw mut value).cast());
        cu!(rig, cuDeviceSetGraphMemAttribute(device, attribute, value))
    };
    let zero = [0, 1, 2, 3, 4].map(|attribute| set(0, attribute, 0));
    let other = [0, 1, 2, 3, 4].map(|attribute| set(0, attribute, 5));
    let high = CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    let null = cu!(rig, cuDeviceSetGraphMemAttribute(0, high, null_mut()));
    assert_eq!((zero, other), ([1, 0, 1, 0, 1], [1; 5]));
    assert_eq!((null, set(99, 1, 0)), (1, 101));
}

fn attributes_are_no_matter_of_captures(rig: &Rig) {
    let mut value = 0_u64;
    let out: *mut std::ffi::c_void = (&raw mut value).cast();
    let high = CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    let during = [
        rig.during(rig.stream, 0, || cu!(rig, cuDeviceGetGraphMemAttribute(0, high, out))),
        rig.during(rig.stream, 0, || {
            value = 0;
            cu!(rig, cuDeviceSetGraphMemAttribute(0, high, (&raw mut value).cast()))
        }),
        rig.during(rig.stream, 0, || cu!(rig, cuDeviceGraphMemTrim(0))),
    ];
    assert_eq!(during, [(0, 1, 0, 0); 3]);
}

fn memory_is_taken_by_the_launch_and_kept_until_trimmed(rig: &Rig) {
    assert_eq!(trim(rig), 0);
    let graph = rig.new_graph();
    let (_, address) = alloc(rig, graph, &[], 1000);
    let exec = rig.instantiate(graph);
    let mut steps = vec![taken(rig)];
    ok!(rig, cuGraphUpload(exec, rig.stream));
    rig.sync(rig.stream);
    steps.push(taken(rig));
    assert_eq!(launch(rig, exec), 0);
    steps.extend([taken(rig), trim(rig)]);
    ok!(rig, cuMemFreeAsync(address, rig.stream));
    rig.sync(rig.stream);
    steps.extend([taken(rig), trim(rig)]);
    assert_eq!(launch(rig, exec), 0);
    ok!(rig, cuMemFree_v2(address));
    rig.release(graph, exec);
    steps.extend([taken(rig), trim(rig)]);
    assert_eq!(steps, [0, PIECE, PIECE, PIECE, PIECE, 0, PIECE, 0]);
}

fn memory_is_taken_in_large_pieces(rig: &Rig) {
    assert_eq!(trim(rig), 0);
    let pieces = |sizes: &[usize]| {
        let graph = rig.new_graph();
        let (mut last, mut addresses) = (Vec::new(), Vec::new());
        for bytes in sizes {
            let (node, address) = alloc(rig, graph, &last, *bytes);
            last = vec![node];
            addresses.push(address);
        }
        for address in addresses {
            free(rig, graph, &last, address);
        }
        let exec = rig.instantiate(graph);
        assert_eq!(launch(rig, exec), 0);
        let pieces = taken(rig) / PIECE;
        rig.release(graph, exec);
        assert_eq!(trim(rig), 0);
        pieces
    };
    let sizes: [&[usize]; 7] = [
        &[1],
        &[32 * MIB],
        &[33 * MIB],
        &[40 * MIB],
        &[2 * MIB, 2 * MIB],
        &[20 * MIB, 20 * MIB],
        &[20 * MIB, 20 * MIB, 20 * MIB],
    ];
    assert_eq!(sizes.map(pieces), [1, 1, 2, 2, 1, 2, 2]);
}

fn living_allocations_of_two_graphs_take_memory_each(rig: &Rig) {
    assert_eq!(trim(rig), 0);
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let ((_, a), (_, b)) = (alloc(rig, graph, &[], MIB), alloc(rig, other, &[], MIB));
    let (first, second) = (rig.instantiate(graph), rig.instantiate(other));
    let mut steps = Vec::new();
    assert_eq!(launch(rig, first), 0);
    steps.push(taken(rig));
    assert_eq!(launch(rig, second), 0);
    steps.push(taken(rig));
    ok!(rig, cuMemFree_v2(a));
    steps.extend([taken(rig), trim(rig)]);
    ok!(rig, cuMemFree_v2(b));
    // Where nothing lives, the next graph takes what is there.
    assert_eq!(launch(rig, first), 0);
    ok!(rig, cuMemFree_v2(a));
    assert_eq!(launch(rig, second), 0);
    steps.push(taken(rig));
    ok!(rig, cuMemFree_v2(b));
    rig.release(graph, first);
    rig.release(other, second);
    steps.push(trim(rig));
    assert_eq!(steps, [1, 2, 2, 1, 1, 0].map(|pieces| pieces * PIECE));
}

fn a_mark_is_set_back_to_what_there_is(rig: &Rig) {
    assert_eq!(trim(rig), 0);
    let marks = [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH];
    let reset = || {
        for mark in marks {
            let mut zero = 0_u64;
            ok!(rig, cuDeviceSetGraphMemAttribute(0, mark, (&raw mut zero).cast()));
        }
        marks.map(|mark| attribute(rig, mark))
    };
    let before = reset();
    let graph = rig.new_graph();
    let (node, address) = alloc(rig, graph, &[], MIB);
    free(rig, graph, &[node], address);
    let exec = rig.instantiate(graph);
    assert_eq!(launch(rig, exec), 0);
    let launched = reset();
    trim(rig);
    let trimmed = marks.map(|mark| attribute(rig, mark));
    rig.release(graph, exec);
    assert_eq!([before, launched, trimmed, reset()], [[0; 2], [PIECE; 2], [PIECE; 2], [0; 2]]);
}

fn what_an_allocation_node_needs(rig: &Rig) {
    let graph = rig.new_graph();
    let with = |change: &dyn Fn(&mut CUDA_MEM_ALLOC_NODE_PARAMS)| {
        let mut params = request(512);
        change(&mut params);
        alloc_code(rig, graph, &mut params)
    };
    let codes = [
        with(&|p| p.bytesize = 0),
        with(&|p| p.bytesize = 1 << 45),
        with(&|p| p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_INVALID),
        with(&|p| p.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_INVALID),
        with(&|p| p.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_HOST),
        with(&|p| p.poolProps.location.__bindgen_anon_1.id = 99),
        with(&|p| p.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        with(&|p| p.poolProps.maxSize = MIB),
        with(&|p| p.poolProps.usage = 1),
        alloc_code(rig, null_mut(), &mut request(512)),
        cu!(rig, cuGraphAddMemAllocNode(&mut null_mut(), graph, null(), 0, null_mut())),
        cu!(rig, cuGraphAddMemAllocNode(null_mut(), graph, null(), 0, &mut request(512))),
    ];
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [1, 2, 1, 1, 801, 1, 801, 0, 0, 1, 1, 1]);
}

fn an_allocation_node_tells_its_rights(rig: &Rig) {
    let graph = rig.new_graph();
    let add = |flags| {
        let mut right = CUmemAccessDesc { flags, ..Default::default() };
        right.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
        let mut params = request(512);
        (params.accessDescs, params.accessDescCount) = (&right, 1);
        let mut node = null_mut();
        let code = cu!(rig, cuGraphAddMemAllocNode(&mut node, graph, null(), 0, &mut params));
        (code, node, params.dptr)
    };
    let (code, node, address) = add(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    let codes = [add(CU_MEM_ACCESS_FLAGS_PROT_READ).0, add(CU_MEM_ACCESS_FLAGS_PROT_NONE).0];
    let mut told = CUDA_MEM_ALLOC_NODE_PARAMS::default();
    ok!(rig, cuGraphMemAllocNodeGetParams(node, &mut told));
    // SAFETY: the driver tells an array of so many rights, which lasts as long as the node.
    let right = unsafe { *told.accessDescs };
    let told = (told.accessDescCount, told.bytesize, told.dptr, right.flags);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((code, codes), (0, [801, 801]));
    assert_eq!(told, (1, 512, address, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

fn more_than_there_is_can_be_planned(rig: &Rig) {
    let graph = rig.new_graph();
    let code = alloc_code(rig, graph, &mut request(200 << 30));
    let exec = rig.instantiate(graph);
    rig.release(graph, exec);
    assert_eq!(code, 0);
}

fn an_address_is_used_again_behind_its_free(rig: &Rig) {
    let graph = rig.new_graph();
    let (first, a) = alloc(rig, graph, &[], MIB);
    let freed = free(rig, graph, &[first], a);
    let behind = make!(rig, cuGraphAddEmptyNode(graph, &freed, 1));
    let (_, unordered) = alloc(rig, graph, &[], MIB);
    let (second, b) = alloc(rig, graph, &[behind], MIB);
    let (_, c) = alloc(rig, graph, &[second], MIB);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((b, unordered == a, c == a), (a, false, false));
}

fn shared_addresses_hold_what_is_written_last(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, RELAXED);
    let mut at = [0; 3];
    for (index, bytes) in [4 * MIB, MIB, 2 * MIB].into_iter().enumerate() {
        ok!(rig, cuMemAllocAsync(&mut at[index], bytes, s));
        let value = 7 + index as u8;
        ok!(rig, cuMemsetD8Async(at[index], value, bytes, s));
        let into = rig.buffer + 4 * index as u64;
        ok!(rig, cuMemcpyDtoDAsync_v2(into, at[index] + bytes as u64 - 4, 4, s));
        if index < 2 {
            ok!(rig, cuMemFreeAsync(at[index], s));
        }
    }
    let graph = rig.end_good(s);
    let exec = rig.instantiate(graph);
    for _ in 0..2 {
        assert_eq!(launch(rig, exec), 0);
        let words = [0, 1, 2].map(|word| rig.read_word(word));
        assert_eq!(words, [0x0707_0707, 0x0808_0808, 0x0909_0909]);
        assert_eq!(rig.read::<u8>(at[2] + 2 * MIB as u64 - 1, 1), [9], "it outlives the launch");
        ok!(rig, cuMemFree_v2(at[2]));
    }
    assert_eq!((at[1], at[2]), (at[0], at[0]));
    rig.release(graph, exec);
}

fn an_allocation_lives_from_launch_to_free(rig: &Rig) {
    let graph = rig.new_graph();
    let (_, address) = alloc(rig, graph, &[], MIB);
    let exec = rig.instantiate(graph);
    let range = || {
        let (mut base, mut bytes) = (0, 0);
        let code = cu!(rig, cuMemGetAddressRange_v2(&mut base, &mut bytes, address));
        (code, base == address, bytes)
    };
    let free = || cu!(rig, cuMemFree_v2(address));
    let before = (range(), free(), cu!(rig, cuMemFreeAsync(address, rig.stream)));
    let launches = [launch(rig, exec), cu!(rig, cuGraphLaunch(exec, rig.stream))];
    let alive = (range(), cu!(rig, cuMemsetD8_v2(address, 1, MIB)));
    rig.sync(NULL_STREAM);
    let after = [free(), free(), cu!(rig, cuMemFreeAsync(address, rig.stream))];
    let gone = (range(), cu!(rig, cuMemsetD8_v2(address, 1, 16)));
    rig.release(graph, exec);
    let nowhere = (500, false, 0);
    assert_eq!((before, launches), ((nowhere, 1, 1), [0, 1]));
    assert_eq!((alive, after, gone), (((0, true, MIB), 0), [0, 1, 1], (nowhere, 1)));
}

fn a_free_node_needs_a_living_allocation(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let (_, address) = alloc(rig, graph, &[], 512);
    free(rig, other, &[], address);
    let (makes, frees) = (rig.instantiate(graph), rig.instantiate(other));
    let codes = [frees, makes, frees, frees, makes, frees].map(|exec| launch(rig, exec));
    rig.release(graph, makes);
    rig.release(other, frees);
    assert_eq!(codes, [1, 0, 0, 1, 0, 0]);
}

fn a_launch_frees_what_it_was_told_to(rig: &Rig) {
    let graph = rig.new_graph();
    let (_, address) = alloc(rig, graph, &[], 512);
    let exec = make!(rig, cuGraphInstantiateWithFlags(graph, 1));
    let codes = [launch(rig, exec), launch(rig, exec)];
    ok!(rig, cuMemFreeAsync(address, rig.stream));
    let again = launch(rig, exec);
    ok!(rig, cuMemFree_v2(address));
    rig.release(graph, exec);
    assert_eq!((codes, again), ([0, 0], 0));
}

fn what_lives_outlives_its_graph(rig: &Rig) {
    let graph = rig.new_graph();
    let (_, address) = alloc(rig, graph, &[], 512);
    let exec = rig.instantiate(graph);
    assert_eq!(launch(rig, exec), 0);
    ok!(rig, cuGraphExecDestroy(exec));
    let exec = rig.instantiate(graph);
    let second = cu!(rig, cuGraphLaunch(exec, rig.stream));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuMemsetD8_v2(address, 1, 512));
    rig.sync(NULL_STREAM);
    ok!(rig, cuMemFree_v2(address));
    let third = launch(rig, exec);
    ok!(rig, cuMemFree_v2(address));
    ok!(rig, cuGraphExecDestroy(exec));
    assert_eq!((second, third), (1, 0));
}

fn an_update_takes_other_allocations(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    alloc(rig, graph, &[], 512);
    alloc(rig, other, &[], 512);
    let exec = rig.instantiate(graph);
    let update = |graph| {
        let mut info = CUgraphExecUpdateResultInfo::default();
        (cu!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info)), info.result.0)
    };
    let results = [update(other), update(graph)];
    let elsewhere = rig.instantiate(other);
    let taken = update(other);
    rig.release(graph, exec);
    rig.release(other, elsewhere);
    assert_eq!((results, taken), ([(0, 0); 2], (801, 0)));
}

fn allocation_nodes_keep_their_parameters(rig: &Rig) {
    let (graph, other) = (rig.new_graph(), rig.new_graph());
    let (node, address) = alloc(rig, graph, &[], 512);
    let freed = free(rig, other, &[], address);
    let execs = [rig.instantiate(graph), rig.instantiate(other)];
    let mut asked = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEM_ALLOC, ..Default::default() };
    asked.__bindgen_anon_1.alloc.poolProps = request(1).poolProps;
    asked.__bindgen_anon_1.alloc.bytesize = 512;
    let mut given = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_MEM_FREE, ..Default::default() };
    given.__bindgen_anon_1.free.dptr = address;
    let codes = [
        cu!(rig, cuGraphNodeSetParams(node, &mut asked)),
        cu!(rig, cuGraphExecNodeSetParams(execs[0], node, &mut asked)),
        cu!(rig, cuGraphNodeSetParams(freed, &mut given)),
        cu!(rig, cuGraphExecNodeSetParams(execs[1], freed, &mut given)),
        cu!(rig, cuGraphNodeSetEnabled(execs[0], node, 0)),
    ];
    rig.release(graph, execs[0]);
    rig.release(other, execs[1]);
    assert_eq!(codes, [801, 801, 801, 801, 1]);
}

/// A child graph node, of a copy or of the graph itself.
fn embed(
    rig: &Rig,
    into: CUgraph,
    graph: CUgraph,
    ownership: CUgraphChildGraphNodeOwnership,
) -> (u32, CUgraphNode) {
    let mut params = CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_GRAPH, ..Default::default() };
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership };
    let mut node = null_mut();
    let code = cu!(rig, cuGraphAddNode_v2(&mut node, into, null(), null(), 0, &mut params));
    (code, node)
}

fn a_graph_that_allocates_moves_into_a_node(rig: &Rig) {
    let (graph, holder) = (rig.new_graph(), rig.new_graph());
    let (made, address) = alloc(rig, graph, &[], 512);
    free(rig, graph, &[made], address);
    let copied = embed(rig, holder, graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE).0;
    let (moved, node) = embed(rig, holder, graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    let exec = rig.instantiate(holder);
    let launches = [launch(rig, exec), launch(rig, exec)];
    let mut embedded = null_mut();
    ok!(rig, cuGraphChildGraphNodeGetGraph(node, &mut embedded));
    let codes = [
        cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), holder, 0)),
        cu!(rig, cuGraphDestroy(graph)),
        cu!(rig, cuGraphClone(&mut null_mut(), holder)),
        cu!(rig, cuGraphDestroyNode(node)),
    ];
    rig.release(holder, exec);
    assert_eq!((copied, moved, launches), (801, 0, [0, 0]));
    assert_eq!((codes, embedded), ([801, 1, 801, 801], graph));
}

fn no_allocation_goes_into_a_copy(rig: &Rig) {
    let (graph, holder, other) = (rig.new_graph(), rig.new_graph(), rig.new_graph());
    let (code, node) = embed(rig, holder, graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
    let mut embedded = null_mut();
    ok!(rig, cuGraphChildGraphNodeGetGraph(node, &mut embedded));
    let (_, address) = alloc(rig, other, &[], 512);
    let refused = [
        alloc_code(rig, embedded, &mut request(512)),
        alloc_code(rig, embedded, &mut request(0)),
        cu!(rig, cuGraphAddMemFreeNode(&mut null_mut(), embedded, null(), 0, rig.buffer)),
        cu!(rig, cuGraphAddMemFreeNode(&mut null_mut(), embedded, null(), 0, address)),
    ];
    for graph in [graph, holder, other] {
        ok!(rig, cuGraphDestroy(graph));
    }
    assert_eq!((code, refused), (0, [801, 1, 801, 801]));
}

fn a_captured_allocation_is_like_a_node(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, RELAXED);
    let mut address = 0;
    let codes = [
        cu!(rig, cuMemAllocAsync(&mut address, 1000, s)),
        cu!(rig, cuMemsetD8Async(address, 1, 1000, s)),
        cu!(rig, cuMemFreeAsync(address, s)),
        cu!(rig, cuMemFreeAsync(address, s)),
    ];
    let graph = rig.end_good(s);
    let shape = rig.shape(graph);
    let mut told = CUDA_MEM_ALLOC_NODE_PARAMS::default();
    ok!(rig, cuGraphMemAllocNodeGetParams(rig.nodes(graph)[0], &mut told));
    let exec = rig.instantiate(graph);
    let launched = launch(rig, exec);
    rig.release(graph, exec);
    assert_eq!((codes, shape.as_str(), launched), ([0, 0, 0, 1], "10 2 11 | 0>1 1>2", 0));
    assert_eq!((told.bytesize, told.accessDescCount, told.dptr), (1000, 0, address));
}
