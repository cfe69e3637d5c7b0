//! Conditional nodes: what runs, what is owned, and what is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, Condition, CudaError, CudaResult, DeviceBuffer, Event, FillNode, Graph, GraphExec,
    Kernel, Module, Stream, StreamGraphCapture, WordCondition,
};

both_tiers! {
    if_runs_its_body_unless_the_word_is_zero,
    else_runs_on_zero,
    while_runs_until_the_word_is_zero,
    switch_runs_the_body_of_its_number,
    a_kernel_of_the_programs_decides,
    a_launch_begins_with_the_default,
    a_default_of_zero_runs_no_round,
    bodies_nest_in_a_capture,
    bodies_nest_in_a_graph,
    a_built_body_takes_a_capture,
    what_a_body_uses_is_owned,
    what_a_built_body_uses_is_owned,
    a_body_forks_and_joins,
    an_unjoined_fork_in_a_body_is_named,
    what_a_body_cannot_have_is_named_by_its_line,
    a_graph_in_a_body_is_looked_into,
    an_error_in_a_body_ends_the_capture,
    a_body_that_failed_and_was_ignored_bars_the_end,
    a_panic_in_a_body_ends_all_captures,
    an_error_in_a_built_body_removes_the_node,
    a_panic_in_a_built_body_removes_the_node,
    the_stream_takes_nothing_while_a_body_is_captured,
    what_is_retained_during_a_body_is_kept,
    a_condition_is_for_one_node_of_its_graph,
    a_condition_without_a_node_bars_instantiation,
    no_cases_are_refused,
    conditional_nodes_are_captured_into_a_graph,
    the_executable_outlives_its_graph,
    a_broken_body_breaks_nothing_else,
    a_broken_body_leaves_an_empty_graph,
}

const MODE: CaptureMode = CaptureMode::Global;

/// `count` adds one to a word and gives a condition whether it is still less than a number; `set`
/// gives a condition a value.
pub const PTX: &str = "\
.version 6.3
.target sm_52
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 h, .param .b32 v);
.visible .entry set(.param .u64 h, .param .u32 v){
 .reg .b64 %rd<2>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[h]; ld.param.u32 %r1,[v];
 { .param .b64 a; st.param.b64 [a+0],%rd1; .param .b32 b; st.param.b32 [b+0],%r1;
 call.uni cudaGraphSetConditional,(a,b); } ret;}
.visible .entry count(.param .u64 h, .param .u64 p, .param .u32 n){
 .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %q;
 ld.param.u64 %rd1,[h]; ld.param.u64 %rd2,[p]; ld.param.u32 %r1,[n];
 ld.global.u32 %r2,[%rd2]; add.u32 %r2,%r2,1; st.global.u32 [%rd2],%r2;
 setp.lt.u32 %q,%r2,%r1; selp.u32 %r3,1,0,%q;
 { .param .b64 a; st.param.b64 [a+0],%rd1; .param .b32 b; st.param.b32 [b+0],%r3;
 call.uni cudaGraphSetConditional,(a,b); } ret;}
";

fn module(setup: &Setup) -> Module {
    setup.context.load_ptx(PTX).unwrap()
}

fn words(setup: &Setup, values: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, values).unwrap()
}

fn read(setup: &Setup, word: &DeviceBuffer<u32>) -> u32 {
    word.to_vec(&setup.stream()).unwrap()[0]
}

/// Launches the graph once, and gives the word.
fn run(exec: &GraphExec, stream: &Stream, word: &DeviceBuffer<u32>) -> u32 {
    exec.launch(stream).unwrap();
    word.to_vec(stream).unwrap()[0]
}

fn captured(
    stream: &Stream,
    record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> GraphExec {
    stream.capture(MODE, record).unwrap().instantiate().unwrap()
}

/// Adds one to the word and gives the condition whether it is less than the limit.
fn count(
    kernel: &Kernel,
    condition: &Condition,
    word: &mut DeviceBuffer<u32>,
    limit: u32,
    stream: &Stream,
) -> CudaResult<()> {
    let launch = kernel.launch_builder(1, 1).condition(condition).arg_mut(word).value(limit);
    // SAFETY: `count` takes a condition of the graph, the address of a word, and a value.
    unsafe { launch.launch(stream) }
}

fn refusal(error: CudaError) -> String {
    match error {
        CudaError::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

fn if_runs_its_body_unless_the_word_is_zero(setup: &Setup) {
    let (stream, mut flag, mut word) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let condition = WordCondition::new(&flag).unwrap();
    let exec = captured(&stream, |capture| {
        capture.if_(&condition, |body| setup.add(&mut word, 1, body.stream()))?;
        setup.add(&mut word, 10, &stream)
    });
    assert_eq!(run(&exec, &stream, &word), 10);
    flag.fill(5, &stream).unwrap();
    assert_eq!(run(&exec, &stream, &word), 21);
    flag.fill(0, &stream).unwrap();
    assert_eq!(run(&exec, &stream, &word), 31);
}

fn else_runs_on_zero(setup: &Setup) {
    let (stream, mut flag, mut word) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let condition = WordCondition::new(&flag).unwrap();
    let mut other = words(setup, &[0]);
    let exec = captured(&stream, |capture| {
        capture.if_else(
            &condition,
            |body| setup.add(&mut word, 1, body.stream()),
            |body| setup.add(&mut other, 1, body.stream()),
        )
    });
    assert_eq!((run(&exec, &stream, &word), read(setup, &other)), (0, 1));
    flag.fill(1, &stream).unwrap();
    assert_eq!((run(&exec, &stream, &word), read(setup, &other)), (1, 1));
    let mut graph = Graph::new(&setup.context).unwrap();
    let built = graph.add_if_else(
        &condition,
        &[],
        |body| body.add_fill(FillNode::new(&mut word, 7)?, &[]).map(|_| ()),
        |body| body.add_fill(FillNode::new(&mut other, 8)?, &[]).map(|_| ()),
    );
    built.unwrap();
    let exec = graph.instantiate().unwrap();
    assert_eq!((run(&exec, &stream, &word), read(setup, &other)), (7, 1));
    flag.fill(0, &stream).unwrap();
    assert_eq!((run(&exec, &stream, &word), read(setup, &other)), (7, 8));
}

fn while_runs_until_the_word_is_zero(setup: &Setup) {
    let (stream, mut left, mut rounds) = (setup.stream(), words(setup, &[5]), words(setup, &[0]));
    let condition = WordCondition::new(&left).unwrap();
    let exec = captured(&stream, |capture| {
        capture.while_(&condition, |body| {
            setup.add(&mut left, u32::MAX, body.stream())?;
            setup.add(&mut rounds, 1, body.stream())
        })
    });
    assert_eq!(run(&exec, &stream, &rounds), 5);
    // It is zero now: no round.
    assert_eq!(run(&exec, &stream, &rounds), 5);
    left.fill(3, &stream).unwrap();
    assert_eq!(run(&exec, &stream, &rounds), 8);
    let mut graph = Graph::new(&setup.context).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let looped = graph.add_while(&condition, &[], |body| {
        let (down, up) = (add.launch_builder(1, 1), add.launch_builder(1, 1));
        // SAFETY: `add` takes the address of a word and a value.
        let down = unsafe { body.add_kernel(down.arg_mut(&mut left).value(u32::MAX), &[]) }?;
        // SAFETY: as above.
        unsafe { body.add_kernel(up.arg_mut(&mut rounds).value(1u32), &[down]) }?;
        Ok(())
    });
    looped.unwrap();
    left.fill(4, &stream).unwrap();
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &rounds), 12);
}

fn switch_runs_the_body_of_its_number(setup: &Setup) {
    let (stream, mut flag, mut word) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let condition = WordCondition::new(&flag).unwrap();
    let exec = captured(&stream, |capture| {
        capture.switch(&condition, 3, |index, body| {
            setup.mul_add(&mut word, 10, index as u32 + 1, body.stream())
        })
    });
    for value in [2, 0, 1, 3, 77] {
        flag.fill(value, &stream).unwrap();
        exec.launch(&stream).unwrap();
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [312]);
    let mut graph = Graph::new(&setup.context).unwrap();
    let built = graph.add_switch(&condition, 2, &[], |index, body| {
        body.add_fill(FillNode::new(&mut word, 5 + index as u32)?, &[]).map(|_| ())
    });
    built.unwrap();
    flag.fill(1, &stream).unwrap();
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 6);
}

fn a_kernel_of_the_programs_decides(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), words(setup, &[0]));
    let kernel = module(setup).kernel("count").unwrap();
    let exec = captured(&stream, |capture| {
        let condition = capture.condition(1)?;
        capture.while_(&condition, |body| count(&kernel, &condition, &mut word, 10, body.stream()))
    });
    assert_eq!(run(&exec, &stream, &word), 10);
    // The default again: one round, after which it is not less.
    assert_eq!(run(&exec, &stream, &word), 11);
    word.fill(4, &stream).unwrap();
    assert_eq!(run(&exec, &stream, &word), 10);
}

fn a_launch_begins_with_the_default(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), words(setup, &[0]));
    let set = module(setup).kernel("set").unwrap();
    let exec = captured(&stream, |capture| {
        let condition = capture.condition(1)?;
        capture.if_(&condition, |body| setup.add(&mut word, 1, body.stream()))?;
        // It comes too late for this launch, and the next one begins anew.
        let launch = set.launch_builder(1, 1).condition(&condition).value(0u32);
        // SAFETY: `set` takes a condition of the graph and a value.
        unsafe { launch.launch(&stream) }
    });
    assert_eq!([0, 1].map(|_| run(&exec, &stream, &word)), [1, 2]);
}

fn a_default_of_zero_runs_no_round(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), words(setup, &[3]));
    let kernel = module(setup).kernel("count").unwrap();
    let exec = captured(&stream, |capture| {
        let condition = capture.condition(0)?;
        capture.while_(&condition, |body| count(&kernel, &condition, &mut word, 10, body.stream()))
    });
    assert_eq!(run(&exec, &stream, &word), 3);
}

fn bodies_nest_in_a_capture(setup: &Setup) {
    let (stream, mut word) = (setup.stream(), words(setup, &[0]));
    let (mut outer, mut inner) = (words(setup, &[3]), words(setup, &[0]));
    let (rounds, turns) =
        (WordCondition::new(&outer).unwrap(), WordCondition::new(&inner).unwrap());
    let exec = captured(&stream, |capture| {
        capture.while_(&rounds, |round| {
            inner.fill(2, round.stream())?;
            round.while_(&turns, |turn| {
                turn.if_(&rounds, |body| setup.mul_add(&mut word, 10, 1, body.stream()))?;
                setup.add(&mut inner, u32::MAX, turn.stream())
            })?;
            setup.mul_add(&mut word, 10, 2, round.stream())?;
            setup.add(&mut outer, u32::MAX, round.stream())
        })
    });
    assert_eq!(run(&exec, &stream, &word), 112_112_112);
}

fn bodies_nest_in_a_graph(setup: &Setup) {
    let (stream, mut word, mut left) = (setup.stream(), words(setup, &[0]), words(setup, &[2]));
    let (condition, add) =
        (WordCondition::new(&left).unwrap(), setup.module.kernel("add").unwrap());
    let mut graph = Graph::new(&setup.context).unwrap();
    let built = graph.add_while(&condition, &[], |body| {
        let set = body.condition(1)?;
        let inner = body.add_if(&set, &[], |body| {
            let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(100u32);
            // SAFETY: `add` takes the address of a word and a value.
            unsafe { body.add_kernel(launch, &[]) }.map(|_| ())
        })?;
        let launch = add.launch_builder(1, 1).arg_mut(&mut left).value(u32::MAX);
        // SAFETY: as above.
        unsafe { body.add_kernel(launch, &[inner]) }.map(|_| ())
    });
    built.unwrap();
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 200);
}

fn a_built_body_takes_a_capture(setup: &Setup) {
    let (stream, mut word, flag) = (setup.stream(), words(setup, &[0]), words(setup, &[1]));
    let mut graph = Graph::new(&setup.context).unwrap();
    let built = graph.add_if(&WordCondition::new(&flag).unwrap(), &[], |body| {
        let first = body.add_fill(FillNode::new(&mut word, 1)?, &[])?;
        let last = body.capture(&stream, &[first], |_| setup.mul_add(&mut word, 10, 2, &stream))?;
        assert_eq!(last.len(), 1);
        body.capture(&stream, &last, |capture| {
            capture.if_(&WordCondition::new(&flag)?, |body| {
                setup.mul_add(&mut word, 10, 3, body.stream())
            })
        })?;
        assert_eq!(body.node_count()?, 4);
        Ok(())
    });
    built.unwrap();
    assert!(!stream.is_capturing());
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 123);
}

fn what_a_body_uses_is_owned(setup: &Setup) {
    let (stream, out) = (setup.stream(), words(setup, &[0]));
    let mut out = out;
    let exec = {
        let (flag, source) = (words(setup, &[1]), words(setup, &[9]));
        let kernel = module(setup).kernel("count").unwrap();
        let mut counted = words(setup, &[0]);
        let condition = WordCondition::new(&flag).unwrap();
        captured(&stream, |capture| {
            let rounds = capture.condition(1)?;
            capture.if_(&condition, |body| out.copy_from(&source, body.stream()))?;
            capture.while_(&rounds, |body| count(&kernel, &rounds, &mut counted, 3, body.stream()))
        })
    };
    // What was freed would be another's by now.
    let other = words(setup, &[77; 64]);
    assert_eq!(run(&exec, &stream, &out), 9);
    drop(other);
}

fn what_a_built_body_uses_is_owned(setup: &Setup) {
    let (stream, mut out) = (setup.stream(), words(setup, &[0]));
    let exec = {
        let (flag, source) = (words(setup, &[1]), words(setup, &[9]));
        let mut graph = Graph::new(&setup.context).unwrap();
        let built = graph.add_if(&WordCondition::new(&flag).unwrap(), &[], |body| {
            body.capture(&stream, &[], |_| out.copy_from(&source, &stream)).map(|_| ())
        });
        built.unwrap();
        graph.instantiate().unwrap()
    };
    let other = words(setup, &[77; 64]);
    assert_eq!(run(&exec, &stream, &out), 9);
    drop(other);
}

fn a_body_forks_and_joins(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (flag, mut a, mut b) = (words(setup, &[1]), words(setup, &[0]), words(setup, &[0]));
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let exec = captured(&stream, |capture| {
        capture.if_(&WordCondition::new(&flag)?, |body| {
            fork.record(body.stream())?;
            fork.wait(&side)?;
            setup.add(&mut a, 1, &side)?;
            setup.add(&mut b, 2, body.stream())?;
            join.record(&side)?;
            join.wait(body.stream())?;
            setup.mul_add(&mut b, 10, 3, body.stream())
        })
    });
    assert!(!side.is_capturing());
    assert_eq!((run(&exec, &stream, &a), read(setup, &b)), (1, 23));
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
            "body: operation 2 (host function, {}:{}:31) cannot be in the body of a conditional \
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
    assert!(refusal(error).contains("operation 0 (external event record, "));
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
                        "stream: its capture waits until the body of the conditional node at \
                         {}:{line}:17 is captured: submit to the body's stream, or after the body",
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

fn what_is_retained_during_a_body_is_kept(setup: &Setup) {
    let (stream, flag) = (setup.stream(), words(setup, &[1]));
    let kept = std::sync::Arc::new(());
    let exec = captured(&stream, |capture| {
        capture.if_(&WordCondition::new(&flag)?, |body| {
            capture.retain(kept.clone());
            body.retain(kept.clone());
            Ok(())
        })
    });
    assert_eq!(std::sync::Arc::strong_count(&kept), 3);
    drop(exec);
    setup.driver.reclaim();
    assert_eq!(std::sync::Arc::strong_count(&kept), 1);
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

fn conditional_nodes_are_captured_into_a_graph(setup: &Setup) {
    let (stream, mut word, flag) = (setup.stream(), words(setup, &[0]), words(setup, &[1]));
    let mut graph = Graph::new(&setup.context).unwrap();
    let of_graph = graph.condition(1).unwrap();
    let first = graph.add_fill(FillNode::new(&mut word, 4).unwrap(), &[]).unwrap();
    let recorded = stream.capture_into(&mut graph, &[first], MODE, |capture| {
        let own = capture.condition(1)?;
        for condition in [&of_graph, &own] {
            capture.if_(condition, |body| setup.mul_add(&mut word, 10, 5, body.stream()))?;
        }
        capture
            .if_(&WordCondition::new(&flag)?, |body| setup.mul_add(&mut word, 10, 6, body.stream()))
    });
    assert_eq!(recorded.unwrap().len(), 1);
    assert_eq!(run(&graph.instantiate().unwrap(), &stream, &word), 4556);
}

fn the_executable_outlives_its_graph(setup: &Setup) {
    let (stream, mut word, flag) = (setup.stream(), words(setup, &[0]), words(setup, &[1]));
    let graph = stream
        .capture(MODE, |capture| {
            capture.if_(&WordCondition::new(&flag)?, |body| setup.add(&mut word, 1, body.stream()))
        })
        .unwrap();
    let exec = graph.instantiate().unwrap();
    drop((graph, flag));
    assert_eq!(run(&exec, &stream, &word), 1);
    exec.launch(&stream).unwrap();
    drop(exec);
    stream.synchronize().unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
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
