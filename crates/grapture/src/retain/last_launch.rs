//! [`LastLaunch`]: when what an executable owns may be let go of.

use std::mem;

use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};
use crate::raw_event::RawEvent;
use crate::reclaim::Deferred;
use crate::stream::Stream;

/// The last launch of an executable. Launches of one never overlap, on whatever streams, so when
/// the last is done all are.
pub(crate) enum LastLaunch {
    /// There was none.
    Never,
    /// On a stream. Nothing marks its end yet: what is recorded there later comes after it.
    On(Stream),
    /// An event is recorded after it.
    Marked(RawEvent),
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
        let event = match mem::replace(self, LastLaunch::Unknown) {
            LastLaunch::Marked(event) => Ok(event),
            _ => RawEvent::new(stream.context()),
        };
        *self = match event.and_then(|event| event.record(stream).map(|()| event)) {
            Ok(event) => LastLaunch::Marked(event),
            Err(error) => {
                report("cuEventRecord", Err(error));
                LastLaunch::Unknown
            }
        };
    }

    /// Whether the launch is done. Does not block. It is not known while the stream captures.
    fn is_done(&mut self) -> CudaResult<bool> {
        if let LastLaunch::On(stream) = self {
            let marked = stream.outside_capture(|| {
                let event = RawEvent::new(stream.context())?;
                event.record(stream)?;
                Ok(event)
            })?;
            let Some(event) = marked else { return Ok(false) };
            *self = LastLaunch::Marked(event);
        }
        match self {
            LastLaunch::Marked(event) => event.is_complete(),
            LastLaunch::Unknown => Err(CudaError::UnknownError),
            LastLaunch::Never | LastLaunch::On(_) => Ok(true),
        }
    }
}

/// Lets go of what launches may still use, on the reclaimer's thread, when the last one is done.
pub(crate) fn release_after(owned: impl Send + 'static, driver: &Driver, launched: LastLaunch) {
    let after = AfterLaunch { owned: Some(Box::new(owned)), launched };
    driver.reclaimer().handle().defer(Box::new(after));
}

/// What waits for the last launch.
struct AfterLaunch {
    owned: Option<Box<dyn Send>>,
    launched: LastLaunch,
}

impl Deferred for AfterLaunch {
    fn is_due(&mut self) -> bool {
        match self.launched.is_done() {
            Ok(done) => done,
            // Nothing runs any more in a context that is lost.
            Err(error) if error.is_sticky() => true,
            Err(error) => {
                // It cannot be known when the launch is done: to leak is sound.
                report("cuEventRecord", Err(error));
                mem::forget(self.owned.take());
                true
            }
        }
    }
}
