//! Panics in every closure and value that a program hands to the library: they come through where
//! the program called, are contained elsewhere, and leave nothing behind.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, CudaError, CudaResult, DeviceBuffer, Graph,
    StreamGraphCapture, set_drop_error_hook,
};
use grapture_sys::{CU_STREAM_CAPTURE_STATUS_NONE, CUDA_ERROR_UNKNOWN, Function};

use crate::engine::alone;
use crate::world::World;

/// A panic that says nothing on the terminal.
fn panic_quietly() -> ! {
    resume_unwind(Box::new("asked for"))
}

/// Whether a panic that was asked for comes out of it.
#[track_caller]
fn assert_panics(work: impl FnOnce()) {
    let payload =
        catch_unwind(AssertUnwindSafe(work)).expect_err("the panic does not come through");
    assert_eq!(payload.downcast_ref(), Some(&"asked for"));
}

/// Panics in its drop, which is counted.
struct Panics(Arc<AtomicUsize>);

impl Drop for Panics {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic_quietly();
    }
}

/// As much is alive as before, no stream captures, and work goes on.
#[track_caller]
fn assert_as_before(world: &World) {
    world.idle();
    for stream in [&world.stream, &world.side] {
        assert!(!stream.is_capturing());
        assert_eq!(world.status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    }
    world.settle(&world.alive.get()).unwrap();
    world.assert_usable();
}

/// What a closure records before it panics, one step after the other.
fn record(world: &World, words: &mut DeviceBuffer<u32>, step: usize) -> CudaResult<()> {
    let (stream, side) = (&world.stream, &world.side);
    match step {
        0 => world.launch(words, stream),
        1 => words.fill(1, stream),
        2 => words.copy_from_host_staged(&[1, 2, 3, 4], stream),
        3 => stream.host_function(|| {}),
        4 => {
            let event = world.event();
            event.record(stream)?;
            event.wait(side)
        }
        5 => world.launch(words, side),
        _ => {
            let event = world.event();
            event.record(side)?;
            event.wait(stream)
        }
    }
}

const STEPS: usize = 7;

#[test]
fn sim_a_panic_at_each_step_of_a_closure_ends_the_capture() {
    let _alone = alone();
    let world = World::new();
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        for end in 0..=STEPS {
            let mut words = world.buffer();
            let steps = |words: &mut DeviceBuffer<u32>| -> CudaResult<()> {
                (0..end).try_for_each(|step| record(&world, words, step))?;
                panic_quietly()
            };
            assert_panics(|| drop(world.stream.capture(mode, |_| steps(&mut words))));
            let mut graph = Graph::new(&world.context).unwrap();
            let mut into = |graph: &mut Graph| {
                world.stream.capture_into(graph, &[], mode, |_| steps(&mut words)).map(drop)
            };
            assert_panics(|| drop(into(&mut graph)));
            assert_panics(|| {
                let raw = mode.as_raw();
                let _capture = StreamGraphCapture::begin(&world.stream, raw).unwrap();
                let _ = steps(&mut words);
            });
            drop((words, graph));
            assert_as_before(&world);
        }
    }
}

#[test]
fn sim_a_panic_of_a_host_function_stops_no_stream() {
    let _alone = alone();
    let world = World::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let function = || {
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            panic_quietly()
        }
    };
    world.stream.host_function(function()).unwrap();
    let exec =
        world.stream.capture(CaptureMode::Global, |_| world.stream.host_function(function()));
    let exec = exec.unwrap().instantiate().unwrap();
    let mut graph = Graph::new(&world.context).unwrap();
    graph.add_host(function(), &[]).unwrap();
    let built = graph.instantiate().unwrap();
    for _ in 0..2 {
        exec.launch(&world.stream).unwrap();
        built.launch(&world.stream).unwrap();
    }
    world.stream.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 5);
    drop((exec, graph, built));
    assert_as_before(&world);
}

/// Several at once: two panics that meet would end the process.
#[test]
fn sim_values_that_panic_in_their_drop_are_contained() {
    let _alone = alone();
    let world = World::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let value = || Panics(dropped.clone());
    let record = |capture: &StreamGraphCapture<'_>| {
        capture.retain(value());
        capture.retain(value());
        let captured = value();
        world.stream.host_function(move || _ = &captured)?;
        world.launch(&mut world.buffer(), &world.stream)
    };
    let mut expected = 0;
    let mut were_dropped = |what: &str| {
        world.idle();
        world.settle(&world.alive.get()).unwrap();
        expected += 3;
        assert_eq!(dropped.load(Ordering::SeqCst), expected, "{what}");
    };
    // By a graph, an executable that was launched, a capture that is dropped, one that fails, and
    // one whose closure fails.
    drop(world.stream.capture(CaptureMode::Relaxed, record).unwrap());
    were_dropped("a graph");
    let exec = world.stream.capture(CaptureMode::Relaxed, record).unwrap().instantiate().unwrap();
    exec.launch(&world.stream).unwrap();
    drop(exec);
    were_dropped("an executable");
    let begin =
        || StreamGraphCapture::begin(&world.stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let capture = begin();
    record(&capture).unwrap();
    drop(capture);
    were_dropped("a dropped capture");
    let capture = begin();
    record(&capture).unwrap();
    world.sim.fail(Function::cuStreamEndCapture, 1, CUDA_ERROR_UNKNOWN);
    assert!(capture.end_graph().is_err());
    were_dropped("a failed capture");
    let failed = world.stream.capture(CaptureMode::Relaxed, |capture| {
        record(capture)?;
        Err(CudaError::NotFound)
    });
    assert_eq!(failed.unwrap_err(), CudaError::NotFound);
    were_dropped("a closure that fails");
    assert_panics(|| {
        let _ = world.stream.capture(CaptureMode::Relaxed, |capture| {
            record(capture)?;
            panic_quietly()
        });
    });
    were_dropped("a closure that panics");
    assert_as_before(&world);
}

#[test]
fn sim_a_hook_that_panics_is_contained() {
    let _alone = alone();
    let world = World::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    set_drop_error_hook(Some(Box::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic_quietly()
    })));
    let fail = || world.sim.fail(Function::cuMemFree_v2, 1, CUDA_ERROR_UNKNOWN);
    let words = world.buffer();
    fail();
    drop(words);
    let words = world.buffer();
    assert_panics(|| {
        let _words = words;
        fail();
        panic_quietly()
    });
    set_drop_error_hook(None);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    world.assert_usable();
}
