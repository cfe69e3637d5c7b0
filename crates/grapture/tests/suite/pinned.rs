//! Pinned memory: the host and the device exclude each other.

use crate::common::gate::Gate;
use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{CaptureMode, CudaError, CudaResult, DeviceBuffer, GraphExec, PinnedBuffer, Stream};

both_tiers!(
    elements_come_back_by_way_of_the_device,
    a_read_waits_for_the_device,
    a_write_waits_for_a_copy_that_reads,
    a_read_does_not_wait_for_a_copy_that_reads,
    a_launch_is_refused_while_the_host_holds_what_it_writes,
    a_graph_copies_what_the_memory_holds_at_each_launch,
    a_graph_keeps_the_memory_alive,
    a_drop_waits_for_the_device,
    memory_on_a_capturing_stream_cannot_be_taken,
    work_on_a_default_stream_is_waited_for,
    lengths_that_differ_are_refused,
    an_empty_buffer_does_nothing,
    sizes_beyond_the_memory_are_refused,
    many_streams_are_waited_for,
    no_read_sees_half_a_copy,
);

fn pinned(setup: &Setup, elements: &[u32]) -> PinnedBuffer<u32> {
    PinnedBuffer::from_slice(&setup.context, elements).unwrap()
}

fn upload(setup: &Setup, elements: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

fn captured(stream: &Stream, record: impl FnOnce() -> CudaResult<()>) -> GraphExec {
    stream.capture(CaptureMode::ThreadLocal, |_| record()).unwrap().instantiate().unwrap()
}

fn elements_come_back_by_way_of_the_device(setup: &Setup) {
    let stream = setup.stream();
    let source = pinned(setup, &[1, 2, 3]);
    let mut target = PinnedBuffer::<u32>::zeroed(&setup.context, 3).unwrap();
    assert_eq!(*target.read().unwrap(), [0; 3]);
    let mut buffer = DeviceBuffer::<u32>::alloc(&setup.context, 3).unwrap();
    buffer.copy_from_pinned(&source, &stream).unwrap();
    buffer.copy_to_pinned(&mut target, &stream).unwrap();
    assert_eq!(*target.read().unwrap(), [1, 2, 3]);
    assert_eq!((target.len(), target.size_bytes(), target.is_empty()), (3, 12, false));
}

fn a_read_waits_for_the_device(setup: &Setup) {
    let stream = setup.stream();
    let buffer = upload(setup, &[5; 100]);
    let mut target = PinnedBuffer::<u32>::zeroed(&setup.context, 100).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    buffer.copy_to_pinned(&mut target, &stream).unwrap();
    assert_eq!(target.try_read().unwrap_err(), CudaError::NotReady);
    assert_eq!(target.try_write().unwrap_err(), CudaError::NotReady);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| target.read().unwrap().to_vec());
        gate.wait_until_reached();
        assert!(!read.is_finished());
        gate.open();
        assert_eq!(read.join().unwrap(), [5; 100]);
    });
    assert_eq!(*target.try_read().unwrap(), [5; 100]);
}

fn a_write_waits_for_a_copy_that_reads(setup: &Setup) {
    let stream = setup.stream();
    let mut source = pinned(setup, &[1; 100]);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, 100).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    buffer.copy_from_pinned(&source, &stream).unwrap();
    assert_eq!(source.try_write().unwrap_err(), CudaError::NotReady);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| source.write().unwrap().fill(2));
        gate.wait_until_reached();
        assert!(!write.is_finished());
        gate.open();
        write.join().unwrap();
    });
    assert_eq!(buffer.to_vec(&stream).unwrap(), [1; 100]);
}

fn a_read_does_not_wait_for_a_copy_that_reads(setup: &Setup) {
    let stream = setup.stream();
    let source = pinned(setup, &[1; 100]);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, 100).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    buffer.copy_from_pinned(&source, &stream).unwrap();
    assert_eq!(*source.try_read().unwrap(), [1; 100]);
    assert_eq!(*source.read().unwrap(), [1; 100]);
    gate.open();
}

fn a_launch_is_refused_while_the_host_holds_what_it_writes(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = pinned(setup, &[1, 2]);
    let mut buffer = upload(setup, &[7, 8]);
    let writes = captured(&stream, || buffer.copy_to_pinned(&mut memory, &stream));
    let reads = captured(&stream, || buffer.copy_from_pinned(&memory, &stream));

    let read = memory.read().unwrap();
    let text = "pinned: the host reads it: drop its `PinnedRead` before work that writes it is \
                submitted";
    assert_eq!(refusal(writes.launch(&stream)), text);
    reads.launch(&stream).unwrap();
    assert_eq!(*read, [1, 2]);
    drop(read);

    let mut write = memory.write().unwrap();
    for exec in [&reads, &writes] {
        assert_eq!(
            refusal(exec.launch(&stream)),
            "pinned: the host writes it: drop its `PinnedWrite` before work that uses it is \
             submitted"
        );
    }
    write.fill(5);
    drop(write);
    reads.launch(&stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [5, 5]);
    buffer.fill(6, &stream).unwrap();
    writes.launch(&stream).unwrap();
    assert_eq!(*memory.read().unwrap(), [6, 6]);
}

fn a_graph_copies_what_the_memory_holds_at_each_launch(setup: &Setup) {
    let stream = setup.stream();
    let mut input = pinned(setup, &[0]);
    let mut output = pinned(setup, &[0]);
    let mut buffer = upload(setup, &[0]);
    let exec = captured(&stream, || {
        buffer.copy_from_pinned(&input, &stream)?;
        setup.add(&mut buffer, 100, &stream)?;
        buffer.copy_to_pinned(&mut output, &stream)
    });
    assert_eq!(exec.node_count(), 3);
    for round in 1..=3 {
        input.write().unwrap().fill(round);
        exec.launch(&stream).unwrap();
        assert_eq!(*output.read().unwrap(), [100 + round]);
    }
}

fn a_graph_keeps_the_memory_alive(setup: &Setup) {
    let stream = setup.stream();
    let mut output = pinned(setup, &[0]);
    let exec = {
        let input = pinned(setup, &[41]);
        let mut buffer = upload(setup, &[0]);
        captured(&stream, || {
            buffer.copy_from_pinned(&input, &stream)?;
            setup.add(&mut buffer, 1, &stream)?;
            buffer.copy_to_pinned(&mut output, &stream)
        })
    };
    // What would take the place of memory that was freed.
    let _others: Vec<_> = (0..8).map(|_| pinned(setup, &[0])).collect();
    exec.launch(&stream).unwrap();
    assert_eq!(*output.read().unwrap(), [42]);
}

fn a_drop_waits_for_the_device(setup: &Setup) {
    let stream = setup.stream();
    let source = pinned(setup, &[3; 1_000]);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, 1_000).unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    buffer.copy_from_pinned(&source, &stream).unwrap();
    std::thread::scope(|scope| {
        let dropped = scope.spawn(move || drop(source));
        gate.wait_until_reached();
        assert!(!dropped.is_finished());
        gate.open();
    });
    assert_eq!(buffer.to_vec(&stream).unwrap(), [3; 1_000]);
}

fn memory_on_a_capturing_stream_cannot_be_taken(setup: &Setup) {
    let stream = setup.stream();
    let buffer = upload(setup, &[5]);
    let mut memory = pinned(setup, &[0]);
    let mut only_captured = pinned(setup, &[9]);
    buffer.copy_to_pinned(&mut memory, &stream).unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| {
        let text = "pinned: work that uses it is on a stream that is capturing now";
        assert!(refusal(memory.read()).starts_with(text));
        assert!(refusal(memory.try_read()).starts_with(text));
        // What is only recorded does not run, so nothing is in the way.
        buffer.copy_to_pinned(&mut only_captured, &stream)?;
        assert_eq!(*only_captured.read()?, [9]);
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 1);
    assert_eq!(*memory.read().unwrap(), [5]);
}

fn work_on_a_default_stream_is_waited_for(setup: &Setup) {
    for make in [Stream::per_thread, Stream::legacy] {
        let buffer = upload(setup, &[5; 10]);
        let mut memory = pinned(setup, &[0; 10]);
        let gate = Gate::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let stream = make(&setup.context);
                gate.hold(&stream);
                buffer.copy_to_pinned(&mut memory, &stream).unwrap();
            });
        });
        assert_eq!(memory.try_read().unwrap_err(), CudaError::NotReady);
        // A capture is not in the way, of whichever stream.
        let stream = setup.stream();
        let graph = stream.capture(CaptureMode::Global, |_| {
            gate.open();
            assert_eq!(*memory.read()?, [5; 10]);
            assert_eq!(*memory.try_read()?, [5; 10]);
            Ok(())
        });
        graph.unwrap();
    }
}

fn lengths_that_differ_are_refused(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = pinned(setup, &[1, 2, 3]);
    let mut buffer = upload(setup, &[7; 4]);
    assert!(refusal(buffer.copy_from_pinned(&memory, &stream)).contains("the source has 3"));
    assert!(refusal(buffer.copy_to_pinned(&mut memory, &stream)).contains("the source has 4"));
    buffer.view_mut(..3).unwrap().copy_from_pinned(&memory, &stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [1, 2, 3, 7]);
}

fn an_empty_buffer_does_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut memory = PinnedBuffer::<u64>::zeroed(&setup.context, 0).unwrap();
    let mut buffer = DeviceBuffer::<u64>::alloc(&setup.context, 0).unwrap();
    buffer.copy_from_pinned(&memory, &stream).unwrap();
    buffer.copy_to_pinned(&mut memory, &stream).unwrap();
    assert_eq!(memory.read().unwrap().len(), 0);
    assert!(memory.write().unwrap().is_empty());
}

fn sizes_beyond_the_memory_are_refused(setup: &Setup) {
    let text = "pinned.len: 18446744073709551615 elements of 4 bytes are more than an address \
                space has";
    assert_eq!(refusal(PinnedBuffer::<u32>::alloc(&setup.context, usize::MAX)), text);
    let error = PinnedBuffer::<u8>::alloc(&setup.context, 1 << 50).unwrap_err();
    assert_eq!(error, CudaError::OutOfMemory);
}

fn many_streams_are_waited_for(setup: &Setup) {
    let memory = pinned(setup, &[3]);
    let gate = Gate::new();
    let held = setup.stream();
    gate.hold(&held);
    let mut target = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    target.copy_from_pinned(&memory, &held).unwrap();
    for _ in 0..100 {
        let stream = setup.stream();
        let mut buffer = DeviceBuffer::<u32>::alloc(&setup.context, 1).unwrap();
        buffer.copy_from_pinned(&memory, &stream).unwrap();
        stream.synchronize().unwrap();
        // A release would wait for the gate.
        std::mem::forget(buffer);
    }
    let mut memory = memory;
    assert_eq!(memory.try_write().unwrap_err(), CudaError::NotReady);
    gate.open();
    memory.write().unwrap().fill(4);
    assert_eq!(target.to_vec(&held).unwrap(), [3]);
}

fn no_read_sees_half_a_copy(setup: &Setup) {
    const LEN: usize = 1 << 16;
    const ROUNDS: u32 = 200;
    let stream = setup.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, LEN).unwrap();
    let mut output = PinnedBuffer::<u32>::zeroed(&setup.context, LEN).unwrap();
    let exec = captured(&stream, || buffer.copy_to_pinned(&mut output, &stream));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (exec, mut refused) = (exec, 0);
            for round in 1..=ROUNDS {
                buffer.fill(round, &stream).unwrap();
                match exec.launch(&stream) {
                    Ok(()) => {}
                    Err(CudaError::Refused(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            refused
        });
        let mut last = 0;
        while !writer.is_finished() {
            let read = output.read().unwrap();
            let first = read[0];
            assert!(first >= last && read.iter().all(|element| *element == first));
            last = first;
        }
        let refused = writer.join().unwrap();
        assert!(refused <= ROUNDS);
    });
}
