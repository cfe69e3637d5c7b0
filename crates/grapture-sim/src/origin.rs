//! [`Origin`]: which call made an object.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use grapture_sys::Function;

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
    static CURRENT: Cell<Option<Origin>> = const { Cell::new(None) };
}

/// A call of the driver: what a living object was made by, what a line of a trace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The function that was called.
    pub function: Function,
    /// The number of the call, counted over all functions since the simulation started.
    pub call: u64,
    /// The number of the calling thread, in the order in which threads of the process called.
    pub thread: u64,
}

impl Origin {
    /// A call that the calling thread begins.
    pub(crate) fn begin(function: Function, call: u64) -> Origin {
        let origin = Origin { function, call, thread: THREAD.with(|number| *number) };
        CURRENT.set(Some(origin));
        origin
    }

    /// The calling thread's last call; nothing on a thread of the simulation.
    pub(crate) fn current() -> Option<Origin> {
        CURRENT.get()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { function, call, thread } = self;
        write!(f, "{}, call {call}, thread {thread}", function.info().symbol)
    }
}
