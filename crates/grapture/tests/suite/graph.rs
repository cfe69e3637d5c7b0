//! Graphs and executables: what they tell, how they are made, and what refuses.

use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CopyDirection, CudaError, DeviceBuffer, Dim3, Event, InstantiateFlags,
    InstantiateOptions, InstantiateResult, NodeKind, OperationSpec, PinnedBuffer, StreamCapture,
    ThreadCaptureMode,
};

both_tiers! {
    what_was_captured_is_what_was_planned,
    every_kind_of_node_is_told,
    a_cycle_names_its_node,
    flags_are_kept,
    flags_that_exclude_each_other_are_refused,
    an_upload_at_instantiation_needs_an_idle_stream,
    a_graph_makes_several_executables,
    the_driver_writes_its_description,
    a_graph_goes_to_another_thread,
    the_mode_of_the_thread_is_put_back,
    launches_of_one_executable_do_not_overlap,
    a_chain_of_ten_thousand_nodes_replays,
}

fn what_was_captured_is_what_was_planned(setup: &Setup) {
    let mut plan = StreamCapture::new();
    plan.record_fill(64, 7, 4).unwrap();
    plan.record_kernel("axpy", 1, 16, 0).unwrap();
    plan.record_copy(CopyDirection::DeviceToDevice, 64).unwrap();
    plan.record_host();
    assert_eq!(plan.recorded_count(), 4);
    let planned = plan.end();

    let stream = setup.stream();
    let axpy = setup.module.kernel("axpy").unwrap();
    let mut x = DeviceBuffer::<f32>::zeroed(&setup.context, 16).unwrap();
    let mut y = DeviceBuffer::<f32>::zeroed(&setup.context, 16).unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            x.fill(f32::from_bits(7), &stream)?;
            let launch = axpy.launch_builder(1, 16).arg_mut(&mut y).arg(&x);
            // SAFETY: `axpy` touches 16 elements of each.
            unsafe { launch.value(1.0f32).value(16u32).launch(&stream) }?;
            x.copy_from(&y, &stream)?;
            stream.host_function(|| {})
        })
        .unwrap();
    let captured = graph.topology().unwrap();
    assert_eq!(captured, planned, "{captured}");
    assert_eq!(
        captured.nodes()[1].operation(),
        &OperationSpec::Kernel {
            name: "axpy".to_owned(),
            grid: Dim3::x(1),
            block: Dim3::x(16),
            shared_bytes: 0
        }
    );
}

fn every_kind_of_node_is_told(setup: &Setup) {
    let stream = setup.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&setup.context, 64).unwrap();
    let pinned = PinnedBuffer::from_slice(&setup.context, &[3u32; 64]).unwrap();
    let event = Event::new(&setup.context).unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |_| {
            setup.add(&mut buffer, 1, &stream)?;
            buffer.copy_from_pinned(&pinned, &stream)?;
            buffer.fill(5, &stream)?;
            stream.host_function(|| {})?;
            event.record_external(&stream)?;
            event.wait_external(&stream)
        })
        .unwrap();
    let kinds: Vec<_> = graph.nodes().unwrap().iter().map(|node| node.kind()).collect();
    assert_eq!(
        kinds,
        [
            NodeKind::Kernel,
            NodeKind::Memcpy,
            NodeKind::Memset,
            NodeKind::Host,
            NodeKind::EventRecord,
            NodeKind::EventWait
        ]
    );
    let edges = graph.edges().unwrap();
    assert_eq!(edges.len(), 5);
    assert!(edges.iter().all(|edge| edge.data() == grapture::EdgeData::FULL));
    let text = graph.topology().unwrap().to_string();
    assert!(text.contains("add"), "{text}");
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(buffer.to_vec(&stream).unwrap(), [5; 64]);
}

fn a_cycle_names_its_node(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            setup.add(&mut word, 1, &stream)?;
            setup.add(&mut word, 1, &stream)
        })
        .unwrap();
    let nodes = graph.nodes().unwrap();
    let (from, to) = (nodes[1].id().as_raw(), nodes[0].id().as_raw());
    // SAFETY: a live graph and nodes of it, one of each.
    let code = unsafe {
        (setup.driver.as_raw().functions().cuGraphAddDependencies)(graph.as_raw(), &from, &to, 1)
    };
    assert_eq!(code.0, 0);
    let error = graph.instantiate().unwrap_err();
    assert_eq!(error.code(), 1);
    let CudaError::Instantiate(error) = error else { panic!("{error:?}") };
    assert_eq!(error.result(), Some(InstantiateResult::InvalidStructure));
    let node = error.node().expect("the driver names a node");
    assert!(nodes.iter().any(|known| known.id() == node));
    let text = error.to_string();
    assert!(
        text.starts_with(
            "the graph could not be instantiated: an argument is null, out of range or not valid \
             here (CUDA_ERROR_INVALID_VALUE, 1); its structure is not valid, a cycle for one; the \
             node at fault is a kernel ("
        ),
        "{text}"
    );
}

fn flags_are_kept(setup: &Setup) {
    let graph = setup.stream().capture(CaptureMode::Global, |_| Ok(())).unwrap();
    for flags in [
        InstantiateFlags::empty(),
        InstantiateFlags::AUTO_FREE_ON_LAUNCH,
        InstantiateFlags::USE_NODE_PRIORITY,
    ] {
        let options = InstantiateOptions::new().flags(flags);
        let exec = graph.instantiate_with(&options).unwrap();
        let told = exec.flags().unwrap();
        assert!(told == flags || told.is_empty(), "{flags:?} became {told:?}");
    }
}

fn flags_that_exclude_each_other_are_refused(setup: &Setup) {
    let graph = setup.stream().capture(CaptureMode::Global, |_| Ok(())).unwrap();
    let both = InstantiateFlags::AUTO_FREE_ON_LAUNCH | InstantiateFlags::DEVICE_LAUNCH;
    let error = graph.instantiate_with(&InstantiateOptions::new().flags(both)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "flags: AUTO_FREE_ON_LAUNCH and DEVICE_LAUNCH exclude each other: choose one"
    );
    let unknown = InstantiateFlags::from_bits_retain(64);
    let error = graph.instantiate_with(&InstantiateOptions::new().flags(unknown)).unwrap_err();
    assert_eq!(error.to_string(), "flags: 0x40 has a bit that is no flag");
}

fn an_upload_at_instantiation_needs_an_idle_stream(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| setup.add(&mut word, 4, &stream)).unwrap();
    let options = InstantiateOptions::new().upload_on(&stream);
    let exec = graph.instantiate_with(&options).unwrap();
    exec.upload(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [4]);
    let refused = stream.capture(CaptureMode::Global, |_| {
        let error = graph.instantiate_with(&options).unwrap_err();
        assert_eq!(error.code(), 900);
        Ok(())
    });
    assert!(refused.is_ok());
}

fn a_graph_makes_several_executables(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| setup.add(&mut word, 1, &stream)).unwrap();
    let execs: Vec<_> = (0..3).map(|_| graph.instantiate().unwrap()).collect();
    drop(graph);
    for exec in &execs {
        assert_eq!(exec.node_count(), 1);
        assert!(exec.graph().is_none());
        exec.launch(&stream).unwrap();
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
}

fn the_driver_writes_its_description(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| setup.add(&mut word, 1, &stream)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.dot");
    graph.write_debug_dot(&path, true).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("digraph"), "{text}");
    let error = graph.write_debug_dot(folder.path().join("no/graph.dot"), false).unwrap_err();
    assert_eq!(error, CudaError::OperatingSystem);
    let error = graph.write_debug_dot("a\0b", false).unwrap_err();
    assert_eq!(error.to_string(), "path: a\0b is not UTF-8 or has a NUL in it");
}

fn a_graph_goes_to_another_thread(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| setup.add(&mut word, 1, &stream)).unwrap();
    let elsewhere = stream.clone();
    let made = std::thread::spawn(move || {
        let exec = graph.instantiate().unwrap();
        exec.launch(&elsewhere).unwrap();
        exec
    });
    let exec = made.join().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn the_mode_of_the_thread_is_put_back(setup: &Setup) {
    let outer = ThreadCaptureMode::set(&setup.driver, CaptureMode::ThreadLocal).unwrap();
    assert_eq!(outer.previous(), Some(CaptureMode::Global));
    let inner = ThreadCaptureMode::set(&setup.driver, CaptureMode::Relaxed).unwrap();
    assert_eq!(inner.previous(), Some(CaptureMode::ThreadLocal));
    drop(inner);
    // A call of the library that exchanges the mode puts it back too.
    drop(DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap());
    let again = ThreadCaptureMode::set(&setup.driver, CaptureMode::Global).unwrap();
    assert_eq!(again.previous(), Some(CaptureMode::ThreadLocal));
    drop(again);
    drop(outer);
    let last = ThreadCaptureMode::set(&setup.driver, CaptureMode::Global).unwrap();
    assert_eq!(last.previous(), Some(CaptureMode::Global));
}

fn launches_of_one_executable_do_not_overlap(setup: &Setup) {
    let (one, two) = (setup.stream(), setup.stream());
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let exec = one
        .capture(CaptureMode::Global, |_| {
            for _ in 0..10 {
                setup.add(&mut word, 1, &one)?;
            }
            Ok(())
        })
        .unwrap()
        .instantiate()
        .unwrap();
    for _ in 0..20 {
        exec.launch(&one).unwrap();
        exec.launch(&two).unwrap();
    }
    one.synchronize().unwrap();
    two.synchronize().unwrap();
    // `add` is no atomic operation: overlapping launches would lose some.
    assert_eq!(word.to_vec(&one).unwrap(), [400]);
}

fn a_chain_of_ten_thousand_nodes_replays(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let graph = stream
        .capture(CaptureMode::ThreadLocal, |_| {
            (0..10_000).try_for_each(|_| setup.add(&mut word, 1, &stream))
        })
        .unwrap();
    assert_eq!(graph.node_count().unwrap(), 10_000);
    assert_eq!(graph.edges().unwrap().len(), 9_999);
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [20_000]);
}
