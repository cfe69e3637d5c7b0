//! What the driver's own pools have: that of graphs, and that of stream-ordered allocations.

use crate::common::{Setup, both_tiers};
use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Driver, GraphExec, MemoryPool, Stream,
};
use grapture_sim::SimConfig;

both_tiers! {
    graphs_on_one_stream_share_what_they_allocate,
    the_marks_of_graphs_are_reset,
    the_default_pool_tells_what_it_has,
    a_pool_keeps_what_its_threshold_says,
    pools_are_no_matter_of_captures,
    pools_need_no_current_context,
}

const MIB: usize = 1 << 20;
/// What the driver takes for graphs at once (measured).
const PIECE: usize = 32 * MIB;

/// A graph that allocates so much in each launch, and frees it.
fn allocating(stream: &Stream, bytes: usize) -> GraphExec {
    let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
        let mut temporary = capture.alloc_temporary::<u8>(bytes)?;
        temporary.view_mut(..16)?.fill(1, stream)
    });
    graph.unwrap().instantiate().unwrap()
}

/// Nothing is reserved for graphs, and the marks say so.
fn clear(setup: &Setup) {
    let device = setup.context.device();
    setup.driver.reclaim();
    setup.context.synchronize().unwrap();
    device.trim_graph_memory().unwrap();
    device.reset_graph_memory_high().unwrap();
}

fn graphs_on_one_stream_share_what_they_allocate(setup: &Setup) {
    clear(setup);
    let (stream, device) = (setup.stream(), setup.context.device());
    let before = device.graph_memory().unwrap().reserved_bytes;
    let execs = [(); 3].map(|()| allocating(&stream, 40 * MIB));
    for exec in execs.iter().chain(&execs) {
        exec.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    let used = device.graph_memory().unwrap();
    assert_eq!(used.reserved_bytes - before, 2 * PIECE, "{used}");
    drop(execs);
    clear(setup);
    assert_eq!(device.graph_memory().unwrap().reserved_bytes, before);
}

fn the_marks_of_graphs_are_reset(setup: &Setup) {
    clear(setup);
    let (stream, device) = (setup.stream(), setup.context.device());
    let before = device.graph_memory().unwrap();
    allocating(&stream, MIB).launch(&stream).unwrap();
    stream.synchronize().unwrap();
    device.trim_graph_memory().unwrap();
    let after = device.graph_memory().unwrap();
    assert_eq!(after.reserved_high_bytes, before.reserved_bytes + PIECE);
    assert!(after.reserved_bytes <= after.reserved_high_bytes);
    assert!(after.used_high_bytes >= after.used_bytes);
    clear(setup);
    let reset = device.graph_memory().unwrap();
    assert_eq!(reset.reserved_high_bytes, reset.reserved_bytes);
    assert_eq!(reset.used_high_bytes, reset.used_bytes);
    let text = reset.to_string();
    assert!(text.contains("bytes in use") && text.contains("reserved"), "{text}");
}

fn pool(setup: &Setup) -> MemoryPool {
    let pool = setup.context.device().default_memory_pool().unwrap();
    assert_eq!(pool.device(), setup.context.device());
    assert!(!pool.as_raw().is_null());
    setup.driver.reclaim();
    setup.context.synchronize().unwrap();
    pool.set_release_threshold(0).unwrap();
    pool.trim_to(0).unwrap();
    pool.reset_high().unwrap();
    pool
}

fn the_default_pool_tells_what_it_has(setup: &Setup) {
    let (stream, pool) = (setup.stream(), pool(setup));
    let before = pool.usage().unwrap();
    let buffer = DeviceBuffer::<u8>::alloc_async(&stream, 5 * MIB).unwrap();
    stream.synchronize().unwrap();
    let during = pool.usage().unwrap();
    assert_eq!(during.used_bytes - before.used_bytes, 5 * MIB);
    assert!(during.reserved_bytes >= during.used_bytes);
    drop(buffer);
    stream.synchronize().unwrap();
    let after = pool.usage().unwrap();
    assert_eq!((after.used_bytes, after.used_high_bytes), (before.used_bytes, during.used_bytes));
    pool.reset_high().unwrap();
    let reset = pool.usage().unwrap();
    assert!(reset.used_high_bytes <= during.used_high_bytes);
}

fn a_pool_keeps_what_its_threshold_says(setup: &Setup) {
    let (stream, pool) = (setup.stream(), pool(setup));
    let empty = pool.usage().unwrap().reserved_bytes;
    let use_some = || {
        drop(DeviceBuffer::<u8>::alloc_async(&stream, 40 * MIB).unwrap());
        stream.synchronize().unwrap();
        pool.usage().unwrap().reserved_bytes
    };
    assert_eq!(use_some(), empty);
    pool.set_release_threshold(usize::MAX).unwrap();
    assert_eq!(pool.release_threshold().unwrap(), usize::MAX);
    assert!(use_some() >= empty + 40 * MIB);
    pool.trim_to(0).unwrap();
    assert_eq!(pool.usage().unwrap().reserved_bytes, empty);
    pool.set_release_threshold(0).unwrap();
    assert_eq!(pool.release_threshold().unwrap(), 0);
}

fn pools_are_no_matter_of_captures(setup: &Setup) {
    let (pool, device) = (pool(setup), setup.context.device());
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let stream = setup.stream();
        let graph = stream.capture(mode, |_| {
            device.default_memory_pool()?.usage()?;
            pool.reset_high()?;
            pool.set_release_threshold(0)?;
            assert_eq!(pool.release_threshold()?, 0);
            pool.trim_to(0)?;
            device.graph_memory()?;
            device.reset_graph_memory_high()?;
            device.trim_graph_memory()
        });
        assert_eq!(graph.unwrap().node_count().unwrap(), 0, "{mode:?}");
    }
}

fn pools_need_no_current_context(setup: &Setup) {
    let (context, driver) = (setup.context.clone(), setup.driver.clone());
    let thread = std::thread::spawn(move || {
        let pool = context.device().default_memory_pool().unwrap();
        pool.usage().unwrap();
        pool.trim_to(0).unwrap();
        pool.reset_high().unwrap();
        context.device().graph_memory().unwrap();
        context.device().reset_graph_memory_high().unwrap();
        context.device().trim_graph_memory().unwrap();
        drop(driver);
    });
    thread.join().unwrap();
}

#[test]
fn sim_old_drivers_have_no_pools() {
    for (version, graphs, pools) in
        [(11_010, false, false), (11_020, false, true), (11_040, true, true)]
    {
        let config = SimConfig::default().driver_version(version);
        let device = Driver::from(grapture_sim::driver(config)).device(0).unwrap();
        let is = |told: CudaResult<()>, has: bool| {
            assert_eq!(told, if has { Ok(()) } else { Err(CudaError::NotSupported) }, "{version}");
        };
        is(device.graph_memory().map(drop), graphs);
        is(device.reset_graph_memory_high(), graphs);
        is(device.trim_graph_memory(), graphs);
        is(device.default_memory_pool().map(drop), pools);
    }
}
