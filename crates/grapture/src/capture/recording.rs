//! What the threads of a capture have recorded.

use std::collections::HashSet;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::capture::cause::{Cause, Failure};
use crate::capture::gate::CaptureGate;
use crate::capture::joins::{Entry, StreamId, id_of};
use crate::capture::place::CapturePlace;
use crate::capture::recorded::Marks;
use crate::error::{CudaError, CudaResult};
use crate::graph::{GraphKey, NodeNames};
use crate::memory::BufferInner;
use crate::operation::Operation;
use crate::retain::Owners;
use crate::stream::{Stream, WeakStream};

/// How many operations a gate keeps room for between captures.
const KEPT_OPERATIONS: usize = 4096;

/// What the thread that began a capture has recorded.
#[derive(Default)]
#[repr(C)] // What each operation changes comes first, and together.
pub(crate) struct Recording {
    /// The capture, while it is open in the driver.
    pub(super) open: Option<GraphKey>,
    pub(super) operations: Vec<Operation>,
    pub(super) owners: Owners,
    pub(super) marks: Marks,
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
    pub(super) open: Option<GraphKey>,
    pub(super) owners: Owners,
    /// Each with the number of operations that the first thread had recorded before it.
    pub(super) operations: Vec<(usize, Entry)>,
    /// The first operation with which the capture was no longer valid, and how many were recorded
    /// before.
    pub(super) failure: Option<(usize, Failure)>,
    /// The stream on which it began. It lives as long as the capture is open, since its drop leaves
    /// a stream that captures alone, as the others do, which are held.
    pub(super) origin: WeakStream,
    /// Whether there can be something to forget at the end: somebody had the rest of this.
    pub(super) used: bool,
    /// The streams that joined.
    pub(super) members: Vec<Member>,
    /// How the nodes are named, if the capture goes into a graph that there was.
    pub(super) names: Option<NodeNames>,
    /// What becomes of it.
    pub(super) place: CapturePlace,
    /// How often a stream was put into another order.
    pub(super) reorders: u64,
    /// The nodes that no stream need come after.
    pub(super) loose: HashSet<usize>,
    /// What the capture allocates and frees itself.
    pub(super) temporaries: Vec<Weak<BufferInner>>,
    /// The line of a part, the body of a conditional node or a child, that is being captured: nothing
    /// is recorded meanwhile.
    pub(super) suspended: Option<&'static Location<'static>>,
}

/// A stream that joined a capture.
pub(super) struct Member {
    pub(super) stream: Stream,
    /// That of the stream on the thread that had it join: a default stream has one for each.
    pub(super) gate: Arc<CaptureGate>,
    /// The line by which it joined.
    pub(super) joined: &'static Location<'static>,
    /// Whether the legacy stream waits for it.
    pub(super) blocking: bool,
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
        let origin = shared.origin().unwrap_or_else(|| stream.clone());
        let failure = match Failure::of(&origin, stream, operation, error) {
            Ok(failure) => failure,
            Err(error) => return error,
        };
        let code = failure.code();
        self.failure.get_or_insert((self.operations.len(), failure));
        CudaError::Capture(Box::new(Cause::of(gate, Some(self), &shared).error(code)))
    }

    /// Forgets the operations, and leaves room for those of the next capture.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.operations.clear();
        self.elsewhere.clear();
        if self.failure.is_some() || self.operations.capacity() > KEPT_OPERATIONS {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        self.operations.shrink_to(KEPT_OPERATIONS);
        self.failure = None;
    }
}

impl SharedRecording {
    /// Begins on the stream.
    pub(super) fn begin(&mut self, stream: &Stream) {
        self.used = false;
        // It is the one of the capture before, unless that was another handle of a default stream.
        if !self.origin.is(stream) {
            self.origin = stream.downgrade();
        }
    }

    /// The stream on which the capture began.
    pub(super) fn origin(&self) -> Option<Stream> {
        self.origin.upgrade()
    }

    /// Forgets everything: gives the owners to those of the graph, and the streams that joined.
    #[cold]
    pub(super) fn clear(&mut self, owners: &mut Owners) -> Vec<Member> {
        owners.append(&mut self.owners);
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
    pub(super) fn record(
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
            let origin = self.origin().filter(|origin| !origin.is_per_thread());
            let origin = origin.unwrap_or_else(|| stream.clone());
            let failure = Failure::of(&origin, stream, operation, error)?;
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
