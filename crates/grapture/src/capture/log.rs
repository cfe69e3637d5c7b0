//! [`CaptureLog`]: what an open capture has recorded, whom it keeps alive, and what went wrong.

use std::cell::RefMut;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
    CUgraphNode,
};

use crate::capture::cause::{Cause, Failure};
use crate::capture::error::CaptureError;
use crate::capture::gate::CaptureGate;
use crate::capture::joins::{Entry, StreamId, id_of};
use crate::capture::logged::{Fork, LoggedOperation};
use crate::capture::recorded::{Labels, Recorded};
use crate::error::{CudaError, CudaResult};
use crate::graph::{GraphKey, NodeNames};
use crate::memory::BufferInner;
use crate::operation::{Line, Operation, OperationKind};
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
    pub(super) operations: Vec<Operation>,
    owners: Owners,
    labels: Labels,
    /// Those operations that were recorded on another stream than the one that began the capture, in
    /// order.
    pub(super) elsewhere: Vec<(usize, StreamId)>,
    /// The first operation with which the capture was no longer valid, and how many this thread had
    /// recorded before.
    pub(super) failure: Option<(usize, Failure)>,
    /// How many barred calls there were in the context before the capture.
    pub(super) barred_before: u64,
}

/// What the other threads have recorded.
#[derive(Default)]
pub(crate) struct SharedRecording {
    /// The capture, while it is open in the driver. It changes only with the lock held over the
    /// driver call that changes it.
    open: Option<GraphKey>,
    owners: Owners,
    /// Each with the number of operations that the first thread had recorded before it.
    pub(super) operations: Vec<(usize, Entry)>,
    /// The first operation with which the capture was no longer valid, and how many were recorded
    /// before.
    pub(super) failure: Option<(usize, Failure)>,
    /// The stream on which it began. It lives as long as the capture is open, as the others do.
    pub(super) origin: Option<Stream>,
    /// The streams that joined.
    pub(super) members: Vec<Member>,
    /// How the nodes are named, if the capture goes into a graph that there was.
    names: Option<NodeNames>,
    /// What becomes of it.
    place: CapturePlace,
    /// How often a stream was put into another order.
    reorders: u64,
    /// The nodes that no stream need come after.
    loose: HashSet<usize>,
    /// What the capture allocates and frees itself.
    temporaries: Vec<Weak<BufferInner>>,
    /// The line of a part, the body of a conditional node or a child, that is being captured: nothing
    /// is recorded meanwhile.
    suspended: Option<&'static Location<'static>>,
}

/// What becomes of what a capture records.
#[derive(Clone, Default)]
pub(crate) enum CapturePlace {
    /// A graph of its own.
    #[default]
    Own,
    /// A body of a conditional node on that stream of another capture, which is suspended.
    Body(CaptureLog, Stream),
    /// Part of a graph that there was.
    Graph,
}

/// A capture that records nothing.
pub(crate) struct Suspended<'a> {
    log: &'a CaptureLog,
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        self.log.gate.shared().suspended = None;
        // INVARIANT: the capture is still open, so that no other thread claims its part.
        assert!(self.log.gate.own().claim(), "a capture is resumed on its thread");
    }
}

/// A stream that joined a capture.
pub(super) struct Member {
    pub(super) stream: Stream,
    /// That of the stream on the thread that had it join: a default stream has one for each.
    pub(super) gate: Arc<CaptureGate>,
    /// The line by which it joined.
    pub(super) joined: &'static Location<'static>,
    /// Whether the legacy stream waits for it.
    blocking: bool,
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
                    own.barred_before = stream.context().barred().count();
                }
                Ok(begun)
            })
        })
    }

    /// Makes the driver call of an operation on a stream of the capture and logs it; None, and no
    /// call, if the capture is not open any more.
    pub(crate) fn record(
        &self,
        stream: &Stream,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> Option<CudaResult<()>> {
        if let Some(own) = self.own() {
            return Some(self.record_own(own, stream, operation, retain, call));
        }
        let mut shared = self.shared()?;
        if let Some(line) = shared.suspended {
            return Some(Err(is_suspended(line)));
        }
        let before = self.gate.recorded().load(Ordering::Relaxed);
        Some(shared.record(&self.gate, before, stream, operation, retain, call))
    }

    /// How many operations were recorded, on the thread that began the capture.
    #[cold]
    pub(crate) fn recorded(&self) -> usize {
        let own = self.own().map_or(0, |own| own.operations.len());
        own + self.gate.shared().operations.len()
    }

    /// The last operation that was recorded, on the thread that began the capture.
    #[cold]
    pub(crate) fn last(&self) -> Option<LoggedOperation> {
        let own = self.own()?;
        Cause::of(&self.gate, Some(&own), &self.gate.shared()).last()
    }

    fn record_own(
        &self,
        mut own: RefMut<'_, Recording>,
        stream: &Stream,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        let recorded = own.record(&self.gate, stream, operation, retain, call);
        let id = stream.with_gate(|gate| id_of(gate));
        if recorded.is_ok() && id != id_of(&self.gate) {
            let index = own.operations.len() - 1;
            own.elsewhere.push((index, id));
        }
        recorded
    }

    /// [`record`](CaptureLog::record) of an operation that takes more than one driver call, while no
    /// other thread submits to the capture. None, and no call, on another thread than the one that
    /// began the capture, which submits without a lock.
    pub(crate) fn record_alone(
        &self,
        stream: &Stream,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        calls: impl FnOnce() -> CudaResult<()>,
    ) -> Option<CudaResult<()>> {
        let own = self.own()?;
        let calls = || {
            let _shared = self.gate.shared();
            calls()
        };
        Some(self.record_own(own, stream, operation, retain, calls))
    }

    /// Has the capture record nothing until the guard is dropped, on any thread: the body of a
    /// conditional node or a child, which came by that line, is captured beside it.
    pub(crate) fn suspend(&self, line: &'static Location<'static>) -> Suspended<'_> {
        // Without its part this thread goes the way of the others, which looks.
        self.gate.shared().suspended = Some(line);
        self.gate.own().release();
        Suspended { log: self }
    }

    /// Why this thread cannot add to the capture now: a part of it is being captured, or another
    /// thread began it.
    #[cold]
    pub(crate) fn elsewhere(&self) -> CudaError {
        let suspended = self.shared().and_then(|shared| shared.suspended);
        suspended.map_or_else(other_thread, is_suspended)
    }

    /// Has no other thread submit to the capture as long as the result lives.
    pub(super) fn keep_others_out(&self) -> MutexGuard<'_, SharedRecording> {
        self.gate.shared()
    }

    /// Remembers nodes that the streams of the capture need not come after: those that were added by
    /// hand, or that a stream has let go of.
    pub(super) fn note_loose(&self, nodes: &[CUgraphNode]) {
        let nodes = nodes.iter().map(|node| node.addr());
        self.gate.shared().loose.extend(nodes);
    }

    /// The handles of those nodes, as numbers.
    pub(super) fn take_loose(&self) -> HashSet<usize> {
        std::mem::take(&mut self.gate.shared().loose)
    }

    /// Remembers memory that the capture allocates and frees.
    pub(crate) fn note_temporary(&self, memory: &Arc<BufferInner>) {
        if let Some(mut shared) = self.shared() {
            shared.temporaries.retain(|known| known.strong_count() > 0);
            shared.temporaries.push(Arc::downgrade(memory));
        }
    }

    /// Whether some of that is still to be freed.
    pub(crate) fn has_temporaries(&self) -> bool {
        let alive = |shared: MutexGuard<'_, SharedRecording>| {
            shared.temporaries.iter().any(|known| known.strong_count() > 0)
        };
        self.shared().is_some_and(alive)
    }

    /// The operation that made a node, by the number of the node, on the thread that began the
    /// capture.
    #[cold]
    pub(crate) fn node_operation(&self, node: usize) -> Option<LoggedOperation> {
        let own = self.own()?;
        Cause::of(&self.gate, Some(&own), &self.gate.shared()).of_node(node)
    }

    /// The line by which a stream joined that is not joined back, on the thread that began the
    /// capture.
    #[cold]
    pub(crate) fn first_unjoined(&self) -> Option<&'static Location<'static>> {
        let own = self.own()?;
        // What the program has put into another order is known to the driver alone.
        let reordered = |operation: &Operation| {
            let kind = operation.kind();
            matches!(kind, OperationKind::SetDependencies | OperationKind::AddDependencies)
        };
        if own.operations.iter().any(reordered) {
            return None;
        }
        let forks = Cause::of(&self.gate, Some(&own), &self.gate.shared()).forks();
        forks.iter().find(|fork| !fork.is_joined()).map(Fork::location)
    }

    /// The streams that joined the capture. A default stream is there if it is this thread's.
    pub(crate) fn members(&self) -> Vec<Stream> {
        let shared = self.shared();
        let members = shared.iter().flat_map(|shared| &shared.members);
        members
            .filter(|member| member.stream.with_gate(|gate| Arc::ptr_eq(gate, &member.gate)))
            .map(|member| member.stream.clone())
            .collect()
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

    /// Has a value kept alive as long as the graph. None: the capture is not open any more.
    pub(crate) fn retain(&self, retain: impl FnOnce(&mut Owners)) -> Option<()> {
        match self.own() {
            Some(mut own) => retain(&mut own.owners),
            None => retain(&mut self.shared()?.owners),
        }
        Some(())
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
        let blocking = stream.is_blocking();
        stream.with_gate(|gate| {
            gate.enter(log, || {
                stream.context().begin_capture(blocking, || {
                    log.record(stream, operation, |_| {}, wait).ok_or_else(has_ended)?
                })?;
                let member = Member {
                    stream: stream.clone(),
                    gate: gate.clone(),
                    joined: operation.location,
                    blocking,
                };
                // On another thread the capture may be ended by now, and the stream left with it.
                match log.shared() {
                    Some(mut shared) => shared.members.push(member),
                    None => {
                        stream.context().end_capture(blocking);
                        return Err(has_ended());
                    }
                }
                Ok(())
            })
        })
    }

    /// Ends the driver's capture by `end`, which gives the code if it fails, and takes the streams
    /// out of it. On the thread that began it. Gives what the graph is to own, if there is one.
    pub(crate) fn close<R>(
        &self,
        end: impl FnOnce() -> Result<R, u32>,
    ) -> (Result<R, Box<CaptureError>>, Owners, Recorded) {
        // INVARIANT: the guard of the capture does not leave the thread that made it.
        let mut own = self.gate.own().get().expect("the capture began on this thread");
        let mut shared = self.gate.shared();
        let ended =
            end().map_err(|code| Box::new(Cause::of(&self.gate, Some(&own), &shared).error(code)));
        own.open = None;
        let labels = std::mem::take(&mut own.labels);
        let recorded = Recorded::new(&own.operations, labels);
        // Read before the owners go, which keep the kernels that the operations name.
        own.clear();
        let mut owners = std::mem::take(&mut own.owners);
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
            member.stream.context().end_capture(member.blocking);
        }
        drop(origin);
        (ended, owners, recorded)
    }
}

impl Recording {
    /// Makes the driver call of an operation and logs it. A captured call runs no code of the
    /// user's (O7), so nothing else of this thread comes here meanwhile. The gate, which is that of
    /// the stream that began the capture, tells the other threads how many operations there are.
    #[inline]
    pub(crate) fn record(
        &mut self,
        gate: &CaptureGate,
        stream: &Stream,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        // Counted before the call: an atomic exchange after it waits for all that it has written.
        let before = self.owners.len();
        self.owners.come_from(operation.location);
        retain(&mut self.owners);
        if let Err(error) = call() {
            let error = self.failed(gate, stream, operation, error);
            self.owners.truncate(before);
            return Err(error);
        }
        self.operations.push(operation);
        gate.recorded().store(self.operations.len(), Ordering::Relaxed);
        Ok(())
    }

    /// What to answer for an operation that the driver refused: the first cause, if the capture is
    /// no longer valid.
    #[cold]
    fn failed(
        &mut self,
        gate: &CaptureGate,
        stream: &Stream,
        operation: Operation,
        error: CudaError,
    ) -> CudaError {
        let shared = gate.shared();
        let origin = shared.origin.as_ref().unwrap_or(stream);
        let failure = match Failure::of(origin, stream, operation, error) {
            Ok(failure) => failure,
            Err(error) => return error,
        };
        let code = failure.code();
        self.failure.get_or_insert((self.operations.len(), failure));
        CudaError::Capture(Box::new(Cause::of(gate, Some(self), &shared).error(code)))
    }

    /// Forgets the operations, and leaves room for those of the next capture.
    fn clear(&mut self) {
        self.operations.clear();
        self.operations.shrink_to(KEPT_OPERATIONS);
        self.elsewhere.clear();
        self.failure = None;
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
        self.temporaries.clear();
        self.loose.clear();
        self.place = CapturePlace::Own;
        self.reorders = 0;
        std::mem::take(&mut self.members)
    }

    /// Makes the driver call of an operation and logs it, after `before` of the first thread's.
    /// The lock is held over the call, so that nobody reads the driver's array of dependencies
    /// meanwhile.
    fn record(
        &mut self,
        gate: &CaptureGate,
        before: usize,
        stream: &Stream,
        operation: Operation,
        retain: impl FnOnce(&mut Owners),
        call: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        if let Err(error) = call() {
            // The default stream of the first thread cannot be asked about on this one.
            let origin = self.origin.as_ref().filter(|origin| !origin.is_per_thread());
            let failure = Failure::of(origin.unwrap_or(stream), stream, operation, error)?;
            let code = failure.code();
            self.failure.get_or_insert((before + self.operations.len(), failure));
            return Err(CudaError::Capture(Box::new(Cause::of(gate, None, self).error(code))));
        }
        self.owners.come_from(operation.location);
        retain(&mut self.owners);
        self.operations
            .push((before, Entry { operation, stream: stream.with_gate(|gate| id_of(gate)) }));
        Ok(())
    }
}

/// Refuses what is submitted to a capture while a body is captured.
#[cold]
fn is_suspended(line: &'static Location<'static>) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "stream",
        format!(
            "its capture waits until the part at {} is captured, a child or the body of a \
             conditional node: submit to the stream of that part, or after it",
            Line(line),
        ),
    )
}

#[cold]
fn other_thread() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
        "capture",
        "another thread began it: add to it on that thread",
    )
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
