//! Nodes of memory operations.

use super::build::{read, refusal, run};
use crate::common::{Setup, both_tiers};
use grapture::{
    BatchNode, DeviceBuffer, Graph, MemoryOperation, NodeKind, NodeParams, OperationSpec, WaitFor,
};

both_tiers! {
    words_are_written_and_waited_for_in_order,
    a_wait_holds_what_comes_after,
    a_batch_is_told_back,
    a_batch_is_changed,
    batches_that_cannot_be_are_refused,
    a_batch_keeps_its_words,
}

fn words_are_written_and_waited_for_in_order(setup: &Setup) {
    let context = &setup.context;
    let mut narrow = DeviceBuffer::<u32>::zeroed(context, 4).unwrap();
    let mut wide = DeviceBuffer::<i64>::zeroed(context, 1).unwrap();
    let batch = BatchNode::new(context)
        .write(&mut narrow, 5)
        .and_then(|batch| batch.wait(&narrow, WaitFor::AtLeast(4)))
        .and_then(|batch| batch.write(&mut wide, -2))
        .and_then(|batch| batch.wait(&wide, WaitFor::Equal(-2)))
        .and_then(BatchNode::barrier)
        .and_then(|batch| batch.wait(&narrow, WaitFor::AnyBit(1)))
        .and_then(|batch| batch.wait(&narrow, WaitFor::NoBit(2)))
        .and_then(|batch| batch.write(&mut narrow.view_mut(3..).unwrap(), 7));
    let mut graph = Graph::new(context).unwrap();
    let node = graph.add_batch(batch.unwrap(), &[]).unwrap();
    assert_eq!(graph.node(node).unwrap().kind(), NodeKind::BatchMemOp);
    run(setup, &graph);
    assert_eq!(read(setup, &narrow), [5, 0, 0, 7]);
    assert_eq!(read(setup, &wide), [-2]);
}

fn a_wait_holds_what_comes_after(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut flag = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let wait = BatchNode::new(&setup.context).wait(&flag, WaitFor::Equal(1)).unwrap();
    let wait = graph.add_batch(wait, &[]).unwrap();
    let write = BatchNode::new(&setup.context).write(&mut word, 1).unwrap();
    graph.add_batch(write, &[wait]).unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&other).unwrap(), [0]);
    assert!(!stream.is_idle().unwrap());
    flag.fill(1, &other).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(word.to_vec(&other).unwrap(), [1]);
}

fn a_batch_is_told_back(setup: &Setup) {
    let context = &setup.context;
    let mut narrow = DeviceBuffer::<u32>::zeroed(context, 2).unwrap();
    let mut wide = DeviceBuffer::<u64>::zeroed(context, 1).unwrap();
    let batch = BatchNode::new(context)
        .write(&mut narrow.view_mut(1..).unwrap(), 5)
        .and_then(|batch| batch.wait(&narrow, WaitFor::NoBit(6)))
        .and_then(|batch| batch.write(&mut wide, 1 << 40))
        .and_then(|batch| batch.wait(&wide, WaitFor::AtLeast(1 << 41)))
        .and_then(BatchNode::barrier);
    let mut graph = Graph::new(context).unwrap();
    let node = graph.add_batch(batch.unwrap(), &[]).unwrap();
    let none = graph.add_batch(BatchNode::new(context), &[]).unwrap();
    let (narrow, wide) = (narrow.as_raw(), wide.as_raw());
    assert_eq!(
        graph.node(node).unwrap().params().unwrap(),
        NodeParams::BatchMemOp(vec![
            MemoryOperation::Write32 { address: narrow + 4, value: 5 },
            MemoryOperation::Wait32 { address: narrow, until: Some(WaitFor::NoBit(6)) },
            MemoryOperation::Write64 { address: wide, value: 1 << 40 },
            MemoryOperation::Wait64 { address: wide, until: Some(WaitFor::AtLeast(1 << 41)) },
            MemoryOperation::Barrier
        ])
    );
    assert_eq!(graph.node(none).unwrap().params().unwrap(), NodeParams::BatchMemOp(vec![]));
    assert_eq!(
        graph.topology().unwrap().nodes()[0].operation(),
        &OperationSpec::BatchMemOp { operations: 5 }
    );
}

fn a_batch_is_changed(setup: &Setup) {
    let context = &setup.context;
    let mut words = DeviceBuffer::<u32>::zeroed(context, 2).unwrap();
    let mut graph = Graph::new(context).unwrap();
    let batch = BatchNode::new(context).write(&mut words, 5).unwrap();
    let node = graph.add_batch(batch, &[]).unwrap();
    let batch = BatchNode::new(context).write(&mut words.view_mut(1..).unwrap(), 6);
    graph.node_mut(node).unwrap().set_batch(batch.unwrap()).unwrap();
    let host = graph.add_host(|| {}, &[]).unwrap();
    let refused = graph.node_mut(host).unwrap().set_batch(BatchNode::new(context));
    assert_eq!(
        refusal(refused),
        "node: its kind is `host function`, and the call is for `batch memory operation`"
    );
    run(setup, &graph);
    assert_eq!(read(setup, &words), [0, 6]);
}

fn batches_that_cannot_be_are_refused(setup: &Setup) {
    let context = &setup.context;
    let mut none = DeviceBuffer::<u32>::zeroed(context, 0).unwrap();
    let mut word = DeviceBuffer::<u32>::zeroed(context, 1).unwrap();
    let empty = "batch.word: it has no element of 4 bytes that is aligned to them";
    assert_eq!(refusal(BatchNode::new(context).write(&mut none, 1)), empty);
    assert_eq!(refusal(BatchNode::new(context).wait(&none, WaitFor::Equal(1))), empty);
    let other = Setup::simulated();
    let mut foreign = DeviceBuffer::<u32>::zeroed(&other.context, 1).unwrap();
    let refused = refusal(BatchNode::new(context).write(&mut foreign, 1));
    assert!(refused.starts_with("batch.word: it belongs to another context"), "{refused}");
    let mut graph = Graph::new(context).unwrap();
    let refused = refusal(graph.add_batch(BatchNode::new(&other.context), &[]));
    assert!(refused.starts_with("batch: it belongs to another driver"), "{refused}");
    let mut batch = BatchNode::new(context);
    for value in 0..255 {
        batch = batch.write(&mut word, value).unwrap();
    }
    graph.add_batch(batch, &[]).unwrap();
    let full = (0..255).try_fold(BatchNode::new(context), |batch, _| batch.barrier()).unwrap();
    assert_eq!(refusal(full.barrier()), "batch.len: a batch has at most 255 operations");
    run(setup, &graph);
    assert_eq!(read(setup, &word), [254]);
}

fn a_batch_keeps_its_words(setup: &Setup) {
    let stream = setup.stream();
    let mut word = DeviceBuffer::<u32>::zeroed(&setup.context, 1).unwrap();
    let mut graph = Graph::new(&setup.context).unwrap();
    let batch = BatchNode::new(&setup.context).write(&mut word, 5).unwrap();
    graph.add_batch(batch, &[]).unwrap();
    drop(word);
    let exec = graph.instantiate().unwrap();
    drop(graph);
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}
