//! Host functions and stream callbacks.

use core::ffi::c_void;
use std::cell::Cell;
use std::sync::Arc;

use grapture_sys::{CUDA_SUCCESS, CUresult, CUstream};

use crate::context::ContextCore;
use crate::fault::Fault;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a function of the program that the driver called, where CUDA
/// calls are forbidden.
pub(crate) fn in_host_function() -> bool {
    INSIDE.get()
}

/// Calls a function of the program; until it returns, CUDA calls of this thread are refused.
pub(crate) fn call_program<R>(call: impl FnOnce() -> R) -> R {
    let _inside = Inside { before: INSIDE.replace(true) };
    call()
}

/// Marks the thread for as long as it lives.
struct Inside {
    before: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// A function of the program, to be called in stream order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWork {
    /// The function.
    pub(crate) function: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub(crate) user_data: usize,
}

impl HostWork {
    /// Calls it.
    pub(crate) fn run(&self) -> Result<(), Fault> {
        call_program(|| {
            // SAFETY: the caller of `cuLaunchHostFunc`, or of the function that made the node, gave
            // this function and this argument to be called on any thread when the work before it
            // is done; that is now.
            unsafe { (self.function)(std::ptr::with_exposed_provenance_mut(self.user_data)) };
        });
        Ok(())
    }
}

/// A callback of the program, which learns whether the stream's context is sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallbackWork {
    /// The function.
    pub(crate) function: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    /// The stream's handle, as the program gave it.
    pub(crate) stream: usize,
    /// Its argument.
    pub(crate) user_data: usize,
}

impl CallbackWork {
    /// Calls it.
    pub(crate) fn run(&self, context: &Arc<ContextCore>) -> Result<(), Fault> {
        let status = context.fault().map_or(CUDA_SUCCESS, |fault| fault.code);
        let stream = std::ptr::with_exposed_provenance_mut(self.stream);
        let user_data = std::ptr::with_exposed_provenance_mut(self.user_data);
        call_program(|| {
            // SAFETY: the caller of `cuStreamAddCallback` gave this function and this argument to
            // be called on any thread when the work before it is done; that is now.
            unsafe { (self.function)(stream, status, user_data) };
        });
        Ok(())
    }
}
