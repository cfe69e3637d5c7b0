//! [`Stream`]: an ordered queue of work on a device. The model of every handle here.

mod wait;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING,
    CUDA_ERROR_INVALID_CONTEXT, CUresult, CUstream, CUstreamCaptureStatus, Functions,
};

use crate::capture::{CaptureGate, CaptureLog, escape};
use crate::context::Context;
use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::host_function;
use crate::operation::Operation;
use crate::reclaim::release_elsewhere;
use crate::retain::Owners;

/// The raw handle of the legacy default stream.
const LEGACY: CUstream = std::ptr::without_provenance_mut(1);
/// The raw handle of the calling thread's default stream.
const PER_THREAD: CUstream = std::ptr::without_provenance_mut(2);

/// A CUDA stream: work submitted to it runs in order, and beside the work of other streams.
///
/// A clone is the same stream. While a [capture](crate::StreamGraphCapture) of the stream is
/// open, work submitted to it is recorded instead of run.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

pub(crate) struct StreamInner {
    raw: CUstream,
    context: Context,
    origin: StreamOrigin,
    /// None for the default stream of each thread: every thread has its own, whatever the handle.
    gate: Option<Arc<CaptureGate>>,
    /// Whether other hands than this library's can have the raw handle.
    exposed: AtomicBool,
    /// Whether the legacy default stream and this one wait for each other, once that was asked.
    blocking: OnceLock<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamOrigin {
    /// Made here, destroyed on drop.
    Owned,
    /// One of the two handles that stand for a default stream. The driver finds its context by
    /// what is current on the thread (measured), so each call makes the context current.
    Default,
    /// Somebody else's.
    Borrowed,
}

// SAFETY: a `CUstream` belongs to no thread: any thread may submit to it. It is only passed to
// driver calls, by value.
unsafe impl Send for StreamInner {}
// SAFETY: the driver's calls on a stream lock it themselves ("all host threads may submit"); the
// gate is `Sync`.
unsafe impl Sync for StreamInner {}

/// How a stream is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    blocking: bool,
    priority: i32,
}

impl StreamOptions {
    /// A non-blocking stream of the default priority.
    pub fn new() -> StreamOptions {
        StreamOptions::default()
    }

    /// Whether the stream waits for the legacy default stream and the other way round.
    pub fn blocking(mut self, blocking: bool) -> StreamOptions {
        self.blocking = blocking;
        self
    }

    /// The priority: 0 is the least, and lower numbers come first. The driver clamps it to
    /// [`Device::stream_priorities`](crate::Context::stream_priorities).
    pub fn priority(mut self, priority: i32) -> StreamOptions {
        self.priority = priority;
        self
    }
}

impl Stream {
    /// A new stream that does not wait for the legacy default stream.
    ///
    /// # Errors
    ///
    /// As the driver answers, such as [`CudaError::OutOfMemory`].
    #[doc(alias = "cuStreamCreate")]
    pub fn new(context: &Context) -> CudaResult<Stream> {
        Stream::with_options(context, StreamOptions::new())
    }

    /// A new stream with options.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuStreamCreateWithPriority")]
    pub fn with_options(context: &Context, options: StreamOptions) -> CudaResult<Stream> {
        let flags = if options.blocking { CU_STREAM_DEFAULT } else { CU_STREAM_NON_BLOCKING };
        let mut raw = std::ptr::null_mut();
        context.enter(|functions| {
            // SAFETY: the out-pointer is a live local.
            check(unsafe {
                (functions.cuStreamCreateWithPriority)(&mut raw, flags.0, options.priority)
            })
        })?;
        let stream = Stream::of(raw, context, StreamOrigin::Owned);
        let _ = stream.inner.blocking.set(options.blocking);
        Ok(stream)
    }

    /// The legacy default stream of the context: it waits for every blocking stream, and they wait
    /// for it. It cannot be captured.
    #[doc(alias = "CU_STREAM_LEGACY")]
    pub fn legacy(context: &Context) -> Stream {
        Stream::of(LEGACY, context, StreamOrigin::Default)
    }

    /// The default stream of whichever thread makes the call: a handle that is sent to another
    /// thread stands for that thread's stream there, and all handles of a thread for the same.
    #[doc(alias = "CU_STREAM_PER_THREAD")]
    pub fn per_thread(context: &Context) -> Stream {
        Stream::of(PER_THREAD, context, StreamOrigin::Default)
    }

    /// Takes over a stream that was made elsewhere: it is destroyed with the last clone.
    ///
    /// # Safety
    ///
    /// `raw` is a live stream of `context` that nobody else destroys or captures, and that is not
    /// capturing now.
    pub unsafe fn from_raw(context: &Context, raw: CUstream) -> Stream {
        let stream = Stream::of(raw, context, StreamOrigin::Owned);
        stream.expose();
        stream
    }

    /// Borrows a stream that somebody else owns, such as another library's. It is not destroyed
    /// here.
    ///
    /// # Safety
    ///
    /// `raw` is a stream of `context` that outlives every clone of this handle. While it captures
    /// by other hands, nothing is submitted through this handle: what such a capture records is
    /// not kept alive.
    pub unsafe fn borrow_raw(context: &Context, raw: CUstream) -> Stream {
        // The handles that stand for a default stream need the context made current.
        let default = raw.is_null() || raw == LEGACY || raw == PER_THREAD;
        let origin = if default { StreamOrigin::Default } else { StreamOrigin::Borrowed };
        Stream::of(raw, context, origin)
    }

    fn of(raw: CUstream, context: &Context, origin: StreamOrigin) -> Stream {
        let gate = (raw != PER_THREAD).then(Arc::default);
        // The default stream of a thread can be captured, and everybody knows its handle.
        let exposed = origin != StreamOrigin::Owned;
        if exposed && raw != LEGACY {
            context.note_attributes();
        }
        let (context, exposed) = (context.clone(), AtomicBool::new(exposed));
        let blocking = OnceLock::new();
        let inner = Arc::new(StreamInner { raw, context, origin, gate, exposed, blocking });
        if origin != StreamOrigin::Default {
            inner.context.add_stream(&inner);
        }
        Stream { inner }
    }

    pub(crate) fn downgrade(&self) -> WeakStream {
        WeakStream(Arc::downgrade(&self.inner))
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        self.inner.context.driver()
    }

    /// The raw handle. It stays valid as long as a clone of this one lives.
    pub fn as_raw(&self) -> CUstream {
        self.expose();
        self.inner.raw
    }

    /// The handle, for the library itself.
    pub(crate) fn raw(&self) -> CUstream {
        self.inner.raw
    }

    fn expose(&self) {
        self.inner.context.note_attributes();
        self.inner.exposed.store(true, Ordering::Relaxed);
    }

    /// Whether the raw handle is known outside of this library, so that others may begin and end
    /// captures by it. Who was handed it made the call that this sees.
    pub(crate) fn is_exposed(&self) -> bool {
        self.inner.exposed.load(Ordering::Relaxed)
    }

    /// Whether a capture that this library began or joined records the stream. Asks no driver;
    /// [`capture_info`](Stream::capture_info) does.
    #[inline]
    pub fn is_capturing(&self) -> bool {
        self.with_gate(|gate| gate.is_capturing())
    }

    /// The priority: 0 is the least, and lower numbers come first.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuStreamGetPriority")]
    pub fn priority(&self) -> CudaResult<i32> {
        let mut priority = 0;
        self.with(|functions, raw| {
            // SAFETY: a live stream, and the out-pointer is a live local.
            unsafe { (functions.cuStreamGetPriority)(raw, &mut priority) }
        })?;
        Ok(priority)
    }

    /// Makes a driver call on the stream.
    #[inline(always)] // A call of the call would cost as much as what it does.
    pub(crate) fn with(
        &self,
        call: impl FnOnce(&Functions, CUstream) -> CUresult,
    ) -> CudaResult<()> {
        if self.inner.origin == StreamOrigin::Default {
            return self.with_default(call);
        }
        self.inner.context.check(call(self.inner.context.functions(), self.inner.raw))
    }

    /// Makes a driver call on a default stream.
    #[cold]
    #[inline(never)]
    fn with_default(&self, call: impl FnOnce(&Functions, CUstream) -> CUresult) -> CudaResult<()> {
        let context = &self.inner.context;
        self.unless_barred(|| context.enter(|functions| check(call(functions, self.inner.raw))))
    }

    /// Makes a call on the stream, unless that is the legacy one and a blocking stream captures.
    pub(crate) fn unless_barred<R>(&self, call: impl FnOnce() -> CudaResult<R>) -> CudaResult<R> {
        if self.is_legacy() { self.context().legacy().submit(call) } else { call() }
    }

    /// Submits one operation: it runs, or a capture records it. A capture then logs it and keeps
    /// alive what `retain` names.
    #[inline]
    pub(crate) fn submit(
        &self,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl Fn(&Functions, CUstream) -> CUresult,
    ) -> CudaResult<()> {
        self.submit_either(operation, retain, &call, &call)
    }

    /// [`submit`](Stream::submit) with one call for a capture and another for work that runs.
    #[inline]
    pub(crate) fn submit_either(
        &self,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        captured: impl FnOnce(&Functions, CUstream) -> CUresult,
        eager: impl FnOnce(&Functions, CUstream) -> CUresult,
    ) -> CudaResult<()> {
        self.with_gate(|gate| {
            if let Some(mut own) = gate.own().get() {
                return own.record(gate, self, operation, retain, || self.with(captured));
            }
            self.submit_routed(gate, operation, retain, captured, eager)
        })
    }

    /// The same where this thread has no capture of its own on the stream. Apart from that, so that
    /// what a captured operation runs is in one piece.
    #[inline(never)]
    fn submit_routed(
        &self,
        gate: &Arc<CaptureGate>,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        captured: impl FnOnce(&Functions, CUstream) -> CUresult,
        eager: impl FnOnce(&Functions, CUstream) -> CUresult,
    ) -> CudaResult<()> {
        gate.route(
            |log| log.record(self, operation, retain, || self.with(captured)),
            || self.run(&operation, || self.with(eager)),
        )
    }

    /// Makes the driver call of an operation that runs.
    #[inline]
    pub(crate) fn run(
        &self,
        operation: &Operation,
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        match call() {
            Ok(()) => {
                escape::note(operation, self.context());
                Ok(())
            }
            Err(error) => Err(self.context().submission_failed(error, operation)),
        }
    }

    /// Makes one of two calls, by whether a capture records the stream, which stays so meanwhile:
    /// see [`CaptureGate::route`].
    #[inline]
    pub(crate) fn route<R>(
        &self,
        captured: impl FnOnce(&CaptureLog) -> Option<R>,
        eager: impl FnOnce() -> R,
    ) -> R {
        self.with_gate(|gate| gate.route(captured, eager))
    }

    /// Runs `call` unless a capture records the stream, and keeps captures off it meanwhile.
    pub(crate) fn outside_capture<R>(
        &self,
        call: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<Option<R>> {
        self.route(|log| log.is_open().then_some(Ok(None)), || call().map(Some))
    }

    /// The capture that records the stream.
    pub(crate) fn capture_log(&self) -> Option<CaptureLog> {
        self.with_gate(|gate| gate.log())
    }

    /// The gate, if the stream has one for itself.
    #[inline]
    pub(crate) fn own_gate(&self) -> Option<&Arc<CaptureGate>> {
        self.inner.gate.as_ref()
    }

    /// What keeps apart the stream's captures and what runs on it.
    #[inline]
    pub(crate) fn with_gate<R>(&self, with: impl FnOnce(&Arc<CaptureGate>) -> R) -> R {
        match &self.inner.gate {
            Some(gate) => with(gate),
            None => self.with_thread_gate(with),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_thread_gate<R>(&self, with: impl FnOnce(&Arc<CaptureGate>) -> R) -> R {
        with(&self.inner.context.thread_gate())
    }

    /// The driver's status of the stream's capture.
    pub(crate) fn status_in_driver(&self) -> CudaResult<CUstreamCaptureStatus> {
        let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
        self.with(|functions, raw| {
            // SAFETY: a live stream, and the out-pointer is a live local.
            unsafe { (functions.cuStreamIsCapturing)(raw, &mut status) }
        })?;
        Ok(status)
    }

    /// Whether the stream and the legacy default stream wait for each other, so that the one does
    /// nothing while the other captures. Assumed of a stream of other hands that does not tell.
    pub(crate) fn is_blocking(&self) -> bool {
        if let Some(known) = self.inner.blocking.get() {
            return *known;
        }
        // Measured: the default stream of a thread is a blocking one.
        let blocking = self.is_default() || {
            let mut flags = 0;
            let asked = self.with(|functions, raw| {
                // SAFETY: a live stream, and the out-pointer is a live local.
                unsafe { (functions.cuStreamGetFlags)(raw, &mut flags) }
            });
            asked.is_err() || flags & CU_STREAM_NON_BLOCKING.0 == 0
        };
        *self.inner.blocking.get_or_init(|| blocking)
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.inner.raw == LEGACY || self.inner.raw.is_null()
    }

    /// Whether it is one of the default streams, which belong to what is current on a thread.
    pub(crate) fn is_default(&self) -> bool {
        self.inner.origin == StreamOrigin::Default
    }

    /// Whether the handle stands for another stream on each thread.
    pub(crate) fn is_per_thread(&self) -> bool {
        self.inner.raw == PER_THREAD
    }

    /// Whether both handles stand for the same stream, on the same thread.
    pub(crate) fn is_same(&self, other: &Stream) -> bool {
        self == other
            || self.inner.raw == other.inner.raw && self.inner.context.same(&other.inner.context)
    }

    /// Refuses a handle of another context: `what` names it.
    #[inline]
    pub(crate) fn require_context(&self, other: &Context, what: &'static str) -> CudaResult<()> {
        if self.inner.context.same(other) { Ok(()) } else { Err(other_context(what)) }
    }
}

#[cold]
pub(crate) fn other_context(what: &'static str) -> CudaError {
    other_context_than(what, "stream")
}

#[cold]
pub(crate) fn other_context_than(what: &'static str, than: &str) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_CONTEXT,
        what,
        format!("it belongs to another context than the {than}: make both from the same `Context`"),
    )
}

#[cold]
pub(crate) fn unreachable_memory(than: &str) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_CONTEXT,
        "kernel.arg",
        format!(
            "it belongs to another context than the {than}: make both from the same `Context`, or \
             call `Context::enable_peer_access` if the device can reach the other's memory"
        ),
    )
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        if self.gate.as_ref().is_some_and(|gate| gate.is_capturing()) {
            // The capture that began on it was forgotten: it is leaked with all that it uses.
            std::mem::forget((self.gate.take(), self.context.clone()));
            return;
        }
        if self.origin == StreamOrigin::Owned {
            if host_function::is_running() {
                let taken = StreamInner {
                    raw: self.raw,
                    context: self.context.clone(),
                    origin: self.origin,
                    gate: None,
                    exposed: AtomicBool::default(),
                    blocking: OnceLock::new(),
                };
                release_elsewhere(self.context.driver(), taken);
                return;
            }
            // SAFETY: made here or taken over, and this is the last handle. NVIDIA: the call
            // returns at once, and pending work completes. No capture records it (checked above):
            // one that it joined holds it.
            let code = unsafe { (self.context.functions().cuStreamDestroy_v2)(self.raw) };
            report("cuStreamDestroy", check(code));
        }
    }
}

/// A stream, if it is still there: for errors, which keep none.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeakStream(Weak<StreamInner>);

impl WeakStream {
    /// Whether it is of this handle.
    pub(crate) fn is(&self, stream: &Stream) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&stream.inner))
    }

    pub(crate) fn upgrade(&self) -> Option<Stream> {
        self.0.upgrade().map(|inner| Stream { inner })
    }
}

impl PartialEq for WeakStream {
    fn eq(&self, other: &WeakStream) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for WeakStream {}

impl From<Arc<StreamInner>> for Stream {
    fn from(inner: Arc<StreamInner>) -> Stream {
        Stream { inner }
    }
}

impl PartialEq for Stream {
    /// Whether both are the same handle.
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("raw", &self.inner.raw)
            .field("origin", &self.inner.origin)
            .field("capturing", &self.is_capturing())
            .finish_non_exhaustive()
    }
}
