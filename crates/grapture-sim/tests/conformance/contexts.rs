//! What each call needs of the calling thread's current context: its answer with the primary
//! context, with none and with another one, as an H200 with driver 13.0 answered.

use core::ffi::c_void;
use std::ptr::null_mut;

use grapture_sys::*;

use crate::rig::{PTX, Rig, per_thread};
use crate::subject::Subject;

tiers! {
    both {
        each_call_needs_the_context_that_the_driver_needs,
        work_crosses_contexts_where_the_driver_lets_it,
        the_stack_of_contexts,
        a_destroyed_context_that_is_current_elsewhere_is_told_apart,
        a_library_is_loaded_into_each_context_that_asks,
    }
    bare {
        the_primary_context_is_counted,
    }
    alone {
        dangerous_destruction_of_the_primary_context,
    }
}

/// A call that needs some context, and what it answers by what is current.
struct Need<'a> {
    what: &'static str,
    answers: [u32; 3],
    call: Box<dyn Fn() -> u32 + 'a>,
}

macro_rules! needs {
    ($($what:literal [$($answer:literal),*] = $call:expr;)*) => {
        vec![$(Need { what: $what, answers: [$($answer),*], call: Box::new($call) }),*]
    };
}

struct Fixture<'a> {
    t: &'a Rig,
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

fn fixture(t: &Rig) -> Fixture<'_> {
    let other = t.new_context();
    let (stream, buffer, timed) = (t.new_stream(1), t.zeroed(1 << 16), t.timed_event());
    let event: CUevent = make!(t, cuEventCreate(2));
    let module = t.module(PTX);
    let k = t.function(module, "k");
    let pinned: *mut c_void = make!(t, cuMemHostAlloc(4096, 0));
    for event in [event, timed] {
        ok!(t, cuEventRecord(event, stream));
    }
    Fixture { t, other, stream, buffer, event, timed, module, k, pinned, host: vec![0; 64] }
}

/// In the primary context, whatever is current.
fn in_primary<R>(t: &Rig, make: impl FnOnce() -> R) -> R {
    ok!(t, cuCtxPushCurrent_v2(t.context));
    let made = make();
    ok!(t, cuCtxPopCurrent_v2(null_mut()));
    made
}

fn launch(f: &Fixture<'_>, stream: usize) -> u32 {
    let (mut buffer, mut one) = (f.buffer, 1_u32);
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    f.t.launch(f.k, stream, &mut [(&raw mut buffer).cast(), (&raw mut one).cast()])
}

fn streams_and_memory<'a>(f: &'a Fixture<'a>) -> Vec<Need<'a>> {
    let (t, s, b) = (f.t, f.stream, f.buffer);
    needs! {
        "cuStreamCreate" [0, 201, 0] = move || cu!(t, cuStreamCreate(&mut null_mut(), 1));
        "cuLaunchKernel" [0, 0, 0] = move || launch(f, f.stream.expose_provenance());
        "launch on the legacy stream" [0, 201, 400] = move || launch(f, 0);
        "launch on the legacy handle" [0, 201, 400] = move || launch(f, 1);
        "launch on the per-thread stream" [0, 201, 400] = move || launch(f, 2);
        "cuMemsetD32Async per thread" [0, 201, 0] = move || cu!(t, cuMemsetD32Async(b, 0, 4, per_thread()));
        "cuMemcpyHtoDAsync" [0, 0, 0] = move || cu!(t, cuMemcpyHtoDAsync_v2(b, f.pinned, 64, s));
        "cuMemcpyDtoHAsync" [0, 0, 0] = move || cu!(t, cuMemcpyDtoHAsync_v2(f.pinned, b, 64, s));
        "cuMemcpyDtoDAsync" [0, 0, 0] = move || cu!(t, cuMemcpyDtoDAsync_v2(b, b + 4096, 64, s));
        "cuMemcpyAsync" [0, 0, 0] = move || cu!(t, cuMemcpyAsync(b, b + 4096, 64, s));
        "cuMemsetD8Async" [0, 0, 0] = move || cu!(t, cuMemsetD8Async(b, 0, 64, s));
        "cuMemsetD2D32Async" [0, 0, 0] = move || cu!(t, cuMemsetD2D32Async(b, 64, 0, 4, 4, s));
        "cuMemcpyHtoD" [0, 201, 0] = move || cu!(t, cuMemcpyHtoD_v2(b, f.host.as_ptr().cast(), 64));
        "cuMemcpyDtoD" [0, 201, 0] = move || cu!(t, cuMemcpyDtoD_v2(b, b + 4096, 64));
        "cuMemsetD32" [0, 201, 0] = move || cu!(t, cuMemsetD32_v2(b, 0, 16));
        "cuMemAlloc" [0, 201, 0] = move || cu!(t, cuMemAlloc_v2(&mut 0, 64));
        "cuMemFree" [0, 0, 0] = move || {
            let p = in_primary(t, || t.alloc(64));
            cu!(t, cuMemFree_v2(p))
        };
        "cuMemAllocAsync" [0, 0, 0] = move || cu!(t, cuMemAllocAsync(&mut 0, 64, s));
        "cuMemHostAlloc" [0, 201, 0] = move || cu!(t, cuMemHostAlloc(&mut null_mut(), 64, 0));
        "cuMemFreeHost" [0, 0, 0] = move || {
            let p = in_primary(t, || -> *mut c_void { make!(t, cuMemHostAlloc(64, 0)) });
            cu!(t, cuMemFreeHost(p))
        };
        "cuMemGetInfo" [0, 201, 0] = move || cu!(t, cuMemGetInfo_v2(&mut 0, &mut 0));
        "cuStreamSynchronize" [0, 0, 0] = move || cu!(t, cuStreamSynchronize(s));
        "cuStreamQuery" [0, 0, 0] = move || {
            cu!(t, cuStreamSynchronize(s));
            cu!(t, cuStreamQuery(s))
        };
        "cuStreamGetPriority" [0, 0, 0] = move || cu!(t, cuStreamGetPriority(s, &mut 0));
        "cuStreamGetFlags" [0, 0, 0] = move || cu!(t, cuStreamGetFlags(s, &mut 0));
        "cuStreamGetId" [0, 0, 0] = move || cu!(t, cuStreamGetId(s, &mut 0));
        "cuStreamGetCtx" [0, 0, 0] = move || cu!(t, cuStreamGetCtx(s, &mut null_mut()));
        "cuStreamGetAttribute" [0, 0, 0] = move || {
            let mut value = CUstreamAttrValue_v1::default();
            cu!(t, cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &mut value))
        };
        "cuStreamDestroy" [0, 0, 0] = move || {
            let stream = in_primary(t, || t.new_stream(1));
            cu!(t, cuStreamDestroy_v2(stream))
        };
        "cuDeviceGetDefaultMemPool" [0, 0, 0] = move || cu!(t, cuDeviceGetDefaultMemPool(&mut null_mut(), 0));
    }
}

fn events_and_modules<'a>(f: &'a Fixture<'a>) -> Vec<Need<'a>> {
    let (t, s) = (f.t, f.stream);
    needs! {
        "cuEventCreate" [0, 201, 0] = move || cu!(t, cuEventCreate(&mut null_mut(), 0));
        "cuEventRecord" [0, 0, 0] = move || cu!(t, cuEventRecord(f.event, s));
        "cuEventRecord timed" [0, 0, 0] = move || cu!(t, cuEventRecord(f.timed, s));
        "cuStreamWaitEvent" [0, 0, 0] = move || cu!(t, cuStreamWaitEvent(s, f.event, 0));
        "cuEventSynchronize" [0, 0, 0] = move || cu!(t, cuEventSynchronize(f.event));
        "cuEventQuery" [0, 0, 0] = move || cu!(t, cuEventQuery(f.event));
        "cuEventElapsedTime" [0, 0, 0] = move || {
            cu!(t, cuEventSynchronize(f.timed));
            cu!(t, cuEventElapsedTime(&mut 0.0, f.timed, f.timed))
        };
        "cuEventDestroy" [0, 0, 0] = move || {
            let event = in_primary(t, || t.timed_event());
            cu!(t, cuEventDestroy_v2(event))
        };
        "cuModuleLoadData" [0, 201, 0] = move || {
            let text = std::ffi::CString::new(PTX).unwrap();
            cu!(t, cuModuleLoadData(&mut null_mut(), text.as_ptr().cast()))
        };
        "cuModuleUnload" [0, 0, 0] = move || {
            let module = in_primary(t, || t.module(PTX));
            cu!(t, cuModuleUnload(module))
        };
        "cuModuleGetFunction" [0, 0, 0] = move || cu!(t, cuModuleGetFunction(&mut null_mut(), f.module, c"k".as_ptr()));
        "cuModuleGetGlobal" [500, 500, 500] = move || cu!(t, cuModuleGetGlobal_v2(&mut 0, &mut 0, f.module, c"nope".as_ptr()));
        "cuFuncGetAttribute" [0, 0, 0] = move || cu!(t, cuFuncGetAttribute(&mut 0, CU_FUNC_ATTRIBUTE_NUM_REGS, f.k));
        "cuFuncSetAttribute" [0, 0, 0] = move || {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            cu!(t, cuFuncSetAttribute(f.k, attribute, 1024))
        };
        "cuFuncGetParamInfo" [0, 0, 0] = move || cu!(t, cuFuncGetParamInfo(f.k, 0, &mut 0, &mut 0));
        "cuFuncLoad" [0, 0, 0] = move || cu!(t, cuFuncLoad(f.k));
        "cuOccupancyMaxActiveBlocksPerMultiprocessor" [0, 201, 0] = move || cu!(t, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut 0, f.k, 128, 0));
        "cuCtxGetStreamPriorityRange" [0, 201, 0] = move || cu!(t, cuCtxGetStreamPriorityRange(&mut 0, &mut 0));
        "cuCtxGetLimit" [0, 201, 0] = move || cu!(t, cuCtxGetLimit(&mut 0, CU_LIMIT_STACK_SIZE));
        "cuCtxSynchronize" [0, 201, 0] = move || cu!(t, cuCtxSynchronize());
    }
}

fn each_call_needs_the_context_that_the_driver_needs(t: &Rig) {
    let f = &fixture(t);
    let mut wrong = Vec::new();
    for need in streams_and_memory(f).iter().chain(&events_and_modules(f)) {
        for (current, wanted) in [t.context, null_mut(), f.other].into_iter().zip(need.answers) {
            ok!(t, cuCtxSetCurrent(current));
            let answer = (need.call)();
            let mut after = null_mut();
            ok!(t, cuCtxGetCurrent(&mut after));
            if answer != wanted || after != current {
                wrong.push((need.what, current, answer, wanted));
            }
            // `cuCtxSetCurrent(NULL)` popped the one entry, so that this puts it back.
            ok!(t, cuCtxSetCurrent(t.context));
            ok!(t, cuCtxSynchronize());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    ok!(t, cuCtxDestroy_v2(f.other));
}

fn work_crosses_contexts_where_the_driver_lets_it(t: &Rig) {
    let f = fixture(t);
    ok!(t, cuCtxSetCurrent(f.other));
    let (stream, buffer, event) = (t.new_stream(1), t.alloc(4096), t.timed_event());
    let function = t.function(t.module(PTX), "k");
    ok!(t, cuCtxSetCurrent(t.context));
    let mut params = [f.pinned, f.pinned];
    assert_eq!(t.launch(function, f.stream, &mut params), 400);
    assert_eq!(launch(&f, stream.expose_provenance()), 400);
    assert_eq!(cu!(t, cuEventRecord(f.event, stream)), 400);
    assert_eq!(cu!(t, cuEventRecord(event, f.stream)), 400);
    ok!(t, cuStreamWaitEvent(stream, f.event, 0));
    ok!(t, cuMemsetD32Async(buffer, 0, 4, f.stream));
    ok!(t, cuMemcpyDtoDAsync_v2(f.buffer, buffer, 64, f.stream));
    ok!(t, cuCtxSynchronize());
    ok!(t, cuCtxDestroy_v2(f.other));
}

fn the_stack_of_contexts(t: &Rig) {
    let current = || {
        let mut context = null_mut();
        ok!(t, cuCtxGetCurrent(&mut context));
        context
    };
    let mut own = null_mut();
    ok!(t, cuCtxCreate_v2(&mut own, 0, 0));
    assert_eq!(current(), own);
    ok!(t, cuCtxDestroy_v2(own));
    assert_eq!(current(), t.context);
    t.on_simulation(|_| assert_eq!(cu!(t, cuCtxDestroy_v2(own)), 201, "a stale handle"));
    ok!(t, cuCtxSetCurrent(null_mut()));
    assert_eq!(current(), null_mut());
    assert_eq!(cu!(t, cuCtxPopCurrent_v2(&mut own)), 201);
    ok!(t, cuCtxPushCurrent_v2(t.context));
    ok!(t, cuCtxPopCurrent_v2(&mut own));
    assert_eq!(own, t.context);
    ok!(t, cuCtxSetCurrent(t.context));
}

fn dangerous_destruction_of_the_primary_context(t: &Rig) {
    assert_eq!(cu!(t, cuCtxDestroy_v2(t.context)), 201);
}

fn a_destroyed_context_that_is_current_elsewhere_is_told_apart(t: &Rig) {
    let mut own = null_mut();
    ok!(t, cuCtxCreate_v2(&mut own, 0, 0));
    let stream = t.new_stream(1);
    ok!(t, cuCtxPushCurrent_v2(t.context));
    ok!(t, cuCtxDestroy_v2(own));
    t.on_simulation(|_| assert_eq!(cu!(t, cuStreamQuery(stream)), 400, "a stale handle"));
    ok!(t, cuCtxPopCurrent_v2(null_mut()));
    let code = cu!(t, cuCtxSynchronize());
    ok!(t, cuCtxPopCurrent_v2(null_mut()));
    assert_eq!(code, 709);
}

fn the_primary_context_is_counted(subject: &Subject) {
    let t = &subject.driver;
    let state = || {
        let (mut flags, mut active) = (9, 9);
        ok!(t, cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
        (flags, active)
    };
    assert_eq!(state(), (0, 0));
    let context: CUcontext = make!(t, cuDevicePrimaryCtxRetain(0));
    let again: CUcontext = make!(t, cuDevicePrimaryCtxRetain(0));
    assert_eq!(again, context);
    ok!(t, cuDevicePrimaryCtxSetFlags_v2(0, 4));
    assert_eq!(cu!(t, cuDevicePrimaryCtxSetFlags_v2(0, 1 << 20)), 1);
    ok!(t, cuDevicePrimaryCtxRelease_v2(0));
    let one_left = state();
    ok!(t, cuDevicePrimaryCtxRelease_v2(0));
    let none_left = state();
    let too_many = cu!(t, cuDevicePrimaryCtxRelease_v2(0));
    ok!(t, cuDevicePrimaryCtxSetFlags_v2(0, 0));
    assert_eq!((one_left, none_left, too_many), ((4, 1), (0, 0), 201));
}

fn a_library_is_loaded_into_each_context_that_asks(t: &Rig) {
    let f = fixture(t);
    let text = std::ffi::CString::new(PTX).unwrap();
    let none: *mut *mut c_void = null_mut();
    let library: CUlibrary = make!(
        t,
        cuLibraryLoadData(text.as_ptr().cast(), none.cast(), none.cast(), 0, none.cast(), none, 0)
    );
    let kernel: CUkernel = make!(t, cuLibraryGetKernel(library, c"k".as_ptr()));
    let (mut count, mut missing) = (0, null_mut());
    ok!(t, cuLibraryGetKernelCount(&mut count, library));
    assert_eq!(count, 5);
    assert_eq!(cu!(t, cuLibraryGetKernel(&mut missing, library, c"nope".as_ptr())), 500);
    let (mut buffer, mut one) = (f.buffer, 1_u32);
    let mut params = [(&raw mut buffer).cast(), (&raw mut one).cast()];
    assert_eq!(t.launch(kernel.cast(), f.stream, &mut params), 0);
    let function: CUfunction = make!(t, cuKernelGetFunction(kernel));
    assert_eq!(t.launch(function, f.stream, &mut params), 0);
    ok!(t, cuStreamSynchronize(f.stream));
    assert_eq!(t.read::<u32>(f.buffer, 1), [2]);
    ok!(t, cuCtxSetCurrent(f.other));
    let elsewhere: CUfunction = make!(t, cuKernelGetFunction(kernel));
    assert_ne!(function, elsewhere);
    t.on_simulation(|sim| assert_eq!(sim.live().libraries, 1));
    ok!(t, cuLibraryUnload(library));
    t.on_simulation(|sim| {
        assert_eq!(t.launch(function, f.stream, &mut params), 400, "a stale handle");
        assert_eq!((sim.live().libraries, sim.live().modules), (0, 1));
    });
    ok!(t, cuCtxSetCurrent(t.context));
    ok!(t, cuCtxDestroy_v2(f.other));
}
