//! [`Retired`]: what an executable no longer uses and a launch in flight may (O4).

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grapture_sys::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};
use crate::memory::BufferInner;
use crate::raw_event::RawEvent;
use crate::reclaim::{Deferred, drop_contained};
use crate::retain::{LastLaunch, Owned, Owners, Share};
use crate::stream::Stream;

/// How many parts wait at most before the thread that adds another looks itself whether some can
/// be let go of: the reclaimer's thread may be slow, or not run.
const MANY: usize = 512;

/// What was replaced in one executable while launches of it may have been in flight.
///
/// The launches of one executable follow one another, so the end of the last that may use a part
/// is the end of all that may. The parts wait in two groups: those for whose launches an event is
/// recorded, and those that came since, for which one is recorded when the first group is gone.
/// So however many parts there are, there are two driver calls for a group of them, made by the
/// reclaimer's thread, and none on the way of an update.
#[derive(Clone, Default)]
pub(crate) struct Retired {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// The parts that came since the event was recorded.
    parts: Vec<Part>,
    /// The last launch that may use them.
    last: LastLaunch,
    /// The parts that wait for the event.
    marked: Vec<Part>,
    /// None: nothing waits for it, and nothing that was launched before uses anything here.
    event: Option<Arc<RawEvent>>,
    /// Whether the reclaimer looks after this.
    looked_after: bool,
}

/// Keeps what an operation uses until it, and all that its stream was given before, is done: for what
/// no drop of its own waits for.
pub(crate) fn keep_until_done(owners: Owners, stream: &Stream) {
    let mut used = LastLaunch::Never;
    used.note(stream);
    let used_by = Retired::default();
    used_by.launched(used);
    used_by.add(Part::All { _owned: Share::new(owners) }, stream.driver());
}

/// Something that was replaced: it is only dropped.
pub(crate) enum Part {
    /// All that the executable owned.
    All { _owned: Share },
    /// What one node used.
    Node { _owned: Arc<Owned> },
    /// What a slot was set to.
    Memory { _memory: Arc<BufferInner> },
}

impl Retired {
    /// Notes the last launch so far: what is replaced from now on may be used by it.
    pub(crate) fn launched(&self, last: LastLaunch) {
        let mut waiting = self.lock();
        match last {
            LastLaunch::Never => {}
            last => waiting.last = last,
        }
    }

    /// Lets go of a part when the launches noted so far are done.
    pub(crate) fn add(&self, part: Part, driver: &Driver) {
        let mut waiting = self.lock();
        if let (LastLaunch::Never, None) = (&waiting.last, &waiting.event) {
            drop(waiting);
            drop_contained(part);
            return;
        }
        match waiting.last {
            // Nothing was launched since the event was recorded.
            LastLaunch::Never => waiting.marked.push(part),
            _ => waiting.parts.push(part),
        }
        let many = waiting.parts.len() >= MANY;
        let done = if many { waiting.take_done() } else { Vec::new() };
        let hand_over = !mem::replace(&mut waiting.looked_after, true);
        drop(waiting);
        let_go(done);
        if hand_over {
            driver.reclaimer().handle().defer(Box::new(LookAfter(self.clone())));
        }
    }

    /// An event that is reached when the launches noted so far are done. None: they are.
    ///
    /// Refused while the stream of the last one captures: nothing can be recorded there. Refused as
    /// well if nothing is known of it: what is launched next could not come after it.
    pub(crate) fn end_of_launches(&self) -> CudaResult<Option<Arc<RawEvent>>> {
        let mut waiting = self.lock();
        let last = mem::take(&mut waiting.last);
        let unmarked = last.clone();
        match last.marked() {
            Ok(LastLaunch::Never) => Ok(waiting.event.clone()),
            Ok(LastLaunch::Marked(event)) => {
                waiting.last = LastLaunch::Marked(event.clone());
                Ok(Some(event))
            }
            Ok(last) => {
                let refusal = unmarkable(&last);
                waiting.last = last;
                Err(refusal)
            }
            Err(error) => {
                waiting.last = unmarked;
                Err(error)
            }
        }
    }

    /// Whether the launches noted so far are done.
    pub(crate) fn is_done(&self) -> CudaResult<bool> {
        let mut waiting = self.lock();
        let waiting = &mut *waiting;
        match (&mut waiting.last, &waiting.event) {
            (LastLaunch::Never, Some(event)) => event.is_complete(),
            (last, _) => last.is_done(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Takes out what no launch can use any more. Does not block.
    fn take_done(&mut self) -> Vec<Part> {
        let mut done = self.take_marked();
        if self.event.is_none() && !self.parts.is_empty() {
            done.append(&mut self.mark());
            done.append(&mut self.take_marked());
        }
        done
    }

    /// Takes out the parts that wait for the event, if it is reached.
    fn take_marked(&mut self) -> Vec<Part> {
        let Some(event) = &self.event else { return Vec::new() };
        // A second try: an end that is not known is a leak.
        match event.is_complete().or_else(|_| event.is_complete()) {
            Ok(false) => return Vec::new(),
            Ok(true) => self.event = None,
            Err(error) => {
                self.event = None;
                let marked = mem::take(&mut self.marked);
                return self.after_failure(marked, error);
            }
        }
        mem::take(&mut self.marked)
    }

    /// Records an event after the last launch, for the parts that came since the one before; not
    /// while its stream captures. Gives what can be let go of at once.
    fn mark(&mut self) -> Vec<Part> {
        match mem::take(&mut self.last).marked() {
            Ok(LastLaunch::Marked(event)) => {
                self.event = Some(event);
                self.marked = mem::take(&mut self.parts);
                Vec::new()
            }
            Ok(LastLaunch::Unknown) => {
                let parts = mem::take(&mut self.parts);
                self.after_failure(parts, CudaError::UnknownError)
            }
            Ok(last) => {
                self.last = last;
                Vec::new()
            }
            Err(error) => {
                let parts = mem::take(&mut self.parts);
                self.after_failure(parts, error)
            }
        }
    }

    /// What of these can be let go of although it cannot be known any more when the launches are
    /// done: all in a context that is lost, where nothing runs any more. Else to leak is sound.
    fn after_failure(&mut self, parts: Vec<Part>, error: CudaError) -> Vec<Part> {
        if error.is_sticky() {
            return parts;
        }
        report("cuEventRecord", Err(error));
        mem::forget(parts);
        if let LastLaunch::Never = self.last {
            // The same launches may use what is replaced later.
            self.last = LastLaunch::Unknown;
        }
        Vec::new()
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.marked.is_empty()
    }
}

fn let_go(parts: Vec<Part>) {
    parts.into_iter().for_each(drop_contained);
}

#[cold]
fn unmarkable(last: &LastLaunch) -> CudaError {
    let problem = match last {
        LastLaunch::On(_) => {
            "it would be made anew, and the stream of its last launch is capturing, so that the end \
             of that launch cannot be marked: update it before the capture begins or after it has \
             ended"
        }
        _ => {
            "it would be made anew, and the end of its last launch could not be marked: launch it \
             again first, or drop it and instantiate the graph"
        }
    };
    CudaError::refused(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "exec", problem)
}

/// The reclaimer's part.
struct LookAfter(Retired);

impl Deferred for LookAfter {
    fn is_due(&mut self) -> bool {
        let mut waiting = self.0.lock();
        let done = waiting.take_done();
        let due = waiting.is_empty();
        waiting.looked_after = !due;
        drop(waiting);
        let_go(done);
        due
    }
}
