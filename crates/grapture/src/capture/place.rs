//! [`CapturePlace`]: what becomes of what a capture records.

use crate::capture::{CaptureLog, StreamGraphCapture};
use crate::stream::Stream;

/// What becomes of what a capture records.
#[derive(Clone, Default)]
pub(crate) enum CapturePlace {
    /// A graph of its own.
    #[default]
    Own,
    /// A part of another capture, which is suspended: a node on that stream, a child or the body of
    /// a conditional node.
    Part(CaptureLog, Stream),
    /// A graph that there was.
    Graph,
}

impl CaptureLog {
    /// Says what becomes of what the capture records.
    pub(crate) fn set_place(&self, place: CapturePlace) {
        if let Some(mut shared) = self.shared() {
            shared.place = place;
        }
    }

    /// What becomes of what the capture records, while it is open.
    pub(crate) fn place(&self) -> Option<CapturePlace> {
        Some(self.shared()?.place.clone())
    }

    /// Notes that a stream of the capture was put into another order than it had.
    pub(super) fn note_reorder(&self) {
        if let Some(mut shared) = self.shared() {
            shared.reorders += 1;
        }
    }

    /// How often that was, while the capture is open.
    pub(crate) fn reorders(&self) -> Option<u64> {
        Some(self.shared()?.reorders)
    }
}

impl StreamGraphCapture<'_> {
    /// What it records.
    pub(crate) fn log(&self) -> &CaptureLog {
        &self.log
    }

    /// What it records, if it is to make a graph of its own.
    pub(crate) fn own_log(&self) -> Option<&CaptureLog> {
        self.context.is_some().then_some(&self.log)
    }
}
