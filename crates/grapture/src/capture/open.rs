//! [`OpenCaptures`]: how many streams of a context are in captures, and who waits for the context.

use std::time::Duration;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::pause;

/// How long who waits for waits rests at most before looking again.
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// Keeps apart the captures on the streams of a context and the waits for all of it, which break
/// every capture.
#[derive(Default)]
pub(crate) struct OpenCaptures {
    /// How many streams are in captures of this library.
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
        (self.open.load(Ordering::SeqCst) == 0).then_some(waiting)
    }

    /// A stream is about to be captured.
    pub(crate) fn begin(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wait_for_waits();
        }
    }

    /// A stream is captured no more.
    pub(crate) fn end(&self) {
        self.open.fetch_sub(1, Ordering::Release);
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
