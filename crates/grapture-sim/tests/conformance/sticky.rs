//! Errors that break a context: what a faulting kernel makes of the calls after it, and what
//! recovers. Each case has a process of its own on a GPU.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::host::Counter;
use crate::rig::{GLOBAL, NULL_STREAM, PTX, RELAXED, Rig};
use crate::transcript::saw;

/// Kernels that go wrong, each in its way.
const WRONG: &str = "\
.version 6.4
.target sm_50
.address_size 64
.visible .entry store(.param .u64 p){
 .reg .b64 %rd<2>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p]; mov.u32 %r1,1; st.global.u32 [%rd1],%r1; ret;}
.visible .entry load(.param .u64 p){
 .reg .b64 %rd<2>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p]; ld.volatile.global.u32 %r1,[%rd1]; ret;}
.visible .entry generic(.param .u64 p){
 .reg .b64 %rd<2>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p]; mov.u32 %r1,1; st.u32 [%rd1],%r1; ret;}
.visible .entry add(.param .u64 p){
 .reg .b64 %rd<2>; .reg .b32 %r<2>;
 ld.param.u64 %rd1,[p]; mov.u32 %r1,1; red.global.add.u32 [%rd1],%r1; ret;}
.visible .entry shared(.param .u64 p){
 .shared .align 4 .b8 buf[64]; .reg .b64 %rd<2>; .reg .b32 %r<3>;
 ld.param.u64 %rd1,[p]; cvt.u32.u64 %r2,%rd1; mov.u32 %r1,1; st.volatile.shared.u32 [%r2],%r1; ret;}
.visible .entry trap(.param .u64 p){ trap; ret;}
";

/// Launches one of them and waits for it.
fn fault(rig: &Rig, kernel: &str, mut address: u64) {
    let function = rig.function(rig.module(WRONG), kernel);
    saw("launch", rig.launch(function, rig.other, &mut [(&raw mut address).cast()]));
    cu!(rig, cuStreamSynchronize(rig.other));
}

/// Breaks the context by a store where nothing is.
fn ruin(rig: &Rig) {
    fault(rig, "store", 0x100);
}

rules! { ruins;
    a_store_where_nothing_is(rig) {
        fault(rig, "store", 0x100);
        cu!(rig, cuCtxSynchronize());
    }
    a_load_where_nothing_is(rig) {
        fault(rig, "load", 0x100);
        cu!(rig, cuCtxSynchronize());
    }
    a_store_at_null(rig) {
        fault(rig, "store", 0);
        cu!(rig, cuCtxSynchronize());
    }
    a_generic_store_where_nothing_is(rig) {
        fault(rig, "generic", 0x100);
        cu!(rig, cuCtxSynchronize());
    }
    an_atomic_where_nothing_is(rig) {
        fault(rig, "add", 0x100);
        cu!(rig, cuCtxSynchronize());
    }
    a_store_to_freed_memory(rig) {
        let address = rig.alloc(64 << 20);
        ok!(rig, cuMemFree_v2(address));
        fault(rig, "store", address);
        cu!(rig, cuCtxSynchronize());
    }
    a_misaligned_store(rig) {
        fault(rig, "store", rig.buffer + 2);
        cu!(rig, cuCtxSynchronize());
    }
    a_misaligned_atomic(rig) {
        fault(rig, "add", rig.buffer + 1);
        cu!(rig, cuCtxSynchronize());
    }
    a_store_past_shared_memory(rig) {
        fault(rig, "shared", 1 << 20);
        cu!(rig, cuCtxSynchronize());
    }
    a_misaligned_store_to_shared_memory(rig) {
        fault(rig, "shared", 2);
        cu!(rig, cuCtxSynchronize());
    }
    a_trap(rig) {
        fault(rig, "trap", 0);
        cu!(rig, cuCtxSynchronize());
    }
    the_first_fault_stays(rig) {
        let (function, mut address) = (rig.function(rig.module(WRONG), "store"), 0x100_u64);
        fault(rig, "trap", 0);
        saw("launch", rig.launch(function, rig.other, &mut [(&raw mut address).cast()]));
        cu!(rig, cuStreamSynchronize(rig.other));
    }
    streams_after_a_fault(rig) {
        ruin(rig);
        let mut stream = null_mut();
        cu!(rig, cuStreamCreate(&mut stream, 1));
        cu!(rig, cuStreamCreateWithPriority(&mut stream, 1, 0));
        cu!(rig, cuStreamQuery(rig.stream));
        cu!(rig, cuStreamQuery(NULL_STREAM));
        cu!(rig, cuStreamSynchronize(rig.stream));
        cu!(rig, cuStreamGetPriority(rig.stream, &mut 0));
        cu!(rig, cuStreamGetFlags(rig.stream, &mut 0));
        cu!(rig, cuStreamGetId(rig.stream, &mut 0));
        cu!(rig, cuStreamGetCtx(rig.stream, &mut null_mut()));
        cu!(rig, cuStreamGetDevice(rig.stream, &mut 0));
        let mut value = CUstreamAttrValue_v1::default();
        cu!(rig, cuStreamGetAttribute(rig.stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &mut value));
        cu!(rig, cuStreamSetAttribute(rig.stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
        cu!(rig, cuStreamCopyAttributes(rig.stream, rig.other));
        cu!(rig, cuStreamWriteValue32_v2(rig.stream, rig.buffer, 1, 0));
        cu!(rig, cuStreamWaitValue32_v2(rig.stream, rig.buffer, 0, 0));
        cu!(rig, cuStreamDestroy_v2(rig.stream));
        cu!(rig, cuStreamDestroy_v2(rig.other));
    }
    events_after_a_fault(rig) {
        let (old, fresh) = (rig.timed_event(), rig.new_event());
        ok!(rig, cuEventRecord(old, rig.stream));
        ok!(rig, cuStreamSynchronize(rig.stream));
        ruin(rig);
        cu!(rig, cuEventCreate(&mut null_mut(), 0));
        cu!(rig, cuEventQuery(old));
        cu!(rig, cuEventQuery(fresh));
        cu!(rig, cuEventSynchronize(old));
        cu!(rig, cuEventSynchronize(fresh));
        cu!(rig, cuEventElapsedTime(&mut 0.0, old, old));
        cu!(rig, cuEventRecord(fresh, rig.stream));
        cu!(rig, cuStreamWaitEvent(rig.stream, old, 0));
        cu!(rig, cuEventDestroy_v2(old));
        cu!(rig, cuEventDestroy_v2(fresh));
    }
    memory_after_a_fault(rig) {
        let (pinned, pooled) = (rig.pinned(64), make!(rig, cuMemAllocAsync(64, rig.stream)));
        let managed: CUdeviceptr = make!(rig, cuMemAllocManaged(64, 1));
        rig.sync(rig.stream);
        ruin(rig);
        let (mut address, mut at) = (0, null_mut());
        cu!(rig, cuMemAlloc_v2(&mut address, 64));
        cu!(rig, cuMemAllocPitch_v2(&mut address, &mut 0, 64, 1, 4));
        cu!(rig, cuMemAllocManaged(&mut address, 64, 1));
        cu!(rig, cuMemAllocAsync(&mut address, 64, rig.stream));
        cu!(rig, cuMemHostAlloc(&mut at, 64, 0));
        cu!(rig, cuMemGetInfo_v2(&mut 0, &mut 0));
        cu!(rig, cuMemGetAddressRange_v2(&mut 0, &mut 0, rig.buffer));
        let (mut kind, what) = (0_u32, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        cu!(rig, cuPointerGetAttribute((&raw mut kind).cast(), what, rig.buffer));
        cu!(rig, cuMemHostGetDevicePointer_v2(&mut 0, pinned, 0));
        cu!(rig, cuMemFreeAsync(pooled, rig.stream));
        cu!(rig, cuMemFree_v2(rig.buffer));
        cu!(rig, cuMemFree_v2(pooled));
        cu!(rig, cuMemFree_v2(managed));
        cu!(rig, cuMemFree_v2(0));
        cu!(rig, cuMemFreeHost(pinned));
    }
    copies_and_fills_after_a_fault(rig) {
        ruin(rig);
        let (b, s) = (rig.buffer, rig.stream);
        let mut bytes = [0_u8; 64];
        let at: *mut c_void = bytes.as_mut_ptr().cast();
        cu!(rig, cuMemcpyHtoD_v2(b, at, 64));
        cu!(rig, cuMemcpyDtoH_v2(at, b, 64));
        cu!(rig, cuMemcpyDtoD_v2(b, b + 64, 64));
        cu!(rig, cuMemcpyHtoDAsync_v2(b, at, 64, s));
        cu!(rig, cuMemcpyDtoHAsync_v2(at, b, 64, s));
        cu!(rig, cuMemcpyDtoDAsync_v2(b, b + 64, 64, s));
        cu!(rig, cuMemcpyAsync(b, b + 64, 64, s));
        cu!(rig, cuMemsetD8_v2(b, 0, 64));
        cu!(rig, cuMemsetD32_v2(b, 0, 16));
        cu!(rig, cuMemsetD32Async(b, 0, 16, s));
        cu!(rig, cuMemsetD2D32Async(b, 64, 0, 4, 4, s));
        cu!(rig, cuMemcpyDtoDAsync_v2(b, b, 0, s));
    }
    modules_after_a_fault(rig) {
        let module = rig.module(PTX);
        let function = rig.function(module, "noarg");
        ruin(rig);
        let text = std::ffi::CString::new(PTX).expect("no NUL");
        cu!(rig, cuModuleLoadData(&mut null_mut(), text.as_ptr().cast()));
        cu!(rig, cuModuleGetFunction(&mut null_mut(), module, c"k".as_ptr()));
        cu!(rig, cuModuleGetGlobal_v2(&mut 0, &mut 0, module, c"counter".as_ptr()));
        cu!(rig, cuFuncGetAttribute(&mut 0, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
        let what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        cu!(rig, cuFuncSetAttribute(function, what, 1024));
        cu!(rig, cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut 0, function, 128, 0));
        saw("launch", rig.launch(function, rig.stream, &mut []));
        saw("legacy", rig.launch(function, NULL_STREAM, &mut []));
        cu!(rig, cuModuleUnload(module));
    }
    graphs_after_a_fault(rig) {
        let graph = rig.new_graph_of_one_fill();
        let exec = rig.instantiate(graph);
        ruin(rig);
        let mut other = null_mut();
        cu!(rig, cuGraphCreate(&mut other, 0));
        cu!(rig, cuGraphGetNodes(graph, null_mut(), &mut 0));
        cu!(rig, cuGraphAddEmptyNode(&mut null_mut(), graph, null(), 0));
        cu!(rig, cuGraphClone(&mut other, graph));
        cu!(rig, cuGraphInstantiateWithFlags(&mut null_mut(), graph, 0));
        let mut info = CUgraphExecUpdateResultInfo::default();
        cu!(rig, cuGraphExecUpdate_v2(exec, graph, &mut info));
        cu!(rig, cuGraphUpload(exec, rig.stream));
        cu!(rig, cuGraphLaunch(exec, rig.stream));
        cu!(rig, cuGraphExecDestroy(exec));
        cu!(rig, cuGraphDestroy(graph));
    }
    captures_after_a_fault(rig) {
        ruin(rig);
        let mode = CUstreamCaptureMode(GLOBAL);
        let mut status = CUstreamCaptureStatus(9);
        cu!(rig, cuStreamBeginCapture_v2(rig.stream, mode));
        cu!(rig, cuStreamIsCapturing(rig.stream, &mut status));
        saw("status", status.0);
        cu!(rig, cuStreamEndCapture(rig.stream, &mut null_mut()));
        let mut mode = mode;
        cu!(rig, cuThreadExchangeStreamCaptureMode(&mut mode));
    }
    a_capture_that_is_open_at_a_fault(rig) {
        rig.begin(rig.stream, RELAXED);
        rig.fill(rig.stream);
        ruin(rig);
        rig.fill(rig.stream);
        let mut status = CUstreamCaptureStatus(9);
        cu!(rig, cuStreamIsCapturing(rig.stream, &mut status));
        saw("status", status.0);
        cu!(rig, cuStreamGetCaptureInfo(rig.stream, &mut status, &mut 0));
        let mut graph = null_mut();
        cu!(rig, cuStreamEndCapture(rig.stream, &mut graph));
        saw("graph", !graph.is_null());
    }
    contexts_after_a_fault(rig) {
        ruin(rig);
        let mut context = null_mut();
        cu!(rig, cuCtxGetCurrent(&mut context));
        cu!(rig, cuCtxGetDevice(&mut 0));
        cu!(rig, cuCtxGetFlags(&mut 0));
        cu!(rig, cuCtxGetId(null_mut(), &mut 0));
        cu!(rig, cuCtxGetApiVersion(null_mut(), &mut 0));
        cu!(rig, cuCtxGetLimit(&mut 0, CU_LIMIT_STACK_SIZE));
        cu!(rig, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        cu!(rig, cuCtxGetStreamPriorityRange(&mut 0, &mut 0));
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuCtxPushCurrent_v2(rig.context));
        cu!(rig, cuCtxPopCurrent_v2(&mut context));
        cu!(rig, cuCtxSetCurrent(rig.context));
    }
    devices_after_a_fault(rig) {
        ruin(rig);
        cu!(rig, cuDeviceGetCount(&mut 0));
        cu!(rig, cuDeviceGet(&mut 0, 0));
        cu!(rig, cuDeviceGetAttribute(&mut 0, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        cu!(rig, cuDeviceTotalMem_v2(&mut 0, 0));
        cu!(rig, cuDevicePrimaryCtxGetState(0, &mut 0, &mut 0));
        cu!(rig, cuDeviceGetDefaultMemPool(&mut null_mut(), 0));
        cu!(rig, cuDriverGetVersion(&mut 0));
        cu!(rig, cuDevicePrimaryCtxRetain(&mut null_mut(), 0));
        cu!(rig, cuDevicePrimaryCtxRelease_v2(0));
    }
    pools_after_a_fault(rig) {
        let pool: CUmemoryPool = make!(rig, cuDeviceGetDefaultMemPool(0));
        ruin(rig);
        let mut value = 0_u64;
        let at = (&raw mut value).cast();
        cu!(rig, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, at));
        cu!(rig, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, at));
        cu!(rig, cuMemPoolTrimTo(pool, 0));
        cu!(rig, cuDeviceGraphMemTrim(0));
    }
    host_functions_after_a_fault(rig) {
        let counter = Counter::default();
        ruin(rig);
        cu!(rig, cuLaunchHostFunc(rig.stream, Some(Counter::count), counter.argument()));
        saw("calls", counter.get());
    }
    user_objects_after_a_fault(rig) {
        let (counter, mut object) = (Counter::default(), null_mut());
        ruin(rig);
        let (at, free) = (counter.argument(), Some(Counter::count as _));
        cu!(rig, cuUserObjectCreate(&mut object, at, free, 1, 1));
        cu!(rig, cuUserObjectRelease(object, 1));
        saw("calls", counter.get());
    }
    a_fault_in_a_graph(rig) {
        let (module, mut address) = (rig.module(WRONG), 0x100_u64);
        let function = rig.function(module, "store");
        rig.begin(rig.stream, GLOBAL);
        saw("launch", rig.launch(function, rig.stream, &mut [(&raw mut address).cast()]));
        let graph = rig.end_good(rig.stream);
        let exec = rig.instantiate(graph);
        cu!(rig, cuGraphLaunch(exec, rig.stream));
        cu!(rig, cuStreamSynchronize(rig.stream));
        cu!(rig, cuGraphLaunch(exec, rig.stream));
        cu!(rig, cuGraphExecDestroy(exec));
        cu!(rig, cuGraphDestroy(graph));
    }
    a_fault_in_another_context_leaves_this_one(rig) {
        let other = rig.new_context();
        rig.in_context(other, || {
            let (module, mut address) = (rig.module(WRONG), 0x100_u64);
            let (function, stream) = (rig.function(module, "store"), rig.new_stream(1));
            saw("launch", rig.launch(function, stream, &mut [(&raw mut address).cast()]));
            cu!(rig, cuStreamSynchronize(stream));
            cu!(rig, cuCtxSynchronize());
        });
        cu!(rig, cuCtxSynchronize());
        rig.fill(rig.stream);
        cu!(rig, cuStreamSynchronize(rig.stream));
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
        cu!(rig, cuCtxDestroy_v2(other));
        cu!(rig, cuCtxSynchronize());
    }
    a_new_context_beside_a_broken_one(rig) {
        ruin(rig);
        let mut context = null_mut();
        let code = cu!(rig, cuCtxCreate_v2(&mut context, 0, 0));
        if code == 0 {
            cu!(rig, cuMemAlloc_v2(&mut 0, 64));
            cu!(rig, cuCtxSynchronize());
            cu!(rig, cuCtxDestroy_v2(context));
        }
        cu!(rig, cuCtxSynchronize());
    }
    the_primary_context_is_sound_after_a_reset(rig) {
        ruin(rig);
        cu!(rig, cuDevicePrimaryCtxReset_v2(0));
        cu!(rig, cuCtxSynchronize());
        let mut context = null_mut();
        cu!(rig, cuDevicePrimaryCtxRetain(&mut context, 0));
        cu!(rig, cuCtxSetCurrent(context));
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
    }
    the_primary_context_is_sound_after_its_last_release(rig) {
        ruin(rig);
        cu!(rig, cuDevicePrimaryCtxRelease_v2(0));
        let mut context = null_mut();
        cu!(rig, cuDevicePrimaryCtxRetain(&mut context, 0));
        cu!(rig, cuCtxSetCurrent(context));
        cu!(rig, cuCtxSynchronize());
        cu!(rig, cuMemAlloc_v2(&mut 0, 64));
    }
    a_context_of_the_programs_own_is_destroyed_after_a_fault(rig) {
        let own = rig.new_context();
        ok!(rig, cuCtxPushCurrent_v2(own));
        let (module, mut address) = (rig.module(WRONG), 0x100_u64);
        let (function, stream) = (rig.function(module, "store"), rig.new_stream(1));
        saw("launch", rig.launch(function, stream, &mut [(&raw mut address).cast()]));
        cu!(rig, cuStreamSynchronize(stream));
        cu!(rig, cuCtxDestroy_v2(own));
        cu!(rig, cuCtxSynchronize());
    }
    a_fault_is_told_on_another_thread(rig) {
        ruin(rig);
        rig.elsewhere(GLOBAL, || {
            cu!(rig, cuCtxSynchronize());
            cu!(rig, cuStreamQuery(rig.stream));
        });
    }
    a_launch_with_too_many_registers_breaks_nothing(rig) {
        let module = rig.module(PTX);
        let (function, s) = (rig.function(module, "noarg"), rig.stream);
        let none = null_mut();
        cu!(rig, cuLaunchKernel(function, 1, 1, 1, 1024, 2, 1, 0, s, null_mut(), none));
        cu!(rig, cuStreamSynchronize(s));
    }
    an_assertion_of_a_kernel(rig) {
        let text = ".version 6.4\n.target sm_50\n.address_size 64\n\
            .extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);\n\
            .global .align 1 .b8 t[2] = {120, 0};\n\
            .visible .entry k(){\n .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .b64 %z;\n\
            mov.u64 %rd1,t; cvta.global.u64 %rd2,%rd1; mov.u32 %r1,1; mov.u64 %z,1;\n\
            { .param .b64 a; st.param.b64 [a],%rd2; .param .b64 b; st.param.b64 [b],%rd2;\n\
            .param .b32 c; st.param.b32 [c],%r1; .param .b64 d; st.param.b64 [d],%rd2;\n\
            .param .b64 e; st.param.b64 [e],%z; call.uni __assertfail,(a,b,c,d,e); }\n ret;}\n";
        let function = rig.function(rig.module(text), "k");
        saw("launch", rig.launch(function, rig.stream, &mut []));
        cu!(rig, cuStreamSynchronize(rig.stream));
        cu!(rig, cuCtxSynchronize());
    }
}
