//! [`Context`]: a device's context, in which everything else lives.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;

use grapture_sys::{
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_SUCCESS, CUcontext, CUresult, Function, Functions,
};

use crate::capture::{BarredCalls, CaptureGate, LegacyBarrier, OpenCaptures};
use crate::context_lost::{Faults, Witness};
use crate::device::Device;
use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::host_function;
use crate::kernel::{Kernel, WeakKernel};
use crate::operation::{Operation, OperationSite};
use crate::reclaim::release_elsewhere;
use crate::stream::{Stream, StreamInner};

/// From how many threads on those that are gone are forgotten before another is added.
const PRUNE_FROM: usize = 64;

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
    /// Of the driver's context, which other handles than this one may stand for too.
    captures: Arc<ContextCaptures>,
    /// The kernel that has a word decide about a conditional node, while a graph has it.
    steering: Mutex<WeakKernel>,
}

/// What the library knows of the captures on the streams of one of the driver's contexts, and of
/// what went wrong there.
#[derive(Default)]
pub(crate) struct ContextCaptures {
    open: OpenCaptures,
    /// Whether a kernel may have been given launch attributes there: by this library, or by others
    /// who have a raw handle of a stream or a graph.
    attributes: AtomicBool,
    legacy: LegacyBarrier,
    barred: BarredCalls,
    faults: Faults,
    /// Those of the threads' default streams.
    threads: Mutex<HashMap<ThreadId, Arc<CaptureGate>>>,
    /// The streams, but for default ones.
    streams: Mutex<Vec<Weak<StreamInner>>>,
    /// The contexts whose memory kernels of this one reach.
    pub(crate) peers: Mutex<Vec<Weak<ContextCaptures>>>,
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
// lock it themselves; what is counted is `Sync`.
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
        let (device, steering) = (device.clone(), Mutex::default());
        Context { inner: Arc::new(ContextInner { raw, device, origin, captures, steering }) }
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
    #[track_caller]
    pub fn synchronize(&self) -> CudaResult<()> {
        let location = Location::caller();
        self.finish().map_err(|error| self.failed(error, "Context::synchronize", location))
    }

    /// Waits for all work submitted to the context, unless a stream of it captures.
    pub(crate) fn finish(&self) -> CudaResult<()> {
        let Some(_waiting) = self.inner.captures.open.wait() else {
            return Err(CudaError::refused(
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "context",
                "a stream of it is capturing, and waiting for the whole context would invalidate \
                 the capture: wait after it has ended, or for one idle stream",
            ));
        };
        // SAFETY: the call takes no pointer; `enter` has made the context current.
        self.enter(|functions| check(unsafe { (functions.cuCtxSynchronize)() }))
    }

    /// The raw handle. It stays valid as long as a handle of this context lives.
    pub fn as_raw(&self) -> CUcontext {
        self.inner.raw
    }

    /// Makes the context current on the calling thread until the guard is dropped.
    ///
    /// No call of this library needs that. Other libraries do, such as cuBLAS; and where the
    /// context is current, the calls that create something, and
    /// [`instantiate`](crate::Graph::instantiate), need not make it so themselves, which costs
    /// about 50 ns.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// let context = Context::new(&driver.device(0)?)?;
    /// let current = context.make_current()?;
    /// // … calls of another library, on this thread …
    /// drop(current);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuCtxPushCurrent")]
    pub fn make_current(&self) -> CudaResult<CurrentContext> {
        // SAFETY: the context is alive (this handle), so it can be made current.
        check(unsafe { (self.functions().cuCtxPushCurrent_v2)(self.inner.raw) })?;
        Ok(CurrentContext { context: self.clone(), _not_send: PhantomData })
    }

    #[inline]
    pub(crate) fn functions(&self) -> &Functions {
        self.driver().functions()
    }

    /// Whether both are handles of one value here, which is what most are that are the same.
    #[inline]
    pub(crate) fn is(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    #[inline]
    pub(crate) fn same(&self, other: &Context) -> bool {
        self.is(other) || self.inner.raw == other.inner.raw && self.driver().same(other.driver())
    }

    /// Runs `call` with this context current on the thread, and leaves the thread's own as it was
    /// (O10). Only for calls that create something or that ask the current context: calls on a
    /// stream find the context by the stream (measured).
    ///
    /// Where the context is current already, as in a program that keeps it so for other libraries,
    /// it costs one question.
    #[inline]
    pub(crate) fn enter<R>(&self, call: impl FnOnce(&Functions) -> CudaResult<R>) -> CudaResult<R> {
        let functions = self.functions();
        let mut current = std::ptr::null_mut();
        // SAFETY: the out-pointer is a live local.
        let asked = unsafe { (functions.cuCtxGetCurrent)(&mut current) };
        if asked == CUDA_SUCCESS && current == self.inner.raw {
            return call(functions).map_err(|error| self.explain(error));
        }
        self.pushed(call)
    }

    /// Runs `call` with this context pushed.
    fn pushed<R>(&self, call: impl FnOnce(&Functions) -> CudaResult<R>) -> CudaResult<R> {
        let functions = self.functions();
        // SAFETY: the context is alive (this handle), so it can be made current.
        self.check(unsafe { (functions.cuCtxPushCurrent_v2)(self.inner.raw) })?;
        let _pop = Pop { functions };
        call(functions).map_err(|error| self.explain(error))
    }

    /// The result of a driver call in the context.
    #[inline]
    pub(crate) fn check(&self, code: CUresult) -> CudaResult<()> {
        check(code).map_err(|error| self.explain(error))
    }

    /// An error of a driver call in the context: by name, if the context is lost.
    #[cold]
    fn explain(&self, error: CudaError) -> CudaError {
        self.inner.captures.faults.explain(error)
    }

    /// Says which operation got an error, should it be the first to tell that the context is lost.
    #[cold]
    pub(crate) fn submission_failed(&self, error: CudaError, operation: &Operation) -> CudaError {
        // SAFETY: in the call that submits the operation.
        let witness = || Witness::Operation(unsafe { operation.site() });
        self.inner.captures.faults.witnessed(error, witness)
    }

    /// Takes down which function of this library got an error: it may be the first to tell that
    /// the context is lost, or have broken a capture.
    #[cold]
    pub(crate) fn failed(
        &self,
        error: CudaError,
        function: &'static str,
        location: &'static Location<'static>,
    ) -> CudaError {
        let captures = &self.inner.captures;
        if !matches!(error, CudaError::Refused(_)) {
            captures.barred.note(function, location, error.code());
        }
        captures.faults.witnessed(error, || Witness::Call(function, location))
    }

    /// The calls that the driver refused for the sake of a capture.
    pub(crate) fn barred(&self) -> &BarredCalls {
        &self.inner.captures.barred
    }

    pub(crate) fn captures(&self) -> &Arc<ContextCaptures> {
        &self.inner.captures
    }

    /// What may be done on the legacy default stream.
    pub(crate) fn legacy(&self) -> &LegacyBarrier {
        &self.inner.captures.legacy
    }

    /// Remembers a launch, to be suspected of a fault.
    #[cold]
    pub(crate) fn remember(&self, launch: OperationSite) {
        self.inner.captures.faults.remember(launch);
    }

    /// [`enter`](Context::enter), but for a thread that has the context current already: for calls
    /// that crash with no context (measured), in a row or where another library keeps one current.
    pub(crate) fn entered<R>(
        &self,
        call: impl FnOnce(&Functions) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let functions = self.functions();
        let mut current = std::ptr::null_mut();
        // SAFETY: the out-pointer is a live local.
        let asked = check(unsafe { (functions.cuCtxGetCurrent)(&mut current) });
        if asked.is_ok() && current == self.inner.raw { call(functions) } else { self.pushed(call) }
    }

    /// [`enter`](Context::enter) with the thread's capture mode relaxed: for calls that a capture
    /// would bar and that do it no harm.
    pub(crate) fn enter_relaxed<R>(
        &self,
        call: impl FnOnce(&Functions) -> CudaResult<R>,
    ) -> CudaResult<R> {
        self.driver().relaxed(|_| self.enter(call))
    }

    /// Makes a call about something of the context, with the thread's capture mode relaxed.
    pub(crate) fn relaxed<R>(
        &self,
        call: impl FnOnce(&Functions) -> CudaResult<R>,
    ) -> CudaResult<R> {
        self.driver().relaxed(call).map_err(|error| self.explain(error))
    }

    /// The kernel that has a word decide, loaded by `load` if nobody has it.
    pub(crate) fn steering(&self, load: impl FnOnce() -> CudaResult<Kernel>) -> CudaResult<Kernel> {
        let mut steering = self.inner.steering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = steering.upgrade() {
            return Ok(kernel);
        }
        let kernel = load()?;
        *steering = kernel.downgrade();
        Ok(kernel)
    }

    /// The gate of the calling thread's default stream.
    pub(crate) fn thread_gate(&self) -> Arc<CaptureGate> {
        let thread = std::thread::current().id();
        let threads = &self.inner.captures.threads;
        let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = threads.get(&thread) {
            return gate.clone();
        }
        // Threads come and go: what nobody uses and no capture holds says nothing.
        if threads.len() >= PRUNE_FROM && threads.len().is_power_of_two() {
            threads.retain(|_, gate| Arc::strong_count(gate) > 1 || gate.is_capturing());
        }
        threads.entry(thread).or_default().clone()
    }

    /// Notes that kernels here may have launch attributes from now on.
    pub(crate) fn note_attributes(&self) {
        self.inner.captures.attributes.store(true, Ordering::Relaxed);
    }

    /// Remembers a stream of the context, which is no default one.
    pub(crate) fn add_stream(&self, stream: &Arc<StreamInner>) {
        let streams = &self.inner.captures.streams;
        let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() >= PRUNE_FROM && streams.len().is_power_of_two() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(Arc::downgrade(stream));
    }

    /// Whether no stream of the context that can be asked has work. Does not block. One that
    /// captures cannot be asked, nor can the default ones.
    pub(crate) fn seems_idle(&self) -> bool {
        let streams = &self.inner.captures.streams;
        let streams = streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        streams.iter().filter_map(Weak::upgrade).map(Stream::from).all(|stream| {
            // SAFETY: a live stream that does not capture meanwhile.
            let ask = || stream.with(|functions, raw| unsafe { (functions.cuStreamQuery)(raw) });
            let asked = stream.driver().relaxed(|_| stream.outside_capture(ask));
            asked != Err(CudaError::NotReady)
        })
    }

    /// Whether kernels here may have launch attributes. Who gave them one noted it before, on this
    /// thread or on one that has handed over the graph since.
    pub(crate) fn may_have_attributes(&self) -> bool {
        self.inner.captures.attributes.load(Ordering::Relaxed)
    }

    /// Makes the driver call by which a stream of the context begins or joins a capture.
    pub(crate) fn begin_capture<R>(
        &self,
        blocking: bool,
        begin: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        let captures = &self.inner.captures;
        // Counted before it begins: nobody waits for the context from here on.
        captures.open.begin();
        let begun = if blocking { captures.legacy.begin(begin) } else { begin() };
        begun.inspect_err(|_| {
            captures.open.end();
        })
    }

    /// A stream that began or joined a capture is in it no more.
    pub(crate) fn end_capture(&self, blocking: bool) {
        if blocking {
            self.inner.captures.legacy.end();
        }
        self.inner.captures.open.end();
    }
}

/// Keeps a context current on the thread that made it so: see [`Context::make_current`].
///
/// Guards are to be dropped in the reverse order of their making, as those of a scope are. Else a
/// drop takes what is on top, and what is current meanwhile is one of the others' contexts.
#[must_use = "the context is current until the guard is dropped"]
pub struct CurrentContext {
    context: Context,
    // What is current belongs to the thread, so the guard must not leave it.
    _not_send: PhantomData<*const ()>,
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        drop(Pop { functions: self.context.functions() });
    }
}

impl fmt::Debug for CurrentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentContext").field("context", &self.context).finish()
    }
}

/// Takes the context off the thread's stack, also when the call panics.
struct Pop<'a> {
    functions: &'a Functions,
}

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: the out-pointer is a live local. What `enter` pushed is still on top: it runs
        // nothing of the user's in between. A guard of the user's takes what is on top.
        let code = unsafe { (self.functions.cuCtxPopCurrent_v2)(&mut popped) };
        report("cuCtxPopCurrent", check(code));
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        match self.origin {
            ContextOrigin::Borrowed => {}
            ContextOrigin::Primary => {
                if host_function::is_running() {
                    let taken = ContextInner {
                        raw: self.raw,
                        device: self.device.clone(),
                        origin: ContextOrigin::Primary,
                        captures: self.captures.clone(),
                        steering: Mutex::default(),
                    };
                    release_elsewhere(self.device.driver(), taken);
                    return;
                }
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
