//! Segments on several streams and threads.

use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use crate::segments::{failed, model, value, word};
use grapture::{CaptureMode, Stream, StreamGraphCapture};

both_tiers! {
    a_launch_elsewhere_comes_after_the_last,
    default_streams_launch_segments,
    another_thread_launches_them,
    recordings_that_are_swapped_end_all_the_same,
}

fn a_launch_elsewhere_comes_after_the_last(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut words = word(setup);
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            setup.mul_add(&mut words, 10, 1, &stream)?;
            capture.eager(|_| Ok(()))?;
            setup.mul_add(&mut words, 10, 2, &stream)
        })
        .unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    segments.launch(&stream).unwrap();
    segments.launch(&other).unwrap();
    assert!(!other.is_idle().unwrap());
    gate.open();
    assert_eq!(value(&words, &other), 1212);
    // The stream of the last launch captures: there is no way to come after it.
    other
        .capture(CaptureMode::ThreadLocal, |_| {
            assert_eq!(segments.launch(&stream).unwrap_err().code(), 900);
            Ok(())
        })
        .unwrap();
    segments.launch(&stream).unwrap();
    assert_eq!(value(&words, &stream), 121212);
}

fn default_streams_launch_segments(setup: &Setup) {
    launch_on_default_stream(setup, &Stream::per_thread(&setup.context));
}

/// On a driver of its own: beside captures of blocking streams the legacy stream takes nothing.
#[test]
fn sim_the_legacy_stream_launches_segments() {
    let setup = Setup::simulated();
    launch_on_default_stream(&setup, &Stream::legacy(&setup.context));
}

fn launch_on_default_stream(setup: &Setup, default: &Stream) {
    let stream = setup.stream();
    let (mut model, mut segments) = model(setup, &stream);
    segments.launch_with(default, &mut model).unwrap();
    segments.launch_with(default, &mut model).unwrap();
    // Behind those.
    segments.launch_with(&stream, &mut model).unwrap();
    assert_eq!(
        (model.seen.as_slice(), value(&model.word, &stream)),
        (&[1, 121, 12121][..], 121212)
    );
}

fn another_thread_launches_them(setup: &Setup) {
    let stream = setup.stream();
    let (mut model, mut segments) = model(setup, &stream);
    segments.launch_with(&stream, &mut model).unwrap();
    let (model, mut segments) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let own = Stream::new(&setup.context).unwrap();
            segments.launch_with(&own, &mut model).unwrap();
            own.synchronize().unwrap();
            (model, segments)
        });
        thread.join().unwrap()
    });
    let mut model = model;
    segments.launch_with(&stream, &mut model).unwrap();
    assert_eq!(
        (model.seen.as_slice(), value(&model.word, &stream)),
        (&[1, 121, 12121][..], 121212)
    );
}

fn recordings_that_are_swapped_end_all_the_same(setup: &Setup) {
    let (one, two) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (word(setup), word(setup));
    let mut inner = None;
    let mut outer = one
        .capture_segments(CaptureMode::ThreadLocal, |first| {
            setup.add(&mut a, 1, &one)?;
            inner = Some(two.capture_segments(CaptureMode::ThreadLocal, |second| {
                setup.add(&mut b, 2, &two)?;
                std::mem::swap(first, second);
                second.eager(|_| Ok(()))
            })?);
            setup.add(&mut b, 4, &two)?;
            first.eager(|_| Ok(()))
        })
        .unwrap();
    let mut inner = inner.unwrap();
    assert_eq!((inner.len(), outer.len()), (2, 2));
    inner.launch(&one).unwrap();
    outer.launch(&two).unwrap();
    assert_eq!((value(&a, &one), value(&b, &two)), (1, 6));
    setup.assert_usable(&one);
    setup.assert_usable(&two);
}

/// On a driver of its own: a capture that is never ended stays open in its context.
#[test]
fn sim_eager_work_that_leaves_its_stream_capturing_stops_the_launch() {
    let setup = &Setup::simulated();
    let stream = setup.stream();
    let mut words = word(setup);
    let mut segments = stream
        .capture_segments(CaptureMode::ThreadLocal, |capture| {
            setup.add(&mut words, 1, &stream)?;
            capture.eager(|stream| {
                let raw = CaptureMode::Relaxed.as_raw();
                std::mem::forget(StreamGraphCapture::begin(stream, raw)?);
                Ok(())
            })?;
            setup.add(&mut words, 1, &stream)
        })
        .unwrap();
    let other = setup.stream();
    let error = failed(segments.launch(&other));
    assert_eq!((error.segment(), error.code()), (2, 900));
    // Nothing orders the streams, and the one of the launch cannot be waited for.
    setup.wait_until(|| value(&words, &stream) == 1);
    // What follows cannot be put behind that stream any more.
    assert_eq!(segments.launch(&stream).unwrap_err().code(), 900);
    drop(segments);
    setup.assert_usable(&stream);
}
