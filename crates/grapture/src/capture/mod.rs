//! [`StreamGraphCapture`]: the capture of a stream by the driver.

mod add;
mod attempt;
mod barred;
mod body;
mod borrowed_log;
mod cause;
mod child;
mod child_moved;
mod conditional;
mod dependencies;
mod error;
mod error_text;
pub(crate) mod escape;
mod fork;
mod gate;
mod info;
mod into;
mod joins;
mod legacy;
mod log;
mod logged;
mod mode;
mod nested;
mod open;
mod options;
mod place;
mod recorded;
mod recording;
mod segment_capture;
mod segment_error;
mod segments;
mod slotted;
mod thread_owned;

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::Location;
use std::ptr;

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_NONE, CUDA_ERROR_ILLEGAL_STATE,
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUgraph,
    CUstreamCaptureMode, CUstreamCaptureStatus, Function,
};

use crate::capture::body::Nesting;
use crate::context::Context;
use crate::drop_error::reported_after;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::{Captured, Graph, GraphExec};
use crate::reclaim::drop_contained;
use crate::retain::{Owners, Share};
use crate::stream::Stream;
use crate::tell::{self, contained};

pub use attempt::{Attempt, CaptureOutcome};
pub use barred::BarredCall;
pub(crate) use barred::{BarredCalls, is_barred};
pub(crate) use body::{BodyPlace, capture_body};
use borrowed_log::BorrowedLog;
pub(crate) use child_moved::MOVES_SINCE;
pub use error::CaptureError;
use escape::Watch;
pub use escape::{EscapePolicy, Escapes};
pub use fork::JoinPolicy;
pub(crate) use gate::CaptureGate;
pub use info::{CaptureInfo, CaptureStatus};
pub(crate) use legacy::LegacyBarrier;
use log::Closed;
pub(crate) use log::{CaptureLog, has_ended};
pub use logged::{FailedOperation, Fork, LoggedOperation};
pub use mode::{CaptureMode, ThreadCaptureMode};
pub(crate) use open::OpenCaptures;
pub use options::CaptureOptions;
pub(crate) use place::CapturePlace;
pub(crate) use recorded::Recorded;
pub use segment_capture::SegmentCapture;
pub use segment_error::SegmentError;
pub use segments::{Segment, Segments};

/// An open capture of a stream: what is submitted to the stream is recorded instead of run, and
/// becomes a graph at the [`end`](StreamGraphCapture::end).
///
/// Dropping it ends the capture and throws the recording away; the stream is then usable again.
/// [`Stream::capture`] needs no guard and is the simpler way.
///
/// What the recorded operations use (buffers, modules, events, closures, pinned memory) is kept
/// alive by the graph and by whatever is made from it, until the last launch is done.
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// let stream = Stream::new(&context)?;
/// let capture = StreamGraphCapture::begin(&stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
/// // … submit work to `stream` …
/// let exec = capture.end()?;
/// exec.launch(&stream)?;
/// stream.synchronize()?;
/// # Ok::<(), CudaError>(())
/// ```
pub struct StreamGraphCapture<'s> {
    stream: &'s Stream,
    log: BorrowedLog<'s>,
    /// That of the stream, which the graph will need.
    context: Option<Context>,
    /// The driver's number of this capture; none from a driver that has no numbers (10.0).
    id: Option<u64>,
    ended: bool,
    watch: Watch,
    nesting: Nesting,
    join_policy: JoinPolicy,
    /// Whether the stream is a blocking one.
    blocking: bool,
    // Whether another thread may end it depends on its mode, which is no type (O8).
    _not_send: PhantomData<*const ()>,
}

impl<'s> StreamGraphCapture<'s> {
    /// Begins to capture the stream. Nothing submitted before is part of it or waited for, but for a
    /// call that another thread is making on the stream, such as a wait for it, and for a wait for
    /// the whole context.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 10.0, or is 10.0 and
    /// the mode is not relaxed (modes came with 10.1).
    /// [`Refused`](CudaError::Refused): the mode is no mode, the stream is the legacy default
    /// stream, or it is capturing already; a capture that is open stays as it is.
    #[doc(alias = "cuStreamBeginCapture_v2")]
    pub fn begin(stream: &'s Stream, mode: CUstreamCaptureMode) -> CudaResult<Self> {
        let known = CaptureMode::from_raw(mode).ok_or_else(|| {
            CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "mode",
                format!("{} is no capture mode: use one of `CU_STREAM_CAPTURE_MODE_*`", mode.0),
            )
        })?;
        StreamGraphCapture::begin_with(stream, CaptureOptions::new(known))
    }

    /// Begins to capture the stream, with options.
    ///
    /// # Errors
    ///
    /// As [`begin`](StreamGraphCapture::begin).
    pub fn begin_with(stream: &'s Stream, options: CaptureOptions) -> CudaResult<Self> {
        check_begin(stream)?;
        let log = BorrowedLog::new(stream);
        let blocking = stream.is_blocking();
        let begin = || {
            let begin = || begin_numbered(stream, options.mode());
            stream.context().begin_capture(blocking, begin)
        };
        let id = reported_after(|| CaptureLog::open(&log, stream, begin))?;
        tell::of_begin(id, options.mode());
        let (context, ended) = (Some(stream.context().clone()), false);
        let (watch, nesting) = (Watch::new(options.policy()), Nesting::default());
        let (join_policy, _not_send) = (options.joins(), PhantomData);
        Ok(StreamGraphCapture {
            stream,
            log,
            context,
            id,
            ended,
            watch,
            nesting,
            join_policy,
            blocking,
            _not_send,
        })
    }

    /// The stream.
    pub fn stream(&self) -> &'s Stream {
        self.stream
    }

    /// Whether the capture is open and valid: false once it was invalidated, or ended by other
    /// hands.
    pub fn is_active(&self) -> bool {
        matches!(self.capture_status(), Ok(CU_STREAM_CAPTURE_STATUS_ACTIVE))
    }

    /// The driver's status of the capture: `NONE` also if other hands have ended it and the stream
    /// is in another capture by now.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn capture_status(&self) -> CudaResult<CUstreamCaptureStatus> {
        let status = self.stream.status_in_driver()?;
        if status == CU_STREAM_CAPTURE_STATUS_ACTIVE && !self.is_ours()? {
            return Ok(CU_STREAM_CAPTURE_STATUS_NONE);
        }
        Ok(status)
    }

    /// The driver's number of the capture, unique in the process. None: the driver is 10.0, which
    /// has no numbers.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// Keeps `value` alive as long as the graph, or anything made from it, can run. It is dropped
    /// on a thread of the library after the last launch; if there was none, where the last of those
    /// is dropped, and on this thread if the capture gives no graph.
    #[track_caller]
    pub fn retain<T: Send + 'static>(&self, value: T) {
        let origin = Location::caller();
        self.log.retain(|owners| {
            owners.come_from(origin);
            owners.retain_value(value);
        });
    }

    /// What this thread has submitted to streams outside of the capture so far, since it began: it
    /// ran at once, and the graph will not have it. Nothing if the
    /// [policy](CaptureOptions::escapes) is to ignore it.
    pub fn escapes(&self) -> Escapes {
        self.watch.escapes()
    }

    /// Ends the capture and makes the recording executable.
    ///
    /// # Errors
    ///
    /// [`Capture`](CudaError::Capture) if the capture was invalid or has a stream that was not
    /// joined back; [`Instantiate`](CudaError::Instantiate) if the graph cannot be instantiated.
    /// In both cases the stream is usable again and nothing is left over.
    #[doc(alias = "cuStreamEndCapture")]
    #[track_caller]
    pub fn end(self) -> CudaResult<GraphExec> {
        self.end_captured()?.into_exec()
    }

    /// Ends the capture and gives the recording as a graph, not yet executable.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let options = CaptureOptions::new(CaptureMode::ThreadLocal);
    /// let capture = StreamGraphCapture::begin_with(&stream, options)?;
    /// stream.host_function(|| {})?;
    /// assert!(capture.is_active() && capture.capture_status()? == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    /// assert_eq!(capture.end_graph()?.node_count()?, 1);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`end`](StreamGraphCapture::end), but for the instantiation.
    #[track_caller]
    pub fn end_graph(self) -> CudaResult<Graph> {
        Graph::captured(self.end_captured()?)
    }

    #[inline]
    #[track_caller]
    fn end_captured(mut self) -> CudaResult<Captured> {
        // The drop then ends the capture.
        self.nesting.check()?;
        let end = Location::caller();
        self.ended = true;
        if self.join_policy == JoinPolicy::JoinLeaves {
            self.join_all();
        }
        let context = self.context.take();
        let context = context.unwrap_or_else(|| self.stream.context().clone());
        let Closed { ended, owners: share, recorded } = self.end_driver(Share::taken, end);
        match ended {
            // SAFETY: the driver gave the graph to this call alone, and both callers make one of it.
            Ok(raw) => Ok(unsafe { Captured::new(context, raw, self.log.key(), share, recorded) }),
            Err(error) => {
                drop_contained(share);
                Err(error)
            }
        }
    }

    /// Ends the capture in the driver, which gives the graph, and takes the streams out of it. If it
    /// fails there is no graph. `end` is the line of the program that ends it.
    #[inline]
    fn end_driver<T>(
        &self,
        take: impl FnOnce(&mut Owners) -> T,
        end: &'static Location<'static>,
    ) -> Closed<CUgraph, T, CudaError> {
        // Beside how many operations of the capture, if work has escaped from it.
        let escaped = (self.watch.count() > 0).then(|| self.log.recorded());
        let mut failed = None;
        let Closed { ended, owners, recorded } = self.close(take, || {
            let mut raw = ptr::null_mut();
            match self.end_raw(&mut raw) {
                Ok(()) if !raw.is_null() && escaped.is_none() => Ok(raw),
                ended => self.end_otherwise(ended, raw, &mut failed),
            }
        });
        let ended = match ended {
            Ok(raw) => {
                if let Some(count) = escaped {
                    tell::of_escapes(&self.watch.escapes(), count);
                }
                tell::of_end(self.id);
                Ok(raw)
            }
            Err(error) => Err(self.failure(*error, failed, end)),
        };
        Closed { ended, owners, recorded }
    }

    /// What to make of an end that was not plain: work has escaped, or it failed.
    #[cold]
    fn end_otherwise(
        &self,
        ended: CudaResult<()>,
        raw: CUgraph,
        failed: &mut Option<Failed>,
    ) -> Result<CUgraph, u32> {
        match ended {
            Ok(()) if raw.is_null() => Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.0),
            Ok(()) if self.watch.policy() == EscapePolicy::Error => {
                *failed = Some(Failed::Refused);
                destroy(self.stream, raw);
                Err(CUDA_ERROR_STREAM_CAPTURE_ISOLATION.0)
            }
            Ok(()) => Ok(raw),
            Err(error) => {
                // It is over after that, unless a call failed before the driver saw the capture.
                self.abandon();
                let code = error.code();
                if matches!(error, CudaError::ContextLost(_)) {
                    *failed = Some(Failed::Lost(error));
                }
                Err(code)
            }
        }
    }

    /// The error of an end that failed.
    #[cold]
    fn failure(
        &self,
        error: CaptureError,
        failed: Option<Failed>,
        end: &'static Location<'static>,
    ) -> CudaError {
        if let Some(Failed::Lost(lost)) = failed {
            return self.stream.context().failed(lost, "StreamGraphCapture::end", end);
        }
        let (escapes, refused) = (self.watch.escapes(), failed.is_some());
        let error = CaptureError { escapes, refused, end: Some(end), ..error };
        let error = CudaError::Capture(Box::new(error));
        tell::of_failure(&error);
        error
    }

    #[inline]
    fn end_raw(&self, raw: &mut CUgraph) -> CudaResult<()> {
        // Only who has the raw handle can have ended it.
        if self.stream.is_exposed() {
            self.require_ours()?;
        }
        self.stream.with(|functions, stream| {
            // SAFETY: a live stream that this capture began, and a live out-pointer.
            unsafe { (functions.cuStreamEndCapture)(stream, raw) }
        })
    }

    #[cold]
    fn require_ours(&self) -> CudaResult<()> {
        // If other hands ended it, the stream's capture, if it has one, is not ours to end.
        if self.is_ours()? { Ok(()) } else { Err(CudaError::from(CUDA_ERROR_ILLEGAL_STATE)) }
    }

    /// Whether the stream is in this very capture, active or invalidated.
    fn is_ours(&self) -> CudaResult<bool> {
        let Some(own) = self.id else { return Ok(true) };
        let (status, id) = self.stream.capture_id()?;
        // The driver gives the number of an active capture only.
        Ok(match status {
            CU_STREAM_CAPTURE_STATUS_NONE => false,
            CU_STREAM_CAPTURE_STATUS_ACTIVE => id == own,
            _ => true,
        })
    }

    /// Ends the driver's capture if it is open and this one, and throws the recording away.
    fn abandon(&self) {
        if self.nesting.is_lost() {
            return self.leave();
        }
        // Asked twice, since a stream that is left capturing is worse than one call too many.
        if self.is_ours().or_else(|_| self.is_ours()).unwrap_or(false) {
            abandon(self.stream);
        }
    }

    /// Ends the driver's capture, and leaks what it recorded: to destroy that would crash. If the
    /// capture is not valid, its end would destroy it: then the stream is left in it for good.
    #[cold]
    fn leave(&self) {
        let mut raw = ptr::null_mut();
        let left = match self.capture_status() {
            Ok(CU_STREAM_CAPTURE_STATUS_NONE) => false,
            Ok(CU_STREAM_CAPTURE_STATUS_ACTIVE) => self.end_raw(&mut raw).is_err(),
            Ok(_) => true,
            // In a context that is lost there is nothing to keep.
            Err(error) => !error.is_sticky(),
        };
        if left {
            std::mem::forget(self.stream.clone());
        }
        tell::of_leak();
    }

    #[cold]
    fn throw_away(&self) {
        let closed = self.close(mem::take, || {
            self.abandon();
            Ok(())
        });
        drop_contained(closed.owners);
    }

    #[inline]
    fn close<R, T>(
        &self,
        take: impl FnOnce(&mut Owners) -> T,
        end: impl FnOnce() -> Result<R, u32>,
    ) -> Closed<R, T> {
        let closed = reported_after(|| self.log.close(take, end));
        self.stream.context().end_capture(self.blocking);
        closed
    }
}

impl Drop for StreamGraphCapture<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.ended {
            self.throw_away();
        }
    }
}

impl fmt::Debug for StreamGraphCapture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamGraphCapture")
            .field("stream", &self.stream)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Stream {
    /// Captures what `record` submits to the stream. The capture ends when `record` returns, with
    /// success or an error, and when it panics.
    ///
    /// # Errors
    ///
    /// What `record` gives; else as [`StreamGraphCapture::begin`] and
    /// [`end_graph`](StreamGraphCapture::end_graph).
    #[track_caller]
    pub fn capture<F>(&self, mode: CaptureMode, record: F) -> CudaResult<Graph>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        self.capture_with(CaptureOptions::new(mode), record)
    }

    /// [`capture`](Stream::capture) with options.
    ///
    /// # Errors
    ///
    /// As [`capture`](Stream::capture). [`Capture`](CudaError::Capture) also if work escaped from
    /// the capture and the options make that an error.
    #[track_caller]
    pub fn capture_with<F>(&self, options: CaptureOptions, record: F) -> CudaResult<Graph>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let _span = tell::in_capture(options.mode());
        let capture = StreamGraphCapture::begin_with(self, options)?;
        record(&capture)?;
        capture.end_graph()
    }
}

/// Why an end failed, beside the driver's code.
enum Failed {
    /// Work had escaped, which the policy has made an error.
    Refused,
    /// The context is lost.
    Lost(CudaError),
}

/// Refuses a stream that captures already.
pub(crate) fn check_free(stream: &Stream) -> CudaResult<()> {
    if stream.is_capturing() { Err(captures_already()) } else { Ok(()) }
}

#[cold]
fn captures_already() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "stream",
        "it is capturing already: end that capture first, capture another stream and `embed` the \
         graph, or have a part become one node with `Stream::as_child`",
    )
}

/// What the driver would refuse, said by name: also for a stream that joins.
pub(crate) fn check_begin(stream: &Stream) -> CudaResult<()> {
    if stream.is_legacy() {
        return Err(CudaError::refused(
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            "stream",
            "the legacy default stream cannot be captured: make one with `Stream::new`",
        ));
    }
    Ok(())
}

/// Begins the driver's capture, and gives its number if the driver has numbers.
fn begin_numbered(stream: &Stream, mode: CaptureMode) -> CudaResult<Option<u64>> {
    begin_raw(stream, mode)?;
    match stream.capture_id() {
        Ok((_, id)) => Ok(Some(id)),
        Err(CudaError::NotSupported) if !stream.driver().has(Function::cuStreamGetCaptureInfo) => {
            Ok(None)
        }
        Err(error) => {
            abandon(stream);
            Err(error)
        }
    }
}

fn begin_raw(stream: &Stream, mode: CaptureMode) -> CudaResult<()> {
    let driver = stream.driver();
    if !driver.has(Function::cuStreamBeginCapture_v2) && mode == CaptureMode::Relaxed {
        // The first ABI (10.0) has no mode: measured, it captures as the relaxed mode does.
        // SAFETY: a live stream.
        return stream.with(|functions, raw| unsafe { (functions.cuStreamBeginCapture)(raw) });
    }
    // SAFETY: a live stream. A driver without the function answers `NOT_SUPPORTED`.
    stream.with(|functions, raw| unsafe { (functions.cuStreamBeginCapture_v2)(raw, mode.as_raw()) })
}

/// Ends the stream's capture and destroys what it recorded.
fn abandon(stream: &Stream) {
    if let Err(error) = end_and_destroy(stream) {
        // An invalidated or unjoined capture ends with its error, which is nobody's any more.
        contained(|| tracing::debug!(%error, "an abandoned capture ended with an error"));
        // But if the call failed before the driver saw the capture, that is open still.
        if !matches!(stream.status_in_driver(), Ok(CU_STREAM_CAPTURE_STATUS_NONE))
            && let Err(error) = end_and_destroy(stream)
        {
            contained(|| tracing::debug!(%error, "an abandoned capture could not be ended"));
        }
    }
}

fn end_and_destroy(stream: &Stream) -> CudaResult<()> {
    let mut raw = ptr::null_mut();
    let ended = stream.with(|functions, stream| {
        // SAFETY: a live stream and a live out-pointer.
        unsafe { (functions.cuStreamEndCapture)(stream, &mut raw) }
    });
    if !raw.is_null() {
        destroy(stream, raw);
    }
    ended
}

/// Destroys a graph that a capture of the stream gave, and that nobody else has.
fn destroy(stream: &Stream, raw: CUgraph) {
    // SAFETY: the driver gave the graph to the caller alone.
    let code = stream.driver().relaxed(|functions| unsafe { (functions.cuGraphDestroy)(raw) });
    crate::drop_error::report("cuGraphDestroy", check(code));
}
