//! The C functions.
//!
//! Each function of the table that is modelled has a safe implementation of the same name in one
//! of the modules here, which takes the simulation first and then its C arguments, with pointers
//! and handles wrapped as [`Ptr`]. The list below is all that has to be told about it: from the
//! table come its C functions, one for each [slot](crate::slots). A function that is not listed is
//! unknown to the resolver.

#![allow(non_snake_case, clippy::too_many_arguments, reason = "the signatures are the driver's")]

mod array;
mod capture;
mod graph;
mod graph_allocation;
mod graph_child;
mod graph_conditional;
mod graph_edge;
mod graph_exec;
mod graph_generic;
mod graph_kernel;
mod graph_memop;
mod graph_memory;
mod graph_node;
mod user_object;

mod context;
mod context_config;
pub(crate) mod copy;
mod copy_now;
mod device;
mod device_more;
mod event;
pub(crate) mod fill;
mod function;
pub(crate) mod host;
mod init;
mod launch;
mod launch_attribute;
mod library;
mod lookup;
mod managed;
mod memory;
mod module;
mod occupancy;
mod pointer;
mod pointer_attribute;
mod pool;
mod stream;
mod tools;

use core::ffi::{c_char, c_void};

use grapture_sys::*;

pub(crate) use pointer::{Argument, MemLocation, Ptr};

use crate::sim::{Answer, Sim};
use crate::slots::{self, SLOTS};
use crate::trace::Line;
use crate::work::in_host_function;

/// Names the modelled functions, by the module that implements them. Those of `unmodelled` are
/// there and answer 801.
macro_rules! modelled {
    ($($module:ident: $($function:ident)*;)*) => {
        /// The implementations by name: those of the modules, else the answer that the function
        /// is not modelled.
        mod implementation {
            #[allow(unused_imports, reason = "shadowed where a function is modelled")]
            pub(super) use super::unmodelled::*;
            $(pub(super) use super::$module::{$($function),*};)*
        }

        /// Whether a function is modelled.
        fn is_modelled(function: Function) -> bool {
            matches!(function, $($(| Function::$function)*)*)
        }
    };
}

modelled! {
    init: cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString;
    capture: cuStreamBeginCapture cuStreamBeginCapture_v2 cuStreamBeginCaptureToGraph
        cuStreamEndCapture cuStreamIsCapturing cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2
        cuStreamGetCaptureInfo_v3 cuStreamUpdateCaptureDependencies
        cuStreamUpdateCaptureDependencies_v2 cuThreadExchangeStreamCaptureMode;
    graph: cuGraphCreate cuGraphDestroy cuGraphClone cuGraphNodeFindInClone cuGraphGetNodes
        cuGraphGetRootNodes cuGraphGetId cuGraphDebugDotPrint;
    graph_edge: cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphRemoveDependencies
        cuGraphRemoveDependencies_v2 cuGraphGetEdges cuGraphGetEdges_v2 cuGraphNodeGetDependencies
        cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2;
    graph_exec: cuGraphInstantiate cuGraphInstantiate_v2 cuGraphInstantiateWithFlags
        cuGraphInstantiateWithParams cuGraphExecGetFlags cuGraphExecGetId cuGraphUpload
        cuGraphLaunch cuGraphExecDestroy cuGraphExecUpdate cuGraphExecUpdate_v2;
    graph_node: cuGraphNodeGetType cuGraphNodeGetLocalId cuGraphNodeGetContainingGraph
        cuGraphDestroyNode cuGraphAddEmptyNode cuGraphAddHostNode cuGraphHostNodeGetParams
        cuGraphHostNodeSetParams cuGraphExecHostNodeSetParams cuGraphAddEventRecordNode
        cuGraphAddEventWaitNode cuGraphEventRecordNodeGetEvent cuGraphEventWaitNodeGetEvent
        cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeSetEvent
        cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent cuGraphNodeSetEnabled
        cuGraphNodeGetEnabled;
    graph_child: cuGraphAddChildGraphNode cuGraphChildGraphNodeGetGraph
        cuGraphExecChildGraphNodeSetParams;
    graph_conditional: cuGraphConditionalHandleCreate;
    graph_generic: cuGraphAddNode cuGraphAddNode_v2 cuGraphNodeSetParams cuGraphExecNodeSetParams;
    graph_kernel: cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphKernelNodeGetParams
        cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
        cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
        cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute;
    graph_memop: cuGraphAddBatchMemOpNode cuGraphBatchMemOpNodeGetParams
        cuGraphBatchMemOpNodeSetParams cuGraphExecBatchMemOpNodeSetParams;
    graph_memory: cuGraphAddMemcpyNode cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams
        cuGraphExecMemcpyNodeSetParams cuGraphAddMemsetNode cuGraphMemsetNodeGetParams
        cuGraphMemsetNodeSetParams cuGraphExecMemsetNodeSetParams;
    graph_allocation: cuGraphAddMemAllocNode cuGraphMemAllocNodeGetParams cuGraphAddMemFreeNode
        cuGraphMemFreeNodeGetParams cuDeviceGraphMemTrim cuDeviceGetGraphMemAttribute
        cuDeviceSetGraphMemAttribute;
    unmodelled: cuGraphAddExternalSemaphoresSignalNode cuGraphExternalSemaphoresSignalNodeGetParams
        cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresSignalNodeSetParams
        cuGraphAddExternalSemaphoresWaitNode cuGraphExternalSemaphoresWaitNodeGetParams
        cuGraphExternalSemaphoresWaitNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams;
    user_object: cuUserObjectCreate cuUserObjectRetain cuUserObjectRelease cuGraphRetainUserObject
        cuGraphReleaseUserObject;
    lookup: cuGetProcAddress cuGetProcAddress_v2;
    device: cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetPCIBusId cuDeviceGetUuid
        cuDeviceGetUuid_v2 cuDeviceTotalMem_v2 cuDeviceGetAttribute cuDeviceCanAccessPeer
        cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
        cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxSetFlags
        cuDevicePrimaryCtxSetFlags_v2 cuDevicePrimaryCtxGetState;
    context: cuCtxCreate_v2 cuCtxDestroy_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxSetCurrent
        cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags cuCtxGetId cuCtxGetApiVersion
        cuCtxGetStreamPriorityRange cuCtxSetLimit cuCtxGetLimit cuCtxSynchronize;
    stream: cuStreamCreate cuStreamCreateWithPriority cuStreamGetPriority cuStreamGetFlags
        cuStreamGetId cuStreamGetCtx cuStreamGetCtx_v2 cuStreamGetDevice cuStreamDestroy_v2 cuStreamQuery
        cuStreamSynchronize cuStreamGetAttribute cuStreamSetAttribute cuStreamCopyAttributes;
    host: cuLaunchHostFunc cuStreamAddCallback cuStreamAttachMemAsync cuStreamWaitValue32_v2
        cuStreamWriteValue32_v2 cuStreamWaitValue64_v2 cuStreamWriteValue64_v2
        cuStreamBatchMemOp_v2;
    event: cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventRecordWithFlags cuStreamWaitEvent
        cuEventQuery cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2;
    memory: cuMemGetInfo_v2 cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemFree_v2 cuMemAllocHost_v2
        cuMemHostAlloc cuMemFreeHost cuMemHostGetFlags cuMemHostGetDevicePointer_v2 cuMemHostRegister_v2
        cuMemHostUnregister cuMemAllocManaged cuMemGetAddressRange_v2;
    copy: cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemcpyHtoDAsync_v2
        cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyAsync cuMemcpyPeerAsync
        cuMemcpy2DAsync_v2 cuMemcpy3DAsync_v2;
    fill: cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD2D8_v2 cuMemsetD2D16_v2 cuMemsetD2D32_v2 cuMemsetD32_v2 cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async
        cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async;
    pool: cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceSetMemPool cuMemAllocAsync
        cuMemAllocFromPoolAsync cuMemFreeAsync cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo
        cuMemPoolSetAttribute cuMemPoolGetAttribute cuMemPoolSetAccess cuMemPoolGetAccess
        cuMemGetDefaultMemPool cuMemGetMemPool cuMemSetMemPool;
    module: cuModuleLoad cuModuleLoadFatBinary cuModuleGetLoadingMode cuModuleLoadData cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction
        cuModuleGetFunctionCount cuModuleEnumerateFunctions cuModuleGetGlobal_v2;
    function: cuFuncGetAttribute cuFuncSetAttribute cuFuncGetModule cuFuncGetName
        cuFuncGetParamInfo cuFuncIsLoaded cuFuncLoad cuFuncSetCacheConfig
        cuFuncSetSharedMemConfig;
    library: cuLibraryLoadFromFile cuLibraryGetManaged cuLibraryGetUnifiedFunction cuKernelGetLibrary cuKernelSetCacheConfig
        cuLibraryLoadData cuLibraryUnload cuLibraryGetKernel cuLibraryGetKernelCount
        cuLibraryEnumerateKernels cuLibraryGetModule cuLibraryGetGlobal cuKernelGetFunction
        cuKernelGetName cuKernelGetAttribute cuKernelSetAttribute cuKernelGetParamInfo;
    tools: cuGetExportTable cuProfilerStart cuProfilerStop;
    context_config: cuCtxCreate_v3 cuCtxCreate_v4 cuCtxGetExecAffinity cuCtxGetCacheConfig
        cuCtxSetCacheConfig cuCtxGetSharedMemConfig cuCtxSetSharedMemConfig cuCtxSetFlags
        cuCtxResetPersistingL2Cache cuCtxGetDevice_v2 cuCtxSynchronize_v2 cuCtxAttach cuCtxDetach
        cuCtxEnablePeerAccess cuCtxDisablePeerAccess;
    device_more: cuDeviceGetByPCIBusId cuDeviceComputeCapability cuDeviceGetProperties
        cuDeviceGetP2PAttribute cuDeviceGetTexture1DLinearMaxWidth cuDeviceGetExecAffinitySupport;
    copy_now: cuMemcpy cuMemcpyPeer cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2 cuMemcpy3D_v2
        cuMemcpy3DPeer cuMemcpy3DPeerAsync;
    managed: cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemAdvise cuMemAdvise_v2
        cuMemRangeGetAttribute cuMemRangeGetAttributes;
    pointer_attribute: cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute;
    launch: cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel;
    occupancy: cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxPotentialBlockSize
        cuOccupancyMaxPotentialBlockSizeWithFlags cuOccupancyAvailableDynamicSMemPerBlock
        cuOccupancyMaxPotentialClusterSize cuOccupancyMaxActiveClusters;
}

macro_rules! define {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        #[allow(dead_code, reason = "used where a function is not modelled")]
        mod unmodelled {
            use super::*;
            $(
                pub(super) fn $symbol(
                    _: &Sim,
                    $(_: <$ty as Argument<'_>>::Wrapped),*
                ) -> Answer {
                    Err(CUDA_ERROR_NOT_SUPPORTED)
                }
            )*
        }

        /// The C functions once, with the slot as an argument.
        pub(crate) mod entry {
            use super::*;
            $(
                /// # Safety
                ///
                /// The arguments are as the C function of this name demands.
                pub(crate) unsafe fn $symbol(slot: usize, $($arg: $ty),*) -> CUresult {
                    let arguments = |_line: &mut Line| {
                        $(_line.argument(stringify!($arg), &$arg);)*
                    };
                    enter(slot, Function::$symbol, arguments, |sim| {
                        implementation::$symbol(sim, $({
                            // SAFETY: the caller's promise for this argument.
                            unsafe { Argument::wrap($arg) }
                        }),*)
                    })
                }
            )*
        }

        /// The C functions, once for each slot.
        mod by_slot {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $symbol<const S: usize>($($arg: $ty),*) -> CUresult {
                    // SAFETY: the caller's promise.
                    unsafe { entry::$symbol(S, $($arg),*) }
                }
            )*
        }

        /// The address of a slot's C function.
        fn address_in<const S: usize>(function: Function) -> *const c_void {
            match function {
                $(Function::$symbol => {
                    by_slot::$symbol::<S> as unsafe extern "C" fn($($ty),*) -> CUresult
                        as *const c_void
                })*
            }
        }
    };
}

driver_functions!(define);

/// The address of the function that a table line describes, or null where this driver does not
/// have it.
pub(crate) fn address(sim: &Sim, info: &'static FunctionInfo) -> *const c_void {
    match Function::from_symbol(info.symbol) {
        Some(function) if is_present(sim, function) => address_of(sim.slot, function, false),
        _ => std::ptr::null(),
    }
}

/// Whether this driver has the function: it is modelled, and not newer than the driver.
pub(crate) fn is_present(sim: &Sim, function: Function) -> bool {
    is_modelled(function) && function.info().since <= sim.config.version()
}

/// The address of a function by slot.
///
/// With `per_thread`, its null stream is the calling thread's own; only slot 0, that of the
/// shared library, has these.
pub(crate) fn address_of(slot: usize, function: Function, per_thread: bool) -> *const c_void {
    match (slot, per_thread) {
        (0, true) => return address_in::<PER_THREAD>(function),
        (_, true) => return std::ptr::null(),
        (_, false) => {}
    }
    macro_rules! by_number {
        ($($number:literal)*) => {
            match slot {
                $($number => address_in::<$number>(function),)*
                _ => std::ptr::null(),
            }
        };
    }
    by_number!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
}

/// Not a slot: slot 0 with the null stream of each thread.
pub(crate) const PER_THREAD: usize = SLOTS;

const _: () = assert!(SLOTS == 32, "`address_of` names each slot");

/// What every call does: finds its simulation, counts, fails if it is planned to, and is traced.
fn enter(
    slot: usize,
    function: Function,
    arguments: impl Fn(&mut Line),
    call: impl FnOnce(&Sim) -> Answer,
) -> CUresult {
    if slot == PER_THREAD {
        return slots::with_per_thread_null(|| enter(0, function, arguments, call));
    }
    let Some(sim) = slots::sim(slot) else { return CUDA_ERROR_DEINITIALIZED };
    let origin = sim.calls.enter(function);
    let code = match permit(&sim, function).and_then(|()| call(&sim)) {
        Ok(()) => CUDA_SUCCESS,
        Err(code) => code,
    };
    if let Some(trace) = &sim.trace {
        trace.write(origin, code, arguments);
    }
    code
}

/// Whether a call may go on: its code if it is to fail, or cannot be called now.
fn permit(sim: &Sim, function: Function) -> Answer {
    sim.calls.check_plan(function)?;
    if !is_present(sim, function) {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    if in_host_function() && !init::is_pure(function) {
        return Err(CUDA_ERROR_NOT_PERMITTED);
    }
    if !init::works_before_init(function) && !sim.lock().initialized {
        return Err(CUDA_ERROR_NOT_INITIALIZED);
    }
    Ok(())
}
