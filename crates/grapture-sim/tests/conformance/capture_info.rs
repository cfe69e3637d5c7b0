//! What a capture tells of itself, in each version of the question, and how its dependencies are
//! changed.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{GLOBAL, NULL_STREAM, PTX, RELAXED, Rig, per_thread};
use crate::transcript::saw;

/// What the newest question answers: the code, the status, whether there is a graph, and how many
/// dependencies. What is not written stays as it was.
fn info(rig: &Rig, stream: CUstream) -> Vec<CUgraphNode> {
    let mut status = CUstreamCaptureStatus(99);
    let (mut id, mut graph, mut nodes, mut edges, mut count) = (0, null_mut(), null(), null(), 99);
    let code = cu!(
        rig,
        cuStreamGetCaptureInfo_v3(
            stream,
            &mut status,
            &mut id,
            &mut graph,
            &mut nodes,
            &mut edges,
            &mut count
        )
    );
    saw("status", status.0);
    saw("id, graph, count", (id != 0, !graph.is_null(), count));
    if code != 0 || status.0 != 1 {
        return Vec::new();
    }
    // SAFETY: the driver said how many nodes stand there until the next question about the stream.
    unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec()
}

fn id(rig: &Rig, stream: CUstream) -> u64 {
    let (mut status, mut id) = (CUstreamCaptureStatus(99), 0);
    cu!(rig, cuStreamGetCaptureInfo(stream, &mut status, &mut id));
    id
}

fn update(rig: &Rig, stream: CUstream, nodes: &mut [CUgraphNode], flags: u32) -> u32 {
    let at = nodes.as_mut_ptr();
    cu!(rig, cuStreamUpdateCaptureDependencies(stream, at, nodes.len(), flags))
}

/// A capture on the rig's stream of some fills, then the case, then its end.
fn capturing(rig: &Rig, fills: usize, case: impl FnOnce()) {
    rig.begin(rig.stream, GLOBAL);
    for _ in 0..fills {
        ok!(rig, cuMemsetD32Async(rig.buffer, 7, 1, rig.stream));
    }
    case();
    let (_, graph) = rig.end(rig.stream);
    if !graph.is_null() {
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
}

const ADD: u32 = 0;
const SET: u32 = 1;

rules! { both;
    a_stream_that_does_not_capture_tells_its_status(rig) {
        info(rig, rig.stream);
        info(rig, NULL_STREAM);
        info(rig, per_thread());
    }
    an_empty_capture_depends_on_nothing(rig) {
        capturing(rig, 0, || drop(info(rig, rig.stream)));
    }
    a_capture_depends_on_its_last_node(rig) {
        capturing(rig, 2, || drop(info(rig, rig.stream)));
    }
    a_fork_depends_on_what_it_waited_for(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            let nodes = info(rig, rig.other);
            saw("same", nodes == info(rig, rig.stream));
        });
    }
    the_streams_of_a_capture_have_its_id(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            saw("same", id(rig, rig.stream) == id(rig, rig.other));
        });
    }
    each_capture_has_an_id_of_its_own(rig) {
        let mut ids = Vec::new();
        for _ in 0..2 {
            capturing(rig, 0, || ids.push(id(rig, rig.stream)));
        }
        saw("rises", ids[0] < ids[1]);
    }
    the_oldest_question_needs_a_status_alone(rig) {
        capturing(rig, 0, || {
            let mut status = CUstreamCaptureStatus(99);
            cu!(rig, cuStreamGetCaptureInfo(rig.stream, &mut status, null_mut()));
            saw("status", status.0);
        });
    }
    the_second_question_is_answered_in_part(rig) {
        capturing(rig, 1, || {
            let s = rig.stream;
            let (mut status, mut graph) = (CUstreamCaptureStatus(99), null_mut());
            let (id, none) = (null_mut(), null_mut());
            cu!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, id, &mut graph, none, null_mut()));
            saw("graph", !graph.is_null());
            let mut count = 99;
            cu!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, id, null_mut(), none, &mut count));
            saw("count", count);
        });
    }
    the_graph_under_capture_grows(rig) {
        capturing(rig, 1, || {
            let mut graph = null_mut();
            let mut status = CUstreamCaptureStatus(99);
            let (s, none) = (rig.stream, null_mut());
            ok!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, none, &mut graph, null_mut(), null_mut()));
            saw("nodes", rig.nodes(graph).len());
            rig.fill(s);
            saw("nodes", rig.nodes(graph).len());
        });
    }
    a_broken_capture_tells_nothing_more(rig) {
        capturing(rig, 1, || {
            rig.query(rig.stream);
            info(rig, rig.stream);
            id(rig, rig.stream);
        });
    }
    dependencies_are_added(rig) {
        capturing(rig, 1, || {
            let mut first = info(rig, rig.stream);
            rig.fill(rig.stream);
            update(rig, rig.stream, &mut first, ADD);
            info(rig, rig.stream);
            rig.fill(rig.stream);
        });
    }
    dependencies_are_added_once(rig) {
        capturing(rig, 1, || {
            let mut nodes = info(rig, rig.stream);
            update(rig, rig.stream, &mut nodes, ADD);
            info(rig, rig.stream);
        });
    }
    dependencies_are_given_twice(rig) {
        capturing(rig, 1, || {
            let node = info(rig, rig.stream)[0];
            update(rig, rig.stream, &mut [node, node], SET);
            info(rig, rig.stream);
        });
    }
    dependencies_are_replaced(rig) {
        capturing(rig, 1, || {
            let mut first = info(rig, rig.stream);
            rig.fill(rig.stream);
            update(rig, rig.stream, &mut first, SET);
            info(rig, rig.stream);
            rig.fill(rig.stream);
        });
    }
    dependencies_are_dropped(rig) {
        capturing(rig, 1, || {
            update(rig, rig.stream, &mut [], SET);
            info(rig, rig.stream);
            rig.fill(rig.stream);
        });
    }
    nothing_is_added(rig) {
        capturing(rig, 1, || {
            update(rig, rig.stream, &mut [], ADD);
            info(rig, rig.stream);
        });
    }
    dependencies_have_two_flags(rig) {
        capturing(rig, 1, || {
            let mut nodes = info(rig, rig.stream);
            for flags in [2, 3, 4, 0x8000_0000] {
                update(rig, rig.stream, &mut nodes, flags);
            }
        });
    }
    dependencies_of_no_capture(rig) {
        update(rig, rig.stream, &mut [], SET);
        update(rig, rig.stream, &mut [], ADD);
        update(rig, rig.stream, &mut [], 9);
        update(rig, NULL_STREAM, &mut [], SET);
    }
    no_dependencies_where_some_are_said(rig) {
        capturing(rig, 1, || {
            cu!(rig, cuStreamUpdateCaptureDependencies(rig.stream, null_mut(), 1, SET));
            cu!(rig, cuStreamUpdateCaptureDependencies(rig.stream, null_mut(), 1, ADD));
        });
    }
    a_dependency_that_is_null(rig) {
        capturing(rig, 1, || {
            update(rig, rig.stream, &mut [null_mut()], SET);
            update(rig, rig.stream, &mut [null_mut()], ADD);
            info(rig, rig.stream);
        });
    }
    a_dependency_of_another_graph(rig) {
        let graph = rig.new_graph_of_one_fill();
        let mut node = rig.nodes(graph);
        capturing(rig, 1, || {
            update(rig, rig.stream, &mut node, SET);
            update(rig, rig.stream, &mut node, ADD);
            info(rig, rig.stream);
        });
        ok!(rig, cuGraphDestroy(graph));
    }
    a_dependency_that_the_program_added(rig) {
        capturing(rig, 1, || {
            let (s, none) = (rig.stream, null_mut());
            let (mut status, mut graph) = (CUstreamCaptureStatus(9), null_mut());
            ok!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, none, &mut graph, null_mut(), null_mut()));
            let mut node = null_mut();
            cu!(rig, cuGraphAddEmptyNode(&mut node, graph, null(), 0));
            update(rig, s, &mut [node], ADD);
            info(rig, s);
            rig.fill(s);
        });
    }
    a_node_that_the_program_added_needs_no_join(rig) {
        capturing(rig, 1, || {
            let (s, none) = (rig.stream, null_mut());
            let (mut status, mut graph) = (CUstreamCaptureStatus(9), null_mut());
            ok!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, none, &mut graph, null_mut(), null_mut()));
            cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, null(), 0));
        });
    }
    a_node_that_the_program_added_joins_what_it_waits_for(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            rig.fill(rig.other);
            let theirs = info(rig, rig.other);
            let (s, none) = (rig.stream, null_mut());
            let (mut status, mut graph) = (CUstreamCaptureStatus(9), null_mut());
            ok!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, none, &mut graph, null_mut(), null_mut()));
            cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, theirs.as_ptr(), theirs.len()));
        });
    }
    a_broken_capture_has_its_graph_until_the_end(rig) {
        rig.begin(rig.stream, RELAXED);
        rig.fill(rig.stream);
        let set = info(rig, rig.stream);
        let (s, none) = (rig.stream, null_mut());
        let (mut status, mut graph) = (CUstreamCaptureStatus(9), null_mut());
        ok!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, none, &mut graph, null_mut(), null_mut()));
        rig.elsewhere(GLOBAL, || rig.query(rig.stream));
        let mut node = null_mut();
        cu!(rig, cuGraphAddEmptyNode(&mut node, graph, set.as_ptr(), set.len()));
        rig.shape(graph);
        update(rig, s, &mut [node], SET);
        rig.end(s);
        let mut count = 0;
        cu!(rig, cuGraphGetNodes(graph, null_mut(), &mut count));
    }
    what_the_origin_waited_for_and_drops_needs_no_join(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            rig.fill(rig.other);
            rig.link(rig.other, rig.stream);
            update(rig, rig.stream, &mut [], SET);
        });
    }
    what_a_fork_drops_needs_no_join(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            rig.fill(rig.other);
            update(rig, rig.other, &mut [], SET);
        });
    }
    what_a_fork_keeps_needs_a_join(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            let mut first = info(rig, rig.other);
            rig.fill(rig.other);
            update(rig, rig.other, &mut first, ADD);
        });
    }
    the_origin_joins_by_an_update(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            rig.fill(rig.other);
            let mut theirs = info(rig, rig.other);
            update(rig, rig.stream, &mut theirs, ADD);
        });
    }
    the_origin_joins_by_a_replacement(rig) {
        capturing(rig, 1, || {
            rig.link(rig.stream, rig.other);
            rig.fill(rig.stream);
            rig.fill(rig.other);
            let mut theirs = info(rig, rig.other);
            update(rig, rig.stream, &mut theirs, SET);
        });
    }
    a_question_that_would_lose_edge_data(rig) {
        let module = rig.module(PTX);
        let kernel = rig.function(module, "noarg");
        capturing(rig, 0, || {
            rig.launch(kernel, rig.stream, &mut []);
            let mut node = info(rig, rig.stream);
            let early = CUgraphEdgeData { from_port: 1, type_: 1, ..Default::default() };
            let (s, at) = (rig.stream, node.as_mut_ptr());
            cu!(rig, cuStreamUpdateCaptureDependencies_v2(s, at, &early, 1, SET));
            let mut status = CUstreamCaptureStatus(99);
            let (mut nodes, mut count, none) = (null(), 99, null_mut());
            cu!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, null_mut(), none, &mut nodes, &mut count));
            cu!(rig, cuStreamGetCaptureInfo_v2(s, &mut status, null_mut(), none, null_mut(), &mut count));
            cu!(rig, cuStreamGetCaptureInfo_v3(s, &mut status, null_mut(), none, &mut nodes, null_mut(), &mut count));
            cu!(rig, cuStreamGetCaptureInfo(s, &mut status, null_mut()));
            info(rig, s);
            rig.launch(kernel, s, &mut []);
        });
        ok!(rig, cuModuleUnload(module));
    }
    edge_data_that_makes_no_sense(rig) {
        capturing(rig, 1, || {
            let mut node = info(rig, rig.stream);
            let (s, at) = (rig.stream, node.as_mut_ptr());
            for (from_port, to_port, type_) in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 0, 9), (3, 0, 0)] {
                let data = CUgraphEdgeData { from_port, to_port, type_, ..Default::default() };
                saw("edge", (from_port, to_port, type_));
                cu!(rig, cuStreamUpdateCaptureDependencies_v2(s, at, &data, 1, SET));
            }
            let mut data = CUgraphEdgeData::default();
            data.reserved[0] = 1;
            cu!(rig, cuStreamUpdateCaptureDependencies_v2(s, at, &data, 1, SET));
        });
    }
    a_relaxed_capture_is_changed_by_another_thread(rig) {
        rig.begin(rig.stream, RELAXED);
        rig.fill(rig.stream);
        rig.elsewhere(GLOBAL, || {
            info(rig, rig.stream);
            update(rig, rig.stream, &mut [], SET);
            rig.fill(rig.stream);
        });
        rig.end_and_count(rig.stream);
    }
    a_global_capture_is_filled_by_another_thread(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.elsewhere(GLOBAL, || {
            rig.fill(rig.stream);
            info(rig, rig.stream);
        });
        rig.end_and_count(rig.stream);
    }
    a_question_about_the_legacy_stream_beside_a_blocking_capture(rig) {
        rig.begin(rig.blocking, GLOBAL);
        info(rig, NULL_STREAM);
        update(rig, NULL_STREAM, &mut [], SET);
        rig.status(rig.blocking);
        rig.end_and_count(rig.blocking);
    }
}
