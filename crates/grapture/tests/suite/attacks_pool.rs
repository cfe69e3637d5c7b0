//! Safe programs that try to have two graphs use one pool at once, or a graph use a pool that is
//! gone.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use crate::common::gate::Gate;
use crate::graph_pool::{buffer, by_way_of, refusal};
use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, CudaError, DeviceBuffer, Driver, GraphExec,
    GraphPool, Stream, StreamGraphCapture,
};
use grapture_sim::{RaceCheck, SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

checked_tiers! {
    launches_on_two_streams_follow_one_another,
    launches_on_default_streams_follow_one_another,
    threads_launch_graphs_of_one_pool,
    graphs_of_two_pools_wait_for_no_circle,
    the_pool_is_dropped_before_all_else,
    an_executable_is_dropped_in_flight,
    two_captures_are_open_at_once,
    a_capture_fails_half_way,
    a_body_fails_half_way,
    scratch_is_forgotten,
    the_stream_of_the_last_launch_captures,
    many_captures_take_no_more,
}

const MODE: CaptureMode = CaptureMode::ThreadLocal;

/// Two executables of one pool, which write 1 and 2, with what they write to.
fn pair(setup: &Setup, stream: &Stream) -> ([GraphExec; 2], [DeviceBuffer<u32>; 2]) {
    let pool = GraphPool::new(&setup.context);
    let mut outs = [(); 2].map(|()| buffer(setup));
    let [a, b] = &mut outs;
    let graphs = [by_way_of(&pool, 1, a, stream), by_way_of(&pool, 2, b, stream)];
    (graphs.map(|graph| graph.instantiate().unwrap()), outs)
}

#[track_caller]
fn assert_written(setup: &Setup, outs: &[DeviceBuffer<u32>; 2]) {
    setup.context.synchronize().unwrap();
    let stream = setup.stream();
    for (out, value) in outs.iter().zip([1, 2]) {
        assert!(out.to_vec(&stream).unwrap().iter().all(|found| *found == value));
    }
}

fn launches_on_two_streams_follow_one_another(setup: &Setup) {
    let [one, two] = [(); 2].map(|()| setup.stream());
    let ([a, b], outs) = pair(setup, &one);
    for _ in 0..10 {
        a.launch(&one).unwrap();
        b.launch(&two).unwrap();
        b.launch(&one).unwrap();
        a.launch(&two).unwrap();
    }
    let gate = Gate::new();
    gate.hold(&one);
    a.launch(&one).unwrap();
    b.launch(&two).unwrap();
    gate.wait_until_reached();
    assert!(!two.is_idle().unwrap(), "the second launch waits for the first, which is held");
    gate.open();
    assert_written(setup, &outs);
}

fn launches_on_default_streams_follow_one_another(setup: &Setup) {
    let one = setup.stream();
    let ([a, b], outs) = pair(setup, &one);
    let streams = [Stream::per_thread(&setup.context), Stream::legacy(&setup.context), one];
    for first in &streams {
        for second in &streams {
            a.launch(first).unwrap();
            b.launch(second).unwrap();
        }
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            a.launch(&Stream::per_thread(&setup.context)).unwrap();
            a
        });
        let a = thread.join().unwrap();
        b.launch(&Stream::per_thread(&setup.context)).unwrap();
        a.launch(&streams[2]).unwrap();
    });
    assert_written(setup, &outs);
}

fn threads_launch_graphs_of_one_pool(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    std::thread::scope(|scope| {
        for value in 1..=4 {
            let pool = &pool;
            scope.spawn(move || {
                let stream = setup.stream();
                let mut out = buffer(setup);
                for _ in 0..5 {
                    // Captured beside the launches of the others, too.
                    let exec = by_way_of(pool, value, &mut out, &stream).instantiate().unwrap();
                    for _ in 0..10 {
                        exec.launch(&stream).unwrap();
                    }
                    assert!(out.to_vec(&stream).unwrap().iter().all(|found| *found == value));
                }
            });
        }
    });
    setup.assert_usable(&stream);
}

/// Each of two graphs uses both pools, named in other orders.
fn graphs_of_two_pools_wait_for_no_circle(setup: &Setup) {
    let pools = [(); 2].map(|()| GraphPool::new(&setup.context));
    std::thread::scope(|scope| {
        for turn in 0..2 {
            let pools = &pools;
            scope.spawn(move || {
                let stream = setup.stream();
                let mut out = buffer(setup);
                let graph = stream.capture(MODE, |capture| {
                    let len = out.len();
                    let mut first = capture.alloc_scratch::<u32>(&pools[turn], len)?;
                    let mut second = capture.alloc_scratch::<u32>(&pools[1 - turn], len)?;
                    first.fill(turn as u32, &stream)?;
                    second.copy_from(&first, &stream)?;
                    out.copy_from(&second, &stream)
                });
                let exec = graph.unwrap().instantiate().unwrap();
                for _ in 0..50 {
                    exec.launch(&stream).unwrap();
                }
                assert_eq!(out.to_vec(&stream).unwrap()[0], turn as u32);
            });
        }
    });
}

fn the_pool_is_dropped_before_all_else(setup: &Setup) {
    let stream = setup.stream();
    let ([a, b], outs) = pair(setup, &stream);
    let squatters: Vec<_> =
        (0..16).map(|_| DeviceBuffer::from_slice(&setup.context, &[7u32; 1000]).unwrap()).collect();
    a.launch(&stream).unwrap();
    b.launch(&stream).unwrap();
    assert_written(setup, &outs);
    for squatter in &squatters {
        assert_eq!(squatter.to_vec(&stream).unwrap(), [7; 1000]);
    }
}

fn an_executable_is_dropped_in_flight(setup: &Setup) {
    let [one, two] = [(); 2].map(|()| setup.stream());
    let ([a, b], outs) = pair(setup, &one);
    let gate = Gate::new();
    gate.hold(&one);
    a.launch(&one).unwrap();
    drop(a);
    b.launch(&two).unwrap();
    drop(b);
    gate.open();
    assert_written(setup, &outs);
}

fn two_captures_are_open_at_once(setup: &Setup) {
    let [one, two] = [(); 2].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let mut outs = [(); 2].map(|()| buffer(setup));
    let len = outs[0].len();
    let first = StreamGraphCapture::begin(&one, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let second = StreamGraphCapture::begin(&two, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
    let mut x = first.alloc_scratch::<u32>(&pool, len).unwrap();
    let mut y = second.alloc_scratch::<u32>(&pool, len).unwrap();
    assert_eq!(x.as_raw(), y.as_raw());
    assert!(refusal(x.fill(1, &two)).contains("capture"));
    x.fill(1, &one).unwrap();
    y.fill(2, &two).unwrap();
    outs[0].copy_from(&x, &one).unwrap();
    outs[1].copy_from(&y, &two).unwrap();
    drop((x, y));
    let (a, b) = (first.end().unwrap(), second.end().unwrap());
    for _ in 0..5 {
        a.launch(&one).unwrap();
        b.launch(&two).unwrap();
    }
    assert_written(setup, &outs);
}

fn a_capture_fails_half_way(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    for _ in 0..3 {
        let failed = stream.capture(MODE, |capture| {
            let mut scratch = capture.alloc_scratch::<u32>(&pool, 100)?;
            scratch.fill(1, &stream)?;
            Err(CudaError::from(CUDA_ERROR_UNKNOWN))
        });
        assert!(failed.is_err());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            stream.capture(MODE, |capture| {
                let mut scratch = capture.alloc_scratch::<u32>(&pool, 100)?;
                scratch.fill(1, &stream)?;
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err());
        let exec = by_way_of(&pool, 3, &mut out, &stream).instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(out.to_vec(&stream).unwrap()[0], 3);
    }
    assert_eq!(pool.allocated_bytes(), 2 << 20);
}

fn a_body_fails_half_way(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = grapture::WordCondition::new(&word).unwrap();
    let failed = stream.capture(MODE, |capture| {
        let mut around = capture.alloc_scratch::<u32>(&pool, 100)?;
        around.fill(1, &stream)?;
        let _ = capture.if_(&condition, |body| {
            let mut scratch = body.alloc_scratch::<u32>(&pool, 100)?;
            scratch.copy_from(&around, body.stream())?;
            Err(CudaError::from(CUDA_ERROR_UNKNOWN))
        });
        let mut behind = capture.alloc_scratch::<u32>(&pool, 100)?;
        behind.fill(2, &stream)
    });
    assert!(failed.is_err());
    let mut out = buffer(setup);
    by_way_of(&pool, 3, &mut out, &stream).instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[0], 3);
}

fn scratch_is_forgotten(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let graph = stream.capture(MODE, |capture| {
        let mut kept = capture.alloc_scratch::<u32>(&pool, out.len())?;
        kept.fill(1, &stream)?;
        let mut other = capture.alloc_scratch::<u32>(&pool, out.len())?;
        assert_ne!(kept.as_raw(), other.as_raw());
        other.copy_from(&kept, &stream)?;
        out.copy_from(&other, &stream)?;
        // What is forgotten stays taken until the capture ends.
        let address = other.as_raw();
        drop(other);
        assert_eq!(capture.alloc_scratch::<u32>(&pool, out.len())?.as_raw(), address);
        let _still_there = mem::ManuallyDrop::new(kept.as_view());
        Ok(())
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[0], 1);
}

fn the_stream_of_the_last_launch_captures(setup: &Setup) {
    let [one, two] = [(); 2].map(|()| setup.stream());
    let ([a, b], outs) = pair(setup, &one);
    for _ in 0..3 {
        a.launch(&one).unwrap();
        let capture = StreamGraphCapture::begin(&one, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        assert!(refusal(b.launch(&one)).contains("embed"));
        b.launch(&two).unwrap();
        assert_eq!(capture.end_graph().unwrap().node_count().unwrap(), 0);
    }
    assert_written(setup, &outs);
}

fn many_captures_take_no_more(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    for round in 0..200 {
        let exec = by_way_of(&pool, round, &mut out, &stream).instantiate().unwrap();
        if round % 3 == 0 {
            exec.launch(&stream).unwrap();
        }
    }
    assert_eq!(pool.allocated_bytes(), 2 << 20);
    stream.synchronize().unwrap();
}

/// Ten thousand captures leave what one leaves.
#[test]
fn sim_ten_thousand_captures_leave_nothing() {
    let sim = Simulation::new(SimConfig::default());
    let setup = Setup::on(Driver::from(sim.driver()));
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(&setup);
    let settle = |expected: &str| {
        let limit = Instant::now() + Duration::from_secs(10);
        while sim.live().to_string() != expected {
            assert!(Instant::now() < limit, "{}, not {expected}", sim.live());
            setup.driver.reclaim();
        }
    };
    let expected =
        "1 primary context retains, 1 streams, 1 events, 2 device allocations, 1 modules";
    for round in 0..10_000 {
        let graph = by_way_of(&pool, round, &mut out, &stream);
        if round % 1000 == 0 {
            graph.instantiate().unwrap().launch(&stream).unwrap();
            stream.synchronize().unwrap();
            drop(graph);
            // The event is that of the pool.
            settle(expected);
        }
    }
    assert_eq!(pool.allocated_bytes(), 2 << 20);
}

/// Whatever call fails that has one launch wait for another, the launch is not made, and the next
/// one is.
#[test]
fn sim_a_failed_wait_makes_no_launch() {
    let sim = Simulation::new(SimConfig::new().races(RaceCheck::Report));
    {
        let setup = Setup::on(Driver::from(sim.driver()));
        let [one, two] = [(); 2].map(|()| setup.stream());
        let ([a, b], outs) = pair(&setup, &one);
        for function in [Function::cuStreamWaitEvent, Function::cuGraphLaunch] {
            a.launch(&one).unwrap();
            sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
            assert_eq!(b.launch(&two), Err(CudaError::from(CUDA_ERROR_UNKNOWN)), "{function:?}");
            sim.clear_failures();
            b.launch(&two).unwrap();
        }
        for function in [Function::cuEventCreate, Function::cuEventRecord] {
            // The mark is tried twice, and then made when it is needed.
            for times in 1..=2 {
                let pool = GraphPool::new(&setup.context);
                let mut out = buffer(&setup);
                let execs = [(); 2].map(|()| by_way_of(&pool, 3, &mut out, &one));
                let [a, b] = execs.map(|graph| graph.instantiate().unwrap());
                (1..=times).for_each(|nth| sim.fail(function, nth, CUDA_ERROR_UNKNOWN));
                a.launch(&one).unwrap();
                sim.clear_failures();
                b.launch(&two).unwrap();
                a.launch(&one).unwrap();
                setup.context.synchronize().unwrap();
            }
        }
        assert_written(&setup, &outs);
    }
    assert!(sim.races().is_empty(), "{:#?}", sim.races());
}

/// A launch in a host function is refused before it waits for another thread's launch.
#[test]
fn sim_a_host_function_does_not_wait_for_a_launch() {
    let setup = Setup::simulated();
    let stream = setup.stream();
    let ([a, b], _outs) = pair(&setup, &stream);
    a.launch(&stream).unwrap();
    static REFUSED: AtomicBool = AtomicBool::new(false);
    let b = std::sync::Mutex::new(b);
    let (other, inner) = (setup.stream(), stream.clone());
    other
        .host_function(move || {
            let told = b.lock().unwrap().launch(&inner);
            REFUSED.store(told.is_err(), Ordering::SeqCst);
        })
        .unwrap();
    setup.context.synchronize().unwrap();
    assert!(REFUSED.load(Ordering::SeqCst));
}
