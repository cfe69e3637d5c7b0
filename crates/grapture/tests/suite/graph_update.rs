//! Executables that take what another graph says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::counted::{Token, counter, get};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CaptureMode, CudaError, CudaResult, DeviceBuffer, Graph,
    InstantiateFlags, InstantiateOptions, NodeKind, Outcome, PinnedBuffer, Stream,
    StreamGraphCapture, ThreadCaptureMode, UpdateOptions, UpdateReason,
};

both_tiers! {
    an_update_takes_new_parameters,
    another_shape_is_made_anew,
    a_strict_update_names_the_node,
    a_strict_update_keeps_the_old_work,
    the_call_after_a_failed_update_is_clean,
    a_launch_in_flight_keeps_its_parameters_and_what_they_use,
    what_no_launch_used_is_let_go_of_at_once,
    what_an_old_launch_used_outlives_two_updates,
    an_executable_dropped_in_flight_keeps_all_that_was_replaced,
    memory_is_flat_over_many_updates,
    an_update_from_the_same_graph_replaces_nothing,
    launches_before_and_after_a_rebuild_do_not_overlap,
    a_rebuild_keeps_flags_and_counts_nodes,
    a_rebuild_waits_for_no_capture_of_its_stream,
    updates_and_rebuilds_harm_no_capture,
    an_executable_is_updated_on_another_thread,
    pinned_memory_changes_with_the_graph,
    a_graph_of_another_context_is_refused,
    a_replaced_value_that_panics_is_contained,
    a_default_stream_is_waited_for_after_an_update,
}

fn capture(stream: &Stream, record: impl FnOnce() -> CudaResult<()>) -> Graph {
    stream.capture(CaptureMode::ThreadLocal, |_| record()).unwrap()
}

/// A graph that adds to the word, and owns a token.
fn adding(
    setup: &Setup,
    word: &mut DeviceBuffer<u32>,
    value: u32,
    dropped: &Arc<AtomicUsize>,
) -> Graph {
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::ThreadLocal, |cap| {
        cap.retain(Token(dropped.clone()));
        setup.add(word, value, &stream)
    });
    graph.unwrap()
}

fn zeroed(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, 1).unwrap()
}

fn rebuilt(outcome: Outcome) -> UpdateReason {
    match outcome {
        Outcome::Rebuilt { reason, .. } => reason,
        other => panic!("not made anew: {other:?}"),
    }
}

fn an_update_takes_new_parameters(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup), zeroed(setup));
    let runs = [counter(), counter()];
    let make = |word: &mut DeviceBuffer<u32>, value, runs: &Arc<AtomicUsize>| {
        let runs = runs.clone();
        capture(&stream, || {
            word.fill(10 * value, &stream)?;
            setup.add(word, value, &stream)?;
            stream.host_function(move || {
                runs.fetch_add(1, Ordering::SeqCst);
            })
        })
    };
    let (first, second) = (make(&mut a, 1, &runs[0]), make(&mut b, 2, &runs[1]));
    let mut exec = first.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(exec.update(&second).unwrap(), Outcome::Updated { changed: 3 });
    drop((first, second));
    exec.launch(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![11], vec![22]));
    assert_eq!([get(&runs[0]), get(&runs[1])], [1, 2]);
}

fn another_shape_is_made_anew(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let mut chain =
        |len| capture(&stream, || (0..len).try_for_each(|_| setup.add(&mut word, 1, &stream)));
    let (one, three) = (chain(1), chain(3));
    let mut exec = one.instantiate().unwrap();
    assert_eq!(rebuilt(exec.update(&three).unwrap()), UpdateReason::TopologyChanged);
    assert_eq!(exec.node_count(), 3);
    exec.launch(&stream).unwrap();
    assert_eq!(rebuilt(exec.update(&one).unwrap()), UpdateReason::TopologyChanged);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [4]);
}

fn a_strict_update_names_the_node(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let filled = capture(&stream, || {
        setup.add(&mut word, 1, &stream)?;
        word.fill(1, &stream)
    });
    let added = capture(&stream, || {
        setup.add(&mut word, 1, &stream)?;
        setup.add(&mut word, 2, &stream)
    });
    let mut exec = filled.instantiate().unwrap();
    let error = exec.update_with(&added, UpdateOptions::new().strict(true)).unwrap_err();
    assert_eq!(error.code(), 910);
    assert_eq!(
        error.to_string(),
        "the executable graph could not be updated: the executable graph cannot be \
         updated this way (CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910); \
         a node is of another kind; at fault is node 1 of the graph, a kernel `add`; it is as it \
         was: instantiate the graph, or update without `strict`"
    );
    let CudaError::Update(error) = error else { panic!("{error:?}") };
    assert_eq!(error.reason(), UpdateReason::NodeTypeChanged);
    let nodes = added.nodes().unwrap();
    assert_eq!(nodes[1].kind(), NodeKind::Kernel);
    assert_eq!((error.node(), error.from_node()), (Some(nodes[1].id()), None));
}

fn a_strict_update_keeps_the_old_work(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let (old, new) = (counter(), counter());
    let first = adding(setup, &mut word, 1, &old);
    let second = stream.capture(CaptureMode::ThreadLocal, |cap| {
        cap.retain(Token(new.clone()));
        setup.add(&mut word, 10, &stream)?;
        setup.add(&mut word, 10, &stream)
    });
    let second = second.unwrap();
    let mut exec = first.instantiate().unwrap();
    drop(first);
    exec.launch(&stream).unwrap();
    let strict = UpdateOptions::new().strict(true);
    for _ in 0..3 {
        assert!(matches!(exec.update_with(&second, strict), Err(CudaError::Update(_))));
        exec.launch(&stream).unwrap();
    }
    drop(second);
    assert_eq!(word.to_vec(&stream).unwrap(), [4]);
    assert_eq!((get(&old), get(&new)), (0, 1), "it owns what it runs, and nothing else");
}

fn the_call_after_a_failed_update_is_clean(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let one = capture(&stream, || setup.add(&mut word, 1, &stream));
    let two = capture(&stream, || {
        setup.add(&mut word, 1, &stream)?;
        word.fill(1, &stream)
    });
    let mut exec = one.instantiate().unwrap();
    let strict = UpdateOptions::new().strict(true);
    exec.update_with(&two, strict).unwrap_err();
    let other = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    exec.update_with(&two, strict).unwrap_err();
    setup.context.synchronize().unwrap();
    exec.update_with(&two, strict).unwrap_err();
    assert_eq!(other.to_vec(&stream).unwrap(), [0; 4]);
    assert_eq!(exec.update(&one).unwrap(), Outcome::Updated { changed: 0 });
    setup.assert_usable(&stream);
}

fn a_launch_in_flight_keeps_its_parameters_and_what_they_use(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup), zeroed(setup));
    let (old, new) = (counter(), counter());
    let (first, second) = (adding(setup, &mut a, 1, &old), adding(setup, &mut b, 5, &new));
    let mut exec = first.instantiate().unwrap();
    drop(first);
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    assert_eq!(exec.update(&second).unwrap(), Outcome::Updated { changed: 1 });
    drop(second);
    exec.launch(&stream).unwrap();
    setup.driver.reclaim();
    assert_eq!((get(&old), get(&new)), (0, 0));
    gate.open();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![1], vec![5]));
    setup.wait_until(|| get(&old) == 1);
    assert_eq!(get(&new), 0);
    drop(exec);
    setup.wait_until(|| get(&new) == 1);
}

fn what_no_launch_used_is_let_go_of_at_once(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let tokens: Vec<_> = (0..5).map(|_| counter()).collect();
    let mut exec = adding(setup, &mut word, 1, &tokens[0]).instantiate().unwrap();
    exec.update(&adding(setup, &mut word, 2, &tokens[1])).unwrap();
    assert_eq!(get(&tokens[0]), 1, "there was no launch at all");
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    exec.update(&adding(setup, &mut word, 3, &tokens[2])).unwrap();
    exec.update(&adding(setup, &mut word, 4, &tokens[3])).unwrap();
    assert_eq!((get(&tokens[1]), get(&tokens[2])), (0, 1), "only one of them was launched");
    drop(exec);
    assert_eq!((get(&tokens[1]), get(&tokens[3])), (0, 1));
    gate.open();
    setup.wait_until(|| get(&tokens[1]) == 1);
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn what_an_old_launch_used_outlives_two_updates(setup: &Setup) {
    let (one, two) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    let tokens: Vec<_> = (0..3).map(|_| counter()).collect();
    let mut exec = adding(setup, &mut word, 1, &tokens[0]).instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&one);
    exec.launch(&one).unwrap();
    exec.update(&adding(setup, &mut word, 2, &tokens[1])).unwrap();
    // Held by the launch before: launches of one executable never overlap.
    exec.launch(&two).unwrap();
    exec.update(&adding(setup, &mut word, 4, &tokens[2])).unwrap();
    exec.launch(&one).unwrap();
    setup.driver.reclaim();
    assert_eq!(tokens.iter().map(get).collect::<Vec<_>>(), [0, 0, 0]);
    gate.open();
    assert_eq!(word.to_vec(&one).unwrap(), [7]);
    setup.wait_until(|| get(&tokens[0]) == 1 && get(&tokens[1]) == 1);
    assert_eq!(get(&tokens[2]), 0);
}

fn an_executable_dropped_in_flight_keeps_all_that_was_replaced(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let dropped = counter();
    let mut exec = adding(setup, &mut word, 1, &dropped).instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    for value in 2..10 {
        exec.launch(&stream).unwrap();
        exec.update(&adding(setup, &mut word, value, &dropped)).unwrap();
    }
    exec.launch(&stream).unwrap();
    drop(exec);
    setup.driver.reclaim();
    assert_eq!(get(&dropped), 0);
    gate.open();
    assert_eq!(word.to_vec(&stream).unwrap(), [45]);
    setup.wait_until(|| get(&dropped) == 9);
}

/// How many updates a test makes; the soak makes a million.
const UPDATES: usize = 2_000;

fn memory_is_flat_over_many_updates(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let (made, dropped) = (AtomicUsize::new(0), counter());
    let mut next = || {
        made.fetch_add(1, Ordering::SeqCst);
        adding(setup, &mut word, 1, &dropped)
    };
    let mut exec = next().instantiate().unwrap();
    let mut most = 0;
    for round in 0..UPDATES {
        exec.launch(&stream).unwrap();
        exec.update(&next()).unwrap();
        if round % 100 == 99 {
            most = most.max(made.load(Ordering::SeqCst) - get(&dropped));
            stream.synchronize().unwrap();
            setup.wait_until(|| made.load(Ordering::SeqCst) - get(&dropped) == 1);
        }
    }
    assert!(most <= 101, "{most} owners at once: what an idle executable has replaced is gone");
    drop(exec);
    assert_eq!(get(&dropped), made.load(Ordering::SeqCst));
    assert_eq!(word.to_vec(&stream).unwrap(), [UPDATES as u32]);
}

fn an_update_from_the_same_graph_replaces_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let dropped = counter();
    let graph = adding(setup, &mut word, 1, &dropped);
    let mut exec = graph.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
        exec.update(&graph).unwrap();
    }
    drop(graph);
    drop(exec);
    setup.driver.reclaim();
    assert_eq!(get(&dropped), 0, "the launches still use it");
    gate.open();
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
    setup.wait_until(|| get(&dropped) == 1);
}

fn launches_before_and_after_a_rebuild_do_not_overlap(setup: &Setup) {
    let (one, two) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    let (old, new) = (counter(), counter());
    let first = adding(setup, &mut word, 1, &old);
    let second = two.capture(CaptureMode::ThreadLocal, |cap| {
        cap.retain(Token(new.clone()));
        setup.mul_add(&mut word, 10, 2, &two)?;
        setup.mul_add(&mut word, 10, 3, &two)
    });
    let second = second.unwrap();
    let mut exec = first.instantiate().unwrap();
    drop(first);
    let gate = Gate::new();
    gate.hold(&one);
    exec.launch(&one).unwrap();
    rebuilt(exec.update(&second).unwrap());
    drop(second);
    exec.launch(&two).unwrap();
    gate.wait_until_reached();
    assert!(!two.is_idle().unwrap(), "the launch waits for the one before");
    setup.driver.reclaim();
    assert_eq!(get(&old), 0);
    gate.open();
    assert_eq!(word.to_vec(&two).unwrap(), [123]);
    setup.wait_until(|| get(&old) == 1);
    exec.launch(&one).unwrap();
    exec.launch(&two).unwrap();
    drop(exec);
    two.synchronize().unwrap();
    one.synchronize().unwrap();
    setup.wait_until(|| get(&new) == 1);
}

fn a_rebuild_keeps_flags_and_counts_nodes(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let graphs: Vec<_> = (1..=2)
        .map(|len| capture(&stream, || (0..len).try_for_each(|_| setup.add(&mut word, 1, &stream))))
        .collect();
    let flags = InstantiateFlags::AUTO_FREE_ON_LAUNCH;
    let options = InstantiateOptions::new().flags(flags);
    let mut exec = graphs[0].instantiate_with(&options).unwrap();
    rebuilt(exec.update(&graphs[1]).unwrap());
    assert_eq!((exec.node_count(), exec.flags().unwrap()), (2, flags));
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    setup.add(&mut word, 1, &stream).unwrap();
    let mut exec = capture.end().unwrap();
    assert!(exec.graph().is_some());
    rebuilt(exec.update(&graphs[1]).unwrap());
    assert!(exec.graph().is_none(), "it is not made of that any more");
}

fn a_rebuild_waits_for_no_capture_of_its_stream(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    let one = capture(&other, || setup.add(&mut word, 1, &other));
    let again = capture(&other, || setup.add(&mut word, 1, &other));
    let two = capture(&other, || {
        setup.add(&mut word, 2, &other)?;
        setup.add(&mut word, 2, &other)
    });
    let mut exec = one.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    let graph = capture(&stream, || {
        let error = exec.update(&two).unwrap_err();
        assert_eq!(error.code(), 900);
        assert_eq!(
            error.to_string(),
            "exec: it would be made anew, and the stream of its last launch is capturing, so that \
             the end of that launch cannot be marked: update it before the capture begins or after \
             it has ended"
        );
        // In place it can be updated all the same.
        assert_eq!(exec.update(&again)?, Outcome::Updated { changed: 1 });
        setup.add(&mut word, 10, &stream)
    });
    exec.launch(&stream).unwrap();
    rebuilt(exec.update(&two).unwrap());
    exec.launch(&stream).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [16]);
}

fn updates_and_rebuilds_harm_no_capture(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    let one = capture(&other, || setup.add(&mut word, 1, &other));
    let again = capture(&other, || setup.add(&mut word, 1, &other));
    let two = capture(&other, || {
        setup.add(&mut word, 2, &other)?;
        setup.add(&mut word, 2, &other)
    });
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let mut exec = one.instantiate().unwrap();
        exec.launch(&other).unwrap();
        let third = capture(&other, || other.host_function(|| {}));
        let captured = stream.capture(mode, |_| {
            assert_eq!(exec.update(&again)?, Outcome::Updated { changed: 1 });
            rebuilt(exec.update(&two)?);
            let strict = UpdateOptions::new().strict(true);
            assert!(exec.update_with(&one, strict).is_err());
            exec.launch(&other)?;
            let elsewhere = std::thread::spawn(move || {
                rebuilt(exec.update(&third).unwrap());
                exec.update(&third).unwrap();
            });
            elsewhere.join().unwrap();
            setup.add(&mut word, 1, &stream)
        });
        captured.unwrap().instantiate().unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
    let mode = ThreadCaptureMode::set(&setup.driver, CaptureMode::Global).unwrap();
    assert_eq!(mode.previous(), Some(CaptureMode::Global), "the thread's mode is put back");
}

fn an_executable_is_updated_on_another_thread(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let (old, new) = (counter(), counter());
    let mut exec = adding(setup, &mut word, 1, &old).instantiate().unwrap();
    let second = adding(setup, &mut word, 5, &new);
    exec.launch(&stream).unwrap();
    let elsewhere = stream.clone();
    let exec = std::thread::spawn(move || {
        exec.update(&second).unwrap();
        exec.launch(&elsewhere).unwrap();
        exec
    });
    let exec = exec.join().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [11]);
    setup.wait_until(|| get(&old) == 1);
}

fn pinned_memory_changes_with_the_graph(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let (mut a, mut b) = (setup.pinned_word(), setup.pinned_word());
    let mut from =
        |pinned: &PinnedBuffer<u32>| capture(&stream, || word.copy_from_pinned(pinned, &stream));
    let (first, second) = (from(&a), from(&b));
    let none = capture(&stream, || word.fill(1, &stream));
    let mut exec = first.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    assert!(a.try_write().is_err(), "a launch reads it");
    exec.update(&second).unwrap();
    assert!(a.try_write().is_err(), "the launch is still there");
    assert!(b.try_write().is_ok());
    exec.launch(&stream).unwrap();
    assert!(b.try_write().is_err());
    gate.open();
    stream.synchronize().unwrap();
    b.write().unwrap()[0] = 6;
    let held = a.write().unwrap();
    exec.launch(&stream).unwrap();
    drop(held);
    let held = b.write().unwrap();
    let error = exec.launch(&stream).unwrap_err();
    assert!(error.to_string().starts_with("pinned: the host writes it"), "{error}");
    rebuilt(exec.update(&none).unwrap());
    exec.launch(&stream).unwrap();
    drop(held);
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
}

fn a_graph_of_another_context_is_refused(setup: &Setup) {
    let functions = setup.driver.as_raw().functions();
    let mut raw = std::ptr::null_mut();
    // SAFETY: a live out-pointer and a device of the driver.
    let code = unsafe { (functions.cuCtxCreate_v2)(&mut raw, 0, setup.context.device().as_raw()) };
    assert_eq!(code.0, 0);
    // SAFETY: what was made current by the creation is taken off again.
    unsafe { (functions.cuCtxPopCurrent_v2)(&mut std::ptr::null_mut()) };
    {
        // SAFETY: it outlives the handles of this block.
        let other = unsafe { grapture::Context::borrow_raw(setup.context.device(), raw) };
        let (here, there) = (setup.stream(), Stream::new(&other).unwrap());
        let graph = |stream: &Stream| capture(stream, || stream.host_function(|| {}));
        let mut exec = graph(&here).instantiate().unwrap();
        let error = exec.update(&graph(&there)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "graph: it belongs to another context than the executable graph: instantiate it"
        );
        exec.launch(&here).unwrap();
        here.synchronize().unwrap();
    }
    setup.driver.reclaim();
    // SAFETY: a live context that nothing uses any more.
    let code = unsafe { (functions.cuCtxDestroy_v2)(raw) };
    assert_eq!(code.0, 0);
}

struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a value of the user's");
    }
}

fn a_replaced_value_that_panics_is_contained(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let dropped = counter();
    let mut bomb = || {
        let graph = stream.capture(CaptureMode::ThreadLocal, |cap| {
            cap.retain(Bomb(dropped.clone()));
            setup.add(&mut word, 1, &stream)
        });
        graph.unwrap()
    };
    let mut exec = bomb().instantiate().unwrap();
    exec.update(&bomb()).unwrap();
    assert_eq!(get(&dropped), 1);
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
        exec.update(&bomb()).unwrap();
    }
    stream.synchronize().unwrap();
    setup.wait_until(|| get(&dropped) == 4);
    drop(exec);
    assert_eq!(get(&dropped), 5);
    setup.assert_usable(&stream);
}

fn a_default_stream_is_waited_for_after_an_update(setup: &Setup) {
    let stream = Stream::per_thread(&setup.context);
    let mut word = zeroed(setup);
    let (old, new) = (counter(), counter());
    let mut exec = adding(setup, &mut word, 1, &old).instantiate().unwrap();
    let second = adding(setup, &mut word, 2, &new);
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    exec.update(&second).unwrap();
    drop(second);
    exec.launch(&stream).unwrap();
    drop(exec);
    setup.driver.reclaim();
    assert_eq!((get(&old), get(&new)), (0, 0));
    gate.open();
    stream.synchronize().unwrap();
    setup.wait_until(|| get(&old) == 1 && get(&new) == 1);
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
}
