//! [`CaptureGate`]: which capture records a stream, and who submits to it now.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use grapture_sys::CUDA_ERROR_ILLEGAL_STATE;
use spin::Yield;
use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::capture::{CaptureLog, Recording};
use crate::error::{CudaError, CudaResult};

/// Set while a capture records the stream or begins to; the low bits of the word count.
const CAPTURING: usize = 1 << (usize::BITS - 1);
/// Set with it if the capture began on this stream.
const ORIGIN: usize = 1 << (usize::BITS - 2);

/// The lock on what a capture records.
pub(crate) type RecordingGuard<'a> = SpinMutexGuard<'a, Recording>;

/// Keeps apart what runs on a stream and what a capture records.
///
/// The driver decides which of the two a call is in the call itself, so whoever submits must know
/// it before and have it stay so. Calls for work that runs are counted, and a capture begins when
/// none is being made; calls for a capture are made with its log's lock held. Nothing here is a
/// driver call, and a submission that runs takes no lock.
#[derive(Default)]
pub(crate) struct CaptureGate {
    /// How many submissions of work that runs are being made, and `CAPTURING`.
    state: AtomicUsize,
    capture: Mutex<Option<Arc<CaptureLog>>>,
    /// What the capture that began on this stream records.
    ///
    /// Held for a driver call of some 0.3 µs at a time. Two threads that submit to one capture at
    /// once are rare, and a lock that need not know of sleepers is given back without an atomic
    /// exchange: a sixth of what the library adds to a captured operation.
    recording: SpinMutex<Recording, Yield>,
    /// For who waits until no submission is being made.
    draining: Mutex<()>,
    drained: Condvar,
}

impl CaptureGate {
    /// Whether a capture records the stream.
    #[inline]
    pub(crate) fn is_capturing(&self) -> bool {
        self.state.load(Ordering::Acquire) & CAPTURING != 0
    }

    /// What the capture records that began on this stream, if one is open: the way of most
    /// captured operations, with one lock.
    #[inline]
    pub(crate) fn own_recording(&self) -> Option<RecordingGuard<'_>> {
        if self.state.load(Ordering::Acquire) & ORIGIN == 0 {
            return None;
        }
        let recording = self.recording();
        if recording.is_open() { Some(recording) } else { None }
    }

    #[inline]
    pub(crate) fn recording(&self) -> RecordingGuard<'_> {
        self.recording.lock()
    }

    /// The capture that records the stream.
    pub(crate) fn log(&self) -> Option<Arc<CaptureLog>> {
        if self.is_capturing() { self.lock().clone() } else { None }
    }

    /// Makes one of two calls: `captured` if a capture records the stream, unless it gives none
    /// since the capture has ended; else `eager`, and no capture begins before that returns.
    ///
    /// Neither may come back to the gate: a capture that begins meanwhile waits for them.
    #[inline]
    pub(crate) fn route<R>(
        &self,
        captured: impl FnOnce(&Arc<CaptureLog>) -> Option<R>,
        eager: impl FnOnce() -> R,
    ) -> R {
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
        // Looked at first: in a capture the count is left alone.
        if self.is_capturing() {
            return None;
        }
        let before = self.state.fetch_add(1, Ordering::Acquire);
        let running = Running(self);
        if before & CAPTURING == 0 { Some(running) } else { None }
    }

    /// The result of `captured`, or a submission if there is no capture any more.
    fn start_after<R>(
        &self,
        captured: impl FnOnce(&Arc<CaptureLog>) -> Option<R>,
    ) -> Result<Running<'_>, R> {
        let mut capture = self.lock();
        if let Some(log) = capture.as_ref() {
            if let Some(result) = captured(log) {
                return Err(result);
            }
            // It has ended, and who ended it is about to take the stream out.
            self.clear(&mut capture);
        }
        // No capture begins while the lock is held, nor, from here on, before this is done.
        self.state.fetch_add(1, Ordering::Acquire);
        Ok(Running(self))
    }

    /// Has the capture record the stream if `enter` succeeds, which is the driver call that does
    /// the same in the driver. No submission of work that runs is being made meanwhile, and
    /// whoever comes waits until it is known.
    pub(crate) fn enter<R>(
        &self,
        log: &Arc<CaptureLog>,
        enter: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        let mut capture = self.lock();
        if capture.is_some() {
            return Err(CudaError::refused(
                CUDA_ERROR_ILLEGAL_STATE,
                "stream",
                "it is capturing already: end that capture first, or capture another stream",
            ));
        }
        self.state.fetch_or(CAPTURING, Ordering::AcqRel);
        self.drain();
        let entered = enter();
        match entered {
            Ok(_) => {
                if log.began_on(self) {
                    self.state.fetch_or(ORIGIN, Ordering::Release);
                }
                *capture = Some(log.clone());
            }
            Err(_) => self.clear(&mut capture),
        }
        entered
    }

    /// Takes the stream out of the capture that `log` belongs to.
    pub(crate) fn leave(&self, log: &CaptureLog) {
        let mut capture = self.lock();
        if capture.as_ref().is_some_and(|own| std::ptr::eq(Arc::as_ptr(own), log)) {
            self.clear(&mut capture);
        }
    }

    /// Runs `look` with the capture that records the stream, which stays the same meanwhile.
    pub(crate) fn look<R>(&self, look: impl FnOnce(Option<&Arc<CaptureLog>>) -> R) -> R {
        look(self.lock().as_ref())
    }

    fn clear(&self, capture: &mut Option<Arc<CaptureLog>>) {
        *capture = None;
        self.state.fetch_and(!(CAPTURING | ORIGIN), Ordering::Release);
    }

    /// Waits until no submission is being made. `CAPTURING` is set, so that no other begins.
    fn drain(&self) {
        let mut draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        while self.state.load(Ordering::Acquire) & !ORIGIN != CAPTURING {
            draining = self.drained.wait(draining).unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[cold]
    fn wake(&self) {
        // With the lock, who has looked is asleep by now and is woken.
        drop(self.draining.lock().unwrap_or_else(PoisonError::into_inner));
        self.drained.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<CaptureLog>>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A submission of work that runs is being made.
struct Running<'a>(&'a CaptureGate);

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        // Released, so that who begins a capture sees the call as made.
        if self.0.state.fetch_sub(1, Ordering::Release) & !ORIGIN == CAPTURING + 1 {
            self.0.wake();
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

    #[test]
    fn a_capture_begins_when_no_submission_is_being_made() {
        let gate = Arc::new(CaptureGate::default());
        let log = CaptureLog::new(&gate);
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
                let log = CaptureLog::new(&gate);
                gate.enter(&log, || {
                    open.store(true, Ordering::SeqCst);
                    Ok(())
                })
                .unwrap();
                gate.look(|_| open.store(false, Ordering::SeqCst));
                gate.leave(&log);
            }
            over.store(true, Ordering::SeqCst);
        });
        assert_eq!(wrong.load(Ordering::SeqCst), 0);
        assert!(!gate.is_capturing());
    }
}
