//! What runs after what: streams, events, the legacy stream, frees, host functions.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use grapture_sim::{SimConfig, Simulation};

use grapture_sys::*;

use crate::host::{LIMIT, wait_for};
use crate::rig::{NULL_STREAM, PTX, Rig, per_thread};

tiers! {
    both {
        a_stream_keeps_its_order_and_streams_run_side_by_side,
        events_order_streams_and_keep_their_snapshot,
        elapsed_time_rises_and_is_not_ready_while_work_waits,
        the_legacy_stream_waits_for_blocking_streams_and_they_for_it,
        the_legacy_stream_waits_for_a_blocking_stream_that_was_destroyed,
        per_thread_streams_differ_by_thread,
        a_free_in_stream_order_comes_after_the_work_before_it,
        pageable_memory_is_read_at_the_call_and_written_before_it_returns,
        pinned_memory_is_read_when_the_copy_runs,
        a_stream_waits_for_a_word_that_another_writes,
        two_and_three_dimensional_copies_land_where_they_should,
        calls_are_refused_inside_a_host_function,
    }
    simulator {
        frees_and_module_changes_wait_for_work_in_flight,
    }
}

/// Calls something on a thread of its own, which shares the context; says whether it returned.
fn on_thread(t: &Rig, f: impl FnOnce(&Driver) -> u32 + Send + 'static) -> mpsc::Receiver<u32> {
    let (driver, context) = (t.driver.clone(), t.context.addr());
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let context = std::ptr::with_exposed_provenance_mut(context);
        ok!(driver, cuCtxSetCurrent(context));
        done.send(f(&driver)).unwrap();
    });
    answer
}

fn a_stream_keeps_its_order_and_streams_run_side_by_side(t: &Rig) {
    let (a, b, buffer) = (t.stream, t.other, t.buffer);
    let gate = t.hold(a);
    ok!(t, cuMemsetD32Async(buffer, 1, 1, a));
    ok!(t, cuMemsetD32Async(buffer + 4, 2, 1, b));
    ok!(t, cuStreamSynchronize(b));
    assert_eq!((t.query(a), t.query(b)), (600, 0));
    assert_eq!(t.read::<u32>(buffer, 2), [0, 2]);
    gate.open();
    ok!(t, cuStreamSynchronize(a));
    assert_eq!(t.read::<u32>(buffer, 2), [1, 2]);
}

#[test]
fn sim_many_blocked_host_functions_leave_room_for_work() {
    let t = Rig::with(SimConfig::new().workers(1));
    let gates: Vec<_> = (0..40).map(|_| t.hold(t.new_stream(1))).collect();
    let free = t.new_stream(1);
    let (sent, got) = mpsc::channel();
    t.host(free, move || sent.send(7).unwrap());
    assert_eq!(got.recv_timeout(LIMIT), Ok(7));
    gates.iter().for_each(|gate| gate.open());
    ok!(t, cuCtxSynchronize());
}

#[test]
fn sim_a_polling_kernel_leaves_room_for_the_one_that_releases_it() {
    for seed in 0..20 {
        let t = Rig::with(SimConfig::new().workers(1).seed(seed));
        let module = t.module(PTX);
        let (spin, add) = (t.function(module, "spin"), t.function(module, "k"));
        let (mut flag, mut one) = (t.buffer, 1_u32);
        // Both kernels are ready before the one worker wakes.
        t.on_simulation(Simulation::pause);
        assert_eq!(t.launch(spin, t.stream, &mut [(&raw mut flag).cast()]), 0);
        assert_eq!(t.launch(add, t.other, &mut [(&raw mut flag).cast(), (&raw mut one).cast()]), 0);
        t.on_simulation(Simulation::resume);
        ok!(t, cuCtxSynchronize());
        t.close();
    }
}

fn events_order_streams_and_keep_their_snapshot(t: &Rig) {
    let (a, b, event) = (t.stream, t.other, t.timed_event());
    let first = t.hold(a);
    ok!(t, cuEventRecord(event, a));
    let second = t.hold(a);
    ok!(t, cuStreamWaitEvent(b, event, 0));
    t.fill_word(0, 1, b);
    assert_eq!(cu!(t, cuEventQuery(event)), 600);
    assert_eq!(t.read_word(0), 0);
    first.open();
    ok!(t, cuEventSynchronize(event));
    t.sync(b);
    assert_eq!(t.read_word(0), 1);
    assert_eq!(t.query(a), 600);
    second.open();
    t.sync(a);
}

fn elapsed_time_rises_and_is_not_ready_while_work_waits(t: &Rig) {
    let (stream, start, end) = (t.new_stream(1), t.timed_event(), t.timed_event());
    ok!(t, cuEventRecord(start, stream));
    let gate = t.hold(stream);
    ok!(t, cuEventRecord(end, stream));
    let mut ms = -1.0;
    gate.wait_reached();
    assert_eq!(cu!(t, cuEventElapsedTime(&mut ms, start, end)), 600);
    gate.open();
    ok!(t, cuEventSynchronize(end));
    ok!(t, cuEventElapsedTime(&mut ms, start, end));
    assert!(ms > 0.0);
    let mut back = 0.0;
    ok!(t, cuEventElapsedTime(&mut back, end, start));
    assert_eq!(back, -ms);
}

fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it(t: &Rig) {
    let gate = t.hold(t.blocking);
    t.fill_word(0, 5, NULL_STREAM);
    let behind = t.new_stream(0);
    t.fill_word(1, 6, behind);
    t.fill_word(2, 7, t.stream);
    t.sync(t.stream);
    assert_eq!((t.query(NULL_STREAM), t.query(behind)), (600, 600));
    gate.open();
    t.sync(behind);
    assert_eq!(t.read::<u32>(t.buffer, 3), [5, 6, 7]);
}

fn the_legacy_stream_waits_for_a_blocking_stream_that_was_destroyed(t: &Rig) {
    let blocking = t.new_stream(0);
    let gate = t.hold(blocking);
    t.fill_word(0, 5, blocking);
    ok!(t, cuStreamDestroy_v2(blocking));
    ok!(t, cuMemcpyDtoDAsync_v2(t.buffer + 4, t.buffer, 4, NULL_STREAM));
    assert_eq!(t.query(NULL_STREAM), 600);
    gate.open();
    t.sync(NULL_STREAM);
    assert_eq!(t.read::<u32>(t.buffer, 2), [5, 5]);
}

fn per_thread_streams_differ_by_thread(t: &Rig) {
    let id = |driver: &Driver| {
        let mut id = 0;
        ok!(driver, cuStreamGetId(per_thread(), &mut id));
        id
    };
    let other = on_thread(t, |driver| {
        let mut id = 0;
        ok!(driver, cuStreamGetId(per_thread(), &mut id));
        id as u32
    });
    let mine = id(t);
    assert_eq!(mine, id(t));
    assert_ne!(other.recv_timeout(LIMIT), Ok(mine as u32));
}

/// Which calls wait for the work of the context, as a real driver was seen to do.
fn frees_and_module_changes_wait_for_work_in_flight(t: &Rig) {
    let stream = t.new_stream(1);
    let device = t.alloc(64);
    let pinned: *mut core::ffi::c_void = make!(t, cuMemHostAlloc(64, 0));
    let (pinned, module) = (pinned.expose_provenance(), t.module(PTX).expose_provenance());
    let pooled: CUdeviceptr = make!(t, cuMemAllocAsync(64, stream));
    let gate = t.hold(stream);
    gate.wait_reached();
    ok!(t, cuMemFree_v2(pooled));
    let more = t.alloc(64);
    let instant = t.timed_event();
    ok!(t, cuEventDestroy_v2(instant));
    ok!(t, cuStreamDestroy_v2(t.new_stream(1)));
    let waiting = [
        on_thread(t, move |driver| cu!(driver, cuMemFree_v2(device))),
        on_thread(t, move |driver| {
            cu!(driver, cuMemFreeHost(std::ptr::with_exposed_provenance_mut(pinned)))
        }),
        on_thread(t, move |driver| {
            cu!(driver, cuModuleUnload(std::ptr::with_exposed_provenance_mut(module)))
        }),
        on_thread(t, |driver| {
            let mut module = null_mut();
            let text = std::ffi::CString::new(PTX).unwrap();
            cu!(driver, cuModuleLoadData(&mut module, text.as_ptr().cast()))
        }),
    ];
    let counted = [
        Function::cuMemFree_v2,
        Function::cuMemFreeHost,
        Function::cuModuleUnload,
        Function::cuModuleLoadData,
    ];
    t.on_simulation(|sim| {
        let calls = || counted.iter().map(|function| sim.calls(*function)).sum::<u64>();
        assert!(wait_for(|| calls() == 6), "all calls are under way");
    });
    assert!(waiting.iter().all(|answer| answer.try_recv().is_err()));
    assert_eq!(t.query(stream), 600);
    gate.open();
    for answer in waiting {
        assert_eq!(answer.recv_timeout(LIMIT), Ok(0));
    }
    ok!(t, cuMemFree_v2(more));
}

fn a_free_in_stream_order_comes_after_the_work_before_it(t: &Rig) {
    let stream = t.new_stream(1);
    let pooled: CUdeviceptr = make!(t, cuMemAllocAsync(64, stream));
    let gate = t.hold(stream);
    ok!(t, cuMemFreeAsync(pooled, stream));
    assert_eq!(cu!(t, cuMemFreeAsync(pooled, stream)), 1);
    t.on_simulation(|sim| assert_eq!(sim.live().device_allocations, 2, "with the rig's"));
    gate.open();
    ok!(t, cuStreamSynchronize(stream));
    t.on_simulation(|sim| {
        assert_eq!(sim.live().device_allocations, 1);
        // A real pool keeps the memory.
        assert_eq!(cu!(t, cuMemsetD8Async(pooled, 0, 1, stream)), 1);
    });
}

fn pageable_memory_is_read_at_the_call_and_written_before_it_returns(t: &Rig) {
    let (stream, buffer) = (t.new_stream(1), t.alloc(16));
    let gate = t.hold(stream);
    let mut host = [1_u32, 2, 3, 4];
    ok!(t, cuMemcpyHtoDAsync_v2(buffer, host.as_ptr().cast(), 16, stream));
    host = [0; 4];
    gate.open();
    ok!(t, cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), buffer, 16, stream));
    assert_eq!(host, [1, 2, 3, 4]);
}

fn pinned_memory_is_read_when_the_copy_runs(t: &Rig) {
    let (stream, buffer) = (t.new_stream(1), t.alloc(4));
    let pinned: *mut core::ffi::c_void = make!(t, cuMemHostAlloc(4, 0));
    let word = pinned.cast::<AtomicU32>();
    let gate = t.hold(stream);
    ok!(t, cuMemcpyHtoDAsync_v2(buffer, pinned, 4, stream));
    // SAFETY: the driver allocated 4 aligned bytes, which are freed with the context.
    unsafe { &*word }.store(9, Ordering::SeqCst);
    gate.open();
    ok!(t, cuStreamSynchronize(stream));
    assert_eq!(t.read::<u32>(buffer, 1), [9]);
}

fn a_stream_waits_for_a_word_that_another_writes(t: &Rig) {
    let (a, b, word) = (t.stream, t.other, t.buffer);
    ok!(t, cuStreamWaitValue32_v2(a, word, 5, 0));
    ok!(t, cuMemsetD32Async(word, 7, 1, a));
    ok!(t, cuStreamWriteValue32_v2(b, word, 4, 0));
    ok!(t, cuStreamSynchronize(b));
    assert_eq!(t.query(a), 600);
    ok!(t, cuStreamWriteValue32_v2(b, word, 6, 0));
    ok!(t, cuStreamSynchronize(a));
    assert_eq!(t.read::<u32>(word, 1), [7]);
    assert_eq!(cu!(t, cuStreamWaitValue32_v2(a, word + 2, 0, 0)), 1);
}

fn two_and_three_dimensional_copies_land_where_they_should(t: &Rig) {
    let (stream, source, target) = (t.stream, t.zeroed(64), t.zeroed(64));
    let bytes: Vec<u8> = (0..64).collect();
    ok!(t, cuMemcpyHtoD_v2(source, bytes.as_ptr().cast(), 64));
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
    ok!(t, cuMemcpy3DAsync_v2(&copy, stream));
    ok!(t, cuStreamSynchronize(stream));
    let got = t.read::<u8>(target, 16);
    assert_eq!(got, [9, 10, 11, 0, 17, 18, 19, 0, 41, 42, 43, 0, 49, 50, 51, 0]);
}

fn calls_are_refused_inside_a_host_function(t: &Rig) {
    let stream = t.new_stream(1);
    let (driver, (sent, got)) = (t.driver.clone(), mpsc::channel());
    t.host(stream, move || {
        let mut version = 0;
        sent.send(cu!(driver, cuCtxSynchronize())).unwrap();
        sent.send(cu!(driver, cuDriverGetVersion(&mut version))).unwrap();
    });
    assert_eq!(got.recv_timeout(LIMIT), Ok(800));
    assert_eq!(got.recv_timeout(LIMIT), Ok(0));
    ok!(t, cuStreamSynchronize(stream));
}
