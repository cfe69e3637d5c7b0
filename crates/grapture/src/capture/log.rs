//! [`CaptureLog`]: what an open capture has recorded, whom it keeps alive, and what went wrong.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::capture::CaptureGate;
use crate::capture::error::{FailedOperation, Fork, LoggedOperation};
use crate::error::{CudaError, CudaResult};
use crate::graph::GraphKey;
use crate::operation::Operation;
use crate::retain::Owners;
use crate::stream::Stream;

/// Shared by the guard of a capture and by every stream and event that is part of it.
pub(crate) struct CaptureLog {
    /// What the ids of the graph's nodes carry.
    key: GraphKey,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    /// Whether the driver's capture is open. It changes only with the lock held over the driver
    /// call that changes it.
    open: bool,
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
    pub(crate) fn new() -> Arc<CaptureLog> {
        Arc::new(CaptureLog { key: GraphKey::new(), state: Mutex::default() })
    }

    pub(crate) fn key(&self) -> GraphKey {
        self.key
    }

    /// Whether the capture is open in the driver.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Begins the driver's capture of `stream` by `begin`.
    pub(crate) fn open<R>(
        log: &Arc<CaptureLog>,
        stream: &Stream,
        begin: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        stream.with_gate(|gate| {
            gate.enter(log, || {
                let mut state = log.lock();
                let begun = begin()?;
                state.open = true;
                state.admit(stream, gate, None);
                Ok(begun)
            })
        })
    }

    /// Makes the driver call of an operation and logs it; None, and no call, if the capture is not
    /// open any more. The lock is held over the call, so the log has the operations in the order
    /// of the nodes, and nobody reads the driver's array of dependencies meanwhile. A captured
    /// call runs no code of the user's (O7).
    #[inline]
    pub(crate) fn record(
        &self,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> Option<CudaResult<()>> {
        let mut state = self.lock();
        if !state.open {
            return None;
        }
        let result = call();
        match &result {
            Ok(()) => {
                retain(&mut state.owners);
                state.operations.push(operation);
            }
            Err(error) => state.failed(operation, error.code()),
        }
        Some(result)
    }

    /// Runs `look` while no operation of the capture can be submitted.
    pub(crate) fn paused<R>(&self, look: impl FnOnce() -> R) -> R {
        let _state = self.lock();
        look()
    }

    /// Has a value kept alive as long as the graph.
    pub(crate) fn retain(&self, retain: impl FnOnce(&mut Owners)) {
        retain(&mut self.lock().owners);
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
                let mut state = log.lock();
                if !state.open {
                    return Err(has_ended());
                }
                wait()?;
                state.operations.push(operation);
                state.admit(stream, gate, Some(operation));
                Ok(())
            })
        })
    }

    /// Ends the driver's capture by `end`, and takes the streams out of it.
    pub(crate) fn close<R>(&self, end: impl FnOnce() -> R) -> (R, Recorded) {
        let (ended, state) = {
            let mut state = self.lock();
            let ended = end();
            (ended, std::mem::take(&mut *state))
        };
        for member in &state.members {
            member.gate.leave(self);
        }
        let last = state
            .operations
            .last()
            .map(|operation| LoggedOperation::new(state.operations.len() - 1, operation));
        let forks = state
            .members
            .iter()
            .filter_map(|member| Some(Fork::new(&member.stream, member.joined.as_ref()?)))
            .collect();
        (ended, Recorded { owners: state.owners, last, forks, failure: state.failure })
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
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
