//! [`CaptureLog`]: what an open capture has recorded, whom it keeps alive, and what went wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::capture::error::{FailedOperation, Fork, LoggedOperation};
use crate::error::CudaResult;
use crate::graph::GraphKey;
use crate::operation::Operation;
use crate::retain::Owners;
use crate::stream::Stream;

/// Shared by the guard of a capture and by every stream and event that is part of it.
pub(crate) struct CaptureLog {
    /// What the ids of the graph's nodes carry.
    key: GraphKey,
    open: AtomicBool,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    owners: Owners,
    operations: Vec<Operation>,
    /// The streams that joined, each with the operation by which it did; the one that began the
    /// capture is not among them.
    forks: Vec<(Stream, Operation)>,
    failure: Option<FailedOperation>,
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
        Arc::new(CaptureLog {
            key: GraphKey::new(),
            open: AtomicBool::new(true),
            state: Mutex::default(),
        })
    }

    pub(crate) fn key(&self) -> GraphKey {
        self.key
    }

    /// Whether the capture has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Makes the driver call of an operation and logs it. The lock is held over the call, so the
    /// log has the operations in the order of the nodes, and nobody reads the driver's array of
    /// dependencies meanwhile. A captured call runs no code of the user's (O7).
    #[inline]
    pub(crate) fn record(
        &self,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut state = self.lock();
        let result = call();
        match &result {
            Ok(()) => {
                retain(&mut state.owners);
                state.operations.push(operation);
            }
            Err(error) => state.failed(operation, error.code()),
        }
        result
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

    /// Makes `stream` part of the capture, by the wait `operation`.
    pub(crate) fn join(log: &Arc<CaptureLog>, stream: &Stream, operation: Operation) {
        if stream.enter_capture(log).is_ok() {
            log.lock().forks.push((stream.clone(), operation));
        }
    }

    /// Closes the log: its streams are no longer part of a capture.
    pub(crate) fn close(&self, origin: &Stream) -> Recorded {
        self.open.store(false, Ordering::Release);
        let state = std::mem::take(&mut *self.lock());
        origin.leave_capture(self);
        for (stream, _) in &state.forks {
            stream.leave_capture(self);
        }
        let last = state.operations.last().map(|operation| {
            LoggedOperation::new(state.operations.len() - 1, operation)
        });
        let forks = state
            .forks
            .iter()
            .map(|(stream, operation)| Fork::new(stream, operation))
            .collect();
        Recorded { owners: state.owners, last, forks, failure: state.failure }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    #[cold]
    fn failed(&mut self, operation: Operation, code: u32) {
        if self.failure.is_none() {
            let operation = LoggedOperation::new(self.operations.len(), &operation);
            self.failure = Some(FailedOperation { operation, code });
        }
    }
}
