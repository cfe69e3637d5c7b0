//! Each driver call of each operation on a graph fails once: the failure comes through or does no
//! harm, the graph is what it was, the operation works then, and nothing is left at the end.

mod common;

use common::Setup;
use common::releases::{FAILED_RELEASES, assert_clean, count_failed_releases};
use grapture::{
    CaptureMode, CopyNode, CudaError, CudaResult, DeviceBuffer, Driver, EdgeData, Event, FillNode,
    Graph, GraphBuffer, KernelAttribute, NodeId, PinnedBuffer, Stream,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::CUDA_ERROR_UNKNOWN;

/// A graph of a few nodes, and what operations on it take.
struct World {
    setup: Setup,
    stream: Stream,
    words: DeviceBuffer<u32>,
    pinned: PinnedBuffer<u32>,
    event: Event,
    child: Graph,
    graph: Graph,
    nodes: Nodes,
}

#[derive(Clone, Copy)]
struct Nodes {
    kernel: NodeId,
    copy: NodeId,
    fill: NodeId,
    host: NodeId,
    child: NodeId,
    record: NodeId,
}

impl World {
    fn new(driver: Driver) -> World {
        let setup = Setup::on(driver);
        let context = &setup.context;
        let mut words = DeviceBuffer::<u32>::zeroed(context, 4).unwrap();
        let pinned = PinnedBuffer::<u32>::zeroed(context, 4).unwrap();
        let event = Event::new(context).unwrap();
        let mut child = Graph::new(context).unwrap();
        child.add_host(|| {}, &[]).unwrap();
        let mut graph = Graph::new(context).unwrap();
        let add = setup.module.kernel("add").unwrap();
        let launch = add.launch_builder(1, 1).arg_mut(&mut words).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        let kernel = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
        let copy = CopyNode::from_pinned(&mut words, &pinned).unwrap();
        let copy = graph.add_copy(copy, &[kernel]).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut words, 1).unwrap(), &[copy]).unwrap();
        let host = graph.add_host(|| {}, &[fill]).unwrap();
        let node = graph.add_child(&child, &[host]).unwrap();
        let record = graph.add_event_record(&event, &[node]).unwrap();
        let nodes = Nodes { kernel, copy, fill, host, child: node, record };
        let stream = setup.stream();
        World { stream, words, pinned, event, child, graph, nodes, setup }
    }

    #[track_caller]
    fn run(&self) {
        self.graph.instantiate().unwrap().launch(&self.stream).unwrap();
        self.stream.synchronize().unwrap();
    }
}

/// Fails each driver call of the operation, one by one.
#[track_caller]
fn sweep(name: &str, operation: impl Fn(&mut World) -> CudaResult<()>) {
    count_failed_releases();
    for nth in 1.. {
        let sim = Simulation::new(SimConfig::default());
        let mut world = World::new(Driver::from(sim.driver()));
        let before = (world.graph.nodes().unwrap(), world.graph.edges().unwrap());
        let retained = world.graph.retained().len();
        let calls = sim.total_calls();
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
        let result = operation(&mut world);
        let made = sim.total_calls() - calls;
        sim.clear_failures();
        let what = format!("{name}, call {nth} of {made}");
        if let Err(error) = &result {
            assert_eq!(error.code(), CUDA_ERROR_UNKNOWN.0, "{what}");
            // A graph whose capture failed in the driver is empty.
            let nodes = world.graph.nodes().unwrap();
            if !nodes.is_empty() || name != "capture_into" {
                assert_eq!((nodes, world.graph.edges().unwrap()), before, "{what}");
                assert_eq!(world.graph.retained().len(), retained, "{what}");
                world.run();
                operation(&mut world).unwrap_or_else(|error| panic!("{what}, again: {error}"));
            }
        }
        world.run();
        world.setup.assert_usable(&world.stream);
        let driver = world.setup.driver.clone();
        drop(world);
        assert_clean(&sim, &driver, &what);
        if made < nth {
            assert_eq!(result, Ok(()), "{what}");
            return;
        }
    }
}

#[test]
fn sim_a_node_that_cannot_be_added_changes_nothing() {
    sweep("add_kernel", |world| {
        let kernel = world.setup.module.kernel("add")?;
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut world.words).value(1u32);
        let launch = launch.cluster(1).priority(0);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { world.graph.add_kernel(launch, &[world.nodes.host]) }.map(drop_id)
    });
    sweep("add_copy", |world| {
        let copy = CopyNode::to_pinned(&mut world.pinned, &world.words)?;
        world.graph.add_copy(copy, &[world.nodes.host]).map(drop_id)
    });
    sweep("add_copy from the host", |world| {
        let copy = CopyNode::from_host(&mut world.words, &[1, 2, 3, 4])?;
        world.graph.add_copy(copy, &[]).map(drop_id)
    });
    sweep("add_fill", |world| {
        let fill = FillNode::new(&mut world.words, 3)?;
        world.graph.add_fill(fill, &[]).map(drop_id)
    });
    sweep("add_host", |world| world.graph.add_host(|| {}, &[]).map(drop_id));
    sweep("add_empty", |world| world.graph.add_empty(&[]).map(drop_id));
    sweep("add_event_record", |world| world.graph.add_event_record(&world.event, &[]).map(drop_id));
    sweep("add_event_wait", |world| world.graph.add_event_wait(&world.event, &[]).map(drop_id));
    sweep("add_child", |world| world.graph.add_child(&world.child, &[]).map(drop_id));
    sweep("add_child_moved", |world| {
        let mut child = Graph::new(&world.setup.context)?;
        child.add_fill(FillNode::new(&mut world.words, 3)?, &[])?;
        world.graph.add_child_moved(child, &[]).map(drop_id)
    });
}

fn drop_id(_: NodeId) {}

#[test]
fn sim_a_node_that_cannot_be_changed_stays_as_it_is() {
    sweep("set_kernel", |world| {
        let kernel = world.setup.module.kernel("add")?;
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut world.words).value(2u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { world.graph.node_mut(world.nodes.kernel)?.set_kernel(launch) }
    });
    sweep("set_attribute", |world| {
        let attribute = KernelAttribute::Cooperative(true);
        world.graph.node_mut(world.nodes.kernel)?.set_attribute(attribute)
    });
    sweep("set_copy", |world| {
        let copy = CopyNode::to_pinned(&mut world.pinned, &world.words)?;
        world.graph.node_mut(world.nodes.copy)?.set_copy(copy)
    });
    sweep("set_fill", |world| {
        let fill = FillNode::new(&mut world.words, 2)?;
        world.graph.node_mut(world.nodes.fill)?.set_fill(fill)
    });
    sweep("set_host", |world| world.graph.node_mut(world.nodes.host)?.set_host(|| {}));
    sweep("set_child", |world| world.graph.node_mut(world.nodes.child)?.set_child(&world.child));
    sweep("set_event", |world| world.graph.node_mut(world.nodes.record)?.set_event(&world.event));
}

#[test]
fn sim_an_order_that_cannot_be_changed_stays_as_it_is() {
    sweep("add_dependency", |world| {
        world.graph.add_dependency(world.nodes.kernel, world.nodes.host)
    });
    sweep("add_dependency_with", |world| {
        let (from, to) = (world.nodes.kernel, world.nodes.host);
        world.graph.add_dependency_with(from, to, EdgeData::LAUNCH_ORDER)
    });
    sweep("remove_dependency", |world| {
        world.graph.remove_dependency(world.nodes.fill, world.nodes.host)
    });
    sweep("remove_node", |world| world.graph.remove_node(world.nodes.fill));
}

#[test]
fn sim_what_cannot_be_read_or_copied_leaves_nothing() {
    sweep("new", |world| Graph::new(&world.setup.context).map(drop));
    sweep("try_clone", |world| world.graph.try_clone().map(drop));
    sweep("node_in", |world| {
        let clone = world.graph.try_clone()?;
        world.graph.node_in(world.nodes.host, &clone).map(drop_id)
    });
    sweep("topology", |world| world.graph.topology().map(drop));
    sweep("params", |world| {
        for node in world.graph.nodes()? {
            world.graph.node(node.id())?.params()?;
        }
        Ok(())
    });
    sweep("dependencies", |world| world.graph.node(world.nodes.fill)?.dependencies().map(drop));
}

#[test]
fn sim_memory_that_cannot_be_planned_changes_nothing() {
    sweep("add_alloc and add_free", |world| {
        let World { setup, stream, words, .. } = world;
        let mut graph = Graph::new(&setup.context)?;
        let scratch: GraphBuffer<u32> = again(|| graph.add_alloc(4, &[]))?;
        again(|| graph.add_copy(CopyNode::device(words, &scratch)?, &[]))?;
        again(|| graph.add_free(&scratch, &[]))?;
        graph.instantiate()?.launch(stream)?;
        stream.synchronize()
    });
}

/// Makes the call again if it fails: it must work then.
fn again<T>(mut call: impl FnMut() -> CudaResult<T>) -> CudaResult<T> {
    call().or_else(|_| Ok(call().expect("nothing fails the second time")))
}

#[test]
fn sim_a_capture_into_a_graph_that_fails_leaves_it_or_empties_it() {
    sweep("capture_into", |world| {
        let World { stream, words, graph, nodes, .. } = world;
        let mode = CaptureMode::Relaxed;
        let after = if graph.node_count()? == 0 { vec![] } else { vec![nodes.host] };
        stream.capture_into(graph, &after, mode, |_| words.fill(5, stream)).map(drop)
    });
}

/// The closure's error comes through, whatever else fails.
#[test]
fn sim_a_closure_that_fails_leaves_the_graph_or_empties_it() {
    count_failed_releases();
    for nth in 1..40 {
        let sim = Simulation::new(SimConfig::default());
        let mut world = World::new(Driver::from(sim.driver()));
        let World { stream, words, graph, nodes, .. } = &mut world;
        let count = graph.node_count().unwrap();
        sim.fail_any(nth, CUDA_ERROR_UNKNOWN);
        let failed = stream.capture_into(graph, &[nodes.host], CaptureMode::Relaxed, |_| {
            words.fill(5, stream)?;
            words.fill(6, stream)?;
            Err(CudaError::NotReady)
        });
        sim.clear_failures();
        assert!(
            matches!(
                failed,
                Err(CudaError::NotReady | CudaError::Unknown(_) | CudaError::UnknownError)
            ),
            "{nth}: {failed:?}"
        );
        assert!([0, count].contains(&graph.node_count().unwrap()), "{nth}");
        world.run();
        world.setup.assert_usable(&world.stream);
        let driver = world.setup.driver.clone();
        drop(world);
        assert_clean(&sim, &driver, &format!("call {nth}"));
    }
}

/// A graph that moved into a node, or was lost with a broken capture, is the driver's.
#[test]
fn sim_no_graph_is_destroyed_twice() {
    count_failed_releases();
    let sim = Simulation::new(SimConfig::default());
    let mut world = World::new(Driver::from(sim.driver()));
    let child = Graph::new(&world.setup.context).unwrap();
    world.graph.add_child_moved(child, &[]).unwrap();
    let World { stream, graph, .. } = &mut world;
    let broken = stream.capture_into(graph, &[], CaptureMode::Relaxed, |_| {
        // SAFETY: a live stream.
        let query =
            unsafe { (stream.driver().as_raw().functions().cuStreamQuery)(stream.as_raw()) };
        assert_eq!(query.0, 900);
        Ok(())
    });
    assert!(matches!(broken, Err(CudaError::Capture(_))));
    let driver = world.setup.driver.clone();
    drop(world);
    assert_eq!(FAILED_RELEASES.get(), 0);
    assert_clean(&sim, &driver, "both");
}
