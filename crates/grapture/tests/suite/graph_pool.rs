//! Pools: memory that graphs share which never run at once.

use crate::common::Setup;
use crate::common::checked::checked_tiers;
use grapture::{
    Buckets, CacheLimits, CaptureMode, CudaError, CudaResult, DeviceBuffer, DeviceSliceMut,
    FillNode, Graph, GraphCache, GraphExec, GraphPool, InstantiateFlags, InstantiateOptions,
    NodeId, NodeKind, Outcome, RetainedKind, Scratch, Stream, StreamGraphCapture,
};

checked_tiers! {
    graphs_share_the_memory,
    scratch_is_used_again_within_a_capture,
    another_stream_waits_for_who_used_the_memory,
    what_is_not_used_orders_nothing,
    work_in_another_order_gets_other_memory,
    what_orders_the_memory_stays,
    clones_updates_and_profiles_use_the_pool,
    an_executable_changes_to_and_from_a_pool,
    a_cache_shares_a_pool,
    a_bounded_pool_says_what_is_missing,
    a_large_piece_is_reserved,
    scratch_of_nothing_takes_nothing,
    scratch_is_refused_outside_its_capture,
    a_graph_tells_what_it_uses,
}

pub(super) const LEN: usize = 1_000;
const MIB: usize = 1 << 20;
const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
pub(super) const MODE: CaptureMode = CaptureMode::ThreadLocal;

#[track_caller]
pub(super) fn refusal<T: std::fmt::Debug>(result: CudaResult<T>) -> String {
    match result {
        Err(CudaError::Refused(refusal)) => refusal.to_string(),
        other => panic!("it is not refused: {other:?}"),
    }
}

pub(super) fn buffer(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, LEN).unwrap()
}

/// A graph that fills scratch with a value and copies that to `out`.
pub(super) fn by_way_of(
    pool: &GraphPool,
    value: u32,
    out: &mut DeviceBuffer<u32>,
    stream: &Stream,
) -> Graph {
    let graph = stream.capture(MODE, |capture| {
        let mut scratch = capture.alloc_scratch::<u32>(pool, LEN)?;
        scratch.fill(value, stream)?;
        out.copy_from(&scratch, stream)
    });
    graph.unwrap()
}

pub(super) fn add(
    setup: &Setup,
    word: &mut impl DeviceSliceMut<u32>,
    stream: &Stream,
) -> CudaResult<()> {
    let kernel = setup.module.kernel("add").unwrap();
    // SAFETY: `add` takes the address of a word and a value.
    unsafe { kernel.launch_builder(1, 1).arg_mut(word).value(1u32).launch(stream) }
}

pub(super) fn kinds(graph: &Graph) -> Vec<NodeKind> {
    graph.nodes().unwrap().iter().map(|node| node.kind()).collect()
}

fn ids(graph: &Graph) -> Vec<NodeId> {
    graph.nodes().unwrap().iter().map(|node| node.id()).collect()
}

/// Whether the graph orders the node with one number before that with the other.
pub(super) fn is_before(graph: &Graph, first: usize, then: usize) -> bool {
    let (ids, edges) = (ids(graph), graph.edges().unwrap());
    let (mut reached, mut next) = (vec![ids[first]], vec![ids[first]]);
    while let Some(node) = next.pop() {
        for edge in edges.iter().filter(|edge| edge.from() == node) {
            if !reached.contains(&edge.to()) {
                reached.push(edge.to());
                next.push(edge.to());
            }
        }
    }
    reached.contains(&ids[then])
}

fn graphs_share_the_memory(setup: &Setup) {
    for mode in MODES {
        let stream = setup.stream();
        let pool = GraphPool::new(&setup.context);
        assert_eq!(pool.allocated_bytes(), 0);
        let (mut out, mut addresses) = (buffer(setup), Vec::new());
        let execs: Vec<GraphExec> = (1..=3)
            .map(|value| {
                let graph = stream.capture(mode, |capture| {
                    let mut scratch = capture.alloc_scratch::<u32>(&pool, LEN)?;
                    addresses.push(scratch.as_raw());
                    scratch.fill(value, &stream)?;
                    scratch.view_mut(1..)?.fill(10 * value, &stream)?;
                    out.copy_from(&scratch, &stream)
                });
                let graph = graph.unwrap();
                let fill = NodeKind::Memset;
                assert_eq!(kinds(&graph), [fill, fill, NodeKind::Memcpy], "{mode:?}");
                graph.instantiate().unwrap()
            })
            .collect();
        assert!(addresses.windows(2).all(|pair| pair[0] == pair[1]), "{addresses:?}");
        assert_eq!(pool.allocated_bytes(), 2 * MIB);
        for value in [3, 1, 2, 2] {
            execs[value as usize - 1].launch(&stream).unwrap();
            let expected = [vec![value], vec![10 * value; LEN - 1]].concat();
            assert_eq!(out.to_vec(&stream).unwrap(), expected, "{mode:?}");
        }
    }
}

fn scratch_is_used_again_within_a_capture(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let graph = stream.capture(MODE, |capture| {
        let mut first = capture.alloc_scratch::<u32>(&pool, LEN)?;
        let mut second = capture.alloc_scratch::<u32>(&pool, LEN)?;
        let (low, high) = (first.as_raw(), second.as_raw());
        assert!(low + 4 * LEN as u64 <= high);
        first.fill(1, &stream)?;
        drop(first);
        let mut third = capture.alloc_scratch::<u32>(&pool, LEN / 2)?;
        assert_eq!(third.as_raw(), low);
        third.fill(2, &stream)?;
        second.fill(3, &stream)?;
        second.view_mut(..LEN / 2)?.copy_from(&third, &stream)?;
        out.copy_from(&second, &stream)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    let expected = [[2; LEN / 2], [3; LEN / 2]].concat();
    assert_eq!(out.to_vec(&stream).unwrap(), expected);
}

/// Two streams of a capture run side by side: memory that the one has used is there for the other
/// only behind that.
fn another_stream_waits_for_who_used_the_memory(setup: &Setup) {
    let [stream, left, right] = [(); 3].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let graph = stream.capture(MODE, |capture| {
        stream.fork(&[&left, &right], || {
            let mut first = capture.alloc_scratch::<u32>(&pool, LEN)?;
            first.fill(1, &left)?; // node 0
            a.copy_from(&first, &left)?; // node 1
            let low = first.as_raw();
            drop(first);
            let mut second = capture.alloc_scratch::<u32>(&pool, LEN)?;
            assert_eq!(second.as_raw(), low);
            second.fill(2, &right)?; // node 2
            b.copy_from(&second, &right)?; // node 3
            drop(second);
            // The same stream needs no wait, and the other one waits again.
            let mut third = capture.alloc_scratch::<u32>(&pool, LEN)?;
            third.fill(3, &right)?; // node 4
            a.copy_from(&third, &left) // node 5
        })
    });
    let graph = graph.unwrap();
    assert!(is_before(&graph, 1, 2) && is_before(&graph, 3, 4));
    let ids = ids(&graph);
    let into_third = graph.edges().unwrap().into_iter().filter(|edge| edge.to() == ids[4]);
    assert_eq!(into_third.count(), 1);
    drop(graph);

    let graph = stream.capture(MODE, |capture| {
        stream.fork(&[&left, &right], || {
            for value in 1..=4 {
                let mut scratch = capture.alloc_scratch::<u32>(&pool, LEN)?;
                let (on, out) = if value % 2 == 0 { (&left, &mut a) } else { (&right, &mut b) };
                scratch.fill(value, on)?;
                out.copy_from(&scratch, on)?;
            }
            Ok(())
        })
    });
    let exec = graph.unwrap().instantiate().unwrap();
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(a.to_vec(&stream).unwrap(), [4; LEN]);
    assert_eq!(b.to_vec(&stream).unwrap(), [3; LEN]);
}

fn what_is_not_used_orders_nothing(setup: &Setup) {
    let [stream, left, right] = [(); 3].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let graph = stream.capture(MODE, |capture| {
        stream.fork(&[&left, &right], || {
            drop(capture.alloc_scratch::<u32>(&pool, LEN)?);
            let mut one = capture.alloc_scratch::<u32>(&pool, LEN)?;
            let mut other = capture.alloc_scratch::<u32>(&pool, LEN)?;
            one.fill(1, &left)?;
            a.copy_from(&one, &left)?;
            other.fill(2, &right)?;
            b.copy_from(&other, &right)
        })
    });
    let graph = graph.unwrap();
    assert_eq!(graph.edges().unwrap().len(), 2);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (1, 2));
}

/// Whatever dependencies are set, no two pieces share memory without an order.
fn work_in_another_order_gets_other_memory(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let child = by_way_of(&pool, 5, &mut a, &stream);
    let graph = stream.capture(MODE, |capture| {
        let begin = capture.add_empty(&[])?;
        capture.set_dependencies(&[begin])?;
        let mut first = capture.alloc_scratch::<u32>(&pool, LEN)?;
        first.fill(1, &stream)?;
        a.copy_from(&first, &stream)?;
        let told = refusal(capture.set_dependencies(&[begin]));
        assert!(told.contains("scratch of the capture is alive"), "{told}");
        let low = first.as_raw();
        drop(first);
        let left = capture.dependencies()?;
        capture.set_dependencies(&[begin])?;
        let mut second = capture.alloc_scratch::<u32>(&pool, LEN)?;
        assert_ne!(second.as_raw(), low);
        second.fill(2, &stream)?;
        b.copy_from(&second, &stream)?;
        drop(second);
        capture.add_dependencies(&left)?;
        assert!(refusal(capture.embed(&child)).contains("before dependencies were set"));
        assert!(refusal(capture.add_child(&child, &[])).contains("embed"));
        // What was used since is used again.
        assert_ne!(capture.alloc_scratch::<u32>(&pool, LEN)?.as_raw(), low);
        Ok(())
    });
    let graph = graph.unwrap();
    assert!(!is_before(&graph, 1, 3) && !is_before(&graph, 3, 1));
    let exec = graph.instantiate().unwrap();
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
    }
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (1, 2));
}

fn what_orders_the_memory_stays(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let mut graph = by_way_of(&pool, 1, &mut out, &stream);
    let ids = ids(&graph);
    let told = refusal(graph.remove_dependency(ids[0], ids[1]));
    assert!(told.contains("memory of a pool"), "{told}");
    assert!(refusal(graph.remove_node(ids[1])).contains("memory of a pool"));
    let launched = InstantiateOptions::new().flags(InstantiateFlags::DEVICE_LAUNCH);
    assert!(refusal(graph.instantiate_with(&launched)).contains("the device cannot launch it"));
    graph.add_fill(FillNode::new(&mut out.view_mut(..1).unwrap(), 7).unwrap(), &ids[1..]).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap()[..2], [7, 1]);
}

fn clones_updates_and_profiles_use_the_pool(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup));
    let graph = by_way_of(&pool, 1, &mut a, &stream);
    let clone = graph.try_clone().unwrap();
    let (mut exec, copy) = (graph.instantiate().unwrap(), clone.instantiate().unwrap());
    let second = by_way_of(&pool, 2, &mut b, &stream);
    drop((graph, clone));
    for _ in 0..5 {
        exec.launch(&stream).unwrap();
        copy.launch(&other).unwrap();
    }
    assert_eq!(exec.update(&second).unwrap(), Outcome::Updated { changed: 2 });
    for _ in 0..5 {
        exec.launch(&stream).unwrap();
        copy.launch(&other).unwrap();
    }
    second.profile(&other, 2).unwrap();
    setup.context.synchronize().unwrap();
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (1, 2));
}

fn an_executable_changes_to_and_from_a_pool(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let [mut a, mut b, mut own] = [(); 3].map(|()| buffer(setup));
    let pool = GraphPool::new(&setup.context);
    let plain = stream.capture(MODE, |_| {
        own.fill(1, &stream)?;
        a.copy_from(&own, &stream)
    });
    let (plain, pooled) = (plain.unwrap(), by_way_of(&pool, 2, &mut a, &stream));
    let beside = by_way_of(&pool, 3, &mut b, &stream).instantiate().unwrap();
    let mut exec = plain.instantiate().unwrap();
    for _ in 0..3 {
        exec.launch(&other).unwrap();
        exec.update(&pooled).unwrap();
        exec.launch(&stream).unwrap();
        beside.launch(&other).unwrap();
        exec.update(&plain).unwrap();
    }
    exec.launch(&other).unwrap();
    setup.context.synchronize().unwrap();
    assert_eq!((a.to_vec(&stream).unwrap()[0], b.to_vec(&stream).unwrap()[0]), (1, 3));
}

fn a_cache_shares_a_pool(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let cache = GraphCache::<usize>::new(&setup.context, CacheLimits::new().entries(2));
    let mut out = buffer(setup);
    let buckets = Buckets::powers_of_two(512);
    for len in [300, 5, 200, 512, 5, 17, 300] {
        let bucket = buckets.fit(len).unwrap();
        let exec = cache.get_or_capture(bucket, &stream, |capture| {
            let mut scratch = capture.alloc_scratch::<u32>(&pool, bucket)?;
            scratch.fill(bucket as u32, &stream)?;
            out.view_mut(..bucket)?.copy_from(&scratch, &stream)
        });
        exec.unwrap().launch(&stream).unwrap();
        assert_eq!(out.to_vec(&stream).unwrap()[bucket - 1], bucket as u32);
    }
    assert_eq!(pool.allocated_bytes(), 2 * MIB);
}

fn a_bounded_pool_says_what_is_missing(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::bounded(&setup.context, 4096);
    let mut out = DeviceBuffer::<u8>::zeroed(&setup.context, 1024).unwrap();
    let graph = stream.capture(MODE, |capture| {
        let mut first = capture.alloc_scratch::<u8>(&pool, 1024)?;
        let second = capture.alloc_scratch::<u8>(&pool, 3000)?;
        let told = refusal(capture.alloc_scratch::<u8>(&pool, 1));
        let expected = "512 bytes more are needed, and of the 4096 that it may take it has 4096";
        assert!(told.contains(expected), "{told}");
        drop(second);
        drop(capture.alloc_scratch::<u8>(&pool, 3000)?);
        assert!(refusal(pool.reserve(4097)).contains("of the 4096"));
        pool.reserve(4096)?;
        first.fill(1, &stream)?;
        out.copy_from(&first, &stream)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [1; 1024]);
    assert_eq!(pool.allocated_bytes(), 4096);
}

fn a_large_piece_is_reserved(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    pool.reserve(3 * MIB).unwrap();
    pool.reserve(0).unwrap();
    assert_eq!(pool.allocated_bytes(), 4 * MIB);
    let graph = stream.capture(CaptureMode::Global, |capture| {
        let small = capture.alloc_scratch::<u8>(&pool, 1)?;
        let large = capture.alloc_scratch::<u8>(&pool, 3 * MIB)?;
        assert_eq!(large.as_raw() - small.as_raw(), 512);
        // More than there is left: another piece is taken while the stream captures.
        let mut more = capture.alloc_scratch::<u8>(&pool, 2 * MIB)?;
        assert_eq!(pool.allocated_bytes(), 8 * MIB);
        more.fill(1, &stream)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    pool.reserve(4 * MIB).unwrap();
    assert_eq!(pool.allocated_bytes(), 8 * MIB);
    stream.synchronize().unwrap();
}

fn scratch_of_nothing_takes_nothing(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let graph = stream.capture(MODE, |capture| {
        let mut none: Scratch<'_, u32> = capture.alloc_scratch(&pool, 0)?;
        assert_eq!((none.len(), none.as_raw(), none.is_empty()), (0, 0, true));
        assert!(refusal(capture.alloc_scratch::<u32>(&pool, usize::MAX)).contains("address space"));
        none.fill(1, &stream)
    });
    assert_eq!(graph.unwrap().node_count().unwrap(), 0);
    assert_eq!(pool.allocated_bytes(), 0);
}

fn scratch_is_refused_outside_its_capture(setup: &Setup) {
    let [stream, other] = [(); 2].map(|()| setup.stream());
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let mut elsewhere = Graph::new(&setup.context).unwrap();
    let inside = |capture: &StreamGraphCapture<'_>| {
        let mut scratch = capture.alloc_scratch::<u32>(&pool, LEN)?;
        scratch.fill(1, &stream)?;
        let told = refusal(scratch.fill(2, &other));
        assert!(told.contains("only within the graph that is being captured"), "{told}");
        assert!(refusal(scratch.fill(2, &Stream::per_thread(&setup.context))).contains("capture"));
        assert!(refusal(scratch.to_vec(&other)).contains("capture"));
        let node = FillNode::new(&mut scratch, 2)?;
        assert!(refusal(elsewhere.add_fill(node, &[])).contains("capture"));
        let second = other.capture(MODE, |_| scratch.fill(2, &other));
        assert!(refusal(second).contains("capture"));
        out.copy_from(&scratch, &stream)
    };
    let exec = stream.capture(MODE, inside).unwrap().instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), [1; LEN]);
}

fn a_graph_tells_what_it_uses(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let mut out = buffer(setup);
    let graph = by_way_of(&pool, 1, &mut out, &stream);
    let of_pool = |graph: &Graph| {
        let retained = graph.retained().into_iter();
        let list: Vec<_> =
            retained.filter(|held| *held.kind() == RetainedKind::PoolMemory).collect();
        assert_eq!(list.len(), 1);
        assert!(list[0].origin().file().ends_with("graph_pool.rs"));
        list[0].bytes()
    };
    assert_eq!(of_pool(&graph), 4096);
    drop(pool);
    assert_eq!(of_pool(&graph), 4096);
}
