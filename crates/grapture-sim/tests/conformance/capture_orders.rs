//! Captures: in which order begins, forks, joins and ends come, on which threads, and which check
//! comes first.

use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::{GLOBAL, NULL_STREAM, PTX, RELAXED, Rig, THREAD_LOCAL, per_thread};
use crate::transcript::saw;

fn begin(rig: &Rig, stream: CUstream, mode: u32) -> u32 {
    cu!(rig, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(mode)))
}

rules! { both;
    a_mode_that_is_none(rig) {
        for mode in [3, 4, 99, u32::MAX] {
            begin(rig, rig.stream, mode);
        }
        rig.status(rig.stream);
    }
    a_mode_that_is_none_on_the_legacy_stream(rig) {
        begin(rig, NULL_STREAM, 9);
        begin(rig, std::ptr::without_provenance_mut(1), 9);
    }
    a_mode_that_is_none_on_a_capturing_stream(rig) {
        rig.during(rig.stream, GLOBAL, || begin(rig, rig.stream, 9));
    }
    a_begin_on_a_broken_capture(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.query(rig.stream);
        begin(rig, rig.stream, GLOBAL);
        rig.end(rig.stream);
    }
    a_begin_beside_another_capture_of_the_thread(rig) {
        rig.begin(rig.stream, GLOBAL);
        begin(rig, rig.other, GLOBAL);
        rig.end_and_count(rig.other);
        rig.end_and_count(rig.stream);
    }
    a_begin_on_another_thread_beside_a_global_capture(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.elsewhere(GLOBAL, || {
            begin(rig, rig.other, GLOBAL);
            rig.end_and_count(rig.other);
        });
        rig.end_and_count(rig.stream);
    }
    an_unsafe_call_breaks_every_capture_that_bars_it(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.begin(rig.other, THREAD_LOCAL);
        rig.begin(rig.blocking, RELAXED);
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
        for stream in [rig.stream, rig.other, rig.blocking] {
            rig.status(stream);
            rig.end_and_count(stream);
        }
    }
    an_unsafe_call_of_another_thread_breaks_the_global_ones(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.begin(rig.other, THREAD_LOCAL);
        rig.elsewhere(GLOBAL, || cu!(rig, cuMemAlloc_v2(&mut 0, 64)));
        for stream in [rig.stream, rig.other] {
            rig.status(stream);
            rig.end_and_count(stream);
        }
    }
    a_broken_capture_still_bars(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.query(rig.stream);
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
        rig.end(rig.stream);
        let mut address = 0;
        cu!(rig, cuMemAlloc_v2(&mut address, 64));
        ok!(rig, cuMemFree_v2(address));
    }
    a_thread_that_turns_relaxed_passes_a_capture_begun_before(rig) {
        let mut address = 0;
        rig.begin(rig.stream, GLOBAL);
        rig.exchange(RELAXED);
        cu!(rig, cuMemAlloc_v2(&mut address, 64));
        rig.exchange(THREAD_LOCAL);
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
        rig.exchange(GLOBAL);
        rig.end_and_count(rig.stream);
        ok!(rig, cuMemFree_v2(address));
    }
    a_mode_that_is_none_bars_as_another(rig) {
        for mode in [3, 99] {
            let mut address = 0;
            rig.begin(rig.stream, GLOBAL);
            rig.exchange(mode);
            cu!(rig, cuMemAlloc_v2(&mut address, 64));
            rig.exchange(GLOBAL);
            rig.end_and_count(rig.stream);
            ok!(rig, cuMemFree_v2(address));
        }
    }
    another_thread_with_a_mode_that_is_none(rig) {
        for mode in [3, 99] {
            let mut address = 0;
            rig.begin(rig.stream, GLOBAL);
            rig.elsewhere(mode, || cu!(rig, cuMemAlloc_v2(&mut address, 64)));
            rig.end_and_count(rig.stream);
            ok!(rig, cuMemFree_v2(address));
        }
    }
    an_end_by_another_thread_of_a_broken_capture(rig) {
        for mode in [GLOBAL, RELAXED] {
            rig.begin(rig.stream, mode);
            rig.query(rig.stream);
            rig.elsewhere(GLOBAL, || rig.end(rig.stream).0);
            rig.status(rig.stream);
            rig.end(rig.stream);
        }
    }
    an_end_by_another_thread_of_an_unjoined_capture(rig) {
        rig.begin(rig.stream, RELAXED);
        rig.link(rig.stream, rig.other);
        rig.fill(rig.other);
        rig.elsewhere(GLOBAL, || rig.end(rig.stream).0);
        rig.status(rig.stream);
    }
    an_end_by_a_thread_that_is_relaxed(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.elsewhere(RELAXED, || rig.end(rig.stream).0);
        rig.status(rig.stream);
    }
    an_end_on_a_fork_by_another_thread(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.other);
        rig.elsewhere(GLOBAL, || rig.end(rig.other).0);
        rig.status(rig.stream);
        rig.end(rig.stream);
    }
    an_end_on_a_fork_that_captured_nothing(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.other);
        rig.end(rig.other);
        rig.status(rig.stream);
        rig.end(rig.stream);
    }
    an_end_on_a_fork_that_is_joined(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.other);
        rig.fill(rig.other);
        rig.link(rig.other, rig.stream);
        rig.end(rig.other);
        rig.end(rig.stream);
    }
    an_end_twice(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.end_and_count(rig.stream);
        rig.end(rig.stream);
    }
    an_end_on_streams_that_do_not_capture(rig) {
        for stream in [rig.stream, NULL_STREAM, per_thread(), std::ptr::without_provenance_mut(1)] {
            rig.end(stream);
        }
    }
    an_end_without_a_place_for_the_graph_that_fails(rig) {
        cu!(rig, cuStreamEndCapture(rig.stream, null_mut()));
        rig.begin(rig.stream, GLOBAL);
        rig.query(rig.stream);
        cu!(rig, cuStreamEndCapture(rig.stream, null_mut()));
        rig.status(rig.stream);
    }
    a_fork_that_joins_and_goes_on(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.other);
        rig.fill(rig.other);
        rig.link(rig.other, rig.stream);
        rig.fill(rig.other);
        rig.end(rig.stream);
    }
    a_fork_of_a_fork_joins_the_origin(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.other);
        rig.link(rig.other, rig.blocking);
        rig.fill(rig.blocking);
        rig.link(rig.blocking, rig.stream);
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_fork_of_a_fork_joins_the_fork(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.other);
        rig.link(rig.other, rig.blocking);
        rig.fill(rig.blocking);
        rig.link(rig.blocking, rig.other);
        rig.end(rig.stream);
    }
    a_diamond(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.fill(rig.stream);
        rig.link(rig.stream, rig.other);
        rig.fill(rig.stream);
        rig.fill(rig.other);
        rig.link(rig.other, rig.stream);
        rig.fill(rig.stream);
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_blocking_fork_bars_the_legacy_stream(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.link(rig.stream, rig.blocking);
        rig.fill(NULL_STREAM);
        rig.status(rig.stream);
        rig.end(rig.stream);
    }
    the_per_thread_stream_bars_the_legacy_stream(rig) {
        begin(rig, per_thread(), GLOBAL);
        rig.fill(NULL_STREAM);
        rig.status(per_thread());
        rig.end(per_thread());
    }
    the_legacy_stream_of_another_thread_is_barred(rig) {
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            rig.begin(rig.blocking, mode);
            rig.elsewhere(RELAXED, || rig.fill(NULL_STREAM));
            rig.status(rig.blocking);
            rig.end_and_count(rig.blocking);
        }
    }
    the_legacy_stream_of_another_context_is_not_barred(rig) {
        let other = rig.new_context();
        rig.begin(rig.blocking, GLOBAL);
        rig.in_context(other, || rig.fill(NULL_STREAM));
        rig.status(rig.blocking);
        rig.end_and_count(rig.blocking);
        ok!(rig, cuCtxSynchronize());
        ok!(rig, cuCtxDestroy_v2(other));
    }
    what_the_legacy_stream_does_beside_a_blocking_capture(rig) {
        let (b, mut word) = (rig.buffer, 0_u32);
        let at = (&raw mut word).cast();
        let event = rig.new_event();
        let calls: [&dyn Fn() -> u32; 9] = [
            &|| cu!(rig, cuMemcpyHtoD_v2(b, at, 4)),
            &|| cu!(rig, cuMemcpyDtoH_v2(at, b, 4)),
            &|| cu!(rig, cuMemcpyDtoD_v2(b, b + 64, 4)),
            &|| cu!(rig, cuMemsetD8_v2(b, 0, 4)),
            &|| cu!(rig, cuMemsetD32_v2(b, 0, 4)),
            &|| rig.record(event, NULL_STREAM),
            &|| rig.query(NULL_STREAM),
            &|| cu!(rig, cuStreamWriteValue32_v2(NULL_STREAM, b, 1, 0)),
            &|| cu!(rig, cuMemAllocAsync(&mut 0, 64, NULL_STREAM)),
        ];
        for call in calls {
            rig.during(rig.blocking, RELAXED, call);
        }
        ok!(rig, cuEventDestroy_v2(event));
    }
    work_on_a_capturing_stream_with_a_bad_handle(rig) {
        rig.during(rig.stream, GLOBAL, || cu!(rig, cuEventRecord(null_mut(), rig.stream)));
        rig.during(rig.stream, GLOBAL, || rig.launch(null_mut(), rig.stream, &mut []));
        rig.during(rig.stream, GLOBAL, || cu!(rig, cuGraphLaunch(null_mut(), rig.stream)));
        rig.during(rig.stream, GLOBAL, || cu!(rig, cuGraphUpload(null_mut(), rig.stream)));
    }
    an_unsafe_call_with_a_bad_argument(rig) {
        let s = rig.stream;
        rig.during(s, GLOBAL, || cu!(rig, cuMemAlloc_v2(null_mut(), 64)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemAlloc_v2(&mut 0, 0)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemFree_v2(0x1234)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemHostAlloc(&mut null_mut(), 64, 99)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemHostAlloc(&mut null_mut(), 0, 0)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemFreeHost(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuMemHostRegister_v2(null_mut(), 64, 0)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemHostUnregister(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuMemAllocManaged(&mut 0, 64, 9)));
    }
    an_unsafe_call_about_nothing(rig) {
        let s = rig.stream;
        let none = null_mut();
        rig.during(s, GLOBAL, || cu!(rig, cuEventQuery(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuEventSynchronize(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuModuleUnload(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuGraphExecDestroy(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), none, 0)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemPoolTrimTo(null_mut(), 0)));
        rig.during(s, GLOBAL, || cu!(rig, cuMemPoolDestroy(null_mut())));
        rig.during(s, GLOBAL, || cu!(rig, cuLibraryUnload(null_mut())));
    }
    an_unsafe_limit_that_is_none(rig) {
        rig.during(rig.stream, GLOBAL, || cu!(rig, cuCtxSetLimit(CUlimit(99), 1)));
        rig.during(rig.stream, GLOBAL, || cu!(rig, cuCtxSetLimit(CUlimit(3), 1)));
    }
    an_event_recorded_in_a_capture_is_destroyed(rig) {
        let event = rig.new_event();
        rig.begin(rig.stream, GLOBAL);
        rig.fill(rig.stream);
        rig.record(event, rig.stream);
        cu!(rig, cuEventDestroy_v2(event));
        rig.end_and_count(rig.stream);
    }
    an_event_is_recorded_twice_in_a_capture(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.record(rig.event, rig.stream);
        rig.fill(rig.stream);
        rig.record(rig.event, rig.stream);
        rig.wait(rig.other, rig.event);
        rig.fill(rig.other);
        rig.link(rig.other, rig.stream);
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_stream_waits_for_its_own_event(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.fill(rig.stream);
        rig.link(rig.stream, rig.stream);
        rig.fill(rig.stream);
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    an_external_record_then_a_plain_wait(rig) {
        rig.begin(rig.stream, GLOBAL);
        cu!(rig, cuEventRecordWithFlags(rig.event, rig.stream, 1));
        rig.wait(rig.other, rig.event);
        rig.status(rig.other);
        rig.wait(rig.stream, rig.event);
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
    }
    a_plain_record_then_an_external_wait(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.fill(rig.stream);
        rig.record(rig.event, rig.stream);
        cu!(rig, cuStreamWaitEvent(rig.stream, rig.event, 1));
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
    }
    external_flags_on_a_broken_capture(rig) {
        rig.begin(rig.stream, GLOBAL);
        rig.query(rig.stream);
        cu!(rig, cuEventRecordWithFlags(rig.event, rig.stream, 1));
        cu!(rig, cuStreamWaitEvent(rig.stream, rig.event, 1));
        rig.end(rig.stream);
    }
    external_flags_on_the_legacy_stream(rig) {
        cu!(rig, cuEventRecordWithFlags(rig.event, NULL_STREAM, 1));
        cu!(rig, cuStreamWaitEvent(NULL_STREAM, rig.event, 1));
    }
    unknown_event_flags_in_a_capture(rig) {
        for flags in [2, 3] {
            rig.during(rig.stream, GLOBAL, || cu!(rig, cuEventRecordWithFlags(rig.event, rig.stream, flags)));
            rig.during(rig.stream, GLOBAL, || cu!(rig, cuStreamWaitEvent(rig.stream, rig.event, flags)));
        }
    }
    an_event_of_another_context_in_a_capture(rig) {
        let other = rig.new_context();
        let event = rig.in_context(other, || rig.new_event());
        rig.during(rig.stream, GLOBAL, || rig.record(event, rig.stream));
        rig.during(rig.stream, GLOBAL, || rig.wait(rig.stream, event));
        ok!(rig, cuCtxDestroy_v2(other));
    }
    a_stream_of_another_context_joins(rig) {
        let other = rig.new_context();
        let stream = rig.in_context(other, || rig.new_stream(1));
        rig.begin(rig.stream, GLOBAL);
        rig.fill(rig.stream);
        rig.link(rig.stream, stream);
        rig.status(stream);
        rig.end_and_count(rig.stream);
        ok!(rig, cuCtxDestroy_v2(other));
    }
    work_after_a_capture_follows_the_work_before_it(rig) {
        let gate = rig.hold(rig.stream);
        rig.fill_word(0, 1, rig.stream);
        rig.begin(rig.stream, RELAXED);
        rig.fill_word(0, 9, rig.stream);
        rig.end_and_count(rig.stream);
        rig.fill_word(1, 2, rig.stream);
        cu!(rig, cuStreamQuery(rig.stream));
        gate.open();
        rig.sync(rig.stream);
        saw("words", (rig.read_word(0), rig.read_word(1)));
    }
    a_kernel_is_launched_in_a_capture_for_the_first_time(rig) {
        let module = rig.module(PTX);
        let kernel = rig.function(module, "noarg");
        let mut state = CUfunctionLoadingState(9);
        cu!(rig, cuFuncIsLoaded(&mut state, kernel));
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            rig.during(rig.stream, mode, || rig.launch(kernel, rig.stream, &mut []));
        }
        ok!(rig, cuModuleUnload(module));
    }
    a_module_is_unloaded_that_a_capture_uses(rig) {
        let module = rig.module(PTX);
        let kernel = rig.function(module, "noarg");
        rig.begin(rig.stream, RELAXED);
        saw("launch", rig.launch(kernel, rig.stream, &mut []));
        cu!(rig, cuModuleUnload(module));
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
    }
    memory_is_freed_that_a_capture_uses(rig) {
        let address = rig.alloc(64);
        rig.begin(rig.stream, RELAXED);
        cu!(rig, cuMemsetD32Async(address, 1, 1, rig.stream));
        cu!(rig, cuMemFree_v2(address));
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
    }
    a_capture_allocates_and_frees(rig) {
        let mut address = 0;
        rig.begin(rig.stream, GLOBAL);
        cu!(rig, cuMemAllocAsync(&mut address, 64, rig.stream));
        cu!(rig, cuMemsetD32Async(address, 1, 1, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.stream));
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    a_capture_allocates_in_one_stream_and_frees_in_another(rig) {
        let mut address = 0;
        rig.begin(rig.stream, GLOBAL);
        cu!(rig, cuMemAllocAsync(&mut address, 64, rig.stream));
        rig.link(rig.stream, rig.other);
        cu!(rig, cuMemFreeAsync(address, rig.other));
        rig.link(rig.other, rig.stream);
        let graph = rig.end_good(rig.stream);
        rig.shape(graph);
        ok!(rig, cuGraphDestroy(graph));
    }
    memory_of_a_capture_is_freed_at_once(rig) {
        let mut address = 0;
        rig.begin(rig.stream, RELAXED);
        cu!(rig, cuMemAllocAsync(&mut address, 64, rig.stream));
        cu!(rig, cuMemFree_v2(address));
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
    }
    memory_of_a_capture_is_freed_outside_it(rig) {
        let mut address = 0;
        rig.begin(rig.stream, RELAXED);
        cu!(rig, cuMemAllocAsync(&mut address, 64, rig.stream));
        cu!(rig, cuMemFreeAsync(address, rig.other));
        rig.status(rig.stream);
        rig.end_and_count(rig.stream);
    }
}
