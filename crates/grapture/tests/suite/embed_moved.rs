//! Graphs that move into captures, as those have to that allocate memory.

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use crate::graph_pool::{buffer, by_way_of, refusal};
use grapture::{
    CU_STREAM_CAPTURE_MODE_RELAXED, CaptureMode, CopyNode, CudaError, DeviceBuffer, Driver,
    FillNode, Graph, GraphPool, NodeKind, Stream, StreamGraphCapture, WordCondition,
};
use grapture_sim::{SimConfig, Simulation};
use grapture_sys::{CUDA_ERROR_UNKNOWN, Function};

checked_tiers! {
    a_graph_that_allocates_moves_into_a_capture,
    a_graph_that_was_built_moves_into_a_capture,
    a_graph_moves_to_a_forked_stream,
    moved_graphs_nest_and_follow_one_another,
    what_a_moved_graph_uses_is_kept,
    where_a_graph_cannot_move_the_capture_stays_valid,
    a_broken_capture_takes_the_moved_graph_with_it,
    a_moved_graph_uses_its_pool,
}

const MODE: CaptureMode = CaptureMode::ThreadLocal;

/// A graph that allocates memory, fills it, and copies it to `out`.
fn allocating(value: u32, out: &mut DeviceBuffer<u32>, stream: &Stream) -> Graph {
    let graph = stream.capture(MODE, |capture| {
        let mut temporary = capture.alloc_temporary::<u32>(out.len())?;
        temporary.fill(value, stream)?;
        out.copy_from(&temporary, stream)
    });
    graph.unwrap()
}

fn kinds(graph: &Graph) -> Vec<NodeKind> {
    graph.nodes().unwrap().iter().map(|node| node.kind()).collect()
}

fn a_graph_that_allocates_moves_into_a_capture(setup: &Setup) {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let stream = setup.stream();
        let mut out = buffer(setup);
        let part = allocating(7, &mut out, &stream);
        let graph = stream.capture(mode, |capture| {
            out.fill(1, &stream)?;
            capture.embed_moved(part)?;
            let mut own = capture.alloc_temporary::<u32>(1)?;
            own.fill(9, &stream)?;
            out.view_mut(..1)?.copy_from(&own, &stream)
        });
        let graph = graph.unwrap();
        let [fill, child] = [NodeKind::Memset, NodeKind::ChildGraph];
        assert_eq!(kinds(&graph)[..2], [fill, child], "{mode:?}");
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
        }
        assert_eq!(out.to_vec(&stream).unwrap()[..2], [9, 7], "{mode:?}");
        // It has all that such a graph has.
        assert!(refusal(graph.try_clone()).contains("allocate or free memory"));
        drop(exec);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
}

fn a_graph_that_was_built_moves_into_a_capture(setup: &Setup) {
    let stream = setup.stream();
    let mut out = buffer(setup);
    let mut part = Graph::new(&setup.context).unwrap();
    let mut memory = part.add_alloc::<u32>(out.len(), &[]).unwrap();
    let fill = part.add_fill(FillNode::new(&mut memory, 3).unwrap(), &[]).unwrap();
    part.add_copy(CopyNode::device(&mut out, &memory).unwrap(), &[fill]).unwrap();
    part.add_free(&memory, &[]).unwrap();
    let graph = stream.capture(MODE, |capture| capture.embed_moved(part)).unwrap();
    assert!(refusal(stream.capture(MODE, |capture| capture.embed(&graph))).contains("embed_moved"));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[0], 3);

    let mut unfreed = Graph::new(&setup.context).unwrap();
    let memory = unfreed.add_alloc::<u32>(4, &[]).unwrap();
    let told = refusal(stream.capture(MODE, |capture| capture.embed_moved(unfreed)));
    assert!(told.contains("no node frees"), "{told}");
    drop(memory);
}

fn a_graph_moves_to_a_forked_stream(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let part = allocating(7, &mut a, &stream);
    let graph = stream.capture(MODE, |_| {
        stream.fork(&[&side], || {
            part.embed_moved(&side)?;
            b.fill(2, &stream)
        })?;
        b.view_mut(1..)?.copy_from(&a.view(1..)?, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!((graph.node_count().unwrap(), graph.edges().unwrap().len()), (3, 2));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap()[..2], [2, 7]);
}

fn moved_graphs_nest_and_follow_one_another(setup: &Setup) {
    let stream = setup.stream();
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let (one, two) = (allocating(1, &mut a, &stream), allocating(2, &mut b, &stream));
    let inner = stream.capture(MODE, |capture| capture.embed_moved(one)).unwrap();
    let graph = stream.capture(MODE, |capture| {
        capture.embed_moved(inner)?;
        capture.embed_moved(two)?;
        a.view_mut(1..)?.copy_from(&b.view(1..)?, &stream)
    });
    let exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap()[..2], [1, 2]);
}

fn what_a_moved_graph_uses_is_kept(setup: &Setup) {
    let stream = setup.stream();
    let mut out = buffer(setup);
    let exec = {
        let mut between = buffer(setup);
        let part = allocating(4, &mut between, &stream);
        let graph = stream.capture(MODE, |capture| {
            capture.embed_moved(part)?;
            out.copy_from(&between, &stream)
        });
        graph.unwrap().instantiate().unwrap()
    };
    let squatters: Vec<_> =
        (0..16).map(|_| DeviceBuffer::from_slice(&setup.context, &[7u32; 1000]).unwrap()).collect();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[0], 4);
    for squatter in squatters {
        assert_eq!(squatter.to_vec(&stream).unwrap(), [7; 1000]);
    }
}

fn where_a_graph_cannot_move_the_capture_stays_valid(setup: &Setup) {
    let stream = setup.stream();
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = WordCondition::new(&word).unwrap();
    let conditional =
        stream.capture(MODE, |capture| capture.if_(&condition, |body| b.fill(1, body.stream())));
    let told = refusal(allocating(1, &mut a, &stream).embed_moved(&stream));
    assert!(told.contains("it is not capturing"), "{told}");
    let [for_body, for_child] = [(); 2].map(|()| Some(allocating(1, &mut a, &stream)));
    let (mut for_body, mut for_child) = (for_body, for_child);
    let graph = stream.capture(MODE, |capture| {
        let told = refusal(capture.embed_moved(conditional?));
        assert!(told.contains("neither copies nor moves it"), "{told}");
        capture.child("part", |inner| {
            let told = refusal(inner.embed_moved(for_child.take().unwrap()));
            assert!(told.contains("cannot be taken out again"), "{told}");
            a.fill(3, inner.stream())
        })?;
        capture.if_(&condition, |body| {
            assert!(refusal(body.embed_moved(for_body.take().unwrap())).contains("body"));
            b.fill(2, body.stream())
        })
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (3, 2));
    let mut into = Graph::new(&setup.context).unwrap();
    let conditional =
        stream.capture(MODE, |capture| capture.if_(&condition, |body| b.fill(1, body.stream())));
    let conditional = conditional.unwrap();
    assert!(refusal(into.add_child(&conditional, &[])).contains("neither copies nor moves"));
    assert!(refusal(into.add_child_moved(conditional, &[])).contains("neither copies nor moves"));
    let part = allocating(1, &mut a, &stream);
    stream
        .capture_into(&mut into, &[], MODE, |capture| {
            assert!(refusal(capture.embed_moved(part)).contains("add_child_moved"));
            Ok(())
        })
        .unwrap();
}

fn a_broken_capture_takes_the_moved_graph_with_it(setup: &Setup) {
    let stream = setup.stream();
    let mut out = buffer(setup);
    for round in 0..3 {
        let part = allocating(1, &mut out, &stream);
        let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
        capture.embed_moved(part).unwrap();
        match round {
            0 => drop(capture),
            1 => {
                let broken = stream.host_function(|| {});
                assert_eq!(broken, Ok(()));
                drop(capture.end_graph().unwrap());
            }
            _ => {
                let other = setup.stream();
                let event = grapture::Event::new(&setup.context).unwrap();
                event.record(&stream).unwrap();
                event.wait(&other).unwrap();
                out.fill(1, &other).unwrap();
                assert!(matches!(capture.end(), Err(CudaError::Capture(_))));
            }
        }
        setup.assert_usable(&stream);
    }
}

fn a_moved_graph_uses_its_pool(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let one = by_way_of(&pool, 1, &mut a, &stream);
    let two = by_way_of(&pool, 2, &mut b, &stream).instantiate().unwrap();
    let graph = stream.capture(MODE, |capture| capture.embed_moved(one)).unwrap();
    let exec = graph.instantiate().unwrap();
    let other = setup.stream();
    for _ in 0..5 {
        exec.launch(&stream).unwrap();
        two.launch(&other).unwrap();
    }
    setup.context.synchronize().unwrap();
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (1, 2));
}

#[test]
fn sim_an_older_driver_moves_nothing() {
    let config = SimConfig::default().driver_version(12_080);
    let setup = Setup::on(Driver::from(grapture_sim::driver(config)));
    let stream = setup.stream();
    let mut out = buffer(&setup);
    let part = allocating(1, &mut out, &stream);
    let moved = stream.capture(MODE, |capture| capture.embed_moved(part));
    assert!(matches!(moved, Err(CudaError::NotSupported)));
    setup.assert_usable(&stream);
}

/// If the node is made, the graph is the capture's, whatever fails then.
#[test]
fn sim_a_failed_move_leaves_nothing() {
    for function in [
        Function::cuStreamGetCaptureInfo_v3,
        Function::cuGraphAddNode_v2,
        Function::cuStreamUpdateCaptureDependencies,
    ] {
        let sim = Simulation::new(SimConfig::default());
        {
            let setup = Setup::on(Driver::from(sim.driver()));
            let stream = setup.stream();
            let mut out = buffer(&setup);
            let part = allocating(1, &mut out, &stream);
            let failed = stream.capture(MODE, |capture| {
                sim.fail(function, 1, CUDA_ERROR_UNKNOWN);
                let moved = capture.embed_moved(part);
                sim.clear_failures();
                moved
            });
            assert!(failed.is_err(), "{function:?}");
            setup.assert_usable(&stream);
            drop((out, stream));
            setup.driver.reclaim();
        }
        assert!(
            crate::common::comes_true(|| sim.live().is_clean()),
            "{function:?}: {}",
            sim.live()
        );
    }
}
