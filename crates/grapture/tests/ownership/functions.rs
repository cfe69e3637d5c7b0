//! The functions of the fake driver, by the names and signatures of the real one's.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use grapture_sys::*;

use crate::fake::{self, State, Work, state};

thread_local! {
    static MODE: Cell<CUstreamCaptureMode> = const { Cell::new(CU_STREAM_CAPTURE_MODE_GLOBAL) };
    static CURRENT: RefCell<Vec<CUcontext>> = const { RefCell::new(Vec::new()) };
}

fn handle<T>(number: usize) -> *mut T {
    ptr::without_provenance_mut(number)
}

/// Writes what a call gives.
fn give<T>(to: *mut T, value: T) -> CUresult {
    // SAFETY: the library gives a live out-pointer, which Miri checks.
    unsafe { to.write(value) };
    CUDA_SUCCESS
}

/// Makes a handle, and puts what it stands for on a list.
fn make<T, V>(to: *mut *mut T, insert: impl FnOnce(&mut State, usize) -> Option<V>) -> CUresult {
    let mut state = state();
    let number = state.handle();
    insert(&mut state, number);
    give(to, handle(number))
}

macro_rules! functions {
    ($(fn $symbol:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            #[allow(non_snake_case, reason = "the driver's name")]
            unsafe extern "C" fn $symbol($($arg: $ty),*) -> CUresult $body
        )*

        /// The address of a function, or null.
        pub fn address(symbol: &str) -> *const c_void {
            match symbol {
                $(stringify!($symbol) => $symbol as *const c_void,)*
                _ => ptr::null(),
            }
        }
    };
}

functions! {
    fn cuInit(_flags: u32) { CUDA_SUCCESS }

    fn cuDriverGetVersion(version: *mut i32) { give(version, 13_000) }

    fn cuDeviceGetCount(count: *mut i32) { give(count, 1) }

    fn cuDeviceGet(device: *mut CUdevice, ordinal: i32) { give(device, ordinal) }

    fn cuDeviceGetAttribute(value: *mut i32, _attribute: CUdevice_attribute, _device: CUdevice) {
        give(value, 1024)
    }

    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, _device: CUdevice) {
        state().retains += 1;
        give(context, handle(8))
    }

    fn cuDevicePrimaryCtxRelease_v2(_device: CUdevice) {
        let mut state = state();
        if state.retains == 0 {
            return state.violation("the context is released too often");
        }
        state.retains -= 1;
        CUDA_SUCCESS
    }

    fn cuCtxPushCurrent_v2(context: CUcontext) {
        CURRENT.with_borrow_mut(|current| current.push(context));
        CUDA_SUCCESS
    }

    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        match CURRENT.with_borrow_mut(Vec::pop) {
            Some(current) => give(context, current),
            None => state().violation("there is nothing to pop"),
        }
    }

    fn cuCtxGetCurrent(context: *mut CUcontext) {
        let current = CURRENT.with_borrow(|current| current.last().copied());
        give(context, current.unwrap_or(ptr::null_mut()))
    }

    fn cuCtxSynchronize() {
        fake::run();
        CUDA_SUCCESS
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
        // SAFETY: the library gives a live pointer, which Miri checks.
        let new = unsafe { mode.read() };
        give(mode, MODE.replace(new))
    }

    fn cuStreamCreateWithPriority(stream: *mut CUstream, _flags: u32, _priority: i32) {
        make(stream, |state, number| state.streams.insert(number, None))
    }

    fn cuStreamDestroy_v2(stream: CUstream) {
        let mut state = state();
        match state.streams.remove(&stream.addr()) {
            Some(None) => CUDA_SUCCESS,
            Some(Some(_)) => state.violation("a stream that captures is destroyed"),
            None => state.violation("a stream is destroyed twice"),
        }
    }

    fn cuStreamSynchronize(stream: CUstream) {
        if !matches!(state().streams.get(&stream.addr()), Some(None)) {
            return state().violation("a wait for a stream that captures or is gone");
        }
        fake::run();
        CUDA_SUCCESS
    }

    fn cuStreamQuery(_stream: CUstream) {
        if state().queue.is_empty() { CUDA_SUCCESS } else { CUDA_ERROR_NOT_READY }
    }

    fn cuStreamBeginCapture_v2(stream: CUstream, _mode: CUstreamCaptureMode) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let capture = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut state = state();
        state.captures.insert(capture, Vec::new());
        match state.streams.insert(stream.addr(), Some(capture)) {
            Some(None) => CUDA_SUCCESS,
            _ => state.violation("a capture of a stream that captures or is gone"),
        }
    }

    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        let mut state = state();
        let Some(capture) = state.streams.get(&stream.addr()).copied().flatten() else {
            return CUDA_ERROR_ILLEGAL_STATE;
        };
        for stream in state.streams.values_mut().filter(|stream| **stream == Some(capture)) {
            *stream = None;
        }
        let nodes = state.captures.remove(&capture).unwrap_or_default();
        let number = state.handle();
        state.graphs.insert(number, nodes);
        give(graph, handle(number))
    }

    fn cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        let captures = state().streams.get(&stream.addr()).copied().flatten().is_some();
        let active = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        give(status, if captures { active } else { CU_STREAM_CAPTURE_STATUS_NONE })
    }

    fn cuStreamGetCaptureInfo(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
    ) {
        let capture = state().streams.get(&stream.addr()).copied().flatten();
        give(id, capture.unwrap_or(0));
        let active = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        give(status, if capture.is_some() { active } else { CU_STREAM_CAPTURE_STATUS_NONE })
    }

    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: u32) {
        let mut state = state();
        let Some(capture) = state.events.get(&event.addr()).map(|event| event.capture) else {
            return state.violation("a wait for an event that is gone");
        };
        if capture.is_some() {
            state.streams.insert(stream.addr(), capture);
        }
        CUDA_SUCCESS
    }

    fn cuEventCreate(event: *mut CUevent, _flags: u32) {
        make(event, |state, number| state.events.insert(number, fake::Event::default()))
    }

    fn cuEventDestroy_v2(event: CUevent) {
        let mut state = state();
        match state.events.remove(&event.addr()) {
            Some(_) => CUDA_SUCCESS,
            None => state.violation("an event is destroyed twice"),
        }
    }

    fn cuEventRecord(event: CUevent, stream: CUstream) {
        let mut state = state();
        let capture = state.streams.get(&stream.addr()).copied().flatten();
        let Some(known) = state.events.get_mut(&event.addr()) else {
            return state.violation("a record of an event that is gone");
        };
        known.capture = capture;
        if capture.is_some() {
            return CUDA_SUCCESS;
        }
        known.recorded += 1;
        let reach = Work::Reach(event.addr(), known.recorded);
        state.submit(stream.addr(), [reach])
    }

    fn cuEventQuery(event: CUevent) {
        match state().events.get(&event.addr()) {
            Some(event) if event.reached == event.recorded => CUDA_SUCCESS,
            Some(_) => CUDA_ERROR_NOT_READY,
            None => CUDA_ERROR_INVALID_HANDLE,
        }
    }

    fn cuEventSynchronize(_event: CUevent) {
        fake::run();
        CUDA_SUCCESS
    }

    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) {
        let allocated = state().allocate(bytes);
        give(address, allocated as CUdeviceptr)
    }

    fn cuMemFree_v2(address: CUdeviceptr) { state().free(address as usize) }

    fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, _stream: CUstream) {
        let allocated = state().allocate(bytes);
        give(address, allocated as CUdeviceptr)
    }

    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) {
        state().submit(stream.addr(), [Work::Free(address)])
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: u32) {
        let allocated = state().allocate(bytes);
        give(pointer, ptr::with_exposed_provenance_mut(allocated))
    }

    fn cuMemFreeHost(pointer: *mut c_void) { state().free(pointer.addr()) }

    fn cuMemsetD32Async(to: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        state().submit(stream.addr(), [Work::Fill(to, value, count)])
    }

    fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) {
        let (to, from) = (to as usize, from.expose_provenance());
        state().submit(stream.addr(), [Work::Copy { to, from, bytes }])
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        let (to, from) = (to.expose_provenance(), from as usize);
        state().submit(stream.addr(), [Work::Copy { to, from, bytes }])
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        let (to, from) = (to as usize, from as usize);
        state().submit(stream.addr(), [Work::Copy { to, from, bytes }])
    }

    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let Some(function) = function else { return CUDA_ERROR_INVALID_VALUE };
        state().submit(stream.addr(), [Work::Call(function, data.expose_provenance())])
    }

    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        _image: *const c_void,
        _count: u32,
        _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        make(module, |state, number| state.modules.insert(number, ()))
    }

    fn cuModuleUnload(module: CUmodule) {
        let mut state = state();
        match state.modules.remove(&module.addr()) {
            Some(()) => CUDA_SUCCESS,
            None => state.violation("a module is unloaded twice"),
        }
    }

    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, _name: *const c_char) {
        give(function, handle(module.addr()))
    }

    fn cuFuncGetAttribute(
        value: *mut i32,
        _attribute: CUfunction_attribute,
        _function: CUfunction,
    ) {
        give(value, 512)
    }

    fn cuFuncGetParamInfo(
        _function: CUfunction,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    ) {
        give(offset, index * 8);
        match index {
            0 => give(size, 8),
            1 => give(size, 4),
            _ => CUDA_ERROR_INVALID_VALUE,
        }
    }

    fn cuLaunchKernel(
        function: CUfunction,
        _grid_x: u32,
        _grid_y: u32,
        _grid_z: u32,
        _block_x: u32,
        _block_y: u32,
        _block_z: u32,
        _shared: u32,
        stream: CUstream,
        arguments: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        if !state().modules.contains_key(&function.addr()) {
            return state().violation("a kernel of a module that is gone");
        }
        // SAFETY: the library gives as many arguments as the kernel has parameters, of their
        // sizes, which Miri checks.
        let [word, value] = unsafe { arguments.cast::<[*mut c_void; 2]>().read() };
        // SAFETY: as above.
        let word = unsafe { word.cast::<CUdeviceptr>().read() };
        // SAFETY: as above.
        let value = unsafe { value.cast::<u32>().read() };
        state().submit(stream.addr(), [Work::Add(word, value)])
    }

    fn cuGraphGetNodes(graph: CUgraph, _nodes: *mut CUgraphNode, count: *mut usize) {
        let nodes = state().graphs.get(&graph.addr()).map_or(0, Vec::len);
        give(count, nodes)
    }

    fn cuGraphDestroy(graph: CUgraph) {
        let mut state = state();
        match state.graphs.remove(&graph.addr()) {
            Some(_) => CUDA_SUCCESS,
            None => state.violation("a graph is destroyed twice"),
        }
    }

    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, _flags: u64) {
        let nodes = state().graphs.get(&graph.addr()).cloned();
        let Some(nodes) = nodes else { return state().violation("a graph that is gone") };
        make(exec, |state, number| state.execs.insert(number, nodes))
    }

    fn cuGraphExecDestroy(exec: CUgraphExec) {
        let mut state = state();
        match state.execs.remove(&exec.addr()) {
            Some(_) => CUDA_SUCCESS,
            None => state.violation("an executable is destroyed twice"),
        }
    }

    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let mut state = state();
        match state.execs.get(&exec.addr()).cloned() {
            Some(nodes) => state.submit(stream.addr(), nodes),
            None => state.violation("a launch of what is gone"),
        }
    }
}
