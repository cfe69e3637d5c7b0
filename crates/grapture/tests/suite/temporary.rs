//! Temporaries: memory that a captured graph allocates and frees in each launch.

use crate::common::words::refusal;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CopyNode, CudaError, DeviceBuffer, Driver, FillNode, Graph, NodeKind, Stream,
    StreamGraphCapture,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers! {
    a_temporary_lives_within_the_launch,
    a_temporary_is_freed_where_it_is_dropped,
    a_temporary_is_used_on_forked_streams,
    a_fork_of_before_waits_for_the_allocation,
    temporaries_share_memory,
    a_temporary_of_nothing_is_no_node,
    other_threads_use_a_view_of_a_temporary,
    a_temporary_is_refused_outside_its_capture,
    a_forgotten_temporary_is_freed_by_the_library,
    a_temporary_is_in_no_other_graph,
    a_capture_that_is_dropped_leaves_nothing,
}

const LEN: usize = 1_000;
const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn buffer(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, LEN).unwrap()
}

fn a_temporary_lives_within_the_launch(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let source = DeviceBuffer::from_slice(&setup.context, &[3u32; LEN]).unwrap();
        let mut target = buffer(setup);
        let graph = stream.capture(mode, |capture| {
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            assert_eq!((scratch.len(), scratch.size_bytes()), (LEN, 4 * LEN));
            scratch.copy_from(&source, &stream)?;
            scratch.view_mut(..LEN / 2)?.fill(4, &stream)?;
            target.copy_from(&scratch, &stream)
        });
        let graph = graph.unwrap();
        let kinds: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.kind()).collect();
        let copy = NodeKind::Memcpy;
        let expected = [NodeKind::MemAlloc, copy, NodeKind::Memset, copy, NodeKind::MemFree];
        assert_eq!(kinds, expected, "{mode:?}");
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            target.fill(0, &stream).unwrap();
            exec.launch(&stream).unwrap();
            let expected = [[4; LEN / 2], [3; LEN / 2]].concat();
            assert_eq!(target.to_vec(&stream).unwrap(), expected, "{mode:?}");
        }
        exec.launch(&Stream::per_thread(&setup.context)).unwrap();
        setup.context.synchronize().unwrap();
    }
}

fn a_temporary_is_freed_where_it_is_dropped(setup: &Setup) {
    let stream = setup.stream();
    let mut target = buffer(setup);
    let graph = stream.capture(CaptureMode::Global, |capture| {
        for value in 1..=3 {
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            scratch.fill(value, &stream)?;
            target.copy_from(&scratch, &stream)?;
            if value == 2 {
                scratch.free()?;
            }
        }
        Ok(())
    });
    let graph = graph.unwrap();
    let kinds: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.kind()).collect();
    let each = [NodeKind::MemAlloc, NodeKind::Memset, NodeKind::Memcpy, NodeKind::MemFree];
    assert_eq!(kinds, each.repeat(3));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [3; LEN]);
}

fn a_temporary_is_used_on_forked_streams(setup: &Setup) {
    let [stream, left, right] = [(); 3].map(|()| setup.stream());
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
        scratch.fill(7, &stream)?;
        stream.fork(&[&left, &right], || {
            a.copy_from(&scratch, &left)?;
            b.copy_from(&scratch.view(..)?, &right)
        })
    });
    let graph = graph.unwrap();
    // The release comes after both copies.
    let free = graph.nodes().unwrap().into_iter().find(|node| node.kind() == NodeKind::MemFree);
    let free = free.unwrap().id();
    let before: Vec<_> =
        graph.edges().unwrap().into_iter().filter(|edge| edge.to() == free).collect();
    let copies = graph.nodes().unwrap().into_iter().filter(|node| node.kind() == NodeKind::Memcpy);
    for copy in copies {
        assert!(before.iter().any(|edge| edge.from() == copy.id()), "{before:?}");
    }
    let exec = graph.instantiate().unwrap();
    for _ in 0..2 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(a.to_vec(&stream).unwrap(), [7; LEN]);
    assert_eq!(b.to_vec(&stream).unwrap(), [7; LEN]);
}

/// A stream that was forked before the allocation is not ordered after it by itself.
fn a_fork_of_before_waits_for_the_allocation(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let mut target = buffer(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        stream.fork(&[&side], || {
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            scratch.fill(7, &side)?;
            target.copy_from(&scratch, &side)
            // Dropped within the fork: freed on the stream that began the capture, after the copy.
        })
    });
    let graph = graph.unwrap();
    let nodes = graph.nodes().unwrap();
    let id = |kind| nodes.iter().find(|node| node.kind() == kind).unwrap().id();
    let edges = graph.edges().unwrap();
    let has = |from, to| edges.iter().any(|edge| (edge.from(), edge.to()) == (id(from), id(to)));
    assert!(has(NodeKind::MemAlloc, NodeKind::Memset), "{edges:?}");
    assert!(has(NodeKind::Memcpy, NodeKind::MemFree), "{edges:?}");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [7; LEN]);
}

/// Freed memory is used again within the graph.
fn temporaries_share_memory(setup: &Setup) {
    let stream = setup.stream();
    let mut addresses = Vec::new();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        for _ in 0..4 {
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            scratch.fill(1, &stream)?;
            addresses.push(scratch.as_raw());
        }
        Ok(())
    });
    assert!(addresses.iter().all(|address| *address == addresses[0]), "{addresses:x?}");
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn a_temporary_of_nothing_is_no_node(setup: &Setup) {
    let stream = setup.stream();
    let mut output = None;
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut nothing = capture.alloc_temporary::<u32>(0)?;
        nothing.fill(1, &stream)?;
        let text = refusal(capture.alloc_temporary::<u64>(usize::MAX));
        assert!(text.contains("more than an address space has"), "{text}");
        output = Some(capture.alloc_temporary::<u32>(0)?.into_output());
        Ok(())
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 0);
    let (exec, output) = (graph.instantiate().unwrap(), output.unwrap());
    exec.launch(&Stream::per_thread(&setup.context)).unwrap();
    assert!(output.is_empty());
    assert_eq!((output.take().unwrap().len(), output.as_raw()), (0, 0));
}

fn other_threads_use_a_view_of_a_temporary(setup: &Setup) {
    for mode in MODES {
        let [stream, side] = [(); 2].map(|()| setup.stream());
        let mut target = buffer(setup);
        let graph = stream.capture(mode, |capture| {
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            stream.fork(&[&side], || {
                let (mut low, mut high) = scratch.split_at_mut(LEN / 2)?;
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| low.fill(1, &side));
                    high.fill(2, &stream)?;
                    other.join().unwrap()
                })
            })?;
            target.copy_from(&scratch, &stream)
        });
        graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
        let expected = [[1; LEN / 2], [2; LEN / 2]].concat();
        assert_eq!(target.to_vec(&stream).unwrap(), expected, "{mode:?}");
    }
}

fn a_temporary_is_refused_outside_its_capture(setup: &Setup) {
    let [stream, other, idle] = [(); 3].map(|()| setup.stream());
    let mut target = buffer(setup);
    let default = Stream::per_thread(&setup.context);
    let add = setup.module.kernel("add").unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
        let inner = other.capture(CaptureMode::Relaxed, |there| {
            for stream in [&other, &idle, &default, &Stream::legacy(&setup.context)] {
                let text = "memory: it exists only within the graph that is being captured: use it \
                            on the streams of that capture, forked ones included, but for the \
                            default streams of threads";
                assert_eq!(refusal(scratch.fill(1, stream)), text);
                assert_eq!(refusal(target.copy_from(&scratch, stream)), text);
                assert_eq!(refusal(scratch.to_vec(stream)), text);
                let launch = add.launch_builder(1, 1).arg_mut(&mut scratch).value(1u32);
                // SAFETY: `add` takes the address of a word and a value.
                assert_eq!(refusal(unsafe { launch.launch(stream) }), text);
            }
            assert!(there.is_active());
            Ok(())
        });
        assert_eq!(inner?.node_count()?, 0);
        std::thread::scope(|scope| {
            let view = scratch.as_view();
            let there = scope.spawn(move || {
                let default = Stream::per_thread(view.context());
                view.to_vec(&default).is_err()
            });
            assert!(there.join().unwrap());
        });
        assert!(capture.is_active());
        scratch.fill(5, &stream)?;
        target.copy_from(&scratch, &stream)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(target.to_vec(&stream).unwrap(), [5; LEN]);
}

fn a_forgotten_temporary_is_freed_by_the_library(setup: &Setup) {
    let stream = setup.stream();
    let mut target = buffer(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
        scratch.fill(7, &stream)?;
        target.copy_from(&scratch, &stream)?;
        std::mem::forget(scratch);
        Ok(())
    });
    let exec = graph.unwrap().instantiate().unwrap();
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(target.to_vec(&stream).unwrap(), [7; LEN]);
}

fn a_temporary_is_in_no_other_graph(setup: &Setup) {
    let stream = setup.stream();
    let mut target = buffer(setup);
    let mut built = Graph::new(&setup.context).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let graph = stream.capture(CaptureMode::Global, |capture| {
        let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
        let text = "exists only within the graph that is being captured";
        let fill = FillNode::new(&mut scratch, 1)?;
        assert!(refusal(built.add_fill(fill, &[])).contains(text));
        let copy = CopyNode::device(&mut target, &scratch)?;
        assert!(refusal(built.add_copy(copy, &[])).contains(text));
        let launch = add.launch_builder(1, 1).arg_mut(&mut scratch).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        assert!(refusal(unsafe { built.add_kernel(launch, &[]) }).contains(text));
        assert!(capture.is_active());
        scratch.fill(2, &stream)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 3);
    assert_eq!(built.node_count().unwrap(), 0);
    let into = stream.capture_into(&mut built, &[], CaptureMode::Global, |capture| {
        let text = refusal(capture.alloc_temporary::<u32>(LEN));
        assert!(text.starts_with("capture: it goes into a graph that there is"), "{text}");
        target.fill(1, &stream)
    });
    assert_eq!(into.unwrap().len(), 1);
}

fn a_capture_that_is_dropped_leaves_nothing(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let capture = StreamGraphCapture::begin(&stream, mode.as_raw()).unwrap();
        let kept = capture.alloc_temporary::<u32>(LEN).unwrap().into_output();
        let mut scratch = capture.alloc_temporary::<u32>(LEN).unwrap();
        scratch.fill(1, &stream).unwrap();
        drop(scratch);
        drop(capture);
        assert!(refusal(kept.take()).contains("no launch has left it"));
        let failed = stream.capture(mode, |capture| {
            let _scratch = capture.alloc_temporary::<u32>(LEN)?;
            Err::<(), _>(CudaError::NotReady)
        });
        assert_eq!(failed.unwrap_err(), CudaError::NotReady);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = stream.capture(mode, |capture| {
                let _scratch = capture.alloc_temporary::<u32>(LEN)?;
                panic!("in the closure");
            });
        }));
        assert!(panicked.is_err());
        setup.assert_usable(&stream);
    }
}

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

/// Each driver call of an allocation and its release fails: the capture, or the graph that comes of
/// it, is right, and nothing is left.
#[test]
fn sim_failures_leave_nothing() {
    use Function::{
        cuDeviceGetAttribute, cuEventCreate, cuEventRecord, cuMemAllocAsync, cuMemFreeAsync,
        cuStreamWaitEvent,
    };
    let functions = [
        cuDeviceGetAttribute,
        cuEventCreate,
        cuEventRecord,
        cuMemAllocAsync,
        cuMemFreeAsync,
        cuStreamWaitEvent,
    ];
    for (function, nth) in
        functions.into_iter().flat_map(|function| (1..=6).map(move |nth| (function, nth)))
    {
        let (sim, setup) = simulation(SimConfig::default());
        let [stream, side] = [(); 2].map(|()| setup.stream());
        let mut target = buffer(&setup);
        let before = sim.live().to_string();
        sim.fail(function, nth, CUDA_ERROR_UNKNOWN);
        let graph = stream.capture(CaptureMode::Global, |capture| {
            let mut scratch = capture.alloc_temporary::<u32>(LEN)?;
            scratch.fill(7, &stream)?;
            stream.fork(&[&side], || target.copy_from(&scratch, &side))
        });
        sim.clear_failures();
        if let Ok(graph) = graph {
            let exec = graph.instantiate().unwrap();
            for _ in 0..3 {
                exec.launch(&stream).unwrap();
            }
            assert_eq!(target.to_vec(&stream).unwrap(), [7; LEN], "{function:?} {nth}");
        }
        setup.assert_usable(&stream);
        setup.wait_until(|| sim.live().to_string() == before);
    }
}

#[test]
fn sim_what_a_driver_is_too_old_for_is_not_supported() {
    for (version, supported) in [(11_010, false), (11_020, false), (11_030, false), (11_040, true)]
    {
        let (_sim, setup) = simulation(SimConfig::default().driver_version(version));
        let stream = setup.stream();
        let graph = stream.capture(CaptureMode::Global, |capture| {
            let made = capture.alloc_temporary::<u32>(LEN).map(drop);
            assert_eq!(made.err(), (!supported).then_some(CudaError::NotSupported), "{version}");
            assert!(capture.is_active());
            Ok(())
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), if supported { 2 } else { 0 });
    }
}
