//! What the library does without, and what a release that fails leaves behind.

use grapture_sim::LiveObjects;
use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUresult,
    Function,
};

/// A call by which things are released, the name under which its failure is reported, and what that
/// leaves.
type Release = (Function, &'static str, fn(&mut LiveObjects));

const RELEASES: &[Release] = &[
    (Function::cuMemFree_v2, "cuMemFree", |live| live.device_allocations += 1),
    (Function::cuMemFreeAsync, "cuMemFreeAsync", |live| live.device_allocations += 1),
    (Function::cuMemFreeHost, "cuMemFreeHost", |live| live.pinned += 1),
    (Function::cuStreamDestroy_v2, "cuStreamDestroy", |live| live.streams += 1),
    (Function::cuEventDestroy_v2, "cuEventDestroy", |live| live.events += 1),
    (Function::cuModuleUnload, "cuModuleUnload", |live| live.modules += 1),
    (Function::cuGraphDestroy, "cuGraphDestroy", |live| live.graphs += 1),
    (Function::cuGraphExecDestroy, "cuGraphExecDestroy", |live| live.execs += 1),
    (Function::cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", |live| {
        live.primary_retains += 1;
    }),
    // It leaves the context on the thread's stack: whether the call has taken it off although it
    // answered an error cannot be known, and another pop could take off the caller's own.
    (Function::cuCtxPopCurrent_v2, "cuCtxPopCurrent", |_| {}),
];

/// Whether the failure of the function is reported under the name.
pub fn reports(function: Function, name: &str) -> bool {
    RELEASES.iter().any(|(release, known, _)| *release == function && *known == name)
}

/// Adds to what is expected to be alive what a failed release leaves.
pub fn leave(name: &str, live: &mut LiveObjects) {
    if let Some((_, _, leave)) = RELEASES.iter().find(|(_, known, _)| *known == name) {
        leave(live);
    }
}

/// Those of the codes of the sweep that say that a capture is in the way.
const CAPTURE_CODES: &[CUresult] =
    &[CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];

/// Whether an operation may succeed although the call failed.
pub fn tolerates(function: Function, code: CUresult) -> bool {
    match function {
        // A driver before 10.1 has no modes; and the mode from before is put back by a second try.
        Function::cuThreadExchangeStreamCaptureMode => true,
        // The context is made current then, whatever is.
        Function::cuCtxGetCurrent => true,
        // It is asked again by the call that can say why.
        Function::cuGraphInstantiateWithFlags => true,
        // So the driver says that there are no more parameters.
        Function::cuFuncGetParamInfo => code == CUDA_ERROR_INVALID_VALUE,
        // So the driver says that it does not know the attribute.
        Function::cuGraphKernelNodeGetAttribute => {
            [CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED].contains(&code)
        }
        // A capture of a blocking stream bars a wait for the legacy one, so that copies which
        // borrow the host's memory wait again; whoever has asked for the wait is told.
        Function::cuStreamSynchronize => CAPTURE_CODES.contains(&code),
        // Where there is no room, what waits to be released is, and the allocation is made again.
        Function::cuMemAlloc_v2
        | Function::cuMemHostAlloc
        | Function::cuMemAllocAsync
        | Function::cuCtxPushCurrent_v2
        | Function::cuEventRecord => code == CUDA_ERROR_OUT_OF_MEMORY,
        // It is reported, and the operation is done.
        _ => RELEASES.iter().any(|(release, _, _)| *release == function),
    }
}
