//! What holds in every order of the threads.

use std::sync::{Arc, Mutex, PoisonError};

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;

use crate::capture::CaptureLog;
use crate::capture::gate::CaptureGate;
use crate::capture::open::OpenCaptures;
use crate::capture::thread_owned::ThreadOwned;
use crate::sync::atomic::fences_before_loads;

/// How often threads are interrupted in one run at most: enough for every mistake that two threads
/// can make in a few steps.
const INTERRUPTIONS: usize = 3;

/// The place of the fences is one for the process.
static SERIAL: Mutex<()> = Mutex::new(());

fn check(model: impl Fn() + Copy + Send + Sync + 'static) {
    let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    for before_loads in [false, true] {
        fences_before_loads(before_loads);
        let mut builder = Builder::new();
        builder.preemption_bound = Some(INTERRUPTIONS);
        builder.check(model);
    }
}

/// What the driver holds of a stream. Work that runs reads it, and what begins or ends a capture
/// writes it: loom sees it if one is not ordered with the other.
#[derive(Default)]
struct Stream {
    captures: UnsafeCell<bool>,
}

// SAFETY: loom checks each access.
unsafe impl Sync for Stream {}

impl Stream {
    /// Submits work, and gives whether a capture records it.
    fn submit(&self) -> bool {
        // SAFETY: loom checks that nobody writes it.
        self.captures.with(|captures| unsafe { *captures })
    }

    fn set(&self, captures: bool) {
        // SAFETY: loom checks that nobody else uses it.
        self.captures.with_mut(|cell| unsafe { *cell = captures });
    }
}

/// Submits by way of the gate: what it takes for work that runs is not captured, and what it takes
/// for captured is.
fn submit(gate: &Arc<CaptureGate>, stream: &Stream) {
    gate.route(
        |log| log.record(|| assert!(stream.submit(), "work runs that is taken for captured")),
        || assert!(!stream.submit(), "work is captured that is taken for running"),
    );
}

/// Captures, with an operation in it.
fn capture(gate: &Arc<CaptureGate>, stream: &Stream) {
    let log = CaptureLog::new(gate);
    if log.open(|| stream.set(true)).is_err() {
        return;
    }
    submit(gate, stream);
    let operations = log.close(&[], || stream.set(false));
    assert!(operations >= 1, "an operation is not in the log");
}

/// Two threads submit while a third captures: everything runs or is recorded, and is known to.
pub fn submissions_run_or_are_recorded() {
    check(|| {
        let (gate, stream) = (Arc::new(CaptureGate::default()), Arc::new(Stream::default()));
        // This thread is the first, and has the mark of its own.
        submit(&gate, &stream);
        let start = |work: fn(&Arc<CaptureGate>, &Stream)| {
            let (gate, stream) = (gate.clone(), stream.clone());
            thread::spawn(move || work(&gate, &stream))
        };
        let threads = [start(submit), start(capture)];
        submit(&gate, &stream);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!gate.is_capturing());
        submit(&gate, &stream);
    });
}

/// Two threads capture one stream: one after the other, or one is refused.
pub fn captures_exclude_each_other() {
    check(|| {
        let (gate, stream) = (Arc::new(CaptureGate::default()), Arc::new(Stream::default()));
        let (its_gate, its_stream) = (gate.clone(), stream.clone());
        let other = thread::spawn(move || capture(&its_gate, &its_stream));
        capture(&gate, &stream);
        other.join().unwrap();
        assert!(!gate.is_capturing());
        capture(&gate, &stream);
    });
}

/// A thread submits while another one captures, and captures again.
pub fn a_submission_is_of_one_capture() {
    check(|| {
        let (gate, stream) = (Arc::new(CaptureGate::default()), Arc::new(Stream::default()));
        let (its_gate, its_stream) = (gate.clone(), stream.clone());
        let other = thread::spawn(move || submit(&its_gate, &its_stream));
        capture(&gate, &stream);
        capture(&gate, &stream);
        other.join().unwrap();
        assert!(!gate.is_capturing());
    });
}

/// A stream joins a capture while another thread submits to it.
pub fn a_stream_that_joins_runs_or_is_recorded() {
    check(|| {
        let gates = [(); 2].map(|()| Arc::new(CaptureGate::default()));
        let streams = Arc::new([(); 2].map(|()| Stream::default()));
        let (its_gate, its_streams) = (gates[1].clone(), streams.clone());
        let other = thread::spawn(move || submit(&its_gate, &its_streams[1]));
        let log = CaptureLog::new(&gates[0]);
        log.open(|| streams[0].set(true)).unwrap();
        log.join(&gates[1], || streams[1].set(true)).unwrap();
        submit(&gates[1], &streams[1]);
        log.close(&[&gates[1]], || {
            streams[0].set(false);
            streams[1].set(false);
        });
        other.join().unwrap();
        submit(&gates[1], &streams[1]);
    });
}

/// A thread waits for the whole context while another one captures: no wait is made in a capture.
pub fn a_context_is_waited_for_outside_of_captures() {
    check(|| {
        let shared = Arc::new((OpenCaptures::default(), Stream::default()));
        let its = shared.clone();
        let captures = thread::spawn(move || {
            let (open, stream) = &*its;
            open.begin();
            stream.set(true);
            stream.set(false);
            open.end();
        });
        for _ in 0..2 {
            if let Some(_waiting) = shared.0.wait() {
                assert!(!shared.1.submit(), "the context is waited for in a capture");
            }
        }
        captures.join().unwrap();
        assert!(shared.0.wait().is_some());
    });
}

/// A capture begins on one thread and ends on another, which counts apart.
pub fn a_capture_may_end_on_another_thread() {
    check(|| {
        let shared = Arc::new((OpenCaptures::default(), Stream::default()));
        // This thread is the first, and has a count of its own.
        shared.0.begin();
        shared.0.end();
        let (its, waits) = (shared.clone(), shared.clone());
        let begins = thread::spawn(move || {
            its.0.begin();
            its.1.set(true);
        });
        let waiting = thread::spawn(move || {
            if let Some(_waiting) = waits.0.wait() {
                assert!(!waits.1.submit(), "the context is waited for in a capture");
            }
        });
        begins.join().unwrap();
        shared.1.set(false);
        shared.0.end();
        waiting.join().unwrap();
        assert!(shared.0.wait().is_some());
    });
}

/// A value that threads claim is one thread's at a time, and each sees what the one before wrote.
pub fn a_claimed_value_is_one_threads() {
    check(|| {
        let value = Arc::new(ThreadOwned::<UnsafeCell<u32>>::default());
        let claims = |value: &ThreadOwned<UnsafeCell<u32>>| {
            if !value.claim() {
                assert!(value.get().is_none());
                return 0;
            }
            let owned = value.get().expect("it was just claimed");
            // SAFETY: loom checks that nobody else is in it.
            owned.with_mut(|number| unsafe { *number += 1 });
            drop(owned);
            value.release();
            1
        };
        let its = value.clone();
        let other = thread::spawn(move || claims(&its));
        let claimed = claims(&value) + other.join().unwrap();
        assert!(value.claim());
        // SAFETY: as above.
        let number = value.get().unwrap().with(|number| unsafe { *number });
        assert_eq!(number, claimed);
    });
}
