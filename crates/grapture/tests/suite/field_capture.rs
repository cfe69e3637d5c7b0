//! What users of captures reported, each as the behaviour that is right: `docs/field-reports.md`
//! has the list.

use std::panic::Location;

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use grapture::{
    CaptureMode, CaptureStatus, Context, CudaError, CudaResult, DeviceBuffer, EdgePort, Event,
    OperationKind, OperationSpec, Stream, StreamGraphCapture, StreamOptions,
};

checked_tiers! {
    the_first_failing_operation_is_named_with_its_line,
    what_another_thread_breaks_is_not_blamed_on_the_program,
    every_question_leaves_a_capture_active,
    a_refused_wait_leaves_the_nodes_as_they_are,
    a_kernel_is_first_used_in_a_capture,
    the_legacy_stream_beside_a_blocking_capture_is_refused,
    work_beside_a_capture_runs,
    every_operation_of_a_closure_has_its_capture,
    a_programmatic_launch_makes_a_programmatic_edge,
    kernels_are_named_one_to_one,
    an_error_in_a_capture_sticks_to_no_later_call,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn upload(setup: &Setup, elements: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, elements).unwrap()
}

fn begin(stream: &Stream, mode: CaptureMode) -> StreamGraphCapture<'_> {
    StreamGraphCapture::begin(stream, mode.as_raw()).unwrap()
}

/// Other hands break the capture: a question that a capture bars, asked by the raw handle.
fn break_capture(stream: &Stream) {
    let functions = stream.driver().as_raw().functions();
    // SAFETY: a live stream.
    assert_eq!(unsafe { (functions.cuStreamQuery)(stream.as_raw()) }.0, 900);
}

fn the_first_failing_operation_is_named_with_its_line(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let mut line = 0;
    let failed = stream.capture(CaptureMode::Global, |_| {
        setup.add(&mut word, 1, &stream)?;
        break_capture(&stream);
        line = Location::caller().line() + 1;
        let first = word.fill(5, &stream).unwrap_err();
        assert_eq!(first.code(), 901);
        setup.add(&mut word, 1, &stream).unwrap_err();
        stream.host_function(|| {}).unwrap_err();
        Ok(())
    });
    let CudaError::Capture(error) = failed.unwrap_err() else { panic!("no error of a capture") };
    let first = error.first_failure().unwrap();
    assert_eq!((error.code(), first.code()), (901, 901));
    let operation = first.operation();
    assert_eq!((operation.index(), operation.kind()), (1, OperationKind::Fill));
    assert_eq!((operation.location().file(), operation.location().line()), (file!(), line));
    let named = format!("{}:{line})", file!());
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(stream.capture_info().unwrap().status(), CaptureStatus::None);
    setup.assert_usable(&stream);
}

/// A wait for the whole device breaks captures of every mode and thread.
fn what_another_thread_breaks_is_not_blamed_on_the_program(setup: &Setup) {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
        let stream = setup.stream();
        let mut word = upload(setup, &[1]);
        let capture = begin(&stream, mode);
        setup.add(&mut word, 1, &stream).unwrap();
        let functions = setup.driver.as_raw().functions();
        let code = std::thread::scope(|scope| {
            let wait = || {
                // SAFETY: the context lives.
                unsafe { (functions.cuCtxPushCurrent_v2)(setup.context.as_raw()) };
                // SAFETY: the call takes no pointer.
                unsafe { (functions.cuCtxSynchronize)() }.0
            };
            scope.spawn(wait).join().unwrap()
        });
        assert_eq!(code, 900, "{mode:?}");
        let CudaError::Capture(error) = capture.end().unwrap_err() else { panic!("{mode:?}") };
        assert_eq!(error.code(), 901);
        assert!(error.first_failure().is_none());
        assert_eq!(error.last_operation().unwrap().index(), 0);
        assert!(error.to_string().contains("another thread"), "{error}");
        setup.assert_usable(&stream);
    }
}

/// All that can be asked about what takes part in a capture.
fn ask_all(setup: &Setup, stream: &Stream, word: &DeviceBuffer<u32>, event: &Event) {
    let kernel = setup.module.kernel("add").unwrap();
    kernel.attributes();
    kernel.max_active_blocks(32, 0).unwrap();
    kernel.suggested_block_size(0).unwrap();
    kernel.parameter_sizes();
    setup.module.kernel_names().unwrap();
    setup.module.global("counter").unwrap();
    setup.context.memory_info().unwrap();
    setup.context.stream_priorities().unwrap();
    let device = setup.context.device();
    device.name().unwrap();
    device.uuid().unwrap();
    device.total_memory_bytes().unwrap();
    device.compute_capability().unwrap();
    setup.driver.device_count().unwrap();
    stream.priority().unwrap();
    stream.capture_info().unwrap();
    assert!(stream.is_capturing());
    event.is_complete().unwrap_err();
    event.synchronize().unwrap_err();
    stream.is_idle().unwrap_err();
    stream.synchronize().unwrap_err();
    setup.context.synchronize().unwrap_err();
    word.to_vec(stream).unwrap_err();
    let _ = format!("{stream:?} {word:?} {event:?} {kernel:?} {:?}", setup.context);
}

fn every_question_leaves_a_capture_active(setup: &Setup) {
    for mode in MODES {
        for own_thread in [true, false] {
            let stream = setup.stream();
            let mut word = upload(setup, &[1]);
            let event = Event::new(&setup.context).unwrap();
            let capture = begin(&stream, mode);
            setup.add(&mut word, 1, &stream).unwrap();
            event.record(&stream).unwrap();
            let ask = || ask_all(setup, &stream, &word, &event);
            if own_thread {
                ask();
                let _ = (format!("{capture:?}"), capture.id(), capture.capture_status().unwrap());
            } else {
                std::thread::scope(|scope| scope.spawn(ask).join().unwrap());
            }
            assert!(capture.is_active(), "{mode:?}, own thread: {own_thread}");
            assert_eq!(capture.end().unwrap().node_count(), 1);
        }
    }
}

fn a_refused_wait_leaves_the_nodes_as_they_are(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let graph = stream.capture(CaptureMode::Global, |capture| {
        for step in 1..=3 {
            setup.add(&mut word, 1, &stream)?;
            assert_eq!(stream.synchronize().unwrap_err().code(), 900);
            assert_eq!(stream.is_idle().unwrap_err().code(), 900);
            assert!(capture.is_active(), "step {step}");
        }
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 3);
}

/// A driver may load a kernel when it is first launched, and that is barred in a capture.
fn a_kernel_is_first_used_in_a_capture(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let mut word = upload(setup, &[1]);
        let early = setup.context.load_ptx(crate::common::KERNELS).unwrap();
        let graph = stream.capture(mode, |capture| {
            let late = setup.context.load_ptx(crate::common::KERNELS)?;
            for module in [&early, &late] {
                let kernel = module.kernel("add")?;
                let launch = kernel.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
                // SAFETY: `add` takes the address of a word and a value.
                unsafe { launch.launch(&stream) }?;
            }
            assert!(capture.is_active());
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        drop(early);
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec(&stream).unwrap(), [3], "{mode:?}");
    }
}

fn the_legacy_stream_beside_a_blocking_capture_is_refused(setup: &Setup) {
    let options = StreamOptions::new().blocking(true);
    let stream = Stream::with_options(&setup.context, options).unwrap();
    let legacy = Stream::legacy(&setup.context);
    let (mut word, mut other) = (upload(setup, &[1]), upload(setup, &[1]));
    let capture = begin(&stream, CaptureMode::Relaxed);
    setup.add(&mut word, 1, &stream).unwrap();
    // It would wait for the stream that captures, and nothing there runs.
    assert_eq!(other.fill(2, &legacy).unwrap_err().code(), 906);
    drop(capture);
    other.fill(3, &legacy).unwrap();
    assert_eq!(other.to_vec(&legacy).unwrap(), [3]);
    setup.assert_usable(&stream);
}

/// A stream that waits for no other is captured: what goes elsewhere runs, and is no node.
fn work_beside_a_capture_runs(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let legacy = Stream::legacy(&setup.context);
    let (mut word, mut beside) = (upload(setup, &[1]), upload(setup, &[0]));
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        setup.add(&mut word, 1, &stream)?;
        setup.add(&mut beside, 1, &legacy)?;
        assert_eq!(beside.to_vec(&legacy)?, [1]);
        setup.add(&mut beside, 1, &other)?;
        assert_eq!(beside.to_vec(&other)?, [2]);
        Ok(())
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(
        (word.to_vec(&stream).unwrap(), beside.to_vec(&stream).unwrap()),
        (vec![2], vec![2])
    );
}

fn every_operation_of_a_closure_has_its_capture(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut words = [upload(setup, &[0]), upload(setup, &[0])];
    let (fork, join) = (Event::new(&setup.context).unwrap(), Event::new(&setup.context).unwrap());
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        fork.record(&stream)?;
        fork.wait(&side)?;
        for _ in 0..10 {
            for (stream, word) in [&stream, &side].into_iter().zip(&mut words) {
                setup.add(word, 1, stream)?;
                assert_eq!(stream.capture_info()?.id(), capture.id());
                assert!(capture.id().is_some());
            }
        }
        join.record(&side)?;
        join.wait(&stream)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 20);
}

fn a_programmatic_launch_makes_a_programmatic_edge(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let kernel = setup.module.kernel("nothing").unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| {
        setup.add(&mut word, 1, &stream)?;
        let launch = kernel.launch_builder(1, 1).programmatic_serialization(true);
        // SAFETY: `nothing` takes no arguments and touches nothing.
        unsafe { launch.launch(&stream) }?;
        // SAFETY: as above.
        unsafe { kernel.launch_builder(1, 1).launch(&stream) }
    });
    let graph = graph.unwrap();
    let edges = graph.edges().unwrap();
    let programmatic: Vec<_> = edges.iter().map(|edge| edge.data().is_programmatic()).collect();
    assert_eq!(programmatic, [true, false]);
    assert_eq!(edges[0].data().from_port(), EdgePort::Programmatic);
    assert_eq!(edges[1].data().from_port(), EdgePort::Full);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn kernels_are_named_one_to_one(setup: &Setup) {
    let stream = setup.stream();
    let mut word = upload(setup, &[1]);
    let graph = stream.capture(CaptureMode::Global, |_| {
        setup.add(&mut word, 1, &stream)?;
        setup.mul_add(&mut word, 2, 0, &stream)?;
        setup.add(&mut word, 1, &stream)
    });
    let graph = graph.unwrap();
    let topology = graph.topology().unwrap();
    let names: Vec<_> = topology
        .nodes()
        .iter()
        .map(|node| match node.operation() {
            OperationSpec::Kernel { name, .. } => name.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["add", "mul_add", "add"]);
    assert_eq!(graph.nodes().unwrap().len(), names.len());
}

fn an_error_in_a_capture_sticks_to_no_later_call(setup: &Setup) {
    let stream = setup.stream();
    let other = Context::new(setup.context.device()).unwrap();
    let run = |context: &Context| -> CudaResult<Vec<u32>> {
        let stream = Stream::new(context)?;
        let mut word = DeviceBuffer::from_slice(context, &[1u32])?;
        word.fill(2, &stream)?;
        word.to_vec(&stream)
    };
    for _ in 0..3 {
        let capture = begin(&stream, CaptureMode::Global);
        break_capture(&stream);
        assert_eq!(run(&other).unwrap(), [2], "beside a broken capture");
        capture.end().unwrap_err();
        assert_eq!(run(&setup.context).unwrap(), [2], "after a broken capture");
        setup.context.synchronize().unwrap();
        setup.assert_usable(&stream);
    }
}
