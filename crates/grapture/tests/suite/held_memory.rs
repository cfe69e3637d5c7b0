//! How much memory graphs and executables hold.

use crate::common::{Setup, both_tiers};
use grapture::{
    CacheLimits, CaptureMode, DeviceBuffer, FillNode, Graph, GraphCache, GraphPool, HeldMemory,
    PinnedBuffer, RetainedKind,
};

both_tiers! {
    each_kind_of_memory_is_counted_once,
    memory_that_is_used_again_counts_once,
    a_built_allocation_is_counted,
    embedded_graphs_count,
    an_executable_counts_what_it_uses_now,
    a_cache_tells_what_the_driver_needs,
}

const MODE: CaptureMode = CaptureMode::ThreadLocal;

fn buffer(setup: &Setup, len: usize) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, len).unwrap()
}

fn each_kind_of_memory_is_counted_once(setup: &Setup) {
    let stream = setup.stream();
    let mut words = buffer(setup, 1_000);
    let mut pinned = PinnedBuffer::<u32>::zeroed(&setup.context, 500).unwrap();
    let pool = GraphPool::new(&setup.context);
    let graph = stream.capture(MODE, |capture| {
        for _ in 0..2 {
            words.fill(1, &stream)?;
            words.view(..500)?.copy_to_pinned(&mut pinned, &stream)?;
            setup.add(&mut words, 1, &stream)?;
        }
        capture.alloc_scratch::<u32>(&pool, 100)?.fill(1, &stream)?;
        capture.alloc_temporary::<u32>(250)?.fill(1, &stream)?;
        let captured = [7u64; 4];
        stream.host_function(move || assert_eq!(captured[0], 7))?;
        capture.retain([1u8; 10]);
        Ok(())
    });
    let graph = graph.unwrap();
    let held = graph.memory();
    assert_eq!((held.device_bytes, held.pinned_bytes), (4_000, 2_000));
    assert_eq!((held.graph_bytes, held.pool_bytes), (1_000, 512));
    assert_eq!((held.host_bytes, held.modules), (42, 1));
    assert_eq!((held.executable_bytes, held.on_device_bytes()), (None, 5_512));
    let exec = graph.instantiate().unwrap();
    assert_eq!(exec.memory(), held);
    let told = "4000 bytes of device memory, 1000 of the graph's own, 512 of pools, 2000 of pinned \
                memory, 42 on the host, 1 module";
    assert_eq!(held.to_string(), told);
    assert_eq!(Graph::new(&setup.context).unwrap().memory(), HeldMemory::default());
}

fn memory_that_is_used_again_counts_once(setup: &Setup) {
    let stream = setup.stream();
    let pool = GraphPool::new(&setup.context);
    let graph = stream.capture(MODE, |capture| {
        for _ in 0..4 {
            capture.alloc_temporary::<u32>(1024)?.fill(1, &stream)?;
            capture.alloc_scratch::<u32>(&pool, 1024)?.fill(1, &stream)?;
        }
        Ok(())
    });
    let held = graph.unwrap().memory();
    assert_eq!((held.graph_bytes, held.pool_bytes), (4_096, 4_096));
}

fn a_built_allocation_is_counted(setup: &Setup) {
    let mut graph = Graph::new(&setup.context).unwrap();
    let mut memory = graph.add_alloc::<u32>(300, &[]).unwrap();
    let lines = [line!() - 1, line!() + 1];
    graph.add_fill(FillNode::new(&mut memory, 1).unwrap(), &[]).unwrap();
    graph.add_free(&memory, &[]).unwrap();
    assert_eq!(graph.memory().graph_bytes, 1_200);
    assert_eq!(graph.memory().on_device_bytes(), 1_200);
    let retained = graph.retained();
    assert!(retained.iter().all(|held| *held.kind() == RetainedKind::GraphMemory));
    assert!(lines.contains(&retained[0].origin().line()), "{retained:?}");
    assert_eq!(graph.instantiate().unwrap().memory().graph_bytes, 1_200);
}

fn embedded_graphs_count(setup: &Setup) {
    let stream = setup.stream();
    let [mut a, mut b] = [(); 2].map(|()| buffer(setup, 100));
    let pool = GraphPool::new(&setup.context);
    let child = stream.capture(MODE, |capture| {
        capture.alloc_scratch::<u32>(&pool, 1024)?.fill(1, &stream)?;
        a.fill(1, &stream)
    });
    let child = child.unwrap();
    let graph = stream.capture(MODE, |capture| {
        capture.alloc_scratch::<u32>(&pool, 256)?.fill(1, &stream)?;
        capture.embed(&child)?;
        capture.embed(&child)?;
        b.fill(1, &stream)
    });
    let held = graph.unwrap().memory();
    assert_eq!((held.device_bytes, held.pool_bytes), (800, 4_096));
}

fn an_executable_counts_what_it_uses_now(setup: &Setup) {
    let stream = setup.stream();
    let [mut small, mut large] = [100, 1_000].map(|len| buffer(setup, len));
    let first = stream.capture(MODE, |_| small.fill(1, &stream)).unwrap();
    let second = stream.capture(MODE, |_| large.fill(1, &stream)).unwrap();
    let mut exec = first.instantiate().unwrap();
    assert_eq!(exec.memory().device_bytes, 400);
    exec.update(&second).unwrap();
    assert_eq!(exec.memory().device_bytes, 4_000);
    assert_eq!(first.memory().device_bytes, 400);
}

fn a_cache_tells_what_the_driver_needs(setup: &Setup) {
    let stream = setup.stream();
    let mut words = buffer(setup, 100);
    let cache = GraphCache::<u32>::new(&setup.context, CacheLimits::new());
    let exec = cache.get_or_capture(1, &stream, |_| words.fill(1, &stream)).unwrap();
    let held = exec.memory();
    assert_eq!(held.device_bytes, 400);
    let executable = held.executable_bytes.expect("it was measured");
    assert!(executable <= cache.counters().bytes);
    assert_eq!(held.on_device_bytes(), 400 + executable);
}
