//! [`CaptureLog`]: what an open capture has recorded, whom it keeps alive, and what went wrong.

use std::cell::RefMut;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
    CUgraphNode,
};

use crate::capture::cause::Cause;
use crate::capture::error::CaptureError;
use crate::capture::gate::CaptureGate;
use crate::capture::joins::id_of;
use crate::capture::logged::{Fork, LoggedOperation};
use crate::capture::recorded::{Marks, Recorded};
use crate::capture::recording::{Member, Recording, SharedRecording};
use crate::error::{CudaError, CudaResult};
use crate::graph::{GraphKey, NodeNames};
use crate::memory::BufferInner;
use crate::operation::{Line, Operation, OperationKind};
use crate::retain::Owners;
use crate::stream::Stream;

/// One capture, as every stream and event that is part of it knows it.
///
/// What it records lies in the gate of the stream that began it. The thread that began it has a
/// part for itself there, and needs no lock for it; the other threads share one.
#[derive(Clone)]
pub(crate) struct CaptureLog {
    /// What tells this capture from the next one on the same gate, and what the ids of the nodes
    /// carry, if its graph is its own.
    pub(super) key: GraphKey,
    /// That of the stream that began it.
    pub(super) gate: Arc<CaptureGate>,
}

/// A capture that records nothing.
pub(crate) struct Suspended<'a> {
    log: &'a CaptureLog,
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        let mut shared = self.log.gate.shared();
        if shared.open != Some(self.log.key) {
            // Whoever has its guard has ended it meanwhile, which lies beside what is captured.
            return;
        }
        shared.suspended = None;
        drop(shared);
        // INVARIANT: the capture is still open, so that no other thread claims its part.
        assert!(self.log.gate.own().claim(), "a capture is resumed on its thread");
    }
}

impl CaptureLog {
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

    /// How the nodes are named that an open capture makes.
    pub(crate) fn names(&self) -> Option<NodeNames> {
        let shared = self.shared()?;
        Some(shared.names.clone().unwrap_or_else(|| NodeNames::of(self.key)))
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
    pub(super) fn shared(&self) -> Option<MutexGuard<'_, SharedRecording>> {
        let mut shared = self.gate.shared();
        shared.used = true;
        Some(shared).filter(|shared| shared.open == Some(self.key))
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
                shared.begin(stream);
                gate.recorded().store(0, Ordering::Relaxed);
                if let Some(mut own) = gate.own().get() {
                    own.open = Some(log.key);
                    own.owners.begin();
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
        let mut shared = self.gate.shared();
        shared.used = true;
        shared.loose.extend(nodes);
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

    /// Changes what is known of the operations, with the number of the one that comes next. None on
    /// another thread than the one that began the capture.
    pub(super) fn mark<R>(&self, change: impl FnOnce(usize, &mut Marks) -> R) -> Option<R> {
        let mut own = self.own()?;
        let next = own.operations.len();
        Some(change(next, &mut own.marks))
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
    /// out of it. On the thread that began it. Gives what the graph is to own, if there is one, as
    /// `take` takes it.
    #[inline]
    pub(crate) fn close<R, T>(
        &self,
        take: impl FnOnce(&mut Owners) -> T,
        end: impl FnOnce() -> Result<R, u32>,
    ) -> Closed<R, T> {
        let own = self.gate.own().get().or_else(|| self.resumed());
        // INVARIANT: the guard of the capture does not leave the thread that made it.
        let mut own = own.expect("the capture began on this thread");
        let mut shared = self.gate.shared();
        let ended = match end() {
            Ok(ended) => Ok(ended),
            Err(code) => Err(cause(&self.gate, &own, &shared, code)),
        };
        own.open = None;
        let marks = std::mem::take(&mut own.marks);
        let recorded = Recorded::new(&own.operations, marks);
        // Read before the owners go, which keep the kernels that the operations name.
        own.clear();
        let members = if shared.used { Some(shared.clear(&mut own.owners)) } else { None };
        let owners = take(&mut own.owners);
        drop(own);
        self.gate.own().release();
        shared.open = None;
        shared.suspended = None;
        // Before the lock is given up: who begins the next capture waits for that.
        self.gate.end();
        drop(shared);
        if let Some(members) = members {
            self.leave(members);
        }
        Closed { ended, owners, recorded }
    }

    /// Takes the part back that this thread gave up while a part of the capture is captured.
    #[cold]
    fn resumed(&self) -> Option<RefMut<'_, Recording>> {
        self.gate.own().claim();
        self.gate.own().get()
    }

    /// Takes the streams that joined out of the capture, which is over.
    #[cold]
    fn leave(&self, members: Vec<Member>) {
        for member in &members {
            member.gate.leave(self);
            member.stream.context().end_capture(member.blocking);
        }
    }
}

/// What a capture that is over has left.
pub(crate) struct Closed<R, T, E = Box<CaptureError>> {
    pub(crate) ended: Result<R, E>,
    pub(crate) owners: T,
    pub(crate) recorded: Recorded,
}

/// Why the driver ended a capture with the code.
#[cold]
fn cause(
    gate: &CaptureGate,
    own: &Recording,
    shared: &SharedRecording,
    code: u32,
) -> Box<CaptureError> {
    Box::new(Cause::of(gate, Some(own), shared).error(code))
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
