//! Captures into a graph of the program.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{GLOBAL, NULL_STREAM, RELAXED, Rig, per_thread};
use crate::transcript::saw;

fn begin(rig: &Rig, stream: CUstream, graph: CUgraph, after: &[CUgraphNode]) -> u32 {
    let (at, mode) = (after.as_ptr(), CUstreamCaptureMode(GLOBAL));
    cu!(rig, cuStreamBeginCaptureToGraph(stream, graph, at, null(), after.len(), mode))
}

/// Ends a capture, and tells whether the graph is the program's.
fn end(rig: &Rig, stream: CUstream, graph: CUgraph) {
    let (_, ended) = rig.end(stream);
    saw("the same graph", ended == graph);
}

fn empty_node(rig: &Rig, graph: CUgraph) -> CUgraphNode {
    make!(rig, cuGraphAddEmptyNode(graph, null(), 0))
}

rules! { both;
    a_capture_fills_the_programs_graph(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        rig.fill(rig.stream);
        end(rig, rig.stream, graph);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_capture_hangs_on_the_nodes_given(rig) {
        let graph = rig.new_graph();
        let nodes = [empty_node(rig, graph), empty_node(rig, graph)];
        begin(rig, rig.stream, graph, &nodes);
        rig.fill(rig.stream);
        end(rig, rig.stream, graph);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_capture_begins_with_edge_data(rig) {
        let graph = rig.new_graph();
        let node = empty_node(rig, graph);
        let (data, mode) = (CUgraphEdgeData::default(), CUstreamCaptureMode(GLOBAL));
        cu!(rig, cuStreamBeginCaptureToGraph(rig.stream, graph, &node, &data, 1, mode));
        rig.fill(rig.stream);
        end(rig, rig.stream, graph);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_capture_begins_with_senseless_edge_data(rig) {
        let graph = rig.new_graph();
        let (node, mode) = (empty_node(rig, graph), CUstreamCaptureMode(GLOBAL));
        let data = CUgraphEdgeData { type_: 9, ..Default::default() };
        cu!(rig, cuStreamBeginCaptureToGraph(rig.stream, graph, &node, &data, 1, mode));
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
        ok!(rig, cuGraphDestroy(graph));
    }
    one_graph_takes_captures_one_after_the_other(rig) {
        let graph = rig.new_graph();
        for _ in 0..2 {
            begin(rig, rig.stream, graph, &[]);
            rig.fill(rig.stream);
            end(rig, rig.stream, graph);
        }
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    one_graph_takes_two_captures_at_once(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        begin(rig, rig.other, graph, &[]);
        rig.fill(rig.stream);
        rig.fill(rig.other);
        rig.end(rig.other);
        rig.end(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_graph_that_a_capture_made_is_captured_into(rig) {
        let graph = rig.new_graph_of_one_fill();
        begin(rig, rig.stream, graph, &rig.nodes(graph));
        rig.fill(rig.stream);
        end(rig, rig.stream, graph);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_graph_under_capture_is_instantiated(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        rig.exchange(RELAXED);
        let mut exec = null_mut();
        cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0));
        rig.exchange(GLOBAL);
        rig.status(rig.stream);
        rig.end(rig.stream);
        ok!(rig, cuGraphExecDestroy(exec));
        ok!(rig, cuGraphDestroy(graph));
    }
    a_graph_under_capture_is_cloned(rig) {
        let (graph, mut clone) = (rig.new_graph(), null_mut());
        begin(rig, rig.stream, graph, &[]);
        rig.fill(rig.stream);
        if cu!(rig, cuGraphClone(&mut clone, graph)) == 0 {
            rig.shape(clone);
            ok!(rig, cuGraphDestroy(clone));
        }
        rig.end(rig.stream);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_graph_under_capture_becomes_a_child(rig) {
        let (graph, parent) = (rig.new_graph(), rig.new_graph());
        begin(rig, rig.stream, graph, &[]);
        cu!(rig, cuGraphAddChildGraphNode(&mut null_mut(), parent, null(), 0, graph));
        rig.status(rig.stream);
        rig.end(rig.stream);
        ok!(rig, cuGraphDestroy(parent));
        ok!(rig, cuGraphDestroy(graph));
    }
    a_broken_capture_takes_the_programs_graph_with_it(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        rig.fill(rig.stream);
        rig.query(rig.stream);
        let (_, ended) = rig.end(rig.stream);
        saw("no graph", ended.is_null());
        cu!(rig, cuGraphGetNodes(graph, null_mut(), &mut 0));
    }
    an_unjoined_capture_takes_the_programs_graph_with_it(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        rig.link(rig.stream, rig.other);
        rig.fill(rig.other);
        rig.end(rig.stream);
        cu!(rig, cuGraphGetNodes(graph, null_mut(), &mut 0));
    }
    the_end_without_a_place_leaves_the_programs_graph(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        rig.fill(rig.stream);
        cu!(rig, cuStreamEndCapture(rig.stream, null_mut()));
        saw("nodes", rig.nodes(graph).len());
        ok!(rig, cuGraphDestroy(graph));
    }
    no_graph_to_capture_into(rig) {
        begin(rig, rig.stream, null_mut(), &[]);
        rig.status(rig.stream);
    }
    nodes_to_hang_on_that_are_not_there(rig) {
        let graph = rig.new_graph();
        let mode = CUstreamCaptureMode(GLOBAL);
        cu!(rig, cuStreamBeginCaptureToGraph(rig.stream, graph, null(), null(), 1, mode));
        begin(rig, rig.stream, graph, &[null_mut()]);
        rig.status(rig.stream);
        ok!(rig, cuGraphDestroy(graph));
    }
    nodes_to_hang_on_that_are_another_graphs(rig) {
        let (graph, other) = (rig.new_graph(), rig.new_graph());
        begin(rig, rig.stream, graph, &[empty_node(rig, other)]);
        rig.status(rig.stream);
        ok!(rig, cuGraphDestroy(other));
        ok!(rig, cuGraphDestroy(graph));
    }
    a_node_to_hang_on_that_is_given_twice(rig) {
        let graph = rig.new_graph();
        let node = empty_node(rig, graph);
        begin(rig, rig.stream, graph, &[node, node]);
        rig.fill(rig.stream);
        rig.end(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    no_such_mode_of_a_capture_into_a_graph(rig) {
        let graph = rig.new_graph();
        for mode in [3, 9] {
            let mode = CUstreamCaptureMode(mode);
            cu!(rig, cuStreamBeginCaptureToGraph(rig.stream, graph, null(), null(), 0, mode));
        }
        rig.status(rig.stream);
        ok!(rig, cuGraphDestroy(graph));
    }
    special_streams_capture_into_a_graph(rig) {
        let graph = rig.new_graph();
        begin(rig, NULL_STREAM, graph, &[]);
        begin(rig, std::ptr::without_provenance_mut(1), graph, &[]);
        begin(rig, per_thread(), graph, &[]);
        rig.end(per_thread());
        ok!(rig, cuGraphDestroy(graph));
    }
    a_capturing_stream_does_not_capture_into_a_graph(rig) {
        let graph = rig.new_graph();
        rig.begin(rig.stream, GLOBAL);
        begin(rig, rig.stream, graph, &[]);
        rig.end_and_count(rig.stream);
        ok!(rig, cuGraphDestroy(graph));
    }
    the_program_adds_a_node_under_capture(rig) {
        let graph = rig.new_graph();
        begin(rig, rig.stream, graph, &[]);
        rig.fill(rig.stream);
        cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, null(), 0));
        rig.end(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    the_program_adds_and_removes_edges_under_capture(rig) {
        let graph = rig.new_graph();
        let node = empty_node(rig, graph);
        begin(rig, rig.stream, graph, &[]);
        rig.fill(rig.stream);
        let captured = rig.nodes(graph)[1];
        cu!(rig, cuGraphAddDependencies(graph, &node, &captured, 1));
        cu!(rig, cuGraphRemoveDependencies(graph, &node, &captured, 1));
        rig.end(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
}
