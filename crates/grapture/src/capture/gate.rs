//! [`CaptureGate`]: which capture records a stream, and who submits to it now.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use grapture_sys::CUDA_ERROR_ILLEGAL_STATE;

use crate::capture::CaptureLog;
use crate::capture::recording::{Recording, SharedRecording};
use crate::capture::thread_owned::ThreadOwned;
use crate::error::{CudaError, CudaResult};
use crate::graph::GraphKey;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, Within, pause, thread_number};

/// How long who waits for submissions rests at most before looking again.
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// Keeps apart what runs on a stream and what a capture records.
///
/// The driver decides which of the two a call is in the call itself, so whoever submits must know
/// it before and have it stay so. Calls for work that runs are marked, and a capture begins when
/// none is being made. Nothing here is a driver call, and a submission that runs takes no lock.
///
/// Most streams are used by one thread, so the first that submits has a mark of its own, which it
/// takes back with a plain store: an atomic exchange there would wait for all that the driver has
/// just written to the device.
#[derive(Default)]
#[repr(C)] // What most submissions look at comes first, and together.
pub(crate) struct CaptureGate {
    /// Set while a capture records the stream or begins to.
    capturing: AtomicBool,
    /// Whether the home thread makes a submission of work that runs.
    home_submits: AtomicBool,
    /// The thread with that mark of its own, 0 before there is one.
    home: AtomicU64,
    /// How many operations the thread that began the capture has recorded, for the others to know.
    recorded: AtomicUsize,
    /// What the thread records that began the open capture on this stream. It ends the capture
    /// too, so it needs no lock for that.
    own: ThreadOwned<Recording>,
    /// How many submissions of work that runs the other threads are making.
    submitting: AtomicUsize,
    /// Which capture it is. While `capturing` is not set, this says nothing: who ends the capture
    /// that began on the stream leaves it, and takes no lock for it.
    capture: Mutex<Option<Captured>>,
    /// What the other threads record in the capture that began on this stream.
    shared: Mutex<SharedRecording>,
}

/// The capture that records a stream.
enum Captured {
    /// It began on the stream.
    Began(GraphKey),
    /// It began on another one, and the stream joined.
    Joined(CaptureLog),
}

impl CaptureGate {
    /// Whether a capture records the stream.
    #[inline]
    pub(crate) fn is_capturing(&self) -> bool {
        self.capturing.load(Ordering::Acquire)
    }

    /// What this thread records in the open capture that it began on this stream: the way of most
    /// captured operations.
    #[inline]
    pub(crate) fn own(&self) -> &ThreadOwned<Recording> {
        &self.own
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, SharedRecording> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn recorded(&self) -> &AtomicUsize {
        &self.recorded
    }

    /// The capture that records the stream.
    pub(crate) fn log(self: &Arc<Self>) -> Option<CaptureLog> {
        if self.is_capturing() { self.known(&self.lock()) } else { None }
    }

    fn known(self: &Arc<Self>, capture: &Option<Captured>) -> Option<CaptureLog> {
        match capture {
            _ if !self.is_capturing() => None,
            Some(Captured::Began(key)) => Some(CaptureLog::of(*key, self)),
            Some(Captured::Joined(log)) => Some(log.clone()),
            None => None,
        }
    }

    /// Makes one of two calls: `captured` if a capture records the stream, unless it gives none
    /// since the capture has ended; else `eager`, and no capture begins before that returns.
    ///
    /// Neither may come back to the gate: a capture that begins meanwhile waits for them.
    #[inline]
    pub(crate) fn route<R>(
        self: &Arc<Self>,
        captured: impl FnOnce(&CaptureLog) -> Option<R>,
        eager: impl FnOnce() -> R,
    ) -> R {
        let _within = Within::enter(&**self);
        let _running = match self.start() {
            Some(running) => running,
            None => match self.start_after(captured) {
                Ok(running) => running,
                Err(result) => return result,
            },
        };
        eager()
    }

    /// Begins a submission of work that runs; none if a capture records the stream.
    #[inline]
    fn start(&self) -> Option<Running<'_>> {
        // Looked at first: in a capture the marks are left alone.
        if self.is_capturing() {
            return None;
        }
        let running = self.mark();
        // Sequentially consistent with the mark and with `enter`, which sets the flag and then
        // looks at the marks: one of the two sees the other.
        if self.capturing.load(Ordering::SeqCst) { None } else { Some(running) }
    }

    /// Marks that this thread makes a submission of work that runs.
    #[inline]
    fn mark(&self) -> Running<'_> {
        let thread = thread_number();
        let home = self.home.load(Ordering::Relaxed);
        // Set already: this thread is in a submission, and its end takes the mark back.
        if home == thread && !self.home_submits.swap(true, Ordering::SeqCst) {
            return Running { gate: self, home: true };
        }
        self.mark_other(home, thread)
    }

    #[cold]
    fn mark_other(&self, home: u64, thread: u64) -> Running<'_> {
        let claimed = home == 0
            && self.home.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if claimed {
            self.home_submits.store(true, Ordering::SeqCst);
        } else {
            self.submitting.fetch_add(1, Ordering::SeqCst);
        }
        Running { gate: self, home: claimed }
    }

    /// The result of `captured`, or a submission if there is no capture any more.
    fn start_after<R>(
        self: &Arc<Self>,
        captured: impl FnOnce(&CaptureLog) -> Option<R>,
    ) -> Result<Running<'_>, R> {
        let mut capture = self.lock();
        if let Some(log) = self.known(&capture) {
            if let Some(result) = captured(&log) {
                return Err(result);
            }
            // It has ended, and who ended it is about to take the stream out.
            self.clear(&mut capture);
        }
        // No capture begins while the lock is held, nor, from here on, before this is done.
        Ok(self.mark())
    }

    /// Has the capture record the stream if `enter` succeeds, which is the driver call that does
    /// the same in the driver. No submission of work that runs is being made meanwhile, and
    /// whoever comes waits until it is known.
    pub(crate) fn enter<R>(
        &self,
        log: &CaptureLog,
        enter: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        let mut capture = self.lock();
        if self.is_capturing() {
            return Err(CudaError::refused(
                CUDA_ERROR_ILLEGAL_STATE,
                "stream",
                "it is capturing already: end that capture first, capture another stream and \
                 `embed` the graph, or have a part become one node with `Stream::as_child`",
            ));
        }
        self.capturing.store(true, Ordering::SeqCst);
        self.drain();
        let entered = enter();
        match entered {
            // By the key: a gate that held itself would never go.
            Ok(_) if log.began_at(self) => *capture = Some(Captured::Began(log.key())),
            Ok(_) => *capture = Some(Captured::Joined(log.clone())),
            Err(_) => self.clear(&mut capture),
        }
        entered
    }

    /// Takes the stream, which had joined it, out of a capture.
    pub(crate) fn leave(&self, log: &CaptureLog) {
        let mut capture = self.lock();
        if matches!(&*capture, Some(Captured::Joined(own)) if own.key() == log.key()) {
            self.clear(&mut capture);
        }
    }

    /// The capture that began on the stream is over: whoever finds it closed takes it for that.
    /// Called before anybody can begin another one.
    pub(crate) fn end(&self) {
        self.capturing.store(false, Ordering::Release);
    }

    /// Runs `look` with the capture that records the stream, which stays the same meanwhile.
    pub(crate) fn look<R>(self: &Arc<Self>, look: impl FnOnce(Option<&CaptureLog>) -> R) -> R {
        let capture = self.lock();
        look(self.known(&capture).as_ref())
    }

    fn clear(&self, capture: &mut Option<Captured>) {
        *capture = None;
        self.capturing.store(false, Ordering::Release);
    }

    /// Waits until no submission is being made. `capturing` is set, so that no other begins.
    fn drain(&self) {
        let submitting = || {
            self.home_submits.load(Ordering::SeqCst) || self.submitting.load(Ordering::SeqCst) != 0
        };
        // Nobody wakes who waits here: a submission would have to look for that, and this is rare.
        let mut rest = Duration::from_micros(1);
        while submitting() {
            pause(rest);
            rest = (2 * rest).min(LONGEST_PAUSE);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Captured>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A submission of work that runs is being made.
struct Running<'a> {
    gate: &'a CaptureGate,
    /// Whether the mark is the one of the home thread.
    home: bool,
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        // Released, so that who begins a capture sees the call as made.
        if self.home {
            self.gate.home_submits.store(false, Ordering::Release);
        } else {
            self.gate.submitting.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use std::sync::Arc;

    use super::CaptureGate;
    use crate::capture::CaptureLog;
    use crate::graph::GraphKey;

    #[test]
    fn a_capture_begins_when_no_submission_is_being_made() {
        let gate = Arc::new(CaptureGate::default());
        let log = CaptureLog::of(GraphKey::new(), &gate);
        let (inside, until) = (mpsc::channel(), mpsc::channel::<()>());
        let begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let gate = &gate;
            scope.spawn(move || {
                gate.route(
                    |_| None,
                    || {
                        inside.0.send(()).unwrap();
                        until.1.recv().unwrap();
                    },
                );
            });
            inside.1.recv_timeout(Duration::from_secs(10)).unwrap();
            let entered = scope.spawn(|| {
                gate.enter(&log, || {
                    begun.store(true, Ordering::SeqCst);
                    Ok(())
                })
            });
            while !gate.is_capturing() {
                std::thread::yield_now();
            }
            assert!(!begun.load(Ordering::SeqCst));
            until.0.send(()).unwrap();
            entered.join().unwrap().unwrap();
        });
        assert!(gate.route(|_| Some(true), || false));
        // A log that is not open records nothing, and the stream is free again.
        assert!(!gate.route(|_| None, || false));
        assert!(!gate.is_capturing());
    }

    #[test]
    fn no_submission_runs_while_a_capture_is_open() {
        let gate = Arc::new(CaptureGate::default());
        let (open, wrong) = (AtomicBool::new(false), AtomicUsize::new(0));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let right = gate.route(|_| Some(true), || !open.load(Ordering::SeqCst));
                        wrong.fetch_add(usize::from(!right), Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..1_000 {
                let log = CaptureLog::of(GraphKey::new(), &gate);
                gate.enter(&log, || {
                    open.store(true, Ordering::SeqCst);
                    Ok(())
                })
                .unwrap();
                gate.look(|_| open.store(false, Ordering::SeqCst));
                gate.end();
            }
            over.store(true, Ordering::SeqCst);
        });
        assert_eq!(wrong.load(Ordering::SeqCst), 0);
        assert!(!gate.is_capturing());
    }
}
