//! Conditional nodes: what is refused, and what a body leaves that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::conditional::{MODE, captured, run, words};
use crate::common::{Setup, both_tiers};
use grapture::{CudaError, Event, FillNode, Graph, Stream, WordCondition};

both_tiers! {
    an_unjoined_fork_in_a_body_is_named,
    what_a_body_cannot_have_is_named_by_its_line,
    a_graph_in_a_body_is_looked_into,
    an_error_in_a_body_ends_the_capture,
    a_body_that_failed_and_was_ignored_bars_the_end,
    a_panic_in_a_body_ends_all_captures,
    an_error_in_a_built_body_removes_the_node,
    a_panic_in_a_built_body_removes_the_node,
    the_stream_takes_nothing_while_a_body_is_captured,
    a_condition_is_for_one_node_of_its_graph,
    a_condition_without_a_node_bars_instantiation,
    no_cases_are_refused,
    a_broken_body_breaks_nothing_else,
    a_broken_body_leaves_an_empty_graph,
}

fn refusal(error: CudaError) -> String {
    match error {
        CudaError::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

fn an_unjoined_fork_in_a_body_is_named(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (flag, mut word) = (words(setup, &[1]), words(setup, &[0]));
    let fork = Event::new(&setup.context).unwrap();
    let error = stream
        .capture(MODE, |capture| {
            capture.if_(&WordCondition::new(&flag)?, |body| {
                fork.record(body.stream())?;
                fork.wait(&side)?;
                setup.add(&mut word, 1, &side)
            })
        })
        .unwrap_err();
    let CudaError::Capture(failed) = &error else { panic!("{error:?}") };
    assert_eq!((error.code(), failed.forks().len()), (904, 1));
    assert!(failed.forks()[0].stream() == &side);
    for stream in [&stream, &side] {
        setup.assert_usable(stream);
    }
}

fn what_a_body_cannot_have_is_named_by_its_line(setup: &Setup) {
    let (stream, mut word, flag) = (setup.stream(), words(setup, &[0]), words(setup, &[1]));
    let line = line!() + 6;
    let error = stream
        .capture(MODE, |capture| {
            capture.if_(&WordCondition::new(&flag)?, |body| {
                setup.add(&mut word, 1, body.stream())?;
                setup.add(&mut word, 1, body.stream())?;
                body.stream().host_function(|| ())
            })
        })
        .unwrap_err();
    assert_eq!(
        refusal(error),
        format!(
            "body: op 2 (host function, {}:{}) cannot be in the body of a conditional \
             node, which has kernels, copies, fills, conditional nodes and graphs of these: do it \
             before or after the node",
            file!(),
            line,
        )
    );
    setup.assert_usable(&stream);
    let event = Event::new(&setup.context).unwrap();
    let error = stream
        .capture(MODE, |capture| {
            capture.if_(&WordCondition::new(&flag)?, |body| event.record_external(body.stream()))
        })
        .unwrap_err();
    assert!(refusal(error).contains("op 0 (external event record, "));
    setup.assert_usable(&stream);
}

fn a_graph_in_a_body_is_looked_into(setup: &Setup) {
    let (stream, flag, mut word) = (setup.stream(), words(setup, &[1]), words(setup, &[0]));
    let good = stream.capture(MODE, |_| setup.add(&mut word, 5, &stream)).unwrap();
    let bad = stream.capture(MODE, |_| stream.host_function(|| ())).unwrap();
    let condition = WordCondition::new(&flag).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let error =
        graph.add_if(&condition, &[], |body| body.add_child(&bad, &[]).map(|_| ())).unwrap_err();
    let text = "child: its node 0 is a host function, which a conditional node's body cannot have";
    assert_eq!(refusal(error), text);
    assert_eq!(graph.node_count().unwrap(), 0);
    graph.add_if(&condition, &[], |body| body.add_child(&good, &[]).map(|_| ())).unwrap();
    drop(good);
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 5);
}

fn an_error_in_a_body_ends_the_capture(setup: &Setup) {
    let (stream, mut word, flag) = (setup.stream(), words(setup, &[0]), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let error = stream
        .capture(MODE, |capture| {
            capture.if_(&condition, |body| {
                body.while_(&condition, |inner| {
                    setup.add(&mut word, 1, inner.stream())?;
                    Err(CudaError::Timeout)
                })
            })
        })
        .unwrap_err();
    assert_eq!(error, CudaError::Timeout);
    setup.assert_usable(&stream);
}

fn a_body_that_failed_and_was_ignored_bars_the_end(setup: &Setup) {
    let (stream, flag) = (setup.stream(), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let error = stream
        .capture(MODE, |capture| {
            _ = capture.if_(&condition, |_| Err(CudaError::Timeout));
            Ok(())
        })
        .unwrap_err();
    assert_eq!(error.code(), CudaError::Timeout.code());
    assert!(refusal(error).starts_with("capture: the body of a conditional node failed"));
    setup.assert_usable(&stream);
    let mut graph = Graph::new(&setup.context).unwrap();
    let error = stream
        .capture_into(&mut graph, &[], MODE, |capture| {
            _ = capture.if_(&condition, |_| Err(CudaError::Timeout));
            Ok(())
        })
        .unwrap_err();
    assert!(refusal(error).starts_with("capture: the body of a conditional node failed"));
    assert_eq!(graph.node_count().unwrap(), 0);
    let error = graph
        .add_if(&condition, &[], |body| {
            _ = body.capture(&stream, &[], |_| Err(CudaError::Timeout));
            Ok(())
        })
        .unwrap_err();
    assert!(refusal(error).starts_with("graph: the body of a conditional node of it failed"));
    assert_eq!(graph.node_count().unwrap(), 0);
    setup.assert_usable(&stream);
}

fn a_panic_in_a_body_ends_all_captures(setup: &Setup) {
    let (stream, flag) = (setup.stream(), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture(MODE, |capture| {
            capture.if_(&condition, |body| body.while_(&condition, |_| panic!("on purpose")))
        })
    }));
    assert!(panicked.is_err());
    setup.assert_usable(&stream);
}

fn an_error_in_a_built_body_removes_the_node(setup: &Setup) {
    let (stream, mut word, flag) = (setup.stream(), words(setup, &[0]), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let error = graph
        .add_if(&condition, &[], |body| {
            body.add_fill(FillNode::new(&mut word, 1)?, &[])?;
            Err(CudaError::Timeout)
        })
        .unwrap_err();
    assert_eq!((error, graph.node_count().unwrap()), (CudaError::Timeout, 0));
    // The condition that is left over is taken by the next.
    let fill = |body: &mut grapture::GraphBody<'_>| {
        body.add_fill(FillNode::new(&mut word, 2)?, &[]).map(|_| ())
    };
    graph.add_if(&condition, &[], fill).unwrap();
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 2);
}

fn a_panic_in_a_built_body_removes_the_node(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let condition = graph.condition(1).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        graph.add_while(&condition, &[], |_| panic!("on purpose"))
    }));
    assert!(panicked.is_err());
    assert_eq!(graph.node_count().unwrap(), 0);
    graph.add_if(&condition, &[], |_| Ok(())).unwrap();
    graph.instantiate().unwrap();
}

fn the_stream_takes_nothing_while_a_body_is_captured(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut word, flag) = (words(setup, &[0]), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let line = line!() + 5;
    let exec = captured(&stream, |capture| {
        fork.record(&stream)?;
        fork.wait(&side)?;
        setup.add(&mut word, 1, &stream)?;
        capture.if_(&condition, |body| {
            for stream in [&stream, &side] {
                let text = refusal(setup.add(&mut word, 100, stream).unwrap_err());
                assert_eq!(
                    text,
                    format!(
                        "stream: its capture waits until the part at {}:{line} is captured, a child \
                         or the body of a conditional node: submit to the stream of that part, or \
                         after it",
                        file!(),
                    )
                );
            }
            assert!(refusal(join.record(&stream).unwrap_err()).contains("capture waits"));
            let inner = capture.if_(&condition, |_| Ok(()));
            assert!(refusal(inner.unwrap_err()).contains("capture waits"));
            assert!(refusal(capture.condition(1).unwrap_err()).contains("capture waits"));
            assert!(stream.is_capturing() && capture.is_active());
            setup.mul_add(&mut word, 10, 2, body.stream())
        })?;
        join.record(&side)?;
        join.wait(&stream)?;
        setup.mul_add(&mut word, 10, 3, &stream)
    });
    assert_eq!(run(&exec, &stream, &word), 123);
}

fn a_condition_is_for_one_node_of_its_graph(setup: &Setup) {
    let stream = setup.stream();
    let mut graph = Graph::new(&setup.context).unwrap();
    let condition = graph.condition(1).unwrap();
    let foreign = "condition: it belongs to another graph: make it from the graph or the capture \
                   that the node is in";
    let error = stream.capture(MODE, |capture| capture.if_(&condition, |_| Ok(()))).unwrap_err();
    assert_eq!(refusal(error), foreign);
    let mut other = Graph::new(&setup.context).unwrap();
    assert_eq!(refusal(other.add_if(&condition, &[], |_| Ok(())).unwrap_err()), foreign);
    graph
        .add_if(&condition, &[], |body| {
            let again = body.add_if(&condition, &[], |_| Ok(())).unwrap_err();
            assert_eq!(
                refusal(again),
                "condition: a conditional node goes by it already: make one condition for each node"
            );
            Ok(())
        })
        .unwrap();
    graph.instantiate().unwrap();
    setup.assert_usable(&stream);
}

fn a_condition_without_a_node_bars_instantiation(setup: &Setup) {
    let stream = setup.stream();
    let graph = stream.capture(MODE, |capture| capture.condition(1).map(|_| ())).unwrap();
    let error = graph.instantiate().unwrap_err();
    assert!(error.to_string().contains("a conditional handle belongs to no node"), "{error}");
}

fn no_cases_are_refused(setup: &Setup) {
    let (stream, flag) = (setup.stream(), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let exec = captured(&stream, |capture| {
        let error = capture.switch(&condition, 0, |_, _| Ok(())).unwrap_err();
        assert_eq!(refusal(error), "cases: there are 0, and a `switch` has at least one");
        Ok(())
    });
    assert_eq!(exec.node_count(), 0);
    let empty = flag.view(..0).unwrap();
    assert!(refusal(WordCondition::new(&empty).unwrap_err()).starts_with("word: it is empty"));
}

/// Breaks the capture of the stream.
fn break_capture(stream: &Stream) {
    // SAFETY: a live stream.
    let code = unsafe { (stream.driver().as_raw().functions().cuStreamQuery)(stream.as_raw()) };
    assert_eq!(code.0, 900);
}

/// The driver destroys the body of a capture that was broken, and crashes where its node goes.
fn a_broken_body_breaks_nothing_else(setup: &Setup) {
    let (stream, flag) = (setup.stream(), words(setup, &[1]));
    let condition = WordCondition::new(&flag).unwrap();
    let error = stream
        .capture(MODE, |capture| {
            capture.if_(&condition, |body| {
                body.while_(&condition, |inner| {
                    break_capture(inner.stream());
                    Ok(())
                })
            })
        })
        .unwrap_err();
    assert_eq!(error.code(), 901);
    setup.assert_usable(&stream);
    // Ignored, and the guard dropped.
    let error = stream
        .capture(MODE, |capture| {
            _ = capture.if_(&condition, |body| {
                break_capture(body.stream());
                Ok(())
            });
            Ok(())
        })
        .unwrap_err();
    assert_eq!(error.code(), 901);
    setup.assert_usable(&stream);
}

fn a_broken_body_leaves_an_empty_graph(setup: &Setup) {
    let (stream, flag, mut word) = (setup.stream(), words(setup, &[1]), words(setup, &[0]));
    let condition = WordCondition::new(&flag).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    let error = graph
        .add_if(&condition, &[], |body| {
            body.add_if(&condition, &[], |body| {
                body.capture(&stream, &[], |_| {
                    break_capture(&stream);
                    Ok(())
                })
                .map(|_| ())
            })
            .map(|_| ())
        })
        .unwrap_err();
    assert_eq!(error.code(), 901);
    assert_eq!(graph.node_count().unwrap(), 0);
    graph.add_fill(FillNode::new(&mut word, 2).unwrap(), &[]).unwrap();
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 2);
    let error = stream
        .capture_into(&mut graph, &[], MODE, |capture| {
            capture.if_(&condition, |body| {
                break_capture(body.stream());
                Ok(())
            })
        })
        .unwrap_err();
    assert_eq!((error.code(), graph.node_count().unwrap()), (901, 0));
    setup.assert_usable(&stream);
}
