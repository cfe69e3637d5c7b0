//! Graphs built by hand: their nodes and dependencies changed, graphs cloned and embedded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::build::{FOREIGN, mul_add, read, refusal, run, word};
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CopyNode, CudaError, DeviceBuffer, Dim3, EdgeData, Event, FillNode, Graph,
    InstantiateFlags, InstantiateOptions, KernelAttribute, MemorySyncDomain, NodeId, NodeParams,
    OperationSpec, PinnedBuffer, RetainedKind,
};

both_tiers! {
    attributes_are_told_back,
    attributes_of_a_launch_become_the_nodes,
    every_kind_of_node_is_changed,
    a_node_keeps_its_kind,
    dependencies_are_added_and_removed,
    edges_carry_data,
    nodes_are_added_to_what_was_captured,
    a_clone_is_changed_apart,
    a_child_is_run_as_it_was,
    a_child_is_told_with_its_nodes,
    a_graph_moves_into_another,
    an_executable_keeps_what_its_graph_was,
}

fn attributes(graph: &Graph, node: NodeId) -> Vec<KernelAttribute> {
    match graph.node(node).unwrap().params().unwrap() {
        NodeParams::Kernel { attributes, .. } => attributes,
        other => panic!("{other:?}"),
    }
}

fn nothing(setup: &Setup, graph: &mut Graph) -> NodeId {
    let kernel = setup.module.kernel("nothing").unwrap();
    // SAFETY: `nothing` takes nothing.
    unsafe { graph.add_kernel(kernel.launch_builder(4, 1), &[]) }.unwrap()
}

fn attributes_are_told_back(setup: &Setup) {
    let most = *setup.context.stream_priorities().unwrap().start();
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = nothing(setup, &mut graph);
    assert!(!attributes(&graph, node).contains(&KernelAttribute::Cooperative(true)));
    for attribute in [
        KernelAttribute::Priority(most),
        KernelAttribute::Cooperative(true),
        KernelAttribute::MemorySyncDomain(MemorySyncDomain::Remote),
        KernelAttribute::Cooperative(false),
        KernelAttribute::Cluster(Dim3::x(2)),
    ] {
        graph.node_mut(node).unwrap().set_attribute(attribute).unwrap();
        assert!(attributes(&graph, node).contains(&attribute), "{attribute:?}");
    }
    let three = KernelAttribute::Cluster(Dim3::x(3));
    let refused = graph.node_mut(node).unwrap().set_attribute(three);
    assert_eq!(
        refusal(refused),
        "kernel.cluster_dim: the grid of 4 x 1 x 1 blocks is not a multiple of the cluster of \
         3 x 1 x 1"
    );
    let empty = graph.add_empty(&[]).unwrap();
    let refused = graph.node_mut(empty).unwrap().set_attribute(three);
    assert_eq!(refusal(refused), "node: its kind is `empty`, and the call is for `kernel`");
    run(setup, &graph);
}

fn attributes_of_a_launch_become_the_nodes(setup: &Setup) {
    let most = *setup.context.stream_priorities().unwrap().start();
    let kernel = setup.module.kernel("nothing").unwrap();
    let launch = || {
        kernel
            .launch_builder(4, 1)
            .cluster(2)
            .priority(most)
            .memory_sync_domain(MemorySyncDomain::Remote)
    };
    let mut graph = Graph::new(&setup.context).unwrap();
    // SAFETY: `nothing` takes nothing.
    let node = unsafe { graph.add_kernel(launch(), &[]) }.unwrap();
    let plain = nothing(setup, &mut graph);
    // SAFETY: as above.
    unsafe { graph.node_mut(plain).unwrap().set_kernel(launch().cooperative(true)) }.unwrap();
    let expected = [
        KernelAttribute::Priority(most),
        KernelAttribute::Cluster(Dim3::x(2)),
        KernelAttribute::MemorySyncDomain(MemorySyncDomain::Remote),
    ];
    for (node, cooperative) in [(node, false), (plain, true)] {
        let told = attributes(&graph, node);
        assert!(expected.iter().all(|attribute| told.contains(attribute)), "{told:?}");
        assert!(told.contains(&KernelAttribute::Cooperative(cooperative)), "{told:?}");
    }
    let early = kernel.launch_builder(1, 1).programmatic_serialization(true);
    // SAFETY: as above.
    let refused = unsafe { graph.add_kernel(early, &[]) };
    assert_eq!(
        refusal(refused),
        "kernel.programmatic_serialization: a node says that by its dependency: add one with \
         `EdgeData::PROGRAMMATIC`"
    );
    let options = InstantiateOptions::new().flags(InstantiateFlags::USE_NODE_PRIORITY);
    let stream = setup.stream();
    graph.instantiate_with(&options).unwrap().launch(&stream).unwrap();
    // An eager launch takes them too.
    // SAFETY: as above.
    unsafe { launch().launch(&stream) }.unwrap();
    stream.synchronize().unwrap();
}

fn every_kind_of_node_is_changed(setup: &Setup) {
    let context = &setup.context;
    let (mut one, mut two) = (word(setup, 1), word(setup, 2));
    let pinned = PinnedBuffer::from_slice(context, &[30u32]).unwrap();
    let runs = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let count = |index: usize| {
        let runs = runs.clone();
        move || _ = runs[index].fetch_add(1, Ordering::SeqCst)
    };
    let (before, after) = (Event::new(context).unwrap(), Event::new(context).unwrap());
    let children = [10u32, 20].map(|value| {
        let mut word = DeviceBuffer::<u32>::zeroed(context, 1).unwrap();
        let mut graph = Graph::new(context).unwrap();
        graph.add_fill(FillNode::new(&mut word, value).unwrap(), &[]).unwrap();
        (graph, word)
    });
    let mut filled = word(setup, 0);

    let mut graph = Graph::new(context).unwrap();
    let kernel = mul_add(setup, &mut graph, &mut one, (1, 1), &[]);
    let copy = CopyNode::device(&mut one, &two).unwrap();
    let copy = graph.add_copy(copy, &[kernel]).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut one, 5).unwrap(), &[copy]).unwrap();
    let host = graph.add_host(count(0), &[]).unwrap();
    let child = graph.add_child(&children[0].0, &[]).unwrap();
    let record = graph.add_event_record(&before, &[]).unwrap();
    let wait = graph.add_event_wait(&before, &[]).unwrap();

    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut one).value(6u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.node_mut(kernel).unwrap().set_kernel(launch) }.unwrap();
    let other = CopyNode::from_pinned(&mut two, &pinned).unwrap();
    graph.node_mut(copy).unwrap().set_copy(other).unwrap();
    let other = FillNode::new(&mut filled, 7).unwrap();
    graph.node_mut(fill).unwrap().set_fill(other).unwrap();
    graph.node_mut(host).unwrap().set_host(count(1)).unwrap();
    graph.node_mut(child).unwrap().set_child(&children[1].0).unwrap();
    graph.node_mut(record).unwrap().set_event(&after).unwrap();
    graph.node_mut(wait).unwrap().set_event(&after).unwrap();
    for node in [record, wait] {
        let params = graph.node(node).unwrap().params().unwrap();
        let (NodeParams::EventRecord(event) | NodeParams::EventWait(event)) = params else {
            panic!("{params:?}")
        };
        assert_eq!(event, after.as_raw());
    }
    run(setup, &graph);
    assert_eq!((read(setup, &one), read(setup, &two)), (vec![7], vec![30]));
    assert_eq!(read(setup, &filled), [7]);
    assert_eq!((read(setup, &children[0].1), read(setup, &children[1].1)), (vec![0], vec![20]));
    assert_eq!((runs[0].load(Ordering::SeqCst), runs[1].load(Ordering::SeqCst)), (0, 1));
}

fn a_node_keeps_its_kind(setup: &Setup) {
    let mut word = word(setup, 1);
    let event = Event::new(&setup.context).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let kernel = mul_add(setup, &mut graph, &mut word, (1, 1), &[]);
    let host = graph.add_host(|| {}, &[]).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
    // SAFETY: `add` takes the address of a word and a value.
    let refused = unsafe { graph.node_mut(host).unwrap().set_kernel(launch) };
    assert_eq!(refusal(refused), "node: its kind is `host function`, and the call is for `kernel`");
    let fill = FillNode::new(&mut word, 5).unwrap();
    let text = "node: its kind is `kernel`, and the call is for";
    let refused = refusal(graph.node_mut(kernel).unwrap().set_fill(fill));
    assert_eq!(refused, format!("{text} `memset`"));
    let copy = CopyNode::from_host(&mut word, &[1]).unwrap();
    assert_eq!(refusal(graph.node_mut(kernel).unwrap().set_copy(copy)), format!("{text} `memcpy`"));
    let refused = refusal(graph.node_mut(kernel).unwrap().set_host(|| {}));
    assert_eq!(refused, format!("{text} `host function`"));
    let refused = refusal(graph.node_mut(kernel).unwrap().set_event(&event));
    assert_eq!(refused, format!("{text} `event wait`"));
    let child = Graph::new(&setup.context).unwrap();
    let refused = refusal(graph.node_mut(kernel).unwrap().set_child(&child));
    assert_eq!(refused, format!("{text} `child graph`"));
    run(setup, &graph);
    assert_eq!(read(setup, &word), [2]);
}

fn dependencies_are_added_and_removed(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let (a, b) = (graph.add_empty(&[]).unwrap(), graph.add_empty(&[]).unwrap());
    graph.add_dependency(a, b).unwrap();
    assert_eq!(
        refusal(graph.add_dependency(a, b)),
        "to: it waits for that node already: remove that dependency first"
    );
    assert_eq!(refusal(graph.add_dependency(a, a)), "to: a node cannot wait for itself");
    graph.remove_dependency(a, b).unwrap();
    assert_eq!(refusal(graph.remove_dependency(a, b)), "to: it does not wait for the other node");
    assert_eq!(graph.edges().unwrap(), []);
    // A cycle is seen when it is made executable.
    graph.add_dependency(a, b).unwrap();
    graph.add_dependency(b, a).unwrap();
    assert!(matches!(graph.instantiate(), Err(CudaError::Instantiate(_))));
    graph.remove_dependency(b, a).unwrap();
    run(setup, &graph);
}

fn edges_carry_data(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let (a, b) = (nothing(setup, &mut graph), nothing(setup, &mut graph));
    let empty = graph.add_empty(&[]).unwrap();
    graph.add_dependency_with(a, b, EdgeData::PROGRAMMATIC).unwrap();
    graph.add_dependency_with(a, empty, EdgeData::LAUNCH_ORDER).unwrap();
    let data: Vec<_> = graph.edges().unwrap().iter().map(|edge| edge.data()).collect();
    assert_eq!(data, [EdgeData::PROGRAMMATIC, EdgeData::LAUNCH_ORDER]);
    let refused = graph.add_dependency_with(b, empty, EdgeData::PROGRAMMATIC);
    assert_eq!(refusal(refused), "data: a programmatic dependency is between two kernels");
    let refused = graph.add_dependency_with(empty, b, EdgeData::LAUNCH_ORDER);
    assert_eq!(refusal(refused), "data: a dependency in launch order starts at a kernel");
    run(setup, &graph);
    graph.remove_dependency(a, b).unwrap();
    assert_eq!(graph.edges().unwrap().len(), 1);
}

fn nodes_are_added_to_what_was_captured(setup: &Setup) {
    let stream = setup.stream();
    let mut word = word(setup, 1);
    let mut graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            setup.mul_add(&mut word, 10, 2, &stream)?;
            setup.mul_add(&mut word, 10, 3, &stream)
        })
        .unwrap();
    let captured: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.id()).collect();
    let between = mul_add(setup, &mut graph, &mut word, (10, 9), &[captured[0]]);
    graph.add_dependency(between, captured[1]).unwrap();
    mul_add(setup, &mut graph, &mut word, (10, 4), &[captured[1]]);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [12934]);
    graph.remove_node(between).unwrap();
    run(setup, &graph);
    assert_eq!(read(setup, &word), [12_934_234]);
}

fn a_clone_is_changed_apart(setup: &Setup) {
    let mut word = word(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = mul_add(setup, &mut graph, &mut word, (10, 1), &[]);
    let second = mul_add(setup, &mut graph, &mut word, (10, 2), &[first]);
    let mut clone = graph.try_clone().unwrap();
    let copy = graph.node_in(second, &clone).unwrap();
    assert_ne!(copy, second);
    clone.remove_node(copy).unwrap();
    mul_add(setup, &mut graph, &mut word, (10, 3), &[second]);
    drop(setup.module.kernel("add"));
    run(setup, &clone);
    assert_eq!(read(setup, &word), [11]);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [11123]);
    let other = Graph::new(&setup.context).unwrap();
    assert_eq!(
        refusal(graph.node_in(first, &other)),
        "clone: it is no clone of the graph: make one with `Graph::try_clone`"
    );
    assert_eq!(refusal(graph.node_in(copy, &clone)), FOREIGN.replace("{}", "node"));
    drop(graph);
    run(setup, &clone);
    assert_eq!(read(setup, &word), [111_231]);
}

fn a_child_is_run_as_it_was(setup: &Setup) {
    let stream = setup.stream();
    let mut word = word(setup, 1);
    let captured = || {
        let mut word = word_of(&word);
        stream.capture(CaptureMode::ThreadLocal, |_| setup.mul_add(&mut word, 10, 2, &stream))
    };
    // The same memory under another handle, so that the closure borrows nothing.
    fn word_of(word: &DeviceBuffer<u32>) -> DeviceBuffer<u32> {
        // SAFETY: the memory outlives all that the test does with it.
        unsafe { DeviceBuffer::borrow_raw(word.context(), word.as_raw(), 1) }.unwrap()
    }
    let mut child = captured().unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = graph.add_child(&child, &[]).unwrap();
    mul_add(setup, &mut child, &mut word, (10, 9), &[]);
    let second = graph.add_child(&graph_of(&child), &[first]).unwrap();
    fn graph_of(child: &Graph) -> Graph {
        child.try_clone().unwrap()
    }
    graph.remove_node(second).unwrap();
    mul_add(setup, &mut graph, &mut word, (10, 3), &[first]);
    drop(child);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [123]);
}

fn a_child_is_told_with_its_nodes(setup: &Setup) {
    let mut word = word(setup, 1);
    let mut child = Graph::new(&setup.context).unwrap();
    let first = mul_add(setup, &mut child, &mut word, (10, 1), &[]);
    child.add_fill(FillNode::new(&mut word, 4).unwrap(), &[first]).unwrap();
    let mut parent = Graph::new(&setup.context).unwrap();
    let node = parent.add_child(&child, &[]).unwrap();
    let topology = child.topology().unwrap();
    assert_eq!(topology.nodes().len(), 2);
    assert_eq!(
        parent.node(node).unwrap().params().unwrap(),
        NodeParams::ChildGraph(topology.clone())
    );
    let told = parent.topology().unwrap();
    assert_eq!(told.nodes()[0].operation(), &OperationSpec::ChildGraph(topology));
    let text = told.to_string();
    assert!(text.contains("child graph of 2 nodes") && text.contains("kernel mul_add"), "{text}");
    let kinds: Vec<_> = parent.retained().iter().map(|one| one.kind().clone()).collect();
    assert!(kinds.contains(&RetainedKind::Kernel("mul_add".to_owned())), "{kinds:?}");
    assert!(kinds.contains(&RetainedKind::DeviceMemory), "{kinds:?}");
}

fn a_graph_moves_into_another(setup: &Setup) {
    let mut word = word(setup, 1);
    let mut child = Graph::new(&setup.context).unwrap();
    let inner = mul_add(setup, &mut child, &mut word, (10, 2), &[]);
    let mut graph = Graph::new(&setup.context).unwrap();
    let moved = graph.add_child_moved(child, &[]).unwrap();
    mul_add(setup, &mut graph, &mut word, (10, 3), &[moved]);
    assert_eq!(refusal(graph.node(inner)), FOREIGN.replace("{}", "node"));
    run(setup, &graph);
    assert_eq!(read(setup, &word), [123]);
}

fn an_executable_keeps_what_its_graph_was(setup: &Setup) {
    let stream = setup.stream();
    let (mut one, mut two) = (word(setup, 1), word(setup, 1));
    let mut graph = Graph::new(&setup.context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut one, 5).unwrap(), &[]).unwrap();
    let before = graph.instantiate().unwrap();
    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut two, 6).unwrap()).unwrap();
    let after = graph.instantiate().unwrap();
    graph.remove_node(fill).unwrap();
    let empty = graph.instantiate().unwrap();
    assert_eq!((before.node_count(), after.node_count(), empty.node_count()), (1, 1, 0));
    drop(graph);
    after.launch(&stream).unwrap();
    empty.launch(&stream).unwrap();
    assert_eq!((read_on(&one, &stream), read_on(&two, &stream)), (1, 6));
    before.launch(&stream).unwrap();
    assert_eq!((read_on(&one, &stream), read_on(&two, &stream)), (5, 6));
}

fn read_on(word: &DeviceBuffer<u32>, stream: &grapture::Stream) -> u32 {
    word.to_vec(stream).unwrap()[0]
}
