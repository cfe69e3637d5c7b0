//! What captures do in corners that NVIDIA's documentation leaves open.

use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;

use grapture_sys::*;

use crate::rig::{GLOBAL, PTX, RELAXED, Rig, THREAD_LOCAL};
use crate::subject::Subject;

tiers! {
    both {
        a_fork_that_is_destroyed_leaves_its_work_unjoined,
        a_fork_that_is_destroyed_after_its_join_leaves_its_work,
        an_empty_fork_that_is_destroyed_leaves_nothing,
        a_broken_capture_takes_no_dependencies,
        a_broken_capture_tells_its_status_alone,
        an_event_of_an_ended_capture_has_no_time,
        memory_of_the_host_is_not_given_back_in_a_capture,
        a_wait_for_one_context_leaves_the_captures_of_another,
        a_programmatic_edge_alone_is_a_join,
        a_kernel_behind_a_programmatic_edge_is_a_join,
        an_external_wait_for_an_event_of_an_ended_capture,
        a_launch_joins_the_capture_of_an_event_that_it_waits_for,
        a_launch_joins_no_capture_that_is_over_or_broken,
    }
    bare {
        the_end_of_the_primary_context_leaves_the_captures_of_another,
    }
    alone {
        dangerous_destruction_of_a_graph_under_capture,
        dangerous_destruction_of_a_node_under_capture,
        dangerous_destruction_of_a_graph_of_the_program_under_capture,
    }
}

/// A stream that joins the capture of the rig's stream, does work if asked, and is joined if asked
/// before it is destroyed.
fn destroyed_fork(rig: &Rig, works: bool, joined: bool) -> (u32, u32, u32, usize) {
    rig.during(rig.stream, GLOBAL, || {
        let fork = rig.new_stream(1);
        rig.link(rig.stream, fork);
        if works {
            assert_eq!(rig.fill(fork), 0);
        }
        if joined {
            rig.link(fork, rig.stream);
        }
        cu!(rig, cuStreamDestroy_v2(fork))
    })
}

fn a_fork_that_is_destroyed_leaves_its_work_unjoined(rig: &Rig) {
    assert_eq!(destroyed_fork(rig, true, false), (0, 1, 904, 0));
}

fn a_fork_that_is_destroyed_after_its_join_leaves_its_work(rig: &Rig) {
    assert_eq!(destroyed_fork(rig, true, true), (0, 1, 0, 1));
}

fn an_empty_fork_that_is_destroyed_leaves_nothing(rig: &Rig) {
    assert_eq!(destroyed_fork(rig, false, false), (0, 1, 0, 0));
}

/// The first node that the next operation of a stream would depend on, and the graph.
fn dependency(rig: &Rig, stream: CUstream) -> (CUgraphNode, CUgraph) {
    let mut status = CUstreamCaptureStatus(99);
    let (mut graph, mut nodes, mut edges, mut count) = (null_mut(), null(), null(), 0);
    let (id, graph_at, nodes_at, edges_at) = (null_mut(), &mut graph, &mut nodes, &mut edges);
    let at = &mut count;
    ok!(rig, cuStreamGetCaptureInfo_v3(stream, &mut status, id, graph_at, nodes_at, edges_at, at));
    assert_eq!((status.0, count), (1, 1));
    // SAFETY: the driver said that one node stands there until the next such call.
    (unsafe { nodes.read() }, graph)
}

fn break_capture(rig: &Rig, stream: CUstream) {
    assert_eq!(rig.query(stream), 900);
}

fn a_broken_capture_takes_no_dependencies(rig: &Rig) {
    let s = rig.stream;
    let call = |flags| {
        rig.during(s, GLOBAL, || {
            assert_eq!(rig.fill(s), 0);
            let (mut node, _) = dependency(rig, s);
            break_capture(rig, s);
            cu!(rig, cuStreamUpdateCaptureDependencies(s, &mut node, 1, flags))
        })
    };
    let broken = (901, 2, 901, 0);
    assert_eq!([call(0), call(1)], [broken, broken]);
}

fn a_broken_capture_tells_its_status_alone(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, GLOBAL);
    assert_eq!(rig.fill(s), 0);
    break_capture(rig, s);
    let mut status = CUstreamCaptureStatus(99);
    let (mut id, mut graph, mut nodes, mut edges, mut count) = (77, null_mut(), null(), null(), 88);
    let outs = (&mut graph, &mut nodes, &mut edges);
    let whole = cu!(
        rig,
        cuStreamGetCaptureInfo_v3(s, &mut status, &mut id, outs.0, outs.1, outs.2, &mut count)
    );
    let mut first_id = 77;
    let first = cu!(rig, cuStreamGetCaptureInfo(s, &mut status, &mut first_id));
    assert_eq!(rig.end(s).0, 901);
    let none = (graph.is_null(), nodes.is_null(), edges.is_null());
    assert_eq!((whole, status.0, id, count, none), (0, 2, 77, 88, (true, true, true)));
    assert_eq!((first, first_id), (0, 77));
}

fn an_event_of_an_ended_capture_has_no_time(rig: &Rig) {
    let s = rig.stream;
    let (captured, ordinary) = (rig.timed_event(), rig.timed_event());
    assert_eq!(rig.record(ordinary, s), 0);
    rig.sync(s);
    assert_eq!(rig.during(s, GLOBAL, || rig.record(captured, s)), (0, 1, 0, 0));
    let mut ms = 0.0;
    let mut between = |from, to| cu!(rig, cuEventElapsedTime(&mut ms, from, to));
    let codes = [
        between(captured, captured),
        between(captured, ordinary),
        between(ordinary, captured),
        cu!(rig, cuEventSynchronize(captured)),
    ];
    assert_eq!(codes, [1, 1, 1, 1]);
}

#[repr(align(4096))]
struct Page([AtomicU32; 1024]);

/// Not constant, so that it lies where a driver may lock it.
static PAGE: Page = Page([const { AtomicU32::new(0) }; 1024]);

fn memory_of_the_host_is_not_given_back_in_a_capture(rig: &Rig) {
    let (pinned, page) = (rig.pinned(64), PAGE.0.as_ptr().cast_mut().cast());
    ok!(rig, cuMemHostRegister_v2(page, size_of::<Page>(), 0));
    let free = rig.during(rig.stream, THREAD_LOCAL, || cu!(rig, cuMemFreeHost(pinned)));
    let unregister = rig.during(rig.stream, THREAD_LOCAL, || cu!(rig, cuMemHostUnregister(page)));
    let broken = (900, 2, 901, 0);
    assert_eq!([free, unregister], [broken, broken]);
    ok!(rig, cuMemHostUnregister(page));
    ok!(rig, cuMemFreeHost(pinned));
}

fn a_wait_for_one_context_leaves_the_captures_of_another(rig: &Rig) {
    let other = rig.new_context();
    let outcomes = [GLOBAL, THREAD_LOCAL, RELAXED].map(|mode| {
        rig.during(rig.stream, mode, || rig.in_context(other, || cu!(rig, cuCtxSynchronize())))
    });
    ok!(rig, cuCtxDestroy_v2(other));
    assert_eq!(outcomes, [(0, 1, 0, 0); 3]);
}

fn the_end_of_the_primary_context_leaves_the_captures_of_another(subject: &Subject) {
    let driver = &subject.driver;
    let _primary: CUcontext = make!(driver, cuDevicePrimaryCtxRetain(0));
    let other: CUcontext = make!(driver, cuCtxCreate_v2(0, 0));
    let stream: CUstream = make!(driver, cuStreamCreate(1));
    ok!(driver, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(GLOBAL)));
    let release = cu!(driver, cuDevicePrimaryCtxRelease_v2(0));
    let (mut status, mut graph) = (CUstreamCaptureStatus(99), null_mut());
    ok!(driver, cuStreamIsCapturing(stream, &mut status));
    let end = cu!(driver, cuStreamEndCapture(stream, &mut graph));
    if end == 0 {
        ok!(driver, cuGraphDestroy(graph));
    }
    ok!(driver, cuCtxDestroy_v2(other));
    if release != 0 {
        ok!(driver, cuDevicePrimaryCtxRelease_v2(0));
    }
    assert_eq!((release, status.0, end), (0, 1, 0));
}

/// A fork of one kernel that the origin depends on by a programmatic edge alone, and behind it, if
/// asked, a kernel of the origin: the codes of the update and of the end.
fn joined_early(rig: &Rig, kernel_behind: bool) -> (u32, u32) {
    let (s, t) = (rig.stream, rig.other);
    let module = rig.module(PTX);
    let kernel = rig.function(module, "noarg");
    rig.begin(s, THREAD_LOCAL);
    assert_eq!(rig.launch(kernel, s, &mut []), 0);
    rig.link(s, t);
    assert_eq!(rig.launch(kernel, t, &mut []), 0);
    let (mut node, _) = dependency(rig, t);
    let early = CUgraphEdgeData { from_port: 1, type_: 1, ..Default::default() };
    let add = CU_STREAM_ADD_CAPTURE_DEPENDENCIES.0;
    let code = cu!(rig, cuStreamUpdateCaptureDependencies_v2(s, &mut node, &early, 1, add));
    if kernel_behind {
        assert_eq!(rig.launch(kernel, s, &mut []), 0);
    }
    let (end, _) = rig.end_and_count(s);
    ok!(rig, cuModuleUnload(module));
    (code, end)
}

fn a_programmatic_edge_alone_is_a_join(rig: &Rig) {
    assert_eq!(joined_early(rig, false), (0, 0));
}

fn a_kernel_behind_a_programmatic_edge_is_a_join(rig: &Rig) {
    assert_eq!(joined_early(rig, true), (0, 0));
}

fn dangerous_destruction_of_a_graph_under_capture(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, THREAD_LOCAL);
    assert_eq!(rig.fill(s), 0);
    let (_, graph) = dependency(rig, s);
    let code = cu!(rig, cuGraphDestroy(graph));
    let status = rig.status(s);
    assert_eq!((code, status, rig.end_and_count(s)), (401, 1, (0, 1)));
}

fn dangerous_destruction_of_a_node_under_capture(rig: &Rig) {
    let s = rig.stream;
    rig.begin(s, THREAD_LOCAL);
    assert_eq!(rig.fill(s), 0);
    let (node, _) = dependency(rig, s);
    let code = cu!(rig, cuGraphDestroyNode(node));
    let status = rig.status(s);
    assert_eq!((code, status, rig.end_and_count(s)), (401, 1, (0, 1)));
}

/// Guessed: as what a capture made for itself, also a node that no operation depends on.
fn dangerous_destruction_of_a_graph_of_the_program_under_capture(rig: &Rig) {
    let (s, graph) = (rig.stream, rig.new_graph());
    let mut node = null_mut();
    ok!(rig, cuGraphAddEmptyNode(&mut node, graph, null(), 0));
    let mode = CUstreamCaptureMode(THREAD_LOCAL);
    ok!(rig, cuStreamBeginCaptureToGraph(s, graph, null(), null(), 0, mode));
    let codes = [cu!(rig, cuGraphDestroy(graph)), cu!(rig, cuGraphDestroyNode(node))];
    let status = rig.status(s);
    assert_eq!((codes, status, rig.end_and_count(s)), ([401, 401], 1, (0, 1)));
}

/// The mark of a capture that is over breaks another capture, in which a node is to wait for the
/// event.
fn an_external_wait_for_an_event_of_an_ended_capture(rig: &Rig) {
    let waits = || {
        rig.begin(rig.stream, RELAXED);
        let code = cu!(rig, cuStreamWaitEvent(rig.stream, rig.event, 1));
        let status = rig.status(rig.stream);
        let (ended, graph) = rig.end(rig.stream);
        if ended == 0 {
            ok!(rig, cuGraphDestroy(graph));
        }
        (code, status, ended)
    };
    assert_eq!(waits(), (0, 1, 0));
    rig.begin(rig.stream, RELAXED);
    rig.record(rig.event, rig.stream);
    rig.end_and_count(rig.stream);
    assert_eq!(waits(), (1, 2, 901));
    rig.record(rig.event, rig.other);
    assert_eq!(waits(), (0, 1, 0));
}

/// A graph that waits for the rig's event, in a child graph if asked, and then fills a word.
fn waiting_graph(rig: &Rig, within: bool) -> CUgraph {
    let graph = rig.new_graph();
    let wait: CUgraphNode = if within {
        let inner = rig.new_graph();
        let _wait: CUgraphNode = make!(rig, cuGraphAddEventWaitNode(inner, null(), 0, rig.event));
        let node = make!(rig, cuGraphAddChildGraphNode(graph, null(), 0, inner));
        ok!(rig, cuGraphDestroy(inner));
        node
    } else {
        make!(rig, cuGraphAddEventWaitNode(graph, null(), 0, rig.event))
    };
    let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: rig.buffer,
        pitch: 0,
        value: 77,
        elementSize: 4,
        width: 1,
        height: 1,
    };
    let context = rig.context;
    let _fill: CUgraphNode = make!(rig, cuGraphAddMemsetNode(graph, &wait, 1, &fill, context));
    graph
}

/// The graph runs, and the stream of the launch is in the capture then, behind the event.
fn a_launch_joins_the_capture_of_an_event_that_it_waits_for(rig: &Rig) {
    let (s, origin) = (rig.stream, rig.new_stream(1));
    for (within, mode) in [(false, GLOBAL), (false, RELAXED), (true, GLOBAL), (true, RELAXED)] {
        let graph = waiting_graph(rig, within);
        let exec = rig.instantiate(graph);
        rig.fill_word(0, 1, s);
        rig.sync(s);
        rig.begin(origin, mode);
        rig.fill_word(1, 1, origin);
        assert_eq!(rig.record(rig.event, origin), 0);
        assert_eq!(cu!(rig, cuGraphLaunch(exec, s)), 0);
        let (node, captured) = dependency(rig, s);
        assert_eq!((node, captured), dependency(rig, origin));
        rig.fill_word(2, 1, s);
        assert_eq!(rig.shape(captured), "2 2 | 0>1");
        assert_eq!(cu!(rig, cuGraphLaunch(exec, s)), 900);
        assert_eq!([rig.status(s), rig.status(origin)], [2, 2]);
        assert_eq!((rig.end(origin).0, rig.status(s)), (901, 0));
        rig.sync(s);
        assert_eq!(rig.read_word(0), 77);
        rig.release(graph, exec);
    }
    ok!(rig, cuStreamDestroy_v2(origin));
}

fn a_launch_joins_no_capture_that_is_over_or_broken(rig: &Rig) {
    let (s, origin) = (rig.stream, rig.new_stream(1));
    for broken in [false, true] {
        let graph = waiting_graph(rig, false);
        let exec = rig.instantiate(graph);
        rig.begin(origin, RELAXED);
        rig.fill_word(1, 1, origin);
        assert_eq!(rig.record(rig.event, origin), 0);
        if broken {
            break_capture(rig, origin);
        } else {
            rig.end_and_count(origin);
        }
        assert_eq!(cu!(rig, cuGraphLaunch(exec, s)), 0);
        assert_eq!([rig.status(s), rig.status(origin)], [0, if broken { 2 } else { 0 }]);
        if broken {
            assert_eq!(rig.end(origin).0, 901);
        }
        rig.sync(s);
        rig.release(graph, exec);
    }
    ok!(rig, cuStreamDestroy_v2(origin));
}
