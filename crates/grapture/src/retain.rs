//! What a capture retains, and how graphs and executables own it together (O2).

use std::any::Any;
use std::sync::Arc;

use crate::driver::Driver;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult};

use crate::kernel::KernelInner;
use crate::memory::BufferInner;
use crate::pinned::PinnedInner;
use crate::raw_event::RawEvent;
use crate::reclaim::{Deferred, drop_contained};
use crate::stream::Stream;

/// A share in something that a graph's nodes use.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

/// How many of the last owners are compared before one is added again: a chain of operations on
/// the same few buffers then costs no memory for each.
const RECENT: usize = 4;

/// The owners that a capture has gathered.
#[derive(Default)]
pub(crate) struct Owners {
    list: Vec<Owner>,
    recent: [usize; RECENT],
    next: usize,
    pinned: Vec<PinnedUse>,
    /// Whether memory is among them that was allocated in the order of a stream.
    ordered: bool,
}

/// Pinned host memory that a graph uses, and whether the graph writes it.
#[derive(Clone)]
pub(crate) struct PinnedUse {
    pub(crate) memory: Arc<PinnedInner>,
    pub(crate) written: bool,
}

impl Owners {
    /// Keeps `owner` alive.
    #[inline]
    pub(crate) fn retain<T: Any + Send + Sync>(&mut self, owner: &Arc<T>) {
        let address = Arc::as_ptr(owner) as usize;
        if self.recent.contains(&address) {
            return;
        }
        // INVARIANT: `next` is below `RECENT`.
        self.recent[self.next] = address;
        self.next = (self.next + 1) % RECENT;
        self.list.push(owner.clone());
    }

    /// These and the others, which are none then.
    pub(crate) fn with(mut self, others: &mut Owners) -> Owners {
        self.list.append(&mut others.list);
        self.ordered |= std::mem::take(&mut others.ordered);
        others.recent = [0; RECENT];
        for used in others.pinned.drain(..) {
            self.retain_pinned(&used.memory, used.written);
        }
        self
    }

    /// Keeps an allocation of device memory alive.
    #[inline]
    pub(crate) fn retain_memory(&mut self, memory: &Arc<BufferInner>) {
        self.ordered |= memory.is_ordered();
        self.retain(memory);
    }

    /// Makes room for the first owners, so that the first operation need not.
    pub(crate) fn reserve(&mut self) {
        self.list.reserve(2 * RECENT);
    }

    /// Keeps a value alive that nothing else shares.
    pub(crate) fn retain_value<T: Any + Send + Sync>(&mut self, value: T) {
        self.list.push(Arc::new(value));
    }

    /// Keeps pinned memory alive, and has every launch mark it as in use.
    pub(crate) fn retain_pinned(&mut self, memory: &Arc<PinnedInner>, written: bool) {
        if let Some(used) = self.pinned.iter_mut().find(|used| Arc::ptr_eq(&used.memory, memory)) {
            used.written |= written;
            return;
        }
        self.pinned.push(PinnedUse { memory: memory.clone(), written });
    }

    /// Blocks until the memory among the owners is there: a graph may be launched on any stream,
    /// and what was in the order of another one when it was recorded is not in that stream's.
    pub(crate) fn wait_until_ready(&self) -> CudaResult<()> {
        if !self.ordered {
            return Ok(());
        }
        self.list
            .iter()
            .filter_map(|owner| owner.downcast_ref::<BufferInner>())
            .try_for_each(BufferInner::wait_until_ready)
    }
}

/// What a graph owns, shared by the graph and every executable made from it.
#[derive(Clone)]
pub(crate) struct Share {
    owned: Arc<Owned>,
}

struct Owned {
    owners: Vec<Owner>,
    /// Host memory that the graph's copies read or write: each launch marks it as in use (O6).
    pinned: Box<[PinnedUse]>,
}

impl Share {
    pub(crate) fn new(owners: Owners) -> Share {
        let owned = Owned { owners: owners.list, pinned: owners.pinned.into() };
        Share { owned: Arc::new(owned) }
    }

    /// The pinned memory that the graph uses.
    #[inline]
    pub(crate) fn pinned(&self) -> &[PinnedUse] {
        &self.owned.pinned
    }

    /// The kernels among the owners.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &KernelInner> {
        self.owned.owners.iter().filter_map(|owner| owner.downcast_ref())
    }

    /// Lets go of the share after the last launch: on the reclaimer's thread, if there was one.
    pub(crate) fn release(self, driver: &Driver, launched: LastLaunch) {
        match launched {
            LastLaunch::Never => drop_contained(self),
            _ if self.owned.owners.is_empty() && self.owned.pinned.is_empty() => {}
            launched => {
                let after = AfterLaunch { share: Some(self), launched };
                driver.reclaimer().handle().defer(Box::new(after));
            }
        }
    }
}

/// The last launch of an executable. Launches of one never overlap, on whatever streams, so when
/// the last is done all are.
pub(crate) enum LastLaunch {
    /// There was none.
    Never,
    /// On a stream. Nothing marks its end yet: what is recorded there later comes after it.
    On(Stream),
    /// An event is recorded after it.
    Marked(RawEvent),
    /// On a stream that nothing more can be known of.
    Unknown,
}

impl LastLaunch {
    /// Remembers a launch on the stream that was just made.
    #[inline]
    pub(crate) fn note(&mut self, stream: &Stream) {
        match self {
            LastLaunch::On(last) if last == stream => {}
            _ => self.note_other(stream),
        }
    }

    #[cold]
    fn note_other(&mut self, stream: &Stream) {
        if !stream.is_default() {
            *self = LastLaunch::On(stream.clone());
            return;
        }
        // A default stream is another one on another thread, so the event is recorded here and
        // now; the one of the launch before serves again.
        let event = match std::mem::replace(self, LastLaunch::Unknown) {
            LastLaunch::Marked(event) => Ok(event),
            _ => RawEvent::new(stream.context()),
        };
        *self = match event.and_then(|event| event.record(stream).map(|()| event)) {
            Ok(event) => LastLaunch::Marked(event),
            Err(error) => {
                report("cuEventRecord", Err(error));
                LastLaunch::Unknown
            }
        };
    }

    /// Whether the launch is done. Does not block. It is not known while the stream captures.
    fn is_done(&mut self) -> CudaResult<bool> {
        if let LastLaunch::On(stream) = self {
            let marked = stream.outside_capture(|| {
                let event = RawEvent::new(stream.context())?;
                event.record(stream)?;
                Ok(event)
            })?;
            let Some(event) = marked else { return Ok(false) };
            *self = LastLaunch::Marked(event);
        }
        match self {
            LastLaunch::Marked(event) => event.is_complete(),
            LastLaunch::Unknown => Err(CudaError::UnknownError),
            LastLaunch::Never | LastLaunch::On(_) => Ok(true),
        }
    }
}

/// A share that waits for the last launch.
struct AfterLaunch {
    share: Option<Share>,
    launched: LastLaunch,
}

impl Deferred for AfterLaunch {
    fn is_due(&mut self) -> bool {
        match self.launched.is_done() {
            Ok(done) => done,
            // Nothing runs any more in a context that is lost.
            Err(error) if error.is_sticky() => true,
            Err(error) => {
                // It cannot be known when the launch is done: to leak is sound.
                report("cuEventRecord", Err(error));
                std::mem::forget(self.share.take());
                true
            }
        }
    }
}
