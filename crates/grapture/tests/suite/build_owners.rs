//! What graphs that were built by hand keep alive, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::build::{FOREIGN, mul_add, refusal, run};
use crate::common::counted::{Token, counter};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CopyNode, DeviceBuffer, EdgeData, Event, FillNode, Graph, NodeId, PinnedBuffer,
    RetainedKind,
};

both_tiers! {
    a_node_keeps_what_it_uses,
    a_node_lets_go_of_what_it_used_before,
    an_executable_made_before_keeps_the_old_owners,
    a_captured_nodes_owners_stay,
    changing_a_node_over_and_over_holds_one_owner,
    a_clone_shares_owners_and_lets_go_apart,
    a_child_keeps_its_owners,
    a_child_that_is_replaced_lets_go,
    a_launch_in_flight_keeps_owners,
    a_retained_value_lives_as_long_as_what_was_made_after,
    what_is_retained_is_listed_with_its_line,
    an_owner_used_by_many_nodes_is_listed_once,
    pinned_memory_of_a_node_is_locked_while_it_is_used,
    pinned_memory_of_a_child_is_locked_while_it_is_used,
    pinned_memory_that_a_node_used_before_is_free,
    a_node_of_another_graph_is_refused_everywhere,
    a_removed_node_is_refused,
    a_removed_node_is_refused_when_its_handle_is_used_again,
    memory_and_events_of_another_driver_are_refused,
    a_failed_change_keeps_the_old_owner,
    graphs_are_built_on_many_threads,
    building_breaks_no_capture,
}

/// A function whose drop is counted, and its runs too.
fn counted(runs: &Arc<AtomicUsize>, dropped: &Arc<AtomicUsize>) -> impl Fn() + Send + Sync + use<> {
    let (runs, token) = (runs.clone(), Token(dropped.clone()));
    move || {
        let _ = &token;
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many were dropped by now, with all that was due.
fn drops(setup: &Setup, dropped: &Arc<AtomicUsize>) -> usize {
    setup.driver.reclaim();
    dropped.load(Ordering::SeqCst)
}

/// Waits until so many are dropped. What was launched is let go of when that is done.
#[track_caller]
fn wait_for_drops(setup: &Setup, dropped: &Arc<AtomicUsize>, count: usize) {
    setup.wait_until(|| drops(setup, dropped) == count);
}

fn a_node_keeps_what_it_uses(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_host(counted(&runs, &dropped), &[]).unwrap();
    let exec = graph.instantiate().unwrap();
    drop(graph);
    let stream = setup.stream();
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!((runs.load(Ordering::SeqCst), drops(setup, &dropped)), (1, 0));
    drop(exec);
    wait_for_drops(setup, &dropped, 1);
}

fn a_node_lets_go_of_what_it_used_before(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(counted(&runs, &dropped), &[]).unwrap();
    graph.node_mut(node).unwrap().set_host(|| {}).unwrap();
    assert_eq!(drops(setup, &dropped), 1);
    graph.node_mut(node).unwrap().set_host(counted(&runs, &dropped)).unwrap();
    graph.remove_node(node).unwrap();
    assert_eq!(drops(setup, &dropped), 2);
    run(setup, &graph);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

fn an_executable_made_before_keeps_the_old_owners(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(counted(&runs, &dropped), &[]).unwrap();
    let exec = graph.instantiate().unwrap();
    graph.node_mut(node).unwrap().set_host(|| {}).unwrap();
    let other = graph.instantiate().unwrap();
    graph.remove_node(node).unwrap();
    drop(graph);
    let stream = setup.stream();
    exec.launch(&stream).unwrap();
    other.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!((runs.load(Ordering::SeqCst), drops(setup, &dropped)), (1, 0));
    drop(exec);
    wait_for_drops(setup, &dropped, 1);
}

fn a_captured_nodes_owners_stay(setup: &Setup) {
    let (stream, runs, dropped) = (setup.stream(), counter(), counter());
    let mut graph = stream
        .capture(CaptureMode::ThreadLocal, |_| stream.host_function(counted(&runs, &dropped)))
        .unwrap();
    let node = graph.nodes().unwrap()[0].id();
    graph.node_mut(node).unwrap().set_host(|| {}).unwrap();
    run(setup, &graph);
    assert_eq!((runs.load(Ordering::SeqCst), drops(setup, &dropped)), (0, 0));
    drop(graph);
    wait_for_drops(setup, &dropped, 1);
}

fn changing_a_node_over_and_over_holds_one_owner(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(|| {}, &[]).unwrap();
    for _ in 0..1_000 {
        graph.node_mut(node).unwrap().set_host(counted(&runs, &dropped)).unwrap();
    }
    assert_eq!((drops(setup, &dropped), graph.retained().len()), (999, 1));
    drop(graph);
    assert_eq!(drops(setup, &dropped), 1_000);
}

fn a_clone_shares_owners_and_lets_go_apart(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(counted(&runs, &dropped), &[]).unwrap();
    let mut clone = graph.try_clone().unwrap();
    let copy = graph.node_in(node, &clone).unwrap();
    graph.remove_node(node).unwrap();
    assert_eq!(drops(setup, &dropped), 0);
    run(setup, &clone);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    clone.node_mut(copy).unwrap().set_host(|| {}).unwrap();
    wait_for_drops(setup, &dropped, 1);
    run(setup, &clone);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

fn a_child_keeps_its_owners(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut innermost = Graph::new(&setup.context).unwrap();
    let node = innermost.add_host(counted(&runs, &dropped), &[]).unwrap();
    let mut middle = Graph::new(&setup.context).unwrap();
    middle.add_child(&innermost, &[]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_child(&middle, &[]).unwrap();
    innermost.node_mut(node).unwrap().set_host(|| {}).unwrap();
    drop((innermost, middle));
    let clone = graph.try_clone().unwrap();
    drop(graph);
    run(setup, &clone);
    assert_eq!((runs.load(Ordering::SeqCst), drops(setup, &dropped)), (1, 0));
    let exec = clone.instantiate().unwrap();
    drop(clone);
    exec.launch(&setup.stream()).unwrap();
    drop(exec);
    // The reclaimer sees to the launch in flight.
    wait_for_drops(setup, &dropped, 1);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

fn a_child_that_is_replaced_lets_go(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut child = Graph::new(&setup.context).unwrap();
    child.add_host(counted(&runs, &dropped), &[]).unwrap();
    let mut other = Graph::new(&setup.context).unwrap();
    other.add_host(|| {}, &[]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_child(&child, &[]).unwrap();
    drop(child);
    assert_eq!(drops(setup, &dropped), 0);
    graph.node_mut(node).unwrap().set_child(&other).unwrap();
    assert_eq!(drops(setup, &dropped), 1);
    run(setup, &graph);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

fn a_launch_in_flight_keeps_owners(setup: &Setup) {
    let (stream, runs, dropped) = (setup.stream(), counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(counted(&runs, &dropped), &[]).unwrap();
    let exec = graph.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    drop(exec);
    graph.node_mut(node).unwrap().set_host(|| {}).unwrap();
    drop(graph);
    assert_eq!(drops(setup, &dropped), 0);
    gate.open();
    stream.synchronize().unwrap();
    wait_for_drops(setup, &dropped, 1);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

fn a_retained_value_lives_as_long_as_what_was_made_after(setup: &Setup) {
    let dropped = counter();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_empty(&[]).unwrap();
    let before = graph.instantiate().unwrap();
    graph.retain(Token(dropped.clone()));
    let after = graph.instantiate().unwrap();
    let clone = graph.try_clone().unwrap();
    drop((graph, clone));
    assert_eq!(drops(setup, &dropped), 0);
    drop(after);
    assert_eq!(drops(setup, &dropped), 1);
    before.launch(&setup.stream()).unwrap();
}

fn what_is_retained_is_listed_with_its_line(setup: &Setup) {
    let stream = setup.stream();
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 4).unwrap();
    let event = Event::new(&setup.context).unwrap();
    let lines = std::cell::Cell::new((0, 0));
    let mut graph = stream
        .capture(CaptureMode::ThreadLocal, |capture| {
            words.copy_from_pinned(&pinned, &stream)?;
            let copied = line!() - 1;
            capture.retain(7u16);
            lines.set((copied, line!() - 1));
            Ok(())
        })
        .unwrap();
    let mut others = DeviceBuffer::<u8>::zeroed(&setup.context, 3).unwrap();
    let fill = FillNode::new(&mut others, 1).unwrap();
    let filled = line!() - 1;
    graph.add_fill(fill, &[]).unwrap();
    graph.add_event_record(&event, &[]).unwrap();
    let recorded = line!() - 1;
    graph.add_host(move || assert!(filled > 0), &[]).unwrap();
    let called = line!() - 1;
    graph.retain([0u64; 2]);
    let retained = line!() - 1;
    let mut told: Vec<_> = graph
        .retained()
        .iter()
        .map(|one| {
            assert!(one.origin().file().ends_with("build_owners.rs"), "{one}");
            (one.origin().line(), one.kind().clone(), one.bytes())
        })
        .collect();
    told.sort_by_key(|(line, _, bytes)| (*line, *bytes));
    let (copied, value) = lines.get();
    assert_eq!(
        told,
        [
            (copied, RetainedKind::DeviceMemory, 16),
            (copied, RetainedKind::PinnedMemory, 16),
            (value, RetainedKind::Value("u16"), 2),
            (filled, RetainedKind::DeviceMemory, 3),
            (recorded, RetainedKind::Event, 0),
            (called, RetainedKind::HostFunction, 4),
            (retained, RetainedKind::Value("[u64; 2]"), 16)
        ]
    );
    let text = graph.retained().last().unwrap().to_string();
    assert!(text.contains(" bytes, from ") && text.contains("build_owners.rs:"), "{text}");
}

fn an_owner_used_by_many_nodes_is_listed_once(setup: &Setup) {
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    for _ in 0..10 {
        mul_add(setup, &mut graph, &mut word, (1, 1), &[]);
    }
    // A kernel that is asked for twice is one each time.
    let kernels = |one: &grapture::Retained| matches!(one.kind(), RetainedKind::Kernel(_));
    let retained = graph.retained();
    assert_eq!(retained.iter().filter(|one| kernels(one)).count(), 10);
    assert_eq!(retained.len(), 11);
}

fn pinned_memory_of_a_node_is_locked_while_it_is_used(setup: &Setup) {
    let stream = setup.stream();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let word = DeviceBuffer::from_slice(&setup.context, &[5u32]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_copy(CopyNode::to_pinned(&mut pinned, &word).unwrap(), &[]).unwrap();
    let exec = graph.instantiate().unwrap();
    let read = pinned.read().unwrap();
    assert!(refusal(exec.launch(&stream)).starts_with("pinned: the host reads it"));
    drop(read);
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    assert!(pinned.try_read().is_err());
    gate.open();
    assert_eq!(*pinned.read().unwrap(), [5]);
}

fn pinned_memory_of_a_child_is_locked_while_it_is_used(setup: &Setup) {
    let stream = setup.stream();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let word = DeviceBuffer::from_slice(&setup.context, &[5u32]).unwrap();
    let mut child = Graph::new(&setup.context).unwrap();
    child.add_copy(CopyNode::to_pinned(&mut pinned, &word).unwrap(), &[]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    graph.add_child(&child, &[]).unwrap();
    drop(child);
    let exec = graph.instantiate().unwrap();
    let read = pinned.read().unwrap();
    assert!(refusal(exec.launch(&stream)).starts_with("pinned: the host reads it"));
    drop(read);
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    assert!(pinned.try_write().is_err());
    gate.open();
    assert_eq!(*pinned.read().unwrap(), [5]);
}

fn pinned_memory_that_a_node_used_before_is_free(setup: &Setup) {
    let stream = setup.stream();
    let mut first = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut second = PinnedBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let word = DeviceBuffer::from_slice(&setup.context, &[5u32]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let copy = CopyNode::to_pinned(&mut first, &word).unwrap();
    let node = graph.add_copy(copy, &[]).unwrap();
    let before = graph.instantiate().unwrap();
    before.launch(&stream).unwrap();
    let copy = CopyNode::to_pinned(&mut second, &word).unwrap();
    graph.node_mut(node).unwrap().set_copy(copy).unwrap();
    let after = graph.instantiate().unwrap();
    let read = first.read().unwrap();
    after.launch(&stream).unwrap();
    assert!(before.launch(&stream).is_err());
    drop(read);
    let read = second.read().unwrap();
    assert_eq!(*read, [5]);
    before.launch(&stream).unwrap();
    assert!(after.launch(&stream).is_err());
    drop(read);
    assert_eq!(*first.read().unwrap(), [5]);
}

fn a_node_of_another_graph_is_refused_everywhere(setup: &Setup) {
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let event = Event::new(&setup.context).unwrap();
    let child = Graph::new(&setup.context).unwrap();
    let mut other = Graph::new(&setup.context).unwrap();
    let foreign = other.add_empty(&[]).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let own = graph.add_empty(&[]).unwrap();
    let says = |text: String, what: &str| assert_eq!(text, FOREIGN.replace("{}", what));
    let foreign_ones: &[NodeId] = &[own, foreign];
    let fill = FillNode::new(&mut word, 1).unwrap();
    says(refusal(graph.add_fill(fill, foreign_ones)), "after");
    let copy = CopyNode::from_host(&mut word, &[1]).unwrap();
    says(refusal(graph.add_copy(copy, foreign_ones)), "after");
    let kernel = setup.module.kernel("nothing").unwrap();
    // SAFETY: it is refused.
    let kernel = unsafe { graph.add_kernel(kernel.launch_builder(1, 1), foreign_ones) };
    says(refusal(kernel), "after");
    says(refusal(graph.add_host(|| {}, foreign_ones)), "after");
    says(refusal(graph.add_empty(foreign_ones)), "after");
    says(refusal(graph.add_event_record(&event, foreign_ones)), "after");
    says(refusal(graph.add_event_wait(&event, foreign_ones)), "after");
    says(refusal(graph.add_child(&child, foreign_ones)), "after");
    says(refusal(graph.add_child_moved(child, foreign_ones)), "after");
    says(refusal(graph.add_alloc::<u32>(1, foreign_ones)), "after");
    says(refusal(graph.add_dependency(foreign, own)), "from");
    says(refusal(graph.add_dependency(own, foreign)), "to");
    says(refusal(graph.add_dependency_with(own, foreign, EdgeData::PROGRAMMATIC)), "to");
    says(refusal(graph.remove_dependency(own, foreign)), "to");
    says(refusal(graph.remove_node(foreign)), "node");
    says(refusal(graph.node(foreign)), "node");
    says(refusal(graph.node_mut(foreign)), "node");
    let clone = graph.try_clone().unwrap();
    says(refusal(graph.node_in(foreign, &clone)), "node");
    assert_eq!((graph.node_count().unwrap(), graph.retained().len()), (1, 0));
    // A graph that is gone is another one too.
    drop(other);
    says(refusal(graph.remove_node(foreign)), "node");
}

fn a_removed_node_is_refused(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let (gone, own) = (graph.add_empty(&[]).unwrap(), graph.add_empty(&[]).unwrap());
    graph.remove_node(gone).unwrap();
    let removed = "node: it was removed from the graph";
    assert_eq!(refusal(graph.node(gone)), removed);
    assert_eq!(refusal(graph.node_mut(gone)), removed);
    assert_eq!(refusal(graph.remove_node(gone)), removed);
    assert_eq!(refusal(graph.add_empty(&[gone])), removed.replace("node:", "after:"));
    assert_eq!(refusal(graph.add_dependency(gone, own)), removed.replace("node:", "from:"));
    assert_eq!(refusal(graph.remove_dependency(own, gone)), removed.replace("node:", "to:"));
    run(setup, &graph);
}

/// A driver gives the handle of a removed node to a new one.
fn a_removed_node_is_refused_when_its_handle_is_used_again(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut gone: Vec<NodeId> = Vec::new();
    for _ in 0..200 {
        let node = graph.add_empty(&[]).unwrap();
        assert!(!gone.contains(&node));
        graph.remove_node(node).unwrap();
        gone.push(node);
    }
    let last = graph.add_empty(&[]).unwrap();
    assert_eq!(graph.nodes().unwrap()[0].id(), last);
    graph.node(last).unwrap();
    for node in gone {
        assert!(refusal(graph.node(node)).ends_with("it was removed from the graph"));
    }
}

fn memory_and_events_of_another_driver_are_refused(setup: &Setup) {
    let other = Setup::simulated();
    let mut word = DeviceBuffer::from_slice(&other.context, &[1u32]).unwrap();
    let mut own = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let event = Event::new(&other.context).unwrap();
    let child = Graph::new(&other.context).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let driver = |what: &str| {
        format!("{what}: it belongs to another driver than the graph: make both from one `Driver`")
    };
    let fill = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]);
    assert_eq!(refusal(fill), driver("fill"));
    let copy = graph.add_copy(CopyNode::from_host(&mut word, &[1]).unwrap(), &[]);
    assert_eq!(refusal(copy), driver("copy"));
    let copy = CopyNode::device(&mut own, &word);
    let text = "copy.source: it belongs to another context than the target: make both from the same \
                `Context`";
    assert_eq!(refusal(copy), text);
    let record = graph.add_event_record(&event, &[]);
    assert_eq!(refusal(record), driver("event"));
    assert_eq!(refusal(graph.add_event_wait(&event, &[])), driver("event"));
    assert_eq!(refusal(graph.add_child(&child, &[])), driver("child"));
    assert_eq!(refusal(graph.add_child_moved(child, &[])), driver("child"));
    let kernel = other.module.kernel("nothing").unwrap();
    // SAFETY: it is refused.
    let kernel = unsafe { graph.add_kernel(kernel.launch_builder(1, 1), &[]) };
    assert_eq!(refusal(kernel), driver("kernel"));
    let kernel = setup.module.kernel("add").unwrap();
    let launch = kernel.launch_builder(1, 1).arg(&word).value(1u32);
    // SAFETY: as above.
    let refused = refusal(unsafe { graph.add_kernel(launch, &[]) });
    assert!(refused.starts_with("kernel.arg: it belongs to another context than the kernel: make"));
    assert_eq!(graph.node_count().unwrap(), 0);
}

fn a_failed_change_keeps_the_old_owner(setup: &Setup) {
    let (runs, dropped) = (counter(), counter());
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_host(counted(&runs, &dropped), &[]).unwrap();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let fill = FillNode::new(&mut word, 1).unwrap();
    assert!(graph.node_mut(node).unwrap().set_fill(fill).is_err());
    assert_eq!((drops(setup, &dropped), graph.retained().len()), (0, 1));
    run(setup, &graph);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

fn graphs_are_built_on_many_threads(setup: &Setup) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut word = DeviceBuffer::from_slice(&setup.context, &[0u32]).unwrap();
                for _ in 0..20 {
                    let mut graph = Graph::new(&setup.context).unwrap();
                    let mut last = mul_add(setup, &mut graph, &mut word, (0, 0), &[]);
                    for _ in 0..5 {
                        last = mul_add(setup, &mut graph, &mut word, (1, 1), &[last]);
                    }
                    let clone = graph.try_clone().unwrap();
                    drop(graph);
                    run(setup, &clone);
                    assert_eq!(word.to_vec(&setup.stream()).unwrap(), [5]);
                }
            });
        }
    });
}

/// None of the calls is one that a capture bars, and no node goes into the capture.
fn building_breaks_no_capture(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let event = Event::new(&setup.context).unwrap();
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let mut built = None;
        let captured = stream.capture(mode, |capture| {
            let mut graph = Graph::new(&setup.context)?;
            let first = mul_add(setup, &mut graph, &mut word, (1, 1), &[]);
            let copy = CopyNode::from_host(&mut word, &[4])?;
            let copy = graph.add_copy(copy, &[first])?;
            let fill = graph.add_fill(FillNode::new(&mut word, 5)?, &[copy])?;
            let host = graph.add_host(|| {}, &[fill])?;
            graph.add_event_record(&event, &[host])?;
            graph.node_mut(fill)?.set_fill(FillNode::new(&mut word, 6)?)?;
            graph.add_child(&graph.try_clone()?, &[])?;
            let gone = graph.add_empty(&[])?;
            graph.remove_node(gone)?;
            graph.topology()?;
            let mut memory = Graph::new(&setup.context)?;
            let mut scratch = memory.add_alloc::<u32>(4, &[])?;
            memory.add_fill(FillNode::new(&mut scratch, 1)?, &[])?;
            memory.add_free(&scratch, &[])?;
            let moved = graph.add_child_moved(memory, &[host])?;
            assert!(capture.is_active());
            built = Some((graph, moved));
            Ok(())
        });
        assert_eq!(captured.unwrap().node_count().unwrap(), 0);
        run(setup, &built.unwrap().0);
        assert_eq!(word.to_vec(&stream).unwrap(), [6]);
    }
}
