//! Captures within captures: parts that become one node.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::common::words::{refusal, value, word};
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CaptureOptions, CudaError, CudaResult, DeviceBuffer, EscapePolicy, Event, Graph,
    NodeKind, Stream, WordCondition,
};

both_tiers! {
    a_part_becomes_one_node_with_its_label,
    a_part_is_embedded_again,
    work_runs_where_nothing_is_captured,
    parts_nest,
    a_part_that_allocates_moves_into_its_node,
    a_part_of_a_fork_is_in_its_order,
    a_part_without_work_is_a_node_too,
    parts_are_captured_in_every_mode,
    a_part_that_fails_leaves_the_capture_as_it_was,
    the_capture_takes_nothing_while_a_part_is_captured,
    a_fork_of_a_part_is_joined_in_it,
    a_part_that_is_broken_breaks_nothing_else,
    a_body_has_parts,
    work_that_escapes_from_a_part_escapes_from_the_capture,
    another_thread_captures_no_part,
    a_capture_in_a_capture_says_what_to_do_instead,
}

fn kinds(graph: &Graph) -> Vec<NodeKind> {
    graph.nodes().unwrap().iter().map(|node| node.kind()).collect()
}

#[track_caller]
fn run(graph: &Graph, stream: &Stream) {
    graph.instantiate().unwrap().launch(stream).unwrap();
    stream.synchronize().unwrap();
}

/// A library that marks its work as one part.
fn part(setup: &Setup, digits: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<u32> {
    stream.as_child("part", |stream| {
        setup.mul_add(digits, 10, 2, stream)?;
        setup.mul_add(digits, 10, 3, stream)?;
        Ok(23)
    })
}

fn a_part_becomes_one_node_with_its_label(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let line = line!() + 4;
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        setup.mul_add(&mut digits, 10, 1, &stream)?;
        capture.labelled("model", || {
            capture.child("block", |inner| {
                assert_ne!(inner.stream(), &stream);
                setup.mul_add(&mut digits, 10, 2, inner.stream())
            })
        })?;
        setup.mul_add(&mut digits, 10, 3, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(kinds(&graph), [NodeKind::Kernel, NodeKind::ChildGraph, NodeKind::Kernel]);
    assert_eq!(graph.edges().unwrap().len(), 2);
    let topology = graph.topology().unwrap();
    let node = topology.nodes().iter().find(|node| node.label().is_some()).unwrap();
    assert_eq!(node.label(), Some("model / block"));
    assert_eq!(node.line().map(|line| line.line()), Some(line));
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 123);
}

fn a_part_is_embedded_again(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let block =
            capture.child("block", |inner| setup.mul_add(&mut digits, 10, 4, inner.stream()))?;
        capture.embed(&block)?;
        capture.embed(&block)
    });
    let graph = graph.unwrap();
    assert_eq!(kinds(&graph), [NodeKind::ChildGraph; 3]);
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 444);
}

fn work_runs_where_nothing_is_captured(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    assert_eq!(part(setup, &mut digits, &stream), Ok(23));
    assert_eq!(value(&digits, &stream), 23);
    let graph = stream.capture(CaptureMode::Global, |_| {
        assert_eq!(part(setup, &mut digits, &stream)?, 23);
        Ok(())
    });
    let graph = graph.unwrap();
    assert_eq!((kinds(&graph), value(&digits, &stream)), (vec![NodeKind::ChildGraph], 23));
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 2323);
    let error = stream.as_child("part", |_| Err::<(), _>(CudaError::NotFound));
    assert_eq!(error, Err(CudaError::NotFound));
}

fn parts_nest(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.child("outer", |outer| {
            setup.mul_add(&mut digits, 10, 1, outer.stream())?;
            outer.child("inner", |inner| setup.mul_add(&mut digits, 10, 9, inner.stream()))?;
            part(setup, &mut digits, outer.stream()).map(drop)
        })?;
        setup.mul_add(&mut digits, 10, 4, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count(), Ok(2));
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 19234);
}

fn a_part_that_allocates_moves_into_its_node(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        setup.mul_add(&mut digits, 10, 1, &stream)?;
        let copied = capture
            .child("copied", |inner| inner.alloc_temporary::<u32>(1)?.fill(5, inner.stream()));
        assert!(refusal(copied).contains("`Graph::embed_moved`"));
        capture.child_moved("moved", |inner| {
            let mut kept = inner.alloc_temporary::<u32>(1)?;
            kept.copy_from(&digits, inner.stream())?;
            digits.fill(7, inner.stream())?;
            setup.mul_add(&mut digits, 10, 2, inner.stream())?;
            digits.copy_from(&kept, inner.stream())
        })?;
        setup.mul_add(&mut digits, 10, 3, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(kinds(&graph), [NodeKind::Kernel, NodeKind::ChildGraph, NodeKind::Kernel]);
    let topology = graph.topology().unwrap();
    assert!(topology.nodes().iter().any(|node| node.label() == Some("moved")));
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 13);
}

fn a_part_of_a_fork_is_in_its_order(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut digits, mut beside) = (word(setup), word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
        stream.fork(&[&side], || {
            setup.mul_add(&mut digits, 10, 1, &side)?;
            part(setup, &mut digits, &side)?;
            part(setup, &mut beside, &stream)?;
            setup.mul_add(&mut digits, 10, 4, &side)
        })?;
        digits.copy_from(&beside, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!((graph.node_count(), graph.edges().unwrap().len()), (Ok(5), 4));
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 23);
}

fn a_part_without_work_is_a_node_too(setup: &Setup) {
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        assert_eq!(capture.child("nothing", |_| Ok(()))?.node_count(), Ok(0));
        Ok(())
    });
    let graph = graph.unwrap();
    assert_eq!(kinds(&graph), [NodeKind::ChildGraph]);
    run(&graph, &stream);
}

fn parts_are_captured_in_every_mode(setup: &Setup) {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        for stream in [setup.stream(), Stream::per_thread(&setup.context)] {
            let mut digits = word(setup);
            let graph =
                stream.capture(mode, |_| part(setup, &mut digits, &stream).map(drop)).unwrap();
            run(&graph, &stream);
            assert_eq!(value(&digits, &stream), 23, "{mode:?}");
        }
    }
}

fn a_part_that_fails_leaves_the_capture_as_it_was(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        setup.mul_add(&mut digits, 10, 1, &stream)?;
        let before = capture.dependencies()?;
        let failed = capture.child("fails", |inner| {
            setup.mul_add(&mut digits, 10, 9, inner.stream())?;
            Err(CudaError::NotFound)
        });
        assert_eq!(failed.unwrap_err(), CudaError::NotFound);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            stream.as_child::<()>("panics", |inner| {
                setup.mul_add(&mut digits, 10, 9, inner)?;
                resume_unwind(Box::new("asked for"))
            })
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"asked for"));
        assert_eq!(capture.dependencies()?, before);
        assert!(capture.is_active());
        setup.mul_add(&mut digits, 10, 2, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(kinds(&graph), [NodeKind::Kernel; 2]);
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 12);
}

fn the_capture_takes_nothing_while_a_part_is_captured(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let mut digits = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        stream.fork(&[&side], || {
            capture.child("part", |inner| {
                for stream in [&stream, &side] {
                    let text = refusal(setup.add(&mut digits, 1, stream));
                    assert!(text.contains("its capture waits until the part at"), "{text}");
                    refusal(stream.as_child("again", |_| Ok(())));
                    refusal(stream.set_capture_dependencies(&[]));
                }
                refusal(capture.child("again", |_| Ok(())));
                refusal(capture.embed(&Graph::new(&setup.context)?));
                // A stream of the capture around it is in that one.
                refusal(inner.stream().fork(&[&side], || Ok(())));
                setup.mul_add(&mut digits, 10, 2, inner.stream())
            })
        })?;
        setup.mul_add(&mut digits, 10, 3, &stream)
    });
    let graph = graph.unwrap();
    run(&graph, &stream);
    assert_eq!(value(&digits, &stream), 23);
}

fn a_fork_of_a_part_is_joined_in_it(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (word(setup), word(setup));
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let unjoined = capture.child("unjoined", |inner| {
            let event = Event::new(&setup.context)?;
            event.record(inner.stream())?;
            event.wait(&side)?;
            setup.add(&mut a, 1, &side)
        });
        let error = unjoined.unwrap_err();
        assert!(matches!(error, CudaError::Capture(_)) && error.code() == 904, "{error}");
        assert!(capture.is_active());
        capture.child("joined", |inner| {
            inner.stream().fork(&[&side], || {
                setup.add(&mut a, 1, &side)?;
                setup.add(&mut b, 2, inner.stream())
            })
        })?;
        a.copy_from(&b, &stream)
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count(), Ok(2));
    run(&graph, &stream);
    assert_eq!(value(&a, &stream), 2);
}

fn a_part_that_is_broken_breaks_nothing_else(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let functions = setup.driver.as_raw().functions();
    let graph = stream.capture(CaptureMode::Relaxed, |capture| {
        let broken = capture.child("broken", |inner| {
            setup.mul_add(&mut digits, 10, 9, inner.stream())?;
            // SAFETY: a live stream.
            assert_eq!(unsafe { (functions.cuStreamQuery)(inner.stream().as_raw()) }.0, 900);
            Ok(())
        });
        assert_eq!(broken.unwrap_err().code(), 901);
        assert!(capture.is_active());
        part(setup, &mut digits, &stream).map(drop)
    });
    run(&graph.unwrap(), &stream);
    assert_eq!(value(&digits, &stream), 23);
}

fn a_body_has_parts(setup: &Setup) {
    let stream = setup.stream();
    let mut digits = word(setup);
    let wanted = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = WordCondition::new(&wanted).unwrap();
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.if_(&condition, |body| part(setup, &mut digits, body.stream()).map(drop))
    });
    run(&graph.unwrap(), &stream);
    assert_eq!(value(&digits, &stream), 23);
    let refused = stream.capture(CaptureMode::ThreadLocal, |capture| {
        capture.if_(&condition, |body| {
            body.child("calls the host", |inner| inner.stream().host_function(|| {})).map(drop)
        })
    });
    assert!(refusal(refused).contains("child graph"));
    setup.assert_usable(&stream);
}

fn work_that_escapes_from_a_part_escapes_from_the_capture(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut digits = word(setup);
    let options = CaptureOptions::new(CaptureMode::ThreadLocal).escapes(EscapePolicy::Error);
    let error = stream
        .capture_with(options, |capture| {
            capture.child("part", |_| digits.fill(1, &other))?;
            assert_eq!(capture.escapes().count(), 1);
            Ok(())
        })
        .unwrap_err();
    assert!(error.to_string().contains("missing from the graph: fill of 4 bytes"), "{error}");
}

fn another_thread_captures_no_part(setup: &Setup) {
    let stream = setup.stream();
    let graph = stream.capture(CaptureMode::Relaxed, |_| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| refusal(stream.as_child("part", |_| Ok(()))));
            assert!(other.join().unwrap().contains("another thread began it"));
        });
        stream.host_function(|| {})
    });
    assert_eq!(graph.unwrap().node_count(), Ok(1));
}

fn a_capture_in_a_capture_says_what_to_do_instead(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut digits = word(setup);
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let text = refusal(stream.capture(CaptureMode::ThreadLocal, |_| Ok(())));
        assert!(text.contains("`Stream::as_child`") && text.contains("`embed`"), "{text}");
        let graph =
            other.capture(CaptureMode::ThreadLocal, |_| setup.add(&mut digits, 5, &other))?;
        capture.embed(&graph)
    });
    run(&graph.unwrap(), &stream);
    assert_eq!(value(&digits, &stream), 5);
}
