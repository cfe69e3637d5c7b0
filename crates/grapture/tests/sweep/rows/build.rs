//! Graphs that are built by hand, and changed.

use grapture::{
    BatchNode, CaptureMode, CopyNode, EdgeData, FillNode, Graph, KernelAttribute, NodeId, Region2d,
    WaitFor, WordCondition,
};
use grapture_sys::Function;

use crate::engine::{Row, row};
use crate::world::World;

const REGION: Region2d = Region2d::new(1, 2);

fn graph(world: &World) -> Graph {
    Graph::new(&world.context).unwrap()
}

/// A graph of two nodes that nothing orders.
fn pair(world: &World) -> (Graph, NodeId, NodeId) {
    let mut graph = graph(world);
    let first = graph.add_empty(&[]).unwrap();
    let second = graph.add_empty(&[]).unwrap();
    (graph, first, second)
}

pub const ROWS: &[Row] = &[
    row("Graph::new", |w| w.attempt(|| Graph::new(&w.context))),
    row("Graph::add_kernel", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        w.attempt(|| {
            let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { graph.add_kernel(launch, &[]) }
        });
    }),
    row("Graph::add_kernel, with attributes", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        w.attempt(|| {
            let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32).priority(-1);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { graph.add_kernel(launch, &[]) }
        });
    })
    .also(&["LaunchBuilder::priority"]),
    row("Graph::add_copy", |w| {
        let (mut graph, mut words, other) = (graph(w), w.buffer(), w.buffer());
        w.attempt(|| graph.add_copy(CopyNode::device(&mut words, &other)?, &[]));
    })
    .also(&["CopyNode::device"]),
    row("Graph::add_copy, of elements of the host", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        w.attempt(|| graph.add_copy(CopyNode::from_host(&mut words, &[1, 2, 3, 4])?, &[]));
    })
    .also(&["CopyNode::from_host"]),
    row("Graph::add_copy, of memory of a stream", |w| {
        let (mut graph, mut words, other) = (graph(w), w.ordered(), w.buffer());
        w.attempt(|| graph.add_copy(CopyNode::device(&mut words, &other)?, &[]));
    }),
    row("Graph::add_copy, to pinned memory", |w| {
        let (mut graph, words, mut pinned) = (graph(w), w.buffer(), w.pinned());
        w.attempt(|| graph.add_copy(CopyNode::to_pinned(&mut pinned, &words)?, &[]));
    })
    .also(&["CopyNode::to_pinned"]),
    row("Graph::add_fill", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        w.attempt(|| graph.add_fill(FillNode::new(&mut words, 1)?, &[]));
    })
    .also(&["FillNode::new"]),
    row("Graph::add_fill, of a rectangle", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        w.attempt(|| graph.add_fill(FillNode::rectangle(&mut words, REGION, 1)?, &[]));
    })
    .also(&["FillNode::rectangle"]),
    row("Graph::add_host", |w| {
        let mut graph = graph(w);
        w.attempt(|| graph.add_host(|| {}, &[]));
    }),
    row("Graph::add_empty", |w| {
        let mut graph = graph(w);
        w.attempt(|| graph.add_empty(&[]));
    }),
    row("Graph::add_event_record", |w| {
        let (mut graph, event) = (graph(w), w.event());
        w.attempt(|| graph.add_event_record(&event, &[]));
    }),
    row("Graph::add_event_wait", |w| {
        let (mut graph, event) = (graph(w), w.event());
        w.attempt(|| graph.add_event_wait(&event, &[]));
    }),
    row("Graph::add_batch", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        w.attempt(|| {
            let batch = BatchNode::new(&w.context).write(&mut words.view_mut(0..1)?, 1u32)?;
            graph.add_batch(batch.wait(&words.view(0..1)?, WaitFor::Equal(1u32))?, &[])
        });
    })
    .also(&["BatchNode::new", "BatchNode::write", "BatchNode::wait"]),
    row("Graph::add_child", |w| {
        let (mut graph, child) = (graph(w), w.small_graph());
        w.attempt(|| graph.add_child(&child, &[]));
    }),
    row("Graph::add_child_moved", |w| {
        let (mut graph, child) = (graph(w), w.small_graph());
        w.attempt_once(|| graph.add_child_moved(child, &[]));
    }),
    row("Graph::add_alloc", |w| {
        let mut graph = graph(w);
        w.attempt(|| graph.add_alloc::<u32>(4, &[]));
    }),
    row("Graph::add_free", |w| {
        let mut graph = graph(w);
        let memory = graph.add_alloc::<u32>(4, &[]).unwrap();
        w.attempt_once(|| graph.add_free(&memory, &[memory.node()]));
    }),
    row("Graph::add_dependency", |w| {
        let (mut graph, first, second) = pair(w);
        w.attempt_once(|| graph.add_dependency(first, second));
    }),
    row("Graph::add_dependency_with", |w| {
        let (mut graph, first, second) = pair(w);
        w.attempt_once(|| graph.add_dependency_with(first, second, EdgeData::FULL));
    }),
    row("Graph::remove_dependency", |w| {
        let (mut graph, first, second) = pair(w);
        graph.add_dependency(first, second).unwrap();
        w.attempt_once(|| graph.remove_dependency(first, second));
    }),
    row("Graph::remove_node", |w| {
        let (mut graph, first, _) = pair(w);
        w.attempt_once(|| graph.remove_node(first));
    }),
    row("Graph::try_clone", |w| {
        let graph = w.graph();
        w.attempt(|| graph.try_clone());
    }),
    row("Graph::try_clone, of a graph with labels", |w| {
        let mut graph = w.graph();
        let node = graph.add_empty(&[]).unwrap();
        graph.set_label(node, "label").unwrap();
        w.attempt(|| graph.try_clone());
    }),
    row("Graph::try_clone, of a graph with conditional nodes", |w| {
        let (mut graph, mut words, event) = (graph(w), w.buffer(), w.event());
        let (other, pinned, child) = (w.buffer(), w.pinned(), w.small_graph());
        let condition = graph.condition(1).unwrap();
        let built = graph.add_while(&condition, &[], |body| {
            let inner = body.condition(None)?;
            body.add_child(&child, &[])?;
            body.add_if(&inner, &[], |body| {
                let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
                // SAFETY: `add` takes the address of a word and a value.
                let kernel = unsafe { body.add_kernel(launch, &[]) }?;
                body.add_copy(CopyNode::device(&mut words, &other)?, &[kernel]).map(drop)
            })
            .map(drop)
        });
        let last = built.unwrap();
        let load = CopyNode::from_pinned(&mut words, &pinned).unwrap();
        graph.add_copy(load, &[last]).unwrap();
        graph.add_host(|| {}, &[last]).unwrap();
        graph.add_event_record(&event, &[last]).unwrap();
        let word = &mut words.view_mut(0..1).unwrap();
        graph.add_batch(BatchNode::new(&w.context).write(word, 1u32).unwrap(), &[last]).unwrap();
        w.attempt(|| graph.try_clone());
    }),
    row("Graph::set_label", |w| {
        let (mut graph, first, _) = pair(w);
        w.attempt(|| graph.set_label(first, "first"));
    }),
    row("NodeRef::label", |w| {
        let (graph, first, _) = pair(w);
        w.attempt(|| graph.node(first)?.label());
    }),
    row("NodeRef::line", |w| {
        let (graph, first, _) = pair(w);
        w.attempt(|| graph.node(first)?.line());
    }),
    row("Graph::node_in", |w| {
        let (graph, first, _) = pair(w);
        let clone = graph.try_clone().unwrap();
        w.attempt(|| graph.node_in(first, &clone));
    }),
    row("Graph::node_in_child", |w| {
        let (graph, first, _) = pair(w);
        let mut outer = Graph::new(&w.context).unwrap();
        let child = outer.add_child(&graph, &[]).unwrap();
        w.attempt(|| graph.node_in_child(first, &outer, child));
    }),
    row("NodeRef::body_nodes", |w| {
        let (flag, mut words) = (w.buffer(), w.buffer());
        let mut graph = Graph::new(&w.context).unwrap();
        let condition = WordCondition::new(&flag).unwrap();
        let fill = FillNode::new(&mut words, 1).unwrap();
        let node = graph.add_if(&condition, &[], |body| body.add_fill(fill, &[]).map(|_| ()));
        let node = node.unwrap();
        w.attempt(|| graph.node(node)?.body_nodes(0));
    }),
    row("NodeRef::child_nodes", |w| {
        let (graph, _, _) = pair(w);
        let mut outer = Graph::new(&w.context).unwrap();
        let child = outer.add_child(&graph, &[]).unwrap();
        w.attempt(|| outer.node(child)?.child_nodes());
    }),
    row("Graph::node", |w| {
        let (graph, first, _) = pair(w);
        w.attempt(|| graph.node(first).map(drop));
    }),
    row("Graph::node_mut", |w| {
        let (mut graph, first, _) = pair(w);
        w.attempt(|| graph.node_mut(first).map(drop));
    }),
    row("NodeRef::params", |w| {
        let graph = w.graph();
        let nodes = graph.nodes().unwrap();
        w.attempt(|| nodes.iter().try_for_each(|node| graph.node(node.id())?.params().map(drop)));
    }),
    row("NodeRef::dependencies", |w| {
        let graph = w.graph();
        let nodes = graph.nodes().unwrap();
        w.attempt(|| {
            nodes.iter().try_for_each(|node| graph.node(node.id())?.dependencies().map(drop))
        });
    }),
    row("NodeRef::dependents", |w| {
        let graph = w.graph();
        let nodes = graph.nodes().unwrap();
        w.attempt(|| {
            nodes.iter().try_for_each(|node| graph.node(node.id())?.dependents().map(drop))
        });
    }),
    row("NodeMut::set_kernel", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        let node = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
        w.attempt(|| {
            let launch = w.add.launch_builder(2, 1).arg_mut(&mut words).value(2u32);
            // SAFETY: as above.
            unsafe { graph.node_mut(node)?.set_kernel(launch) }
        });
    }),
    row("NodeMut::set_attribute", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        let launch = w.add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        let node = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
        w.attempt(|| graph.node_mut(node)?.set_attribute(KernelAttribute::Priority(-1)));
    }),
    row("NodeMut::set_copy", |w| {
        let (mut graph, mut words, other) = (graph(w), w.buffer(), w.buffer());
        let node = graph.add_copy(CopyNode::device(&mut words, &other).unwrap(), &[]).unwrap();
        w.attempt(|| graph.node_mut(node)?.set_copy(CopyNode::device(&mut words, &other)?));
    }),
    row("NodeMut::set_fill", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        let node = graph.add_fill(FillNode::new(&mut words, 1).unwrap(), &[]).unwrap();
        w.attempt(|| graph.node_mut(node)?.set_fill(FillNode::new(&mut words, 2)?));
    }),
    row("NodeMut::set_batch", |w| {
        let (mut graph, mut words) = (graph(w), w.buffer());
        let mut write = |value: u32| {
            BatchNode::new(&w.context).write(&mut words.view_mut(0..1).unwrap(), value)
        };
        let node = graph.add_batch(write(1).unwrap(), &[]).unwrap();
        w.attempt(|| graph.node_mut(node)?.set_batch(write(2)?));
    }),
    row("NodeMut::set_host", |w| {
        let mut graph = graph(w);
        let node = graph.add_host(|| {}, &[]).unwrap();
        w.attempt(|| graph.node_mut(node)?.set_host(|| {}));
    }),
    row("NodeMut::set_child", |w| {
        let (mut graph, child) = (graph(w), w.small_graph());
        let node = graph.add_child(&child, &[]).unwrap();
        w.attempt(|| graph.node_mut(node)?.set_child(&child));
    }),
    row("NodeMut::set_event", |w| {
        let (mut graph, event) = (graph(w), w.event());
        let node = graph.add_event_record(&event, &[]).unwrap();
        w.attempt(|| graph.node_mut(node)?.set_event(&event));
    }),
    row("Stream::capture_into", |w| {
        let mut words = w.buffer();
        // A capture that fails takes the graph with it.
        w.attempt(|| {
            let mut graph = Graph::new(&w.context)?;
            let first = graph.add_empty(&[])?;
            w.stream.capture_into(&mut graph, &[first], CaptureMode::Global, |capture| {
                w.launch(&mut words, capture.stream())
            })?;
            Ok(graph)
        });
    })
    // It is asked twice, and done without then.
    .tolerates(&[Function::cuStreamGetCaptureInfo]),
];
