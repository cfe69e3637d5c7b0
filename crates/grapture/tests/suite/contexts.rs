//! Nodes of two contexts of one device in one graph: what a GPU alone can show of several devices.

use std::ptr::null_mut;

use crate::common::gate::Gate;
use crate::common::{KERNELS, Setup, both_tiers};
use grapture::{
    CaptureMode, Context, CopyNode, CudaError, DeviceBuffer, Event, FillNode, Graph, NodeParams,
    Outcome, Region2d, UpdateReason,
};

both_tiers! {
    copies_between_contexts_run,
    rectangles_are_copied_between_contexts,
    memory_of_a_copy_between_contexts_outlives_it,
    a_capture_spans_two_contexts,
    a_built_graph_spans_two_contexts,
    nodes_of_another_context_are_changed,
    a_graph_moves_nodes_between_contexts,
    contexts_of_one_device_are_no_peers,
}

/// Runs a test with a second context of the device, which is gone afterwards.
fn with_second(setup: &Setup, test: impl FnOnce(&Setup)) {
    let functions = setup.driver.as_raw().functions();
    let (mut raw, mut popped) = (null_mut(), null_mut());
    // SAFETY: a live out-pointer and a device of the driver.
    let code = unsafe { (functions.cuCtxCreate_v2)(&mut raw, 0, setup.context.device().as_raw()) };
    assert_eq!(code.0, 0);
    // SAFETY: a live out-pointer; the new context is on top.
    unsafe { (functions.cuCtxPopCurrent_v2)(&mut popped) };
    {
        // SAFETY: the context outlives the handles of this block, and the graphs that are made there
        // are gone once the releases are done.
        let context = unsafe { Context::borrow_raw(setup.context.device(), raw) };
        let module = context.load_ptx(KERNELS).unwrap();
        test(&Setup { driver: setup.driver.clone(), context, module });
        setup.context.synchronize().unwrap();
        setup.driver.reclaim();
    }
    setup.driver.reclaim();
    // SAFETY: nothing uses the context any more.
    unsafe { (functions.cuCtxDestroy_v2)(raw) };
}

fn words(setup: &Setup, values: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, values).unwrap()
}

fn copies_between_contexts_run(setup: &Setup) {
    with_second(setup, |other| {
        let (mut here, mut there) = (words(setup, &[0; 4]), words(other, &[1, 2, 3, 4]));
        for stream in [setup.stream(), other.stream()] {
            here.fill(0, &setup.stream()).unwrap();
            setup.context.synchronize().unwrap();
            here.copy_from(&there, &stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(here.to_vec(&setup.stream()).unwrap(), [1, 2, 3, 4]);
            there.view_mut(..2).unwrap().copy_from(&here.view(2..).unwrap(), &stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(there.to_vec(&other.stream()).unwrap(), [3, 4, 3, 4]);
            there.copy_from_host(&[1, 2, 3, 4], &other.stream()).unwrap();
        }
    });
}

fn rectangles_are_copied_between_contexts(setup: &Setup) {
    with_second(setup, |other| {
        let stream = setup.stream();
        let (mut here, there) = (words(setup, &[0; 6]), words(other, &[1, 2, 3, 4, 5, 6]));
        let (to, from) = (Region2d::new(2, 2).pitch(3), Region2d::new(2, 2).pitch(3).offset(1));
        here.copy_2d_from(to, &there, from, &stream).unwrap();
        assert_eq!(here.to_vec(&stream).unwrap(), [2, 3, 0, 5, 6, 0]);
        here.fill(0, &stream).unwrap();
        let graph = stream
            .capture(CaptureMode::ThreadLocal, |_| here.copy_2d_from(to, &there, from, &stream));
        let mut built = Graph::new(&setup.context).unwrap();
        let mut result = words(setup, &[0; 6]);
        let node = CopyNode::device_2d(&mut result, to, &there, from).unwrap();
        built.add_copy(node, &[]).unwrap();
        drop(there);
        graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
        built.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(here.to_vec(&stream).unwrap(), [2, 3, 0, 5, 6, 0]);
        assert_eq!(result.to_vec(&stream).unwrap(), [2, 3, 0, 5, 6, 0]);
    });
}

/// The release of memory waits for the work of its own context alone.
fn memory_of_a_copy_between_contexts_outlives_it(setup: &Setup) {
    with_second(setup, |other| {
        let stream = setup.stream();
        let mut here = words(setup, &[0; 4]);
        let gate = Gate::new();
        gate.hold(&stream);
        let there = words(other, &[1, 2, 3, 4]);
        here.copy_from(&there, &stream).unwrap();
        drop(there);
        let squatter = words(other, &[9; 4]);
        gate.open();
        assert_eq!(here.to_vec(&stream).unwrap(), [1, 2, 3, 4]);
        drop(squatter);
    });
}

fn a_capture_spans_two_contexts(setup: &Setup) {
    with_second(setup, |other| {
        let (stream, side) = (setup.stream(), other.stream());
        let (mut here, mut there) = (words(setup, &[1]), words(other, &[10]));
        let mut result = words(setup, &[0]);
        let mut record = |value: u32| {
            let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
                stream.fork(&[&side], || {
                    setup.add(&mut here, value, &stream)?;
                    other.add(&mut there, value, &side)
                })?;
                result.copy_from(&there, &stream)
            });
            graph.unwrap()
        };
        let graph = record(1);
        assert_eq!((graph.node_count().unwrap(), graph.roots().unwrap().len()), (3, 2));
        let mut exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let outcome = exec.update(&record(5)).unwrap();
        assert!(matches!(outcome, Outcome::Updated { .. }), "{outcome:?}");
        drop(graph);
        exec.launch(&stream).unwrap();
        assert_eq!(result.to_vec(&stream).unwrap(), [16]);
        assert_eq!(here.to_vec(&stream).unwrap(), [7]);
        // The same shape with both in one context.
        let beside = setup.stream();
        let (mut a, mut b) = (words(setup, &[0]), words(setup, &[0]));
        let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
            stream.fork(&[&beside], || {
                setup.add(&mut a, 1, &stream)?;
                setup.add(&mut b, 1, &beside)
            })?;
            a.copy_from(&b, &stream)
        });
        let outcome = exec.update(&graph.unwrap()).unwrap();
        let Outcome::Rebuilt { reason, .. } = outcome else { panic!("{outcome:?}") };
        // A kernel and a copy are of other contexts; an H200 tells of the copy.
        let reasons = [UpdateReason::UnsupportedFunctionChange, UpdateReason::ParametersChanged];
        assert!(reasons.contains(&reason), "{reason:?}");
        exec.launch(&stream).unwrap();
        assert_eq!(a.to_vec(&stream).unwrap(), [1]);
    });
}

fn a_built_graph_spans_two_contexts(setup: &Setup) {
    with_second(setup, |other| {
        let stream = setup.stream();
        let mut there = words(other, &[0; 2]);
        let mut here = words(setup, &[0; 2]);
        let event = Event::new(&other.context).unwrap();
        let mut graph = Graph::new(&setup.context).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut there, 5).unwrap(), &[]).unwrap();
        let add = other.module.kernel("add").unwrap();
        let launch = add.launch_builder(1, 1).arg_mut(&mut there).value(2u32);
        // SAFETY: `add` takes the address of a word and a value.
        let kernel = unsafe { graph.add_kernel(launch, &[fill]) }.unwrap();
        let copy = graph.add_copy(CopyNode::device(&mut here, &there).unwrap(), &[kernel]).unwrap();
        graph.add_event_record(&event, &[copy]).unwrap();
        let NodeParams::Memcpy { source, target, .. } = graph.node(copy).unwrap().params().unwrap()
        else {
            panic!("a copy")
        };
        assert!(source.is_device() && target.is_device());
        let exec = graph.instantiate().unwrap();
        drop((graph, there, add));
        exec.launch(&stream).unwrap();
        assert_eq!(here.to_vec(&stream).unwrap(), [7, 5]);
        assert!(event.is_complete().unwrap());
    });
}

fn nodes_of_another_context_are_changed(setup: &Setup) {
    with_second(setup, |other| {
        let stream = setup.stream();
        let (mut there, mut more) = (words(other, &[0]), words(other, &[0]));
        let mut here = words(setup, &[0]);
        let add = other.module.kernel("add").unwrap();
        let mut graph = Graph::new(&setup.context).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut there, 5).unwrap(), &[]).unwrap();
        let launch = add.launch_builder(1, 1).arg_mut(&mut there).value(2u32);
        // SAFETY: `add` takes the address of a word and a value.
        let kernel = unsafe { graph.add_kernel(launch, &[fill]) }.unwrap();
        let copy = graph.add_copy(CopyNode::device(&mut here, &there).unwrap(), &[kernel]).unwrap();
        for _ in 0..16 {
            graph.add_empty(&[]).unwrap();
        }
        let mut exec = graph.instantiate().unwrap();
        let node = FillNode::new(&mut more, 7).unwrap();
        exec.node_of(&graph, fill).unwrap().set_fill(node).unwrap();
        let launch = add.launch_builder(1, 1).arg_mut(&mut more).value(3u32);
        // SAFETY: as above.
        unsafe { exec.node_of(&graph, kernel).unwrap().set_kernel(launch) }.unwrap();
        let node = CopyNode::device(&mut here, &more).unwrap();
        exec.node_of(&graph, copy).unwrap().set_copy(node).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(here.to_vec(&stream).unwrap(), [10]);
        let own = setup.module.kernel("add").unwrap();
        let launch = own.launch_builder(1, 1).arg_mut(&mut here).value(3u32);
        // SAFETY: as above.
        let refused = unsafe { exec.node_of(&graph, kernel).unwrap().set_kernel(launch) };
        let Err(CudaError::Refused(refusal)) = refused else { panic!("{refused:?}") };
        assert!(
            refusal.to_string().starts_with("kernel: it belongs to another context than the node")
        );
        // By way of the graph, node by node.
        exec.update(&graph).unwrap();
        graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut there, 20).unwrap()).unwrap();
        assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
        graph
            .node_mut(copy)
            .unwrap()
            .set_copy(CopyNode::device(&mut here, &there).unwrap())
            .unwrap();
        assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
        exec.launch(&stream).unwrap();
        assert_eq!(here.to_vec(&stream).unwrap(), [22]);
    });
}

fn a_graph_moves_nodes_between_contexts(setup: &Setup) {
    with_second(setup, |other| {
        let stream = setup.stream();
        let (mut here, mut there) = (words(setup, &[0]), words(other, &[0]));
        let mut result = words(setup, &[0]);
        let mut graph = Graph::new(&setup.context).unwrap();
        let fill = graph.add_fill(FillNode::new(&mut here, 1).unwrap(), &[]).unwrap();
        let add = setup.module.kernel("add").unwrap();
        let launch = add.launch_builder(1, 1).arg_mut(&mut here).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        let kernel = unsafe { graph.add_kernel(launch, &[fill]) }.unwrap();
        let copy =
            graph.add_copy(CopyNode::device(&mut result, &here).unwrap(), &[kernel]).unwrap();
        let mut exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(result.to_vec(&stream).unwrap(), [2]);
        // There, and back.
        for (place, word, value) in [(other, &mut there, 10), (setup, &mut here, 20)] {
            let add = place.module.kernel("add").unwrap();
            graph.node_mut(fill).unwrap().set_fill(FillNode::new(word, value).unwrap()).unwrap();
            let launch = add.launch_builder(1, 1).arg_mut(word).value(1u32);
            // SAFETY: as above.
            unsafe { graph.node_mut(kernel).unwrap().set_kernel(launch) }.unwrap();
            let node = CopyNode::device(&mut result, word).unwrap();
            graph.node_mut(copy).unwrap().set_copy(node).unwrap();
            exec.update(&graph).unwrap();
            exec.launch(&stream).unwrap();
            assert_eq!(result.to_vec(&stream).unwrap(), [value + 1]);
            graph.instantiate().unwrap().launch(&stream).unwrap();
            assert_eq!(result.to_vec(&stream).unwrap(), [value + 1]);
        }
    });
}

fn contexts_of_one_device_are_no_peers(setup: &Setup) {
    with_second(setup, |other| {
        let refused = setup.context.enable_peer_access(&other.context);
        let Err(CudaError::Refused(refusal)) = refused else { panic!("{refused:?}") };
        assert_eq!(
            refusal.to_string(),
            "peer: it is a context of device 0 as well, and only other devices are peers"
        );
        assert!(!setup.context.has_peer_access(&other.context));
    });
}
