//! Safe programs that try to wedge the library by the order of what they begin, end and drop.

use std::any::Any;
use std::cell::Cell;

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use crate::common::gate::Gate;
use grapture::sys::CUcontext;
use grapture::{
    CU_STREAM_CAPTURE_STATUS_INVALIDATED, CaptureMode, CaptureStatus, Context, CudaError,
    CudaResult, DeviceBuffer, Event, PinnedBuffer, Stream, StreamGraphCapture,
};

checked_tiers! {
    captures_of_one_thread_end_in_any_order,
    handles_are_dropped_in_any_order,
    a_capture_ends_while_a_part_of_it_is_captured,
    a_graph_belongs_to_the_context_of_its_stream,
    the_streams_of_a_fork_are_dropped_before_the_join,
    waiting_for_the_context_of_a_fork_is_refused,
    an_event_of_a_broken_capture_is_refused,
    a_broken_capture_is_not_taken_for_none,
    the_mode_of_a_capture_is_the_one_asked_for,
    a_capture_begins_and_ends_in_another,
    work_before_a_capture_is_used_in_it,
    what_is_in_flight_when_a_capture_begins_is_dropped,
    a_hundred_failed_captures_leave_nothing,
    fifty_graphs_leave_nothing,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn upload(setup: &Setup, elements: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

/// The order in which `len` things come, one for each `seed`.
fn shuffled(len: usize, seed: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..len).collect();
    let mut number = seed;
    let mut order = Vec::new();
    while !left.is_empty() {
        order.push(left.remove(number % left.len()));
        number = number / 3 + seed * 7;
    }
    order
}

fn captures_of_one_thread_end_in_any_order(setup: &Setup) {
    for mode in MODES {
        for seed in 0..6 {
            let streams: Vec<_> = (0..3).map(|_| setup.stream()).collect();
            let mut words: Vec<_> = (0..3).map(|_| upload(setup, &[0])).collect();
            let mut captures: Vec<_> = streams
                .iter()
                .map(|stream| Some(StreamGraphCapture::begin(stream, mode.as_raw()).unwrap()))
                .collect();
            for (stream, word) in streams.iter().zip(&mut words) {
                setup.add(word, 1, stream).unwrap();
            }
            for index in shuffled(3, seed) {
                let exec = captures[index].take().unwrap().end().unwrap();
                exec.launch(&streams[index]).unwrap();
                assert_eq!(words[index].to_vec(&streams[index]).unwrap(), [1]);
                let open = captures.iter().flatten();
                assert!(open.into_iter().all(StreamGraphCapture::is_active));
            }
        }
    }
}

/// What marks a part of a capture borrows the stream, and not the capture.
fn a_capture_ends_while_a_part_of_it_is_captured(setup: &Setup) {
    let stream = setup.stream();
    let [mut word, mut other] = [(); 2].map(|()| upload(setup, &[0]));
    let begin = || StreamGraphCapture::begin(&stream, CaptureMode::Relaxed.as_raw()).unwrap();
    for ending in ["ended", "thrown away", "another begins"] {
        let slot = Cell::new(Some(begin()));
        word.fill(1, &stream).unwrap();
        let part = stream.as_child("part", |inner| {
            other.fill(2, inner)?;
            let capture = slot.take().unwrap();
            match ending {
                "ended" => assert_eq!(capture.end_graph().unwrap().node_count().unwrap(), 1),
                "thrown away" => drop(capture),
                _ => {
                    drop(capture);
                    slot.set(Some(begin()));
                }
            }
            Ok(())
        });
        match slot.take() {
            // The part is where the stream is when it is whole.
            Some(another) => {
                part.unwrap();
                assert_eq!(another.end_graph().unwrap().node_count().unwrap(), 1);
            }
            None => assert!(matches!(part, Err(CudaError::Refused(_))), "{ending}: {part:?}"),
        }
        setup.assert_usable(&stream);
    }
}

fn handles_are_dropped_in_any_order(setup: &Setup) {
    for seed in 0..40 {
        let own = Setup::on(setup.driver.clone());
        let stream = own.stream();
        let mut word = upload(&own, &[1]);
        let mut pinned = PinnedBuffer::<u32>::zeroed(&own.context, 1).unwrap();
        let ordered = DeviceBuffer::<u32>::alloc_async(&stream, 4).unwrap();
        let event = Event::new(&own.context).unwrap();
        let kernel = own.module.kernel("add").unwrap();
        let graph = stream
            .capture(CaptureMode::Global, |capture| {
                capture.retain(own.stream());
                own.add(&mut word, 1, &stream)?;
                word.copy_to_pinned(&mut pinned, &stream)?;
                event.record_external(&stream)
            })
            .unwrap();
        let (exec, sibling) = (graph.instantiate().unwrap(), graph.instantiate().unwrap());
        exec.launch(&stream).unwrap();
        sibling.launch(&stream).unwrap();
        let mut things: Vec<Option<Box<dyn Any>>> = vec![
            Some(Box::new(own.driver)),
            Some(Box::new(own.context)),
            Some(Box::new(own.module)),
            Some(Box::new(kernel)),
            Some(Box::new(stream)),
            Some(Box::new(word)),
            Some(Box::new(pinned)),
            Some(Box::new(ordered)),
            Some(Box::new(event)),
            Some(Box::new(graph)),
            Some(Box::new(exec)),
            Some(Box::new(sibling)),
        ];
        for index in shuffled(things.len(), seed) {
            things[index] = None;
        }
    }
}

/// A context of the program's own, current on the thread while it lives.
struct Foreign<'a>(&'a Setup, CUcontext);

impl Foreign<'_> {
    fn new(setup: &Setup) -> Foreign<'_> {
        let functions = setup.driver.as_raw().functions();
        let mut raw = std::ptr::null_mut();
        // SAFETY: a live out-pointer and the device of the driver.
        let code =
            unsafe { (functions.cuCtxCreate_v2)(&mut raw, 0, setup.context.device().as_raw()) };
        assert_eq!(code.0, 0);
        Foreign(setup, raw)
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        // SAFETY: made here, and nothing of it is left.
        unsafe { (self.0.driver.as_raw().functions().cuCtxDestroy_v2)(self.1) };
    }
}

fn a_graph_belongs_to_the_context_of_its_stream(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let exec = {
        let capture = StreamGraphCapture::begin(&stream, CaptureMode::Global.as_raw()).unwrap();
        setup.add(&mut word, 1, &stream).unwrap();
        let _other = Foreign::new(setup);
        setup.add(&mut word, 1, &stream).unwrap();
        capture.end().unwrap()
    };
    assert_eq!(exec.context(), &setup.context);
    assert_eq!(exec.graph().unwrap().context(), &setup.context);
    let _other = Foreign::new(setup);
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
    drop(exec);
    drop(word);
}

fn the_streams_of_a_fork_are_dropped_before_the_join(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let error = stream
        .capture(CaptureMode::Relaxed, |capture| {
            let (event, side) = (Event::new(&setup.context)?, setup.stream());
            event.record(&stream)?;
            event.wait(&side)?;
            setup.add(&mut word, 1, &side)?;
            drop((event, side));
            assert!(capture.is_active());
            Ok(())
        })
        .unwrap_err();
    assert_eq!(error.code(), 904);
    let CudaError::Capture(error) = error else { panic!("{error:?}") };
    assert_eq!(error.forks().len(), 1);
    setup.assert_usable(error.forks()[0].stream());
    setup.assert_usable(&stream);
}

/// A stream of another context that joined is part of the capture, and so is its context.
fn waiting_for_the_context_of_a_fork_is_refused(setup: &Setup) {
    let foreign = Foreign::new(setup);
    let functions = setup.driver.as_raw().functions();
    {
        // SAFETY: a live context of the device, which outlives what is made of it here.
        let other = unsafe { Context::borrow_raw(setup.context.device(), foreign.1) };
        let (stream, side) = (setup.stream(), Stream::new(&other).unwrap());
        let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&other).unwrap());
        let graph = stream.capture(CaptureMode::Global, |capture| {
            fork.record(&stream)?;
            fork.wait(&side)?;
            side.host_function(|| {})?;
            assert_eq!(other.synchronize().unwrap_err().code(), 900);
            assert!(capture.is_active());
            join.record(&side)?;
            join.wait(&stream)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 1);
        other.synchronize().unwrap();
        // By other hands the wait breaks the capture.
        let capture = StreamGraphCapture::begin(&stream, CaptureMode::Global.as_raw()).unwrap();
        fork.record(&stream).unwrap();
        fork.wait(&side).unwrap();
        // SAFETY: the call takes no pointer; the other context is current.
        assert_eq!(unsafe { (functions.cuCtxSynchronize)() }.0, 900);
        assert!(!capture.is_active());
        drop(capture);
        other.synchronize().unwrap();
        setup.assert_usable(&stream);
    }
    setup.driver.reclaim();
}

/// Other hands break the capture: a question that a capture bars, asked by the raw handle.
fn break_capture(stream: &Stream) {
    let functions = stream.driver().as_raw().functions();
    // SAFETY: a live stream.
    assert_eq!(unsafe { (functions.cuStreamQuery)(stream.as_raw()) }.0, 900);
}

fn an_event_of_a_broken_capture_is_refused(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let capture = StreamGraphCapture::begin(&stream, CaptureMode::Relaxed.as_raw()).unwrap();
    event.record(&stream).unwrap();
    break_capture(&stream);
    event.wait(&side).unwrap_err();
    assert_eq!(side.capture_info().unwrap().status(), CaptureStatus::None);
    setup.assert_usable(&side);
    assert_eq!(capture.end().unwrap_err().code(), 901);
    assert!(matches!(event.wait(&side), Err(CudaError::Refused(_))));
    setup.assert_usable(&stream);
    setup.assert_usable(&side);
}

fn a_broken_capture_is_not_taken_for_none(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let capture = StreamGraphCapture::begin(&stream, CaptureMode::Relaxed.as_raw()).unwrap();
    break_capture(&stream);
    assert_eq!(capture.capture_status().unwrap(), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert!(stream.is_capturing() && !capture.is_active());
    for _ in 0..3 {
        setup.add(&mut word, 1, &stream).unwrap_err();
    }
    assert!(matches!(stream.synchronize(), Err(CudaError::Refused(_))));
    word.to_vec(&stream).unwrap_err();
    let CudaError::Capture(error) = capture.end_graph().unwrap_err() else { panic!("no capture") };
    let first = error.first_failure().unwrap().operation();
    assert_eq!((error.code(), first.index()), (901, 0));
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
    setup.assert_usable(&stream);
}

/// By what the driver bars: an allocation by other hands on this thread and on another.
fn the_mode_of_a_capture_is_the_one_asked_for(setup: &Setup) {
    let functions = setup.driver.as_raw().functions();
    let allocate = || {
        let (mut address, mut popped) = (0, std::ptr::null_mut());
        // SAFETY: the context lives.
        unsafe { (functions.cuCtxPushCurrent_v2)(setup.context.as_raw()) };
        // SAFETY: the out-pointer is a live local.
        let code = unsafe { (functions.cuMemAlloc_v2)(&mut address, 16) };
        if code.0 == 0 {
            // SAFETY: just allocated, and not used.
            unsafe { (functions.cuMemFree_v2)(address) };
        }
        // SAFETY: the out-pointer is a live local.
        unsafe { (functions.cuCtxPopCurrent_v2)(&mut popped) };
        code.0
    };
    let barred = |mode: CaptureMode, own_thread: bool| {
        let stream = setup.stream();
        let capture = StreamGraphCapture::begin(&stream, mode.as_raw()).unwrap();
        let code = if own_thread {
            allocate()
        } else {
            std::thread::scope(|scope| scope.spawn(allocate).join().unwrap())
        };
        assert_eq!(capture.is_active(), code == 0, "{mode:?}, own thread: {own_thread}");
        assert_eq!(capture.end().is_ok(), code == 0);
        code
    };
    assert_eq!(MODES.map(|mode| barred(mode, true)), [900, 900, 0]);
    assert_eq!(MODES.map(|mode| barred(mode, false)), [900, 0, 0]);
}

fn a_capture_begins_and_ends_in_another(setup: &Setup) {
    for mode in MODES {
        let (outer, inner) = (setup.stream(), setup.stream());
        let mut word = upload(setup, &[0]);
        let mut other = upload(setup, &[0]);
        let mut made = None;
        let graph = outer.capture(mode, |_| {
            setup.add(&mut word, 1, &outer)?;
            let again = outer.capture(mode, |_| panic!("it captures already"));
            assert!(matches!(again, Err(CudaError::Refused(_))));
            let graph = inner.capture(mode, |_| setup.add(&mut other, 10, &inner))?;
            let exec = graph.instantiate()?;
            exec.launch(&inner)?;
            made = Some((graph, exec));
            setup.add(&mut word, 1, &outer)
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 2);
        let (graph, exec) = made.unwrap();
        exec.launch(&inner).unwrap();
        assert_eq!(other.to_vec(&inner).unwrap(), [20]);
        assert_eq!(graph.node_count().unwrap(), 1);
    }
}

/// What was written before needs no wait in the capture, and none is recorded.
fn work_before_a_capture_is_used_in_it(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = upload(setup, &[1]);
    setup.add(&mut word, 1, &other).unwrap();
    let mut ordered = DeviceBuffer::<u32>::alloc_async(&other, 1).unwrap();
    ordered.copy_from(&word, &other).unwrap();
    other.synchronize().unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| {
        setup.add(&mut word, 1, &stream)?;
        setup.add(&mut ordered, 10, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 2);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
    assert_eq!(ordered.to_vec(&stream).unwrap(), [12]);
}

fn free_bytes(setup: &Setup) -> usize {
    setup.context.synchronize().unwrap();
    setup.driver.reclaim();
    setup.context.memory_info().unwrap().free_bytes
}

/// A stream cannot be waited for while it captures, and what it still has to do uses this.
fn what_is_in_flight_when_a_capture_begins_is_dropped(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let source = PinnedBuffer::from_slice(&setup.context, &[3u32; 1_000]).unwrap();
        let mut between = upload(setup, &[0; 1_000]);
        let ordered = DeviceBuffer::<u32>::alloc_async(&stream, 1_000).unwrap();
        let mut result = upload(setup, &[0; 1_000]);
        let module = setup.context.load_ptx(crate::common::KERNELS).unwrap();
        let kernel = module.kernel("add").unwrap();
        let gate = Gate::new();
        gate.hold(&stream);
        let submit = || {
            let mut ordered = ordered;
            between.copy_from_pinned(&source, &stream)?;
            ordered.copy_from(&between, &stream)?;
            // SAFETY: `add` takes the address of a word and a value.
            unsafe {
                kernel.launch_builder(1, 1).arg_mut(&mut ordered).value(1u32).launch(&stream)
            }?;
            result.copy_from(&ordered, &stream)?;
            CudaResult::Ok(ordered)
        };
        let ordered = submit().unwrap();
        gate.wait_until_reached();
        let capture = StreamGraphCapture::begin(&stream, mode.as_raw()).unwrap();
        std::thread::scope(|scope| {
            // Some of these wait for the gate in the driver.
            for thing in [
                Box::new(source) as Box<dyn Any + Send>,
                Box::new(between),
                Box::new(ordered),
                Box::new((module, kernel)),
            ] {
                scope.spawn(move || drop(thing));
            }
            gate.open();
        });
        assert!(capture.is_active(), "{mode:?}");
        assert_eq!(capture.end().unwrap().node_count(), 0);
        let mut expected = vec![3; 1_000];
        expected[0] += 1;
        assert_eq!(result.to_vec(&stream).unwrap(), expected, "{mode:?}");
    }
}

/// The words of the buffer that each cycle uses.
const WORDS: usize = 1 << 16;

/// Runs `cycle` until what the driver keeps for later is there, and then `rounds` times more: that
/// does not cost the buffers of half of them. Other tests use the device meanwhile.
#[track_caller]
fn assert_flat(setup: &Setup, rounds: usize, cycle: impl Fn() -> CudaResult<()>) {
    (0..20).try_for_each(|_| cycle()).unwrap();
    let before = Cell::new(free_bytes(setup));
    // What the last rounds gave back goes when the driver says that their launches are done.
    setup.wait_until(|| {
        let now = free_bytes(setup);
        before.replace(now) == now
    });
    (0..rounds).try_for_each(|_| cycle()).unwrap();
    let half = rounds * WORDS * size_of::<u32>() / 2;
    setup.wait_until(|| free_bytes(setup) + half >= before.get());
}

fn a_hundred_failed_captures_leave_nothing(setup: &Setup) {
    let stream = setup.stream();
    assert_flat(setup, 100, || {
        let mut word = upload(setup, &[0; WORDS]);
        let failed = stream.capture(CaptureMode::Relaxed, |_| {
            setup.add(&mut word, 1, &stream)?;
            break_capture(&stream);
            setup.add(&mut word, 1, &stream)
        });
        assert_eq!(failed.unwrap_err().code(), 901);
        Ok(())
    });
    setup.assert_usable(&stream);
}

fn fifty_graphs_leave_nothing(setup: &Setup) {
    let stream = setup.stream();
    assert_flat(setup, 50, || {
        let mut word = upload(setup, &[0; WORDS]);
        let graph = stream.capture(CaptureMode::Relaxed, |_| setup.add(&mut word, 1, &stream))?;
        let exec = graph.instantiate()?;
        drop((graph, word));
        exec.launch(&stream)?;
        exec.launch(&stream)
    });
}
