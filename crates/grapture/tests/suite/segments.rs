//! Work that is captured in pieces, with eager work between them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::counted::{Token, counter, get};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CaptureOptions, CudaError, CudaResult, DeviceBuffer, EscapePolicy, JoinPolicy,
    NodeKind, PinnedBuffer, SegmentError, Segments, Stream, WordCondition,
};

both_tiers! {
    eager_work_runs_between_the_pieces_at_each_launch,
    so_many_breaks_give_what_eager_work_gives,
    the_state_of_a_launch_is_handed_to_eager_work,
    pieces_without_work_are_left_out,
    pieces_have_what_captures_have,
    unmarked_work_that_cannot_be_captured_is_an_error,
    a_broken_piece_is_named_and_nothing_of_the_rest_runs,
    a_fork_that_eager_work_would_cut_is_refused,
    leaves_are_joined_before_eager_work_on_demand,
    work_that_escapes_from_a_piece_is_an_error_on_demand,
    an_error_of_eager_work_names_it_and_stops_the_launch,
    a_panic_of_eager_work_passes_through,
    segments_are_not_launched_into_a_capture,
    eager_work_may_capture_and_launch,
    a_graph_of_the_segments_is_changed,
    what_segments_use_is_kept_until_they_are_done,
    a_stream_that_captures_takes_no_segments,
}

pub fn word(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, 1).unwrap()
}

#[track_caller]
pub fn value(word: &DeviceBuffer<u32>, stream: &Stream) -> u32 {
    word.to_vec(stream).unwrap()[0]
}

#[track_caller]
pub fn failed<T: std::fmt::Debug>(result: CudaResult<T>) -> SegmentError {
    match result {
        Err(CudaError::Segment(error)) => *error,
        other => panic!("no segment failed: {other:?}"),
    }
}

/// Work on a word, and what its eager part has seen.
pub struct Model {
    pub word: DeviceBuffer<u32>,
    pub seen: Vec<u32>,
}

/// `word * 10 + 1`, then a look at it, then `word * 10 + 2`.
pub fn model(setup: &Setup, stream: &Stream) -> (Model, Segments<'static, Model>) {
    let mut model = Model { word: word(setup), seen: Vec::new() };
    let segments = Segments::capture(stream, CaptureMode::ThreadLocal, |capture| {
        setup.mul_add(&mut model.word, 10, 1, stream)?;
        capture.eager_with(|stream, model: &mut Model| {
            model.seen.push(value(&model.word, stream));
            Ok(())
        })?;
        setup.mul_add(&mut model.word, 10, 2, stream)
    });
    (model, segments.unwrap())
}

fn eager_work_runs_between_the_pieces_at_each_launch(setup: &Setup) {
    let stream = setup.stream();
    let calls = AtomicUsize::new(0);
    let kernel = setup.module.kernel("mul_add").unwrap();
    let mut digits = word(setup);
    let address = digits.as_raw();
    let mut segments = stream
        .capture_segments(CaptureMode::Global, |capture| {
            setup.mul_add(&mut digits, 10, 1, &stream)?;
            capture.eager(|stream| {
                calls.fetch_add(1, Ordering::SeqCst);
                stream.synchronize()?; // no capture can have that
                let launch = kernel.launch_builder(1, 1).value(address).value(10u32).value(2u32);
                // SAFETY: `mul_add` takes the address of a word, which outlives the segments.
                unsafe { launch.launch(stream) }
            })?;
            setup.mul_add(&mut digits, 10, 3, &stream)?;
            capture.eager(|stream| stream.synchronize())?;
            setup.mul_add(&mut digits, 10, 4, &stream)
        })
        .unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 0, "nothing runs while it is recorded");
    assert_eq!(value(&digits, &stream), 0);
    assert_eq!((segments.len(), segments.node_count(), segments.is_empty()), (5, 3, false));
    let eager: Vec<_> = segments.segments().iter().map(|segment| segment.is_eager()).collect();
    assert_eq!(eager, [false, true, false, true, false]);
    segments.upload(&stream).unwrap();
    for round in 1..=3 {
        digits.fill(0, &stream).unwrap();
        segments.launch(&stream).unwrap();
        assert_eq!((value(&digits, &stream), calls.load(Ordering::SeqCst)), (1234, round));
    }
    setup.assert_usable(&stream);
}

fn so_many_breaks_give_what_eager_work_gives(setup: &Setup) {
    let stream = setup.stream();
    for breaks in 0..6 {
        let (mut digits, mut expected) = (word(setup), word(setup));
        let mut segments = Segments::capture(&stream, CaptureMode::Global, |capture| {
            for step in 0..breaks {
                setup.mul_add(&mut digits, 3, step, &stream)?;
                capture.eager_with(move |stream, host: &mut Vec<u32>| {
                    stream.synchronize()?;
                    host.push(step);
                    Ok(())
                })?;
            }
            setup.mul_add(&mut digits, 3, 7, &stream)
        })
        .unwrap();
        let graphs = segments.segments().iter().filter(|segment| !segment.is_eager()).count();
        assert_eq!((graphs, segments.len()), (breaks as usize + 1, 2 * breaks as usize + 1));
        let mut host = Vec::new();
        segments.launch_with(&stream, &mut host).unwrap();
        for step in 0..breaks {
            setup.mul_add(&mut expected, 3, step, &stream).unwrap();
        }
        setup.mul_add(&mut expected, 3, 7, &stream).unwrap();
        assert_eq!(host, (0..breaks).collect::<Vec<_>>());
        assert_eq!(value(&digits, &stream), value(&expected, &stream), "{breaks} breaks");
    }
}

fn the_state_of_a_launch_is_handed_to_eager_work(setup: &Setup) {
    let stream = setup.stream();
    let (mut first, mut segments) = model(setup, &stream);
    segments.launch_with(&stream, &mut first).unwrap();
    first.word.fill(3, &stream).unwrap();
    segments.launch_with(&stream, &mut first).unwrap();
    assert_eq!((first.seen.as_slice(), value(&first.word, &stream)), (&[1, 31][..], 312));
    // The pieces work on the memory that was recorded, whatever the state is.
    let mut other = Model { word: word(setup), seen: Vec::new() };
    segments.launch_with(&stream, &mut other).unwrap();
    assert_eq!((other.seen.as_slice(), value(&other.word, &stream)), (&[0][..], 0));
    assert_eq!(value(&first.word, &stream), 31212);
}

fn pieces_without_work_are_left_out(setup: &Setup) {
    let stream = setup.stream();
    let mut words = word(setup);
    let segments = stream.capture_segments(CaptureMode::Relaxed, |_| Ok(())).unwrap();
    assert!(segments.is_empty());
    let dropped = counter();
    let token = Token(dropped.clone());
    let mut segments = stream
        .capture_segments(CaptureMode::Relaxed, |capture| {
            capture.capture()?.retain(token);
            capture.eager(|_| Ok(()))?;
            capture.eager(|_| Ok(()))?;
            words.fill(7, &stream)?;
            capture.eager(|_| Ok(()))
        })
        .unwrap();
    assert_eq!((segments.len(), segments.node_count()), (4, 1));
    assert!(segments.segments()[2].exec().is_some());
    segments.launch(&stream).unwrap();
    assert_eq!(value(&words, &stream), 7);
    assert_eq!(get(&dropped), 0, "what a piece without nodes retains is kept");
    drop(segments);
    setup.driver.reclaim();
    assert_eq!(get(&dropped), 1);
}

fn pieces_have_what_captures_have(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut a, mut b, wanted) = (word(setup), word(setup), word(setup));
    let condition = WordCondition::new(&wanted).unwrap();
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            {
                let mut scratch = capture.capture()?.alloc_temporary::<u32>(1)?;
                scratch.fill(5, &stream)?;
                a.copy_from(&scratch, &stream)?;
            }
            stream.fork(&[&side], || b.fill(6, &side))?;
            capture.eager(|stream| stream.synchronize())?;
            capture.capture()?.if_(&condition, |body| a.fill(9, body.stream()))?;
            capture.capture()?.labelled("last", || setup.add(&mut a, 1, &stream))
        })
        .unwrap();
    let graph = segments.segments()[2].exec().and_then(|exec| exec.graph()).unwrap();
    let topology = graph.topology().unwrap();
    assert_eq!(topology.nodes().last().and_then(|node| node.label()), Some("last"));
    segments.launch(&stream).unwrap();
    assert_eq!((value(&a, &stream), value(&b, &stream)), (6, 6));
}

fn unmarked_work_that_cannot_be_captured_is_an_error(setup: &Setup) {
    let stream = setup.stream();
    let mut words = word(setup);
    let error = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            words.fill(7, &stream)?;
            capture.eager(|_| Ok(()))?;
            stream.synchronize()
        })
        .unwrap_err();
    assert_eq!(error.code(), 900);
    assert_eq!(value(&words, &stream), 0);
    setup.assert_usable(&stream);
}

/// Breaks the capture of the stream, as a library would that knows nothing of it.
fn break_capture(stream: &Stream) {
    let functions = stream.driver().as_raw().functions();
    // SAFETY: a live stream.
    let code = unsafe { (functions.cuStreamQuery)(stream.as_raw()) };
    assert_eq!(code.0, 900);
}

fn a_broken_piece_is_named_and_nothing_of_the_rest_runs(setup: &Setup) {
    let stream = setup.stream();
    let mut words = word(setup);
    let mut line = 0;
    let error = failed(stream.capture_segments(CaptureMode::ThreadLocal, |capture| {
        setup.add(&mut words, 1, &stream)?;
        line = line!() + 1;
        capture.eager(|_| Ok(()))?;
        setup.add(&mut words, 1, &stream)?;
        break_capture(&stream);
        let cut = failed(capture.eager(|_| Ok(())));
        assert_eq!((cut.segment(), cut.code()), (2, 901));
        // The closure goes on all the same.
        setup.add(&mut words, 1, &stream)?;
        assert_eq!(failed(capture.eager(|_| Ok(()))), cut);
        setup.add(&mut words, 1, &stream)
    }));
    assert_eq!((error.segment(), error.is_eager(), error.location().line()), (2, false, line));
    assert!(matches!(error.error(), CudaError::Capture(_)), "{error}");
    assert!(error.to_string().starts_with("segment 2 (the graph that begins at "), "{error}");
    assert_eq!(value(&words, &stream), 0);
    setup.assert_usable(&stream);
}

fn a_fork_that_eager_work_would_cut_is_refused(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = word(setup);
    for passes_over in [false, true] {
        let error = failed(stream.capture_segments(CaptureMode::ThreadLocal, |capture| {
            stream.fork(&[&side], || {
                setup.add(&mut words, 1, &side)?;
                match capture.eager(|_| Ok(())) {
                    Err(_) if passes_over => setup.add(&mut words, 1, &side),
                    other => other,
                }
            })
        }));
        assert_eq!((error.code(), error.segment()), (904, 0));
        assert!(
            error.to_string().contains("is not joined back where eager work ends it"),
            "{error}"
        );
        assert_eq!(value(&words, &stream), 0, "nothing has run");
    }
    // After the fork is joined all is well.
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            stream.fork(&[&side], || setup.add(&mut words, 1, &side))?;
            capture.eager(|_| Ok(()))?;
            stream.fork(&[&side], || setup.add(&mut words, 1, &side))
        })
        .unwrap();
    segments.launch(&stream).unwrap();
    assert_eq!(value(&words, &stream), 2);
    setup.assert_usable(&side);
}

fn leaves_are_joined_before_eager_work_on_demand(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = word(setup);
    let options = CaptureOptions::new(CaptureMode::ThreadLocal).join_policy(JoinPolicy::JoinLeaves);
    let event = grapture::Event::new(&setup.context).unwrap();
    let mut segments = stream
        .capture_segments(options, |capture| {
            event.record(&stream)?;
            event.wait(&side)?;
            setup.add(&mut words, 1, &side)?;
            capture.eager(|stream| stream.synchronize())?;
            setup.mul_add(&mut words, 10, 2, &stream)
        })
        .unwrap();
    segments.launch(&stream).unwrap();
    assert_eq!((segments.len(), value(&words, &stream)), (3, 12));
}

fn work_that_escapes_from_a_piece_is_an_error_on_demand(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut words = word(setup);
    let options = CaptureOptions::new(CaptureMode::ThreadLocal).escapes(EscapePolicy::Error);
    let error = failed(stream.capture_segments(options, |capture| {
        capture.eager(|_| Ok(()))?;
        words.fill(1, &other)
    }));
    assert_eq!(error.segment(), 1);
    assert!(error.to_string().contains("missing from the graph: fill of 4 bytes"), "{error}");
    assert_eq!(value(&words, &other), 1);
}

fn an_error_of_eager_work_names_it_and_stops_the_launch(setup: &Setup) {
    let stream = setup.stream();
    let mut words = word(setup);
    let mut fails = [true, false, false].into_iter();
    let mut line = 0;
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            setup.mul_add(&mut words, 10, 1, &stream)?;
            line = line!() + 1;
            capture.eager(move |_| match fails.next() {
                Some(true) => Err(CudaError::NotFound),
                _ => Ok(()),
            })?;
            setup.mul_add(&mut words, 10, 2, &stream)
        })
        .unwrap();
    let error = failed(segments.launch(&stream));
    assert_eq!((error.segment(), error.is_eager(), error.location().line()), (1, true, line));
    assert_eq!(error.error(), &CudaError::NotFound);
    assert!(std::error::Error::source(&error).is_some());
    assert!(error.to_string().starts_with("segment 1 (the eager work at "), "{error}");
    assert_eq!(value(&words, &stream), 1, "what came before has run, the rest has not");
    segments.launch(&stream).unwrap();
    assert_eq!(value(&words, &stream), 112);
}

fn a_panic_of_eager_work_passes_through(setup: &Setup) {
    let stream = setup.stream();
    let mut words = word(setup);
    let mut panics = [true, false].into_iter();
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            setup.add(&mut words, 1, &stream)?;
            capture.eager(move |_| {
                if panics.next() == Some(true) {
                    resume_unwind(Box::new("asked for"));
                }
                Ok(())
            })?;
            setup.add(&mut words, 10, &stream)
        })
        .unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| segments.launch(&stream)));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"asked for"));
    assert_eq!(value(&words, &stream), 1);
    // The launch that panicked is waited for as any other.
    let other = setup.stream();
    segments.launch(&other).unwrap();
    assert_eq!(value(&words, &other), 12);
    // And so it is in a recording.
    let recording = catch_unwind(AssertUnwindSafe(|| {
        stream.capture_segments(CaptureMode::Global, |capture| {
            setup.add(&mut words, 1, &stream)?;
            capture.eager(|_| Ok(()))?;
            setup.add(&mut words, 1, &stream)?;
            resume_unwind(Box::new("asked for"))
        })
    }));
    assert!(recording.is_err());
    assert_eq!(value(&words, &stream), 12);
    setup.assert_usable(&stream);
}

fn segments_are_not_launched_into_a_capture(setup: &Setup) {
    let stream = setup.stream();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            capture.eager(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        })
        .unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        let error = segments.launch(&stream).unwrap_err();
        assert!(matches!(error, CudaError::Refused(_)) && error.code() == 900, "{error}");
        Ok(())
    });
    assert_eq!((graph.unwrap().node_count(), calls.load(Ordering::SeqCst)), (Ok(0), 0));
    segments.launch(&stream).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

fn eager_work_may_capture_and_launch(setup: &Setup) {
    let stream = setup.stream();
    let (mut inner_model, inner) = model(setup, &stream);
    let mut inner = Some(inner);
    let mut words = word(setup);
    let (mut pinned, mut own) =
        (PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap(), word(setup));
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            setup.add(&mut words, 1, &stream)?;
            capture.eager(|stream| {
                let graph =
                    stream.capture(CaptureMode::Global, |_| setup.add(&mut own, 1, stream))?;
                graph.instantiate()?.launch(stream)?;
                inner.as_mut().unwrap().launch_with(stream, &mut inner_model)?;
                pinned.write()?[0] += 1;
                own.copy_from_pinned(&pinned, stream)
            })?;
            setup.add(&mut words, 1, &stream)
        })
        .unwrap();
    segments.launch(&stream).unwrap();
    segments.launch(&stream).unwrap();
    drop(segments);
    assert_eq!((value(&words, &stream), value(&own, &stream)), (4, 2));
    assert_eq!(inner_model.seen, [1, 121]);
}

fn a_graph_of_the_segments_is_changed(setup: &Setup) {
    let stream = setup.stream();
    let mut words = word(setup);
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            words.fill(1, &stream)?;
            capture.eager(|_| Ok(()))
        })
        .unwrap();
    assert!(segments.exec_mut(1).is_none() && segments.exec_mut(2).is_none());
    let newer = stream.capture(CaptureMode::ThreadLocal, |_| words.fill(2, &stream)).unwrap();
    let exec = segments.exec_mut(0).unwrap();
    assert_eq!(exec.graph().unwrap().nodes().unwrap()[0].kind(), NodeKind::Memset);
    exec.update(&newer).unwrap();
    segments.launch(&stream).unwrap();
    assert_eq!(value(&words, &stream), 2);
}

fn what_segments_use_is_kept_until_they_are_done(setup: &Setup) {
    let stream = setup.stream();
    let gate = Gate::new();
    let dropped = counter();
    let token = Token(dropped.clone());
    let (mut words, mut seen) = (word(setup), word(setup));
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            capture.capture()?.retain(token);
            words.fill(3, &stream)?;
            capture.eager(|_| Ok(()))?;
            seen.copy_from(&words, &stream)
        })
        .unwrap();
    gate.hold(&stream);
    segments.launch(&stream).unwrap();
    drop((segments, words));
    assert_eq!(get(&dropped), 0);
    gate.open();
    assert_eq!(value(&seen, &stream), 3);
    setup.wait_until(|| get(&dropped) == 1);
}

fn a_stream_that_captures_takes_no_segments(setup: &Setup) {
    let stream = setup.stream();
    stream
        .capture(CaptureMode::ThreadLocal, |_| {
            let error = stream.capture_segments(CaptureMode::ThreadLocal, |_| Ok(())).unwrap_err();
            assert!(matches!(error, CudaError::Refused(_)), "{error}");
            Ok(())
        })
        .unwrap();
    let legacy = Stream::legacy(&setup.context);
    assert_eq!(legacy.capture_segments(CaptureMode::Global, |_| Ok(())).unwrap_err().code(), 900);
}
