//! Captures that several threads record.

use crate::common::{Setup, both_tiers};
use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureStatus, CudaError, DeviceBuffer, Event, OperationKind,
    StreamGraphCapture,
};

both_tiers! {
    several_threads_record_one_capture,
    the_log_of_several_threads_is_one,
}

fn several_threads_record_one_capture(setup: &Setup) {
    let stream = setup.stream();
    let mut words: Vec<_> =
        (0..4).map(|_| DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap()).collect();
    let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    setup.add(&mut words[0], 1, &stream).unwrap();
    let own = stream.capture_info().unwrap();
    assert_eq!(own.dependencies().unwrap().len(), 1);
    std::thread::scope(|scope| {
        let (own, other) = words.split_at_mut(1);
        for word in other {
            scope.spawn(|| {
                for _ in 0..100 {
                    setup.add(word, 1, &stream).unwrap();
                    // Only the thread of the capture can say where it stands.
                    let info = stream.capture_info().unwrap();
                    assert_eq!(info.status(), CaptureStatus::Active);
                    assert!(info.dependencies().is_none());
                }
            });
        }
        for _ in 0..99 {
            setup.add(&mut own[0], 1, &stream).unwrap();
            assert_eq!(stream.capture_info().unwrap().dependencies().unwrap().len(), 1);
        }
    });
    let exec = capture.end().unwrap();
    assert_eq!(exec.node_count(), 400);
    exec.launch(&stream).unwrap();
    for word in &words {
        assert_eq!(word.to_vec(&stream).unwrap(), [100]);
    }
    // What the others recorded is owned too.
    drop(words);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn the_log_of_several_threads_is_one(setup: &Setup) {
    let (main, side) = (setup.stream(), setup.stream());
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let event = Event::new(&setup.context).unwrap();
    let capture = StreamGraphCapture::begin(&main, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    setup.add(&mut word, 1, &main).unwrap();
    let elsewhere = |work: &mut (dyn FnMut() + Send)| {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    };
    elsewhere(&mut || setup.add(&mut word, 2, &main).unwrap());
    setup.add(&mut word, 3, &main).unwrap();
    event.record(&main).unwrap();
    elsewhere(&mut || {
        event.wait(&side).unwrap();
        setup.add(&mut word, 4, &side).unwrap();
    });
    let CudaError::Capture(error) = capture.end().unwrap_err() else { panic!("of another kind") };
    let last = error.last_operation().unwrap();
    assert_eq!((last.index(), last.kind()), (5, OperationKind::Kernel));
    assert_eq!(error.forks().len(), 1);
    setup.assert_usable(&main);
    setup.assert_usable(&side);
}
