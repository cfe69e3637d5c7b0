//! [`CaptureLog`]: what an open capture has recorded, whom it keeps alive, and what went wrong.

use std::sync::Arc;

use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::capture::error::{FailedOperation, Fork, LoggedOperation};
use crate::capture::gate::{CaptureGate, RecordingGuard};
use crate::error::{CudaError, CudaResult};
use crate::graph::GraphKey;
use crate::operation::Operation;
use crate::retain::Owners;
use crate::stream::Stream;

/// How many operations a gate keeps room for between captures.
const KEPT_OPERATIONS: usize = 4096;

/// One capture: shared by its guard and by every stream and event that is part of it.
///
/// What it records lies in the gate of the stream that began it, where that stream reaches it with
/// one lock.
pub(crate) struct CaptureLog {
    /// What the ids of the graph's nodes carry, and what tells this capture from the next one on
    /// the same gate.
    key: GraphKey,
    /// That of the stream that began it.
    gate: Arc<CaptureGate>,
}

/// What the open capture that began on a gate has recorded.
#[derive(Default)]
pub(crate) struct Recording {
    /// The capture, while it is open in the driver. It changes only with the lock held over the
    /// driver call that changes it.
    open: Option<GraphKey>,
    owners: Owners,
    operations: Vec<Operation>,
    /// The streams of the capture. They live as long as it is open.
    members: Vec<Member>,
    failure: Option<FailedOperation>,
}

/// A stream that is part of a capture.
struct Member {
    stream: Stream,
    /// That of the stream on the thread that had it join: a default stream has one for each.
    gate: Arc<CaptureGate>,
    /// The operation by which it joined; none for the stream that began the capture.
    joined: Option<Operation>,
}

/// What is left of a log when its capture has ended.
pub(crate) struct Recorded {
    pub(crate) owners: Owners,
    pub(crate) last: Option<LoggedOperation>,
    pub(crate) forks: Vec<Fork>,
    pub(crate) failure: Option<FailedOperation>,
}

impl CaptureLog {
    /// A capture that is to begin on the stream of the gate.
    pub(crate) fn new(gate: &Arc<CaptureGate>) -> Arc<CaptureLog> {
        Arc::new(CaptureLog { key: GraphKey::new(), gate: gate.clone() })
    }

    pub(crate) fn key(&self) -> GraphKey {
        self.key
    }

    /// Whether it began on the stream of the gate.
    pub(crate) fn began_on(&self, gate: &CaptureGate) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.gate), gate)
    }

    /// Whether the capture is open in the driver.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open == Some(self.key)
    }

    /// What it records, while it is open.
    fn recording(&self) -> Option<RecordingGuard<'_>> {
        let recording = self.lock();
        if recording.open == Some(self.key) { Some(recording) } else { None }
    }

    /// Begins the driver's capture of `stream` by `begin`.
    pub(crate) fn open<R>(
        log: &Arc<CaptureLog>,
        stream: &Stream,
        begin: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        stream.with_gate(|gate| {
            gate.enter(log, || {
                let mut recording = log.lock();
                let begun = begin()?;
                recording.open = Some(log.key);
                recording.owners.reserve();
                recording.admit(stream, gate, None);
                Ok(begun)
            })
        })
    }

    /// Makes the driver call of an operation and logs it; None, and no call, if the capture is not
    /// open any more.
    pub(crate) fn record(
        &self,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> Option<CudaResult<()>> {
        Some(self.recording()?.record(operation, retain, call))
    }

    /// Runs `look` while no operation of the capture can be submitted.
    pub(crate) fn paused<R>(&self, look: impl FnOnce() -> R) -> R {
        let _recording = self.lock();
        look()
    }

    /// Has a value kept alive as long as the graph.
    pub(crate) fn retain(&self, retain: impl FnOnce(&mut Owners)) {
        if let Some(mut recording) = self.recording() {
            retain(&mut recording.owners);
        }
    }

    /// Makes `stream` part of the capture by `wait`, which has it wait for an event of it.
    pub(crate) fn join(
        log: &Arc<CaptureLog>,
        stream: &Stream,
        operation: Operation,
        wait: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        stream.with_gate(|gate| {
            gate.enter(log, || {
                let mut recording = log.recording().ok_or_else(has_ended)?;
                wait()?;
                recording.operations.push(operation);
                recording.admit(stream, gate, Some(operation));
                Ok(())
            })
        })
    }

    /// Ends the driver's capture by `end`, and takes the streams out of it.
    pub(crate) fn close<R>(&self, end: impl FnOnce() -> R) -> (R, Recorded) {
        let (ended, members, recorded) = {
            let mut recording = self.lock();
            let ended = end();
            recording.open = None;
            let members = std::mem::take(&mut recording.members);
            (ended, members, recording.take())
        };
        for member in &members {
            member.gate.leave(self);
        }
        let forks = members
            .iter()
            .filter_map(|member| Some(Fork::new(&member.stream, member.joined.as_ref()?)))
            .collect();
        (ended, Recorded { forks, ..recorded })
    }

    fn lock(&self) -> RecordingGuard<'_> {
        self.gate.recording()
    }
}

impl Recording {
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Makes the driver call of an operation and logs it. The lock is held over the call, so the
    /// log has the operations in the order of the nodes, and nobody reads the driver's array of
    /// dependencies meanwhile. A captured call runs no code of the user's (O7).
    #[inline]
    pub(crate) fn record(
        &mut self,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        let result = call();
        match &result {
            Ok(()) => {
                retain(&mut self.owners);
                self.operations.push(operation);
            }
            Err(error) => self.failed(operation, error.code()),
        }
        result
    }

    fn admit(&mut self, stream: &Stream, gate: &Arc<CaptureGate>, joined: Option<Operation>) {
        self.members.push(Member { stream: stream.clone(), gate: gate.clone(), joined });
    }

    #[cold]
    fn failed(&mut self, operation: Operation, code: u32) {
        if self.failure.is_none() {
            let operation = LoggedOperation::new(self.operations.len(), &operation);
            self.failure = Some(FailedOperation { operation, code });
        }
    }

    /// Takes what was recorded, and leaves room for the next capture.
    fn take(&mut self) -> Recorded {
        let last = self
            .operations
            .last()
            .map(|operation| LoggedOperation::new(self.operations.len() - 1, operation));
        self.operations.clear();
        self.operations.shrink_to(KEPT_OPERATIONS);
        Recorded {
            owners: std::mem::take(&mut self.owners),
            last,
            forks: Vec::new(),
            failure: self.failure.take(),
        }
    }
}

/// Refuses an event of a capture that is over.
#[cold]
pub(crate) fn has_ended() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "event",
        "it was last recorded in a capture that has ended: record it again before the wait",
    )
}
