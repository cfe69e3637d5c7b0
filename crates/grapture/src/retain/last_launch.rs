//! [`LastLaunch`]: when what an executable owns may be let go of.

use std::mem;
use std::sync::Arc;

use grapture_sys::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};
use crate::raw_event::RawEvent;
use crate::stream::Stream;

/// The last launch of an executable. Launches of one never overlap, on whatever streams, so when
/// the last is done all are.
#[derive(Clone, Default)]
pub(crate) enum LastLaunch {
    /// There was none.
    #[default]
    Never,
    /// On a stream. Nothing marks its end yet: what is recorded there later comes after it.
    On(Stream),
    /// An event is recorded after it.
    Marked(Arc<RawEvent>),
    /// On a stream that nothing more can be known of.
    Unknown,
}

impl LastLaunch {
    /// Remembers a launch on the stream that was just made.
    #[inline]
    pub(crate) fn note(&mut self, stream: &Stream) {
        match self {
            LastLaunch::On(last) if last == stream => {}
            _ => self.note_other(stream),
        }
    }

    #[cold]
    fn note_other(&mut self, stream: &Stream) {
        if !stream.is_default() {
            *self = LastLaunch::On(stream.clone());
            return;
        }
        // A default stream is another one on another thread, so the event is recorded here and
        // now; the one of the launch before serves again.
        let mark = |event: CudaResult<Arc<RawEvent>>| {
            event.and_then(|event| event.record(stream).map(|()| event))
        };
        let new = || RawEvent::new(stream.context()).map(Arc::new);
        let event = match mem::replace(self, LastLaunch::Unknown) {
            LastLaunch::Marked(event) => Ok(event),
            _ => new(),
        };
        // A second try: an end that is not known is a leak.
        *self = match mark(event).or_else(|_| mark(new())) {
            Ok(event) => LastLaunch::Marked(event),
            Err(error) => {
                report("cuEventRecord", Err(error));
                LastLaunch::Unknown
            }
        };
    }

    /// Has the stream wait for the launch, unless it is in its order already.
    pub(crate) fn precede(&mut self, stream: &Stream) -> CudaResult<()> {
        match self {
            LastLaunch::Never => return Ok(()),
            LastLaunch::On(last) if last == stream => return Ok(()),
            LastLaunch::On(_) => *self = self.clone().marked()?,
            _ => {}
        }
        match self {
            LastLaunch::Marked(event) => {
                let waits = stream.outside_capture(|| event.wait_on(stream))?;
                waits.ok_or_else(|| captures("stream"))
            }
            LastLaunch::On(_) => Err(captures("the stream of the last launch")),
            _ => stream.context().synchronize(),
        }
    }

    /// Whether the launch is done, and what came after it on its stream before this was first
    /// asked.
    pub(crate) fn is_done(&mut self) -> CudaResult<bool> {
        if let LastLaunch::On(stream) = self {
            if stream.ask_idle()?.ok_or(CudaError::NotReady)? {
                return Ok(true);
            }
            *self = self.clone().marked()?;
        }
        match self {
            LastLaunch::Never => Ok(true),
            LastLaunch::On(_) => Err(CudaError::NotReady),
            LastLaunch::Marked(event) => event.is_complete(),
            LastLaunch::Unknown => Err(CudaError::UnknownError),
        }
    }

    /// The launch with an event recorded after it; as it was while its stream captures.
    pub(super) fn marked(self) -> CudaResult<LastLaunch> {
        let LastLaunch::On(stream) = self else { return Ok(self) };
        let mark = || {
            let event = RawEvent::new(stream.context())?;
            event.record(&stream)?;
            Ok(LastLaunch::Marked(Arc::new(event)))
        };
        // A second try: an end that is not known is a leak.
        let marked = stream.outside_capture(|| mark().or_else(|_| mark()))?;
        Ok(marked.unwrap_or(LastLaunch::On(stream)))
    }
}

#[cold]
fn captures(what: &'static str) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        what,
        "it is capturing, and the launch has to be ordered after the last one: end that capture \
         first",
    )
}
