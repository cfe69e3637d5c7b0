//! What the library tells of itself by `tracing`. While nobody listens, each costs a look at one word.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::level_filters::LevelFilter;
use tracing::span::EnteredSpan;

use crate::capture::{CaptureMode, Escapes};
use crate::error::{CudaError, CudaResult};
use crate::graph::Outcome;
use crate::reclaim::discard;

/// Has whoever listens be told. That is the program's code: if it panics, this goes no further, since
/// what the library is about may be done by half.
#[cold]
pub(crate) fn contained(event: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(event)) {
        discard(payload);
    }
}

#[inline]
fn listens(level: LevelFilter) -> bool {
    LevelFilter::current() >= level
}

/// Around the closure of a capture.
#[inline]
pub(crate) fn in_capture(mode: CaptureMode) -> Option<EnteredSpan> {
    #[cold]
    fn span(mode: CaptureMode) -> EnteredSpan {
        tracing::debug_span!("capture", ?mode).entered()
    }
    listens(LevelFilter::DEBUG).then(|| span(mode))
}

#[inline]
pub(crate) fn of_begin(id: Option<u64>, mode: CaptureMode) {
    #[cold]
    fn tell(id: Option<u64>, mode: CaptureMode) {
        contained(|| tracing::debug!(?id, ?mode, "a capture began"));
    }
    if listens(LevelFilter::DEBUG) {
        tell(id, mode);
    }
}

#[inline]
pub(crate) fn of_end(id: Option<u64>) {
    #[cold]
    fn tell(id: Option<u64>) {
        contained(|| tracing::debug!(?id, "a capture ended"));
    }
    if listens(LevelFilter::DEBUG) {
        tell(id);
    }
}

#[cold]
pub(crate) fn of_failure(error: &CudaError) {
    contained(|| tracing::debug!(%error, "a capture failed"));
}

#[cold]
pub(crate) fn of_leak() {
    contained(|| tracing::error!("a graph with the broken body of a conditional node is leaked"));
}

/// Of what is missing from a graph with so many operations.
#[cold]
pub(crate) fn of_escapes(escapes: &Escapes, recorded: usize) {
    let count = escapes.count();
    contained(|| {
        if recorded == 0 {
            tracing::warn!(count, "nothing was captured, and {escapes}");
        } else {
            tracing::warn!(count, "beside the capture, {escapes}");
        }
    });
}

/// Around the instantiation of a graph with so many nodes.
#[inline]
pub(crate) fn in_instantiation(nodes: usize) -> Option<EnteredSpan> {
    #[cold]
    fn span(nodes: usize) -> EnteredSpan {
        tracing::debug_span!("instantiate", nodes).entered()
    }
    listens(LevelFilter::DEBUG).then(|| span(nodes))
}

/// Around the update of an executable graph with so many nodes.
#[inline]
pub(crate) fn in_update(nodes: usize) -> Option<EnteredSpan> {
    #[cold]
    fn span(nodes: usize) -> EnteredSpan {
        tracing::debug_span!("update", nodes).entered()
    }
    listens(LevelFilter::DEBUG).then(|| span(nodes))
}

/// Of how an update came out.
#[inline]
pub(crate) fn of_update(updated: &CudaResult<Outcome>) {
    #[cold]
    fn tell(updated: &CudaResult<Outcome>) {
        contained(|| match updated {
            Ok(outcome) => tracing::debug!(?outcome, "an executable graph was updated"),
            Err(error) => tracing::debug!(%error, "an executable graph could not be updated"),
        });
    }
    if listens(LevelFilter::DEBUG) {
        tell(updated);
    }
}

/// Of the launch of a graph with so many nodes.
#[inline]
pub(crate) fn of_launch(nodes: usize) {
    #[cold]
    fn tell(nodes: usize) {
        contained(|| tracing::trace!(nodes, "a graph was launched"));
    }
    if listens(LevelFilter::TRACE) {
        tell(nodes);
    }
}
