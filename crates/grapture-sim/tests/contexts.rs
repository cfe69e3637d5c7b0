//! What each call needs of the calling thread's current context: its answer with the primary
//! context, with none and with another one, as an H200 with driver 13.0 answered.

mod common;

use core::ffi::c_void;
use std::ptr::null_mut;

use common::{PTX, Setup};
use grapture_sys::*;

/// A call that needs some context, and what it answers by what is current.
struct Need {
    what: &'static str,
    answers: [u32; 3],
    call: Box<dyn Fn() -> u32>,
}

macro_rules! needs {
    ($($what:literal [$($answer:literal),*] = $call:expr;)*) => {
        vec![$(Need { what: $what, answers: [$($answer),*], call: Box::new($call) }),*]
    };
}

struct Fixture {
    t: Setup,
    other: CUcontext,
    stream: CUstream,
    buffer: CUdeviceptr,
    event: CUevent,
    timed: CUevent,
    module: CUmodule,
    k: CUfunction,
    pinned: *mut c_void,
    host: Vec<u8>,
}

fn fixture() -> Fixture {
    let t = Setup::new();
    let mut other = null_mut();
    assert_eq!(call!(t, cuCtxCreate_v2(&mut other, 0, 0)), 0);
    assert_eq!(call!(t, cuCtxPopCurrent_v2(null_mut())), 0);
    let (stream, buffer, timed) = (t.stream(), t.alloc(1 << 16), t.event());
    let event: CUevent = make!(t, cuEventCreate(2));
    let module = t.module(PTX);
    let k = t.function(module, "k");
    let pinned: *mut c_void = make!(t, cuMemHostAlloc(4096, 0));
    for event in [event, timed] {
        assert_eq!(call!(t, cuEventRecord(event, stream)), 0);
    }
    Fixture { t, other, stream, buffer, event, timed, module, k, pinned, host: vec![0; 64] }
}

/// In the primary context, whatever is current.
fn in_primary<R>(t: &Setup, make: impl FnOnce() -> R) -> R {
    assert_eq!(call!(t, cuCtxPushCurrent_v2(t.context)), 0);
    let made = make();
    assert_eq!(call!(t, cuCtxPopCurrent_v2(null_mut())), 0);
    made
}

fn launch(f: &Fixture, stream: usize) -> u32 {
    let (mut buffer, mut one) = (f.buffer, 1_u32);
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    f.t.launch(f.k, stream, &mut [(&raw mut buffer).cast(), (&raw mut one).cast()])
}

fn streams_and_memory(f: &'static Fixture) -> Vec<Need> {
    let (t, s, b) = (&f.t, f.stream, f.buffer);
    needs! {
        "cuStreamCreate" [0, 201, 0] = move || call!(t, cuStreamCreate(&mut null_mut(), 1));
        "cuLaunchKernel" [0, 0, 0] = move || launch(f, f.stream.expose_provenance());
        "launch on the legacy stream" [0, 201, 400] = move || launch(f, 0);
        "launch on the legacy handle" [0, 201, 400] = move || launch(f, 1);
        "launch on the per-thread stream" [0, 201, 400] = move || launch(f, 2);
        "cuMemsetD32Async per thread" [0, 201, 0] = move || call!(t, cuMemsetD32Async(b, 0, 4, std::ptr::without_provenance_mut(2)));
        "cuMemcpyHtoDAsync" [0, 0, 0] = move || call!(t, cuMemcpyHtoDAsync_v2(b, f.pinned, 64, s));
        "cuMemcpyDtoHAsync" [0, 0, 0] = move || call!(t, cuMemcpyDtoHAsync_v2(f.pinned, b, 64, s));
        "cuMemcpyDtoDAsync" [0, 0, 0] = move || call!(t, cuMemcpyDtoDAsync_v2(b, b + 4096, 64, s));
        "cuMemcpyAsync" [0, 0, 0] = move || call!(t, cuMemcpyAsync(b, b + 4096, 64, s));
        "cuMemsetD8Async" [0, 0, 0] = move || call!(t, cuMemsetD8Async(b, 0, 64, s));
        "cuMemsetD2D32Async" [0, 0, 0] = move || call!(t, cuMemsetD2D32Async(b, 64, 0, 4, 4, s));
        "cuMemcpyHtoD" [0, 201, 0] = move || call!(t, cuMemcpyHtoD_v2(b, f.host.as_ptr().cast(), 64));
        "cuMemcpyDtoD" [0, 201, 0] = move || call!(t, cuMemcpyDtoD_v2(b, b + 4096, 64));
        "cuMemsetD32" [0, 201, 0] = move || call!(t, cuMemsetD32_v2(b, 0, 16));
        "cuMemAlloc" [0, 201, 0] = move || call!(t, cuMemAlloc_v2(&mut 0, 64));
        "cuMemFree" [0, 0, 0] = move || {
            let p = in_primary(t, || t.alloc(64));
            call!(t, cuMemFree_v2(p))
        };
        "cuMemAllocAsync" [0, 0, 0] = move || call!(t, cuMemAllocAsync(&mut 0, 64, s));
        "cuMemHostAlloc" [0, 201, 0] = move || call!(t, cuMemHostAlloc(&mut null_mut(), 64, 0));
        "cuMemFreeHost" [0, 0, 0] = move || {
            let p = in_primary(t, || -> *mut c_void { make!(t, cuMemHostAlloc(64, 0)) });
            call!(t, cuMemFreeHost(p))
        };
        "cuMemGetInfo" [0, 201, 0] = move || call!(t, cuMemGetInfo_v2(&mut 0, &mut 0));
        "cuStreamSynchronize" [0, 0, 0] = move || call!(t, cuStreamSynchronize(s));
        "cuStreamQuery" [0, 0, 0] = move || {
            call!(t, cuStreamSynchronize(s));
            call!(t, cuStreamQuery(s))
        };
        "cuStreamGetPriority" [0, 0, 0] = move || call!(t, cuStreamGetPriority(s, &mut 0));
        "cuStreamGetFlags" [0, 0, 0] = move || call!(t, cuStreamGetFlags(s, &mut 0));
        "cuStreamGetId" [0, 0, 0] = move || call!(t, cuStreamGetId(s, &mut 0));
        "cuStreamGetCtx" [0, 0, 0] = move || call!(t, cuStreamGetCtx(s, &mut null_mut()));
        "cuStreamGetAttribute" [0, 0, 0] = move || {
            let mut value = CUstreamAttrValue_v1::default();
            call!(t, cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &mut value))
        };
        "cuStreamDestroy" [0, 0, 0] = move || {
            let stream = in_primary(t, || t.stream());
            call!(t, cuStreamDestroy_v2(stream))
        };
        "cuDeviceGetDefaultMemPool" [0, 0, 0] = move || call!(t, cuDeviceGetDefaultMemPool(&mut null_mut(), 0));
    }
}

fn events_and_modules(f: &'static Fixture) -> Vec<Need> {
    let (t, s) = (&f.t, f.stream);
    needs! {
        "cuEventCreate" [0, 201, 0] = move || call!(t, cuEventCreate(&mut null_mut(), 0));
        "cuEventRecord" [0, 0, 0] = move || call!(t, cuEventRecord(f.event, s));
        "cuEventRecord timed" [0, 0, 0] = move || call!(t, cuEventRecord(f.timed, s));
        "cuStreamWaitEvent" [0, 0, 0] = move || call!(t, cuStreamWaitEvent(s, f.event, 0));
        "cuEventSynchronize" [0, 0, 0] = move || call!(t, cuEventSynchronize(f.event));
        "cuEventQuery" [0, 0, 0] = move || call!(t, cuEventQuery(f.event));
        "cuEventElapsedTime" [0, 0, 0] = move || {
            call!(t, cuEventSynchronize(f.timed));
            call!(t, cuEventElapsedTime(&mut 0.0, f.timed, f.timed))
        };
        "cuEventDestroy" [0, 0, 0] = move || {
            let event = in_primary(t, || t.event());
            call!(t, cuEventDestroy_v2(event))
        };
        "cuModuleLoadData" [0, 201, 0] = move || {
            let text = std::ffi::CString::new(PTX).unwrap();
            call!(t, cuModuleLoadData(&mut null_mut(), text.as_ptr().cast()))
        };
        "cuModuleUnload" [0, 0, 0] = move || {
            let module = in_primary(t, || t.module(PTX));
            call!(t, cuModuleUnload(module))
        };
        "cuModuleGetFunction" [0, 0, 0] = move || call!(t, cuModuleGetFunction(&mut null_mut(), f.module, c"k".as_ptr()));
        "cuModuleGetGlobal" [500, 500, 500] = move || call!(t, cuModuleGetGlobal_v2(&mut 0, &mut 0, f.module, c"nope".as_ptr()));
        "cuFuncGetAttribute" [0, 0, 0] = move || call!(t, cuFuncGetAttribute(&mut 0, CU_FUNC_ATTRIBUTE_NUM_REGS, f.k));
        "cuFuncSetAttribute" [0, 0, 0] = move || {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            call!(t, cuFuncSetAttribute(f.k, attribute, 1024))
        };
        "cuFuncGetParamInfo" [0, 0, 0] = move || call!(t, cuFuncGetParamInfo(f.k, 0, &mut 0, &mut 0));
        "cuFuncLoad" [0, 0, 0] = move || call!(t, cuFuncLoad(f.k));
        "cuOccupancyMaxActiveBlocksPerMultiprocessor" [0, 201, 0] = move || call!(t, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut 0, f.k, 128, 0));
        "cuCtxGetStreamPriorityRange" [0, 201, 0] = move || call!(t, cuCtxGetStreamPriorityRange(&mut 0, &mut 0));
        "cuCtxGetLimit" [0, 201, 0] = move || call!(t, cuCtxGetLimit(&mut 0, CU_LIMIT_STACK_SIZE));
        "cuCtxSynchronize" [0, 201, 0] = move || call!(t, cuCtxSynchronize());
    }
}

#[test]
fn each_call_needs_the_context_that_the_driver_needs() {
    let f: &'static Fixture = Box::leak(Box::new(fixture()));
    let t = &f.t;
    let mut wrong = Vec::new();
    for need in streams_and_memory(f).iter().chain(&events_and_modules(f)) {
        for (current, wanted) in [t.context, null_mut(), f.other].into_iter().zip(need.answers) {
            assert_eq!(call!(t, cuCtxSetCurrent(current)), 0);
            let answer = (need.call)();
            let mut after = null_mut();
            assert_eq!(call!(t, cuCtxGetCurrent(&mut after)), 0);
            if answer != wanted || after != current {
                wrong.push((need.what, current, answer, wanted));
            }
            // `cuCtxSetCurrent(NULL)` popped the one entry, so that this puts it back.
            assert_eq!(call!(t, cuCtxSetCurrent(t.context)), 0);
            assert_eq!(call!(t, cuCtxSynchronize()), 0);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn work_crosses_contexts_where_the_driver_lets_it() {
    let f = fixture();
    let t = &f.t;
    assert_eq!(call!(t, cuCtxSetCurrent(f.other)), 0);
    let (stream, buffer, event) = (t.stream(), t.alloc(4096), t.event());
    let function = t.function(t.module(PTX), "k");
    assert_eq!(call!(t, cuCtxSetCurrent(t.context)), 0);
    let mut params = [f.pinned, f.pinned];
    assert_eq!(t.launch(function, f.stream, &mut params), 400);
    assert_eq!(launch(&f, stream.expose_provenance()), 400);
    assert_eq!(call!(t, cuEventRecord(f.event, stream)), 400);
    assert_eq!(call!(t, cuEventRecord(event, f.stream)), 400);
    assert_eq!(call!(t, cuStreamWaitEvent(stream, f.event, 0)), 0);
    assert_eq!(call!(t, cuMemsetD32Async(buffer, 0, 4, f.stream)), 0);
    assert_eq!(call!(t, cuMemcpyDtoDAsync_v2(f.buffer, buffer, 64, f.stream)), 0);
    assert_eq!(call!(t, cuCtxSynchronize()), 0);
}

#[test]
fn the_stack_of_contexts() {
    let t = Setup::new();
    let current = || {
        let mut context = null_mut();
        assert_eq!(call!(t, cuCtxGetCurrent(&mut context)), 0);
        context
    };
    let mut own = null_mut();
    assert_eq!(call!(t, cuCtxCreate_v2(&mut own, 0, 0)), 0);
    assert_eq!(current(), own);
    assert_eq!(call!(t, cuCtxDestroy_v2(own)), 0);
    assert_eq!(current(), t.context);
    assert_eq!(call!(t, cuCtxDestroy_v2(own)), 201);
    assert_eq!(call!(t, cuCtxDestroy_v2(t.context)), 201);
    assert_eq!(call!(t, cuCtxSetCurrent(null_mut())), 0);
    assert_eq!(current(), null_mut());
    assert_eq!(call!(t, cuCtxPopCurrent_v2(&mut own)), 201);
    assert_eq!(call!(t, cuCtxPushCurrent_v2(t.context)), 0);
    assert_eq!(call!(t, cuCtxPopCurrent_v2(&mut own)), 0);
    assert_eq!(own, t.context);
}

#[test]
fn a_destroyed_context_that_is_current_elsewhere_is_told_apart() {
    let t = Setup::new();
    let mut own = null_mut();
    assert_eq!(call!(t, cuCtxCreate_v2(&mut own, 0, 0)), 0);
    let stream = t.stream();
    assert_eq!(call!(t, cuCtxPushCurrent_v2(t.context)), 0);
    assert_eq!(call!(t, cuCtxDestroy_v2(own)), 0);
    assert_eq!(call!(t, cuStreamQuery(stream)), 400);
    assert_eq!(call!(t, cuCtxPopCurrent_v2(null_mut())), 0);
    assert_eq!(call!(t, cuCtxSynchronize()), 709);
}

#[test]
fn the_primary_context_is_counted() {
    let t = Setup::new();
    let state = || {
        let (mut flags, mut active) = (9, 9);
        assert_eq!(call!(t, cuDevicePrimaryCtxGetState(0, &mut flags, &mut active)), 0);
        (flags, active)
    };
    let again: CUcontext = make!(t, cuDevicePrimaryCtxRetain(0));
    assert_eq!(again, t.context);
    assert_eq!(call!(t, cuDevicePrimaryCtxSetFlags_v2(0, 4)), 0);
    assert_eq!(call!(t, cuDevicePrimaryCtxSetFlags_v2(0, 1 << 20)), 1);
    assert_eq!(call!(t, cuDevicePrimaryCtxRelease_v2(0)), 0);
    assert_eq!(state(), (4, 1));
    assert_eq!(call!(t, cuDevicePrimaryCtxRelease_v2(0)), 0);
    assert_eq!(state(), (4, 0));
    assert_eq!(call!(t, cuDevicePrimaryCtxRelease_v2(0)), 201);
}

#[test]
fn a_library_is_loaded_into_each_context_that_asks() {
    let f = fixture();
    let t = &f.t;
    let text = std::ffi::CString::new(PTX).unwrap();
    let none: *mut *mut c_void = null_mut();
    let library: CUlibrary = make!(
        t,
        cuLibraryLoadData(text.as_ptr().cast(), none.cast(), none.cast(), 0, none.cast(), none, 0)
    );
    let kernel: CUkernel = make!(t, cuLibraryGetKernel(library, c"k".as_ptr()));
    let (mut count, mut missing) = (0, null_mut());
    assert_eq!(call!(t, cuLibraryGetKernelCount(&mut count, library)), 0);
    assert_eq!(count, 5);
    assert_eq!(call!(t, cuLibraryGetKernel(&mut missing, library, c"nope".as_ptr())), 500);
    let (mut buffer, mut one) = (f.buffer, 1_u32);
    let mut params = [(&raw mut buffer).cast(), (&raw mut one).cast()];
    assert_eq!(t.launch(kernel.cast(), f.stream, &mut params), 0);
    let function: CUfunction = make!(t, cuKernelGetFunction(kernel));
    assert_eq!(t.launch(function, f.stream, &mut params), 0);
    assert_eq!(call!(t, cuStreamSynchronize(f.stream)), 0);
    assert_eq!(t.read::<u32>(f.buffer, 1), [2]);
    assert_eq!(call!(t, cuCtxSetCurrent(f.other)), 0);
    let elsewhere: CUfunction = make!(t, cuKernelGetFunction(kernel));
    assert_ne!(function, elsewhere);
    assert_eq!(t.sim.live().libraries, 1);
    assert_eq!(call!(t, cuLibraryUnload(library)), 0);
    assert_eq!(t.launch(function, f.stream, &mut params), 400);
    assert_eq!((t.sim.live().libraries, t.sim.live().modules), (0, 1));
}
