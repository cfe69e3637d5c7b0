//! Batches of memory operations: as nodes, in streams and in captures.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{RELAXED, Rig};

tiers! {
    both {
        which_operations_there_are,
        where_words_may_lie,
        how_many_operations_a_batch_has,
        what_a_batch_node_needs,
        a_batch_node_tells_its_operations,
        what_a_batch_node_may_become,
        a_batch_node_keeps_its_context_in_the_executable,
        a_batch_node_cannot_be_disabled,
        a_batch_runs_in_order,
        a_captured_batch_is_one_node,
        a_batch_node_is_copied,
        the_generic_functions_know_batches,
        a_word_that_is_not_there_bars_the_launch,
    }

}

type Op = CUstreamBatchMemOpParams;

/// A wait or a write, by its number.
fn word(kind: CUstreamBatchMemOpType, address: u64, value: u64, flags: u32) -> Op {
    let mut write = CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
        operation: kind,
        address,
        flags,
        ..Default::default()
    };
    write.__bindgen_anon_1.value64 = value;
    CUstreamBatchMemOpParams { writeValue: write }
}

fn write(address: u64, value: u64) -> Op {
    word(CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, 0)
}

/// Waits until a word compares so with a value.
fn wait(address: u64, value: u64, flags: u32) -> Op {
    word(CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags)
}

fn plain(operation: CUstreamBatchMemOpType, flags: u32) -> Op {
    let barrier =
        CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st { operation, flags };
    CUstreamBatchMemOpParams { memoryBarrier: barrier }
}

fn params(rig: &Rig, ops: &mut [Op]) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: rig.context,
        count: ops.len() as u32,
        paramArray: ops.as_mut_ptr(),
        flags: 0,
    }
}

fn add(rig: &Rig, graph: CUgraph, ops: &mut [Op]) -> (u32, CUgraphNode) {
    let mut node = null_mut();
    let params = params(rig, ops);
    (cu!(rig, cuGraphAddBatchMemOpNode(&mut node, graph, null(), 0, &params)), node)
}

fn node(rig: &Rig, graph: CUgraph, ops: &mut [Op]) -> CUgraphNode {
    let (code, node) = add(rig, graph, ops);
    assert_eq!(code, 0, "cuGraphAddBatchMemOpNode");
    node
}

/// The code of a node, and those of the calls on a stream that does not capture and on one that
/// does.
fn everywhere(rig: &Rig, op: Op) -> [u32; 3] {
    let graph = rig.new_graph();
    let (code, _) = add(rig, graph, &mut [op]);
    ok!(rig, cuGraphDestroy(graph));
    let call = |stream| cu!(rig, cuStreamBatchMemOp_v2(stream, 1, &mut { op }, 0));
    let direct = call(rig.stream);
    rig.sync(rig.stream);
    rig.begin(rig.other, RELAXED);
    let captured = call(rig.other);
    let nodes = usize::from(captured == 0);
    assert_eq!((rig.status(rig.other), rig.end_and_count(rig.other)), (1, (0, nodes)));
    [code, direct, captured]
}

fn which_operations_there_are(rig: &Rig) {
    let at = rig.buffer;
    let writes = [0, 1, 2].map(|flags| word(CU_STREAM_MEM_OP_WRITE_VALUE_32, at, 1, flags));
    let writes = writes.map(|op| everywhere(rig, op));
    assert_eq!(writes, [[0; 3], [1; 3], [1; 3]], "the device cannot leave the barrier out");
    let wide = everywhere(rig, word(CU_STREAM_MEM_OP_WRITE_VALUE_64, at, 1, 0));
    let waits = [0, 1, 2, 3, 4, 1 << 30].map(|flags| everywhere(rig, wait(at, 1, flags)));
    assert_eq!((wide, waits), ([0; 3], [[0; 3], [0; 3], [0; 3], [0; 3], [1; 3], [801; 3]]));
    let barriers = [0, 1, 2].map(|flags| plain(CU_STREAM_MEM_OP_BARRIER, flags));
    let barriers = barriers.map(|op| everywhere(rig, op));
    let flush = everywhere(rig, plain(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0));
    let unknown = [0, 7, 9, 99].map(|kind| word(CUstreamBatchMemOpType(kind), at, 1, 0));
    let unknown = unknown.map(|op| everywhere(rig, op));
    assert_eq!((barriers, flush, unknown), ([[0; 3], [0; 3], [1; 3]], [801; 3], [[1; 3]; 4]));
}

/// Only what runs now is held against the memory that there is.
fn where_words_may_lie(rig: &Rig) {
    let (pinned, managed) = (rig.pinned(64), make!(rig, cuMemAllocManaged(64, 1)));
    let own = 0_u32;
    let pageable = std::ptr::from_ref(&own).addr() as u64;
    let codes = [pinned.addr() as u64, managed, 0, 0x123_4560, pageable]
        .map(|address| everywhere(rig, write(address, 1)));
    let unaligned = [
        everywhere(rig, write(rig.buffer + 2, 1)),
        everywhere(rig, word(CU_STREAM_MEM_OP_WRITE_VALUE_64, rig.buffer + 4, 1, 0)),
        everywhere(rig, wait(rig.buffer + 1, 0, 0)),
    ];
    ok!(rig, cuMemFreeHost(pinned));
    ok!(rig, cuMemFree_v2(managed));
    let elsewhere = [0, 1, 0];
    assert_eq!(codes, [[0; 3], elsewhere, elsewhere, elsewhere, elsewhere]);
    assert_eq!(unaligned, [[1; 3]; 3]);
}

fn how_many_operations_a_batch_has(rig: &Rig) {
    let mut ops = [write(rig.buffer, 1); 257];
    let graph = rig.new_graph();
    let counts = [0, 1, 255, 256, 257];
    let nodes = counts.map(|count| add(rig, graph, &mut ops[..count]).0);
    let stream = rig.stream;
    let calls = counts
        .map(|count| cu!(rig, cuStreamBatchMemOp_v2(stream, count as u32, ops.as_mut_ptr(), 0)));
    let none = cu!(rig, cuStreamBatchMemOp_v2(stream, 0, null_mut(), 0));
    let flags = cu!(rig, cuStreamBatchMemOp_v2(stream, 1, ops.as_mut_ptr(), 1));
    rig.sync(stream);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!((nodes, calls), ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1]));
    assert_eq!((none, flags), (0, 1));
}

fn what_a_batch_node_needs(rig: &Rig) {
    let graph = rig.new_graph();
    let mut ops = [write(rig.buffer, 1)];
    let good = params(rig, &mut ops);
    let mut node = null_mut();
    let mut add = |graph, params: &CUDA_BATCH_MEM_OP_NODE_PARAMS| {
        cu!(rig, cuGraphAddBatchMemOpNode(&mut node, graph, null(), 0, params))
    };
    let codes = [
        add(null_mut(), &good),
        add(graph, &CUDA_BATCH_MEM_OP_NODE_PARAMS { paramArray: null_mut(), ..good }),
        add(graph, &CUDA_BATCH_MEM_OP_NODE_PARAMS { flags: 1, ..good }),
        add(graph, &CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx: null_mut(), ..good }),
        cu!(rig, cuGraphAddBatchMemOpNode(&mut null_mut(), graph, null(), 0, null())),
        cu!(rig, cuGraphAddBatchMemOpNode(null_mut(), graph, null(), 0, &good)),
    ];
    assert_eq!(rig.nodes(graph).len(), 0);
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(codes, [1; 6]);
}

fn a_batch_node_tells_its_operations(rig: &Rig) {
    let graph = rig.new_graph();
    let mut ops = [write(rig.buffer, 5), wait(rig.buffer, 5, 1)];
    let node = node(rig, graph, &mut ops);
    let mut told = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
    ok!(rig, cuGraphBatchMemOpNodeGetParams(node, &mut told));
    assert_eq!((told.ctx == rig.context, told.count, told.flags), (true, 2, 0));
    assert_ne!(told.paramArray, ops.as_mut_ptr());
    // SAFETY: the driver told an array of two operations, which lasts as long as the node.
    let kept = unsafe { std::slice::from_raw_parts(told.paramArray, 2) };
    let read = |op: &Op| {
        // SAFETY: both are words, of which the two members have the same fields.
        let word = unsafe { op.writeValue };
        // SAFETY: as above: all of the value was written.
        let value = unsafe { word.__bindgen_anon_1.value };
        (word.operation.0, word.address, value, word.flags)
    };
    assert_eq!([read(&kept[0]), read(&kept[1])], [(2, rig.buffer, 5, 0), (1, rig.buffer, 5, 1)]);
    let mut empty = null_mut();
    ok!(rig, cuGraphAddEmptyNode(&mut empty, graph, null(), 0));
    let codes = [
        cu!(rig, cuGraphBatchMemOpNodeGetParams(node, null_mut())),
        cu!(rig, cuGraphBatchMemOpNodeGetParams(empty, &mut told)),
    ];
    assert_eq!((rig.kind(node), codes), (12, [1, 1]));
    ok!(rig, cuGraphDestroy(graph));
}

/// What a change comes to: in the executable, in the node, and in an update from a graph with it.
fn change(rig: &Rig, change: impl Fn(&mut Vec<Op>)) -> (u32, u32, (u32, u32)) {
    let mut ops = vec![write(rig.buffer, 5), wait(rig.buffer, 5, 1)];
    let (graph, changed) = (rig.new_graph(), rig.new_graph());
    let node = node(rig, graph, &mut ops);
    let (exec, updated) = (rig.instantiate(graph), rig.instantiate(graph));
    change(&mut ops);
    let params = params(rig, &mut ops);
    let executable = cu!(rig, cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    let definition = cu!(rig, cuGraphBatchMemOpNodeSetParams(node, &params));
    add(rig, changed, &mut ops);
    let mut info = CUgraphExecUpdateResultInfo::default();
    let code = cu!(rig, cuGraphExecUpdate_v2(updated, changed, &mut info));
    ok!(rig, cuGraphExecDestroy(updated));
    rig.release(graph, exec);
    ok!(rig, cuGraphDestroy(changed));
    (executable, definition, (code, info.result.0))
}

fn what_a_batch_node_may_become(rig: &Rig) {
    let (buffer, taken, refused) = (rig.buffer, (0, 0, (0, 0)), (1, 0, (910, 5)));
    let values = [
        change(rig, |_| {}),
        change(rig, |ops| ops[0] = write(buffer, 9)),
        change(rig, |ops| ops[0] = write(buffer + 64, 5)),
        change(rig, |ops| ops[0] = write(0, 5)),
        change(rig, |ops| ops[1] = wait(buffer, 5, 0)),
    ];
    let shapes = [
        change(rig, |ops| ops[0] = wait(buffer, 5, 0)),
        change(rig, |ops| ops[0] = word(CU_STREAM_MEM_OP_WRITE_VALUE_64, buffer, 5, 0)),
        change(rig, |ops| ops.swap(0, 1)),
        change(rig, |ops| ops.truncate(1)),
        change(rig, |ops| ops.push(write(buffer, 1))),
        change(rig, Vec::clear),
    ];
    assert_eq!((values, shapes), ([taken; 5], [refused; 6]));
}

fn a_batch_node_keeps_its_context_in_the_executable(rig: &Rig) {
    let (graph, context) = (rig.new_graph(), rig.new_context());
    let mut ops = [write(rig.buffer, 5)];
    let node = node(rig, graph, &mut ops);
    let exec = rig.instantiate(graph);
    let good = params(rig, &mut ops);
    let set = |ctx, flags| {
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx, flags, ..good };
        let executable = cu!(rig, cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
        (executable, cu!(rig, cuGraphBatchMemOpNodeSetParams(node, &params)))
    };
    let codes = [set(null_mut(), 0), set(rig.context, 1), set(rig.context, 0), set(context, 0)];
    rig.release(graph, exec);
    ok!(rig, cuCtxDestroy_v2(context));
    assert_eq!(codes, [(1, 1), (1, 1), (0, 0), (1, 0)]);
}

fn a_batch_node_cannot_be_disabled(rig: &Rig) {
    let graph = rig.new_graph();
    let node = node(rig, graph, &mut [write(rig.buffer, 5)]);
    let exec = rig.instantiate(graph);
    let mut enabled = 9;
    let codes = [
        cu!(rig, cuGraphNodeSetEnabled(exec, node, 0)),
        cu!(rig, cuGraphNodeGetEnabled(exec, node, &mut enabled)),
    ];
    rig.release(graph, exec);
    assert_eq!(codes, [1, 1]);
}

fn a_batch_runs_in_order(rig: &Rig) {
    let (graph, at) = (rig.new_graph(), rig.buffer);
    let mut ops = [
        write(at, 5),
        word(CU_STREAM_MEM_OP_WRITE_VALUE_64, at + 8, 0x1_0000_0002, 0),
        plain(CU_STREAM_MEM_OP_BARRIER, 0),
        wait(at, 5, 1),
        wait(at, 4, 0),
        wait(at, 1, 2),
        wait(at, 2, 3),
        write(at + 16, 3),
    ];
    let first = node(rig, graph, &mut ops);
    let params = params(rig, &mut ops[..1]);
    ok!(rig, cuGraphAddBatchMemOpNode(&mut null_mut(), graph, &first, 1, &params));
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!([0, 2, 3, 4].map(|word| rig.read_word(word)), [5, 2, 1, 3]);
    rig.release(graph, exec);
}

fn a_captured_batch_is_one_node(rig: &Rig) {
    let capture = |count: u32| {
        let mut ops = [write(rig.buffer, 1); 3];
        let s = rig.stream;
        rig.begin(s, RELAXED);
        let code = cu!(rig, cuStreamBatchMemOp_v2(s, count, ops.as_mut_ptr(), 0));
        let graph = rig.end_good(s);
        let shape = rig.shape(graph);
        let told = rig.nodes(graph).first().map(|node| {
            let mut told = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
            ok!(rig, cuGraphBatchMemOpNodeGetParams(*node, &mut told));
            told.count
        });
        ok!(rig, cuGraphDestroy(graph));
        (code, shape, told)
    };
    let node = |count| (0, "12 |".to_owned(), Some(count));
    assert_eq!([capture(0), capture(1), capture(3)], [node(0), node(1), node(3)]);
}

fn a_batch_node_is_copied(rig: &Rig) {
    let (graph, parent) = (rig.new_graph(), rig.new_graph());
    node(rig, graph, &mut [write(rig.buffer, 8)]);
    let clone: CUgraph = make!(rig, cuGraphClone(graph));
    ok!(rig, cuGraphAddChildGraphNode(&mut null_mut(), parent, null(), 0, graph));
    for copy in [clone, parent] {
        ok!(rig, cuMemsetD8_v2(rig.buffer, 0, 4));
        let exec = rig.instantiate(copy);
        ok!(rig, cuGraphLaunch(exec, rig.stream));
        rig.sync(rig.stream);
        assert_eq!(rig.read_word(0), 8);
        rig.release(copy, exec);
    }
    ok!(rig, cuGraphDestroy(graph));
}

fn the_generic_functions_know_batches(rig: &Rig) {
    let graph = rig.new_graph();
    let mut ops = [5, 6, 7].map(|value| write(rig.buffer, value));
    let mut all = [0, 1, 2].map(|index| {
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, ..Default::default() };
        params.__bindgen_anon_1.memOp = CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 {
            ctx: rig.context,
            count: 1,
            paramArray: &mut ops[index],
            flags: 0,
        };
        params
    });
    let [made, definition, executable] = &mut all;
    let mut node = null_mut();
    let add = cu!(rig, cuGraphAddNode_v2(&mut node, graph, null(), null(), 0, made));
    let exec = rig.instantiate(graph);
    let set = cu!(rig, cuGraphNodeSetParams(node, definition));
    let exec_set = cu!(rig, cuGraphExecNodeSetParams(exec, node, executable));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    let written = rig.read_word(0);
    rig.release(graph, exec);
    assert_eq!((add, set, exec_set, written), (0, 0, 0, 7));
}

fn a_word_that_is_not_there_bars_the_launch(rig: &Rig) {
    let (own, managed) = (0_u32, make!(rig, cuMemAllocManaged(64, 1)));
    let codes = [0, std::ptr::from_ref(&own).addr() as u64, managed].map(|address| {
        let graph = rig.new_graph();
        node(rig, graph, &mut [write(address, 1)]);
        let exec = rig.instantiate(graph);
        let code = cu!(rig, cuGraphLaunch(exec, rig.stream));
        rig.sync(rig.stream);
        rig.release(graph, exec);
        code
    });
    ok!(rig, cuMemFree_v2(managed));
    assert_eq!(codes, [1, 1, 1]);
}
