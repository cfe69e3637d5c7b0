//! What a topology tells of a captured graph: lines, labels, parameters, and what changed.

use crate::common::{Setup, both_tiers};
use grapture::{
    BatchNode, CaptureMode, CudaResult, DeviceBuffer, Event, FillNode, Graph, Kernel,
    OperationSpec, PinnedBuffer, SourceLine, Stream, StreamGraphCapture, Topology, WaitFor,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

both_tiers! {
    nodes_have_the_lines_that_recorded_them,
    lines_are_right_across_streams_and_events,
    nodes_of_other_hands_take_the_lines_away,
    operations_of_other_threads_take_the_lines_away,
    labels_nest_and_end_with_their_closure,
    a_panic_ends_its_label,
    the_next_capture_begins_without_a_label,
    parameters_name_memory_and_tell_values,
    the_same_program_gives_the_same_text,
    a_diff_of_two_captures_says_what_changed,
    memory_nodes_and_child_graphs_are_told,
    batches_of_memory_operations_are_told,
    attributes_of_launches_are_told,
    nodes_added_by_hand_have_lines_beside_the_others,
    a_removed_node_leaves_the_lines_of_the_others,
    captures_into_a_graph_have_their_lines,
}

fn lines(topology: &Topology) -> Vec<Option<u32>> {
    topology.nodes().iter().map(|node| node.line().map(SourceLine::line)).collect()
}

fn labels(topology: &Topology) -> Vec<Option<&str>> {
    topology.nodes().iter().map(|node| node.label()).collect()
}

fn capture(
    stream: &Stream,
    record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> Graph {
    stream.capture(CaptureMode::ThreadLocal, record).unwrap()
}

fn nodes_have_the_lines_that_recorded_them(setup: &Setup) {
    let stream = setup.stream();
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let pinned = PinnedBuffer::from_slice(&setup.context, &[3u32; 64]).unwrap();
    let begin = line!();
    let graph = capture(&stream, |_| {
        words.fill(7, &stream)?;
        setup.add(&mut words, 1, &stream)?;
        stream.host_function(|| {})?;

        words.copy_from_pinned(&pinned, &stream)
    });
    let topology = graph.topology().unwrap();
    let expected = [begin + 2, begin + 3, begin + 4, begin + 6].map(Some);
    assert_eq!(lines(&topology), expected, "{topology}");
    let file = topology.nodes()[0].line().unwrap().file();
    assert!(file.ends_with("seeing.rs"), "{file}");
    assert!(topology.to_string().contains(&format!("seeing.rs:{}:", begin + 2)), "{topology}");
}

fn lines_are_right_across_streams_and_events(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    let mut left = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut right = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let outside = Event::new(&setup.context).unwrap();
    let begin = line!();
    let graph = capture(&main, |_| {
        fork.record(&main)?;
        fork.wait(&side)?;
        right.fill(1, &side)?;
        setup.add(&mut left, 1, &main)?;
        setup.add(&mut right, 1, &side)?;
        outside.record_external(&side)?;
        join.record(&side)?;
        join.wait(&main)?;
        outside.wait_external(&main)?;
        left.fill(0, &main)
    });
    let expected = [3, 4, 5, 6, 9, 10].map(|line| Some(begin + 1 + line));
    let topology = graph.topology().unwrap();
    assert_eq!(lines(&topology), expected, "{topology}");
}

/// Has `add` launched by other hands than the library's.
fn launch_by_hand(setup: &Setup, kernel: &Kernel, word: &DeviceBuffer<u32>, stream: &Stream) {
    let (mut address, mut value) = (word.as_raw(), 1u32);
    let mut arguments = [(&raw mut address).cast(), (&raw mut value).cast()];
    let launch = setup.driver.as_raw().functions().cuLaunchKernel;
    let (stream, arguments) = (stream.as_raw(), arguments.as_mut_ptr());
    // SAFETY: a live kernel and stream, and arguments as `add` takes them. The word outlives the
    // graph.
    let code = unsafe {
        launch(kernel.as_raw(), 1, 1, 1, 1, 1, 1, 0, stream, arguments, std::ptr::null_mut())
    };
    assert_eq!(code.0, 0);
}

fn nodes_of_other_hands_take_the_lines_away(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let foreign = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let kernel = setup.module.kernel("add").unwrap();
    let graph = capture(&stream, |capture| {
        capture.labelled("mine", || setup.add(&mut word, 1, &stream))?;
        launch_by_hand(setup, &kernel, &foreign, &stream);
        Ok(())
    });
    let topology = graph.topology().unwrap();
    assert_eq!(lines(&topology), [None, None], "which of the two is whose is not known");
    assert_eq!(labels(&topology), [None, None]);
}

fn operations_of_other_threads_take_the_lines_away(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |_| {
            setup.add(&mut word, 1, &stream)?;
            std::thread::scope(|scope| {
                scope.spawn(|| setup.add(&mut other, 1, &stream)).join().unwrap()
            })
        })
        .unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(lines(&topology), [None, None], "the order of the two is not known");
}

fn labels_nest_and_end_with_their_closure(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = capture(&stream, |capture| {
        setup.add(&mut word, 1, &stream)?;
        capture.labelled("layer \"0\"\n", || {
            setup.add(&mut word, 1, &stream)?;
            capture.labelled("attention", || setup.add(&mut word, 1, &stream))?;
            setup.add(&mut word, 1, &stream)
        })?;
        capture.labelled("nothing", || ());
        setup.add(&mut word, 1, &stream)
    });
    let topology = graph.topology().unwrap();
    let (outer, inner) = (Some("layer \"0\"\n"), Some("layer \"0\"\n / attention"));
    assert_eq!(labels(&topology), [None, outer, inner, outer, None]);
    assert!(topology.to_string().contains(r#"labelled "layer \"0\"\n / attention""#), "{topology}");
    let profile = graph.profile(&stream, 1).unwrap();
    assert!(profile.to_string().contains("attention"), "{profile}");
}

fn a_panic_ends_its_label(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = capture(&stream, |capture| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            capture.labelled("doomed", || panic!("in a label"));
        }));
        assert!(panicked.is_err());
        setup.add(&mut word, 1, &stream)
    });
    assert_eq!(labels(&graph.topology().unwrap()), [None]);
}

fn the_next_capture_begins_without_a_label(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let failed = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.labelled("first", || {
            setup.add(&mut word, 1, &stream)?;
            Err(grapture::CudaError::InvalidValue)
        })
    });
    assert!(failed.is_err());
    let graph = capture(&stream, |_| setup.add(&mut word, 1, &stream));
    assert_eq!(labels(&graph.topology().unwrap()), [None]);
}

/// A parameter of a node by its name.
#[track_caller]
fn parameter<'a>(topology: &'a Topology, node: usize, name: &str) -> &'a str {
    let parameters = topology.nodes()[node].parameters();
    let found = parameters.iter().find(|parameter| parameter.name() == name);
    found.unwrap_or_else(|| panic!("no {name} of node {node}: {topology}")).value()
}

/// A graph that copies, fills, launches and records events.
fn program(setup: &Setup, value: u32) -> Graph {
    let stream = setup.stream();
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let pinned = PinnedBuffer::from_slice(&setup.context, &[3u32; 64]).unwrap();
    let event = Event::new(&setup.context).unwrap();
    capture(&stream, |_| {
        words.copy_from_pinned(&pinned, &stream)?;
        other.view_mut(4..8)?.fill(7, &stream)?;
        setup.add(&mut other, value, &stream)?;
        event.record_external(&stream)?;
        words.copy_from(&other, &stream)?;
        event.wait_external(&stream)
    })
}

fn parameters_name_memory_and_tell_values(setup: &Setup) {
    let topology = program(setup, 0x1234).topology().unwrap();
    assert_eq!(parameter(&topology, 0, "from"), "h0");
    assert_eq!(parameter(&topology, 0, "to"), "d0");
    assert_eq!(parameter(&topology, 1, "to"), "d1 + 16");
    if topology.nodes()[2].parameters().iter().any(|one| one.name().starts_with("argument")) {
        assert_eq!(parameter(&topology, 2, "argument 0"), "d1");
        assert_eq!(parameter(&topology, 2, "argument 1"), "0x1234");
    }
    assert_eq!(parameter(&topology, 3, "event"), "e0");
    assert_eq!(parameter(&topology, 4, "from"), "d1");
    assert_eq!(parameter(&topology, 5, "event"), "e0");
    let read = Topology::from_json(&topology.to_json()).unwrap();
    assert_eq!(read.nodes(), topology.nodes());
    assert!(read.diff(&topology).is_empty());
}

fn the_same_program_gives_the_same_text(setup: &Setup) {
    let (one, _in_between) = (program(setup, 1), setup.stream());
    let other = program(setup, 1);
    let (one, other) = (one.topology().unwrap(), other.topology().unwrap());
    assert_eq!(one.to_string(), other.to_string());
    assert_eq!(one.to_json(), other.to_json());
    assert_eq!(one.to_dot(), other.to_dot());
    assert_eq!(one.to_mermaid(), other.to_mermaid());
    assert!(one.diff(&other).is_empty());
}

fn a_diff_of_two_captures_says_what_changed(setup: &Setup) {
    let (one, other) = (program(setup, 1), program(setup, 2));
    let diff = one.topology().unwrap().diff(&other.topology().unwrap());
    assert_eq!(diff.to_string(), "node 2 (kernel add): argument 1 from 0x1 to 0x2");
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let short = capture(&stream, |_| setup.add(&mut word, 1, &stream)).topology().unwrap();
    let long = capture(&stream, |_| {
        setup.add(&mut word, 1, &stream)?;
        stream.host_function(|| {})
    });
    let long = long.topology().unwrap();
    let text = short.diff(&long).to_string();
    assert!(text.starts_with("node 1 is new: host function, from "), "{text}");
    assert!(text.ends_with("\nnode 1 waits for node 0"), "{text}");
}

fn memory_nodes_and_child_graphs_are_told(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let child = capture(&stream, |_| setup.add(&mut word, 5, &stream));
    let mut graph = capture(&stream, |_| word.fill(1, &stream));
    let fill = graph.nodes().unwrap()[0].id();
    graph.add_child(&child, &[fill]).unwrap();
    let topology = graph.topology().unwrap();
    let OperationSpec::ChildGraph(inner) = topology.nodes()[1].operation() else {
        panic!("{topology}")
    };
    assert_eq!(parameter(&topology, 0, "to"), "d0");
    // The memory of the parent has the same name in the child.
    assert_eq!(parameter(inner, 0, "argument 0"), "d0");
    for text in [topology.to_dot(), topology.to_mermaid(), topology.to_string()] {
        assert!(text.contains("kernel add"), "{text}");
    }
    let profile = graph.profile(&stream, 1).unwrap();
    assert_eq!(profile.nodes().len(), 2, "a child is one node: {profile}");

    let mut graph = Graph::new(&setup.context).unwrap();
    let memory = graph.add_alloc::<u32>(16, &[]).unwrap();
    graph.add_free(&memory, &[]).unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(topology.nodes()[0].operation(), &OperationSpec::Allocation { bytes: 64 });
    assert_eq!(topology.nodes()[1].operation(), &OperationSpec::Free);
    assert_eq!(parameter(&topology, 0, "memory"), "g0");
    assert_eq!(parameter(&topology, 1, "memory"), "g0");
    let error = graph.profile(&stream, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "graph.nodes: node 0 is a node of kind `memory allocation`, and the driver copies no graph \
         that has one: `Graph::profile_of` measures one that is built twice"
    );
}

fn attributes_of_launches_are_told(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let kernel = setup.module.kernel("add").unwrap();
    let graph = capture(&stream, |_| {
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.cooperative(true).launch(&stream) }
    });
    let topology = graph.topology().unwrap();
    assert_eq!(parameter(&topology, 0, "cooperative"), "yes");
}

fn batches_of_memory_operations_are_told(setup: &Setup) {
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let batch = BatchNode::new(&setup.context).write(&mut words.view_mut(2..3).unwrap(), 5u32);
    let batch = batch.unwrap().wait(&words.view(2..3).unwrap(), WaitFor::Equal(5)).unwrap();
    graph.add_batch(batch, &[]).unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(topology.nodes()[0].operation(), &OperationSpec::BatchMemOp { operations: 2 });
    assert_eq!(parameter(&topology, 0, "operation 0"), "write 0x5 to d0 + 8 in 4 bytes");
    assert_eq!(parameter(&topology, 0, "operation 1"), "wait for d0 + 8 == 0x5 in 4 bytes");
    let profile = graph.profile(&setup.stream(), 2).unwrap();
    assert_eq!(profile.critical_path(), [0]);
}

fn nodes_added_by_hand_have_lines_beside_the_others(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut graph =
        capture(&stream, |capture| capture.labelled("captured", || word.fill(1, &stream)));
    let fill = graph.nodes().unwrap()[0].id();
    let added = line!() + 1;
    graph.add_fill(FillNode::new(&mut word, 2).unwrap(), &[fill]).unwrap();
    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut word, 3).unwrap()).unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(labels(&topology), [Some("captured"), None]);
    assert_eq!(lines(&topology), [Some(added - 3), Some(added)], "{topology}");
}

fn a_removed_node_leaves_the_lines_of_the_others(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let begin = line!();
    let mut graph = capture(&stream, |capture| {
        word.fill(1, &stream)?;
        capture.labelled("second", || word.fill(2, &stream))
    });
    let first = graph.nodes().unwrap()[0].id();
    graph.remove_node(first).unwrap();
    assert_eq!(lines(&graph.topology().unwrap()), [Some(begin + 3)]);
    graph.add_fill(FillNode::new(&mut word, 3).unwrap(), &[]).unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(lines(&topology), [Some(begin + 3), Some(begin + 8)], "{topology}");
    assert_eq!(labels(&topology), [Some("second"), None]);
    // Its name is of no node any more.
    assert!(graph.set_label(first, "gone").is_err());
}

fn captures_into_a_graph_have_their_lines(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let mode = CaptureMode::ThreadLocal;
    let begin = line!();
    let into = |graph: &mut Graph, word: &mut DeviceBuffer<u32>| {
        stream.capture_into(graph, &[], mode, |_| word.fill(1, &stream)).unwrap()
    };
    into(&mut graph, &mut word);
    assert_eq!(lines(&graph.topology().unwrap()), [Some(begin + 2)]);
    graph.add_fill(FillNode::new(&mut word, 2).unwrap(), &[]).unwrap();
    into(&mut graph, &mut word);
    let expected = [begin + 2, begin + 6, begin + 2].map(Some);
    assert_eq!(lines(&graph.topology().unwrap()), expected);
}
