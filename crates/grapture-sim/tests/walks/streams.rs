//! Steps on streams, events and captures.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use grapture_sys::*;

use crate::call;
use crate::walk::{Graph, Walk};

unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the walk passes its counter, which it never frees.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
}

/// The host function of all walks, and what it counts in.
pub fn counting(walk: &Walk) -> (CUhostFn, *mut c_void) {
    (Some(count), std::ptr::from_ref(walk.called).cast_mut().cast())
}

/// Work that is not done yet answers 600, which says nothing of the rules.
fn settled(code: u32) -> u32 {
    if code == 600 { 0 } else { code }
}

/// Has one call on a stream made here or there.
fn ask(
    walk: &mut Walk,
    name: &str,
    stream: usize,
    run: impl FnOnce(&Driver, CUstream) -> u32 + 'static,
) {
    let (there, raw) = (walk.there(), walk.streams[stream]);
    let code = settled(walk.on(there, move |driver| run(driver, raw)));
    walk.step(format!("{name} {stream}{}", if there { " there" } else { "" }), code.to_string());
}

pub fn begin(walk: &mut Walk) {
    let (stream, mode) = (walk.stream(), [0, 0, 1, 1, 2, 2, 2, 3][walk.source.below(8)]);
    ask(walk, &format!("begin mode {mode} on"), stream, move |driver, stream| {
        call!(driver, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(mode)))
    });
}

pub fn begin_to_graph(walk: &mut Walk) {
    let Some(graph) = walk.graph() else { return };
    let (stream, mode) = (walk.stream(), walk.source.below(3) as u32);
    let (there, raw) = (walk.there(), walk.streams[stream]);
    let code = walk.on(there, move |driver| {
        let mode = CUstreamCaptureMode(mode);
        call!(driver, cuStreamBeginCaptureToGraph(raw, graph.raw, null(), null(), 0, mode))
    });
    if code == 0 {
        walk.filled.push((walk.place(stream, there), graph.number));
    }
    let text = format!("begin mode {mode} to graph {} on {stream} there {there}", graph.number);
    walk.step(text, code.to_string());
}

pub fn end(walk: &mut Walk) {
    let (stream, there) = (walk.stream(), walk.there());
    end_on(walk, stream, there);
}

/// Ends a capture. A graph that was to take it is gone where that fails.
pub fn end_on(walk: &mut Walk, stream: usize, there: bool) {
    let raw = walk.streams[stream];
    let (code, graph) = walk.on(there, move |driver| {
        let mut graph = null_mut();
        let code = call!(driver, cuStreamEndCapture(raw, &mut graph));
        (code, graph)
    });
    let place = walk.place(stream, there);
    let mut answer = code.to_string();
    if !graph.is_null() {
        if walk.graphs.iter().all(|known| known.raw != graph) {
            let number = walk.number();
            walk.graphs.push(Graph { number, raw: graph });
        }
        answer += &crate::graphs::shape(walk, graph);
        walk.filled.retain(|(stream, _)| *stream != place);
    } else if [901, 904, 908].contains(&code)
        && let Some(at) = walk.filled.iter().position(|(stream, _)| *stream == place)
    {
        let (_, gone) = walk.filled.swap_remove(at);
        walk.graphs.retain(|known| known.number != gone);
        walk.bodies.retain(|(holder, _)| *holder != gone);
    }
    walk.step(format!("end {stream}{}", if there { " there" } else { "" }), answer);
}

pub fn exchange(walk: &mut Walk) {
    let (there, wanted) = (walk.there(), walk.source.below(3) as u32);
    let answer = walk.on(there, move |driver| {
        let mut mode = CUstreamCaptureMode(wanted);
        (call!(driver, cuThreadExchangeStreamCaptureMode(&mut mode)), mode.0)
    });
    walk.step(format!("exchange {wanted} there {there}"), format!("{answer:?}"));
}

pub fn info(walk: &mut Walk) {
    let (stream, there) = (walk.stream(), walk.there());
    let raw = walk.streams[stream];
    let answer = walk.on(there, move |driver| {
        let mut status = CUstreamCaptureStatus(9);
        let (mut id, mut graph, mut nodes, mut data, mut count) =
            (0, null_mut(), null(), null(), 99);
        let places = (&mut id, &mut graph, &mut nodes, &mut data, &mut count);
        let code = call!(
            driver,
            cuStreamGetCaptureInfo_v3(
                raw,
                &mut status,
                places.0,
                places.1,
                places.2,
                places.3,
                places.4
            )
        );
        (code, if code == 0 { (status.0, if status.0 == 1 { count } else { 0 }) } else { (0, 0) })
    });
    walk.step(format!("info {stream} there {there}"), format!("{answer:?}"));
}

/// Takes the dependencies of a stream away, or gives it those of another.
pub fn dependencies(walk: &mut Walk) {
    let (stream, from, flags) = (walk.stream(), walk.stream(), walk.source.below(3) as u32);
    let (raw, other) = (walk.streams[stream], walk.streams[from]);
    let empty = walk.source.chance(3);
    let answer = walk.on(false, move |driver| {
        let of = |stream| {
            let mut status = CUstreamCaptureStatus(9);
            let (mut id, mut graph, mut nodes, mut data, mut count) =
                (0, null_mut(), null(), null(), 0);
            let code = call!(
                driver,
                cuStreamGetCaptureInfo_v3(
                    stream,
                    &mut status,
                    &mut id,
                    &mut graph,
                    &mut nodes,
                    &mut data,
                    &mut count
                )
            );
            (code == 0 && status.0 == 1).then_some((id, nodes, count))
        };
        // Nodes of another capture may be followed by the driver.
        let (Some(own), Some(given)) = (of(raw), of(other)) else { return 9999 };
        if own.0 != given.0 {
            return 9998;
        }
        let nodes: &[CUgraphNode] = if given.2 == 0 {
            &[]
        } else {
            // SAFETY: the driver told so many nodes, and no call was made since then.
            unsafe { std::slice::from_raw_parts(given.1, given.2) }
        };
        let mut nodes = if empty { Vec::new() } else { nodes.to_vec() };
        let (at, count) = (nodes.as_mut_ptr(), nodes.len());
        call!(driver, cuStreamUpdateCaptureDependencies_v2(raw, at, null(), count, flags))
    });
    if answer < 9000 {
        walk.step(
            format!("dependencies of {stream} from {from} flags {flags}"),
            answer.to_string(),
        );
    }
}

pub fn record(walk: &mut Walk) {
    let (stream, event) = (walk.stream(), walk.event());
    let (raw, flags) = (walk.events[event], u32::from(walk.source.chance(6)));
    ask(walk, &format!("record {event} flags {flags} on"), stream, move |driver, stream| {
        call!(driver, cuEventRecordWithFlags(raw, stream, flags))
    });
}

pub fn wait(walk: &mut Walk) {
    let (stream, event) = (walk.stream(), walk.event());
    let (raw, flags) = (walk.events[event], u32::from(walk.source.chance(6)));
    ask(walk, &format!("wait for {event} flags {flags} on"), stream, move |driver, stream| {
        call!(driver, cuStreamWaitEvent(stream, raw, flags))
    });
}

/// What is asked of an event, or of two.
pub fn ask_event(walk: &mut Walk) {
    let (event, there, what) = (walk.event(), walk.there(), walk.source.below(3));
    let raw = walk.events[event];
    let code = walk.on(there, move |driver| match what {
        0 => call!(driver, cuEventQuery(raw)),
        1 => call!(driver, cuEventSynchronize(raw)),
        _ => call!(driver, cuEventElapsedTime(&mut 0.0, raw, raw)),
    });
    walk.step(format!("ask {what} of event {event} there {there}"), settled(code).to_string());
}

/// What is asked of a stream, or done on it.
pub fn on_a_stream(walk: &mut Walk) {
    let (stream, what) = (walk.stream(), walk.source.below(16));
    let (buffer, pinned, own) = (walk.buffer + 64, walk.pinned, walk.own.as_mut_ptr());
    let (pooled, managed) = (walk.pooled, walk.managed);
    let (function, data) = counting(walk);
    let kernels = walk.kernels;
    let at = walk.buffer;
    ask(walk, &format!("do {what} on"), stream, move |driver, stream| {
        let launch = |kernel: usize, n: u32, block| {
            let (mut at, mut n) = (at, n);
            let mut arguments = [(&raw mut at).cast(), (&raw mut n).cast()];
            let (kernel, list, none) = (kernels[kernel], arguments.as_mut_ptr(), null_mut());
            call!(driver, cuLaunchKernel(kernel, 1, 1, 1, block, 1, 1, 0, stream, list, none))
        };
        match what {
            0 | 1 => launch(0, 1, 1),
            2 => launch(1, 1, 1),
            3 => launch(2, 0, 2048),
            4 => call!(driver, cuMemsetD32Async(buffer, 1, 4, stream)),
            5 => call!(driver, cuMemcpyDtoDAsync_v2(buffer, buffer + 64, 16, stream)),
            6 => call!(driver, cuMemcpyDtoHAsync_v2(pinned, buffer, 16, stream)),
            7 => call!(driver, cuMemcpyHtoDAsync_v2(buffer, own.cast(), 16, stream)),
            8 => call!(driver, cuMemcpyDtoHAsync_v2(own.cast(), buffer, 16, stream)),
            9 => call!(driver, cuLaunchHostFunc(stream, function, data)),
            10 => call!(driver, cuStreamQuery(stream)),
            11 => call!(driver, cuStreamSynchronize(stream)),
            12 => call!(driver, cuStreamWriteValue32_v2(stream, buffer, 1, 0)),
            13 => {
                let mut address = 0;
                let code = call!(driver, cuMemAllocAsync(&mut address, 64, stream));
                match code {
                    0 => 1000 * call!(driver, cuMemFreeAsync(address, stream)),
                    code => code,
                }
            }
            14 => call!(driver, cuMemcpyAsync(pooled, managed, 16, stream)),
            _ => call!(driver, cuMemPrefetchAsync(managed, 64, 0, stream)),
        }
    });
}

/// Calls that know no stream; what they make is given back at once, by a relaxed thread.
pub fn anywhere(walk: &mut Walk) {
    let (there, what) = (walk.there(), walk.source.below(12));
    let (buffer, own) = (walk.buffer + 64, walk.own.as_mut_ptr());
    let code = walk.on(there, move |driver| {
        let relaxed = |run: &dyn Fn() -> u32| {
            let mut mode = CUstreamCaptureMode(2);
            call!(driver, cuThreadExchangeStreamCaptureMode(&mut mode));
            let code = run();
            call!(driver, cuThreadExchangeStreamCaptureMode(&mut mode));
            1000 * code
        };
        match what {
            0 => call!(driver, cuCtxSynchronize()),
            1 => {
                let mut address = 0;
                match call!(driver, cuMemAlloc_v2(&mut address, 64)) {
                    0 => relaxed(&|| call!(driver, cuMemFree_v2(address))),
                    code => code,
                }
            }
            2 => {
                let mut address = null_mut();
                match call!(driver, cuMemHostAlloc(&mut address, 64, 0)) {
                    0 => relaxed(&|| call!(driver, cuMemFreeHost(address))),
                    code => code,
                }
            }
            3 => call!(driver, cuMemcpyDtoH_v2(own.cast(), buffer, 16)),
            4 => call!(driver, cuMemcpyHtoD_v2(buffer, own.cast(), 16)),
            5 => call!(driver, cuMemsetD8_v2(buffer, 0, 16)),
            6 => call!(driver, cuMemFree_v2(0)),
            7 => {
                let mut stream = null_mut();
                let code = call!(driver, cuStreamCreate(&mut stream, 1));
                code + 1000 * call!(driver, cuStreamDestroy_v2(stream))
            }
            8 => {
                let mut event = null_mut();
                let code = call!(driver, cuEventCreate(&mut event, 2));
                code + 1000 * call!(driver, cuEventDestroy_v2(event))
            }
            9 => {
                let mut pool = null_mut();
                assert_eq!(call!(driver, cuDeviceGetDefaultMemPool(&mut pool, 0)), 0);
                call!(driver, cuMemPoolTrimTo(pool, 0))
            }
            10 => call!(driver, cuDeviceGraphMemTrim(0)),
            _ => call!(driver, cuMemcpyDtoD_v2(buffer, buffer + 64, 16)),
        }
    });
    walk.step(format!("call {what} there {there}"), code.to_string());
}
