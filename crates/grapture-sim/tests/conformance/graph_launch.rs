//! What launches of graphs do, and in which order.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::{Counter, Gate, Journal, Line};
use crate::rig::{GLOBAL, Rig, THREAD_LOCAL};

tiers! {
    both {
        a_replay_does_what_was_captured,
        a_captured_copy_reads_its_source_at_the_launch,
        nodes_run_after_those_they_depend_on,
        a_launch_waits_for_the_stream_and_for_the_launch_before,
        a_launch_outlives_its_executable_and_its_graph,
        a_child_graph_runs_between_its_neighbours,
        an_empty_graph_keeps_the_order_of_its_stream,
        executables_take_new_parameters,
        events_in_graphs,
        memory_of_a_graph_lives_during_its_launches,
    }
}

fn note(rig: &Rig, stream: CUstream, line: &Line<'_>) {
    ok!(rig, cuLaunchHostFunc(stream, Some(Line::write), line.argument()));
}

fn a_replay_does_what_was_captured(rig: &Rig) {
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
    rig.release(graph, exec);
    ok!(rig, cuMemFreeHost(pinned));
}

fn a_captured_copy_reads_its_source_at_the_launch(rig: &Rig) {
    let mut pageable = Box::new([1u32]);
    rig.begin(rig.stream, GLOBAL);
    ok!(rig, cuMemcpyHtoDAsync_v2(rig.buffer, pageable.as_ptr().cast(), 4, rig.stream));
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    pageable[0] = 2;
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    rig.sync(rig.stream);
    assert_eq!(rig.read_word(0), 2);
    rig.release(graph, exec);
}

fn nodes_run_after_those_they_depend_on(rig: &Rig) {
    let journal = Journal::default();
    let lines: Vec<Line> = (0..5).map(|number| Line { journal: &journal, number }).collect();
    let (s, t) = (rig.stream, rig.other);
    rig.begin(s, GLOBAL);
    note(rig, s, &lines[0]);
    rig.link(s, t);
    note(rig, t, &lines[1]);
    note(rig, s, &lines[2]);
    rig.link(t, s);
    note(rig, s, &lines[3]);
    let graph = rig.end_good(s);
    let exec = rig.instantiate(graph);
    let before = |order: &[usize], first, second| {
        let place = |line| order.iter().position(|l| *l == line).expect("the line was written");
        place(first) < place(second)
    };
    let mut orders = std::collections::BTreeSet::new();
    for _ in 0..200 {
        ok!(rig, cuGraphLaunch(exec, s));
        note(rig, s, &lines[4]);
        rig.sync(s);
        let order: Vec<usize> = journal.take();
        assert_eq!(order.len(), 5);
        for (first, second) in [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)] {
            assert!(before(&order, first, second), "{order:?}");
        }
        orders.insert(order);
    }
    rig.on_simulation(|_| assert_eq!(orders.len(), 2, "both branches come first at times"));
    rig.release(graph, exec);
}

fn a_launch_waits_for_the_stream_and_for_the_launch_before(rig: &Rig) {
    let gate = Gate::new();
    rig.begin(rig.blocking, GLOBAL);
    rig.fill_word(0, 9, rig.blocking);
    let graph = rig.end_good(rig.blocking);
    let exec = rig.instantiate(graph);
    gate.put_on(rig, rig.stream);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    // Another stream, which nothing holds: but the executable is never concurrent with itself.
    ok!(rig, cuGraphLaunch(exec, rig.other));
    rig.sync(rig.blocking);
    gate.wait_reached();
    for stream in [rig.stream, rig.other] {
        assert_eq!(cu!(rig, cuStreamQuery(stream)), 600);
    }
    assert_eq!(rig.read_word(0), 0);
    gate.open();
    rig.sync(rig.other);
    rig.sync(rig.stream);
    assert_eq!(rig.read_word(0), 9);
    rig.release(graph, exec);
}

fn a_launch_outlives_its_executable_and_its_graph(rig: &Rig) {
    let gate = Gate::new();
    rig.begin(rig.stream, GLOBAL);
    gate.put_on(rig, rig.stream);
    rig.fill_word(3, 4, rig.stream);
    let graph = rig.end_good(rig.stream);
    let exec = rig.instantiate(graph);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    gate.wait_reached();
    rig.release(graph, exec);
    gate.open();
    rig.sync(rig.stream);
    assert_eq!(rig.read_word(3), 4);
}

fn a_child_graph_runs_between_its_neighbours(rig: &Rig) {
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
    rig.release(parent, exec);
}

fn an_empty_graph_keeps_the_order_of_its_stream(rig: &Rig) {
    let gate = Gate::new();
    let graph = rig.new_graph();
    let exec = rig.instantiate(graph);
    gate.put_on(rig, rig.stream);
    ok!(rig, cuGraphLaunch(exec, rig.stream));
    assert_eq!(cu!(rig, cuStreamQuery(rig.stream)), 600);
    gate.open();
    rig.sync(rig.stream);
    rig.release(graph, exec);
}

fn executables_take_new_parameters(rig: &Rig) {
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
    rig.release(graph, exec);
}

fn events_in_graphs(rig: &Rig) {
    let gate = Gate::new();
    let (graph, done) = (rig.new_graph(), rig.new_event());
    let (mut wait, mut record) = (null_mut(), null_mut());
    ok!(rig, cuGraphAddEventWaitNode(&mut wait, graph, null(), 0, rig.event));
    ok!(rig, cuGraphAddEventRecordNode(&mut record, graph, &wait, 1, done));
    let exec = rig.instantiate(graph);
    gate.put_on(rig, rig.other);
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
    rig.release(graph, exec);
}

fn memory_of_a_graph_lives_during_its_launches(rig: &Rig) {
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
    rig.on_simulation(|sim| assert_eq!(sim.live().device_allocations, 1));
    rig.release(graph, exec);
}
