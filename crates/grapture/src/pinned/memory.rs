//! [`PinnedInner`]: page-locked memory, and who uses it now (O6).

use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use grapture_sys::{CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::host_function;
use crate::raw_event::RawEvent;
use crate::reclaim::{put_off, puts_off, release_elsewhere};
use crate::retain::PinnedUse;
use crate::stream::Stream;
use crate::sync::thread_number;

/// From how many streams on the idle ones are taken off the list before another is put on it.
const PRUNE_FROM: usize = 8;

/// An allocation of page-locked host memory.
///
/// The host and the device exclude each other at run time. The host takes the memory by
/// [`host_read`](PinnedInner::host_read) or [`host_write`](PinnedInner::host_write), which wait
/// until the device is done. The device takes it by a [`Submission`], which lives over the driver
/// call that submits the work, and then leaves the stream on the list of those to wait for.
pub(crate) struct PinnedInner {
    pointer: NonNull<u8>,
    bytes: usize,
    context: Context,
    state: Mutex<PinnedState>,
    /// Signalled when a submission ends.
    submitted: Condvar,
}

/// What the host wants to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

#[derive(Default)]
struct PinnedState {
    host_readers: usize,
    host_writer: bool,
    /// Submissions that are being made: their work is on no stream yet that could be waited for.
    submitting_reads: usize,
    submitting_writes: usize,
    /// The streams on which work with the memory may not be done.
    pending: Vec<Pending>,
    next_turn: u64,
}

#[derive(Clone)]
struct Pending {
    stream: Stream,
    /// Of a default stream, which is another one on each thread: recorded behind the work, on the
    /// thread that submitted it. A wait for the stream itself, or for the context, would break
    /// captures that begin meanwhile.
    mark: Option<Mark>,
    written: bool,
    /// Changes with each submission, so that whoever has waited for one knows it from a later one.
    turn: u64,
}

// SAFETY: the memory belongs to no thread: the driver allocates and frees it on any.
unsafe impl Send for PinnedInner {}
// SAFETY: all fields but the mutex are constant. The memory itself is only reached through the
// guards of `PinnedBuffer`, which follow `state`.
unsafe impl Sync for PinnedInner {}

impl PinnedInner {
    /// Allocates. The contents are what the driver leaves there.
    pub(crate) fn alloc(context: &Context, bytes: usize) -> CudaResult<PinnedInner> {
        let mut raw = ptr::null_mut();
        if bytes > 0 {
            context.driver().with_room(|| {
                context.enter_relaxed(|functions| {
                    // SAFETY: the out-pointer is a live local; the context is current.
                    check(unsafe { (functions.cuMemHostAlloc)(&mut raw, bytes, 0) })
                })
            })?;
        }
        Ok(PinnedInner {
            // The allocation of no bytes stands at an address that every type can stand at.
            pointer: NonNull::new(raw.cast()).unwrap_or(DANGLING),
            bytes,
            context: context.clone(),
            state: Mutex::default(),
            submitted: Condvar::new(),
        })
    }

    #[inline]
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Begins a launch of a graph that uses all of `uses`: refused if the host holds one of them.
    /// The launch is made while the result lives.
    pub(crate) fn use_all<'a>(
        uses: &'a [PinnedUse],
        stream: &'a Stream,
    ) -> CudaResult<Submissions<'a>> {
        // What has begun is finished by the drop, also if a later one is refused.
        let mut begun = Submissions { uses: &[], stream };
        for (index, used) in uses.iter().enumerate() {
            used.memory.begin(used.written)?;
            begun.uses = uses.get(..=index).unwrap_or(uses);
        }
        Ok(begun)
    }

    /// Begins the submission of one operation; refused if the host holds the memory.
    pub(crate) fn submit<'a>(
        memory: &'a Arc<PinnedInner>,
        written: bool,
        stream: &'a Stream,
    ) -> CudaResult<Submission<'a>> {
        memory.begin(written)?;
        Ok(Submission { memory, written, stream, captured: false })
    }

    fn begin(&self, written: bool) -> CudaResult<()> {
        let mut state = self.lock();
        if state.host_writer || written && state.host_readers > 0 {
            return Err(held_by_host(state.host_writer));
        }
        if written {
            state.submitting_writes += 1;
        } else {
            state.submitting_reads += 1;
        }
        Ok(())
    }

    /// Ends a submission. With a stream: work that uses the memory may be on it.
    fn finish(&self, written: bool, stream: Option<&Stream>) {
        let mut state = self.lock();
        if written {
            state.submitting_writes -= 1;
        } else {
            state.submitting_reads -= 1;
        }
        if let Some(stream) = stream {
            state.mark(stream, written);
        }
        drop(state);
        self.submitted.notify_all();
    }

    /// Takes the memory for the host to read, once the device writes it no more.
    pub(crate) fn host_read(&self, wait: bool) -> CudaResult<()> {
        self.host_take(wait, Access::Read)
    }

    /// Takes the memory for the host to write, once the device uses it no more.
    pub(crate) fn host_write(&self, wait: bool) -> CudaResult<()> {
        self.host_take(wait, Access::Write)
    }

    pub(crate) fn host_read_done(&self) {
        self.lock().host_readers -= 1;
    }

    pub(crate) fn host_write_done(&self) {
        self.lock().host_writer = false;
    }

    fn host_take(&self, wait: bool, access: Access) -> CudaResult<()> {
        let mut state = self.lock();
        loop {
            if state.submits_against(access) {
                if !wait {
                    return Err(CudaError::NotReady);
                }
                state = self.submitted.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let in_the_way: Vec<Pending> = state
                .pending
                .iter()
                .filter(|pending| pending.written || access == Access::Write)
                .cloned()
                .collect();
            if in_the_way.is_empty() {
                match access {
                    Access::Read => state.host_readers += 1,
                    Access::Write => state.host_writer = true,
                }
                return Ok(());
            }
            // No lock over a wait: what runs meanwhile may submit with this memory.
            drop(state);
            for pending in &in_the_way {
                pending.settle(wait)?;
            }
            state = self.lock();
            state.pending.retain(|now| in_the_way.iter().all(|done| done.turn != now.turn));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PinnedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Aligned for every type that `PinnedBuffer` takes.
const DANGLING: NonNull<u8> = match NonNull::new(ptr::without_provenance_mut(super::MAX_ALIGN)) {
    Some(pointer) => pointer,
    None => NonNull::dangling(),
};

impl PinnedState {
    fn mark(&mut self, stream: &Stream, written: bool) {
        self.next_turn += 1;
        let turn = self.next_turn;
        let thread = stream.is_default().then(thread_number);
        let same = self.pending.iter_mut().find(|pending| pending.is_of(stream, thread));
        if let Some(pending) = same {
            if let Some(mark) = &mut pending.mark {
                mark.record(stream);
            }
            pending.written |= written;
            pending.turn = turn;
            return;
        }
        let mark = thread.map(|thread| Mark::new(stream, thread));
        // A buffer that the host never looks at must not gather every stream of the program.
        if self.pending.len() >= PRUNE_FROM && self.pending.len().is_power_of_two() {
            self.pending.retain(|pending| pending.settle(false).is_err());
        }
        self.pending.push(Pending { stream: stream.clone(), mark, written, turn });
    }

    /// Whether a submission is being made that conflicts with what the host wants.
    fn submits_against(&self, access: Access) -> bool {
        self.submitting_writes > 0 || access == Access::Write && self.submitting_reads > 0
    }
}

/// The end of work on a thread's default stream.
#[derive(Clone)]
struct Mark {
    thread: u64,
    /// None if it could not be made or recorded.
    event: Option<Arc<RawEvent>>,
}

impl Mark {
    /// Records one behind what the stream has now, on this thread.
    fn new(stream: &Stream, thread: u64) -> Mark {
        let event = RawEvent::new(stream.context()).ok().map(Arc::new);
        let mut mark = Mark { thread, event };
        mark.record(stream);
        mark
    }

    /// Records it again, unless the stream captures: then nothing was submitted that runs. Whoever
    /// waits for it now may wait for the new work too.
    fn record(&mut self, stream: &Stream) {
        self.event.take_if(|event| stream.outside_capture(|| event.record(stream)).is_err());
    }
}

impl Pending {
    fn is_of(&self, stream: &Stream, thread: Option<u64>) -> bool {
        self.stream.is_same(stream) && self.mark.as_ref().map(|mark| mark.thread) == thread
    }

    /// Finds the work on the stream done: waits for it, or with `wait` false answers
    /// [`CudaError::NotReady`] if it is not.
    fn settle(&self, wait: bool) -> CudaResult<()> {
        let idle = match &self.mark {
            Some(mark) => return self.settle_marked(mark, wait),
            None if wait => return self.stream.finish()?.ok_or_else(stream_captures),
            None => self.stream.poll()?.ok_or_else(stream_captures)?,
        };
        if idle { Ok(()) } else { Err(CudaError::NotReady) }
    }

    fn settle_marked(&self, mark: &Mark, wait: bool) -> CudaResult<()> {
        let done = match &mark.event {
            Some(event) if wait => return event.synchronize(),
            Some(event) => event.is_complete()?,
            // Which stream it was is not known here: the whole context is waited for.
            None if wait => {
                let context = self.stream.context();
                return context.driver().relaxed(|_| context.finish());
            }
            None => false,
        };
        if done { Ok(()) } else { Err(CudaError::NotReady) }
    }
}

/// A submission of one operation that uses pinned memory. The driver call is made while it lives.
#[must_use = "the driver call is made while it lives"]
pub(crate) struct Submission<'a> {
    memory: &'a PinnedInner,
    written: bool,
    stream: &'a Stream,
    captured: bool,
}

impl Submission<'_> {
    /// The operation was recorded by a capture: nothing runs now, the graph's launches do.
    pub(crate) fn captured(&mut self) {
        self.captured = true;
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        self.memory.finish(self.written, (!self.captured).then_some(self.stream));
    }
}

/// The submission of a graph. The launch is made while it lives.
#[must_use = "the launch is made while it lives"]
pub(crate) struct Submissions<'a> {
    uses: &'a [PinnedUse],
    stream: &'a Stream,
}

impl Drop for Submissions<'_> {
    fn drop(&mut self) {
        for used in self.uses {
            used.memory.finish(used.written, Some(self.stream));
        }
    }
}

#[cold]
fn held_by_host(writes: bool) -> CudaError {
    let problem = if writes {
        "the host writes it: drop its `PinnedWrite` before work that uses it is submitted"
    } else {
        "the host reads it: drop its `PinnedRead` before work that writes it is submitted"
    };
    CudaError::refused(CUDA_ERROR_ILLEGAL_STATE, "pinned", problem)
}

#[cold]
fn stream_captures() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "pinned",
        "work that uses it is on a stream that is capturing now, and waiting for that would \
         invalidate the capture: end the capture first, or take the memory before it begins",
    )
}

impl PinnedInner {
    /// What is to be released, out of an allocation that is dropped.
    fn take(&mut self) -> PinnedInner {
        PinnedInner {
            pointer: self.pointer,
            bytes: self.bytes,
            context: self.context.clone(),
            state: mem::take(&mut self.state),
            submitted: Condvar::new(),
        }
    }
}

impl Drop for PinnedInner {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        if host_function::is_running() {
            let taken = self.take();
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        if puts_off() {
            let taken = self.take();
            put_off(&self.context, taken);
            return;
        }
        // The driver was seen to wait in the release for all work in flight (13.0), but NVIDIA
        // does not promise it, so the known streams are waited for. What fails here is earlier
        // work, and then nothing of it runs any more.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for pending in state.pending.drain(..) {
            let _ = pending.settle(true);
        }
        let raw = self.pointer.as_ptr().cast();
        // SAFETY: made by `cuMemHostAlloc`, and this is the last handle: no guard of the host
        // borrows it, no graph that can run holds it (O2), and eager work is done (above).
        let code =
            self.context.driver().relaxed(|functions| unsafe { (functions.cuMemFreeHost)(raw) });
        report("cuMemFreeHost", check(code));
    }
}

impl fmt::Debug for PinnedInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedInner")
            .field("pointer", &self.pointer)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use grapture_sim::SimConfig;

    use super::{PRUNE_FROM, PinnedInner};
    use crate::context::Context;
    use crate::driver::Driver;
    use crate::error::CudaError;
    use crate::stream::Stream;

    fn memory() -> (Context, Arc<PinnedInner>) {
        let driver = Driver::from(grapture_sim::driver(SimConfig::default()));
        let context = Context::new(&driver.device(0).unwrap()).unwrap();
        let memory = Arc::new(PinnedInner::alloc(&context, 16).unwrap());
        (context, memory)
    }

    /// Between the check and the driver call no stream could be waited for yet.
    #[test]
    fn sim_the_host_waits_for_a_submission_that_is_being_made() {
        let (context, memory) = memory();
        let stream = Stream::new(&context).unwrap();
        let reads = PinnedInner::submit(&memory, false, &stream).unwrap();
        assert_eq!(memory.host_write(false), Err(CudaError::NotReady));
        memory.host_read(false).unwrap();
        memory.host_read_done();
        drop(reads);

        let writes = PinnedInner::submit(&memory, true, &stream).unwrap();
        assert_eq!(memory.host_read(false), Err(CudaError::NotReady));
        assert_eq!(memory.host_write(false), Err(CudaError::NotReady));
        thread::scope(|scope| {
            let read = scope.spawn(|| memory.host_read(true));
            drop(writes);
            read.join().unwrap().unwrap();
        });
        memory.host_read_done();
        memory.host_write(false).unwrap();
        assert!(PinnedInner::submit(&memory, false, &stream).is_err());
        memory.host_write_done();
    }

    #[test]
    fn sim_a_refused_graph_leaves_no_submission() {
        use crate::retain::PinnedUse;

        let (context, first) = memory();
        let second = Arc::new(PinnedInner::alloc(&context, 16).unwrap());
        let stream = Stream::new(&context).unwrap();
        let uses =
            [&first, &second].map(|memory| PinnedUse { memory: memory.clone(), written: true });
        second.host_read(false).unwrap();
        assert!(PinnedInner::use_all(&uses, &stream).is_err());
        first.host_write(false).unwrap();
        first.host_write_done();
        second.host_read_done();
        drop(PinnedInner::use_all(&uses, &stream).unwrap());
        first.host_write(false).unwrap();
    }

    #[test]
    fn sim_idle_streams_are_not_gathered() {
        let (context, memory) = memory();
        for _ in 0..10 * PRUNE_FROM {
            let stream = Stream::new(&context).unwrap();
            drop(PinnedInner::submit(&memory, false, &stream).unwrap());
        }
        assert!(memory.lock().pending.len() <= PRUNE_FROM);
        let stream = Stream::new(&context).unwrap();
        for _ in 0..10 {
            drop(PinnedInner::submit(&memory, false, &stream).unwrap());
        }
        let same = memory.lock().pending.iter().filter(|pending| pending.stream == stream).count();
        assert_eq!(same, 1);
    }
}
