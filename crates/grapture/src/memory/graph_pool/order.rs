//! [`InCapture`]: how one capture uses a pool, and what orders the uses of the same memory.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use grapture_sys::{CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUresult};

use crate::capture::{CaptureLog, CapturePlace, has_ended};
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::graph::GraphKey;
use crate::memory::graph_pool::PoolUse;
use crate::memory::graph_pool::ranges::{Part, Ranges};
use crate::memory::in_graph::not_in_capture;
use crate::operation::Operation;
use crate::retain::Owners;
use crate::stream::Stream;

/// Where work of a capture is: on a stream of it, or of a part of it.
#[derive(Clone)]
pub(super) struct Spot {
    capture: GraphKey,
    stream: Stream,
    /// How often a stream of the capture was put into another order before: across that nothing is
    /// known of what comes after what.
    order: u64,
}

impl PartialEq for Spot {
    fn eq(&self, other: &Spot) -> bool {
        self.capture == other.capture
            && self.order == other.order
            && self.stream.is_same(&other.stream)
    }
}

/// A capture of a graph of its own, with its parts: children that are captured, and bodies.
pub(super) struct InCapture {
    root: CaptureLog,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) ranges: Ranges<Spot>,
    /// Where the node is that a capture of a part becomes.
    parts: HashMap<GraphKey, Spot>,
    /// The captures whose owners keep the pool, each with what it uses. The pool has this.
    uses: Vec<(GraphKey, Weak<PoolUse>)>,
}

/// What work at one place has to do to come after work at another, which was recorded before.
enum Order {
    /// Nothing.
    Given,
    /// Wait for that stream.
    Wait(Stream),
    /// It cannot: a part cannot wait for a stream of the capture that it is in, or it is not known
    /// where the other work is by now.
    None,
}

impl InCapture {
    pub(super) fn new(root: CaptureLog) -> InCapture {
        InCapture { root, state: Mutex::default() }
    }

    pub(super) fn is_of(&self, root: &CaptureLog) -> bool {
        self.root.key() == root.key()
    }

    pub(super) fn is_open(&self) -> bool {
        self.root.is_open()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an operation on the stream is, if it is in this capture.
    pub(super) fn spot(&self, stream: &Stream) -> CudaResult<(CaptureLog, Spot)> {
        let log = stream.capture_log().ok_or_else(not_in_capture)?;
        // Which stream that is depends on the thread, and another one could not wait for it.
        if stream.is_per_thread() && !stream.with_gate(|gate| log.began_at(gate)) {
            return Err(not_in_capture());
        }
        let (root, parts) = ancestry(&log)?;
        if !self.is_of(&root) {
            return Err(not_in_capture());
        }
        self.lock().parts.extend(parts);
        let order = log.reorders().ok_or_else(has_ended)?;
        let spot = Spot { capture: log.key(), stream: stream.clone(), order };
        Ok((log, spot))
    }

    /// Prepares for a use of the allocation on the stream: it comes after all that has used the
    /// memory before.
    pub(super) fn note_use(
        &self,
        number: usize,
        stream: &Stream,
        location: &'static Location<'static>,
    ) -> CudaResult<()> {
        let (log, spot) = self.spot(stream)?;
        // Over the calls, so that nobody else on the stream takes it as waited for before it is.
        let mut state = self.lock();
        let State { ranges, parts, .. } = &mut *state;
        let (before, users) = ranges.of(number).ok_or_else(not_in_capture)?;
        let ordered = |user: &Spot| matches!(order(parts, user, &spot), Order::Given);
        // Whoever has used it so far came after those before.
        if !users.iter().any(ordered) {
            wait_for(parts, before, &spot, &log, location)?;
        }
        if !users.contains(&spot) {
            users.push(spot);
        }
        Ok(())
    }
}

impl State {
    /// Whether all work in a capture can come after that at `user`.
    pub(super) fn can_follow(&self, user: &Spot, spot: &Spot) -> bool {
        !matches!(order(&self.parts, user, spot), Order::None)
    }

    /// Has what is recorded at the spot from now on come after all that has used the part.
    pub(super) fn come_after(
        &self,
        part: &Part,
        spot: &Spot,
        log: &CaptureLog,
        location: &'static Location<'static>,
    ) -> CudaResult<()> {
        wait_for(&self.parts, &self.ranges.users_of(part), spot, log, location)
    }

    /// What the graph of a capture uses of the pool; None if that is not known to its owners yet.
    pub(super) fn use_of(&self, log: &CaptureLog) -> Option<Arc<PoolUse>> {
        self.uses.iter().find(|(key, _)| *key == log.key())?.1.upgrade()
    }

    pub(super) fn keep(&mut self, log: &CaptureLog, used: &Arc<PoolUse>) {
        self.uses.push((log.key(), Arc::downgrade(used)));
    }
}

/// The capture of a graph of its own that a capture is part of, and where the parts between are.
pub(super) fn ancestry(log: &CaptureLog) -> CudaResult<(CaptureLog, Vec<(GraphKey, Spot)>)> {
    let (mut log, mut parts) = (log.clone(), Vec::new());
    loop {
        match log.place().ok_or_else(has_ended)? {
            CapturePlace::Own => return Ok((log, parts)),
            CapturePlace::Part(outer, stream) => {
                let order = outer.reorders().ok_or_else(has_ended)?;
                parts.push((log.key(), Spot { capture: outer.key(), stream, order }));
                log = outer;
            }
            CapturePlace::Graph => return Err(into_a_graph()),
        }
    }
}

/// What work at `spot` has to do to come after earlier work at `user`.
fn order(parts: &HashMap<GraphKey, Spot>, user: &Spot, spot: &Spot) -> Order {
    let mut user = user;
    loop {
        let (mut at, mut inside) = (spot, false);
        loop {
            if at.capture == user.capture {
                return match at.stream.is_same(&user.stream) {
                    _ if at.order != user.order => Order::None,
                    true => Order::Given,
                    false if inside => Order::None,
                    false => Order::Wait(user.stream.clone()),
                };
            }
            match parts.get(&at.capture) {
                Some(outer) => (at, inside) = (outer, true),
                None => break,
            }
        }
        // It was in a part that the other is not in: it is done when the node of that is.
        match parts.get(&user.capture) {
            Some(outer) => user = outer,
            None => return Order::None,
        }
    }
}

fn wait_for(
    parts: &HashMap<GraphKey, Spot>,
    users: &[Spot],
    spot: &Spot,
    log: &CaptureLog,
    location: &'static Location<'static>,
) -> CudaResult<()> {
    let mut streams: Vec<Stream> = Vec::new();
    for user in users {
        match order(parts, user, spot) {
            Order::Given => {}
            Order::Wait(stream) if streams.iter().any(|known| known.is_same(&stream)) => {}
            Order::Wait(stream) => streams.push(stream),
            Order::None => return Err(unordered()),
        }
    }
    streams.iter().try_for_each(|other| wait(log, &spot.stream, other, location))
}

/// Has a stream of a capture wait for what another one of it has now.
fn wait(
    log: &CaptureLog,
    stream: &Stream,
    other: &Stream,
    location: &'static Location<'static>,
) -> CudaResult<()> {
    // One for each wait, since it is of the context of the other stream.
    let mark = Event::new(other.context())?;
    let raw = mark.as_raw();
    let captured = |mut operation: Operation, on: &Stream, call: &dyn Fn() -> CudaResult<()>| {
        operation.location = location;
        // The log tells events apart by their addresses, so the mark lives as long as that.
        let retain = |owners: &mut Owners| owners.retain(mark.inner());
        log.record(on, operation, retain, call).ok_or_else(has_ended)?
    };
    captured(Operation::record(mark.inner()), other, &|| {
        other.with(|functions, on| -> CUresult {
            // SAFETY: a live event, and a live stream of its context, which the capture records.
            unsafe { (functions.cuEventRecord)(raw, on) }
        })
    })?;
    captured(Operation::wait(mark.inner()), stream, &|| {
        stream.with(|functions, on| -> CUresult {
            // SAFETY: a live event that was recorded in this capture, and a live stream of it.
            unsafe { (functions.cuStreamWaitEvent)(on, raw, 0) }
        })
    })
}

#[cold]
fn unordered() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        "memory",
        "its memory was used before in an order that this place cannot come after, by another stream \
         than that of the body's or child's node, or before dependencies were set: use it once \
         on the stream of that node before, or allocate it in the part that uses it",
    )
}

#[cold]
pub(super) fn into_a_graph() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_NOT_SUPPORTED,
        "capture",
        "it goes into a graph that there is, and nothing orders its uses of a pool behind those \
         of the graph's other nodes: capture all of it into a graph of its own",
    )
}
