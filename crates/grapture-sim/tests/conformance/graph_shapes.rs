//! Which nodes and edges captures and calls make, and what the driver tells of them.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::{GLOBAL, RELAXED, Rig, THREAD_LOCAL};

tiers! {
    both {
        forks_and_joins,
        work_after_the_join_is_not_joined,
        parameters_of_captured_operations,
        captures_tell_of_themselves,
        a_program_adds_nodes_to_a_capture,
        a_capture_fills_a_graph_of_the_program,
        arrays_are_filled_as_far_as_they_go,
        copies_of_graphs,
        a_graph_prints_itself,
    }
    alone {
        dangerous_stray_dependencies_of_a_capture,
        dangerous_stray_dependencies_of_a_begin,
        dangerous_destruction_of_an_embedded_graph,
        dangerous_destruction_of_a_graph_after_its_broken_capture,
        dangerous_destruction_of_a_graph_after_its_unjoined_capture,
    }
}

fn forks_and_joins(rig: &Rig) {
    let (s, t) = (rig.stream, rig.other);
    let (first, second) = (rig.event, rig.new_event());
    let work = |stream| assert_eq!(rig.fill(stream), 0);
    let record = |event, stream| assert_eq!(rig.record(event, stream), 0);
    let wait = |stream, event| assert_eq!(rig.wait(stream, event), 0);
    let check = |expected: &str| {
        let graph = rig.end_good(s);
        assert_eq!(rig.shape(graph), expected);
        ok!(rig, cuGraphDestroy(graph));
    };

    rig.begin(s, THREAD_LOCAL);
    work(s);
    record(first, s);
    wait(t, first);
    work(t);
    work(s);
    work(t);
    record(second, t);
    wait(s, second);
    work(s);
    check("2 2 2 2 2 | 0>1 0>2 1>3 2>4 3>4");

    rig.begin(s, THREAD_LOCAL);
    record(first, s);
    wait(t, first);
    work(t);
    work(s);
    record(second, t);
    wait(s, second);
    wait(s, second);
    check("2 2 |");

    // A join that another join contains keeps its own edge.
    rig.begin(s, THREAD_LOCAL);
    work(s);
    record(first, s);
    wait(t, first);
    work(s);
    work(t);
    record(second, t);
    work(t);
    record(first, t);
    wait(s, first);
    wait(s, second);
    work(s);
    check("2 2 2 2 2 | 0>1 0>2 1>4 2>3 2>4 3>4");
    ok!(rig, cuEventDestroy_v2(second));
}

fn work_after_the_join_is_not_joined(rig: &Rig) {
    rig.begin(rig.stream, GLOBAL);
    rig.link(rig.stream, rig.other);
    assert_eq!(rig.fill(rig.other), 0);
    rig.link(rig.other, rig.stream);
    assert_eq!(rig.fill(rig.other), 0);
    assert_eq!(rig.end(rig.stream).0, 904);
}

fn parameters_of_captured_operations(rig: &Rig) {
    let (s, b) = (rig.stream, rig.buffer);
    let mut pinned = null_mut();
    ok!(rig, cuMemHostAlloc(&mut pinned, 64, 0));
    rig.begin(s, THREAD_LOCAL);
    ok!(rig, cuMemsetD32Async(b, 0, 4, s));
    ok!(rig, cuMemcpyDtoDAsync_v2(b, b + 64, 16, s));
    ok!(rig, cuMemcpyDtoHAsync_v2(pinned, b, 16, s));
    ok!(rig, cuLaunchHostFunc(s, Some(Counter::count), null_mut()));
    ok!(rig, cuMemcpyHtoDAsync_v2(b, pinned, 16, s));
    let copy = CUDA_MEMCPY2D_v2 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: b,
        dstDevice: b + 8192,
        srcPitch: 64,
        dstPitch: 64,
        WidthInBytes: 16,
        Height: 4,
        ..Default::default()
    };
    ok!(rig, cuMemcpy2DAsync_v2(&copy, s));
    ok!(rig, cuMemsetD2D32Async(b, 64, 7, 4, 4, s));
    ok!(rig, cuMemsetD8Async(b, 7, 100, s));
    ok!(rig, cuMemsetD16Async(b, 7, 100, s));
    let graph = rig.end_good(s);
    assert_eq!(rig.shape(graph), "2 1 1 3 1 1 2 2 2 | 0>1 1>2 2>3 3>4 4>5 5>6 6>7 7>8");
    let mut told = Vec::new();
    for node in rig.nodes(graph) {
        match rig.kind(node) {
            1 => {
                let mut p = CUDA_MEMCPY3D_v2::default();
                ok!(rig, cuGraphMemcpyNodeGetParams(node, &mut p));
                let ends = (p.srcMemoryType.0, p.dstMemoryType.0, p.srcPitch, p.dstPitch);
                assert_eq!((p.srcHeight, p.dstHeight, p.srcXInBytes, p.srcY), (0, 0, 0, 0));
                told.push(format!("{ends:?} {} {} {}", p.WidthInBytes, p.Height, p.Depth));
            }
            2 => {
                let mut p = CUDA_MEMSET_NODE_PARAMS_v1::default();
                ok!(rig, cuGraphMemsetNodeGetParams(node, &mut p));
                let size = (p.elementSize, p.width, p.height);
                told.push(format!("pitch {} value {} {size:?}", p.pitch, p.value));
            }
            _ => {}
        }
    }
    let expected = [
        "pitch 0 value 0 (4, 4, 1)",
        "(2, 2, 0, 0) 16 1 1",
        "(2, 1, 0, 0) 16 1 1",
        "(1, 2, 0, 0) 16 1 1",
        "(2, 2, 64, 64) 16 4 1",
        "pitch 64 value 7 (4, 4, 4)",
        "pitch 0 value 7 (1, 100, 1)",
        "pitch 0 value 7 (2, 100, 1)",
    ];
    assert_eq!(told, expected);
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuMemFreeHost(pinned));
}

/// What the driver tells of a capture: status, id, graph and dependencies.
fn info(rig: &Rig, stream: CUstream, id: &mut u64) -> (u32, CUgraph, Vec<CUgraphNode>) {
    let mut status = CUstreamCaptureStatus(99);
    let (mut graph, mut nodes, mut count) = (null_mut(), null(), 0);
    let mut edges = null();
    ok!(
        rig,
        cuStreamGetCaptureInfo_v3(
            stream,
            &mut status,
            id,
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut count
        )
    );
    let node = |index| {
        let node = nodes.wrapping_add(index);
        // SAFETY: the driver said that so many nodes stand there until the next such call.
        unsafe { node.read() }
    };
    (status.0, graph, (0..count).map(node).collect())
}

fn captures_tell_of_themselves(rig: &Rig) {
    let (s, t) = (rig.stream, rig.other);
    let mut id = 77;
    assert_eq!(info(rig, s, &mut id), (0, null_mut(), vec![]));
    assert_eq!(id, 77, "an idle stream has no id to give");
    rig.begin(s, THREAD_LOCAL);
    rig.link(s, t);
    let (mut of_origin, mut of_fork) = (0, 0);
    assert_eq!(info(rig, s, &mut of_origin).0, 1);
    assert_eq!(info(rig, t, &mut of_fork).0, 1);
    assert_eq!(of_origin, of_fork);
    assert_eq!(rig.fill(s), 0);
    let (_, graph, set) = info(rig, s, &mut id);
    assert_eq!(set, rig.nodes(graph));
    assert_eq!(rig.end_good(s), graph);
    ok!(rig, cuGraphDestroy(graph));
    rig.begin(s, THREAD_LOCAL);
    let mut next = 0;
    info(rig, s, &mut next);
    assert_eq!(next, of_origin + 1);
    assert_eq!(rig.end_and_count(s), (0, 0));
}

fn a_program_adds_nodes_to_a_capture(rig: &Rig) {
    let (s, mut id) = (rig.stream, 0);
    let update = |nodes: &mut [CUgraphNode], flags| {
        cu!(rig, cuStreamUpdateCaptureDependencies(s, nodes.as_mut_ptr(), nodes.len(), flags))
    };
    assert_eq!(update(&mut [], 1), 401);
    rig.begin(s, THREAD_LOCAL);
    assert_eq!(rig.fill(s), 0);
    let (_, graph, set) = info(rig, s, &mut id);
    let mut node = null_mut();
    ok!(rig, cuGraphAddEmptyNode(&mut node, graph, set.as_ptr(), set.len()));
    assert_eq!(update(&mut [node], 1), 0);
    assert_eq!(rig.fill(s), 0);
    assert_eq!(update(&mut [set[0]], 0), 0);
    assert_eq!(rig.fill(s), 0);
    assert_eq!(update(&mut [], 7), 1, "bad flags");
    let whole = rig.end_good(s);
    assert_eq!(rig.shape(whole), "2 5 2 2 | 0>1 0>3 1>2 2>3");
    ok!(rig, cuGraphDestroy(whole));

    // What a program drops need not be joined.
    rig.begin(s, THREAD_LOCAL);
    assert_eq!(rig.fill(s), 0);
    assert_eq!(update(&mut [], 1), 0);
    assert_eq!(rig.end_and_count(s), (0, 1));
}

fn dangerous_stray_dependencies_of_a_capture(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, THREAD_LOCAL);
    let update = |nodes, count| cu!(rig, cuStreamUpdateCaptureDependencies(s, nodes, count, 0));
    let mut stray = null_mut();
    assert_eq!((update(&mut stray, 1), update(null_mut(), 1)), (1, 1));
    assert_eq!(rig.end_and_count(s), (0, 0));
}

fn dangerous_stray_dependencies_of_a_begin(rig: &Rig) {
    let (s, graph) = (rig.stream, rig.new_graph());
    let begin = |graph, nodes: *const CUgraphNode| {
        let mode = CUstreamCaptureMode(0);
        cu!(rig, cuStreamBeginCaptureToGraph(s, graph, nodes, null(), 1, mode))
    };
    let stray = null_mut();
    assert_eq!((begin(graph, null()), begin(graph, &stray)), (1, 1));
    ok!(rig, cuGraphDestroy(graph));
}

fn a_capture_fills_a_graph_of_the_program(rig: &Rig) {
    let (s, graph) = (rig.stream, rig.new_graph());
    let mut root = null_mut();
    ok!(rig, cuGraphAddEmptyNode(&mut root, graph, null(), 0));
    let begin = |graph, nodes: *const CUgraphNode, count, mode| {
        let mode = CUstreamCaptureMode(mode);
        cu!(rig, cuStreamBeginCaptureToGraph(s, graph, nodes, null(), count, mode))
    };
    assert_eq!(begin(null_mut(), null(), 0, 0), 1);
    assert_eq!(begin(graph, null(), 0, 9), 1);
    assert_eq!(begin(graph, &root, 1, 0), 0);
    assert_eq!(begin(graph, &root, 1, 0), 401);
    rig.exchange(RELAXED);
    let mut exec = null_mut();
    ok!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0));
    ok!(rig, cuGraphExecDestroy(exec));
    rig.exchange(GLOBAL);
    let filled = (rig.fill(s), rig.end(s) == (0, graph), rig.shape(graph));
    let destroyed = cu!(rig, cuGraphDestroy(graph));
    assert_eq!((filled, destroyed), ((0, true, "5 2 | 0>1".into()), 0));
}

/// Begins a capture into a graph of the program's, has it fail and destroys the graph: the codes of
/// the end and of the destruction.
fn after_failure(rig: &Rig, fail: impl FnOnce()) -> (u32, u32) {
    let (s, graph) = (rig.stream, rig.new_graph());
    let mode = CUstreamCaptureMode(GLOBAL);
    ok!(rig, cuStreamBeginCaptureToGraph(s, graph, null(), null(), 0, mode));
    fail();
    (rig.end(s).0, cu!(rig, cuGraphDestroy(graph)))
}

/// A graph of the program's is refused after its broken capture, and not as one that still captures
/// (401): the end has destroyed it, so it seems.
fn dangerous_destruction_of_a_graph_after_its_broken_capture(rig: &Rig) {
    let codes = after_failure(rig, || assert_eq!(rig.query(rig.stream), 900));
    assert_eq!(codes, (901, 1));
}

/// Guessed: as that of a broken one.
fn dangerous_destruction_of_a_graph_after_its_unjoined_capture(rig: &Rig) {
    let codes = after_failure(rig, || {
        rig.link(rig.stream, rig.other);
        assert_eq!(rig.fill(rig.other), 0);
    });
    assert_eq!(codes, (904, 1));
}

fn arrays_are_filled_as_far_as_they_go(rig: &Rig) {
    let graph = rig.new_graph();
    let mut nodes = [null_mut(); 3];
    for index in 0..3 {
        let after = nodes;
        ok!(rig, cuGraphAddEmptyNode(&mut nodes[index], graph, after.as_ptr(), index));
    }
    let stray = std::ptr::dangling_mut();
    for (room, told) in [(2, 2), (3, 3), (5, 3)] {
        let (mut out, mut count) = ([stray; 5], room);
        ok!(rig, cuGraphGetNodes(graph, out.as_mut_ptr(), &mut count));
        assert_eq!(count, told);
        assert_eq!(out[..told], nodes[..told]);
        assert!(out[told..room].iter().all(|node| node.is_null()), "what is left over is null");
        assert!(out[room..].iter().all(|node| *node == stray), "what is not ours is untouched");
    }
    let (mut out, mut count) = ([null_mut(); 4], 4);
    ok!(rig, cuGraphNodeGetDependencies(nodes[2], out.as_mut_ptr(), &mut count));
    assert_eq!((count, &out[..2]), (2, &nodes[..2]));
    count = 4;
    ok!(rig, cuGraphNodeGetDependentNodes(nodes[0], out.as_mut_ptr(), &mut count));
    assert_eq!((count, &out[..2]), (2, &nodes[1..]));
    count = 4;
    ok!(rig, cuGraphGetRootNodes(graph, out.as_mut_ptr(), &mut count));
    assert_eq!((count, out[0]), (1, nodes[0]));
    ok!(rig, cuGraphDestroy(graph));
}

fn copies_of_graphs(rig: &Rig) {
    let (graph, parent) = (rig.new_graph(), rig.new_graph());
    let (mut first, mut second, mut child) = (null_mut(), null_mut(), null_mut());
    ok!(rig, cuGraphAddEmptyNode(&mut first, graph, null(), 0));
    ok!(rig, cuGraphAddEmptyNode(&mut second, graph, &first, 1));
    ok!(rig, cuGraphAddChildGraphNode(&mut child, parent, null(), 0, graph));
    let mut clone = null_mut();
    ok!(rig, cuGraphClone(&mut clone, parent));
    let mut found = null_mut();
    ok!(rig, cuGraphNodeFindInClone(&mut found, child, clone));
    assert_eq!(rig.nodes(clone), [found]);
    let mut embedded = null_mut();
    ok!(rig, cuGraphChildGraphNodeGetGraph(found, &mut embedded));
    assert_eq!(rig.shape(embedded), "5 5 | 0>1");
    assert_eq!(cu!(rig, cuGraphNodeFindInClone(&mut found, first, clone)), 1);
    assert!(found.is_null(), "none was found");
    ok!(rig, cuGraphChildGraphNodeGetGraph(child, &mut embedded));
    assert_eq!(rig.shape(embedded), "5 5 | 0>1");
    assert_ne!(embedded, graph);
    rig.on_simulation(|sim| assert_eq!(sim.live().graphs, 3));
    for graph in [parent, clone, graph] {
        ok!(rig, cuGraphDestroy(graph));
    }
}

fn dangerous_destruction_of_an_embedded_graph(rig: &Rig) {
    let (graph, parent) = (rig.new_graph(), rig.new_graph());
    let (mut child, mut embedded) = (null_mut(), null_mut());
    ok!(rig, cuGraphAddChildGraphNode(&mut child, parent, null(), 0, graph));
    ok!(rig, cuGraphChildGraphNodeGetGraph(child, &mut embedded));
    assert_eq!(cu!(rig, cuGraphDestroy(embedded)), 1, "it belongs to its node");
    ok!(rig, cuGraphDestroy(parent));
    ok!(rig, cuGraphDestroy(graph));
}

fn a_graph_prints_itself(rig: &Rig) {
    rig.begin(rig.stream, GLOBAL);
    rig.fill_word(0, 7, rig.stream);
    rig.fill_word(1, 8, rig.stream);
    let graph = rig.end_good(rig.stream);
    let path = std::env::temp_dir().join(format!("graph-{}.dot", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().expect("a path")).expect("no NUL");
    ok!(rig, cuGraphDebugDotPrint(graph, name.as_ptr(), 1));
    let text = std::fs::read_to_string(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    assert!(text.starts_with("digraph"), "{text}");
    assert_eq!(text.to_lowercase().matches("memset").count(), 2, "{text}");
    assert_eq!(text.matches("->").count(), 1, "{text}");
    ok!(rig, cuGraphDestroy(graph));
}
