//! The cache of executables.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

use crate::common::counted::{Token, counter, get};
use crate::common::gate::Gate;
use crate::common::{Setup, both_tiers};
use grapture::{
    Buckets, CacheLimits, CaptureMode, CudaError, CudaResult, DeviceBuffer, GraphCache, Stream,
};

both_tiers! {
    a_key_is_captured_once,
    the_least_recently_used_is_given_up,
    what_is_in_flight_is_not_given_up,
    a_busy_stream_does_not_fill_the_cache,
    what_is_held_is_not_given_up,
    what_is_given_up_serves_the_new_key,
    another_shape_is_made_anew,
    memory_is_measured_and_bounded,
    the_newest_is_kept_however_large,
    a_failure_leaves_the_cache_as_it_was,
    a_panic_leaves_the_cache_usable,
    other_contexts_are_refused,
    a_handle_outlives_the_cache,
    keys_are_removed_in_flight,
    a_capture_may_use_the_cache,
    many_threads_ask_for_the_same_keys,
    what_a_value_of_the_graph_drops_may_use_the_cache,
    a_key_that_is_dropped_may_use_the_cache,
    a_warm_cache_only_hits,
    a_cache_is_asked_while_streams_capture,
}

fn zeroed(setup: &Setup) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed(&setup.context, 1).unwrap()
}

fn cache(setup: &Setup, limits: CacheLimits) -> GraphCache<u32> {
    GraphCache::new(&setup.context, limits)
}

/// Launches what adds the key to the word.
fn add(
    setup: &Setup,
    cache: &GraphCache<u32>,
    key: u32,
    word: &mut DeviceBuffer<u32>,
    stream: &Stream,
) {
    let exec = cache.get_or_capture(key, stream, |_| setup.add(word, key, stream)).unwrap();
    exec.launch(stream).unwrap();
}

/// Waits until the stream is done, and until the library's thread has nothing to record there any more:
/// what is replaced or dropped while it was in use is marked so, and the stream is not idle then.
fn finish(setup: &Setup, stream: &Stream) {
    stream.synchronize().unwrap();
    setup.driver.reclaim();
    stream.synchronize().unwrap();
}

fn a_key_is_captured_once(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new());
    for key in [1, 10, 1, 100, 10, 1] {
        add(setup, &cache, key, &mut word, &stream);
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [123]);
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.captures, counters.entries), (3, 3, 3));
    assert_eq!((counters.updates, counters.evictions), (0, 0));
    assert!(cache.get(&100).is_some() && cache.get(&5).is_none());
}

fn the_least_recently_used_is_given_up(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new().entries(2));
    for key in [1, 2, 1, 3] {
        add(setup, &cache, key, &mut word, &stream);
        finish(setup, &stream);
    }
    let there = [1, 2, 3].map(|key| cache.get(&key).is_some());
    assert_eq!(there, [true, false, true]);
    let counters = cache.counters();
    assert_eq!((counters.entries, counters.evictions), (2, 1));
}

fn what_is_in_flight_is_not_given_up(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    // One for each stream: the launches may run at once, and streams may share a channel of the device.
    let [mut word, mut beside] = [(); 2].map(|()| zeroed(setup));
    let cache = cache(setup, CacheLimits::new().entries(1));
    let gate = Gate::new();
    gate.hold(&stream);
    add(setup, &cache, 1, &mut word, &stream);
    add(setup, &cache, 2, &mut beside, &other);
    assert_eq!(cache.counters().entries, 2, "over its limit as long as the launch is in flight");
    gate.open();
    finish(setup, &stream);
    finish(setup, &other);
    add(setup, &cache, 4, &mut beside, &other);
    assert_eq!(cache.counters().entries, 1);
    assert_eq!((word.to_vec(&stream).unwrap()[0], beside.to_vec(&other).unwrap()[0]), (1, 6));
}

fn a_busy_stream_does_not_fill_the_cache(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new().entries(2));
    let gates: Vec<_> = (0..6).map(|_| Gate::new()).collect();
    // The stream is never idle, but what is behind an open gate is done.
    for (key, gate) in (1..).zip(&gates) {
        add(setup, &cache, key, &mut word, &stream);
        gate.hold(&stream);
        if key > 1 {
            gates[key as usize - 2].open();
            gate.wait_until_reached();
        }
    }
    add(setup, &cache, 100, &mut word, &other);
    assert!(cache.counters().entries <= 4, "{:?}", cache.counters());
    gates[5].open();
    stream.synchronize().unwrap();
}

fn what_is_held_is_not_given_up(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new().entries(1));
    let held = cache.get_or_capture(1, &stream, |_| setup.add(&mut word, 1, &stream)).unwrap();
    add(setup, &cache, 2, &mut word, &stream);
    finish(setup, &stream);
    assert!(cache.get(&1).is_some());
    drop(held);
    add(setup, &cache, 3, &mut word, &stream);
    assert!(cache.get(&1).is_none());
}

fn what_is_given_up_serves_the_new_key(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new().entries(1));
    for key in 1..=10 {
        add(setup, &cache, key, &mut word, &stream);
        finish(setup, &stream);
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [55]);
    let counters = cache.counters();
    assert_eq!((counters.captures, counters.updates, counters.evictions), (10, 9, 9));
}

fn another_shape_is_made_anew(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new().entries(1));
    for key in 1..=4 {
        let mut record = || (0..key).try_for_each(|_| setup.add(&mut word, 1, &stream));
        let exec = cache.get_or_capture(key, &stream, |_| record()).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(exec.lock().node_count(), key as usize);
        finish(setup, &stream);
    }
    assert_eq!(word.to_vec(&stream).unwrap(), [10]);
    let counters = cache.counters();
    assert_eq!((counters.updates, counters.evictions, counters.entries), (0, 3, 1));
}

/// How much memory an entry keeps in the tests of the limit.
const LARGE: usize = 64 << 20;

/// Has the cache capture work with so much memory of its own.
fn large(setup: &Setup, cache: &GraphCache<u32>, key: u32, stream: &Stream) {
    let exec = cache.get_or_build(key, stream, || {
        let mut own = DeviceBuffer::<u8>::alloc(&setup.context, LARGE)?;
        stream.capture(CaptureMode::ThreadLocal, |_| own.fill(1, stream))
    });
    exec.unwrap().launch(stream).unwrap();
    finish(setup, stream);
}

fn memory_is_measured_and_bounded(setup: &Setup) {
    let stream = setup.stream();
    let cache = cache(setup, CacheLimits::new().bytes(2 * LARGE + LARGE / 2));
    for key in 1..=5 {
        large(setup, &cache, key, &stream);
        let counters = cache.counters();
        assert!(counters.bytes <= 2 * LARGE + LARGE / 2, "{counters:?}");
        // What was given up is free a moment later, and may be in the measure of the next one.
        setup.driver.reclaim();
        assert!(counters.bytes >= LARGE, "{counters:?}");
    }
    let counters = cache.counters();
    assert!(counters.evictions >= 2, "{counters:?}");
    cache.clear();
    assert_eq!((cache.counters().entries, cache.counters().bytes), (0, 0));
}

fn the_newest_is_kept_however_large(setup: &Setup) {
    let stream = setup.stream();
    let cache = cache(setup, CacheLimits::new().bytes(1).entries(0));
    large(setup, &cache, 1, &stream);
    assert!(cache.get(&1).is_some());
    large(setup, &cache, 2, &stream);
    assert!(cache.get(&1).is_none() && cache.get(&2).is_some());
}

fn a_failure_leaves_the_cache_as_it_was(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new());
    add(setup, &cache, 1, &mut word, &stream);
    let before = cache.counters();
    let failed = cache.get_or_capture(2, &stream, |_| Err(CudaError::OutOfMemory));
    assert_eq!(failed.unwrap_err(), CudaError::OutOfMemory);
    assert_eq!(cache.counters(), before);
    add(setup, &cache, 2, &mut word, &stream);
    assert_eq!(word.to_vec(&stream).unwrap(), [3]);
}

fn a_panic_leaves_the_cache_usable(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new());
    let record = || cache.get_or_capture(1, &stream, |_| panic!("in the capture"));
    assert!(catch_unwind(AssertUnwindSafe(record)).is_err());
    let exec = cache.get_or_capture(1, &stream, |_| setup.add(&mut word, 1, &stream)).unwrap();
    let guard = AssertUnwindSafe(&exec);
    let held = move || {
        let _held = guard.lock();
        panic!("with the executable");
    };
    assert!(catch_unwind(held).is_err());
    exec.launch(&stream).unwrap();
    add(setup, &cache, 1, &mut word, &stream);
    assert_eq!(word.to_vec(&stream).unwrap(), [2]);
}

fn other_contexts_are_refused(setup: &Setup) {
    let functions = setup.driver.as_raw().functions();
    let mut raw = std::ptr::null_mut();
    // SAFETY: a live out-pointer and a device of the driver.
    let code = unsafe { (functions.cuCtxCreate_v2)(&mut raw, 0, setup.context.device().as_raw()) };
    assert_eq!(code.0, 0);
    // SAFETY: what was made current by the creation is taken off again.
    unsafe { (functions.cuCtxPopCurrent_v2)(&mut std::ptr::null_mut()) };
    {
        // SAFETY: it outlives the handles of this block.
        let other = unsafe { grapture::Context::borrow_raw(setup.context.device(), raw) };
        let (here, there) = (setup.stream(), Stream::new(&other).unwrap());
        let cache = cache(setup, CacheLimits::new());
        let error = cache.get_or_capture(1, &there, |_| Ok(())).unwrap_err();
        assert!(matches!(error, CudaError::Refused(_)), "{error:?}");
        let error =
            cache.get_or_build(1, &here, || there.capture(CaptureMode::Relaxed, |_| Ok(())));
        assert_eq!(
            error.unwrap_err().to_string(),
            "graph: it belongs to another context than the cache: make both from the same `Context`"
        );
        assert_eq!(cache.counters().entries, 0);
    }
    setup.driver.reclaim();
    // SAFETY: a live context that nothing uses any more.
    let code = unsafe { (functions.cuCtxDestroy_v2)(raw) };
    assert_eq!(code.0, 0);
}

fn a_handle_outlives_the_cache(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new());
    let exec = cache.get_or_capture(1, &stream, |_| setup.add(&mut word, 5, &stream)).unwrap();
    let same = exec.clone();
    drop(cache);
    exec.launch(&stream).unwrap();
    drop(exec);
    same.launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [10]);
}

fn keys_are_removed_in_flight(setup: &Setup) {
    let stream = setup.stream();
    let mut word = zeroed(setup);
    let dropped = counter();
    let cache = cache(setup, CacheLimits::new());
    let exec = cache.get_or_capture(1, &stream, |capture| {
        capture.retain(Token(dropped.clone()));
        setup.add(&mut word, 5, &stream)
    });
    let gate = Gate::new();
    gate.hold(&stream);
    exec.unwrap().launch(&stream).unwrap();
    assert!(cache.remove(&1));
    assert!(!cache.remove(&1));
    setup.driver.reclaim();
    assert_eq!(get(&dropped), 0, "the launch still uses it");
    gate.open();
    assert_eq!(word.to_vec(&stream).unwrap(), [5]);
    setup.wait_until(|| get(&dropped) == 1);
}

fn a_capture_may_use_the_cache(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    let cache = cache(setup, CacheLimits::new());
    let outer = cache.get_or_capture(1, &stream, |_| {
        let inner = cache.get_or_capture(2, &other, |_| setup.add(&mut word, 10, &other))?;
        inner.launch(&other)?;
        setup.add(&mut word, 1, &stream)
    });
    other.synchronize().unwrap();
    outer.unwrap().launch(&stream).unwrap();
    assert_eq!(word.to_vec(&stream).unwrap(), [11]);
    assert_eq!(cache.counters().entries, 2);
}

fn many_threads_ask_for_the_same_keys(setup: &Setup) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 50;
    let runs = counter();
    let cache = cache(setup, CacheLimits::new().entries(3));
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, barrier, runs) = (&cache, &barrier, &runs);
            scope.spawn(move || {
                let stream = setup.stream();
                barrier.wait();
                for round in 0..ROUNDS {
                    let key = ((thread + round) % 5) as u32;
                    let runs = runs.clone();
                    let exec = cache.get_or_capture(key, &stream, |_| {
                        stream.host_function(move || {
                            runs.fetch_add(1, Ordering::SeqCst);
                        })
                    });
                    exec.unwrap().launch(&stream).unwrap();
                }
                stream.synchronize().unwrap();
            });
        }
    });
    assert_eq!(get(&runs), THREADS * ROUNDS);
    let counters = cache.counters();
    assert!(counters.hits + counters.captures >= (THREADS * ROUNDS) as u64, "{counters:?}");
}

fn what_a_value_of_the_graph_drops_may_use_the_cache(setup: &Setup) {
    struct Asks(Arc<GraphCache<u32>>);

    impl Drop for Asks {
        fn drop(&mut self) {
            assert!(self.0.get(&9).is_none());
            self.0.remove(&8);
        }
    }

    let stream = setup.stream();
    let cache = Arc::new(cache(setup, CacheLimits::new().entries(1)));
    for key in 1..=3 {
        let exec = cache.get_or_capture(key, &stream, |capture| {
            capture.retain(Asks(cache.clone()));
            Ok(())
        });
        drop(exec.unwrap());
    }
    cache.remove(&3);
    cache.clear();
    assert_eq!(Arc::strong_count(&cache), 1);
}

fn a_key_that_is_dropped_may_use_the_cache(setup: &Setup) {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Key(u32);

    thread_local! {
        static CACHE: RefCell<Option<Rc<GraphCache<Key>>>> = const { RefCell::new(None) };
    }

    impl Drop for Key {
        fn drop(&mut self) {
            let cache = CACHE.with_borrow(Clone::clone);
            let _ = cache.map(|cache| cache.counters());
        }
    }

    let stream = setup.stream();
    let cache = Rc::new(GraphCache::new(&setup.context, CacheLimits::new().entries(1)));
    CACHE.set(Some(cache.clone()));
    for key in 1..=3 {
        drop(cache.get_or_capture(Key(key), &stream, |_| Ok(())).unwrap());
    }
    assert!(cache.remove(&Key(3)));
    cache.clear();
    CACHE.set(None);
}

fn a_warm_cache_only_hits(setup: &Setup) {
    let stream = setup.stream();
    let mut words = DeviceBuffer::<u32>::zeroed(&setup.context, 8).unwrap();
    let buckets = Buckets::powers_of_two(8);
    let cache = GraphCache::<usize>::new(&setup.context, CacheLimits::new());
    let mut record =
        |len: usize| -> CudaResult<()> { words.view_mut(..len)?.fill(len as u32, &stream) };
    cache.warm_up(buckets.sizes().iter().copied(), &stream, |len, _| record(*len)).unwrap();
    assert_eq!(cache.counters().captures, 4);
    for len in 1..=8 {
        cache.get(&buckets.fit(len).unwrap()).unwrap().launch(&stream).unwrap();
    }
    assert_eq!(cache.counters().hits, 8);
    assert_eq!(words.to_vec(&stream).unwrap(), [8; 8]);
}

fn a_cache_is_asked_while_streams_capture(setup: &Setup) {
    let (stream, other) = (setup.stream(), setup.stream());
    let mut word = zeroed(setup);
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let cache = cache(setup, CacheLimits::new().entries(1));
        add(setup, &cache, 1, &mut word, &stream);
        let captured = stream.capture(mode, |_| {
            // The stream of its last launch captures, so it cannot be known whether that is done.
            assert_eq!(cache.get(&1).unwrap().lock().is_done(), Err(CudaError::NotReady));
            add(setup, &cache, 2, &mut word, &other);
            add(setup, &cache, 3, &mut word, &other);
            assert!(cache.get(&1).is_some());
            cache.clear();
            setup.add(&mut word, 1, &stream)
        });
        captured.unwrap();
    }
}
