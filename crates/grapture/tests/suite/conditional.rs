//! Conditional nodes: what runs, and what is owned.

use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, Condition, CudaResult, DeviceBuffer, Event, FillNode, Graph, GraphExec, Kernel,
    Module, Stream, StreamGraphCapture, WordCondition,
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
    what_is_retained_during_a_body_is_kept,
    conditional_nodes_are_captured_into_a_graph,
    the_executable_outlives_its_graph,
}

pub(super) const MODE: CaptureMode = CaptureMode::Global;

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

pub(super) fn words(setup: &Setup, values: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, values).unwrap()
}

fn read(setup: &Setup, word: &DeviceBuffer<u32>) -> u32 {
    word.to_vec(&setup.stream()).unwrap()[0]
}

/// Launches the graph once, and gives the word.
pub(super) fn run(exec: &GraphExec, stream: &Stream, word: &DeviceBuffer<u32>) -> u32 {
    exec.launch(stream).unwrap();
    word.to_vec(stream).unwrap()[0]
}

pub(super) fn captured(
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
