//! Failures of a release, which `Drop` cannot return: they go to `tracing` and to a hook.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{CudaError, CudaResult};
use crate::reclaim::discard;
use crate::tell::contained;

/// What is called with the driver function that failed in a `Drop`, and its error.
pub type DropErrorHook = Box<dyn Fn(&'static str, &CudaError) + Send + Sync>;

static HOOK: RwLock<Option<Arc<DropErrorHook>>> = RwLock::new(None);

/// Sets what is called when the release of a handle fails in its `Drop`; `None` takes it away.
/// Without a hook the failure is a `tracing` event of level error.
///
/// The hook may run on any thread. If it panics, that is caught, and is a `tracing` event too.
pub fn set_drop_error_hook(hook: Option<DropErrorHook>) {
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook.map(Arc::new);
}

/// Reports the result of a release.
#[inline]
pub(crate) fn report(function: &'static str, result: CudaResult<()>) {
    if let Err(error) = result {
        failed(function, &error);
    }
}

/// Set in `HOLDS` when something is to be reported later.
const LATER: u32 = 1 << 31;

thread_local! {
    /// How many calls of this thread hold locks, and whether one of them left something to report.
    static HOLDS: Cell<u32> = const { Cell::new(0) };
    /// What is to be reported when the locks are given up.
    static REPORTS: RefCell<Vec<(&'static str, CudaError)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `call`, which holds locks, and reports afterwards what it could not release: the hook is
/// the program's, and may come back for them.
#[inline]
pub(crate) fn reported_after<R>(call: impl FnOnce() -> R) -> R {
    HOLDS.set(HOLDS.get() + 1);
    let _flush = Flush;
    call()
}

/// Gives up what was held, also when the call panics, and reports when nothing more is.
struct Flush;

impl Drop for Flush {
    #[inline]
    fn drop(&mut self) {
        let holds = HOLDS.get() - 1;
        HOLDS.set(holds);
        if holds == LATER {
            flush();
        }
    }
}

#[cold]
#[inline(never)]
fn flush() {
    HOLDS.set(0);
    for (function, error) in REPORTS.take() {
        failed(function, &error);
    }
}

#[cold]
fn failed(function: &'static str, error: &CudaError) {
    if HOLDS.get() != 0 {
        HOLDS.set(HOLDS.get() | LATER);
        REPORTS.with_borrow_mut(|reports| reports.push((function, error.clone())));
        return;
    }
    contained(|| tracing::error!(function, %error, "a handle could not be released"));
    // Called without the lock: it may drop a handle itself, or set another hook.
    let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(hook) = hook {
        // A handle may be dropped while a panic unwinds, and a second one would end the process.
        let called = catch_unwind(AssertUnwindSafe(|| hook(function, error)));
        if let Err(payload) = called {
            discard(payload);
            contained(|| tracing::error!("the hook for failed releases panicked"));
        }
    }
}
