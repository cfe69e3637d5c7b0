//! Attempts to have a launch use memory that the host has, or that another launch does, by the ways in
//! which a graph comes to its nodes.

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use crate::common::gate::Gate;
use grapture::{
    CacheLimits, CaptureMode, CopyNode, CudaError, DeviceBuffer, FillNode, Graph, GraphCache,
    GraphExec, PinnedBuffer, Stream, WordCondition,
};

checked_tiers! {
    the_host_is_kept_off_pinned_memory_by_every_way,
    names_of_a_failed_capture_name_nothing,
    executables_are_swapped_between_caches,
}

const MODE: CaptureMode = CaptureMode::Relaxed;

fn word(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, CudaError>) -> String {
    match result.unwrap_err() {
        CudaError::Refused(refusal) => refusal.to_string(),
        other => panic!("not refused: {other}"),
    }
}

/// While a launch is in flight the host gets at none of what it writes, and while the host has it
/// there is no launch.
fn holds(setup: &Setup, exec: &GraphExec, pinned: &PinnedBuffer<u32>, way: &str) {
    let stream = setup.stream();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    assert_eq!(pinned.try_read().map(drop), Err(CudaError::NotReady), "{way}");
    gate.open();
    let read = pinned.read().unwrap();
    assert_eq!(read[0], 1, "{way}");
    refusal(exec.launch(&stream));
    drop(read);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn the_host_is_kept_off_pinned_memory_by_every_way(setup: &Setup) {
    let stream = setup.stream();
    let (source, mut target) = (word(setup), word(setup));
    let mut condition = word(setup);
    condition.fill(1, &stream).unwrap();
    stream.synchronize().unwrap();
    let fresh = || PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let copy = |pinned: &mut PinnedBuffer<u32>| CopyNode::to_pinned(pinned, &source).unwrap();
    let captured = |pinned: &mut PinnedBuffer<u32>| {
        stream.capture(MODE, |_| source.copy_to_pinned(pinned, &stream)).unwrap()
    };

    let mut pinned = fresh();
    let inner = captured(&mut pinned);
    let outer = stream.capture(MODE, |capture| capture.embed(&inner)).unwrap();
    drop(inner);
    holds(setup, &outer.instantiate().unwrap(), &pinned, "embedded");

    let mut pinned = fresh();
    let mut graph = Graph::new(&setup.context).unwrap();
    let record = |pinned: &mut PinnedBuffer<u32>| source.copy_to_pinned(pinned, &stream);
    stream.capture_into(&mut graph, &[], MODE, |_| record(&mut pinned)).unwrap();
    let mut parent = Graph::new(&setup.context).unwrap();
    parent.add_child(&graph, &[]).unwrap();
    holds(setup, &graph.instantiate().unwrap(), &pinned, "captured into");
    holds(setup, &parent.instantiate().unwrap(), &pinned, "a child");

    // Changed in the graph, and followed or taken as a whole; or by itself.
    for way in ["followed", "whole", "set", "set in a clone"] {
        let mut pinned = fresh();
        let mut graph = Graph::new(&setup.context).unwrap();
        let node = graph.add_copy(copy(&mut fresh()), &[]).unwrap();
        let mut exec = graph.instantiate().unwrap();
        match way {
            "followed" => {
                graph.node_mut(node).unwrap().set_copy(copy(&mut pinned)).unwrap();
                exec.update(&graph).unwrap();
            }
            "whole" => drop(exec.update(&captured(&mut pinned)).unwrap()),
            "set" => exec.node_of(&graph, node).unwrap().set_copy(copy(&mut pinned)).unwrap(),
            _ => {
                let (mut clone, names) = (graph.try_clone().unwrap(), graph.nodes().unwrap());
                let name = clone.nodes().unwrap()[0].id();
                assert!(clone.node_mut(names[0].id()).is_err());
                clone.node_mut(name).unwrap().set_copy(copy(&mut pinned)).unwrap();
                exec = clone.instantiate().unwrap();
            }
        }
        holds(setup, &exec, &pinned, way);
    }

    let condition = WordCondition::new(&condition).unwrap();
    let mut pinned = fresh();
    let graph = stream.capture(MODE, |capture| {
        capture.if_(&condition, |body| source.copy_to_pinned(&mut pinned, body.stream()))
    });
    holds(setup, &graph.unwrap().instantiate().unwrap(), &pinned, "captured body");
    let mut pinned = fresh();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_fill(FillNode::new(&mut target, 1).unwrap(), &[]).unwrap();
    graph.add_if(&condition, &[], |body| body.add_copy(copy(&mut pinned), &[]).map(drop)).unwrap();
    holds(setup, &graph.instantiate().unwrap(), &pinned, "built body");
}

fn names_of_a_failed_capture_name_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut word = word(setup);
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut names = Vec::new();
    let failed = stream.capture_into(&mut graph, &[], MODE, |_| {
        for value in 0..4 {
            word.fill(value, &stream)?;
            names.extend(stream.capture_info()?.dependencies().unwrap_or_default());
        }
        Err(CudaError::NotFound)
    });
    assert_eq!(failed.unwrap_err(), CudaError::NotFound);
    let fill = |word: &mut DeviceBuffer<u32>| FillNode::new(word, 9).unwrap();
    // The driver gives the handles again.
    let again: Vec<_> = (0..4).map(|_| graph.add_fill(fill(&mut word), &[]).unwrap()).collect();
    for name in &names {
        assert!(!again.contains(name));
        refusal(graph.node_mut(*name).map(drop));
        refusal(graph.remove_node(*name));
        refusal(graph.add_empty(&[*name]));
    }
    let mut exec = graph.instantiate().unwrap();
    refusal(exec.node_of(&graph, names[0]).map(drop));
    assert_eq!(graph.node_count().unwrap(), 4);
}

fn executables_are_swapped_between_caches(setup: &Setup) {
    let other = Setup::on(setup.driver.clone());
    let streams = [setup.stream(), other.stream()];
    let mut words = [word(setup), word(&other)];
    let caches = [setup, &other]
        .map(|setup| GraphCache::<u32>::new(&setup.context, CacheLimits::new().entries(1)));
    let mut fill = |index: usize, key: u32, stream: &Stream| {
        let word = &mut words[index];
        caches[index].get_or_capture(key, stream, |_| word.fill(key, stream)).unwrap()
    };
    let [here, there] = [0, 1].map(|index| fill(index, 1, &streams[index]));
    std::mem::swap(&mut *here.lock(), &mut *there.lock());
    here.launch(&streams[1]).unwrap();
    there.launch(&streams[0]).unwrap();
    drop((here, there));
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    for key in 2..5 {
        for index in [0, 1] {
            fill(index, key, &streams[index]).launch(&streams[index]).unwrap();
        }
    }
    for (word, stream) in words.iter().zip(&streams) {
        assert_eq!(word.to_vec(stream).unwrap(), [4]);
    }
}
