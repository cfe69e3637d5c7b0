//! Who keeps the memory of slots alive, and attacks on that from safe code.

use std::sync::mpsc;
use std::thread;

use crate::common::{Setup, both_tiers};
use crate::slots::{add_slot, add_to_slot, added, buffer, capture, refusal, zeroed};
use crate::slots_graphs::{adding, held};
use grapture::{BufferSlot, BufferSlotMut};
use grapture::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CaptureMode, Context, DeviceBuffer, Graph, Slot,
    StreamGraphCapture,
};

both_tiers! {
    memory_that_was_set_outlives_its_buffer,
    a_launch_in_flight_keeps_its_memory_and_its_values,
    an_executable_is_dropped_in_flight,
    memory_that_was_replaced_in_flight_is_not_given_to_another,
    an_executable_is_set_while_a_capture_is_open,
    a_graph_is_changed_while_its_executable_is_set,
    executables_are_set_on_other_threads,
    memory_of_another_context_is_refused,
    slots_are_captured_where_the_capture_began,
    a_temporary_is_no_memory_for_a_slot,
    memory_in_the_order_of_a_stream_is_bound,
    a_capture_that_fails_leaves_no_slot,
    a_rule_that_panics_changes_nothing,
    many_sets_on_one_executable,
}

fn memory_that_was_set_outlives_its_buffer(setup: &Setup) {
    let stream = setup.stream();
    let (mut first, mut out) = (zeroed(setup, 1024), zeroed(setup, 1024));
    let source = BufferSlot::new(&first);
    let graph = capture(&stream, || out.copy_from(&source, &stream));
    let mut exec = graph.instantiate().unwrap();
    first.fill(1, &stream).unwrap();
    let other = DeviceBuffer::from_slice(&setup.context, &[2u32; 1024]).unwrap();
    exec.set(&source, &other).unwrap();
    drop((other, first, graph));
    // What was freed would be handed out again.
    let mut others: Vec<_> = (0..8).map(|_| zeroed(setup, 1024)).collect();
    for other in &mut others {
        other.fill(9, &stream).unwrap();
    }
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [2; 1024]);
    // The slot has the first memory still.
    exec.set(&source, &source.clone()).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [1; 1024]);
}

fn a_launch_in_flight_keeps_its_memory_and_its_values(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b, mut word) = (zeroed(setup, 1), zeroed(setup, 1), zeroed(setup, 1));
    let (mut memory, value) = (BufferSlotMut::new(&mut a), Slot::new(1u32));
    let graph = capture(&stream, || {
        add_to_slot(setup, &mut memory, 1, &stream)?;
        add_slot(setup, &mut word, &value, &stream)
    });
    let mut exec = graph.instantiate().unwrap();
    let gate = held(&stream);
    exec.launch(&stream).unwrap();
    exec.patch().set(&memory, &mut b).set(&value, 10).apply().unwrap();
    exec.launch(&stream).unwrap();
    exec.set(&value, 100).unwrap();
    gate.open();
    assert_eq!(word.to_vec(&stream).unwrap(), [11]);
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![1], vec![1]));
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [111]);
}

fn an_executable_is_dropped_in_flight(setup: &Setup) {
    let stream = setup.stream();
    let (mut first, mut out) = (zeroed(setup, 1), zeroed(setup, 1));
    let mut other = BufferSlotMut::new(&mut out);
    let source = BufferSlot::new(&first);
    let graph = capture(&stream, || other.copy_from(&source, &stream));
    let mut exec = graph.instantiate().unwrap();
    let gate = held(&stream);
    exec.set(&source, &buffer(setup, &[5])).unwrap();
    exec.launch(&stream).unwrap();
    exec.set(&source, &buffer(setup, &[6])).unwrap();
    drop((exec, source, graph));
    first.fill(1, &stream).unwrap();
    gate.open();
    assert_eq!(out.to_vec(&stream).unwrap(), [5]);
}

fn memory_that_was_replaced_in_flight_is_not_given_to_another(setup: &Setup) {
    let stream = setup.stream();
    let mut first = zeroed(setup, 1024);
    let mut out = zeroed(setup, 1024);
    let source = BufferSlot::new(&first);
    let graph = capture(&stream, || out.copy_from(&source, &stream));
    let mut exec = graph.instantiate().unwrap();
    first.fill(1, &stream).unwrap();
    exec.set(&source, &DeviceBuffer::from_slice(&setup.context, &[7u32; 1024]).unwrap()).unwrap();
    let gate = held(&stream);
    exec.launch(&stream).unwrap();
    exec.set(&source, &first).unwrap();
    setup.driver.reclaim();
    let other = setup.stream();
    // Allocated, not freed: a free would wait for what is held.
    let mut others: Vec<_> =
        (0..8).map(|_| DeviceBuffer::<u32>::alloc(&setup.context, 1024).unwrap()).collect();
    for memory in &mut others {
        memory.fill(9, &other).unwrap();
    }
    other.synchronize().unwrap();
    gate.open();
    assert_eq!(out.to_vec(&stream).unwrap(), [7; 1024]);
}

fn an_executable_is_set_while_a_capture_is_open(setup: &Setup) {
    let (stream, capturing) = (setup.stream(), setup.stream());
    let (mut a, mut b, mut word) = (zeroed(setup, 1), zeroed(setup, 1), zeroed(setup, 1));
    let (slot, graph) = adding(setup, &mut a, &stream);
    let mut exec = graph.instantiate().unwrap();
    let open = StreamGraphCapture::begin(&capturing, CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    exec.set(&slot, &mut b).unwrap();
    exec.launch(&stream).unwrap();
    exec.set(&slot, &mut a).unwrap();
    setup.add(&mut word, 1, &capturing).unwrap();
    let graph = open.end_graph().unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
    assert_eq!(b.to_vec(&stream).unwrap(), [1]);
}

/// The names are those of a graph that nobody else has: what the program does to its own is nothing
/// to the executable.
fn a_graph_is_changed_while_its_executable_is_set(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let mut graph =
        capture(&stream, || (0..4).try_for_each(|_| add_slot(setup, &mut word, &value, &stream)));
    let mut exec = graph.instantiate().unwrap();
    let changed = thread::scope(|scope| {
        let setting = scope.spawn(|| {
            for round in 0..200 {
                exec.set(&value, round).unwrap();
            }
        });
        for _ in 0..50 {
            let node = graph.add_empty(&[]).unwrap();
            graph.remove_node(node).unwrap();
        }
        for node in graph.nodes().unwrap() {
            graph.remove_node(node.id()).unwrap();
        }
        setting.join().unwrap();
        graph.node_count().unwrap()
    });
    assert_eq!(changed, 0);
    drop(graph);
    exec.set(&value, 5).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 20);
}

fn executables_are_set_on_other_threads(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let value = Slot::new(1u32);
    let graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let execs: Vec<_> = (0..4).map(|_| graph.instantiate().unwrap()).collect();
    let sums = thread::scope(|scope| {
        let threads: Vec<_> = execs
            .into_iter()
            .enumerate()
            .map(|(index, mut exec)| {
                let (value, stream) = (value.clone(), setup.stream());
                scope.spawn(move || {
                    let mut last = 0;
                    for round in 0..20 {
                        last = index as u32 * 100 + round;
                        exec.set(&value, last).unwrap();
                        exec.launch(&stream).unwrap();
                    }
                    stream.synchronize().unwrap();
                    (exec.get(&value).unwrap(), last)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(sums.iter().all(|(got, last)| got == last), "{sums:?}");
}

fn memory_of_another_context_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut a = zeroed(setup, 1);
    let (slot, graph) = adding(setup, &mut a, &stream);
    let mut exec = graph.instantiate().unwrap();
    // A driver of its own has contexts of its own.
    let other = grapture::Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    let other = Context::new(&other.device(0).unwrap()).unwrap();
    let mut foreign = DeviceBuffer::<u32>::alloc(&other, 1).unwrap();
    let text = refusal(exec.set(&slot, &mut foreign));
    assert!(text.contains("another context than the memory of the slot"), "{text}");
    let mut strange = BufferSlotMut::new(&mut foreign);
    let text = refusal(stream.capture(CaptureMode::ThreadLocal, |_| strange.fill(1, &stream)));
    assert!(text.contains("another context"), "{text}");
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [1]);
}

fn slots_are_captured_where_the_capture_began(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let capture = StreamGraphCapture::begin(&stream, grapture::CU_STREAM_CAPTURE_MODE_RELAXED);
    let capture = capture.unwrap();
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| send.send(add_slot(setup, &mut word, &value, &stream)).unwrap());
    });
    let text = refusal(receive.recv().unwrap());
    assert!(text.contains("another thread began it"), "{text}");
    add_slot(setup, &mut word, &value, &stream).unwrap();
    let mut exec = capture.end().unwrap();
    exec.set(&value, 5).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 5);
}

fn a_temporary_is_no_memory_for_a_slot(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let slot = BufferSlot::new(&word);
    let mut texts = Vec::new();
    let made = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut temporary = capture.alloc_temporary::<u32>(1)?;
        let inner = BufferSlot::new(&temporary);
        let graph = Graph::new(&setup.context)?;
        let mut exec = graph.into_exec()?;
        texts.push(refusal(exec.set(&slot, &temporary)));
        texts.push(refusal(word.copy_from(&inner, &stream)));
        temporary.fill(1, &stream)?;
        temporary.free()
    });
    match made {
        Err(grapture::CudaError::NotSupported) => return,
        made => drop(made.unwrap()),
    }
    assert!(texts.iter().all(|text| text.contains("a graph allocates the memory")), "{texts:?}");
}

fn memory_in_the_order_of_a_stream_is_bound(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut a = zeroed(setup, 1);
    let (slot, graph) = adding(setup, &mut a, &stream);
    let mut exec = graph.instantiate().unwrap();
    let Ok(mut ordered) = DeviceBuffer::<u32>::alloc_async(&side, 1) else { return };
    ordered.fill(4, &side).unwrap();
    side.synchronize().unwrap();
    exec.set(&slot, &mut ordered).unwrap();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(ordered.to_vec(&side).unwrap(), [5]);
    drop(ordered);
    exec.launch(&stream).unwrap();
    exec.set(&slot, &mut a).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [1]);
}

fn a_capture_that_fails_leaves_no_slot(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let failed = stream.capture(CaptureMode::ThreadLocal, |_| {
        add_slot(setup, &mut word, &value, &stream)?;
        let add = setup.module.kernel("add").unwrap();
        // SAFETY: it is refused.
        unsafe { add.launch_builder(1, 1).slot(&value).launch(&stream) }
    });
    let text = refusal(failed);
    assert!(text.contains("kernel.args"), "{text}");
    setup.assert_usable(&stream);
    let graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let mut exec = graph.into_exec().unwrap();
    exec.set(&value, 2).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 2);
}

fn a_rule_that_panics_changes_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let value = Slot::accepting(1u32, |value| {
        assert!(*value != 13, "an unlucky number");
        true
    });
    let value = value.unwrap();
    let graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let mut exec = graph.instantiate().unwrap();
    let set = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exec.set(&value, 13)));
    assert!(set.is_err());
    assert_eq!(added(&exec, &mut word, &stream), 1);
    exec.set(&value, 14).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 14);
}

fn many_sets_on_one_executable(setup: &Setup) {
    let stream = setup.stream();
    let mut memories: Vec<_> = (0..3).map(|_| zeroed(setup, 1)).collect();
    let mut first = zeroed(setup, 1);
    let (slot, graph) = adding(setup, &mut first, &stream);
    let mut exec = graph.instantiate().unwrap();
    for round in 0..300 {
        exec.set(&slot, &mut memories[round % 3]).unwrap();
        exec.launch(&stream).unwrap();
    }
    for memory in &memories {
        assert_eq!(memory.to_vec(&stream).unwrap(), [100]);
    }
}
