//! [`Event`]: a point in a stream that can be waited for and timed.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use grapture_sys::{
    CU_EVENT_BLOCKING_SYNC, CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING, CU_EVENT_RECORD_EXTERNAL,
    CU_EVENT_WAIT_DEFAULT, CU_EVENT_WAIT_EXTERNAL, CUDA_ERROR_CAPTURED_EVENT,
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
    CUDA_ERROR_STREAM_CAPTURE_MERGE, CUevent, Functions,
};

use crate::capture::{CaptureLog, check_begin, has_ended};
use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::operation::{Operation, OperationKind};
use crate::raw_event::RawEvent;
use crate::retain::Owners;
use crate::stream::Stream;

/// A CUDA event. A clone is the same event.
///
/// Recorded on a capturing stream it stands for a point in the graph: a stream that waits for it
/// joins the capture. [`record_external`](Event::record_external) makes a node that records the
/// event at every launch instead.
#[derive(Clone)]
pub struct Event {
    inner: Arc<EventInner>,
}

pub(crate) struct EventInner {
    event: RawEvent,
    timing: bool,
    last_record: Mutex<LastRecord>,
    /// What the nodes have that wait for the event; with `last_record` locked.
    waits: Mutex<Weak<EventWait>>,
}

/// What a node keeps that waits for an event. Measured: a launch of such a node has its stream join the
/// open capture that the event was last recorded in, without a word. So as long as one of these lives,
/// the event is recorded in no capture, and none is made while it stands for a point of an open one.
pub(crate) struct EventWait {
    _event: Arc<EventInner>,
}

/// Where the event was recorded last, as far as this library did it.
enum LastRecord {
    Never,
    Eager,
    Captured {
        log: CaptureLog,
        /// Whether a node of the capture records it too. The mark of the capture stands as long as
        /// that is open, and then the node's counts (measured).
        external: bool,
    },
    /// By a node of a graph, at each of its launches. Before the first the mark of a capture that
    /// has ended still stands (measured).
    Node,
}

impl LastRecord {
    /// A node records the event at every launch.
    fn by_a_node(&mut self) {
        match self {
            LastRecord::Captured { external, .. } => *external = true,
            LastRecord::Node => {}
            other => *other = LastRecord::Eager,
        }
    }
}

/// How an event is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventOptions {
    timing: bool,
    blocking_sync: bool,
}

impl EventOptions {
    /// An event without timing, whose waits spin.
    pub fn new() -> EventOptions {
        EventOptions::default()
    }

    /// Whether the event takes the time, for [`Event::elapsed_since`].
    pub fn timing(mut self, timing: bool) -> EventOptions {
        self.timing = timing;
        self
    }

    /// Whether [`Event::synchronize`] puts the thread to sleep instead of spinning.
    pub fn blocking_sync(mut self, blocking_sync: bool) -> EventOptions {
        self.blocking_sync = blocking_sync;
        self
    }
}

impl Event {
    /// A new event without timing.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuEventCreate")]
    pub fn new(context: &Context) -> CudaResult<Event> {
        Event::with_options(context, EventOptions::new())
    }

    /// A new event with options.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn with_options(context: &Context, options: EventOptions) -> CudaResult<Event> {
        let mut flags = CU_EVENT_DEFAULT.0;
        if !options.timing {
            flags |= CU_EVENT_DISABLE_TIMING.0;
        }
        if options.blocking_sync {
            flags |= CU_EVENT_BLOCKING_SYNC.0;
        }
        let event = RawEvent::with_flags(context, flags)?;
        let (timing, last_record) = (options.timing, Mutex::new(LastRecord::Never));
        let waits = Mutex::default();
        Ok(Event { inner: Arc::new(EventInner { event, timing, last_record, waits }) })
    }

    /// The context.
    pub fn context(&self) -> &Context {
        self.inner.event.context()
    }

    /// The raw handle. It stays valid as long as a clone of this one lives.
    pub fn as_raw(&self) -> CUevent {
        self.inner.event.as_raw()
    }

    /// Records the event on the stream: it is reached when all work submitted so far is done.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] for a stream of another context; or if the stream captures, and a graph
    /// that lives has a node that waits for the event. As the driver answers.
    #[doc(alias = "cuEventRecord")]
    #[track_caller]
    pub fn record(&self, stream: &Stream) -> CudaResult<()> {
        stream.require_context(self.inner.event.context(), "event")?;
        // Held over the call: who waits for the event then knows whether it joins a capture.
        let mut last_record = self.lock();
        let operation = Operation::record(&self.inner);
        let record = |functions: &Functions, raw| {
            // SAFETY: a live event and a live stream of one context.
            unsafe { (functions.cuEventRecord)(self.inner.event.as_raw(), raw) }
        };
        *last_record = stream.route(
            |log| {
                if self.waits().strong_count() > 0 && log.is_open() {
                    return Some(Err(waited_for()));
                }
                let retain = |owners: &mut Owners| owners.retain(&self.inner);
                let recorded = log.record(stream, operation, retain, || stream.with(record))?;
                let captured = LastRecord::Captured { log: log.clone(), external: false };
                Some(recorded.map(|()| captured))
            },
            || match stream.with(record) {
                Ok(()) => Ok(LastRecord::Eager),
                Err(error) => Err(stream.context().submission_failed(error, &operation)),
            },
        )?;
        Ok(())
    }

    /// Adds a node to the capture of the stream that records the event at every launch of the
    /// graph, for work outside to wait for.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] if the stream does not capture, or is one of another context.
    /// [`CudaError::NotSupported`]: the driver is older than 11.1.
    #[doc(alias = "cuEventRecordWithFlags")]
    #[track_caller]
    pub fn record_external(&self, stream: &Stream) -> CudaResult<()> {
        stream.require_context(self.inner.event.context(), "event")?;
        require_capture(stream)?;
        let mut last_record = self.lock();
        stream.submit(
            Operation::new(OperationKind::EventRecordExternal),
            |owners| owners.retain(&self.inner),
            // SAFETY: a live event and a live stream of one context.
            |functions, raw| unsafe {
                (functions.cuEventRecordWithFlags)(
                    self.inner.event.as_raw(),
                    raw,
                    CU_EVENT_RECORD_EXTERNAL.0,
                )
            },
        )?;
        last_record.by_a_node();
        Ok(())
    }

    /// What a capture keeps alive, and tells the event by.
    pub(crate) fn inner(&self) -> &Arc<EventInner> {
        &self.inner
    }

    /// What a node that records the event keeps alive, noted with the caller's line.
    #[track_caller]
    pub(crate) fn record_owners(&self) -> Owners {
        let mut owners = Owners::here();
        owners.retain(&self.inner);
        owners
    }

    /// The same of a node that waits for it.
    #[track_caller]
    pub(crate) fn wait_owners(&self) -> CudaResult<Owners> {
        let mut owners = Owners::here();
        owners.retain(&self.wait_owner(&self.lock(), None)?);
        Ok(owners)
    }

    /// What a node is to keep that waits for the event, in a capture or made by hand.
    fn wait_owner(
        &self,
        last_record: &LastRecord,
        own: Option<&CaptureLog>,
    ) -> CudaResult<Arc<EventWait>> {
        if let LastRecord::Captured { log, .. } = last_record
            && log.is_open()
            && own.is_none_or(|own| own.key() != log.key())
        {
            return Err(CudaError::refused(
                CUDA_ERROR_CAPTURED_EVENT,
                "event",
                "it was last recorded in a capture that is open, which a launch of a node that waits \
                 for it would join: end that capture first, or wait for another event",
            ));
        }
        let mut waits = self.waits();
        Ok(waits.upgrade().unwrap_or_else(|| {
            let wait = Arc::new(EventWait { _event: self.inner.clone() });
            *waits = Arc::downgrade(&wait);
            wait
        }))
    }

    fn waits(&self) -> MutexGuard<'_, Weak<EventWait>> {
        self.inner.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node was added that records it.
    pub(crate) fn recorded_by_a_node(&self) {
        self.lock().by_a_node();
    }

    /// Has all work submitted to the stream from now on wait for the event's last record. Does not
    /// block the calling thread.
    ///
    /// If the event was recorded in a capture, the stream joins it, and must be joined back (an
    /// event on it, waited for by the stream that began the capture) before the capture ends.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] where the driver would invalidate a capture: the stream captures and
    /// the event was recorded outside or in another capture, or in one that has ended; or the
    /// stream is the legacy one, and the event was recorded in a capture. Moreover if the stream is
    /// one of another driver. As the driver answers.
    #[doc(alias = "cuStreamWaitEvent")]
    #[track_caller]
    pub fn wait(&self, stream: &Stream) -> CudaResult<()> {
        self.require_driver(stream)?;
        let last_record = self.lock();
        let operation = Operation::wait(&self.inner);
        let wait = |functions: &Functions, raw| {
            // SAFETY: a live event and a live stream of one driver (checked); they may be of
            // different contexts.
            unsafe {
                (functions.cuStreamWaitEvent)(
                    raw,
                    self.inner.event.as_raw(),
                    CU_EVENT_WAIT_DEFAULT.0,
                )
            }
        };
        let own = stream.capture_log();
        if let Some(log) = check_wait(&last_record, own.as_ref())? {
            check_begin(stream)?;
            return CaptureLog::join(log, stream, operation, || stream.with(wait));
        }
        // Another thread may have begun or ended a capture of the stream: checked again where it
        // is known.
        stream.route(
            |log| {
                let retain = |owners: &mut Owners| owners.retain(&self.inner);
                match check_wait(&last_record, Some(log)) {
                    Ok(_) => log.record(stream, operation, retain, || stream.with(wait)),
                    Err(error) => Some(Err(error)),
                }
            },
            || match check_wait(&last_record, None)? {
                None => stream
                    .with(wait)
                    .map_err(|error| stream.context().submission_failed(error, &operation)),
                // To join, the stream would have to wait for this very call.
                Some(_) => Err(CudaError::from(CUDA_ERROR_ILLEGAL_STATE)),
            },
        )
    }

    /// Adds a node to the capture of the stream that waits, at every launch of the graph, for the
    /// event's last record outside.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] if the stream does not capture, or is one of another driver; or if the
    /// event was last recorded in another capture that is open, or in one that has ended, where the
    /// driver would invalidate the stream's. [`CudaError::NotSupported`]: the driver is older than 11.1.
    #[doc(alias = "cuStreamWaitEvent")]
    #[track_caller]
    pub fn wait_external(&self, stream: &Stream) -> CudaResult<()> {
        self.require_driver(stream)?;
        require_capture(stream)?;
        // Held over the call: nobody records the event in a capture meanwhile.
        let last_record = self.lock();
        self.require_no_old_mark(&last_record)?;
        let owner = self.wait_owner(&last_record, stream.capture_log().as_ref())?;
        stream.submit(
            Operation::new(OperationKind::EventWaitExternal),
            |owners| owners.retain(&owner),
            // SAFETY: a live event and a live stream of one driver (checked).
            |functions, raw| unsafe {
                (functions.cuStreamWaitEvent)(
                    raw,
                    self.inner.event.as_raw(),
                    CU_EVENT_WAIT_EXTERNAL.0,
                )
            },
        )
    }

    /// Whether the event's last record is reached. An event that was never recorded is.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] if it was recorded in a capture. An error of earlier work.
    #[doc(alias = "cuEventQuery")]
    #[track_caller]
    pub fn is_complete(&self) -> CudaResult<bool> {
        let location = Location::caller();
        // Held over the call: nobody records the event in a capture meanwhile.
        let last_record = self.lock();
        refuse_captured(&last_record)?;
        self.inner
            .event
            .is_complete()
            .map_err(|error| self.context().failed(error, "Event::is_complete", location))
    }

    /// Blocks until the event's last record is reached.
    ///
    /// # Errors
    ///
    /// As [`is_complete`](Event::is_complete).
    #[doc(alias = "cuEventSynchronize")]
    #[track_caller]
    pub fn synchronize(&self) -> CudaResult<()> {
        let location = Location::caller();
        refuse_captured(&self.lock())?;
        self.inner
            .event
            .synchronize()
            .map_err(|error| self.context().failed(error, "Event::synchronize", location))
    }

    /// The time on the device from the last record of `start` to that of this event, to about half
    /// a microsecond.
    ///
    /// # Errors
    ///
    /// [`CudaError::Refused`] if either was made without timing, was never recorded, or was
    /// recorded in a capture, or if they are of different contexts; [`CudaError::NotReady`] if either is not reached yet.
    #[doc(alias = "cuEventElapsedTime")]
    pub fn elapsed_since(&self, start: &Event) -> CudaResult<Duration> {
        if !self.inner.event.context().same(start.inner.event.context()) {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_HANDLE,
                "start",
                "it belongs to another context than the event: make both from the same `Context`",
            ));
        }
        for event in [start, self] {
            refuse_captured(&event.lock())?;
            event.require_timing()?;
        }
        self.inner.event.elapsed_since(&start.inner.event)
    }

    fn require_timing(&self) -> CudaResult<()> {
        let problem = if !self.inner.timing {
            "it was made without timing: make it with `EventOptions::timing(true)`"
        } else if matches!(*self.lock(), LastRecord::Never) {
            "it was never recorded"
        } else {
            return Ok(());
        };
        Err(CudaError::refused(CUDA_ERROR_INVALID_HANDLE, "event", problem))
    }

    /// Refuses an event that stands for a point of a capture that has ended.
    fn require_no_old_mark(&self, last_record: &LastRecord) -> CudaResult<()> {
        let old = match last_record {
            LastRecord::Never | LastRecord::Eager => false,
            LastRecord::Captured { log, .. } => !log.is_open(),
            // Only the driver knows whether the graph was launched; it has no answer for an old
            // mark (measured).
            LastRecord::Node => self.inner.event.is_complete() == Err(CudaError::InvalidValue),
        };
        if old { Err(has_ended()) } else { Ok(()) }
    }

    /// A handle of one driver means nothing to another.
    fn require_driver(&self, stream: &Stream) -> CudaResult<()> {
        if self.inner.event.context().driver().same(stream.driver()) {
            return Ok(());
        }
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_HANDLE,
            "event",
            "it belongs to another driver than the stream: make both from one `Driver`",
        ))
    }

    fn lock(&self) -> MutexGuard<'_, LastRecord> {
        let mut last = self.inner.last_record.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*last, LastRecord::Captured { log, external: true } if !log.is_open()) {
            *last = LastRecord::Node;
        }
        last
    }
}

fn refuse_captured(last_record: &LastRecord) -> CudaResult<()> {
    match last_record {
        LastRecord::Never | LastRecord::Eager | LastRecord::Node => Ok(()),
        LastRecord::Captured { .. } => Err(CudaError::refused(
            CUDA_ERROR_CAPTURED_EVENT,
            "event",
            "it was last recorded in a capture, where it stands for no point in time: record it \
             outside, or with `record_external`",
        )),
    }
}

/// Refuses to record in a capture an event that a node waits for.
#[cold]
fn waited_for() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_CAPTURED_EVENT,
        "event",
        "a node of a graph waits for it, and a launch of that node would join this capture: record \
         another event here, or drop the graph and what was made of it first",
    )
}

fn require_capture(stream: &Stream) -> CudaResult<()> {
    if stream.is_capturing() {
        return Ok(());
    }
    Err(CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "stream",
        "it is not capturing, and an external record or wait is a node of a graph: begin a \
         capture, or use `record` and `wait`",
    ))
}

/// Refuses a wait that the driver would answer by invalidating a capture. Gives the capture that
/// the stream joins.
fn check_wait<'a>(
    recorded: &'a LastRecord,
    capturing: Option<&CaptureLog>,
) -> CudaResult<Option<&'a CaptureLog>> {
    let (code, problem) = match (recorded, capturing) {
        (LastRecord::Never | LastRecord::Eager | LastRecord::Node, None)
        | (LastRecord::Never, Some(_)) => {
            return Ok(None);
        }
        (LastRecord::Captured { log, .. }, None) if log.is_open() => return Ok(Some(log)),
        (LastRecord::Captured { log, .. }, Some(own)) if log.key() == own.key() => return Ok(None),
        (LastRecord::Captured { log, .. }, _) if !log.is_open() => return Err(has_ended()),
        (LastRecord::Captured { .. }, _) => (
            CUDA_ERROR_STREAM_CAPTURE_MERGE,
            "it was recorded in another capture than the stream's, and captures cannot be merged: \
             end one and add its graph to the other as a child",
        ),
        (LastRecord::Eager | LastRecord::Node, Some(_)) => (
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            "it was recorded outside the stream's capture: wait for it before the capture begins, \
             or use `wait_external` to wait at every launch",
        ),
    };
    Err(CudaError::refused(code, "event", problem))
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("raw", &self.inner.event.as_raw())
            .field("timing", &self.inner.timing)
            .finish_non_exhaustive()
    }
}
