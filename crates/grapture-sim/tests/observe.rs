//! What a simulation tells of its calls: the trace, and where what is alive came from.

mod common;

use std::path::PathBuf;
use std::ptr::null_mut;

use common::{PTX, Setup};
use grapture_sim::SimConfig;
use grapture_sys::*;

/// A path for a trace that no other test has.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.trace", std::process::id()))
}

/// The lines that a simulation wrote after its setup.
fn traced(name: &str, calls: impl FnOnce(&Setup)) -> Vec<String> {
    let path = path(name);
    let t = Setup::with(SimConfig::new().trace(&path));
    let before = std::fs::read_to_string(&path).unwrap().lines().count();
    calls(&t);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    text.lines().skip(before).map(str::to_owned).collect()
}

#[test]
fn a_trace_has_a_line_for_each_call() {
    let lines = traced("lines", |t| {
        let stream = t.stream();
        let module = t.module(PTX);
        t.function(module, "noarg");
        assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 0);
        assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 400);
        assert_eq!(call!(t, cuMemcpyDtoH_v2(null_mut(), 64, 0)), 0);
    });
    assert_eq!(lines.len(), 6, "{lines:#?}");
    let number = |line: &str| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(lines.windows(2).all(|pair| number(&pair[0]) + 1 == number(&pair[1])), "{lines:#?}");
    let made = lines[0].split(", gives ").nth(1).unwrap();
    assert!(made.starts_with("stream 0x22"), "{lines:#?}");
    assert!(lines[0].contains("cuStreamCreate(phStream: 0x"), "{lines:#?}");
    assert!(lines[0].contains("Flags: 1) = 0 CUDA_SUCCESS"), "{lines:#?}");
    assert!(lines[2].contains("name: \"noarg\") = 0 CUDA_SUCCESS, gives function"), "{lines:#?}");
    assert!(lines[3].ends_with(&format!("cuStreamDestroy_v2(hStream: {made}) = 0 CUDA_SUCCESS")));
    assert!(lines[4].ends_with("= 400 CUDA_ERROR_INVALID_HANDLE"), "{lines:#?}");
    assert!(lines[5].contains("(dstHost: null, srcDevice: 64, ByteCount: 0)"), "{lines:#?}");
}

#[test]
fn a_trace_tells_threads_apart_and_shows_failures_that_were_asked_for() {
    let lines = traced("threads", |t| {
        assert_eq!(call!(t, cuCtxSynchronize()), 0);
        let driver = t.driver.clone();
        let elsewhere = move || assert_eq!(call!(driver, cuCtxSynchronize()), 201);
        std::thread::spawn(elsewhere).join().unwrap();
        t.sim.fail(Function::cuCtxSynchronize, 1, CUDA_ERROR_UNKNOWN);
        assert_eq!(call!(t, cuCtxSynchronize()), 999);
    });
    let thread = |line: &str| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
    assert_eq!(thread(&lines[0]), thread(&lines[2]));
    assert_ne!(thread(&lines[0]), thread(&lines[1]));
    assert!(lines[2].ends_with("cuCtxSynchronize() = 999 CUDA_ERROR_UNKNOWN"), "{lines:#?}");
}

#[test]
fn lists_that_a_call_fills_are_not_read() {
    let lines = traced("lists", |t| {
        let module = t.module(PTX);
        let nowhere = std::ptr::dangling_mut();
        assert_eq!(call!(t, cuModuleEnumerateFunctions(nowhere, 0, module)), 0);
    });
    assert!(lines[1].ends_with("= 0 CUDA_SUCCESS"), "{lines:#?}");
}

#[test]
fn what_is_alive_names_the_call_that_made_it() {
    let t = Setup::new();
    let before = t.sim.total_calls();
    let stream = t.stream();
    let memory = t.alloc(300);
    let graph: CUgraph = make!(t, cuGraphCreate(0));
    let exec: CUgraphExec = make!(t, cuGraphInstantiateWithFlags(graph, 0));
    let leaks = t.sim.leaks();
    assert_eq!(leaks.counts, t.sim.live());
    let told: Vec<_> = leaks
        .objects
        .iter()
        .map(|object| {
            let origin = object.origin.unwrap();
            (object.kind, object.bytes, origin.function, origin.call)
        })
        .collect();
    use Function::*;
    let expected = [
        ("primary context retain", None, cuDevicePrimaryCtxRetain, before - 1),
        ("stream", None, cuStreamCreate, before + 1),
        ("device allocation", Some(300), cuMemAlloc_v2, before + 2),
        ("graph", None, cuGraphCreate, before + 3),
        ("executable graph", None, cuGraphInstantiateWithFlags, before + 4),
    ];
    assert_eq!(told, expected);
    assert_eq!(leaks.objects[1].handle, stream.addr() as u64);
    assert_eq!(leaks.objects[2].handle, memory);
    let text = leaks.to_string();
    let line = format!("device allocation {memory:#x} of 300 bytes: cuMemAlloc_v2, call");
    assert!(text.contains("1 device allocations") && text.contains(&line), "{text}");
    assert_eq!(call!(t, cuGraphExecDestroy(exec)), 0);
    assert_eq!(call!(t, cuGraphDestroy(graph)), 0);
    assert_eq!(call!(t, cuMemFree_v2(memory)), 0);
    assert_eq!(call!(t, cuStreamDestroy_v2(stream)), 0);
    assert_eq!(call!(t, cuDevicePrimaryCtxRelease_v2(0)), 0);
    let leaks = t.sim.leaks();
    assert!(leaks.is_empty() && leaks.objects.is_empty(), "{leaks}");
}

#[test]
fn each_kind_that_is_counted_is_listed() {
    let t = Setup::new();
    t.event();
    t.module(PTX);
    let text = std::ffi::CString::new(PTX).unwrap();
    let text = text.as_ptr().cast();
    let none = null_mut();
    let _: CUlibrary =
        make!(t, cuLibraryLoadData(text, none, null_mut(), 0, null_mut(), none.cast(), 0));
    let _: *mut core::ffi::c_void = make!(t, cuMemHostAlloc(64, 0));
    let _: CUcontext = make!(t, cuCtxCreate_v2(0, 0));
    let mut stream_bytes = 0;
    let stream = t.stream();
    assert_eq!(call!(t, cuMemAllocAsync(&mut stream_bytes, 128, stream)), 0);
    let leaks = t.sim.leaks();
    let counts = leaks.counts;
    let counted = counts.primary_retains
        + counts.contexts
        + counts.streams
        + counts.events
        + counts.device_allocations
        + counts.pinned
        + counts.modules
        + counts.libraries;
    assert_eq!((leaks.objects.len(), counted), (8, 8), "{leaks}");
}
