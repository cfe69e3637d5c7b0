//! What runs after what: streams, events, the legacy stream, frees, host functions.

mod common;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use common::{LIMIT, PTX, Setup, eventually};
use grapture_sim::SimConfig;
use grapture_sys::*;

const LEGACY: CUstream = null_mut();

fn query(t: &Setup, stream: CUstream) -> u32 {
    call!(t, cuStreamQuery(stream))
}

/// Calls something on a thread of its own, which shares the context; says whether it returned.
fn on_thread(t: &Setup, f: impl FnOnce(&Driver) -> u32 + Send + 'static) -> mpsc::Receiver<u32> {
    let (driver, context) = (t.driver.clone(), t.context.addr());
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let context = std::ptr::with_exposed_provenance_mut(context);
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        done.send(f(&driver)).unwrap();
    });
    answer
}

#[test]
fn a_stream_keeps_its_order_and_streams_run_side_by_side() {
    let t = Setup::new();
    let (a, b, buffer) = (t.stream(), t.stream(), t.alloc(8));
    let gate = t.gate(a);
    assert_eq!(call!(t, cuMemsetD32Async(buffer, 1, 1, a)), 0);
    assert_eq!(call!(t, cuMemsetD32Async(buffer + 4, 2, 1, b)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(b)), 0);
    assert_eq!((query(&t, a), query(&t, b)), (600, 0));
    assert_eq!(t.read::<u32>(buffer, 2), [0, 2]);
    gate.open();
    assert_eq!(call!(t, cuStreamSynchronize(a)), 0);
    assert_eq!(t.read::<u32>(buffer, 2), [1, 2]);
}

#[test]
fn many_blocked_host_functions_leave_room_for_work() {
    let t = Setup::with(SimConfig::new().workers(1));
    let gates: Vec<_> = (0..40).map(|_| t.gate(t.stream())).collect();
    let free = t.stream();
    let (sent, got) = mpsc::channel();
    t.host(free, move || sent.send(7).unwrap());
    assert_eq!(got.recv_timeout(LIMIT), Ok(7));
    gates.iter().for_each(|gate| gate.open());
    assert_eq!(call!(t, cuCtxSynchronize()), 0);
}

#[test]
fn a_polling_kernel_leaves_room_for_the_one_that_releases_it() {
    let t = Setup::with(SimConfig::new().workers(1));
    let module = t.module(PTX);
    let (spin, add) = (t.function(module, "spin"), t.function(module, "k"));
    let (mut flag, mut one) = (t.alloc(4), 1_u32);
    let (a, b) = (t.stream(), t.stream());
    assert_eq!(t.launch(spin, a, &mut [(&raw mut flag).cast()]), 0);
    assert_eq!(t.launch(add, b, &mut [(&raw mut flag).cast(), (&raw mut one).cast()]), 0);
    assert_eq!(call!(t, cuCtxSynchronize()), 0);
}

#[test]
fn events_order_streams_and_keep_their_snapshot() {
    let t = Setup::new();
    let (a, b, event) = (t.stream(), t.stream(), t.event());
    let first = t.gate(a);
    assert_eq!(call!(t, cuEventRecord(event, a)), 0);
    let second = t.gate(a);
    let reached = Arc::new(AtomicBool::new(false));
    let note = reached.clone();
    assert_eq!(call!(t, cuStreamWaitEvent(b, event, 0)), 0);
    t.host(b, move || note.store(true, Ordering::SeqCst));
    assert_eq!(call!(t, cuEventQuery(event)), 600);
    assert!(!reached.load(Ordering::SeqCst));
    first.open();
    assert_eq!(call!(t, cuEventSynchronize(event)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(b)), 0);
    assert!(reached.load(Ordering::SeqCst));
    assert_eq!(query(&t, a), 600);
    second.open();
    assert_eq!(call!(t, cuStreamSynchronize(a)), 0);
}

#[test]
fn elapsed_time_rises_and_is_not_ready_while_work_waits() {
    let t = Setup::new();
    let (stream, start, end) = (t.stream(), t.event(), t.event());
    assert_eq!(call!(t, cuEventRecord(start, stream)), 0);
    let gate = t.gate(stream);
    assert_eq!(call!(t, cuEventRecord(end, stream)), 0);
    let mut ms = -1.0;
    gate.wait_reached();
    assert_eq!(call!(t, cuEventElapsedTime(&mut ms, start, end)), 600);
    gate.open();
    assert_eq!(call!(t, cuEventSynchronize(end)), 0);
    assert_eq!(call!(t, cuEventElapsedTime(&mut ms, start, end)), 0);
    assert!(ms > 0.0);
    let mut back = 0.0;
    assert_eq!(call!(t, cuEventElapsedTime(&mut back, end, start)), 0);
    assert_eq!(back, -ms);
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let t = Setup::new();
    let blocking: CUstream = make!(t, cuStreamCreate(0));
    let free = t.stream();
    let buffer = t.alloc(4);
    let gate = t.gate(blocking);
    assert_eq!(call!(t, cuMemsetD32Async(buffer, 5, 1, LEGACY)), 0);
    let behind: CUstream = make!(t, cuStreamCreate(0));
    let order = Arc::new(AtomicU32::new(0));
    let seen = order.clone();
    t.host(behind, move || seen.store(1, Ordering::SeqCst));
    t.host(free, || {});
    assert_eq!(call!(t, cuStreamSynchronize(free)), 0);
    assert_eq!((query(&t, LEGACY), query(&t, behind)), (600, 600));
    assert_eq!(order.load(Ordering::SeqCst), 0);
    gate.open();
    assert_eq!(call!(t, cuStreamSynchronize(behind)), 0);
    assert_eq!(t.read::<u32>(buffer, 1), [5]);
}

#[test]
fn the_legacy_stream_waits_for_a_blocking_stream_that_was_destroyed() {
    let t = Setup::new();
    let blocking: CUstream = make!(t, cuStreamCreate(0));
    let buffer = t.alloc(4);
    let gate = t.gate(blocking);
    assert_eq!(call!(t, cuMemsetD32Async(buffer, 5, 1, blocking)), 0);
    assert_eq!(call!(t, cuStreamDestroy_v2(blocking)), 0);
    let mut value = 0_u32;
    let out = (&raw mut value).expose_provenance();
    let copied = on_thread(&t, move |driver| {
        let out = std::ptr::with_exposed_provenance_mut(out);
        call!(driver, cuMemcpyDtoH_v2(out, buffer, 4))
    });
    assert_eq!(query(&t, LEGACY), 600);
    gate.open();
    assert_eq!(copied.recv_timeout(LIMIT), Ok(0));
    assert_eq!(value, 5);
}

#[test]
fn per_thread_streams_differ_by_thread() {
    let t = Setup::new();
    let per_thread: CUstream = std::ptr::without_provenance_mut(2);
    let id = |driver: &Driver| {
        let mut id = 0;
        assert_eq!(call!(driver, cuStreamGetId(per_thread, &mut id)), 0);
        id
    };
    let handle = per_thread.addr();
    let other = on_thread(&t, move |driver| {
        let mut id = 0;
        let per_thread = std::ptr::without_provenance_mut(handle);
        assert_eq!(call!(driver, cuStreamGetId(per_thread, &mut id)), 0);
        id as u32
    });
    let mine = id(&t.driver);
    assert_eq!(mine, id(&t.driver));
    assert_ne!(other.recv_timeout(LIMIT), Ok(mine as u32));
}

/// Which calls wait for the work of the context, as a real driver was seen to do.
#[test]
fn frees_and_module_changes_wait_for_work_in_flight() {
    let t = Setup::new();
    let stream = t.stream();
    let device = t.alloc(64);
    let pinned: *mut core::ffi::c_void = make!(t, cuMemHostAlloc(64, 0));
    let (pinned, module) = (pinned.expose_provenance(), t.module(PTX).expose_provenance());
    let pooled: CUdeviceptr = make!(t, cuMemAllocAsync(64, stream));
    let gate = t.gate(stream);
    gate.wait_reached();
    assert_eq!(call!(t, cuMemFree_v2(pooled)), 0);
    let more = t.alloc(64);
    let instant = t.event();
    assert_eq!(call!(t, cuEventDestroy_v2(instant)), 0);
    assert_eq!(call!(t, cuStreamDestroy_v2(t.stream())), 0);
    let waiting = [
        on_thread(&t, move |driver| call!(driver, cuMemFree_v2(device))),
        on_thread(&t, move |driver| {
            call!(driver, cuMemFreeHost(std::ptr::with_exposed_provenance_mut(pinned)))
        }),
        on_thread(&t, move |driver| {
            call!(driver, cuModuleUnload(std::ptr::with_exposed_provenance_mut(module)))
        }),
        on_thread(&t, |driver| {
            let mut module = null_mut();
            let text = std::ffi::CString::new(PTX).unwrap();
            call!(driver, cuModuleLoadData(&mut module, text.as_ptr().cast()))
        }),
    ];
    let counted = [
        Function::cuMemFree_v2,
        Function::cuMemFreeHost,
        Function::cuModuleUnload,
        Function::cuModuleLoadData,
    ];
    eventually("all calls are under way", || {
        counted.iter().map(|function| t.sim.calls(*function)).sum::<u64>() == 6
    });
    assert!(waiting.iter().all(|answer| answer.try_recv().is_err()));
    assert_eq!(query(&t, stream), 600);
    gate.open();
    for answer in waiting {
        assert_eq!(answer.recv_timeout(LIMIT), Ok(0));
    }
    assert_eq!(call!(t, cuMemFree_v2(more)), 0);
}

#[test]
fn a_free_in_stream_order_comes_after_the_work_before_it() {
    let t = Setup::new();
    let stream = t.stream();
    let pooled: CUdeviceptr = make!(t, cuMemAllocAsync(64, stream));
    let gate = t.gate(stream);
    assert_eq!(call!(t, cuMemFreeAsync(pooled, stream)), 0);
    assert_eq!(call!(t, cuMemFreeAsync(pooled, stream)), 1);
    assert_eq!(t.sim.live().device_allocations, 1);
    gate.open();
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
    assert_eq!(t.sim.live().device_allocations, 0);
    assert_eq!(call!(t, cuMemsetD8Async(pooled, 0, 1, stream)), 1);
}

#[test]
fn pageable_memory_is_read_at_the_call_and_written_before_it_returns() {
    let t = Setup::new();
    let (stream, buffer) = (t.stream(), t.alloc(16));
    let gate = t.gate(stream);
    let mut host = [1_u32, 2, 3, 4];
    assert_eq!(call!(t, cuMemcpyHtoDAsync_v2(buffer, host.as_ptr().cast(), 16, stream)), 0);
    host = [0; 4];
    gate.open();
    assert_eq!(call!(t, cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), buffer, 16, stream)), 0);
    assert_eq!(host, [1, 2, 3, 4]);
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs() {
    let t = Setup::new();
    let (stream, buffer) = (t.stream(), t.alloc(4));
    let pinned: *mut core::ffi::c_void = make!(t, cuMemHostAlloc(4, 0));
    let word = pinned.cast::<AtomicU32>();
    let gate = t.gate(stream);
    assert_eq!(call!(t, cuMemcpyHtoDAsync_v2(buffer, pinned, 4, stream)), 0);
    // SAFETY: the driver allocated 4 aligned bytes, which are freed with the context.
    unsafe { &*word }.store(9, Ordering::SeqCst);
    gate.open();
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
    assert_eq!(t.read::<u32>(buffer, 1), [9]);
}

#[test]
fn a_stream_waits_for_a_word_that_another_writes() {
    let t = Setup::new();
    let (a, b, word) = (t.stream(), t.stream(), t.alloc(4));
    assert_eq!(call!(t, cuStreamWaitValue32_v2(a, word, 5, 0)), 0);
    assert_eq!(call!(t, cuMemsetD32Async(word, 7, 1, a)), 0);
    assert_eq!(call!(t, cuStreamWriteValue32_v2(b, word, 4, 0)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(b)), 0);
    assert_eq!(query(&t, a), 600);
    assert_eq!(call!(t, cuStreamWriteValue32_v2(b, word, 6, 0)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(a)), 0);
    assert_eq!(t.read::<u32>(word, 1), [7]);
    assert_eq!(call!(t, cuStreamWaitValue32_v2(a, word + 2, 5, 0)), 1);
}

#[test]
fn two_and_three_dimensional_copies_land_where_they_should() {
    let t = Setup::new();
    let (stream, source, target) = (t.stream(), t.alloc(64), t.alloc(64));
    let bytes: Vec<u8> = (0..64).collect();
    assert_eq!(call!(t, cuMemcpyHtoD_v2(source, bytes.as_ptr().cast(), 64)), 0);
    let copy = CUDA_MEMCPY3D {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        dstMemoryType: CU_MEMORYTYPE_UNIFIED,
        srcDevice: source,
        dstDevice: target,
        srcXInBytes: 1,
        srcY: 1,
        srcPitch: 8,
        srcHeight: 4,
        dstPitch: 4,
        dstHeight: 2,
        WidthInBytes: 3,
        Height: 2,
        Depth: 2,
        ..CUDA_MEMCPY3D::default()
    };
    assert_eq!(call!(t, cuMemcpy3DAsync_v2(&copy, stream)), 0);
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
    let got = t.read::<u8>(target, 16);
    assert_eq!(got, [9, 10, 11, 0, 17, 18, 19, 0, 41, 42, 43, 0, 49, 50, 51, 0]);
}

#[test]
fn calls_are_refused_inside_a_host_function() {
    let t = Setup::new();
    let stream = t.stream();
    let (driver, (sent, got)) = (t.driver.clone(), mpsc::channel());
    t.host(stream, move || {
        let mut version = 0;
        sent.send(call!(driver, cuCtxSynchronize())).unwrap();
        sent.send(call!(driver, cuDriverGetVersion(&mut version))).unwrap();
    });
    assert_eq!(got.recv_timeout(LIMIT), Ok(800));
    assert_eq!(got.recv_timeout(LIMIT), Ok(0));
    assert_eq!(call!(t, cuStreamSynchronize(stream)), 0);
}
