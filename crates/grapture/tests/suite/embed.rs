//! Graphs as nodes of captures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::counted::Token;
use crate::common::words::{refusal, word};
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, Context, CudaError, DeviceBuffer, Driver, Event, Graph, NodeKind, OperationKind,
    PinnedBuffer, Stream,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

both_tiers! {
    a_graph_becomes_a_node_in_its_place,
    a_graph_is_embedded_on_a_forked_stream,
    what_the_graph_uses_outlives_it,
    pinned_memory_of_the_graph_is_marked,
    the_node_is_a_copy,
    graphs_nest,
    captures_nest,
    a_launch_into_a_capture_says_what_to_do_instead,
    where_a_graph_cannot_be_embedded_the_capture_stays_valid,
    an_embedded_graph_behind_a_join_waits_for_both,
    graphs_are_embedded_beside_other_threads,
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn kinds(graph: &Graph) -> Vec<NodeKind> {
    graph.nodes().unwrap().iter().map(|node| node.kind()).collect()
}

/// A graph that does `word = word * 10 + value`.
fn part(setup: &Setup, word: &mut DeviceBuffer<u32>, value: u32) -> Graph {
    let stream = setup.stream();
    stream.capture(CaptureMode::ThreadLocal, |_| setup.mul_add(word, 10, value, &stream)).unwrap()
}

fn a_graph_becomes_a_node_in_its_place(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let mut value = word(setup);
        let child = part(setup, &mut value, 2);
        let graph = stream.capture(mode, |capture| {
            setup.mul_add(&mut value, 10, 1, &stream)?;
            capture.embed(&child)?;
            assert_eq!(stream.capture_info()?.dependencies().map(<[_]>::len), Some(1));
            setup.mul_add(&mut value, 10, 3, &stream)?;
            capture.embed(&child)
        });
        let graph = graph.unwrap();
        assert_eq!(
            kinds(&graph),
            [NodeKind::Kernel, NodeKind::ChildGraph, NodeKind::Kernel, NodeKind::ChildGraph],
            "{mode:?}"
        );
        assert_eq!(graph.edges().unwrap().len(), 3);
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(value.to_vec(&stream).unwrap(), [1232], "{mode:?}");
    }
}

fn a_graph_is_embedded_on_a_forked_stream(setup: &Setup) {
    for mode in MODES {
        let [stream, side] = [(); 2].map(|()| setup.stream());
        let [mut a, mut b] = [(); 2].map(|()| word(setup));
        let child = part(setup, &mut a, 2);
        let graph = stream.capture(mode, |_| {
            stream.fork(&[&side], || {
                setup.mul_add(&mut a, 10, 1, &side)?;
                child.embed(&side)?;
                setup.add(&mut b, 1, &stream)
            })?;
            setup.mul_add(&mut a, 10, 3, &stream)
        });
        let graph = graph.unwrap();
        assert_eq!((graph.node_count().unwrap(), graph.edges().unwrap().len()), (4, 3), "{mode:?}");
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(a.to_vec(&stream).unwrap(), [123], "{mode:?}");
        assert_eq!(b.to_vec(&stream).unwrap(), [1], "{mode:?}");
    }
}

fn an_embedded_graph_behind_a_join_waits_for_both(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let [mut a, mut b] = [(); 2].map(|()| word(setup));
    let child = stream.capture(CaptureMode::Relaxed, |_| a.copy_from(&b, &stream)).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        stream.fork(&[&side], || {
            setup.add(&mut a, 1, &stream)?;
            setup.add(&mut b, 2, &side)
        })?;
        capture.embed(&child)
    });
    let graph = graph.unwrap();
    assert_eq!((graph.node_count().unwrap(), graph.edges().unwrap().len()), (3, 2));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [2]);
}

/// Other threads submit to the same stream, whose dependencies the driver gives as an array.
fn graphs_are_embedded_beside_other_threads(setup: &Setup) {
    const EACH: usize = 200;
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let mut embedded = word(setup);
    let mut others = [word(setup), word(setup)];
    let inner = setup.stream();
    let child = inner.capture(CaptureMode::Relaxed, |_| setup.add(&mut embedded, 1, &inner));
    let child = child.unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        stream.fork(&[&side], || {
            std::thread::scope(|scope| {
                let [one, two] = &mut others;
                let submit = |word: &mut DeviceBuffer<u32>, stream: &Stream| {
                    (0..EACH).try_for_each(|_| setup.add(word, 1, stream))
                };
                let (there, here) = (&side, &stream);
                let beside = [
                    scope.spawn(move || submit(one, here)),
                    scope.spawn(move || submit(two, there)),
                ];
                for _ in 0..EACH {
                    capture.embed(&child)?;
                    child.embed(&side)?;
                }
                beside.into_iter().try_for_each(|thread| thread.join().unwrap())
            })
        })
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 4 * EACH);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    for word in &others {
        assert_eq!(word.to_vec(&stream).unwrap(), [EACH as u32]);
    }
}

fn what_the_graph_uses_outlives_it(setup: &Setup) {
    let stream = setup.stream();
    let mut target = word(setup);
    let (runs, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let exec = {
        let source = DeviceBuffer::from_slice(&setup.context, &[7u32]).unwrap();
        let (token, counted) = (Token(dropped.clone()), runs.clone());
        let child = stream.capture(CaptureMode::Relaxed, |_| {
            target.copy_from(&source, &stream)?;
            stream.host_function(move || {
                let _ = &token;
                counted.fetch_add(1, Ordering::SeqCst);
            })
        });
        let child = child.unwrap();
        let graph = stream.capture(CaptureMode::Relaxed, |capture| capture.embed(&child)).unwrap();
        drop((child, source));
        graph.instantiate().unwrap()
    };
    // What would take the place of memory that was freed.
    let _others: Vec<_> = (0..8).map(|_| word(setup)).collect();
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(target.to_vec(&stream).unwrap(), [7]);
    assert_eq!((runs.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (3, 0));
    drop(exec);
    setup.wait_until(|| dropped.load(Ordering::SeqCst) == 1);
}

fn pinned_memory_of_the_graph_is_marked(setup: &Setup) {
    let stream = setup.stream();
    let mut value = word(setup);
    let mut pinned = PinnedBuffer::from_slice(&setup.context, &[5u32]).unwrap();
    let child = stream
        .capture(CaptureMode::Relaxed, |_| {
            value.copy_from_pinned(&pinned, &stream)?;
            setup.add(&mut value, 1, &stream)?;
            value.copy_to_pinned(&mut pinned, &stream)
        })
        .unwrap();
    let exec = stream
        .capture(CaptureMode::Relaxed, |capture| capture.embed(&child))
        .unwrap()
        .instantiate()
        .unwrap();
    drop(child);
    let guard = pinned.write().unwrap();
    assert!(refusal(exec.launch(&stream)).contains("the host writes it"));
    drop(guard);
    let gate = crate::common::gate::Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    assert_eq!(pinned.try_read().err(), Some(CudaError::NotReady));
    gate.open();
    assert_eq!(*pinned.read().unwrap(), [6]);
}

fn the_node_is_a_copy(setup: &Setup) {
    let stream = setup.stream();
    let mut value = word(setup);
    let child = part(setup, &mut value, 1);
    let graph = stream.capture(CaptureMode::Relaxed, |capture| capture.embed(&child)).unwrap();
    // The embedded one is used as before.
    let alone = child.instantiate().unwrap();
    alone.launch(&stream).unwrap();
    let both = graph.instantiate().unwrap();
    both.launch(&stream).unwrap();
    assert_eq!(value.to_vec(&stream).unwrap(), [11]);
    drop((alone, child));
    both.launch(&stream).unwrap();
    assert_eq!(value.to_vec(&stream).unwrap(), [111]);
}

fn graphs_nest(setup: &Setup) {
    let stream = setup.stream();
    let mut value = word(setup);
    let mut graph = part(setup, &mut value, 1);
    for digit in 2..=4 {
        let next = stream.capture(CaptureMode::Relaxed, |capture| {
            capture.embed(&graph)?;
            setup.mul_add(&mut value, 10, digit, &stream)
        });
        graph = next.unwrap();
    }
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(value.to_vec(&stream).unwrap(), [1234]);
}

/// A part that is captured while another capture is open, on a stream of its own.
fn captures_nest(setup: &Setup) {
    for mode in MODES {
        let [stream, inner] = [(); 2].map(|()| setup.stream());
        let mut value = word(setup);
        let graph = stream.capture(mode, |capture| {
            setup.mul_add(&mut value, 10, 1, &stream)?;
            let part = inner.capture(mode, |_| setup.mul_add(&mut value, 10, 2, &inner))?;
            capture.embed(&part)?;
            setup.mul_add(&mut value, 10, 3, &stream)
        });
        graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(value.to_vec(&stream).unwrap(), [123], "{mode:?}");
    }
}

fn a_launch_into_a_capture_says_what_to_do_instead(setup: &Setup) {
    let stream = setup.stream();
    let mut value = word(setup);
    let child = part(setup, &mut value, 1);
    let exec = child.instantiate().unwrap();
    let graph = stream.capture(CaptureMode::Global, |capture| {
        let text = "stream: it is capturing, and an executable graph cannot be launched into a \
                    capture: embed its graph there with `Graph::embed`, or launch it on another \
                    stream";
        assert_eq!(refusal(exec.launch(&stream)), text);
        assert_eq!(refusal(exec.upload(&stream)), text);
        assert!(capture.is_active());
        child.embed(&stream)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(value.to_vec(&stream).unwrap(), [1]);
}

fn where_a_graph_cannot_be_embedded_the_capture_stays_valid(setup: &Setup) {
    let [stream, idle] = [(); 2].map(|()| setup.stream());
    let mut value = word(setup);
    let child = part(setup, &mut value, 1);
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        assert!(refusal(child.embed(&idle)).starts_with("stream: it is not capturing"));
        let child = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let text = refusal(child.embed(&stream));
                assert!(text.contains("another thread began its capture"), "{text}");
                child
            });
            other.join().unwrap()
        });
        assert!(capture.is_active());
        capture.embed(&child)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 1);
}

fn simulation(config: SimConfig) -> (Simulation, Setup) {
    let sim = Simulation::new(config);
    let setup = Setup::on(Driver::from(sim.driver()));
    (sim, setup)
}

#[test]
fn sim_a_graph_of_another_driver_is_refused() {
    let (one, two) = (Setup::simulated(), Setup::simulated());
    let mut value = word(&two);
    let child = part(&two, &mut value, 1);
    let stream = one.stream();
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        assert!(refusal(capture.embed(&child)).contains("another driver"));
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
}

/// The dependencies of a capture can be told from 11.3 on, and have edge data from 12.3 on.
#[test]
fn sim_old_drivers_embed_from_11_3_on() {
    for (version, supported) in [
        (10_000, false),
        (10_020, false),
        (11_020, false),
        (11_030, true),
        (12_020, true),
        (12_030, true),
    ] {
        let (sim, setup) = simulation(SimConfig::default().driver_version(version));
        let stream = setup.stream();
        let mut value = word(&setup);
        {
            let child = stream
                .capture(CaptureMode::Relaxed, |_| setup.mul_add(&mut value, 10, 2, &stream))
                .unwrap();
            let graph = stream.capture(CaptureMode::Relaxed, |capture| {
                setup.mul_add(&mut value, 10, 1, &stream)?;
                let embedded = capture.embed(&child);
                assert!(capture.is_active());
                let expected = if supported { Ok(()) } else { Err(CudaError::NotSupported) };
                assert_eq!(embedded, expected, "{version}");
                setup.mul_add(&mut value, 10, 3, &stream)
            });
            drop(child);
            graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
        }
        let expected = if supported { 123 } else { 13 };
        assert_eq!(value.to_vec(&stream).unwrap(), [expected], "{version}");
        drop((value, stream, setup));
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !sim.live().is_clean() {
            assert!(std::time::Instant::now() < limit, "{version}: {}", sim.live());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Where the node was not made, the capture goes on without it. A node that is made cannot be taken
/// out of a capture, so one that is not in its place breaks that.
#[test]
fn sim_a_failure_leaves_no_node_out_of_order() {
    use Function::{
        cuGraphAddChildGraphNode, cuGraphAddNode_v2, cuStreamGetCaptureInfo_v2,
        cuStreamGetCaptureInfo_v3, cuStreamUpdateCaptureDependencies,
    };
    for (version, function) in [
        (11_030, cuStreamGetCaptureInfo_v2),
        (11_030, cuGraphAddChildGraphNode),
        (11_030, cuStreamUpdateCaptureDependencies),
        (13_000, cuStreamGetCaptureInfo_v3),
        (13_000, cuGraphAddNode_v2),
        (13_000, cuStreamUpdateCaptureDependencies),
    ] {
        let (sim, setup) = simulation(SimConfig::default().driver_version(version));
        let stream = setup.stream();
        let mut value = word(&setup);
        let before = sim.live().to_string();
        let child = part(&setup, &mut value, 2);
        let mut failed = Ok(());
        let graph = stream.capture(CaptureMode::Relaxed, |capture| {
            setup.mul_add(&mut value, 10, 1, &stream)?;
            sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
            failed = capture.embed(&child);
            sim.clear_failures();
            assert_eq!(capture.is_active(), function != cuStreamUpdateCaptureDependencies);
            match capture.is_active() {
                true => setup.mul_add(&mut value, 10, 3, &stream),
                false => Ok(()),
            }
        });
        assert_eq!(failed.unwrap_err().code(), CUDA_ERROR_UNKNOWN.0, "{function:?}");
        drop(child);
        match graph {
            Ok(graph) => {
                assert_eq!(graph.node_count().unwrap(), 2, "{function:?}");
                graph.instantiate().unwrap().launch(&stream).unwrap();
                assert_eq!(value.to_vec(&stream).unwrap(), [13], "{function:?}");
            }
            Err(CudaError::Capture(error)) => {
                assert_eq!(function, cuStreamUpdateCaptureDependencies);
                let first = error.first_failure().unwrap();
                assert_eq!(first.operation().kind(), OperationKind::ChildGraph);
            }
            Err(error) => panic!("{error}"),
        }
        setup.assert_usable(&stream);
        setup.wait_until(|| sim.live().to_string() == before);
    }
}

/// A graph of one device in a capture on another.
#[test]
fn sim_a_graph_of_another_device_is_embedded() {
    let driver = Driver::from(grapture_sim::driver(SimConfig::default().devices(2)));
    let setups = [0, 1].map(|ordinal| {
        let context = Context::new(&driver.device(ordinal).unwrap()).unwrap();
        let module = context.load_ptx(crate::common::KERNELS).unwrap();
        Setup { driver: driver.clone(), context, module }
    });
    let [here, there] = &setups;
    let (stream, side): (Stream, Stream) = (here.stream(), there.stream());
    let mut value = word(there);
    let child = part(there, &mut value, 4);
    let graph = stream.capture(CaptureMode::Global, |capture| {
        capture.embed(&child)?;
        // And on a stream of the graph's own device, which is forked.
        stream.fork(&[&side], || child.embed(&side))
    });
    drop(child);
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(value.to_vec(&side).unwrap(), [44]);
}

/// An event that was recorded in the embedded part means nothing in the whole.
#[test]
fn sim_an_event_of_the_part_is_refused_in_the_whole() {
    let (_sim, setup) = simulation(SimConfig::default());
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let event = Event::new(&setup.context).unwrap();
    let child = stream.capture(CaptureMode::Relaxed, |_| event.record(&stream)).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        capture.embed(&child)?;
        assert!(refusal(event.wait(&side)).contains("has ended"));
        Ok(())
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 1);
}
