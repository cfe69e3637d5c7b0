//! Pools in the parts of graphs: bodies of conditional nodes, children, embedded graphs.

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use crate::graph_pool::{LEN, MODE, add, buffer, by_way_of, is_before, kinds, refusal};
use grapture::{DeviceBuffer, Graph, GraphPool, NodeKind, WordCondition};

checked_tiers! {
    scratch_is_used_in_bodies,
    a_body_takes_no_memory_that_it_cannot_wait_for,
    bodies_nest_with_scratch,
    an_embedded_graph_takes_what_it_needs,
    graphs_of_a_pool_are_embedded_side_by_side,
    children_of_a_capture_share_the_pool,
    a_built_graph_has_one_node_for_a_pool,
}

fn scratch_is_used_in_bodies(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let wanted = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = WordCondition::new(&wanted).unwrap();
    let mut addresses = Vec::new();
    let graph = stream.capture(MODE, |capture| {
        let mut around = capture.alloc_scratch::<u32>(&pool, LEN)?;
        around.fill(1, &stream)?;
        capture.if_(&condition, |body| {
            let mut inside = body.alloc_scratch::<u32>(&pool, LEN)?;
            addresses.extend([around.as_raw(), inside.as_raw()]);
            inside.copy_from(&around, body.stream())?;
            add(setup, &mut inside, body.stream())?;
            around.copy_from(&inside, body.stream())
        })?;
        let mut behind = capture.alloc_scratch::<u32>(&pool, LEN)?;
        addresses.push(behind.as_raw());
        behind.copy_from(&around, &stream)?;
        out.copy_from(&behind, &stream)
    });
    let graph = graph.unwrap();
    assert_ne!(addresses[0], addresses[1], "what is live stays apart from the body's");
    assert_eq!(addresses[1], addresses[2], "and what was the body's is there behind it");
    let exec = graph.instantiate().unwrap();
    drop((graph, pool));
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[..2], [2, 1]);
}

/// A body cannot wait for a stream beside that of its node.
fn a_body_takes_no_memory_that_it_cannot_wait_for(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let wanted = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = WordCondition::new(&wanted).unwrap();
    let graph = stream.capture(MODE, |capture| {
        stream.fork(&[&side], || {
            let mut beside = capture.alloc_scratch::<u32>(&pool, LEN)?;
            let low = beside.as_raw();
            beside.fill(1, &side)?;
            a.copy_from(&beside, &side)?;
            drop(beside);
            let mut here = capture.alloc_scratch::<u32>(&pool, LEN)?;
            assert_eq!(here.as_raw(), low);
            capture.if_(&condition, |body| {
                let mut inside = body.alloc_scratch::<u32>(&pool, LEN)?;
                assert_ne!(inside.as_raw(), low);
                let told = refusal(here.fill(2, body.stream()));
                assert!(told.contains("in an order that this place cannot come after"), "{told}");
                inside.fill(3, body.stream())?;
                b.copy_from(&inside, body.stream())
            })?;
            // After a use on the node's stream the body can have it.
            here.fill(4, &stream)?;
            capture
                .if_(&condition, |body| b.view_mut(1..)?.copy_from(&here.view(1..)?, body.stream()))
        })
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap(), [1; LEN]);
    assert_eq!(b.to_vec(&stream).unwrap()[..2], [3, 4]);
}

fn bodies_nest_with_scratch(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let wanted = DeviceBuffer::from_slice(&setup.context, &[1u32]).unwrap();
    let condition = WordCondition::new(&wanted).unwrap();
    let graph = stream.capture(MODE, |capture| {
        capture.if_else(
            &condition,
            |then| {
                let mut outer = then.alloc_scratch::<u32>(&pool, LEN)?;
                outer.fill(1, then.stream())?;
                then.if_(&condition, |body| {
                    let mut inner = body.alloc_scratch::<u32>(&pool, LEN)?;
                    inner.copy_from(&outer, body.stream())?;
                    add(setup, &mut inner, body.stream())?;
                    out.copy_from(&inner, body.stream())
                })?;
                let mut again = then.alloc_scratch::<u32>(&pool, LEN)?;
                again.fill(7, then.stream())?;
                outer.view_mut(1..)?.copy_from(&again.view(1..)?, then.stream())?;
                out.view_mut(1..)?.copy_from(&outer.view(1..)?, then.stream())
            },
            |otherwise| {
                let mut scratch = otherwise.alloc_scratch::<u32>(&pool, LEN)?;
                scratch.fill(9, otherwise.stream())
            },
        )
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[..2], [2, 7]);
}

fn an_embedded_graph_takes_what_it_needs(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let [mut inner, mut out] = [(); 2].map(|()| buffer(setup));
    let child = by_way_of(&pool, 5, &mut inner, &stream);
    let graph = stream.capture(MODE, |capture| {
        let mut scratch = capture.alloc_scratch::<u32>(&pool, LEN)?;
        scratch.fill(1, &stream)?;
        let told = refusal(capture.embed(&child));
        assert!(told.contains("scratch of this capture is in"), "{told}");
        drop(scratch);
        capture.embed(&child)?;
        let mut scratch = capture.alloc_scratch::<u32>(&pool, LEN)?;
        scratch.fill(2, &stream)?;
        out.copy_from(&scratch, &stream)
    });
    let graph = graph.unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [2; LEN]);
    assert_eq!(inner.to_vec(&stream).unwrap(), [5; LEN]);
    // It counts as a graph of the pool for those that it is embedded in.
    let outer = stream.capture(MODE, |capture| {
        let kept = capture.alloc_scratch::<u32>(&pool, LEN)?;
        assert!(refusal(capture.embed(&graph)).contains("pool"));
        drop(kept);
        capture.embed(&graph)
    });
    outer.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

fn graphs_of_a_pool_are_embedded_side_by_side(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let one = by_way_of(&pool, 1, &mut a, &stream);
    let two = by_way_of(&pool, 2, &mut b, &stream);
    let graph = stream.capture(MODE, |_| {
        stream.fork(&[&side], || {
            one.embed(&stream)?;
            two.embed(&side)
        })
    });
    let graph = graph.unwrap();
    assert_eq!(kinds(&graph), [NodeKind::ChildGraph; 2]);
    assert!(is_before(&graph, 0, 1));
    let exec = graph.instantiate().unwrap();
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (1, 2));
}

/// A part that is captured as a child stays apart from what is alive around it.
fn children_of_a_capture_share_the_pool(setup: &Setup) {
    let [stream, side] = [(); 2].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let mut addresses = Vec::new();
    let mut again = None;
    let graph = stream.capture(MODE, |capture| {
        let mut around = capture.alloc_scratch::<u32>(&pool, LEN)?;
        around.fill(1, &stream)?;
        let child = capture.child("block", |inner| {
            let mut inside = inner.alloc_scratch::<u32>(&pool, LEN)?;
            addresses.extend([around.as_raw(), inside.as_raw()]);
            inside.copy_from(&around, inner.stream())?;
            add(setup, &mut inside, inner.stream())?;
            around.copy_from(&inside, inner.stream())
        })?;
        let mut behind = capture.alloc_scratch::<u32>(&pool, LEN)?;
        addresses.push(behind.as_raw());
        behind.copy_from(&around, &stream)?;
        out.copy_from(&behind, &stream)?;
        // Its own memory is in use now, which it would overwrite.
        assert!(refusal(capture.embed(&child)).contains("scratch of this capture"));
        drop(behind);
        stream.fork(&[&side], || child.embed(&side))?;
        again = Some(child);
        Ok(())
    });
    let graph = graph.unwrap();
    assert_ne!(addresses[0], addresses[1]);
    assert_eq!(addresses[1], addresses[2]);
    assert!(is_before(&graph, 3, 4), "the second child waits for who has used its memory");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[..2], [2, 1]);
    let told = refusal(stream.capture(MODE, |_| {
        stream.as_child("block", |inner| {
            let mut into = Graph::new(&setup.context)?;
            inner.capture_into(&mut into, &[], MODE, |_| Ok(())).map(drop)
        })
    }));
    assert!(told.contains("capturing already"), "{told}");
    again.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

/// Nothing orders two nodes of a built graph but what the program names.
fn a_built_graph_has_one_node_for_a_pool(setup: &Setup) {
    let stream = setup.stream();
    let (pool, other) = (GraphPool::new(&setup.context), GraphPool::new(&setup.context));
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let one = by_way_of(&pool, 1, &mut a, &stream);
    let two = by_way_of(&pool, 2, &mut a, &stream);
    let apart = by_way_of(&other, 3, &mut b, &stream);
    let mut graph = Graph::new(&setup.context).unwrap();
    let node = graph.add_child(&one, &[]).unwrap();
    let told = refusal(graph.add_child(&two, &[]));
    assert!(told.contains("nothing orders the two"), "{told}");
    assert!(refusal(graph.add_child_moved(two.try_clone().unwrap(), &[])).contains("pool"));
    let second = graph.add_child(&apart, &[]).unwrap();
    assert!(refusal(graph.node_mut(second).unwrap().set_child(&two)).contains("pool"));
    graph.node_mut(node).unwrap().set_child(&two).unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (2, 3));
    let told = refusal(exec.node_of(&graph, second).unwrap().set_child(&one));
    assert!(told.contains("pool"), "{told}");
    exec.node_of(&graph, node).unwrap().set_child(&one).unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(a.to_vec(&stream).unwrap()[0], 1);
    // A capture into a graph cannot order it either.
    let into = stream.capture_into(&mut graph, &[], MODE, |capture| {
        assert!(refusal(capture.embed(&two)).contains("pool"));
        assert!(refusal(capture.alloc_scratch::<u32>(&pool, 1)).contains("pool"));
        Ok(())
    });
    into.unwrap();
}
