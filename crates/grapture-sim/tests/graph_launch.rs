//! What launches of graphs do, and in which order.

mod capture_support;

use std::ptr::{null, null_mut};

use capture_support::*;
use grapture_sys::*;

fn release(rig: &Rig, graph: CUgraph, exec: CUgraphExec) {
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
}

fn hold(rig: &Rig, stream: CUstream, gate: &Gate) {
    ok!(rig, cuLaunchHostFunc(stream, Some(Gate::pass), gate.argument()));
}

fn note(rig: &Rig, stream: CUstream, line: &Line<'_>) {
    ok!(rig, cuLaunchHostFunc(stream, Some(Line::write), line.argument()));
}

#[test]
fn a_replay_does_what_was_captured() {
    let rig = Rig::new();
    let (s, b) = (rig.stream, rig.buffer);
    let mut pinned = null_mut();
    ok!(rig, cuMemHostAlloc(&mut pinned, 64, 0));
    let words = pinned.cast::<u32>();
    let counter = Counter::default();
    rig.begin(s, THREAD_LOCAL);
    ok!(rig, cuMemcpyHtoDAsync_v2(b, pinned, 16, s));
    ok!(rig, cuMemcpyDtoDAsync_v2(b + 16, b, 16, s));
    rig.fill_word(5, 77, s);
    ok!(rig, cuMemcpyDtoHAsync_v2(words.wrapping_add(4).cast(), b + 16, 16, s));
    ok!(rig, cuLaunchHostFunc(s, Some(Counter::count), counter.argument()));
    let graph = rig.end_good(s);
    let exec = rig.instantiate(graph);
    for round in 1..=3u32 {
        for index in 0..4 {
            let word = words.wrapping_add(index);
            // SAFETY: the buffer has 16 words and no launch is in flight.
            unsafe { word.write(round * 10 + index as u32) };
        }
        ok!(rig, cuGraphLaunch(exec, s));
        rig.sync(s);
        let read = |index| {
            let word = words.wrapping_add(index);
            // SAFETY: as above.
            unsafe { word.read() }
        };
        assert_eq!([4, 5, 6, 7].map(read), [round * 10, 77, round * 10 + 2, round * 10 + 3]);
        assert_eq!(counter.get(), round as usize);
    }
    release(&rig, graph, exec);
    ok!(rig, cuMemFreeHost(pinned));
    rig.close();
}

#[test]
fn a_captured_copy_reads_its_source_at_the_launch() {
    let rig = Rig::new();
    let mut pageable = Box::new([1u32]);
    rig.begin(rig.stream, GLOBAL);
    ok!(rig, cuMemcpyHtoDAsync_v2(rig.buffer, pageable.as_ptr().cast(), 4, rig.stream));
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    pageable[0] = 2;
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!(rig.read_word(0), 2);
    release(&rig, graph, exec);
    rig.close();
}

#[test]
fn nodes_run_after_those_they_depend_on() {
    let rig = Rig::new();
    let journal = Journal::default();
    let lines: Vec<Line> = (0..5).map(|number| Line { journal: &journal, number }).collect();
    let (s, t) = (rig.stream, rig.other);
    rig.begin(s, GLOBAL);
    note(&rig, s, &lines[0]);
    rig.link(s, t);
    note(&rig, t, &lines[1]);
    note(&rig, s, &lines[2]);
    rig.link(t, s);
    note(&rig, s, &lines[3]);
    let graph = rig.end_good(s);
    let exec = rig.instantiate(graph);
    let before = |order: &[usize], first, second| {
        let place = |line| order.iter().position(|l| *l == line).expect("the line was written");
        place(first) < place(second)
    };
    let mut orders = std::collections::BTreeSet::new();
    for _ in 0..200 {
        ok!(rig, cuGraphLaunch(exec, s));
        note(&rig, s, &lines[4]);
        rig.sync(s);
        let order: Vec<usize> = journal.take();
        assert_eq!(order.len(), 5);
        for (first, second) in [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)] {
            assert!(before(&order, first, second), "{order:?}");
        }
        orders.insert(order);
    }
    assert_eq!(orders.len(), 2, "both branches come first at times");
    release(&rig, graph, exec);
    rig.close();
}

#[test]
fn a_launch_waits_for_the_stream_and_for_the_launch_before() {
    let rig = Rig::new();
    let gate = Gate::default();
    rig.begin(rig.blocking, GLOBAL);
    rig.fill_word(0, 9, rig.blocking);
    let graph = rig.end_good(rig.blocking);
    let exec = rig.instantiate(graph);
    hold(&rig, rig.stream, &gate);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    // Another stream, which nothing holds: but the executable is never concurrent with itself.
    ok!(rig, cuGraphLaunch(exec, rig.other));
    rig.sync(rig.blocking);
    assert!(wait_for(|| gate.is_reached()));
    for stream in [rig.stream, rig.other] {
        assert_eq!(cu!(rig, cuStreamQuery(stream)), 600);
    }
    assert_eq!(rig.read_word(0), 0);
    gate.open();
    rig.sync(rig.other);
    rig.sync(rig.stream);
    assert_eq!(rig.read_word(0), 9);
    release(&rig, graph, exec);
    rig.close();
}

#[test]
fn a_launch_outlives_its_executable_and_its_graph() {
    let rig = Rig::new();
    let gate = Gate::default();
    rig.begin(rig.stream, GLOBAL);
    hold(&rig, rig.stream, &gate);
    rig.fill_word(3, 4, rig.stream);
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    assert!(wait_for(|| gate.is_reached()));
    release(&rig, graph, exec);
    gate.open();
    rig.sync(rig.stream);
    assert_eq!(rig.read_word(3), 4);
    rig.close();
}

fn user_object(rig: &Rig, counter: &Counter) -> CUuserObject {
    let mut object = null_mut();
    let destroy = Some(Counter::count as unsafe extern "C" fn(*mut std::ffi::c_void));
    ok!(rig, cuUserObjectCreate(&mut object, counter.argument(), destroy, 1, 1));
    object
}

#[test]
fn user_objects_end_after_the_last_launch_that_needs_them() {
    let rig = Rig::new();
    let (gate, counter) = (Gate::default(), Counter::default());
    rig.begin(rig.stream, GLOBAL);
    hold(&rig, rig.stream, &gate);
    let graph = rig.end_good(rig.stream);
    let object = user_object(&rig, &counter);
    ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
    let mut clone = null_mut();
    ok!(rig, cuGraphClone(&mut clone, graph));
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphDestroy(clone));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    assert!(wait_for(|| gate.is_reached()));
    ok!(rig, cuGraphExecDestroy(exec));
    assert_eq!((counter.get(), rig.sim.live().user_objects), (0, 1), "the launch holds it");
    gate.open();
    assert!(wait_for(|| counter.get() == 1));
    rig.close();
    assert_eq!(counter.get(), 1);
}

#[test]
fn user_objects_are_counted() {
    let rig = Rig::new();
    let counter = Counter::default();
    let object = user_object(&rig, &counter);
    let graph = rig.new_graph();
    for count in [0, 1 << 31] {
        assert_eq!(cu!(rig, cuUserObjectRetain(object, count)), 1);
        assert_eq!(cu!(rig, cuUserObjectRelease(object, count)), 1);
        assert_eq!(cu!(rig, cuGraphRetainUserObject(graph, object, count, 0)), 1);
    }
    ok!(rig, cuUserObjectRetain(object, 2));
    ok!(rig, cuGraphRetainUserObject(graph, object, 2, 0));
    assert_eq!(cu!(rig, cuGraphReleaseUserObject(graph, object, 3)), 1);
    ok!(rig, cuGraphReleaseUserObject(graph, object, 1));
    ok!(rig, cuUserObjectRelease(object, 3));
    assert_eq!(counter.get(), 0, "the graph holds one");
    ok!(rig, cuGraphDestroy(graph));
    assert_eq!(counter.get(), 1);
    assert_eq!(cu!(rig, cuUserObjectRetain(object, 1)), 1, "it is gone");
    let mut other = null_mut();
    let destroy = Some(Counter::count as unsafe extern "C" fn(*mut std::ffi::c_void));
    let mut create = |destroy, references, flags| {
        cu!(rig, cuUserObjectCreate(&mut other, counter.argument(), destroy, references, flags))
    };
    assert_eq!((create(None, 1, 1), create(destroy, 0, 1), create(destroy, 1, 0)), (1, 1, 1));
    rig.close();
}

#[test]
fn what_a_program_leaves_behind_is_not_destroyed() {
    let counter = Counter::default();
    let rig = Rig::new();
    let graph = rig.new_graph();
    ok!(rig, cuGraphRetainUserObject(graph, user_object(&rig, &counter), 1, 1));
    rig.instantiate(graph);
    drop(rig);
    assert_eq!(counter.get(), 0);
}

/// What a destructor was told when it called the driver.
struct Nested {
    functions: Functions,
    code: std::sync::atomic::AtomicU32,
}

impl Nested {
    unsafe extern "C" fn call(argument: *mut std::ffi::c_void) {
        // SAFETY: the test passes a value that outlives the object.
        let nested = unsafe { &*argument.cast::<Nested>() };
        let mut graph = null_mut();
        // SAFETY: the out-pointer is a live local.
        let code = unsafe { (nested.functions.cuGraphCreate)(&mut graph, 0) };
        nested.code.store(code.0, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn destructors_run_without_a_lock_and_may_not_call_the_driver() {
    let rig = Rig::new();
    type Give = fn(&Rig, CUuserObject);
    let ways: [Give; 5] = [
        |rig, object| ok!(rig, cuUserObjectRelease(object, 1)),
        |rig, object| {
            let graph = rig.new_graph();
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            ok!(rig, cuGraphReleaseUserObject(graph, object, 1));
            ok!(rig, cuGraphDestroy(graph));
        },
        |rig, object| {
            let graph = rig.new_graph();
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            ok!(rig, cuGraphDestroy(graph));
        },
        |rig, object| {
            let graph = rig.new_graph();
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            let exec = rig.instantiate(graph);
            ok!(rig, cuGraphLaunch(exec, rig.stream));
            release(rig, graph, exec);
        },
        |rig, object| {
            // The capture ends with its stream, and its graph with it.
            let stream = rig.new_stream(1);
            rig.begin(stream, GLOBAL);
            let mut status = CUstreamCaptureStatus(0);
            let (mut graph, nodes, count) = (null_mut(), null_mut(), null_mut());
            let id = null_mut();
            ok!(rig, cuStreamGetCaptureInfo_v2(stream, &mut status, id, &mut graph, nodes, count));
            ok!(rig, cuGraphRetainUserObject(graph, object, 1, 1));
            ok!(rig, cuStreamDestroy_v2(stream));
        },
    ];
    for give in ways {
        let nested = Nested { functions: *rig.driver.functions(), code: 9999.into() };
        let argument = std::ptr::from_ref(&nested).cast_mut().cast();
        let mut object = null_mut();
        ok!(rig, cuUserObjectCreate(&mut object, argument, Some(Nested::call), 1, 1));
        give(&rig, object);
        let code = || nested.code.load(std::sync::atomic::Ordering::SeqCst);
        assert!(wait_for(|| code() != 9999), "the destructor ran");
        assert_eq!(code(), 800);
    }
    rig.close();
}

#[test]
fn an_update_replaces_user_objects_once_launches_are_over() {
    let rig = Rig::new();
    let (gate, old, new) = (Gate::default(), Counter::default(), Counter::default());
    let capture = |counter: &Counter| {
        rig.begin(rig.stream, GLOBAL);
        hold(&rig, rig.stream, &gate);
        let graph = rig.end_good(rig.stream);
        ok!(rig, cuGraphRetainUserObject(graph, user_object(&rig, counter), 1, 1));
        graph
    };
    let (first, second) = (capture(&old), capture(&new));
    let exec = rig.instantiate(first);
    ok!(rig, cuGraphDestroy(first));
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(rig, cuGraphExecUpdate_v2(exec, second, &mut info));
    ok!(rig, cuGraphDestroy(second));
    assert_eq!((old.get(), new.get()), (0, 0));
    gate.open();
    assert!(wait_for(|| old.get() == 1), "the launch was the last to hold it");
    ok!(rig, cuGraphExecDestroy(exec));
    assert!(wait_for(|| new.get() == 1));
    rig.close();
}

#[test]
fn a_child_graph_runs_between_its_neighbours() {
    let rig = Rig::new();
    let journal = Journal::default();
    let lines: Vec<Line> = (0..4).map(|number| Line { journal: &journal, number }).collect();
    let add = |graph, after: &[CUgraphNode], line: &Line<'_>| {
        let params = CUDA_HOST_NODE_PARAMS_v1 { fn_: Some(Line::write), userData: line.argument() };
        let mut node = null_mut();
        ok!(rig, cuGraphAddHostNode(&mut node, graph, after.as_ptr(), after.len(), &params));
        node
    };
    let (parent, child) = (rig.new_graph(), rig.new_graph());
    let inner = add(child, &[], &lines[1]);
    add(child, &[inner], &lines[2]);
    let first = add(parent, &[], &lines[0]);
    let mut embedded = null_mut();
    ok!(rig, cuGraphAddChildGraphNode(&mut embedded, parent, &first, 1, child));
    add(parent, &[embedded], &lines[3]);
    ok!(rig, cuGraphDestroy(child));
    let exec = rig.instantiate(parent);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!(journal.take(), [0, 1, 2, 3]);
    release(&rig, parent, exec);
    rig.close();
}

#[test]
fn an_empty_graph_keeps_the_order_of_its_stream() {
    let rig = Rig::new();
    let gate = Gate::default();
    let graph = rig.new_graph();
    let exec = rig.instantiate(graph);
    hold(&rig, rig.stream, &gate);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    assert_eq!(cu!(rig, cuStreamQuery(rig.stream)), 600);
    gate.open();
    rig.sync(rig.stream);
    release(&rig, graph, exec);
    rig.close();
}

#[test]
fn executables_take_new_parameters() {
    let rig = Rig::new();
    let (s, b) = (rig.stream, rig.buffer);
    rig.begin(s, GLOBAL);
    rig.fill_word(0, 1, s);
    ok!(rig, cuMemcpyDtoDAsync_v2(b + 4, b, 4, s));
    let graph = rig.end_good(s);
    let nodes = rig.nodes(graph);
    let exec = rig.instantiate(graph);
    let mut fill = CUDA_MEMSET_NODE_PARAMS_v1::default();
    ok!(rig, cuGraphMemsetNodeGetParams(nodes[0], &mut fill));
    fill.value = 2;
    ok!(rig, cuGraphExecMemsetNodeSetParams(exec, nodes[0], &fill, rig.context));
    let mut copy = CUDA_MEMCPY3D_v2::default();
    ok!(rig, cuGraphMemcpyNodeGetParams(nodes[1], &mut copy));
    copy.dstDevice = b + 8;
    ok!(rig, cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, rig.context));
    ok!(rig, cuGraphLaunch(exec, s));
    rig.sync(s);
    assert_eq!([0, 1, 2].map(|word| rig.read_word(word)), [2, 0, 2]);
    let mut kept = CUDA_MEMSET_NODE_PARAMS_v1::default();
    ok!(rig, cuGraphMemsetNodeGetParams(nodes[0], &mut kept));
    assert_eq!(kept.value, 1, "the graph keeps its own");

    ok!(rig, cuGraphNodeSetEnabled(exec, nodes[1], 0));
    fill.value = 3;
    ok!(rig, cuGraphExecMemsetNodeSetParams(exec, nodes[0], &fill, rig.context));
    ok!(rig, cuGraphLaunch(exec, s));
    rig.sync(s);
    assert_eq!([0, 2].map(|word| rig.read_word(word)), [3, 2], "a node that is off does nothing");
    let mut enabled = 9;
    ok!(rig, cuGraphNodeGetEnabled(exec, nodes[1], &mut enabled));
    assert_eq!(enabled, 0);

    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info));
    ok!(rig, cuGraphLaunch(exec, s));
    rig.sync(s);
    assert_eq!([0, 1].map(|word| rig.read_word(word)), [1, 0], "it stays off");
    release(&rig, graph, exec);
    rig.close();
}

#[test]
fn events_in_graphs() {
    let rig = Rig::new();
    let gate = Gate::default();
    let (graph, done) = (rig.new_graph(), rig.new_event());
    let (mut wait, mut record) = (null_mut(), null_mut());
    ok!(rig, cuGraphAddEventWaitNode(&mut wait, graph, null(), 0, rig.event));
    ok!(rig, cuGraphAddEventRecordNode(&mut record, graph, &wait, 1, done));
    let exec = rig.instantiate(graph);
    hold(&rig, rig.other, &gate);
    assert_eq!(rig.record(rig.event, rig.other), 0);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    assert_eq!(cu!(rig, cuEventQuery(done)), 600);
    gate.open();
    ok!(rig, cuEventSynchronize(done));
    rig.sync(rig.stream);
    let mut told = null_mut();
    ok!(rig, cuGraphEventRecordNodeGetEvent(record, &mut told));
    assert_eq!(told, done);
    ok!(rig, cuEventDestroy_v2(done));
    release(&rig, graph, exec);
    rig.close();
}

#[test]
fn memory_of_a_graph_lives_during_its_launches() {
    let rig = Rig::new();
    let (s, b) = (rig.stream, rig.buffer);
    rig.begin(s, GLOBAL);
    let mut address = 0;
    ok!(rig, cuMemAllocAsync(&mut address, 1000, s));
    ok!(rig, cuMemsetD32Async(address, 6, 250, s));
    ok!(rig, cuMemcpyDtoDAsync_v2(b, address, 1000, s));
    ok!(rig, cuMemFreeAsync(address, s));
    let graph = rig.end_good(s);
    assert_eq!(rig.shape(graph), "10 2 1 11 | 0>1 1>2 2>3");
    let exec = rig.instantiate(graph);
    for _ in 0..2 {
        ok!(rig, cuGraphLaunch(exec, s));
    }
    rig.sync(s);
    assert_eq!([0, 249, 250].map(|word| rig.read_word(word)), [6, 6, 0]);
    assert_eq!(rig.sim.live().device_allocations, 1);
    release(&rig, graph, exec);
    rig.close();
}
