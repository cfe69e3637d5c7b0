//! Slots: values, memory and dimensions that are set in executables.

use crate::common::{Setup, both_tiers};
use grapture::{BufferSlot, BufferSlotMut};
use grapture::{
    CaptureMode, CopyNode, CudaError, CudaResult, DeviceBuffer, Dim3, FillNode, Graph, GraphExec,
    PinnedBuffer, Slot, Stream,
};

both_tiers! {
    a_value_is_set_in_every_node_that_uses_it,
    a_launch_outside_of_a_capture_has_the_first_value,
    values_of_several_words_are_set,
    one_slot_is_used_several_times_by_one_node,
    grids_and_blocks_are_set_within_their_limits,
    memory_is_rebound_in_captured_nodes,
    memory_is_rebound_in_added_nodes,
    pinned_copies_follow_the_memory_of_the_device,
    several_slots_are_set_together_or_not_at_all,
    a_rule_bounds_what_a_slot_takes,
    a_slot_that_is_not_used_says_so,
    memory_that_does_not_fit_is_refused,
    rectangles_batches_and_conditions_take_no_slot,
    slots_of_streams_that_joined_are_set,
    launches_with_attributes_have_slots,
}

#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

pub fn zeroed(setup: &Setup, len: usize) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, len).unwrap()
}

pub fn buffer(setup: &Setup, words: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, words).unwrap()
}

/// `word += slot`
#[track_caller]
pub fn add_slot(
    setup: &Setup,
    word: &mut DeviceBuffer<u32>,
    value: &Slot<u32>,
    stream: &Stream,
) -> CudaResult<()> {
    let add = setup.module.kernel("add").unwrap();
    // SAFETY: `add` takes the address of a word and any value.
    unsafe { add.launch_builder(1, 1).arg_mut(word).slot(value).launch(stream) }
}

/// `slot's word += value`
#[track_caller]
pub fn add_to_slot(
    setup: &Setup,
    word: &mut BufferSlotMut<u32>,
    value: u32,
    stream: &Stream,
) -> CudaResult<()> {
    let add = setup.module.kernel("add").unwrap();
    // SAFETY: `add` takes the address of a word and any value.
    unsafe { add.launch_builder(1, 1).arg_mut(word).value(value).launch(stream) }
}

pub fn capture(stream: &Stream, record: impl FnOnce() -> CudaResult<()>) -> Graph {
    stream.capture(CaptureMode::ThreadLocal, |_| record()).unwrap()
}

/// What a launch adds to the word.
#[track_caller]
pub fn added(exec: &GraphExec, word: &mut DeviceBuffer<u32>, stream: &Stream) -> u32 {
    word.fill(0, stream).unwrap();
    exec.launch(stream).unwrap();
    word.to_vec(stream).unwrap()[0]
}

fn a_value_is_set_in_every_node_that_uses_it(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let (value, other) = (Slot::new(1u32), Slot::new(100u32));
    let graph = capture(&stream, || {
        add_slot(setup, &mut word, &value, &stream)?;
        setup.add(&mut word, 10_000, &stream)?;
        add_slot(setup, &mut word, &other, &stream)?;
        add_slot(setup, &mut word, &value.clone(), &stream)
    });
    let (mut exec, untouched) = (graph.instantiate().unwrap(), graph.instantiate().unwrap());
    assert_eq!(added(&exec, &mut word, &stream), 10_102);
    exec.set(&value, 3).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 10_106);
    exec.set(&other, 200).unwrap();
    exec.set(&value, 4).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 10_208);
    assert_eq!((exec.get(&value).unwrap(), exec.get(&other).unwrap()), (4, 200));
    // What the graph says, and what else was made of it, is as it was.
    assert_eq!(added(&untouched, &mut word, &stream), 10_102);
    assert_eq!(added(&graph.instantiate().unwrap(), &mut word, &stream), 10_102);
    assert_eq!((untouched.get(&value).unwrap(), value.initial()), (1, 1));
    // The graph is not needed, nor are the slots.
    drop((graph, other));
    exec.set(&value, 5).unwrap();
    drop(value);
    assert_eq!(added(&exec, &mut word, &stream), 10_210);
}

fn a_launch_outside_of_a_capture_has_the_first_value(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, source) = (zeroed(setup, 1), buffer(setup, &[20]));
    let (value, memory) = (Slot::new(7u32), BufferSlot::new(&source));
    add_slot(setup, &mut word, &value, &stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [7]);
    word.copy_from(&memory, &stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [20]);
    let mut target = BufferSlotMut::new(&mut word);
    target.fill(3, &stream).unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [3]);
    add_to_slot(setup, &mut target, 1, &stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [4]);
}

fn values_of_several_words_are_set(setup: &Setup) {
    let stream = setup.stream();
    let unpack = setup.module.kernel("unpack").unwrap();
    let mut out = DeviceBuffer::<u64>::zeroed(&setup.context, 3).unwrap();
    // A struct of a word, half a word and a byte.
    let pair = Slot::new([1u64, 2 | 3 << 32]);
    let graph = capture(&stream, || {
        // SAFETY: `unpack` takes the address of three words and a struct of two.
        unsafe { unpack.launch_builder(1, 1).arg_mut(&mut out).slot(&pair).launch(&stream) }
    });
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [1, 2, 3]);
    exec.set(&pair, [u64::MAX, 5 | 6 << 32]).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [u64::MAX, 5, 6]);
    assert_eq!(exec.get(&pair).unwrap(), [u64::MAX, 5 | 6 << 32]);
}

fn one_slot_is_used_several_times_by_one_node(setup: &Setup) {
    let stream = setup.stream();
    let mul_add = setup.module.kernel("mul_add").unwrap();
    let mut word = zeroed(setup, 1);
    let value = Slot::new(2u32);
    let launch = mul_add.launch_builder(1, 1).arg_mut(&mut word).slot(&value).slot(&value);
    let mut graph = Graph::new(&setup.context).unwrap();
    // SAFETY: `mul_add` takes the address of a word and two values.
    unsafe { graph.add_kernel(launch, &[]) }.unwrap();
    let mut exec = graph.into_exec().unwrap();
    for (set, expected) in [(None, 2 + 2), (Some(5), 5 + 5), (Some(9), 9 + 9)] {
        if let Some(set) = set {
            exec.set(&value, set).unwrap();
        }
        word.fill(1, &stream).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [expected]);
    }
}

fn grids_and_blocks_are_set_within_their_limits(setup: &Setup) {
    let stream = setup.stream();
    let axpy = setup.module.kernel("axpy").unwrap();
    let ones = DeviceBuffer::from_slice(&setup.context, &[1f32; 64]).unwrap();
    let mut y = DeviceBuffer::<f32>::zeroed(&setup.context, 64).unwrap();
    let (grid, block) = (Slot::new(Dim3::x(1)), Slot::new(Dim3::x(8)));
    let graph = capture(&stream, || {
        let launch = axpy.launch_builder(64, 64).grid_slot(&grid).block_slot(&block);
        let launch = launch.arg_mut(&mut y).arg(&ones).value(1f32).value(64u32);
        // SAFETY: `axpy` takes two arrays, a factor and their length, on any grid.
        unsafe { launch.launch(&stream) }
    });
    let mut exec = graph.instantiate().unwrap();
    let mut threads = |exec: &GraphExec| {
        y.fill(0.0, &stream).unwrap();
        exec.launch(&stream).unwrap();
        y.to_vec(&stream).unwrap().iter().sum::<f32>()
    };
    assert_eq!(threads(&exec), 8.0);
    exec.set(&grid, 3).unwrap();
    assert_eq!(threads(&exec), 24.0);
    exec.patch().set(&block, (4, 1)).set(&grid, Dim3::x(2)).apply().unwrap();
    assert_eq!(threads(&exec), 8.0);
    let texts = [
        (refusal(exec.set(&grid, 0)), "kernel.grid_dim.x: it is 0"),
        (refusal(exec.set(&grid, (1, 70_000))), "kernel.grid_dim.y: it is 70000"),
        (refusal(exec.set(&block, (1, 1, 65))), "kernel.block_dim.z: it is 65"),
        (refusal(exec.set(&block, (64, 64))), "a block has 4096 threads"),
        (refusal(exec.patch().set(&grid, 1).set(&block, 0).apply()), "kernel.block_dim.x: it is 0"),
    ];
    for (text, part) in texts {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!((exec.get(&grid).unwrap(), exec.get(&block).unwrap()), (Dim3::x(2), Dim3::x(4)));
    assert_eq!(threads(&exec), 8.0);
}

fn memory_is_rebound_in_captured_nodes(setup: &Setup) {
    let stream = setup.stream();
    let (a, b) = (buffer(setup, &[1, 2]), buffer(setup, &[10, 20]));
    let (mut c, mut d, mut out) = (zeroed(setup, 2), zeroed(setup, 2), zeroed(setup, 2));
    let input = BufferSlot::new(&a);
    let mut middle = BufferSlotMut::new(&mut c);
    let graph = capture(&stream, || {
        middle.fill(100, &stream)?;
        middle.copy_from(&input, &stream)?;
        add_to_slot(setup, &mut middle, 5, &stream)?;
        out.copy_from(&middle, &stream)
    });
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [6, 2]);
    exec.set(&input, &b).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [15, 20]);
    c.fill(7, &stream).unwrap();
    exec.set(&middle, &mut d).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [15, 20]);
    assert_eq!(c.to_vec(&stream).unwrap(), [7, 7], "it is not written any more");
    assert_eq!(d.to_vec(&stream).unwrap(), [15, 20]);
    // Views are memory too, and the owner may go.
    let wide = buffer(setup, &[0, 3, 4, 0]);
    exec.set(&input, &wide.view(1..3).unwrap()).unwrap();
    drop((wide, a, b, d));
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [8, 4]);
}

fn memory_is_rebound_in_added_nodes(setup: &Setup) {
    let stream = setup.stream();
    let add = setup.module.kernel("add").unwrap();
    let (a, b) = (buffer(setup, &[1, 2]), buffer(setup, &[10, 20]));
    let (mut c, mut d, mut out) = (zeroed(setup, 2), zeroed(setup, 2), zeroed(setup, 2));
    let (input, mut middle) = (BufferSlot::new(&a), BufferSlotMut::new(&mut c));
    let mut graph = Graph::new(&setup.context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut middle, 9).unwrap(), &[]).unwrap();
    let copy = CopyNode::device(&mut middle, &input).unwrap();
    let copy = graph.add_copy(copy, &[fill]).unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut middle).value(5u32);
    // SAFETY: `add` takes the address of a word and a value.
    let kernel = unsafe { graph.add_kernel(launch, &[copy]) }.unwrap();
    graph.add_copy(CopyNode::device(&mut out, &middle).unwrap(), &[kernel]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    drop(graph);
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [6, 2]);
    exec.patch().set(&input, &b).set(&middle, &mut d).apply().unwrap();
    drop((a, b));
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [15, 20]);
    assert_eq!((c.to_vec(&stream).unwrap()[1], d.to_vec(&stream).unwrap()[1]), (2, 20));
}

fn pinned_copies_follow_the_memory_of_the_device(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup, 2), zeroed(setup, 2));
    let source = PinnedBuffer::from_slice(&setup.context, &[1u32, 2]).unwrap();
    let mut target = PinnedBuffer::<u32>::zeroed(&setup.context, 2).unwrap();
    let mut memory = BufferSlotMut::new(&mut a);
    let graph = capture(&stream, || {
        memory.copy_from_pinned(&source, &stream)?;
        add_to_slot(setup, &mut memory, 10, &stream)?;
        memory.copy_to_pinned(&mut target, &stream)
    });
    let staged = capture(&stream, || memory.copy_from_host_staged(&[7, 8], &stream));
    let mut exec = graph.instantiate().unwrap();
    exec.set(&memory, &mut b).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(*target.read().unwrap(), [11, 2]);
    assert_eq!(a.to_vec(&stream).unwrap(), [0, 0]);
    assert_eq!(b.to_vec(&stream).unwrap(), [11, 2]);
    let mut exec = staged.instantiate().unwrap();
    exec.set(&memory, &mut b).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [7, 8]);
}

fn several_slots_are_set_together_or_not_at_all(setup: &Setup) {
    let stream = setup.stream();
    let mul_add = setup.module.kernel("mul_add").unwrap();
    let mut word = zeroed(setup, 1);
    let (factor, value, stranger) = (Slot::new(2u32), Slot::new(3u32), Slot::new(4u32));
    let graph = capture(&stream, || {
        let launch = mul_add.launch_builder(1, 1).arg_mut(&mut word).slot(&factor).slot(&value);
        // SAFETY: `mul_add` takes the address of a word and two values.
        unsafe { launch.launch(&stream)? };
        add_slot(setup, &mut word, &value, &stream)
    });
    let mut exec = graph.instantiate().unwrap();
    let mut result = |exec: &GraphExec| {
        word.fill(10, &stream).unwrap();
        exec.launch(&stream).unwrap();
        word.to_vec(&stream).unwrap()[0]
    };
    assert_eq!(result(&exec), 26);
    exec.patch().set(&value, 5).set(&factor, 7).set(&value, 6).apply().unwrap();
    assert_eq!(result(&exec), 82);
    let text = refusal(exec.patch().set(&value, 1).set(&stranger, 1).set(&factor, 1).apply());
    assert!(text.contains("no node of the executable graph uses the slot of `u32`"), "{text}");
    assert_eq!(result(&exec), 82);
    assert_eq!((exec.get(&factor).unwrap(), exec.get(&value).unwrap()), (7, 6));
    exec.patch().apply().unwrap();
}

fn a_rule_bounds_what_a_slot_takes(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let few = Slot::accepting(1u32, |value| *value < 10).unwrap();
    let graph = capture(&stream, || add_slot(setup, &mut word, &few, &stream));
    let mut exec = graph.instantiate().unwrap();
    exec.set(&few, 9).unwrap();
    let text = refusal(exec.set(&few, 10));
    assert!(text.contains("does not accept it") && text.contains("slots.rs"), "{text}");
    assert!(refusal(exec.patch().set(&few, 11).apply()).contains("does not accept it"));
    assert_eq!(added(&exec, &mut word, &stream), 9);
    assert!(Slot::accepting(10u32, |value| *value < 10).is_err());
}

fn a_slot_that_is_not_used_says_so(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, mut other) = (zeroed(setup, 1), zeroed(setup, 1));
    let (value, unused) = (Slot::new(1u32), Slot::new(1u32));
    let memory = BufferSlotMut::new(&mut other);
    let with = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let without = capture(&stream, || setup.add(&mut word, 1, &stream));
    let mut exec = with.instantiate().unwrap();
    for text in [
        refusal(exec.set(&unused, 2)),
        refusal(exec.set(&memory, &mut word)),
        refusal(exec.get(&unused)),
        refusal(without.instantiate().unwrap().set(&value, 2)),
        refusal(without.into_exec().unwrap().get(&value)),
    ] {
        assert!(
            text.contains("no node of the executable graph uses the slot of `u32` from"),
            "{text}"
        );
        assert!(text.contains("slots.rs:"), "{text}");
    }
    exec.set(&value, 2).unwrap();
    assert_ne!(value, unused);
    assert_eq!(value, value.clone());
}

fn memory_that_does_not_fit_is_refused(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (buffer(setup, &[1, 2]), buffer(setup, &[3, 4]));
    let (mut short, mut long) = (zeroed(setup, 1), zeroed(setup, 3));
    let (source, mut target) = (BufferSlot::new(&a), BufferSlotMut::new(&mut b));
    let graph = capture(&stream, || {
        target.copy_from(&source, &stream)?;
        target.fill(9, &stream)?;
        target.copy_from(&source, &stream)
    });
    let mut exec = graph.instantiate().unwrap();
    let ordered = DeviceBuffer::<u32>::alloc_async(&stream, 2);
    let mut built = Graph::new(&setup.context).unwrap();
    let memory = built.add_alloc::<u32>(2, &[]).unwrap();
    let mut texts = vec![
        (refusal(exec.set(&source, &short)), "has 2 elements, and the memory 1"),
        (refusal(exec.set(&target, &mut long)), "has 2 elements, and the memory 3"),
        (refusal(exec.set(&target, &mut short)), "take a view of the longer one"),
        (refusal(exec.set(&source, &memory)), "a graph allocates the memory"),
        (refusal(exec.set(&target, &mut a)), "would overlap"),
        (refusal(exec.set(&source, &b)), "would overlap"),
    ];
    if let Ok(ordered) = &ordered {
        texts.push((refusal(exec.set(&source, ordered)), "in the order of a stream"));
    }
    for (text, part) in texts {
        assert!(text.contains(part), "{text}");
    }
    exec.launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [1, 2]);
    // Nothing overlaps if both are set at once.
    exec.patch().set(&source, &b).set(&target, &mut a).apply().unwrap();
    b.copy_from_host(&[5, 6], &stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [5, 6]);
    // A copy that overlaps cannot be recorded either.
    let (one, mut two) = (BufferSlot::new(&long), BufferSlotMut::new(&mut long));
    assert!(refusal(CopyNode::device(&mut two, &one)).contains("would overlap"));
    let overlapping = stream.capture(CaptureMode::ThreadLocal, |_| two.copy_from(&one, &stream));
    assert!(refusal(overlapping).contains("would overlap"));
    let within = BufferSlot::new(&memory);
    let text = refusal(CopyNode::device(&mut two.clone(), &within).map(drop));
    assert!(text.contains("copy.len"), "{text}");
    let launch = setup.module.kernel("wait_for").unwrap();
    let launch = launch.launch_builder(1, 1).arg(&within);
    // SAFETY: it is refused.
    let text = refusal(unsafe { built.add_kernel(launch, &[]) });
    assert!(text.contains("a graph allocates the memory"), "{text}");
}

fn rectangles_batches_and_conditions_take_no_slot(setup: &Setup) {
    use grapture::{BatchNode, Bindings, Region2d, WordCondition};
    let stream = setup.stream();
    let (mut a, other) = (zeroed(setup, 4), zeroed(setup, 4));
    let mut memory = BufferSlotMut::new(&mut a);
    let (region, whole) = (Region2d::new(1, 2).pitch(2), Region2d::new(4, 1));
    let captured = |record: &mut dyn FnMut() -> CudaResult<()>| {
        refusal(stream.capture(CaptureMode::ThreadLocal, |_| record()))
    };
    let texts = [
        captured(&mut || memory.copy_2d_from(region, &other, region, &stream)),
        captured(&mut || memory.fill_2d(1, region, &stream)),
        refusal(CopyNode::device_2d(&mut memory, region, &other, region)),
        refusal(FillNode::rectangle(&mut memory, region, 1)),
        refusal(WordCondition::new(&memory).map(drop)),
        refusal(BatchNode::new(&setup.context).write(&mut memory, 1)),
        refusal(Bindings::new(&setup.context).memory("memory", &mut memory)),
    ];
    for text in texts {
        assert!(text.contains("slot"), "{text}");
    }
    // All of it in one row is no rectangle.
    let _copy = CopyNode::device_2d(&mut memory, whole, &other, whole).unwrap();
}

fn slots_of_streams_that_joined_are_set(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (zeroed(setup, 1), zeroed(setup, 1));
    let value = Slot::new(1u32);
    let graph = capture(&stream, || {
        stream.fork(&[&side], || {
            add_slot(setup, &mut a, &value, &side)?;
            add_slot(setup, &mut b, &value, &stream)
        })
    });
    let mut exec = graph.instantiate().unwrap();
    exec.set(&value, 4).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![4], vec![4]));
}

fn launches_with_attributes_have_slots(setup: &Setup) {
    let stream = setup.stream();
    let add = setup.module.kernel("add").unwrap();
    let mut word = zeroed(setup, 1);
    let value = Slot::new(1u32);
    let graph = capture(&stream, || {
        let launch = add.launch_builder(1, 1).priority(0).arg_mut(&mut word).slot(&value);
        // SAFETY: `add` takes the address of a word and any value.
        unsafe { launch.cooperative(true).launch(&stream) }
    });
    let mut exec = graph.instantiate().unwrap();
    exec.set(&value, 4).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 4);
}
