//! Host functions that tell a test when they run.

use std::ffi::c_void;
use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grapture_sys::*;

use crate::rig::Rig;

/// No wait of a test is longer.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Waits, within limits, until something holds.
pub fn wait_for(holds: impl Fn() -> bool) -> bool {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        if Instant::now() > limit {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Runs a boxed closure, once.
pub unsafe extern "C" fn run_boxed(data: *mut c_void) {
    // SAFETY: `Rig::host` made the pointer of such a box, and an eager host function runs once.
    let f = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    f();
}

/// What a gate is made of. It is never freed: a host function may come to it late.
#[derive(Default)]
pub struct GateState {
    open: AtomicBool,
    reached: AtomicBool,
    expired: AtomicBool,
}

/// Holds streams until it is opened. Dropping it opens it, so that a test that fails ends.
pub struct Gate(&'static GateState);

impl Deref for Gate {
    type Target = GateState;

    fn deref(&self) -> &GateState {
        self.0
    }
}

impl Gate {
    pub fn new() -> Gate {
        Gate(Box::leak(Box::default()))
    }

    /// Holds what comes behind it on a stream, captured or not.
    pub fn put_on(&self, rig: &Rig, stream: CUstream) {
        let data = std::ptr::from_ref(self.0).cast_mut().cast();
        ok!(rig, cuLaunchHostFunc(stream, Some(GateState::pass), data));
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

impl GateState {
    unsafe extern "C" fn pass(data: *mut c_void) {
        // SAFETY: `Gate::put_on` gives a gate, which is never freed.
        let gate = unsafe { &*data.cast::<GateState>() };
        gate.reached.store(true, Ordering::SeqCst);
        if !wait_for(|| gate.open.load(Ordering::SeqCst)) {
            gate.expired.store(true, Ordering::SeqCst);
        }
    }

    /// Lets what waits go on. It must not have gone on by itself.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        assert!(!self.expired.load(Ordering::SeqCst), "the gate was opened too late");
    }

    /// Waits until a host function is held.
    pub fn wait_reached(&self) {
        assert!(wait_for(|| self.reached.load(Ordering::SeqCst)), "the gate was never reached");
    }
}

/// Counts the calls of a host function.
#[derive(Default)]
pub struct Counter(AtomicUsize);

impl Counter {
    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub unsafe extern "C" fn count(argument: *mut c_void) {
        // SAFETY: the tests pass a counter that outlives the work that counts.
        let counter = unsafe { &*argument.cast::<Counter>() };
        counter.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Notes in which order host functions ran.
#[derive(Default)]
pub struct Journal {
    entries: Mutex<Vec<usize>>,
}

/// One line of a journal, to be written when a host function runs.
pub struct Line<'a> {
    pub journal: &'a Journal,
    pub number: usize,
}

impl Line<'_> {
    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub unsafe extern "C" fn write(argument: *mut c_void) {
        // SAFETY: the tests pass a line that outlives the work that writes it.
        let line = unsafe { &*argument.cast::<Line<'_>>() };
        line.journal.entries.lock().expect("the journal").push(line.number);
    }
}

impl Journal {
    /// What was written so far; it starts anew.
    pub fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.entries.lock().expect("the journal"))
    }
}
