//! Executables that are changed: node by node, and by another graph.

use grapture::{
    BatchNode, CopyNode, CudaResult, ExecNode, FillNode, Graph, GraphExec, NodeId, UpdateOptions,
};
use grapture_sys::Function;

use crate::engine::{Row, row};
use crate::rows::graph::ASKED_AGAIN;
use crate::world::World;

/// A graph of the one node that `add` adds, and an executable of it.
fn made(
    world: &World,
    add: impl FnOnce(&mut Graph) -> CudaResult<NodeId>,
) -> (Graph, GraphExec, NodeId) {
    let mut graph = Graph::new(&world.context).unwrap();
    let node = add(&mut graph).unwrap();
    let exec = graph.instantiate().unwrap();
    (graph, exec, node)
}

/// Changes the one node of an executable.
fn change(
    world: &World,
    add: impl FnOnce(&mut Graph) -> CudaResult<NodeId>,
    mut set: impl FnMut(&mut ExecNode<'_>) -> CudaResult<()>,
) {
    let (graph, mut exec, node) = made(world, add);
    world.attempt(|| set(&mut exec.node_of(&graph, node)?));
}

/// By which the attributes of the kernels are read. If they cannot be, an update might leave wrong
/// ones: the executable is made anew, or that is refused.
const READ: &[Function] = &[
    Function::cuGraphGetNodes,
    Function::cuGraphNodeGetType,
    Function::cuGraphKernelNodeGetAttribute,
];

/// And the update itself, in whose place the executable is made anew.
const REBUILT: &[Function] = &[
    Function::cuGraphGetNodes,
    Function::cuGraphNodeGetType,
    Function::cuGraphKernelNodeGetAttribute,
    Function::cuGraphKernelNodeGetParams_v2,
    Function::cuFuncGetAttribute,
    Function::cuFuncGetName,
    Function::cuGraphExecUpdate_v2,
    Function::cuCtxPushCurrent_v2,
];

pub const ROWS: &[Row] = &[
    row("ExecNode::set_kernel", |w| {
        let (mut words, mut other) = (w.buffer(), w.buffer());
        // SAFETY: `add` takes the address of a word and a value.
        let add = |graph: &mut Graph| unsafe {
            graph.add_kernel(w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32), &[])
        };
        change(w, add, |node| {
            // SAFETY: as above.
            unsafe { node.set_kernel(w.add.launch_builder(1, 1).arg_mut(&mut other).value(2u32)) }
        });
    })
    .also(&["GraphExec::node_of"]),
    row("ExecNode::set_copy", |w| {
        let (mut words, other) = (w.buffer(), w.buffer());
        let mut copy = || CopyNode::device(&mut words, &other);
        let first = copy().unwrap();
        change(w, |graph| graph.add_copy(first, &[]), |node| node.set_copy(copy()?));
    }),
    row("ExecNode::set_fill", |w| {
        let mut words = w.buffer();
        let mut fill = |value: u32| FillNode::new(&mut words, value);
        let first = fill(1).unwrap();
        change(w, |graph| graph.add_fill(first, &[]), |node| node.set_fill(fill(2)?));
    }),
    row("ExecNode::set_batch", |w| {
        let mut words = w.buffer();
        let mut write = |value: u32| {
            BatchNode::new(&w.context).write(&mut words.view_mut(0..1).unwrap(), value)
        };
        let first = write(1).unwrap();
        change(w, |graph| graph.add_batch(first, &[]), |node| node.set_batch(write(2)?));
    }),
    row("ExecNode::set_host", |w| {
        change(w, |graph| graph.add_host(|| {}, &[]), |node| node.set_host(|| {}));
    }),
    row("ExecNode::set_child", |w| {
        let child = w.small_graph();
        change(w, |graph| graph.add_child(&child, &[]), |node| node.set_child(&child));
    }),
    row("ExecNode::set_event", |w| {
        let event = w.event();
        change(w, |graph| graph.add_event_record(&event, &[]), |node| node.set_event(&event));
    }),
    row("ExecNode::set_enabled", |w| {
        let mut words = w.buffer();
        let fill = FillNode::new(&mut words, 1).unwrap();
        change(w, |graph| graph.add_fill(fill, &[]), |node| node.set_enabled(true));
    })
    // A node that the executable does not have.
    .translates(&[Function::cuGraphNodeSetEnabled]),
    row("ExecNode::is_enabled", |w| {
        let mut words = w.buffer();
        let fill = FillNode::new(&mut words, 1).unwrap();
        change(w, |graph| graph.add_fill(fill, &[]), |node| node.is_enabled().map(drop));
    })
    .translates(&[Function::cuGraphNodeGetEnabled]),
    row("GraphExec::update", |w| {
        let mut words = w.buffer();
        let fill = FillNode::new(&mut words, 1).unwrap();
        let (_, mut exec, _) = made(w, |graph| graph.add_fill(fill, &[]));
        let other = w.small_graph();
        w.attempt(|| exec.update(&other));
    })
    .tolerates(REBUILT),
    row("GraphExec::update, by a graph of the same form", |w| {
        let (mut exec, other) = (w.exec(), w.graph());
        w.attempt(|| exec.update(&other));
    })
    .tolerates(REBUILT),
    row("GraphExec::update_with, strict", |w| {
        let mut words = w.buffer();
        let fill = FillNode::new(&mut words, 1).unwrap();
        let (_, mut exec, _) = made(w, |graph| graph.add_fill(fill, &[]));
        let mut other = Graph::new(&w.context).unwrap();
        other.add_fill(FillNode::new(&mut words, 2).unwrap(), &[]).unwrap();
        w.attempt(|| exec.update_with(&other, UpdateOptions::new().strict(true)));
    })
    .tolerates(ASKED_AGAIN)
    .translates(READ),
];
