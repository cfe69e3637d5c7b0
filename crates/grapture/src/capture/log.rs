//! [`CaptureLog`]: what an open capture has recorded, whom it keeps alive, and what went wrong.

use std::cell::RefMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::capture::error::{CaptureError, FailedOperation, Fork, LoggedOperation};
use crate::capture::gate::CaptureGate;
use crate::capture::recorded::{Labels, Recorded};
use crate::error::{CudaError, CudaResult};
use crate::graph::{GraphKey, NodeNames};
use crate::operation::Operation;
use crate::retain::Owners;
use crate::stream::Stream;

/// How many operations a gate keeps room for between captures.
const KEPT_OPERATIONS: usize = 4096;

/// One capture, as every stream and event that is part of it knows it.
///
/// What it records lies in the gate of the stream that began it. The thread that began it has a
/// part for itself there, and needs no lock for it; the other threads share one.
#[derive(Clone)]
pub(crate) struct CaptureLog {
    /// What tells this capture from the next one on the same gate, and what the ids of the nodes
    /// carry, if its graph is its own.
    key: GraphKey,
    /// That of the stream that began it.
    gate: Arc<CaptureGate>,
}

/// What the thread that began a capture has recorded.
#[derive(Default)]
#[repr(C)] // What each operation changes comes first, and together.
pub(crate) struct Recording {
    /// The capture, while it is open in the driver.
    open: Option<GraphKey>,
    operations: Vec<Operation>,
    owners: Owners,
    labels: Labels,
    /// The first operation that the driver refused, and how many this thread had recorded before.
    failure: Option<(usize, Operation, u32)>,
}

/// What the other threads have recorded.
#[derive(Default)]
pub(crate) struct SharedRecording {
    /// The capture, while it is open in the driver. It changes only with the lock held over the
    /// driver call that changes it.
    open: Option<GraphKey>,
    owners: Owners,
    /// Each with the number of operations that the first thread had recorded before it.
    operations: Vec<(usize, Operation)>,
    /// The first operation that the driver refused, and how many were recorded before.
    failure: Option<(usize, Operation, u32)>,
    /// The stream on which it began. It lives as long as the capture is open, as the others do.
    origin: Option<Stream>,
    /// The streams that joined.
    members: Vec<Member>,
    /// How the nodes are named, if the capture goes into a graph that there was.
    names: Option<NodeNames>,
}

/// A stream that joined a capture.
struct Member {
    stream: Stream,
    /// That of the stream on the thread that had it join: a default stream has one for each.
    gate: Arc<CaptureGate>,
    /// The operation by which it joined.
    joined: Operation,
}

impl CaptureLog {
    /// A capture that is to begin on the stream of the gate.
    pub(crate) fn new(gate: &Arc<CaptureGate>) -> CaptureLog {
        CaptureLog::of(GraphKey::new(), gate)
    }

    /// The capture with this key that began on the stream of the gate.
    pub(crate) fn of(key: GraphKey, gate: &Arc<CaptureGate>) -> CaptureLog {
        CaptureLog { key, gate: gate.clone() }
    }

    /// Whether it began on the stream of this gate.
    pub(crate) fn began_at(&self, gate: &CaptureGate) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.gate), gate)
    }

    pub(crate) fn key(&self) -> GraphKey {
        self.key
    }

    /// Says how the nodes are named of the graph that an open capture goes into.
    pub(crate) fn set_names(&self, names: NodeNames) {
        if let Some(mut shared) = self.shared() {
            shared.names = Some(names);
        }
    }

    /// Whether the capture is open in the driver.
    pub(crate) fn is_open(&self) -> bool {
        self.shared().is_some()
    }

    /// What this thread records, if it began the capture and that is open.
    fn own(&self) -> Option<RefMut<'_, Recording>> {
        self.gate.own().get().filter(|own| own.open == Some(self.key))
    }

    /// What other threads record, while the capture is open.
    fn shared(&self) -> Option<MutexGuard<'_, SharedRecording>> {
        Some(self.gate.shared()).filter(|shared| shared.open == Some(self.key))
    }

    /// Begins the driver's capture of `stream` by `begin`.
    pub(crate) fn open<R>(
        log: &CaptureLog,
        stream: &Stream,
        begin: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        stream.with_gate(|gate| {
            gate.enter(log, || {
                let mut shared = gate.shared();
                // INVARIANT: the gate let this capture in, so the one before is closed and has
                // given the part up.
                assert!(gate.own().claim(), "a capture that is closed records no more");
                let begun = begin().inspect_err(|_| gate.own().release())?;
                shared.open = Some(log.key);
                shared.origin = Some(stream.clone());
                gate.recorded().store(0, Ordering::Relaxed);
                if let Some(mut own) = gate.own().get() {
                    own.open = Some(log.key);
                    own.owners.reserve();
                }
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
        if let Some(mut own) = self.own() {
            return Some(own.record(self.gate.recorded(), operation, retain, call));
        }
        let mut shared = self.shared()?;
        let before = self.gate.recorded().load(Ordering::Relaxed);
        Some(shared.record(before, operation, retain, call))
    }

    /// Runs `look` while no operation of the capture can be submitted. None on another thread than
    /// the one that began the capture, which submits without a lock.
    pub(crate) fn paused<R>(&self, look: impl FnOnce(&NodeNames) -> R) -> Option<R> {
        let _own = self.own()?;
        let shared = self.gate.shared();
        Some(match &shared.names {
            Some(names) => look(names),
            None => look(&NodeNames::of(self.key)),
        })
    }

    /// Has a value kept alive as long as the graph.
    pub(crate) fn retain(&self, retain: impl FnOnce(&mut Owners)) {
        if let Some(mut own) = self.own() {
            retain(&mut own.owners);
        }
    }

    /// Changes the labels, with the number of the operation that comes next. None on another thread
    /// than the one that began the capture.
    pub(super) fn label<R>(&self, change: impl FnOnce(usize, &mut Labels) -> R) -> Option<R> {
        let mut own = self.own()?;
        let next = own.operations.len();
        Some(change(next, &mut own.labels))
    }

    /// Makes `stream` part of the capture by `wait`, which has it wait for an event of it.
    pub(crate) fn join(
        log: &CaptureLog,
        stream: &Stream,
        operation: Operation,
        wait: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        // Counted before it joins: nobody waits for its context, which may be another, from here on.
        stream.context().capture_began();
        let joined = stream.with_gate(|gate| {
            gate.enter(log, || {
                log.record(operation, |_| {}, wait).ok_or_else(has_ended)??;
                let mut shared = log.shared().ok_or_else(has_ended)?;
                let (stream, gate) = (stream.clone(), gate.clone());
                shared.members.push(Member { stream, gate, joined: operation });
                Ok(())
            })
        });
        joined.inspect_err(|_| stream.context().capture_ended())
    }

    /// Ends the driver's capture by `end`, which gives the code if it fails, and takes the streams
    /// out of it. On the thread that began it. Gives what the graph is to own, if there is one.
    pub(crate) fn close<R>(
        &self,
        end: impl FnOnce() -> Result<R, u32>,
    ) -> (Result<R, CaptureError>, Owners, Recorded) {
        // INVARIANT: the guard of the capture does not leave the thread that made it.
        let mut own = self.gate.own().get().expect("the capture began on this thread");
        let mut shared = self.gate.shared();
        let ended = end().map_err(|code| own.failure(&shared, code));
        own.open = None;
        let mut owners = std::mem::take(&mut own.owners);
        let labels = std::mem::take(&mut own.labels);
        let recorded = Recorded::new(&own.operations, labels);
        own.clear();
        drop(own);
        self.gate.own().release();
        shared.open = None;
        let members = shared.clear(&mut owners);
        let origin = shared.origin.take();
        // Before the lock is given up: who begins the next capture waits for that.
        self.gate.end();
        drop(shared);
        for member in &members {
            member.gate.leave(self);
            member.stream.context().capture_ended();
        }
        drop(origin);
        (ended, owners, recorded)
    }
}

impl Recording {
    /// Makes the driver call of an operation and logs it. A captured call runs no code of the
    /// user's (O7), so nothing else of this thread comes here meanwhile. `recorded` tells the
    /// other threads how many operations there are.
    #[inline]
    pub(crate) fn record(
        &mut self,
        recorded: &AtomicUsize,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        // Counted before the call: an atomic exchange after it waits for all that it has written.
        let before = self.owners.len();
        self.owners.come_from(operation.location);
        retain(&mut self.owners);
        if let Err(error) = call() {
            self.owners.truncate(before);
            self.failed(operation, error.code());
            return Err(error);
        }
        self.operations.push(operation);
        recorded.store(self.operations.len(), Ordering::Relaxed);
        Ok(())
    }

    #[cold]
    fn failed(&mut self, operation: Operation, code: u32) {
        self.failure.get_or_insert((self.operations.len(), operation, code));
    }

    /// Forgets the operations, and leaves room for those of the next capture.
    fn clear(&mut self) {
        self.operations.clear();
        self.operations.shrink_to(KEPT_OPERATIONS);
        self.failure = None;
    }

    /// Why the capture failed, from what this thread and the others have recorded.
    #[cold]
    fn failure(&self, shared: &SharedRecording, code: u32) -> CaptureError {
        let (own, others) = (&self.operations, &shared.operations);
        let last = match others.last() {
            Some((before, operation)) if *before == own.len() => Some(operation),
            Some((_, operation)) => own.last().or(Some(operation)),
            None => own.last(),
        };
        let own_failure = self.failure.map(|(before, operation, code)| {
            let between = others.iter().filter(|(after, _)| *after <= before).count();
            (before + between, operation, code)
        });
        let first = own_failure.into_iter().chain(shared.failure).min_by_key(|failure| failure.0);
        let forks = shared.members.iter().map(|member| Fork::new(&member.stream, &member.joined));
        CaptureError {
            code,
            first_failure: first.map(|(before, operation, code)| FailedOperation {
                operation: LoggedOperation::new(before, &operation),
                code,
            }),
            last_operation: last
                .map(|operation| LoggedOperation::new(own.len() + others.len() - 1, operation)),
            forks: forks.collect(),
        }
    }
}

impl SharedRecording {
    /// Forgets everything: gives the owners to those of the graph, and the streams that joined.
    #[inline]
    fn clear(&mut self, owners: &mut Owners) -> Vec<Member> {
        if !self.owners.is_empty() {
            owners.append(&mut self.owners);
        }
        self.operations.clear();
        self.failure = None;
        self.names = None;
        std::mem::take(&mut self.members)
    }

    /// Makes the driver call of an operation and logs it, after `before` of the first thread's.
    /// The lock is held over the call, so that nobody reads the driver's array of dependencies
    /// meanwhile.
    fn record(
        &mut self,
        before: usize,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        if let Err(error) = call() {
            let before = before + self.operations.len();
            self.failure.get_or_insert((before, operation, error.code()));
            return Err(error);
        }
        self.owners.come_from(operation.location);
        retain(&mut self.owners);
        self.operations.push((before, operation));
        Ok(())
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
