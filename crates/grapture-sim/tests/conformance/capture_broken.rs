//! What is said to calls on a stream whose capture is broken, and to calls on the legacy stream
//! beside a capture that it would have to wait for.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::rig::{NULL_STREAM, PTX, RELAXED, Rig, per_thread};
use crate::transcript::{quietly, saw};

rules! { both;
    calls_on_a_stream_of_a_broken_capture(rig) {
        for (name, stream) in [("non-blocking", rig.stream), ("per thread", per_thread())] {
            each_call(rig, &mut |what, call| {
                rig.begin(stream, RELAXED);
                quietly(|| cu!(rig, cuStreamQuery(stream)));
                show(rig, stream, &format!("{name} {what}"), &|| call(stream));
            });
        }
    }
    calls_on_the_legacy_stream_beside_a_blocking_capture(rig) {
        each_call(rig, &mut |what, call| {
            rig.begin(rig.blocking, RELAXED);
            show(rig, rig.blocking, what, &|| call(NULL_STREAM));
        });
    }
    calls_on_a_capturing_per_thread_stream(rig) {
        each_call(rig, &mut |what, call| {
            rig.begin(per_thread(), RELAXED);
            show(rig, per_thread(), what, &|| call(per_thread()));
        });
    }
    calls_on_a_capturing_stream(rig) {
        each_call(rig, &mut |what, call| {
            rig.begin(rig.stream, RELAXED);
            show(rig, rig.stream, what, &|| call(rig.stream));
        });
    }
    events_of_a_broken_capture(rig) {
        let timed = rig.timed_event();
        for what in 0..5 {
            rig.begin(rig.stream, RELAXED);
            assert_eq!((rig.record(rig.event, rig.stream), rig.record(timed, rig.stream)), (0, 0));
            quietly(|| cu!(rig, cuStreamQuery(rig.stream)));
            let code = quietly(|| match what {
                0 => cu!(rig, cuEventQuery(rig.event)),
                1 => cu!(rig, cuEventSynchronize(rig.event)),
                2 => cu!(rig, cuEventElapsedTime(&mut 0.0, timed, timed)),
                3 => rig.wait(rig.other, rig.event),
                _ => rig.record(rig.event, rig.other),
            });
            saw("code", (code, rig.status(rig.stream), rig.status(rig.other)));
            rig.end_and_count(rig.stream);
        }
        ok!(rig, cuEventDestroy_v2(timed));
    }
}

type Call<'c> = &'c dyn Fn(CUstream) -> u32;

/// Shows the code, the state of the capturing stream after the call, and the end.
fn show(rig: &Rig, stream: CUstream, what: &str, call: &dyn Fn() -> u32) {
    let code = quietly(call);
    let status = quietly(|| rig.status(stream));
    let (end, graph) = quietly(|| rig.end(stream));
    if !graph.is_null() {
        ok!(rig, cuGraphDestroy(graph));
    }
    saw(what, (code, status, end));
}

/// Makes each of the calls, with its name.
fn each_call(rig: &Rig, each: &mut dyn FnMut(&str, Call<'_>)) {
    let module = rig.module(PTX);
    let (kernel, pinned) = (rig.function(module, "noarg"), rig.pinned(4096));
    let managed: CUdeviceptr = make!(rig, cuMemAllocManaged(4096, 1));
    let graph = rig.new_graph();
    let exec = rig.instantiate(graph);
    let timed = rig.timed_event();
    let (buffer, huge) = (rig.buffer, 1 << 50);
    let mut own = [0_u8; 64];
    let own = own.as_mut_ptr().cast::<c_void>();
    let launch = |stream, block| {
        let (none, nothing) = (null_mut(), null_mut());
        cu!(rig, cuLaunchKernel(kernel, 1, 1, 1, block, 1, 1, 0, stream, none, nothing))
    };
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    unsafe extern "C" fn called(_: CUstream, _: CUresult, _: *mut c_void) {}
    let calls: [(&str, Call<'_>); 34] = [
        ("query", &|s| cu!(rig, cuStreamQuery(s))),
        ("synchronize", &|s| cu!(rig, cuStreamSynchronize(s))),
        ("launch a graph", &|s| cu!(rig, cuGraphLaunch(exec, s))),
        ("upload a graph", &|s| cu!(rig, cuGraphUpload(exec, s))),
        ("launch no graph", &|s| cu!(rig, cuGraphLaunch(null_mut(), s))),
        ("callback", &|s| cu!(rig, cuStreamAddCallback(s, Some(called), null_mut(), 0))),
        ("attach", &|s| cu!(rig, cuStreamAttachMemAsync(s, managed, 0, 1))),
        ("prefetch", &|s| cu!(rig, cuMemPrefetchAsync(managed, 64, 0, s))),
        ("prefetch nothing", &|s| cu!(rig, cuMemPrefetchAsync(0, 64, 0, s))),
        ("flags", &|s| cu!(rig, cuStreamGetFlags(s, &mut 0))),
        ("id", &|s| cu!(rig, cuStreamGetId(s, &mut 0))),
        ("priority", &|s| cu!(rig, cuStreamGetPriority(s, &mut 0))),
        ("context", &|s| cu!(rig, cuStreamGetCtx(s, &mut null_mut()))),
        ("device", &|s| cu!(rig, cuStreamGetDevice(s, &mut 0))),
        ("get attribute", &|s| {
            let id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
            cu!(rig, cuStreamGetAttribute(s, id, &mut CUlaunchAttributeValue::default()))
        }),
        ("set attribute", &|s| {
            let value = CUlaunchAttributeValue { priority: 0 };
            cu!(rig, cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value))
        }),
        ("copy attributes", &|s| cu!(rig, cuStreamCopyAttributes(rig.other, s))),
        ("launch", &|s| launch(s, 1)),
        ("launch too much", &|s| launch(s, 2048)),
        ("fill nothing", &|s| cu!(rig, cuMemsetD8Async(buffer, 1, 0, s))),
        ("fill past the end", &|s| cu!(rig, cuMemsetD8Async(buffer, 1, 1 << 30, s))),
        ("fill badly", &|s| cu!(rig, cuMemsetD32Async(buffer + 1, 1, 4, s))),
        ("copy nothing", &|s| cu!(rig, cuMemcpyDtoDAsync_v2(buffer, buffer, 0, s))),
        ("copy from nowhere", &|s| cu!(rig, cuMemcpyDtoDAsync_v2(buffer, 0, 16, s))),
        ("copy from the host", &|s| cu!(rig, cuMemcpyHtoDAsync_v2(buffer, own, 16, s))),
        ("copy to pinned", &|s| cu!(rig, cuMemcpyDtoHAsync_v2(pinned, buffer, 16, s))),
        ("allocate too much", &|s| cu!(rig, cuMemAllocAsync(&mut 0, huge, s))),
        ("allocate nothing", &|s| cu!(rig, cuMemAllocAsync(&mut 0, 0, s))),
        ("free nothing", &|s| cu!(rig, cuMemFreeAsync(0, s))),
        ("free what is not there", &|s| cu!(rig, cuMemFreeAsync(0x1230, s))),
        ("call", &|s| cu!(rig, cuLaunchHostFunc(s, Some(nothing), null_mut()))),
        ("write", &|s| cu!(rig, cuStreamWriteValue32_v2(s, buffer, 1, 0))),
        ("record with a time", &|s| cu!(rig, cuEventRecord(timed, s))),
        ("wait for what was never recorded", &|s| cu!(rig, cuStreamWaitEvent(s, timed, 0))),
    ];
    for (what, call) in calls {
        each(what, call);
    }
    let more: [(&str, Call<'_>); 7] = [
        ("begin", &|s| cu!(rig, cuStreamBeginCapture_v2(s, CUstreamCaptureMode(RELAXED)))),
        ("begin in no mode", &|s| cu!(rig, cuStreamBeginCapture_v2(s, CUstreamCaptureMode(3)))),
        ("begin to a graph", &|s| {
            let mode = CUstreamCaptureMode(RELAXED);
            cu!(rig, cuStreamBeginCaptureToGraph(s, graph, null(), null(), 0, mode))
        }),
        ("copy at once", &|_| cu!(rig, cuMemcpyDtoD_v2(buffer, buffer + 64, 16))),
        ("copy nothing at once", &|_| cu!(rig, cuMemcpyDtoD_v2(buffer, buffer + 64, 0))),
        ("fill nothing at once", &|_| cu!(rig, cuMemsetD8_v2(buffer, 0, 0))),
        ("fill past the end at once", &|_| cu!(rig, cuMemsetD8_v2(buffer, 0, 1 << 30))),
    ];
    for (what, call) in more {
        each(what, call);
    }
    rig.sync(NULL_STREAM);
    rig.sync(rig.stream);
    rig.sync(per_thread());
    ok!(rig, cuEventDestroy_v2(timed));
    rig.release(graph, exec);
    ok!(rig, cuMemFree_v2(managed));
    ok!(rig, cuMemFreeHost(pinned));
    ok!(rig, cuModuleUnload(module));
}
