//! Executables that follow the nodes that were changed in their own graph.

use super::exec_node::{add_kernel, counting, set_kernel, zeroed};
use crate::common::counted::{counter, get};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{
    CopyNode, CudaError, Event, FillNode, Graph, Outcome, Region2d, UpdateOptions, UpdateReason,
};

both_tiers! {
    an_unchanged_graph_changes_nothing,
    an_executable_follows_the_changed_nodes,
    an_executable_follows_after_a_change_of_its_own,
    what_a_followed_node_used_outlives_the_launch,
    a_changed_shape_is_made_anew,
    a_change_that_cannot_be_followed_is_made_anew,
}

fn an_unchanged_graph_changes_nothing(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let mut exec = graph.instantiate().unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 0 });
    set_kernel(setup, &mut exec.node_of(&graph, node).unwrap(), &mut word, 5).unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 0 });
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [1]);
    // Others may change it by the raw handle.
    let _ = graph.as_raw();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
}

fn an_executable_follows_the_changed_nodes(setup: &Setup) {
    let stream = setup.stream();
    let (mut a, mut b) = (zeroed(setup, 1), zeroed(setup, 1));
    let (runs, dropped) = (counter(), counter());
    let events = [(); 2].map(|()| Event::new(&setup.context).unwrap());
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut last = graph.add_fill(FillNode::new(&mut a, 0).unwrap(), &[]).unwrap();
    let fill = last;
    let mut kernels = vec![];
    for _ in 0..20 {
        last = add_kernel(setup, &mut graph, &mut a, 1, &[last]);
        kernels.push(last);
    }
    let copy = graph.add_copy(CopyNode::device(&mut b, &a).unwrap(), &[last]).unwrap();
    let host = graph.add_host(|| {}, &[copy]).unwrap();
    let record = graph.add_event_record(&events[0], &[host]).unwrap();
    let mut child = Graph::new(&setup.context).unwrap();
    add_kernel(setup, &mut child, &mut b, 1000, &[]);
    let embedded = graph.add_child(&child, &[record]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [1020]);

    graph.node_mut(fill).unwrap().set_fill(FillNode::new(&mut a, 100).unwrap()).unwrap();
    let add = setup.module.kernel("add").unwrap();
    for _ in 0..2 {
        let launch = add.launch_builder(1, 1).arg_mut(&mut a).value(5u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { graph.node_mut(kernels[7]).unwrap().set_kernel(launch) }.unwrap();
    }
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 2 });
    exec.launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [1124]);

    let halves = CopyNode::device(&mut b, &a).unwrap();
    graph.node_mut(copy).unwrap().set_copy(halves).unwrap();
    graph.node_mut(host).unwrap().set_host(counting(&runs, &dropped)).unwrap();
    graph.node_mut(record).unwrap().set_event(&events[1]).unwrap();
    let mut other = Graph::new(&setup.context).unwrap();
    add_kernel(setup, &mut other, &mut b, 2000, &[]);
    graph.node_mut(embedded).unwrap().set_child(&other).unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 4 });
    exec.launch(&stream).unwrap();
    events[1].synchronize().unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [2124]);
    assert_eq!(get(&runs), 1);

    // All of them are given at once.
    for kernel in &kernels {
        let launch = add.launch_builder(1, 1).arg_mut(&mut a).value(2u32);
        // SAFETY: as above.
        unsafe { graph.node_mut(*kernel).unwrap().set_kernel(launch) }.unwrap();
    }
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 25 });
    exec.launch(&stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [2140]);
}

fn an_executable_follows_after_a_change_of_its_own(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let second = add_kernel(setup, &mut graph, &mut word, 10, &[first]);
    let mut exec = graph.instantiate().unwrap();
    set_kernel(setup, &mut exec.node_of(&graph, first).unwrap(), &mut word, 500).unwrap();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(20u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.node_mut(second).unwrap().set_kernel(launch) }.unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 2 });
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [21]);
}

fn what_a_followed_node_used_outlives_the_launch(setup: &Setup) {
    let stream = setup.stream();
    let (runs, dropped) = ([counter(), counter()], [counter(), counter()]);
    let mut graph = Graph::new(&setup.context).unwrap();
    let host = graph.add_host(counting(&runs[0], &dropped[0]), &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let gate = Gate::new();
    gate.hold(&stream);
    exec.launch(&stream).unwrap();
    graph.node_mut(host).unwrap().set_host(counting(&runs[1], &dropped[1])).unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    exec.launch(&stream).unwrap();
    drop((exec, graph));
    setup.driver.reclaim();
    assert_eq!([get(&dropped[0]), get(&dropped[1])], [0, 0]);
    gate.open();
    setup.wait_until(|| [get(&dropped[0]), get(&dropped[1])] == [1, 1]);
    assert_eq!([get(&runs[0]), get(&runs[1])], [1, 1]);
}

fn a_changed_shape_is_made_anew(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup, 1);
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = add_kernel(setup, &mut graph, &mut word, 1, &[]);
    let mut exec = graph.instantiate().unwrap();
    let second = add_kernel(setup, &mut graph, &mut word, 10, &[first]);
    assert!(matches!(exec.update(&graph).unwrap(), Outcome::Rebuilt { .. }));
    exec.node_of(&graph, second).unwrap().set_enabled(true).unwrap();
    exec.launch(&stream).unwrap();
    graph.remove_node(second).unwrap();
    assert!(matches!(exec.update(&graph).unwrap(), Outcome::Rebuilt { .. }));
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [12]);
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 0 });
}

fn a_change_that_cannot_be_followed_is_made_anew(setup: &Setup) {
    let stream = setup.stream();
    let mut a = zeroed(setup, 16);
    let mut graph = Graph::new(&setup.context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut a, 1).unwrap(), &[]).unwrap();
    let mut exec = graph.instantiate().unwrap();
    let region = Region2d::new(2, 2).pitch(4);
    let rectangle = FillNode::rectangle(&mut a, region, 5).unwrap();
    graph.node_mut(fill).unwrap().set_fill(rectangle).unwrap();
    let error = exec.update_with(&graph, UpdateOptions::new().strict(true)).unwrap_err();
    let CudaError::Update(error) = error else { panic!("{error:?}") };
    let reason = UpdateReason::ParametersChanged;
    assert_eq!((error.reason(), error.node()), (reason, Some(fill)));
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [1; 16], "it is as it was");
    let outcome = exec.update(&graph).unwrap();
    assert_eq!(outcome, Outcome::Rebuilt { reason, node: Some(fill) });
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap()[..7], [5, 5, 1, 1, 5, 5, 1]);
}
