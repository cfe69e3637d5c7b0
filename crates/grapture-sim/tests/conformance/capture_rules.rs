//! What a real driver (13.0, on an H200) answered to calls during captures, line by line.

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::{
    BUFFER_BYTES, GLOBAL, NULL_STREAM, Outcome, RELAXED, Rig, THREAD_LOCAL, per_thread,
};

tiers! {
    both {
        begin,
        end,
        an_end_that_fails_gives_no_graph,
        calls_that_touch_the_capturing_stream,
        the_legacy_stream_beside_a_capture,
        events_across_captures,
        the_end_of_the_capturing_stream_ends_the_capture,
        the_oldest_begin_is_relaxed,
        a_bad_call_breaks_the_capture_or_not,
        a_relaxed_thread_passes_its_own_global_capture,
    }
}

const BROKEN: fn(u32) -> Outcome = |code| (code, 2, 901, 0);

fn begin(rig: &Rig) {
    let begin = |stream, mode| cu!(rig, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(mode)));
    assert_eq!(begin(NULL_STREAM, 0), 900);
    assert_eq!(begin(std::ptr::without_provenance_mut(1), 0), 900);
    assert_eq!(begin(rig.stream, 9), 1);
    assert_eq!(rig.status(rig.stream), 0);
    assert_eq!(begin(per_thread(), 0), 0);
    assert_eq!(rig.end_and_count(per_thread()), (0, 0));
    assert_eq!(rig.during(rig.stream, 0, || begin(rig.stream, 0)), (401, 1, 0, 0));
    let on_fork = || {
        rig.link(rig.stream, rig.other);
        begin(rig.other, 0)
    };
    assert_eq!(rig.during(rig.stream, 0, on_fork), (401, 1, 0, 0));
}

fn end(rig: &Rig) {
    assert_eq!(rig.end(rig.stream).0, 401);
    assert_eq!(rig.end(NULL_STREAM).0, 401);
    rig.begin(rig.stream, 0);
    assert_eq!(cu!(rig, cuStreamEndCapture(rig.stream, std::ptr::null_mut())), 0);
    assert_eq!(rig.status(rig.stream), 0);

    rig.begin(rig.stream, 0);
    rig.link(rig.stream, rig.other);
    assert_eq!(rig.fill(rig.other), 0);
    assert_eq!(rig.end(rig.other).0, 903);
    assert_eq!((rig.status(rig.stream), rig.status(rig.other)), (2, 2));
    assert_eq!(rig.end(rig.stream).0, 901);
    assert_eq!((rig.status(rig.stream), rig.status(rig.other)), (0, 0));

    let unjoined = || {
        rig.link(rig.stream, rig.other);
        rig.fill(rig.other)
    };
    assert_eq!(rig.during(rig.stream, 0, unjoined), (0, 1, 904, 0));
    assert_eq!(rig.status(rig.other), 0);

    for (mode, code, then) in [(0, 908, 401), (1, 908, 401), (2, 0, 401)] {
        rig.begin(rig.stream, mode);
        let (end, status) = rig.elsewhere(0, || {
            let (code, _) = rig.end_and_count(rig.stream);
            (code, rig.status(rig.stream))
        });
        assert_eq!((end, status, rig.end(rig.stream).0), (code, 0, then), "mode {mode}");
    }
}

fn an_end_that_fails_gives_no_graph(rig: &Rig) {
    let s = rig.stream;
    let end = || {
        let mut graph = std::ptr::dangling_mut();
        let code = cu!(rig, cuStreamEndCapture(rig.stream, &mut graph));
        (code, graph.is_null())
    };
    let idle = end();
    rig.begin(s, GLOBAL);
    assert_eq!(rig.query(s), 900);
    let broken = end();
    rig.begin(s, GLOBAL);
    rig.link(s, rig.other);
    assert_eq!(rig.fill(rig.other), 0);
    let unjoined = end();
    rig.begin(s, GLOBAL);
    let elsewhere = rig.elsewhere(GLOBAL, end);
    assert_eq!(
        [idle, broken, unjoined, elsewhere],
        [(401, true), (901, true), (904, true), (908, true)]
    );
}

fn calls_that_touch_the_capturing_stream(rig: &Rig) {
    let mut host = vec![0u8; 64];
    let mut outside = 0;
    ok!(rig, cuMemAlloc_v2(&mut outside, 64));
    let graph = rig.new_graph_of_one_fill();
    let idle = rig.instantiate(graph);
    let captured = || rig.record(rig.event, rig.stream);
    let s = rig.stream;
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        let line = |expected: Outcome, call: &mut dyn FnMut() -> u32| {
            assert_eq!(rig.during(s, mode, call), expected, "mode {mode}");
        };
        line(BROKEN(900), &mut || cu!(rig, cuStreamSynchronize(s)));
        line(BROKEN(900), &mut || cu!(rig, cuStreamQuery(s)));
        line(BROKEN(907), &mut || captured() + cu!(rig, cuEventQuery(rig.event)));
        line(BROKEN(907), &mut || captured() + cu!(rig, cuEventSynchronize(rig.event)));
        let mut ms = 0.0;
        line((907, 1, 0, 0), &mut || {
            captured() + cu!(rig, cuEventElapsedTime(&mut ms, rig.event, rig.event))
        });
        assert_eq!(cu!(rig, cuEventQuery(rig.event)), 1, "after the end");
        line(BROKEN(900), &mut || {
            unsafe extern "C" fn nothing(_: CUstream, _: CUresult, _: *mut std::ffi::c_void) {}
            cu!(rig, cuStreamAddCallback(s, Some(nothing), std::ptr::null_mut(), 0))
        });
        let counter = Counter::default();
        line((0, 1, 0, 1), &mut || {
            cu!(rig, cuLaunchHostFunc(s, Some(Counter::count), counter.argument()))
        });
        let at = host.as_mut_ptr().cast();
        line((0, 1, 0, 1), &mut || cu!(rig, cuMemcpyHtoDAsync_v2(rig.buffer, at, 64, s)));
        line((0, 1, 0, 1), &mut || cu!(rig, cuMemcpyDtoHAsync_v2(at, rig.buffer, 64, s)));
        line((1, 1, 0, 0), &mut || cu!(rig, cuMemFreeAsync(outside, s)));
        let mut address = 0;
        line((0, 1, 0, 1), &mut || cu!(rig, cuMemAllocAsync(&mut address, 64, s)));
        line(BROKEN(900), &mut || cu!(rig, cuGraphLaunch(idle, s)));
        line(BROKEN(900), &mut || cu!(rig, cuGraphUpload(idle, s)));
        line(BROKEN(900), &mut || cu!(rig, cuStreamAttachMemAsync(s, rig.buffer, 0, 4)));
        line((0, 1, 0, 1), &mut || cu!(rig, cuStreamWriteValue32_v2(s, rig.buffer, 1, 0)));
        line((0, 1, 0, 0), &mut || {
            let mut value = CUstreamAttrValue_v1::default();
            cu!(rig, cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &mut value))
        });
        assert_eq!(counter.get(), 0, "nothing that is captured runs");
    }
    ok!(rig, cuGraphExecDestroy(idle));
    ok!(rig, cuGraphDestroy(graph));
    ok!(rig, cuMemFree_v2(outside));
}

fn the_legacy_stream_beside_a_capture(rig: &Rig) {
    let b = rig.blocking;
    assert_eq!(rig.record(rig.event, rig.other), 0);
    let old = rig.event;
    let mut status = CUstreamCaptureStatus(0);
    let mut id = 0;
    let questions = || {
        let first = cu!(rig, cuStreamIsCapturing(NULL_STREAM, &mut status));
        let second = cu!(rig, cuStreamGetCaptureInfo(NULL_STREAM, &mut status, &mut id));
        assert_eq!((first, second), (906, 906));
        0
    };
    assert_eq!(rig.during(b, GLOBAL, questions), (0, 1, 0, 0));
    assert_eq!(rig.during(b, GLOBAL, || rig.fill(NULL_STREAM)), BROKEN(906));
    let sync = || cu!(rig, cuStreamSynchronize(NULL_STREAM));
    assert_eq!(rig.during(b, GLOBAL, sync), BROKEN(906));
    assert_eq!(rig.during(b, GLOBAL, || rig.wait(NULL_STREAM, old)), BROKEN(906));
    let word = [0u32];
    let copy = || cu!(rig, cuMemcpyHtoD_v2(rig.buffer, word.as_ptr().cast(), 4));
    assert_eq!(rig.during(b, RELAXED, copy), BROKEN(906));
    assert_eq!(rig.during(rig.stream, GLOBAL, || rig.fill(NULL_STREAM)), (0, 1, 0, 0));
    let second = rig.new_stream(0);
    assert_eq!(rig.during(b, GLOBAL, || rig.fill(second)), (0, 1, 0, 0));
    ok!(rig, cuStreamDestroy_v2(second));
}

fn events_across_captures(rig: &Rig) {
    let (s, other) = (rig.stream, rig.other);
    let external = |stream| cu!(rig, cuStreamWaitEvent(stream, rig.event, 1));
    let record_external = |stream| cu!(rig, cuEventRecordWithFlags(rig.event, stream, 1));
    assert_eq!(rig.during(s, GLOBAL, || rig.wait(s, rig.event)), (0, 1, 0, 0), "never recorded");
    assert_eq!(rig.record(rig.event, other), 0);
    assert_eq!(rig.during(s, GLOBAL, || rig.wait(s, rig.event)), BROKEN(905));
    assert_eq!(rig.during(s, GLOBAL, || external(s)), (0, 1, 0, 1));
    assert_eq!(rig.during(s, GLOBAL, || record_external(s)), (0, 1, 0, 1));
    assert_eq!((record_external(s), external(s)), (401, 401));

    // Two captures meet.
    rig.begin(s, GLOBAL);
    rig.begin(other, GLOBAL);
    assert_eq!(rig.record(rig.event, s), 0);
    assert_eq!(rig.wait(other, rig.event), 902);
    for stream in [s, other] {
        assert_eq!(rig.status(stream), 2);
        assert_eq!(rig.end(stream).0, 901);
        assert_eq!(rig.status(stream), 0);
    }

    // An event outlives the capture that it was recorded in.
    assert_eq!(rig.during(s, GLOBAL, || rig.record(rig.event, s)), (0, 1, 0, 0));
    assert_eq!(rig.wait(other, rig.event), 1);
    assert_eq!(rig.status(other), 0);
    assert_eq!(rig.during(s, GLOBAL, || rig.wait(s, rig.event)), BROKEN(1));
    let of_broken = || {
        assert_eq!(rig.record(rig.event, s), 0);
        assert_eq!(cu!(rig, cuStreamQuery(s)), 900);
        assert_eq!(rig.wait(other, rig.event), 1);
        rig.status(other)
    };
    assert_eq!(rig.during(s, GLOBAL, of_broken), (0, 2, 901, 0));
    let after_break = |call: &dyn Fn() -> u32| {
        let whole = || {
            assert_eq!(cu!(rig, cuStreamQuery(s)), 900);
            call()
        };
        assert_eq!(rig.during(s, GLOBAL, whole), BROKEN(901));
    };
    after_break(&|| rig.fill(s));
    after_break(&|| rig.record(rig.event, s));

    let legacy = || {
        assert_eq!(rig.record(rig.event, s), 0);
        rig.wait(NULL_STREAM, rig.event)
    };
    assert_eq!(rig.during(s, GLOBAL, legacy), BROKEN(906));
    let again = || {
        assert_eq!(rig.record(rig.event, s), 0);
        assert_eq!(rig.record(rig.event, other), 0);
        rig.wait(s, rig.event)
    };
    assert_eq!(rig.during(s, GLOBAL, again), BROKEN(905));
}

fn the_end_of_the_capturing_stream_ends_the_capture(rig: &Rig) {
    let stream = rig.new_stream(1);
    rig.begin(stream, GLOBAL);
    rig.link(stream, rig.other);
    assert_eq!(rig.fill(rig.other), 0);
    ok!(rig, cuStreamDestroy_v2(stream));
    assert_eq!(rig.status(rig.other), 0);
    let mut address = 0;
    ok!(rig, cuMemAlloc_v2(&mut address, 64));
    ok!(rig, cuMemFree_v2(address));
}

fn the_oldest_begin_is_relaxed(rig: &Rig) {
    let allocate = || {
        let mut address = 0;
        let code = cu!(rig, cuMemAlloc_v2(&mut address, 64));
        if code == 0 {
            rig.exchange(RELAXED);
            ok!(rig, cuMemFree_v2(address));
            rig.exchange(GLOBAL);
        }
        code
    };
    ok!(rig, cuStreamBeginCapture(rig.stream));
    assert_eq!((allocate(), rig.status(rig.stream)), (0, 1));
    assert_eq!((rig.elsewhere(GLOBAL, allocate), rig.status(rig.stream)), (0, 1));
    assert_eq!(rig.elsewhere(GLOBAL, || rig.end_and_count(rig.stream)), (0, 0));
}

fn a_bad_call_breaks_the_capture_or_not(rig: &Rig) {
    let (s, b) = (rig.stream, rig.buffer);
    let end = b + BUFFER_BYTES as u64;
    let mut address = 0;
    let copy_2d = |pitch, height| CUDA_MEMCPY2D_v2 {
        srcMemoryType: CU_MEMORYTYPE_DEVICE,
        dstMemoryType: CU_MEMORYTYPE_DEVICE,
        srcDevice: b,
        dstDevice: b + 8192,
        srcPitch: pitch,
        dstPitch: pitch,
        WidthInBytes: 16,
        Height: height,
        ..CUDA_MEMCPY2D_v2::default()
    };
    let null = std::ptr::null_mut();
    // Outside a capture, then inside: code, status, end, nodes.
    let line = |name: &str, outside: u32, inside: Outcome, call: &mut dyn FnMut() -> u32| {
        assert_eq!(call(), outside, "{name}");
        rig.sync(s);
        assert_eq!(rig.during(s, THREAD_LOCAL, call), inside, "{name}");
    };
    line("fill past the end", 1, (0, 1, 0, 1), &mut || {
        cu!(rig, cuMemsetD32Async(b, 0, 1 << 20, s))
    });
    line("misaligned", 1, (1, 1, 0, 0), &mut || cu!(rig, cuMemsetD32Async(b + 1, 0, 4, s)));
    line("no elements", 0, (0, 1, 0, 0), &mut || cu!(rig, cuMemsetD32Async(b, 0, 0, s)));
    line("fill of null", 1, (0, 1, 0, 1), &mut || cu!(rig, cuMemsetD32Async(0, 0, 4, s)));
    line("copy past the end", 1, (1, 1, 0, 0), &mut || {
        cu!(rig, cuMemcpyDtoDAsync_v2(end - 64, b, 1 << 20, s))
    });
    line("no bytes", 0, (0, 1, 0, 0), &mut || cu!(rig, cuMemcpyDtoDAsync_v2(b, b + 4096, 0, s)));
    line("copy to null", 1, (1, 1, 0, 0), &mut || cu!(rig, cuMemcpyDtoDAsync_v2(0, b, 16, s)));
    line("copy from null", 1, (1, 1, 0, 0), &mut || {
        cu!(rig, cuMemcpyHtoDAsync_v2(b, std::ptr::null(), 16, s))
    });
    line("pitch", 1, (1, 1, 0, 0), &mut || cu!(rig, cuMemcpy2DAsync_v2(&copy_2d(8, 4), s)));
    line("no rows", 0, (0, 1, 0, 0), &mut || cu!(rig, cuMemcpy2DAsync_v2(&copy_2d(64, 0), s)));
    line("fill pitch", 1, (1, 1, 0, 0), &mut || cu!(rig, cuMemsetD2D32Async(b, 8, 0, 4, 4, s)));
    line("no fill rows", 0, (0, 1, 0, 0), &mut || cu!(rig, cuMemsetD2D32Async(b, 64, 0, 4, 0, s)));
    line("no function", 1, (1, 1, 0, 0), &mut || cu!(rig, cuLaunchHostFunc(s, None, null)));
    line("no event", 400, (400, 1, 0, 0), &mut || rig.record(null.cast(), s));
    line("wait for no event", 400, BROKEN(400), &mut || rig.wait(s, null.cast()));
    line("wait flags", 1, (1, 1, 0, 0), &mut || cu!(rig, cuStreamWaitEvent(s, rig.event, 2)));
    line("allocate nothing", 0, (0, 1, 0, 0), &mut || {
        cu!(rig, cuMemAllocAsync(&mut address, 0, s))
    });
    line("allocate too much", 2, (2, 1, 0, 0), &mut || {
        cu!(rig, cuMemAllocAsync(&mut address, 1 << 60, s))
    });
    line("free nonsense", 1, (1, 1, 0, 0), &mut || cu!(rig, cuMemFreeAsync(0x1234, s)));
}

fn a_relaxed_thread_passes_its_own_global_capture(rig: &Rig) {
    let s = rig.stream;
    let graph = rig.new_graph_of_one_fill();
    let exec = rig.instantiate(graph);
    let guarded = |call: &dyn Fn() -> u32| {
        let whole = || {
            rig.exchange(RELAXED);
            let code = call();
            rig.exchange(GLOBAL);
            code
        };
        assert_eq!(rig.during(s, GLOBAL, whole), (0, 1, 0, 0));
    };
    guarded(&|| {
        let mut address = 0;
        cu!(rig, cuMemAlloc_v2(&mut address, 64)) + cu!(rig, cuMemFree_v2(address))
    });
    guarded(&|| {
        let mut at = std::ptr::null_mut();
        cu!(rig, cuMemHostAlloc(&mut at, 64, 0)) + cu!(rig, cuMemFreeHost(at))
    });
    guarded(&|| {
        let mut exec = std::ptr::null_mut();
        let code = cu!(rig, cuGraphInstantiateWithFlags(&mut exec, graph, 0));
        code + cu!(rig, cuGraphExecDestroy(exec))
    });
    guarded(&|| cu!(rig, cuEventQuery(rig.event)) + cu!(rig, cuEventSynchronize(rig.event)));
    guarded(&|| cu!(rig, cuStreamSynchronize(rig.other)));
    guarded(&|| {
        let mut info = CUgraphExecUpdateResultInfo::default();
        cu!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info))
    });
    guarded(&|| cu!(rig, cuGraphLaunch(exec, rig.other)));
    guarded(&|| cu!(rig, cuMemcpyHtoD_v2(rig.buffer, (&raw const graph).cast(), 8)));
    guarded(&|| {
        let mut stream = std::ptr::null_mut();
        cu!(rig, cuStreamCreate(&mut stream, 1)) + cu!(rig, cuStreamDestroy_v2(stream))
    });
    guarded(&|| {
        let mut address = 0;
        let code = cu!(rig, cuMemAllocAsync(&mut address, 64, rig.other));
        code + cu!(rig, cuMemFreeAsync(address, rig.other))
    });
    ok!(rig, cuGraphExecDestroy(exec));
    ok!(rig, cuGraphDestroy(graph));
}
