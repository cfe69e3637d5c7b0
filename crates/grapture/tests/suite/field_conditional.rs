//! What users of conditional nodes reported, and of the order of joins and warm-ups, each as the
//! behaviour that is right: `docs/field-reports.md` has the list.

use super::conditional::{MODE, captured, run, words};
use crate::common::{Setup, both_tiers};
use grapture::{CudaError, Event, NodeKind, WordCondition};

both_tiers! {
    an_allocation_in_a_body_is_named,
    a_loop_runs_exactly_so_many_rounds,
    the_order_of_joins_is_kept,
    the_stream_of_a_warm_up_is_forgotten,
}

/// By another library, that is, which has the raw handle of the body's stream.
fn an_allocation_in_a_body_is_named(setup: &Setup) {
    let (stream, flag, mut word) = (setup.stream(), words(setup, &[1]), words(setup, &[0]));
    let failed = stream.capture(MODE, |capture| {
        capture.if_(&WordCondition::new(&flag)?, |body| {
            setup.add(&mut word, 1, body.stream())?;
            let (mut address, raw) = (0, body.stream().as_raw());
            let functions = setup.driver.as_raw().functions();
            // SAFETY: a live stream, and a live out-pointer.
            let code = unsafe { (functions.cuMemAllocAsync)(&mut address, 256, raw) };
            assert_eq!(code.0, 0);
            // SAFETY: the same, and memory that was just allocated.
            let code = unsafe { (functions.cuMemFreeAsync)(address, raw) };
            assert_eq!(code.0, 0);
            Ok(())
        })
    });
    let Err(CudaError::Refused(refusal)) = failed else { panic!("{failed:?}") };
    let text = refusal.to_string();
    assert!(
        text.starts_with("body: its node 1, a memory allocation, cannot be in the body"),
        "{text}"
    );
    setup.assert_usable(&stream);
    // And by this one.
    let failed = stream.capture(MODE, |capture| {
        capture.if_(&WordCondition::new(&flag)?, |body| body.alloc_temporary::<u32>(16).map(|_| ()))
    });
    let Err(CudaError::Refused(refusal)) = failed else { panic!("{failed:?}") };
    assert!(refusal.to_string().contains("memory"), "{refusal}");
    setup.assert_usable(&stream);
}

fn a_loop_runs_exactly_so_many_rounds(setup: &Setup) {
    let (stream, mut left, mut rounds) = (setup.stream(), words(setup, &[0]), words(setup, &[0]));
    let condition = WordCondition::new(&left).unwrap();
    let exec = captured(&stream, |capture| {
        capture.while_(&condition, |body| {
            setup.add(&mut left, u32::MAX, body.stream())?;
            setup.add(&mut rounds, 1, body.stream())
        })
    });
    let mut sum = 0;
    for count in [0, 1, 2, 100, 0] {
        left.fill(count, &stream).unwrap();
        sum += count;
        assert_eq!(run(&exec, &stream, &rounds), sum);
        assert_eq!(left.to_vec(&stream).unwrap(), [0]);
    }
}

/// The driver lays out the lanes of a replay by the order of the dependencies.
fn the_order_of_joins_is_kept(setup: &Setup) {
    let [stream, left, right] = [(); 3].map(|()| setup.stream());
    let mut of = words(setup, &[0; 4]);
    for swapped in [false, true] {
        let ends = [(); 2].map(|()| Event::new(&setup.context).unwrap());
        let graph = stream.capture(MODE, |_| {
            let fork = Event::new(&setup.context)?;
            of.view_mut(..1)?.fill(0, &stream)?;
            fork.record(&stream)?;
            for (index, side) in [&left, &right].into_iter().enumerate() {
                fork.wait(side)?;
                of.view_mut(index + 1..index + 2)?.fill(index as u32 + 1, side)?;
                ends[index].record(side)?;
            }
            let order = if swapped { [1, 0] } else { [0, 1] };
            order.into_iter().try_for_each(|end| ends[end].wait(&stream))?;
            stream.host_function(|| {})
        });
        let graph = graph.unwrap();
        let nodes = graph.nodes().unwrap();
        let last = nodes.iter().find(|node| node.kind() == NodeKind::Host).unwrap();
        let waits = graph.node(last.id()).unwrap().dependencies().unwrap();
        // After its own stream's last node come the others, as they were waited for.
        let place = |node| nodes.iter().position(|known| known.id() == node).unwrap();
        let places: Vec<usize> = waits.iter().map(|(node, _)| place(*node)).collect();
        let joined: Vec<usize> = places.into_iter().filter(|place| *place > 0).collect();
        assert_eq!(joined, if swapped { [2, 1] } else { [1, 2] });
    }
}

fn the_stream_of_a_warm_up_is_forgotten(setup: &Setup) {
    let (warm, stream) = (setup.stream(), setup.stream());
    let mut word = words(setup, &[0]);
    let kernel = setup.module.kernel("add").unwrap();
    let mut work = |stream: &grapture::Stream| {
        let launch = kernel.launch_builder(1, 1).arg_mut(&mut word).value(1u32);
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { launch.launch(stream) }
    };
    work(&warm).unwrap();
    warm.synchronize().unwrap();
    let graph = stream.capture(MODE, |_| {
        work(&stream)?;
        assert!(!warm.is_capturing());
        // Nothing of the capture waits for it, and it runs on.
        warm.synchronize()
    });
    let graph = graph.unwrap();
    assert_eq!(graph.node_count().unwrap(), 1);
    drop(warm);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}
