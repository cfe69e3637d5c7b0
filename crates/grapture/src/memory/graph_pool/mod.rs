//! [`GraphPool`]: memory that graphs share which never run at once.

mod order;
mod ranges;
mod scratch;
mod turns;

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grapture_sys::{CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_OUT_OF_MEMORY, CUdeviceptr};

use crate::capture::{CaptureLog, has_ended};
use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::memory::BufferInner;
use crate::memory::graph_pool::order::{InCapture, Spot, ancestry};
use crate::memory::graph_pool::turns::LastTurn;
use crate::retain::{Owners, Retain, RetainedKind};
use crate::stream::Stream;

pub(crate) use ranges::Parts;
pub use scratch::Scratch;
pub(crate) use turns::Turns;

/// The driver takes memory of the device in pieces of so many bytes (measured).
const PIECE: usize = 2 << 20;

/// More than so much is not taken ahead.
const MOST_AHEAD: usize = 64 << 20;

/// What an allocation begins at a multiple of, which is what the driver's own begin at.
const ALIGNMENT: usize = 512;

/// Device memory that captures take their scratch from, and that their graphs share: each capture
/// begins with all of it. So any number of graphs, such as one for each size of a batch, need as
/// much as the largest alone. A clone is the same pool.
///
/// Graphs that share a pool never run at once, which the library sees to: each launch records an
/// event, and where the next one is on another stream that waits for it, on the device. What a
/// launch leaves in the memory is gone with the next launch: results belong into buffers.
///
/// The memory is allocated when captures need it, and is freed with the last of the pool and the
/// graphs and executables that use it. A capture that needs a large piece cannot have it in two:
/// capture the largest graph first, or [`reserve`](GraphPool::reserve).
///
/// ```
/// # use grapture::*;
/// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
/// # let context = Context::new(&driver.device(0)?)?;
/// # let stream = Stream::new(&context)?;
/// # let mut out = DeviceBuffer::<u32>::zeroed(&context, 4096)?;
/// let pool = GraphPool::new(&context);
/// let mut graphs = Vec::new();
/// for len in [4096, 2048, 1024] {
///     graphs.push(stream.capture(CaptureMode::ThreadLocal, |capture| {
///         let mut scratch = capture.alloc_scratch::<u32>(&pool, len)?;
///         scratch.fill(len as u32, &stream)?;
///         out.view_mut(..len)?.copy_from(&scratch, &stream)
///     })?.instantiate()?);
/// }
/// for exec in &graphs {
///     exec.launch(&stream)?;
/// }
/// assert_eq!(out.view(1000..1025)?.to_vec(&stream)?[23..], [1024, 2048]);
/// assert_eq!(pool.allocated_bytes(), 2 << 20);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone)]
pub struct GraphPool {
    inner: Arc<PoolInner>,
}

pub(crate) struct PoolInner {
    context: Context,
    /// The most bytes that it takes.
    most: Option<usize>,
    segments: Mutex<Vec<Arc<BufferInner>>>,
    /// The captures that use it now, and some that did.
    captures: Mutex<Vec<Arc<InCapture>>>,
    /// The last launch of a graph that uses it. Locked while one is made.
    last_turn: Mutex<LastTurn>,
}

/// What a graph uses of a pool. It is among the graph's owners, and keeps the pool.
pub(crate) struct PoolUse {
    pool: Arc<PoolInner>,
    parts: Mutex<Parts>,
}

/// An allocation of a pool in a capture. Its drop gives it back for what the capture needs later.
pub(crate) struct Piece {
    capture: Arc<InCapture>,
    number: usize,
    location: &'static Location<'static>,
}

impl GraphPool {
    /// A pool that has nothing yet, and takes what is needed. Makes no driver call.
    pub fn new(context: &Context) -> GraphPool {
        GraphPool::of(context, None)
    }

    /// A pool that takes at most so many bytes.
    pub fn bounded(context: &Context, bytes: usize) -> GraphPool {
        GraphPool::of(context, Some(bytes))
    }

    fn of(context: &Context, most: Option<usize>) -> GraphPool {
        let context = context.clone();
        let (segments, captures) = (Mutex::default(), Mutex::default());
        let last_turn = Mutex::default();
        let inner = PoolInner { context, most, segments, captures, last_turn };
        GraphPool { inner: Arc::new(inner) }
    }

    /// Has the pool take a piece of so many bytes now, unless it has one. May be called while
    /// captures are open.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](CudaError::OutOfMemory). [`Refused`](CudaError::Refused): more than the pool
    /// is to take at most.
    #[doc(alias = "cuMemAlloc")]
    pub fn reserve(&self, bytes: usize) -> CudaResult<()> {
        let mut segments = self.inner.segments();
        if bytes > 0 && segments.iter().all(|segment| segment.bytes() < bytes) {
            self.inner.grow(&mut segments, bytes)?;
        }
        Ok(())
    }

    /// How much memory the pool has taken, in bytes.
    pub fn allocated_bytes(&self) -> usize {
        total(&self.inner.segments())
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }
}

fn total(segments: &[Arc<BufferInner>]) -> usize {
    segments.iter().map(|segment| segment.bytes()).sum()
}

impl PoolInner {
    fn segments(&self) -> MutexGuard<'_, Vec<Arc<BufferInner>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a segment with room for so many bytes: as much as there is already, if that is more,
    /// so that many small allocations need few of them.
    fn grow(&self, segments: &mut Vec<Arc<BufferInner>>, bytes: usize) -> CudaResult<()> {
        let has = total(segments);
        let left = self.most.map_or(usize::MAX, |most| most.saturating_sub(has));
        if bytes > left {
            return Err(exhausted(bytes, has, has.saturating_add(left)));
        }
        let wanted = bytes.max(has.min(MOST_AHEAD)).checked_next_multiple_of(PIECE);
        let ahead = wanted.unwrap_or(bytes).min(left);
        let made = BufferInner::alloc(&self.context, ahead).or_else(|error| match error {
            CudaError::OutOfMemory if ahead > bytes => BufferInner::alloc(&self.context, bytes),
            error => Err(error),
        })?;
        segments.push(Arc::new(made));
        Ok(())
    }

    /// What an open capture of a graph of its own uses of the pool.
    fn in_capture(&self, root: &CaptureLog) -> Arc<InCapture> {
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = captures.iter().find(|known| known.is_of(root)) {
            return known.clone();
        }
        captures.retain(|capture| capture.is_open());
        let new = Arc::new(InCapture::new(root.clone()));
        captures.push(new.clone());
        new
    }

    /// Takes memory for what the capture records from now on, in a body or out of it.
    fn alloc(
        self: &Arc<Self>,
        log: &CaptureLog,
        stream: &Stream,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> CudaResult<(CUdeviceptr, Piece)> {
        let room = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(bytes);
        let capture = self.in_capture(&ancestry(log)?.0);
        let (_, spot) = capture.spot(stream)?;
        let (address, number) = self.place(&capture, log, &spot, room, location)?;
        Ok((address, Piece { capture, number, location }))
    }

    fn place(
        self: &Arc<Self>,
        capture: &InCapture,
        log: &CaptureLog,
        spot: &Spot,
        room: usize,
        location: &'static Location<'static>,
    ) -> CudaResult<(CUdeviceptr, usize)> {
        let mut segments = self.segments();
        let mut state = capture.lock();
        let place = |segments: &[Arc<BufferInner>]| {
            let sizes: Vec<_> = segments.iter().map(|segment| segment.bytes()).collect();
            state.ranges.place(&sizes, room, |user| state.can_follow(user, spot))
        };
        let part = match place(&segments) {
            Some(part) => part,
            None => {
                self.grow(&mut segments, room)?;
                // INVARIANT: the new segment has room for it.
                place(&segments).expect("a segment was taken for it")
            }
        };
        let used = match state.use_of(log) {
            Some(used) => used,
            None => {
                let used = Arc::new(PoolUse { pool: self.clone(), parts: Mutex::default() });
                let keep = |owners: &mut Owners| {
                    owners.come_from(location);
                    owners.retain_pool(&used);
                };
                log.retain(keep).ok_or_else(has_ended)?;
                state.keep(log, &used);
                used
            }
        };
        used.parts().add(&part);
        // INVARIANT: the part is of a segment that there is.
        let address = segments[part.segment].address() + part.bytes.start as u64;
        Ok((address, state.ranges.take(part)))
    }
}

impl PoolUse {
    pub(crate) fn pool(&self) -> &Arc<PoolInner> {
        &self.pool
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what the graph uses of the pool to that of others.
    pub(crate) fn add_to(&self, parts: &mut Parts) {
        parts.extend(&self.parts());
    }
}

impl Retain for PoolUse {
    fn kind(&self) -> RetainedKind {
        RetainedKind::PoolMemory
    }

    fn bytes(&self) -> usize {
        self.parts().bytes()
    }
}

impl Piece {
    pub(crate) fn note_use(&self, stream: &Stream) -> CudaResult<()> {
        self.capture.note_use(self.number, stream, self.location)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.capture.lock().ranges.free(self.number);
    }
}

/// A graph that is to be a node of a capture, with the pools that it uses: the node takes of them
/// what the graph's own capture took.
pub(crate) struct Embedding {
    /// What it takes of a pool in the capture, and where the node is.
    taken: Vec<(Arc<InCapture>, Parts, Spot)>,
}

impl Embedding {
    /// Prepares for the node on the stream: it comes after all that has used the memory, and what
    /// uses it now bars it.
    #[track_caller]
    pub(crate) fn prepare<'a>(
        pools: impl Iterator<Item = &'a Arc<PoolUse>>,
        stream: &Stream,
    ) -> CudaResult<Embedding> {
        let (location, mut taken) = (Location::caller(), Vec::new());
        for used in pools {
            let log = stream.capture_log().ok_or_else(has_ended)?;
            let capture = used.pool.in_capture(&ancestry(&log)?.0);
            let (log, spot) = capture.spot(stream)?;
            let parts = used.parts().clone();
            let state = capture.lock();
            for part in parts.iter() {
                if state.ranges.is_taken(part) {
                    return Err(in_use());
                }
                state.come_after(part, &spot, &log, location)?;
            }
            drop(state);
            taken.push((capture, parts, spot));
        }
        Ok(Embedding { taken })
    }

    /// The node is there.
    pub(crate) fn made(self) {
        for (capture, parts, spot) in self.taken {
            let mut state = capture.lock();
            parts.iter().for_each(|part| state.ranges.used(part, vec![spot.clone()]));
        }
    }
}

#[cold]
fn in_use() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "graph",
        "it uses the memory of a pool that scratch of this capture is in: drop that first, or \
         give the two pools of their own",
    )
}

#[cold]
fn exhausted(bytes: usize, has: usize, most: usize) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_OUT_OF_MEMORY,
        "pool",
        format!(
            "{bytes} bytes more are needed, and of the {most} that it may take it has {has}, none \
             of them free for so much: drop scratch that is not needed any more, or bound it less"
        ),
    )
}

impl fmt::Debug for GraphPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, most) = (self.allocated_bytes(), self.inner.most);
        f.debug_struct("GraphPool").field("allocated_bytes", &bytes).field("most", &most).finish()
    }
}
