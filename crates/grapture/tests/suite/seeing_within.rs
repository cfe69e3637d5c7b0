//! What a topology tells of the graphs within nodes, and of nodes that were added by hand.

use super::conditional::PTX;
use crate::common::{Setup, both_tiers};
use grapture::{
    BatchNode, CaptureMode, ConditionalForm, CopyNode, CudaError, CudaResult, DeviceBuffer, Event,
    FillNode, Graph, GraphBody, Kernel, NodeParams, OperationSpec, SourceLine, Stream,
    StreamGraphCapture, Topology, WordCondition,
};

both_tiers! {
    a_captured_loop_is_told_with_its_body,
    bodies_are_told_to_any_depth,
    built_bodies_are_told,
    conditions_and_defaults_are_told,
    other_threads_leave_the_bodies_known,
    a_conditional_node_that_was_removed_is_not_told,
    a_body_that_failed_leaves_nothing,
    conditional_nodes_are_read_back,
    the_same_program_gives_the_same_text,
    a_diff_says_what_changed_within,
    embedded_graphs_have_their_lines,
    child_graphs_have_their_lines,
    every_node_that_is_added_has_its_line,
    labels_are_given_by_hand,
    clones_keep_lines_and_labels,
}

const MODE: CaptureMode = CaptureMode::ThreadLocal;

fn words(setup: &Setup, value: u32) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, &[value]).unwrap()
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
    stream.capture(MODE, record).unwrap()
}

/// The form and the bodies of a conditional node.
#[track_caller]
fn bodies(topology: &Topology, node: usize) -> (ConditionalForm, &[Topology]) {
    match topology.nodes()[node].operation() {
        OperationSpec::Conditional { form, bodies } => (*form, bodies),
        other => panic!("{other}: {topology}"),
    }
}

#[track_caller]
fn parameter<'a>(topology: &'a Topology, node: usize, name: &str) -> Option<&'a str> {
    let parameters = topology.nodes()[node].parameters();
    let found = parameters.iter().find(|parameter| parameter.name() == name);
    found.map(|parameter| parameter.value())
}

fn a_captured_loop_is_told_with_its_body(setup: &Setup) {
    let stream = setup.stream();
    let (mut left, mut word) = (words(setup, 2), words(setup, 0));
    let condition = WordCondition::new(&left).unwrap();
    let begin = line!();
    let graph = capture(&stream, |capture| {
        word.fill(9, &stream)?;
        capture.labelled("converge", || {
            capture.while_(&condition, |body| {
                body.labelled("step \"0\"", || setup.add(&mut word, 1, body.stream()))?;
                setup.add(&mut left, u32::MAX, body.stream())
            })
        })?;
        word.fill(8, &stream)
    });
    let topology = graph.topology().unwrap();
    // The word is read before the loop and after each round.
    let expected = [2, 4, 4, 9].map(|line| Some(begin + line));
    assert_eq!(lines(&topology), expected, "{topology}");
    let label = Some("converge");
    assert_eq!(labels(&topology), [None, label, label, None]);
    assert_eq!(parameter(&topology, 2, "by"), Some("d1"), "{topology}");
    let (form, bodies) = bodies(&topology, 2);
    assert_eq!((form, bodies.len()), (ConditionalForm::While, 1));
    let expected = [5, 6, 4].map(|line| Some(begin + line));
    assert_eq!(lines(&bodies[0]), expected, "{topology}");
    assert_eq!(labels(&bodies[0]), [Some("step \"0\""), None, None]);
    assert_eq!(parameter(&bodies[0], 0, "argument 0"), Some("d0"), "the memory has one name");
    for text in [topology.to_string(), topology.to_dot(), topology.to_mermaid()] {
        assert!(text.contains("while of 1 body") && text.contains("step"), "{text}");
    }
}

fn bodies_are_told_to_any_depth(setup: &Setup) {
    let stream = setup.stream();
    let (word, mut out) = (words(setup, 1), words(setup, 0));
    let condition = WordCondition::new(&word).unwrap();
    let begin = line!();
    let graph = capture(&stream, |capture| {
        capture.switch(&condition, 3, |case, body| {
            if case == 1 {
                return body.if_else(&condition, |then| out.fill(1, then.stream()), |_| Ok(()));
            }
            out.fill(case as u32, body.stream())
        })
    });
    let topology = graph.topology().unwrap();
    let (form, cases) = bodies(&topology, 1);
    assert_eq!((form, cases.len()), (ConditionalForm::Switch, 3));
    assert_eq!(lines(&cases[2]), [Some(begin + 6)], "{topology}");
    assert_eq!(cases[2].nodes().len(), 1);
    let (form, choices) = bodies(&cases[1], 1);
    assert_eq!((form, choices.len()), (ConditionalForm::If, 2));
    assert_eq!(lines(&choices[0]), [Some(begin + 4)], "{topology}");
    assert!(choices[1].nodes().is_empty());
    let read = Topology::from_json(&topology.to_json()).unwrap();
    assert_eq!(read.nodes(), topology.nodes());
}

/// Adds a fill to a body, and captures one after it.
fn fills(
    body: &mut GraphBody<'_>,
    out: &mut DeviceBuffer<u32>,
    stream: &Stream,
) -> CudaResult<u32> {
    let first = body.add_fill(FillNode::new(out, 1)?, &[])?;
    let line = line!() - 1;
    body.capture(stream, &[first], |capture| capture.labelled("captured", || out.fill(2, stream)))?;
    Ok(line)
}

fn built_bodies_are_told(setup: &Setup) {
    let stream = setup.stream();
    let (word, mut out, mut line) = (words(setup, 1), words(setup, 0), 0);
    let condition = WordCondition::new(&word).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let begin = line!();
    let node = graph
        .add_while(&condition, &[], |body| {
            line = fills(body, &mut out, &stream)?;
            let inner = body.condition(1)?;
            body.add_if(&inner, &[], |body| body.add_empty(&[]).map(drop)).map(drop)
        })
        .unwrap();
    graph.set_label(node, "loop").unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(lines(&topology), [Some(begin + 2); 2], "{topology}");
    assert_eq!(labels(&topology), [None, Some("loop")]);
    let (_, rounds) = bodies(&topology, 1);
    let expected = [line, line + 2, begin + 5, begin + 2].map(Some);
    assert_eq!(lines(&rounds[0]), expected, "{topology}");
    assert_eq!(labels(&rounds[0]), [None, Some("captured"), None, None]);
    let (_, inner) = bodies(&rounds[0], 2);
    assert_eq!(inner[0].nodes()[0].operation(), &OperationSpec::Empty);
    assert_eq!(lines(&inner[0]), [Some(begin + 5)]);
}

fn conditions_and_defaults_are_told(setup: &Setup) {
    let stream = setup.stream();
    let mut out = words(setup, 0);
    let graph = capture(&stream, |capture| {
        let (first, second) = (capture.condition(3)?, capture.condition(None)?);
        capture.if_(&second, |body| out.fill(1, body.stream()))?;
        capture.if_(&first, |body| out.fill(2, body.stream()))
    });
    let topology = graph.topology().unwrap();
    assert_eq!(parameter(&topology, 0, "by"), Some("condition 0x2"));
    assert_eq!(parameter(&topology, 0, "default"), None);
    assert_eq!(parameter(&topology, 1, "by"), Some("condition 0x1"));
    assert_eq!(parameter(&topology, 1, "default"), Some("0x3"));
}

fn other_threads_leave_the_bodies_known(setup: &Setup) {
    let stream = setup.stream();
    let (mut out, mut other) = (words(setup, 0), words(setup, 0));
    let graph = stream
        .capture(CaptureMode::Relaxed, |capture| {
            let condition = capture.condition(1)?;
            capture.if_(&condition, |body| out.fill(1, body.stream()))?;
            std::thread::scope(|scope| {
                scope.spawn(|| setup.add(&mut other, 1, &stream)).join().unwrap()
            })
        })
        .unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(lines(&topology), [None, None], "the order of the two is not known");
    let (_, inner) = bodies(&topology, 0);
    assert!(matches!(lines(&inner[0])[..], [Some(_)]), "{topology}");
}

fn a_conditional_node_that_was_removed_is_not_told(setup: &Setup) {
    let stream = setup.stream();
    let mut out = words(setup, 0);
    let mut graph = capture(&stream, |capture| {
        let condition = capture.condition(1)?;
        capture.if_(&condition, |body| out.fill(1, body.stream()))?;
        out.fill(2, &stream)
    });
    let branch = graph.nodes().unwrap()[0].id();
    graph.remove_node(branch).unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(topology.nodes().len(), 1, "{topology}");
    // The driver uses the handles of nodes again.
    for value in 0..3 {
        let condition = graph.condition(1).unwrap();
        let built = graph.add_if(&condition, &[], |body| {
            (0..value).try_for_each(|_| body.add_empty(&[]).map(drop))
        });
        let (node, topology) = (built.unwrap(), graph.topology().unwrap());
        assert_eq!(bodies(&topology, 1).1[0].nodes().len(), value, "{topology}");
        graph.remove_node(node).unwrap();
    }
}

fn a_body_that_failed_leaves_nothing(setup: &Setup) {
    let mut out = words(setup, 0);
    let mut graph = Graph::new(&setup.context).unwrap();
    let condition = graph.condition(1).unwrap();
    let failed = graph.add_if(&condition, &[], |body| {
        body.add_fill(FillNode::new(&mut out, 1)?, &[])?;
        Err(CudaError::InvalidValue)
    });
    assert!(failed.is_err());
    assert!(graph.topology().unwrap().nodes().is_empty());
    let built = graph.add_if(&condition, &[], |body| body.add_empty(&[]).map(drop));
    built.unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(bodies(&topology, 0).1[0].nodes()[0].operation(), &OperationSpec::Empty);
    assert_eq!(topology.nodes().len(), 1);
}

fn conditional_nodes_are_read_back(setup: &Setup) {
    let (word, mut out) = (words(setup, 1), words(setup, 0));
    let condition = WordCondition::new(&word).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let by_word = graph.add_if(&condition, &[], |_| Ok(())).unwrap();
    let condition = graph.condition(7).unwrap();
    let built = graph.add_switch(&condition, 2, &[], |case, body| {
        body.add_fill(FillNode::new(&mut out, case as u32)?, &[]).map(drop)
    });
    let by_condition = built.unwrap();
    let read = |node| match graph.node(node).unwrap().params().unwrap() {
        NodeParams::Conditional { form, word, default, bodies } => (form, word, default, bodies),
        other => panic!("{other:?}"),
    };
    let (form, at, default, bodies) = read(by_word);
    assert_eq!((form, at, default), (ConditionalForm::If, Some(word.as_raw()), None));
    assert_eq!((bodies.len(), bodies[0].nodes().len()), (1, 0));
    let (form, at, default, bodies) = read(by_condition);
    assert_eq!((form, at, default), (ConditionalForm::Switch, None, Some(7)));
    let fill = |value| OperationSpec::Fill { bytes: 4, value, element_bytes: 4 };
    assert_eq!(bodies[1].nodes()[0].operation(), &fill(1));
    let line = graph.node(by_condition).unwrap().line().unwrap().unwrap();
    assert!(line.file().ends_with("seeing_within.rs"), "{line}");
}

/// A loop with a choice in it, by a kernel of the program's.
fn program(setup: &Setup, kernel: &Kernel, value: u32) -> Graph {
    let stream = setup.stream();
    let (mut word, mut out) = (words(setup, 0), words(setup, 0));
    capture(&stream, |capture| {
        let more = capture.condition(1)?;
        capture.while_(&more, |round| {
            let choice = WordCondition::new(&word)?;
            round.if_(&choice, |body| setup.add(&mut out, value, body.stream()))?;
            let count = kernel.launch_builder(1, 1).condition(&more).arg_mut(&mut word).value(3u32);
            // SAFETY: `count` takes a condition, the address of a word, and a value.
            unsafe { count.launch(round.stream()) }
        })
    })
}

fn the_same_program_gives_the_same_text(setup: &Setup) {
    let kernel = setup.context.load_ptx(PTX).unwrap().kernel("count").unwrap();
    let (one, _in_between) = (program(setup, &kernel, 1), setup.stream());
    let other = program(setup, &kernel, 1);
    let (one, other) = (one.topology().unwrap(), other.topology().unwrap());
    assert_eq!(one.to_string(), other.to_string());
    assert_eq!(one.to_json(), other.to_json());
    assert_eq!(one.to_dot(), other.to_dot());
    assert_eq!(one.to_mermaid(), other.to_mermaid());
    assert!(one == other && one.diff(&other).is_empty());
}

fn a_diff_says_what_changed_within(setup: &Setup) {
    let kernel = setup.context.load_ptx(PTX).unwrap().kernel("count").unwrap();
    let topology = |value| program(setup, &kernel, value).topology().unwrap();
    let (one, other) = (topology(1), topology(2));
    if parameter(&bodies(&bodies(&one, 0).1[0], 1).1[0], 0, "argument 1").is_some() {
        assert_eq!(
            one.diff(&other).to_string(),
            "in the body 0 of node 0: in the body 0 of node 1: node 0 (kernel add): argument 1 from 0x1 to \
             0x2"
        );
    }
    let loops = |node| {
        let mut topology = Topology::new(vec![node], vec![]).unwrap();
        topology = Topology::from_json(&topology.to_json()).unwrap();
        topology
    };
    let within = |nodes: usize| {
        let mut plan = grapture::StreamCapture::new();
        (0..nodes).for_each(|_| _ = plan.record_empty());
        let (form, bodies) = (ConditionalForm::While, vec![plan.end()]);
        loops(grapture::TopologyNode::new(OperationSpec::Conditional { form, bodies }))
    };
    assert_ne!(within(1), within(2));
    let text = within(1).diff(&within(2)).to_string();
    assert_eq!(
        text,
        "in the body 0 of node 0: node 1 is new: empty\nin the body 0 of node 0: node 1 waits for node 0"
    );
}

fn embedded_graphs_have_their_lines(setup: &Setup) {
    let stream = setup.stream();
    let mut word = words(setup, 0);
    let begin = line!();
    let step = capture(&stream, |capture| capture.labelled("step", || word.fill(1, &stream)));
    let twice = capture(&stream, |capture| {
        capture.embed(&step)?;
        capture.labelled("again", || capture.embed(&step))
    });
    let whole = capture(&stream, |capture| capture.embed(&twice));
    drop((step, twice));
    let topology = whole.topology().unwrap();
    let child = |topology: &Topology, node: usize| match topology.nodes()[node].operation() {
        OperationSpec::ChildGraph(child) => child.clone(),
        other => panic!("{other}: {topology}"),
    };
    let twice = child(&topology, 0);
    assert_eq!(lines(&twice), [Some(begin + 3), Some(begin + 4)], "{topology}");
    assert_eq!(labels(&twice), [None, Some("again")]);
    for node in [0, 1] {
        let step = child(&twice, node);
        assert_eq!(lines(&step), [Some(begin + 1)], "{topology}");
        assert_eq!(labels(&step), [Some("step")]);
    }
}

fn child_graphs_have_their_lines(setup: &Setup) {
    let stream = setup.stream();
    let mut word = words(setup, 0);
    let mut built = Graph::new(&setup.context).unwrap();
    let begin = line!();
    built.add_empty(&[]).unwrap();
    let captured = capture(&stream, |_| word.fill(1, &stream));
    let mut graph = Graph::new(&setup.context).unwrap();
    let child = graph.add_child(&built, &[]).unwrap();
    let inner = |graph: &Graph| match graph.node(child).unwrap().params().unwrap() {
        NodeParams::ChildGraph(child) => lines(&child),
        other => panic!("{other:?}"),
    };
    assert_eq!(inner(&graph), [Some(begin + 1)]);
    graph.node_mut(child).unwrap().set_child(&captured).unwrap();
    assert_eq!(inner(&graph), [Some(begin + 2)]);
    let copy = graph.try_clone().unwrap();
    assert_eq!(copy.topology().unwrap().to_string(), graph.topology().unwrap().to_string());
}

fn every_node_that_is_added_has_its_line(setup: &Setup) {
    let context = &setup.context;
    let (mut word, mut other, event) =
        (words(setup, 0), words(setup, 0), Event::new(context).unwrap());
    let add = setup.module.kernel("add").unwrap();
    let stream = setup.stream();
    let child = capture(&stream, |_| word.fill(1, &stream));
    let mut graph = Graph::new(context).unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
    let first = line!() + 2;
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.add_kernel(launch, &[]) }.unwrap();
    graph.add_copy(CopyNode::device(&mut other, &word).unwrap(), &[]).unwrap();
    graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    graph.add_host(|| {}, &[]).unwrap();
    graph.add_empty(&[]).unwrap();
    graph.add_event_record(&event, &[]).unwrap();
    graph.add_event_wait(&event, &[]).unwrap();
    graph.add_batch(BatchNode::new(context).write(&mut word, 1u32).unwrap(), &[]).unwrap();
    graph.add_child(&child, &[]).unwrap();
    let memory = graph.add_alloc::<u32>(1, &[]).unwrap();
    graph.add_free(&memory, &[]).unwrap();
    let condition = graph.condition(1).unwrap();
    graph.add_if(&condition, &[], |_| Ok(())).unwrap();
    let topology = graph.topology().unwrap();
    let mut expected: Vec<_> = (first..first + 11).map(Some).collect();
    expected.push(Some(first + 12));
    assert_eq!(lines(&topology), expected, "{topology}");
    for node in topology.nodes() {
        assert!(node.line().unwrap().file().ends_with("seeing_within.rs"), "{topology}");
    }
    let mut graph = Graph::new(context).unwrap();
    let condition = graph.condition(1).unwrap();
    let first = line!() + 3;
    let built = graph.add_if(&condition, &[], |body| {
        // SAFETY: as above.
        unsafe { body.add_kernel(add.launch_builder(1, 1).arg_mut(&mut word).value(1u32), &[]) }?;
        body.add_copy(CopyNode::device(&mut other, &word)?, &[])?;
        body.add_fill(FillNode::new(&mut word, 1)?, &[])?;
        body.add_empty(&[])?;
        body.add_child(&child, &[]).map(drop)
    });
    built.unwrap();
    let topology = graph.topology().unwrap();
    let (_, inner) = bodies(&topology, 0);
    let expected: Vec<_> = (first..first + 5).map(Some).collect();
    assert_eq!(lines(&inner[0]), expected, "{topology}");
}

fn labels_are_given_by_hand(setup: &Setup) {
    let stream = setup.stream();
    let mut word = words(setup, 0);
    let mut graph = capture(&stream, |capture| {
        capture.labelled("captured", || {
            word.fill(1, &stream)?;
            word.fill(2, &stream)
        })
    });
    let nodes = graph.nodes().unwrap();
    graph.set_label(nodes[1].id(), "\u{202e}mine \"]; evil").unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(labels(&topology), [Some("captured"), Some("\u{202e}mine \"]; evil")]);
    assert!(lines(&topology).iter().all(Option::is_some), "{topology}");
    assert!(!topology.to_string().contains('\u{202e}'));
    assert_eq!(graph.node(nodes[0].id()).unwrap().label().unwrap().unwrap(), "captured");
    let other = Graph::new(&setup.context).unwrap();
    assert!(other.node(nodes[0].id()).is_err());
    let mut other = other;
    let error = other.set_label(nodes[0].id(), "not mine").unwrap_err();
    assert!(matches!(error, CudaError::Refused(_)), "{error}");
}

fn clones_keep_lines_and_labels(setup: &Setup) {
    let stream = setup.stream();
    let mut word = words(setup, 0);
    let mut graph = capture(&stream, |capture| {
        capture.labelled("captured", || word.fill(1, &stream))?;
        setup.add(&mut word, 1, &stream)
    });
    let empty = graph.add_empty(&[]).unwrap();
    graph.set_label(empty, "built").unwrap();
    let copy = graph.try_clone().unwrap();
    let (one, other) = (graph.topology().unwrap(), copy.topology().unwrap());
    assert_eq!(one.to_string(), other.to_string());
    assert_eq!(labels(&other), [Some("captured"), None, Some("built")]);
    let again = copy.try_clone().unwrap();
    assert_eq!(again.topology().unwrap().to_string(), one.to_string());
}
