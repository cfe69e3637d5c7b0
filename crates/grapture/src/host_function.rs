//! Functions of the host in the order of a stream.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use grapture_sys::{CUDA_HOST_NODE_PARAMS, CUDA_SUCCESS, CUstream, Functions};

use crate::context::Context;
use crate::error::CudaResult;
use crate::operation::{Operation, OperationKind};
use crate::reclaim::{Contained, ReclaimHandle};
use crate::stream::Stream;
use crate::tell::contained;

type HostFunction = dyn Fn() + Send + Sync;

/// What the driver is given: the function, and where to let go of it.
pub(crate) struct Call {
    function: Contained<Box<HostFunction>>,
    /// The call can be all that is left of the program's use of the driver: neither the context
    /// nor the driver's library goes before it is done (O1).
    _context: Context,
    reclaimer: ReclaimHandle,
}

impl Call {
    pub(crate) fn new(context: &Context, function: impl Fn() + Send + Sync + 'static) -> Call {
        let reclaimer = context.driver().reclaimer().handle();
        let function = Contained::new(Box::new(function) as Box<HostFunction>);
        Call { function, _context: context.clone(), reclaimer }
    }

    /// What the driver is told of it for a node. The graph owns the call (O2).
    pub(crate) fn params(call: &Arc<Call>) -> CUDA_HOST_NODE_PARAMS {
        let data = Arc::as_ptr(call).cast_mut().cast();
        CUDA_HOST_NODE_PARAMS { fn_: Some(run_borrowed), userData: data }
    }

    /// The size of what the function captured, in bytes.
    pub(crate) fn captured_bytes(&self) -> usize {
        size_of_val(&**self.function)
    }
}

impl Stream {
    /// Has `function` called on a thread of the driver when all work submitted so far is done;
    /// later work waits for it. Does not block.
    ///
    /// In a capture it becomes a node: it is called at every launch, and two executable graphs of
    /// one graph may call it at the same time, therefore `Fn` and `Sync` (O7). It must not call
    /// CUDA, or wait for anything that a stream does: the driver refuses such calls, or never comes
    /// back from them. A handle of this library may be dropped in it: it is released on a thread
    /// of the library. If it panics, the panic is caught and
    /// reported, and the stream goes on. It is not called after the context was lost.
    ///
    /// # Errors
    ///
    /// As the driver answers; the function is dropped then. [`NotSupported`](crate::CudaError::NotSupported):
    /// the driver is older than 10.0.
    #[doc(alias = "cuLaunchHostFunc")]
    #[track_caller]
    pub fn host_function<F>(&self, function: F) -> CudaResult<()>
    where
        F: Fn() + Send + Sync + 'static,
    {
        let operation = Operation::new(OperationKind::HostFunction);
        let call = Arc::new(Call::new(self.context(), function));
        // In a capture the graph owns the call, and each launch borrows it. Else one run takes a
        // share in it.
        let borrowed = Arc::as_ptr(&call).cast_mut().cast::<c_void>();
        let owned = Arc::into_raw(call.clone());
        let mut taken = false;
        let submitted = self.submit_either(
            operation,
            |owners| owners.retain(&call),
            // SAFETY: a live stream; the call lives as long as the graph can run (O2).
            |functions, raw| unsafe { enqueue(functions, raw, run_borrowed, borrowed) },
            |functions, raw| {
                // SAFETY: a live stream; `owned` is a share in the call, which the one run takes.
                let code = unsafe { enqueue(functions, raw, run_owned, owned.cast_mut().cast()) };
                taken = code == CUDA_SUCCESS;
                code
            },
        );
        if !taken {
            // SAFETY: no run takes the share: it is still ours.
            drop(unsafe { Arc::from_raw(owned) });
        }
        submitted
    }
}

/// # Safety
///
/// The stream is live, and `data` is what `run` expects, until it has run for the last time.
unsafe fn enqueue(
    functions: &Functions,
    stream: CUstream,
    run: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> grapture_sys::CUresult {
    // SAFETY: the caller's promise.
    unsafe { (functions.cuLaunchHostFunc)(stream, Some(run), data) }
}

/// Runs the call of a graph's node.
unsafe extern "C" fn run_borrowed(data: *mut c_void) {
    // SAFETY: `data` is the `Call` that the graph owns, and the graph runs (O2).
    let call = unsafe { &*data.cast::<Call>() };
    run(call);
}

/// Runs the call of a stream, once.
unsafe extern "C" fn run_owned(data: *mut c_void) {
    // SAFETY: `data` is the share that `host_function` gave away for this one run.
    let call = unsafe { Arc::from_raw(data.cast::<Call>()) };
    run(&call);
    // What the function captured may be a handle, whose release calls CUDA: not on this thread.
    let reclaimer = call.reclaimer.clone();
    reclaimer.release(Box::new(call));
}

thread_local! {
    /// Whether this thread runs a host function now.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a host function now, where the driver refuses every call.
#[inline]
pub(crate) fn is_running() -> bool {
    RUNS.get()
}

fn run(call: &Call) {
    // It cannot be nested: a host function of the simulated driver runs on no thread that waits.
    RUNS.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| (call.function)()));
    RUNS.set(false);
    if let Err(payload) = result {
        contained(|| tracing::error!("a host function panicked; the stream goes on"));
        // It may hold a handle, or panic again when it is dropped: not here.
        call.reclaimer.release(Box::new(payload));
    }
}
