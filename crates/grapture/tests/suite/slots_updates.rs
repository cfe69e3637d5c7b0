//! Slots of executables that are updated, and of nodes that are changed.

use crate::common::{Setup, both_tiers};
use crate::slots::{add_slot, added, capture, refusal, zeroed};
use crate::slots_graphs::add_node;
use grapture::{FillNode, Graph, Outcome, Slot, UpdateOptions, UpdateReason};

both_tiers! {
    an_update_has_the_slots_of_the_graph,
    an_update_of_another_order_is_made_anew,
    an_executable_without_slots_gets_some_by_an_update,
    an_executable_follows_its_own_graph,
    nodes_are_named_by_the_graph_all_the_same,
    a_node_that_is_changed_by_itself_follows_no_slot,
    a_node_that_is_changed_in_the_graph_uses_other_slots,
}

fn an_update_has_the_slots_of_the_graph(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, mut second) = (zeroed(setup, 1), zeroed(setup, 1));
    let (value, other) = (Slot::new(1u32), Slot::new(30u32));
    let mut record = |first: &Slot<u32>, then: &Slot<u32>| {
        capture(&stream, || {
            add_slot(setup, &mut word, first, &stream)?;
            setup.add(&mut second, 1, &stream)?;
            add_slot(setup, &mut word, then, &stream)
        })
    };
    let (old, new) = (record(&value, &value), record(&other, &value));
    let kept = record(&value, &value);
    let plain = capture(&stream, || {
        setup.add(&mut word, 5, &stream)?;
        setup.add(&mut word, 5, &stream)?;
        setup.add(&mut word, 5, &stream)
    });
    for mut exec in [old.instantiate().unwrap(), kept.into_exec().unwrap()] {
        exec.set(&value, 7).unwrap();
        assert_eq!(exec.update(&new).unwrap(), Outcome::Updated { changed: 3 });
        drop(capture(&stream, || Ok(())));
        assert_eq!(added(&exec, &mut word, &stream), 31);
        assert_eq!(exec.get(&value).unwrap(), 1);
        exec.patch().set(&other, 2).set(&value, 9).apply().unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 11);
        // The same graph again puts the values back.
        exec.update(&new).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 31);
        // A graph without slots takes them away, and the next brings them back.
        exec.update(&plain).unwrap();
        assert!(refusal(exec.set(&value, 3)).contains("no node of the executable"));
        assert_eq!(added(&exec, &mut word, &stream), 15);
        exec.update(&old).unwrap();
        exec.set(&value, 3).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 6);
    }
}

fn an_update_of_another_order_is_made_anew(setup: &Setup) {
    let (stream, side) = (setup.stream(), setup.stream());
    let (mut a, mut b) = (zeroed(setup, 1), zeroed(setup, 1));
    let value = Slot::new(1u32);
    // Two kernels that nothing orders, and a third after both; the edges in another order.
    let mut build = |swapped: bool| {
        let mut graph = Graph::new(&setup.context).unwrap();
        let first = add_node(setup, &mut graph, &mut a, &value, &[]);
        let second = add_node(setup, &mut graph, &mut b, &Slot::new(5), &[]);
        let order = if swapped { [second, first] } else { [first, second] };
        let last = graph.add_empty(&[]).unwrap();
        order.iter().for_each(|node| graph.add_dependency(*node, last).unwrap());
        graph
    };
    let (one, same, other) = (build(false), build(false), build(true));
    let mut exec = one.instantiate().unwrap();
    // Each could be taken for the other.
    let reason = UpdateReason::Slots;
    assert_eq!(exec.update(&same).unwrap(), Outcome::Rebuilt { reason, node: None });
    let outcome = exec.update(&other).unwrap();
    let reason = UpdateReason::TopologyChanged;
    assert_eq!(outcome, Outcome::Rebuilt { reason, node: None });
    exec.set(&value, 9).unwrap();
    exec.launch(&side).unwrap();
    side.synchronize().unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![9], vec![5]));
}

fn an_executable_without_slots_gets_some_by_an_update(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(2u32));
    let mut plain = || capture(&stream, || setup.add(&mut word, 1, &stream));
    let (mut exec, mut keeps) = (plain().instantiate().unwrap(), plain().into_exec().unwrap());
    let graph = capture(&stream, || add_slot(setup, &mut word, &value, &stream));
    let strict = exec.update_with(&graph, UpdateOptions::new().strict(true)).unwrap_err();
    assert!(strict.to_string().contains("which nodes of the executable use them"), "{strict}");
    let outcome = exec.update(&graph).unwrap();
    assert_eq!(outcome, Outcome::Rebuilt { reason: UpdateReason::Slots, node: None });
    assert_eq!(keeps.update(&graph).unwrap(), Outcome::Updated { changed: 1 });
    for exec in [&mut exec, &mut keeps] {
        assert_eq!(added(exec, &mut word, &stream), 2);
        exec.set(&value, 3).unwrap();
        assert_eq!(added(exec, &mut word, &stream), 3);
    }
}

fn an_executable_follows_its_own_graph(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(2u32));
    let mut graph =
        capture(&stream, || (0..8).try_for_each(|_| add_slot(setup, &mut word, &value, &stream)));
    let fill = graph.nodes().unwrap()[7].id();
    let mut exec = graph.instantiate().unwrap();
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 0 });
    exec.set(&value, 3).unwrap();
    // Its nodes are changed, so that it does what the graph says again.
    assert_eq!(exec.update(&graph).unwrap(), Outcome::Updated { changed: 8 });
    assert_eq!(added(&exec, &mut word, &stream), 16);
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(100u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { graph.node_mut(fill).unwrap().set_kernel(launch) }.unwrap();
    assert!(matches!(exec.update(&graph).unwrap(), Outcome::Updated { .. }));
    exec.set(&value, 1).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 107);
}

fn nodes_are_named_by_the_graph_all_the_same(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(2u32));
    let mut graph = Graph::new(&setup.context).unwrap();
    let fill = graph.add_fill(FillNode::new(&mut word, 10).unwrap(), &[]).unwrap();
    let kernel = add_node(setup, &mut graph, &mut word, &value, &[fill]);
    let mut exec = graph.instantiate().unwrap();
    let changed = FillNode::new(&mut word, 20).unwrap();
    exec.node_of(&graph, fill).unwrap().set_fill(changed).unwrap();
    exec.set(&value, 5).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [25]);
    exec.node_of(&graph, kernel).unwrap().set_enabled(false).unwrap();
    assert!(!exec.node_of(&graph, kernel).unwrap().is_enabled().unwrap());
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [20]);
    // A node that is off is set too, and stays off.
    exec.set(&value, 6).unwrap();
    exec.node_of(&graph, kernel).unwrap().set_enabled(true).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [26]);
    // Nodes that came later are not the executable's, also with a handle that was another's.
    graph.remove_node(kernel).unwrap();
    let later = graph.add_fill(FillNode::new(&mut word, 1).unwrap(), &[]).unwrap();
    for node in [later, kernel] {
        let changed = exec.node_of(&graph, node).and_then(|mut node| node.set_enabled(false));
        refusal(changed);
    }
    exec.set(&value, 7).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [27]);
}

fn a_node_that_is_changed_by_itself_follows_no_slot(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, value) = (zeroed(setup, 1), Slot::new(1u32));
    let mut graph = Graph::new(&setup.context).unwrap();
    let first = add_node(setup, &mut graph, &mut word, &value, &[]);
    let second = add_node(setup, &mut graph, &mut word, &value, &[first]);
    let add = setup.module.kernel("add").unwrap();
    let child = {
        let mut child = Graph::new(&setup.context).unwrap();
        add_node(setup, &mut child, &mut word, &value, &[]);
        child
    };
    let embedded = graph.add_child(&child, &[second]).unwrap();
    let mut exec = graph.into_exec().unwrap();
    exec.set(&value, 2).unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).slot(&value);
    // SAFETY: `add` takes the address of a word and any value.
    let text = refusal(unsafe { exec.node(first).unwrap().set_kernel(launch) });
    assert!(text.contains("follows no slot"), "{text}");
    let text = refusal(exec.node(embedded).unwrap().set_child(&child));
    assert!(text.contains("follows no slot"), "{text}");
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(100u32);
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { exec.node(first).unwrap().set_kernel(launch) }.unwrap();
    exec.set(&value, 3).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 106);
    let plain = capture(&stream, || setup.add(&mut word, 1_000, &stream));
    exec.node(embedded).unwrap().set_child(&plain).unwrap();
    exec.set(&value, 4).unwrap();
    assert_eq!(added(&exec, &mut word, &stream), 1_104);
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(200u32);
    // SAFETY: as above.
    unsafe { exec.node(second).unwrap().set_kernel(launch) }.unwrap();
    assert!(refusal(exec.set(&value, 5)).contains("no node of the executable"));
    assert_eq!(added(&exec, &mut word, &stream), 1_300);
}

fn a_node_that_is_changed_in_the_graph_uses_other_slots(setup: &Setup) {
    let stream = setup.stream();
    let (mut word, old, new) = (zeroed(setup, 1), Slot::new(1u32), Slot::new(2u32));
    let mut graph = capture(&stream, || add_slot(setup, &mut word, &old, &stream));
    let node = graph.nodes().unwrap()[0].id();
    let add = setup.module.kernel("add").unwrap();
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).slot(&new);
    // SAFETY: `add` takes the address of a word and any value.
    unsafe { graph.node_mut(node).unwrap().set_kernel(launch) }.unwrap();
    for exec in [graph.instantiate(), graph.try_clone().unwrap().into_exec()] {
        let mut exec = exec.unwrap();
        assert!(refusal(exec.set(&old, 5)).contains("no node of the executable"));
        exec.set(&new, 5).unwrap();
        assert_eq!(added(&exec, &mut word, &stream), 5);
    }
    let launch = add.launch_builder(1, 1).arg_mut(&mut word).value(3u32);
    // SAFETY: as above.
    unsafe { graph.node_mut(node).unwrap().set_kernel(launch) }.unwrap();
    let mut exec = graph.into_exec().unwrap();
    assert!(refusal(exec.set(&new, 5)).contains("no node of the executable"));
    assert_eq!(added(&exec, &mut word, &stream), 3);
}
