//! A driver whose hot functions do nothing, for what the library itself does: the calls of launches,
//! captures and instantiations go to functions that do nothing, all others to the simulated driver.

use std::ffi::{c_uint, c_void};

use grapture::Driver;
use grapture::sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMSET_NODE_PARAMS,
    CUDA_SUCCESS, CUcontext, CUdeviceptr, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUresult,
    CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, Function, FunctionInfo, Functions,
};
use grapture_sim::{SimConfig, Simulation};

/// Kernels for it.
pub const KERNELS: &str = include_str!("../../fixtures/kernels.ptx");

/// Starts it, on a thread where the context of its device is current from then on.
pub fn driver() -> Driver {
    let simulated = Simulation::new(SimConfig::default()).driver();
    // It stays current: the functions that would make it so do nothing.
    let (functions, mut context) = (simulated.functions(), std::ptr::null_mut());
    // SAFETY: a live out-pointer, and the first device.
    assert_eq!(unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, 0) }, CUDA_SUCCESS);
    // SAFETY: a live context.
    assert_eq!(unsafe { (functions.cuCtxSetCurrent)(context) }, CUDA_SUCCESS);
    let resolver = move |info: &'static FunctionInfo| match Function::from_symbol(info.symbol) {
        Some(function) if simulated.has(function) => address(simulated.functions(), info.symbol),
        _ => std::ptr::null(),
    };
    // SAFETY: the addresses are those of the simulated driver's table, and of the functions below
    // with the signatures of their lines.
    let driver = unsafe { Driver::from_resolver("a driver that does nothing", resolver) };
    driver.expect("the driver starts")
}

unsafe extern "C" fn launch_kernel(
    _: CUfunction,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: CUstream,
    _: *mut *mut c_void,
    _: *mut *mut c_void,
) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn launch_graph(_: CUgraphExec, _: CUstream) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn fill(_: CUdeviceptr, _: c_uint, _: usize, _: CUstream) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn begin(_: CUstream, _: CUstreamCaptureMode) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn end(_: CUstream, graph: *mut CUgraph) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *graph = std::ptr::dangling_mut() };
    CUDA_SUCCESS
}

unsafe extern "C" fn nodes(_: CUgraph, _: *mut CUgraphNode, count: *mut usize) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *count = 1 };
    CUDA_SUCCESS
}

unsafe extern "C" fn instantiate(exec: *mut CUgraphExec, _: CUgraph, _: u64) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *exec = std::ptr::dangling_mut() };
    CUDA_SUCCESS
}

unsafe extern "C" fn destroy_graph(_: CUgraph) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn destroy_exec(_: CUgraphExec) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn info(
    _: CUstream,
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *status = CU_STREAM_CAPTURE_STATUS_ACTIVE };
    // SAFETY: as above.
    unsafe { *id = 1 };
    CUDA_SUCCESS
}

unsafe extern "C" fn current(context: *mut CUcontext) -> CUresult {
    // SAFETY: a live out-pointer.
    unsafe { *context = std::ptr::null_mut() };
    CUDA_SUCCESS
}

unsafe extern "C" fn push(_: CUcontext) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn set_kernel(
    _: CUgraphExec,
    _: CUgraphNode,
    _: *const CUDA_KERNEL_NODE_PARAMS_v2,
) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn set_fill(
    _: CUgraphExec,
    _: CUgraphNode,
    _: *const CUDA_MEMSET_NODE_PARAMS,
    _: CUcontext,
) -> CUresult {
    CUDA_SUCCESS
}

unsafe extern "C" fn exchange(_: *mut CUstreamCaptureMode) -> CUresult {
    CUDA_SUCCESS
}

macro_rules! addresses {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// The address of a function of a table.
        fn address(functions: &Functions, symbol: &str) -> *const c_void {
            match symbol {
                "cuLaunchKernel" => launch_kernel as *const c_void,
                "cuGraphLaunch" | "cuGraphUpload" => launch_graph as *const c_void,
                "cuMemsetD32Async" => fill as *const c_void,
                "cuStreamBeginCapture_v2" => begin as *const c_void,
                "cuStreamEndCapture" => end as *const c_void,
                "cuStreamGetCaptureInfo" => info as *const c_void,
                "cuGraphGetNodes" => nodes as *const c_void,
                "cuGraphInstantiateWithFlags" => instantiate as *const c_void,
                "cuGraphExecKernelNodeSetParams_v2" => set_kernel as *const c_void,
                "cuGraphExecMemsetNodeSetParams" => set_fill as *const c_void,
                "cuGraphDestroy" => destroy_graph as *const c_void,
                "cuGraphExecDestroy" => destroy_exec as *const c_void,
                "cuCtxGetCurrent" | "cuCtxPopCurrent_v2" => current as *const c_void,
                "cuCtxPushCurrent_v2" => push as *const c_void,
                "cuThreadExchangeStreamCaptureMode" => exchange as *const c_void,
                $(stringify!($symbol) => functions.$symbol as *const c_void,)*
                _ => std::ptr::null(),
            }
        }
    };
}
grapture::sys::driver_functions!(addresses);
