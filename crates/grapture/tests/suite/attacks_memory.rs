//! Safe programs that try to have a replay touch memory that is gone, or run what ran out.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use crate::common::counted::Token;
use crate::common::gate::Gate;
use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, CudaError, CudaResult, DeviceBuffer, Event,
    GraphExec, PinnedBuffer, Region2d, Stream, StreamGraphCapture,
};

checked_tiers! {
    a_dropped_buffer_is_filled_by_later_launches,
    both_ends_of_a_copy_are_dropped,
    each_memory_of_a_long_capture_is_kept,
    the_owners_of_a_capture_are_not_those_of_the_next,
    an_event_of_a_node_is_dropped,
    an_executable_outlives_its_sibling,
    all_handles_are_dropped_while_launches_are_held,
    a_graph_keeps_another_executable,
    a_retained_value_launches_in_its_drop,
    a_forgotten_guard_keeps_the_device_off_and_no_more,
    elements_of_no_size_do_nothing,
    the_name_of_a_node_is_never_used_again,
    a_capture_that_fails_keeps_nothing,
    a_graph_is_not_disturbed_by_later_allocations,
    the_bytes_of_a_launch_are_copied,
}

fn upload(setup: &Setup, elements: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

fn captured(stream: &Stream, record: impl FnOnce() -> CudaResult<()>) -> GraphExec {
    stream.capture(CaptureMode::ThreadLocal, |_| record()).unwrap().instantiate().unwrap()
}

/// Memory that takes the place of what a careless library would have freed.
struct Squatters(Vec<DeviceBuffer<u32>>);

impl Squatters {
    fn new(setup: &Setup) -> Squatters {
        Squatters((0..64).map(|_| upload(setup, &[7; 4])).collect())
    }

    #[track_caller]
    fn assert_untouched(&self, stream: &Stream) {
        for buffer in &self.0 {
            assert_eq!(buffer.to_vec(stream).unwrap(), [7; 4]);
        }
    }
}

fn a_dropped_buffer_is_filled_by_later_launches(setup: &Setup) {
    let stream = setup.stream();
    let exec = {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
        captured(&stream, || buffer.fill(0, &stream))
    };
    let squatters = Squatters::new(setup);
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    squatters.assert_untouched(&stream);
}

fn both_ends_of_a_copy_are_dropped(setup: &Setup) {
    let stream = setup.stream();
    let mut result = PinnedBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let exec = {
        let source = PinnedBuffer::from_slice(&setup.context, &[1u32, 2, 3, 4]).unwrap();
        let (mut one, mut two) = (upload(setup, &[0; 4]), upload(setup, &[0; 4]));
        let mut dropped = PinnedBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
        captured(&stream, || {
            one.copy_from_pinned(&source, &stream)?;
            two.copy_from(&one, &stream)?;
            let row = Region2d::new(2, 1);
            two.view_mut(2..)?.copy_2d_from(row, &one, row, &stream)?;
            two.copy_to_pinned(&mut dropped, &stream)?;
            two.copy_to_pinned(&mut result, &stream)
        })
    };
    let squatters = Squatters::new(setup);
    let pinned: Vec<_> =
        (0..16).map(|_| PinnedBuffer::from_slice(&setup.context, &[9u32; 4]).unwrap()).collect();
    for _ in 0..2 {
        exec.launch(&stream).unwrap();
        assert_eq!(*result.read().unwrap(), [1, 2, 1, 2]);
    }
    squatters.assert_untouched(&stream);
    for other in &pinned {
        assert_eq!(*other.read().unwrap(), [9; 4]);
    }
}

fn each_memory_of_a_long_capture_is_kept(setup: &Setup) {
    let stream = setup.stream();
    let mut sum = upload(setup, &[0]);
    // More than an array of any fixed size holds, and each is used again after others.
    let exec = {
        let mut words: Vec<_> = (0..40).map(|_| upload(setup, &[0])).collect();
        captured(&stream, || {
            for _ in 0..2 {
                for word in &mut words {
                    setup.add(word, 1, &stream)?;
                }
            }
            // The last two are read when all are gone.
            sum.copy_from(&words[39], &stream)?;
            words.truncate(1);
            setup.add(&mut sum, 100, &stream)
        })
    };
    let squatters = Squatters::new(setup);
    exec.launch(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(sum.to_vec(&stream).unwrap(), [104]);
    squatters.assert_untouched(&stream);
}

/// What a capture has noted lately is compared by address, and addresses are used again.
fn the_owners_of_a_capture_are_not_those_of_the_next(setup: &Setup) {
    let stream = setup.stream();
    for round in 0..50 {
        let mut gone = upload(setup, &[0]);
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        setup.add(&mut gone, 1, &stream).unwrap();
        match round % 3 {
            0 => drop(capture),
            1 => drop(capture.end_graph().unwrap()),
            _ => drop(capture.end().unwrap()),
        }
        drop(gone);
        let exec = {
            let mut next = upload(setup, &[0]);
            captured(&stream, || setup.add(&mut next, 1, &stream))
        };
        let squatter = upload(setup, &[7]);
        exec.launch(&stream).unwrap();
        assert_eq!(squatter.to_vec(&stream).unwrap(), [7]);
    }
}

fn an_event_of_a_node_is_dropped(setup: &Setup) {
    let stream = setup.stream();
    let exec = {
        let (waits, records) =
            (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
        waits.record(&stream).unwrap();
        captured(&stream, || {
            waits.wait_external(&stream)?;
            records.record_external(&stream)
        })
    };
    let others: Vec<_> = (0..64).map(|_| Event::new(&setup.context).unwrap()).collect();
    for event in &others {
        event.record(&stream).unwrap();
    }
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert!(others.iter().all(|event| event.is_complete().unwrap()));
}

fn an_executable_outlives_its_sibling(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let dropped = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let (first, second) = {
        let mut word = upload(setup, &[0]);
        let graph = stream.capture(CaptureMode::Global, |capture| {
            capture.retain(Token(dropped.clone()));
            setup.add(&mut word, 1, &stream)
        });
        let graph = graph.unwrap();
        (graph.instantiate().unwrap(), graph.instantiate().unwrap())
    };
    gate.hold(&stream);
    first.launch(&stream).unwrap();
    drop(first);
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    gate.open();
    stream.synchronize().unwrap();
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the sibling can still run");
    let squatters = Squatters::new(setup);
    second.launch(&other).unwrap();
    other.synchronize().unwrap();
    squatters.assert_untouched(&stream);
    drop(second);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
}

fn all_handles_are_dropped_while_launches_are_held(setup: &Setup) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let gates = [Gate::new(), Gate::new()];
    let mut result = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    {
        let module = setup.context.load_ptx(crate::common::KERNELS).unwrap();
        let kernel = module.kernel("add").unwrap();
        let streams = [setup.stream(), setup.stream()];
        let event = Event::new(&setup.context).unwrap();
        let mut word = upload(setup, &[40]);
        let graph = streams[0]
            .capture(CaptureMode::ThreadLocal, |capture| {
                capture.retain(Token(dropped.clone()));
                // SAFETY: `add` takes the address of a word and a value.
                unsafe {
                    let launch = kernel.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
                    launch.launch(&streams[0])?;
                }
                word.copy_to_pinned(&mut result, &streams[0])?;
                event.record_external(&streams[0])
            })
            .unwrap();
        let execs = [graph.instantiate().unwrap(), graph.instantiate().unwrap()];
        gates[0].hold(&streams[0]);
        execs[0].launch(&streams[0]).unwrap();
        gates[1].hold(&streams[1]);
        // After the first, which the host cannot see: the word is not raced for.
        event.record(&streams[0]).unwrap();
        event.wait(&streams[1]).unwrap();
        execs[1].launch(&streams[1]).unwrap();
        // All but what the program has to have for the result goes here.
    }
    setup.driver.reclaim();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    gates.iter().for_each(Gate::open);
    assert_eq!(*result.read().unwrap(), [42]);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
}

fn a_graph_keeps_another_executable(setup: &Setup) {
    let stream = setup.stream();
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut inner = None;
    for _ in 0..20 {
        let graph = stream.capture(CaptureMode::Relaxed, |capture| {
            capture.retain(Token(dropped.clone()));
            capture.retain(inner.take());
            stream.host_function(|| {})
        });
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        inner = Some(exec);
    }
    stream.synchronize().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(inner);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 20);
}

/// Launches and waits in its drop, on whatever thread that is.
struct LaunchesInDrop(GraphExec, Stream, Arc<AtomicUsize>);

impl Drop for LaunchesInDrop {
    fn drop(&mut self) {
        let launched = self.0.launch(&self.1).and_then(|()| self.1.synchronize());
        self.2.fetch_add(1 + 100 * usize::from(launched.is_err()), Ordering::SeqCst);
    }
}

fn a_retained_value_launches_in_its_drop(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let done = Arc::new(AtomicUsize::new(0));
    let mut word = upload(setup, &[0]);
    for launched in [true, false] {
        let inner = captured(&stream, || setup.add(&mut word, 1, &stream));
        let value = LaunchesInDrop(inner, other.clone(), done.clone());
        let before = done.load(Ordering::SeqCst);
        let graph = stream.capture(CaptureMode::Relaxed, |capture| {
            capture.retain(value);
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        if launched {
            exec.launch(&stream).unwrap();
        }
        drop(exec);
        setup.wait_until(|| done.load(Ordering::SeqCst) == before + 1);
    }
    assert_eq!(word.to_vec(&other).unwrap(), [2]);
}

fn a_forgotten_guard_keeps_the_device_off_and_no_more(setup: &Setup) {
    let stream = setup.stream();
    let mut pinned = PinnedBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let mut word = upload(setup, &[5]);
    mem::forget(pinned.read().unwrap());
    assert!(matches!(word.copy_to_pinned(&mut pinned, &stream), Err(CudaError::Refused(_))));
    word.copy_from_pinned(&pinned, &stream).unwrap();
    pinned.write().unwrap().fill(2);
    mem::forget(pinned.write().unwrap());
    assert!(matches!(word.copy_from_pinned(&pinned, &stream), Err(CudaError::Refused(_))));
    assert_eq!(*pinned.read().unwrap(), [2]);
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
}

fn elements_of_no_size_do_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut nothing = DeviceBuffer::<()>::from_slice(&setup.context, &[(); 3]).unwrap();
    let other = DeviceBuffer::<()>::alloc(&setup.context, usize::MAX).unwrap();
    let mut pinned = PinnedBuffer::<()>::zeroed(&setup.context, 3).unwrap();
    assert_eq!((other.len(), other.size_bytes()), (usize::MAX, 0));
    let graph = stream.capture(CaptureMode::Global, |_| {
        nothing.fill((), &stream)?;
        nothing.copy_from_host_staged(&[(); 3], &stream)?;
        nothing.copy_from_pinned(&pinned, &stream)?;
        nothing.copy_to_pinned(&mut pinned, &stream)?;
        let mut view = nothing.view_mut(1..)?;
        view.copy_from(&other.view(usize::MAX - 2..)?, &stream)?;
        let region = Region2d::new(2, 1);
        view.copy_2d_from(region, &other, region, &stream)?;
        view.fill_2d((), region, &stream)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    assert_eq!(nothing.to_vec(&stream).unwrap(), [(); 3]);
    assert_eq!(*pinned.read().unwrap(), [(); 3]);
}

fn the_name_of_a_node_is_never_used_again(setup: &Setup) {
    let stream = setup.stream();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let graph = stream.capture(CaptureMode::Relaxed, |_| stream.host_function(|| {})).unwrap();
        for node in graph.nodes().unwrap() {
            assert!(seen.insert(node.id()), "{:?} names two nodes", node.id());
        }
    }
}

fn a_capture_that_fails_keeps_nothing(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let dropped = Arc::new(AtomicUsize::new(0));
    for round in 1..=100 {
        let event = Event::new(&setup.context).unwrap();
        let mut word = upload(setup, &[0]);
        let error = stream
            .capture(CaptureMode::Relaxed, |capture| {
                capture.retain(Token(dropped.clone()));
                event.record(&stream)?;
                event.wait(&side)?;
                // It is not joined back.
                setup.add(&mut word, 1, &side)
            })
            .unwrap_err();
        assert_eq!(error.code(), 904);
        assert_eq!(dropped.load(Ordering::SeqCst), round);
    }
    setup.assert_usable(&stream);
    setup.assert_usable(&side);
}

/// A generator of numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

fn a_graph_is_not_disturbed_by_later_allocations(setup: &Setup) {
    let stream = setup.stream();
    let (mut eager, mut result) = (upload(setup, &[3]), upload(setup, &[0]));
    let exec = {
        let mut between = DeviceBuffer::<u32>::alloc_async(&stream, 1).unwrap();
        captured(&stream, || {
            between.copy_from_host_staged(&[3], &stream)?;
            for step in 0..20 {
                setup.mul_add(&mut between, 3, step, &stream)?;
            }
            result.copy_from(&between, &stream)
        })
    };
    for step in 0..20 {
        setup.mul_add(&mut eager, 3, step, &stream).unwrap();
    }
    let (mut numbers, mut held) = (Numbers(1), Vec::new());
    for _ in 0..1_000 {
        if held.len() > 20 || numbers.below(3) == 0 && !held.is_empty() {
            held.swap_remove(numbers.below(held.len()));
        }
        let len = 1 + numbers.below(1_000);
        let mut buffer = match numbers.below(2) {
            0 => DeviceBuffer::alloc(&setup.context, len).unwrap(),
            _ => DeviceBuffer::alloc_async(&stream, len).unwrap(),
        };
        buffer.fill(0xdead_beef_u32, &stream).unwrap();
        held.push(buffer);
    }
    for _ in 0..2 {
        exec.launch(&stream).unwrap();
        assert_eq!(result.to_vec(&stream).unwrap(), eager.to_vec(&stream).unwrap());
        result.fill(0, &stream).unwrap();
    }
}

fn the_bytes_of_a_launch_are_copied(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let kernel = setup.module.kernel("mul_add").unwrap();
    let factor = Mutex::new(vec![10u8, 0, 0, 0]);
    let exec = captured(&stream, || {
        let bytes = factor.lock().unwrap();
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut word).bytes(&bytes).value(2u32);
        // SAFETY: `mul_add` takes the address of a word and two values.
        unsafe { launch.launch(&stream) }
    });
    factor.lock().unwrap().fill(0xff);
    drop(factor);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [12]);
}
