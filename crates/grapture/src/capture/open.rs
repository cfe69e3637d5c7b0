//! [`OpenCaptures`]: how many streams of a context are in captures, and who waits for the context.

use std::time::Duration;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{pause, thread_number};

/// How long who waits for waits rests at most before looking again.
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// Keeps apart the captures on the streams of a context and the waits for all of it, which break
/// every capture.
///
/// The thread that captures first has a count of its own, which it changes with a plain store where
/// a capture ends: an atomic exchange there waits for all that the driver has just written. Who
/// ends a capture need not be who began it, so only the sum of the counts means something.
#[derive(Default)]
pub(crate) struct OpenCaptures {
    /// The thread with a count of its own, 0 before there is one.
    home: AtomicU64,
    /// How many streams are in captures of this library, as far as that thread has counted.
    home_open: AtomicUsize,
    /// The same of all other threads.
    open: AtomicUsize,
    /// How many threads wait for the whole context.
    waiting: AtomicUsize,
}

impl OpenCaptures {
    /// Begins a wait for the whole context, unless a stream of it captures. Until the result is
    /// dropped, none begins to.
    pub(crate) fn wait(&self) -> Option<Waiting<'_>> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(self);
        // Sequentially consistent with what is written above, as in `begin`: of a capture that
        // begins and a wait, one sees the other.
        // What began before is in both counts, and what begins now waits: the sum is never too low.
        let home_open = self.home_open.load(Ordering::SeqCst);
        let open = self.open.load(Ordering::SeqCst);
        (home_open.wrapping_add(open) == 0).then_some(waiting)
    }

    /// A stream is about to be captured.
    pub(crate) fn begin(&self) {
        if self.is_home() || self.becomes_home() {
            let open = self.home_open.load(Ordering::Relaxed);
            self.home_open.store(open.wrapping_add(1), Ordering::SeqCst);
        } else {
            self.open.fetch_add(1, Ordering::SeqCst);
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wait_for_waits();
        }
    }

    /// A stream is captured no more.
    #[inline]
    pub(crate) fn end(&self) {
        if self.is_home() {
            let open = self.home_open.load(Ordering::Relaxed);
            self.home_open.store(open.wrapping_sub(1), Ordering::Release);
        } else {
            self.open.fetch_sub(1, Ordering::Release);
        }
    }

    #[inline]
    fn is_home(&self) -> bool {
        self.home.load(Ordering::Relaxed) == thread_number()
    }

    fn becomes_home(&self) -> bool {
        let relaxed = Ordering::Relaxed;
        self.home.compare_exchange(0, thread_number(), relaxed, relaxed).is_ok()
    }

    /// Waits until nobody waits for the context. Whoever comes is refused, so it ends.
    #[cold]
    fn wait_for_waits(&self) {
        let mut rest = Duration::from_micros(1);
        while self.waiting.load(Ordering::SeqCst) > 0 {
            pause(rest);
            rest = (2 * rest).min(LONGEST_PAUSE);
        }
    }
}

/// A thread waits for the whole context.
pub(crate) struct Waiting<'a>(&'a OpenCaptures);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
