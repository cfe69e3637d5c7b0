//! What a driver answered to a case, line by line: the code of each call of `cu!`, and what the
//! case shows by [`saw`]. Handles, addresses and times stay out of it.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// The lines of one case. Several threads write to it, each in its turn.
pub type Transcript = Arc<Mutex<Vec<String>>>;

thread_local! {
    static CURRENT: RefCell<Option<Transcript>> = const { RefCell::new(None) };
}

/// What the calling thread writes to now.
pub fn current() -> Option<Transcript> {
    CURRENT.with_borrow(Clone::clone)
}

/// Has the calling thread write to another transcript, or to none, while it runs this.
pub fn writing_to<R>(transcript: Option<Transcript>, run: impl FnOnce() -> R) -> R {
    /// Puts the one before back, also where a case fails.
    struct Restore(Option<Transcript>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(transcript));
    run()
}

/// Runs what is no part of the case: what it works on, and what one driver alone is asked.
pub fn quietly<R>(run: impl FnOnce() -> R) -> R {
    writing_to(None, run)
}

/// Writes down what a case saw, and gives it back.
pub fn saw<T: Debug>(what: &str, value: T) -> T {
    if let Some(lines) = current() {
        let line = format!("{what} = {value:?}");
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
    value
}
