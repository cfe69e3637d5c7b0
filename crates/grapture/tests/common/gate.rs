//! A gate that holds a stream until the test opens it.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use grapture::Stream;

/// How long a stream is held at most: whoever waits for a closed gate fails then.
const LIMIT: Duration = Duration::from_secs(20);

/// A gate. Dropping it opens it.
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    reached: usize,
    timed_out: bool,
}

impl Gate {
    pub fn new() -> Gate {
        Gate { inner: Arc::new(Inner { state: Mutex::default(), changed: Condvar::new() }) }
    }

    /// Has what is submitted to the stream from now on wait until the gate is open.
    pub fn hold(&self, stream: &Stream) {
        // A release that is still to come, of an earlier test on the same driver, would wait for
        // the gate, and the driver's other calls for that release.
        stream.driver().reclaim();
        let inner = self.inner.clone();
        stream.host_function(move || inner.wait()).unwrap();
    }

    /// Opens the gate; fails if a stream did not wait for it that long.
    #[track_caller]
    pub fn open(&self) {
        self.inner.open();
        let timed_out = self.inner.state.lock().unwrap().timed_out;
        assert!(!timed_out, "a stream was held for too long: something waited for it");
    }

    /// Waits at the gate, in a host function.
    pub fn pass(&self) {
        self.inner.wait();
    }

    pub fn is_open(&self) -> bool {
        self.inner.state.lock().unwrap().open
    }

    /// Waits until a held stream has come to the gate.
    #[track_caller]
    pub fn wait_until_reached(&self) {
        let state = self.inner.state.lock().unwrap();
        let reached = |state: &mut State| state.reached == 0;
        let (_state, waited) =
            self.inner.changed.wait_timeout_while(state, LIMIT, reached).unwrap();
        assert!(!waited.timed_out(), "no stream came to the gate");
    }
}

impl Inner {
    fn wait(&self) {
        let limit = Instant::now() + LIMIT;
        let mut state = self.state.lock().unwrap();
        state.reached += 1;
        self.changed.notify_all();
        while !state.open {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.timed_out = true;
                return;
            }
            (state, _) = self.changed.wait_timeout(state, left).unwrap();
        }
    }

    fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.inner.open();
    }
}
