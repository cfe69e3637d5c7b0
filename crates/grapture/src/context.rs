//! [`Context`]: a device's context, in which everything else lives.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grapture_sys::{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUcontext, Function, Functions};

use crate::device::Device;
use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};

/// A CUDA context. Buffers, streams, events, modules and graphs each keep theirs alive (O1).
///
/// A clone is the same context. No call of this library needs the context to be current on the
/// thread, and none changes which one is (O10).
#[derive(Clone)]
pub struct Context {
    inner: Arc<ContextInner>,
}

pub(crate) struct ContextInner {
    raw: CUcontext,
    device: Device,
    origin: ContextOrigin,
    /// How many captures of this library are open on streams of the driver's context, which other
    /// handles than this one may stand for too.
    captures: Arc<AtomicUsize>,
}

enum ContextOrigin {
    /// One reference to the device's primary context, released on drop.
    Primary,
    /// A context that somebody else owns.
    Borrowed,
}

// SAFETY: a `CUcontext` belongs to no thread since CUDA 4.0: any thread may make it current, and
// it is only passed to driver calls, which take it by value.
unsafe impl Send for ContextInner {}
// SAFETY: nothing is read or written through the handle here, and the driver's calls on a context
// lock it themselves; the counter is atomic.
unsafe impl Sync for ContextInner {}

impl Context {
    /// The device's primary context, which all of a process's libraries share, created if need be.
    ///
    /// # Errors
    ///
    /// As the driver answers, such as [`CudaError::OutOfMemory`].
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn new(device: &Device) -> CudaResult<Context> {
        let mut raw = std::ptr::null_mut();
        let functions = device.driver().functions();
        // SAFETY: the out-pointer is a live local, and the device comes from this driver.
        check(unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut raw, device.as_raw()) })?;
        Ok(Context::of(raw, device, ContextOrigin::Primary))
    }

    /// A context that somebody else owns, such as one made with `cuCtxCreate`. It is not destroyed
    /// here.
    ///
    /// # Safety
    ///
    /// `raw` is a context of `device`, and it outlives every handle made from it here, and every
    /// graph that uses those.
    pub unsafe fn borrow_raw(device: &Device, raw: CUcontext) -> Context {
        Context::of(raw, device, ContextOrigin::Borrowed)
    }

    fn of(raw: CUcontext, device: &Device, origin: ContextOrigin) -> Context {
        let captures = device.driver().captures_of(raw);
        Context { inner: Arc::new(ContextInner { raw, device: device.clone(), origin, captures }) }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        self.inner.device.driver()
    }

    /// Waits for all work submitted to the context, on every stream. Blocks.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] while a stream of the context captures: the driver would invalidate
    /// the capture, also one of another thread. An error of earlier work.
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize(&self) -> CudaResult<()> {
        if self.inner.captures.load(Ordering::Relaxed) > 0 {
            return Err(CudaError::refused(
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "context",
                "a stream of it is capturing, and waiting for the whole context would invalidate \
                 the capture: wait after it has ended, or for one idle stream",
            ));
        }
        // SAFETY: the call takes no pointer; `enter` has made the context current.
        self.enter(|functions| check(unsafe { (functions.cuCtxSynchronize)() }))
    }

    /// The raw handle. It stays valid as long as a handle of this context lives.
    pub fn as_raw(&self) -> CUcontext {
        self.inner.raw
    }

    #[inline]
    pub(crate) fn functions(&self) -> &Functions {
        self.driver().functions()
    }

    #[inline]
    pub(crate) fn same(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || self.inner.raw == other.inner.raw && self.driver().same(other.driver())
    }

    /// Runs `call` with this context current on the thread, and leaves the thread's own as it was
    /// (O10). Only for calls that create something or that ask the current context: calls on a
    /// stream find the context by the stream (measured).
    pub(crate) fn enter<R>(&self, call: impl FnOnce(&Functions) -> CudaResult<R>) -> CudaResult<R> {
        let functions = self.functions();
        // SAFETY: the context is alive (this handle), so it can be made current.
        check(unsafe { (functions.cuCtxPushCurrent_v2)(self.inner.raw) })?;
        let _pop = Pop { functions };
        call(functions)
    }

    /// [`enter`](Context::enter) with the thread's capture mode relaxed: for calls that a capture
    /// would bar and that do it no harm.
    pub(crate) fn enter_relaxed<R>(
        &self,
        call: impl FnOnce(&Functions) -> CudaResult<R>,
    ) -> CudaResult<R> {
        self.driver().relaxed(|_| self.enter(call))
    }

    pub(crate) fn capture_began(&self) {
        self.inner.captures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn capture_ended(&self) {
        self.inner.captures.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes the context off the thread's stack, also when the call panics.
struct Pop<'a> {
    functions: &'a Functions,
}

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: the out-pointer is a live local. What was pushed is still on top: `enter` runs
        // nothing of the user's in between.
        let code = unsafe { (self.functions.cuCtxPopCurrent_v2)(&mut popped) };
        report("cuCtxPopCurrent", check(code));
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        match self.origin {
            ContextOrigin::Borrowed => {}
            ContextOrigin::Primary => {
                let driver = self.device.driver();
                let functions = driver.functions();
                // Version 2 came with driver 11.0; the first has the same signature.
                let (name, release) = if driver.has(Function::cuDevicePrimaryCtxRelease_v2) {
                    ("cuDevicePrimaryCtxRelease", functions.cuDevicePrimaryCtxRelease_v2)
                } else {
                    ("cuDevicePrimaryCtxRelease", functions.cuDevicePrimaryCtxRelease)
                };
                // SAFETY: this value holds one reference, and every handle that needs the context
                // holds this value (O1), so none is left.
                report(name, check(unsafe { release(self.device.as_raw()) }));
            }
        }
    }
}

impl PartialEq for Context {
    /// Whether both are the same context of the same driver.
    fn eq(&self, other: &Context) -> bool {
        self.same(other)
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("raw", &self.inner.raw)
            .field("device", &self.inner.device)
            .finish()
    }
}
