//! Graphs built by hand: nodes, their order, their parameters told back and changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Setup, both_tiers};
use grapture::{
    CopyDirection, CopyNode, CudaError, CudaResult, DeviceBuffer, Dim3, EdgeData, Event,
    EventOptions, FillNode, Graph, NodeId, NodeKind, NodeParams, OperationSpec, PinnedBuffer,
    Region2d,
};

both_tiers! {
    every_kind_of_node_is_built_and_runs,
    nodes_run_in_the_order_of_their_dependencies,
    rectangles_are_copied_and_filled,
    fills_have_units_of_one_two_and_four_bytes,
    elements_of_the_host_are_kept_as_they_were,
    a_graph_is_built_whatever_context_is_current,
    parameters_are_told_back,
    arguments_are_told_back,
    what_a_graph_waits_for_is_known,
    a_node_that_is_named_twice_is_waited_for_once,
    what_a_launch_refuses_a_graph_refuses,
    copies_that_cannot_be_are_refused,
    an_event_node_is_waited_for_outside,
    event_nodes_take_the_time,
}

#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

/// A node that does `word = word * factor + value`.
#[track_caller]
pub(crate) fn mul_add(
    setup: &Setup,
    graph: &mut Graph,
    word: &mut DeviceBuffer<u32>,
    (factor, value): (u32, u32),
    after: &[NodeId],
) -> NodeId {
    let kernel = setup.module.kernel("mul_add").unwrap();
    let launch = kernel.launch_builder(1, 1).arg_mut(word).value(factor).value(value);
    // SAFETY: `mul_add` takes the address of a word and two values.
    unsafe { graph.add_kernel(launch, after) }.unwrap()
}

/// Instantiates and launches the graph, and waits.
#[track_caller]
pub(crate) fn run(setup: &Setup, graph: &Graph) {
    let stream = setup.stream();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

pub(crate) fn word(setup: &Setup, value: u32) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, &[value]).unwrap()
}

#[track_caller]
pub(crate) fn read<T: bytemuck::Pod>(setup: &Setup, buffer: &DeviceBuffer<T>) -> Vec<T> {
    buffer.to_vec(&setup.stream()).unwrap()
}

fn kinds(graph: &Graph) -> Vec<NodeKind> {
    graph.nodes().unwrap().iter().map(|node| node.kind()).collect()
}

fn every_kind_of_node_is_built_and_runs(setup: &Setup) {
    let context = &setup.context;
    let input = PinnedBuffer::from_slice(context, &[1u32, 2, 3, 4]).unwrap();
    let mut output = PinnedBuffer::<u32>::zeroed(context, 4).unwrap();
    let mut buffer = DeviceBuffer::<u32>::alloc(context, 4).unwrap();
    let mut other = DeviceBuffer::<u32>::alloc(context, 4).unwrap();
    let (recorded, waited) = (Event::new(context).unwrap(), Event::new(context).unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    let child = Graph::new(context).unwrap();

    let mut graph = Graph::new(context).unwrap();
    let wait = graph.add_event_wait(&waited, &[]).unwrap();
    let load = graph.add_copy(CopyNode::from_pinned(&mut buffer, &input).unwrap(), &[wait]);
    let copy = CopyNode::device(&mut other, &buffer).unwrap();
    let copy = graph.add_copy(copy, &[load.unwrap()]).unwrap();
    let fill = FillNode::new(&mut other.view_mut(2..3).unwrap(), 9).unwrap();
    let fill = graph.add_fill(fill, &[copy]).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut other).value(10u32);
    // SAFETY: `add` takes the address of a word and a value.
    let add = unsafe { graph.add_kernel(launch, &[fill]) }.unwrap();
    let empty = graph.add_empty(&[add]).unwrap();
    let child = graph.add_child(&child, &[empty]).unwrap();
    let count = runs.clone();
    let host = graph.add_host(move || _ = count.fetch_add(1, Ordering::SeqCst), &[child]);
    let save = CopyNode::to_pinned(&mut output, &other).unwrap();
    let save = graph.add_copy(save, &[host.unwrap()]).unwrap();
    graph.add_event_record(&recorded, &[save]).unwrap();

    assert_eq!(
        kinds(&graph),
        [
            NodeKind::EventWait,
            NodeKind::Memcpy,
            NodeKind::Memcpy,
            NodeKind::Memset,
            NodeKind::Kernel,
            NodeKind::Empty,
            NodeKind::ChildGraph,
            NodeKind::Host,
            NodeKind::Memcpy,
            NodeKind::EventRecord
        ]
    );
    assert_eq!((graph.node_count().unwrap(), graph.edges().unwrap().len()), (10, 9));
    drop((buffer, other));
    let exec = graph.instantiate().unwrap();
    drop(graph);
    let stream = setup.stream();
    for _ in 0..2 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(*output.read().unwrap(), [11, 2, 9, 4]);
    recorded.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

fn nodes_run_in_the_order_of_their_dependencies(setup: &Setup) {
    let mut word = word(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let last = mul_add(setup, &mut graph, &mut word, (10, 3), &[]);
    let first = mul_add(setup, &mut graph, &mut word, (10, 1), &[]);
    let middle = mul_add(setup, &mut graph, &mut word, (10, 2), &[first]);
    graph.add_dependency(middle, last).unwrap();
    assert_eq!(graph.roots().unwrap(), [first]);
    run(setup, &graph);
    assert_eq!(read(setup, &word), [1123]);
}

fn rectangles_are_copied_and_filled(setup: &Setup) {
    let context = &setup.context;
    let numbers: Vec<u16> = (0..16).collect();
    let source = DeviceBuffer::from_slice(context, &numbers).unwrap();
    let mut target = DeviceBuffer::<u16>::zeroed(context, 16).unwrap();
    let mut pinned = PinnedBuffer::<u16>::zeroed(context, 16).unwrap();
    let square = |offset| Region2d::new(2, 2).pitch(4).offset(offset);
    let mut graph = Graph::new(context).unwrap();
    let copy = CopyNode::device_2d(&mut target, square(0), &source, square(5)).unwrap();
    let copy = graph.add_copy(copy, &[]).unwrap();
    let fill = FillNode::rectangle(&mut target, square(10), 7).unwrap();
    let fill = graph.add_fill(fill, &[copy]).unwrap();
    let out = CopyNode::to_pinned_2d(&mut pinned, square(1), &target, square(0)).unwrap();
    let out = graph.add_copy(out, &[fill]).unwrap();
    let back = CopyNode::from_pinned_2d(&mut target, square(2), &pinned, square(1)).unwrap();
    let back = graph.add_copy(back, &[out]).unwrap();
    let kept = CopyNode::from_host_2d(&mut target, square(8), &numbers, square(1)).unwrap();
    graph.add_copy(kept, &[back]).unwrap();
    run(setup, &graph);
    let expected = [5, 6, 5, 6, 9, 10, 9, 10, 1, 2, 7, 7, 5, 6, 7, 7];
    assert_eq!(read(setup, &target), expected);
    assert_eq!(pinned.read().unwrap()[..8], [0, 5, 6, 0, 0, 9, 10, 0]);
}

fn fills_have_units_of_one_two_and_four_bytes(setup: &Setup) {
    let context = &setup.context;
    let mut bytes = DeviceBuffer::<u8>::alloc(context, 5).unwrap();
    let mut halves = DeviceBuffer::<u16>::alloc(context, 5).unwrap();
    let mut words = DeviceBuffer::<u32>::alloc(context, 5).unwrap();
    let mut longs = DeviceBuffer::<i64>::alloc(context, 5).unwrap();
    let mut graph = Graph::new(context).unwrap();
    graph.add_fill(FillNode::new(&mut bytes, 0xab).unwrap(), &[]).unwrap();
    graph.add_fill(FillNode::new(&mut halves, 0xabcd).unwrap(), &[]).unwrap();
    graph.add_fill(FillNode::new(&mut words, 0x1234_5678).unwrap(), &[]).unwrap();
    graph.add_fill(FillNode::new(&mut longs, -1).unwrap(), &[]).unwrap();
    run(setup, &graph);
    assert_eq!(read(setup, &bytes), [0xab; 5]);
    assert_eq!(read(setup, &halves), [0xabcd; 5]);
    assert_eq!(read(setup, &words), [0x1234_5678; 5]);
    assert_eq!(read(setup, &longs), [-1; 5]);
}

fn elements_of_the_host_are_kept_as_they_were(setup: &Setup) {
    let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, 3).unwrap();
    let mut host = vec![1, 2, 3];
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_copy(CopyNode::from_host(&mut buffer, &host).unwrap(), &[]).unwrap();
    host.fill(9);
    drop(host);
    run(setup, &graph);
    assert_eq!(read(setup, &buffer), [1, 2, 3]);
}

/// Without its context in its parameters a kernel node would act on the one that is current, and
/// the driver would crash without one.
fn a_graph_is_built_whatever_context_is_current(setup: &Setup) {
    let build = || {
        let mut word = word(setup, 1);
        let mut graph = Graph::new(&setup.context).unwrap();
        let first = mul_add(setup, &mut graph, &mut word, (10, 3), &[]);
        let node = graph.node_mut(first).unwrap();
        let kernel = setup.module.kernel("add").unwrap();
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut word).value(5u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { node.set_kernel(launch) }.unwrap();
        run(setup, &graph);
        assert_eq!(read(setup, &word), [6]);
    };
    build();
    std::thread::scope(|scope| scope.spawn(build).join().unwrap());
}

fn parameters_are_told_back(setup: &Setup) {
    let context = &setup.context;
    let mut buffer = DeviceBuffer::<u16>::zeroed(context, 32).unwrap();
    let mut pinned = PinnedBuffer::<u16>::zeroed(context, 32).unwrap();
    let event = Event::new(context).unwrap();
    let mut graph = Graph::new(context).unwrap();
    let region = Region2d::new(2, 3).pitch(8).offset(1);
    let copy = CopyNode::to_pinned_2d(&mut pinned, region.pitch(4), &buffer, region).unwrap();
    let copy = graph.add_copy(copy, &[]).unwrap();
    let fill = graph.add_fill(FillNode::rectangle(&mut buffer, region, 7).unwrap(), &[]).unwrap();
    let host = graph.add_host(|| {}, &[]).unwrap();
    let empty = graph.add_empty(&[]).unwrap();
    let record = graph.add_event_record(&event, &[]).unwrap();
    let wait = graph.add_event_wait(&event, &[]).unwrap();
    let params = |node| graph.node(node).unwrap().params().unwrap();

    let NodeParams::Memcpy { target, source, width_bytes, height, depth } = params(copy) else {
        panic!("{:?}", params(copy))
    };
    assert_eq!((width_bytes, height, depth), (4, 3, 1));
    assert!(source.is_device() && !source.is_host() && target.is_host() && !target.is_device());
    assert_eq!((source.address(), source.pitch_bytes()), (buffer.as_raw() + 2, 16));
    let host_address = pinned.as_ptr().wrapping_add(1).addr() as u64;
    assert_eq!((target.address(), target.pitch_bytes()), (host_address, 8));
    assert_eq!(
        params(fill),
        NodeParams::Memset {
            address: buffer.as_raw() + 2,
            value: 7,
            element_bytes: 2,
            width: 2,
            height: 3,
            pitch_bytes: 16
        }
    );
    assert_eq!(params(host), NodeParams::Host);
    assert_eq!(params(empty), NodeParams::Empty);
    assert_eq!(params(record), NodeParams::EventRecord(event.as_raw()));
    assert_eq!(params(wait), NodeParams::EventWait(event.as_raw()));
    assert_eq!(graph.node(copy).unwrap().kind(), NodeKind::Memcpy);
    assert_eq!(
        graph.topology().unwrap().nodes()[0].operation(),
        &OperationSpec::Copy { direction: CopyDirection::DeviceToHost, bytes: 12 }
    );
}

fn arguments_are_told_back(setup: &Setup) {
    let out = DeviceBuffer::<u64>::zeroed(&setup.context, 3).unwrap();
    let kernel = setup.module.kernel("unpack").unwrap();
    let pair = [1u8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0, 0, 0];
    let launch = kernel.launch_builder((2, 1), 32).shared_bytes(64).arg(&out).bytes(&pair);
    let mut graph = Graph::new(&setup.context).unwrap();
    // SAFETY: it is not launched.
    let node = unsafe { graph.add_kernel(launch, &[]) }.unwrap();
    let none = setup.module.kernel("nothing").unwrap();
    // SAFETY: `nothing` takes nothing.
    let none = unsafe { graph.add_kernel(none.launch_builder(1, 1), &[]) }.unwrap();
    let params = |node| match graph.node(node).unwrap().params().unwrap() {
        NodeParams::Kernel { name, grid, block, shared_bytes, arguments, .. } => {
            (name, grid, block, shared_bytes, arguments)
        }
        other => panic!("{other:?}"),
    };
    let known = kernel.parameter_sizes().is_some();
    let arguments = vec![out.as_raw().to_ne_bytes().into(), pair.into()];
    assert_eq!(
        params(node),
        ("unpack".to_owned(), Dim3::new(2, 1, 1), Dim3::x(32), 64, known.then_some(arguments))
    );
    assert_eq!(params(none).4, known.then(Vec::new));
}

fn what_a_graph_waits_for_is_known(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let (a, b) = (graph.add_empty(&[]).unwrap(), graph.add_empty(&[]).unwrap());
    let c = graph.add_empty(&[a, b]).unwrap();
    let full = |node| (node, EdgeData::FULL);
    let node = |id| graph.node(id).unwrap();
    assert_eq!(node(c).dependencies().unwrap(), [full(a), full(b)]);
    assert_eq!(node(a).dependents().unwrap(), [full(c)]);
    assert_eq!((node(a).dependencies().unwrap(), node(c).dependents().unwrap()), (vec![], vec![]));
    assert_eq!(node(c).id(), c);
}

fn a_node_that_is_named_twice_is_waited_for_once(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let a = graph.add_empty(&[]).unwrap();
    graph.add_empty(&[a, a]).unwrap();
    assert_eq!(graph.edges().unwrap().len(), 1);
}

fn what_a_launch_refuses_a_graph_refuses(setup: &Setup) {
    let mut word = word(setup, 0);
    let add = setup.module.kernel("add").unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let launch = add.launch_builder(0, 1).arg_mut(&mut word).value(1u32);
    // SAFETY: it is refused.
    let text = refusal(unsafe { graph.add_kernel(launch, &[]) });
    assert_eq!(text, "kernel.grid_dim.x: it is 0, and every dimension is at least 1");
    if add.parameter_sizes().is_some() {
        let launch = add.launch_builder(1, 1).arg_mut(&mut word);
        // SAFETY: as above.
        let text = refusal(unsafe { graph.add_kernel(launch, &[]) });
        assert_eq!(text, "kernel.args: `add` takes 2 arguments, and 1 were given");
    }
    assert_eq!((graph.node_count().unwrap(), graph.retained().len()), (0, 0));
}

fn copies_that_cannot_be_are_refused(setup: &Setup) {
    let mut four = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let three = DeviceBuffer::<u32>::zeroed(&setup.context, 3).unwrap();
    let none = DeviceBuffer::<u32>::zeroed(&setup.context, 0).unwrap();
    let mut no_target = DeviceBuffer::<u32>::zeroed(&setup.context, 0).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 3).unwrap();
    let lengths = |source, target| {
        format!(
            "copy.len: the source has {source} elements and the target {target}: take a view of \
             the longer one"
        )
    };
    assert_eq!(refusal(CopyNode::device(&mut four, &three)), lengths(3, 4));
    assert_eq!(refusal(CopyNode::from_pinned(&mut four, &pinned)), lengths(3, 4));
    assert_eq!(refusal(CopyNode::to_pinned(&mut pinned, &four)), lengths(4, 3));
    assert_eq!(refusal(CopyNode::from_host(&mut four, &[1, 2])), lengths(2, 4));
    let nothing = "copy.len: it is 0, and no node copies nothing: leave the node out, or add an \
                   empty one";
    assert_eq!(refusal(CopyNode::device(&mut no_target, &none)), nothing);
    let region = Region2d::new(2, 2).pitch(3);
    let text = refusal(CopyNode::device_2d(&mut four, region, &three, region));
    assert!(text.starts_with("copy.region: ") && text.contains("past the end"), "{text}");
    let text = refusal(FillNode::rectangle(&mut four, region, 1));
    assert!(text.starts_with("fill.region: ") && text.contains("past the end"), "{text}");
    assert_eq!(
        refusal(FillNode::new(&mut no_target, 1)),
        "fill.len: it is 0, and no node fills nothing: leave the node out, or add an empty one"
    );
    let mut doubles = DeviceBuffer::<f64>::zeroed(&setup.context, 1).unwrap();
    assert!(refusal(FillNode::new(&mut doubles, 1.0)).starts_with("fill.value: "));
}

/// What a node of another graph is refused with.
pub(crate) const FOREIGN: &str =
    "{}: it is a node of another graph: only a graph's own nodes can be named to it";

fn an_event_node_is_waited_for_outside(setup: &Setup) {
    let stream = setup.stream();
    let (mut one, other) = (word(setup, 1), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = mul_add(setup, &mut graph, &mut one, (10, 2), &[]);
    graph.add_event_record(&event, &[node]).unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    event.wait(&other).unwrap();
    setup.mul_add(&mut one, 10, 3, &other).unwrap();
    assert_eq!(one.to_vec(&other).unwrap(), [123]);
}

fn event_nodes_take_the_time(setup: &Setup) {
    let stream = setup.stream();
    let timed = || Event::with_options(&setup.context, EventOptions::new().timing(true)).unwrap();
    let (start, end) = (timed(), timed());
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = graph.add_event_record(&start, &[]).unwrap();
    let last = graph.add_event_record(&start, &[first]).unwrap();
    graph.node_mut(last).unwrap().set_event(&end).unwrap();
    run(setup, &graph);
    stream.synchronize().unwrap();
    end.elapsed_since(&start).unwrap();
}
