//! Failures of a release, which `Drop` cannot return: they go to `tracing` and to a hook.

use std::cell::RefCell;
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

thread_local! {
    /// What is to be reported when the locks of this thread are given up, while it holds some.
    static LATER: RefCell<Option<Vec<(&'static str, CudaError)>>> = const { RefCell::new(None) };
}

/// Runs `call`, which holds locks, and reports afterwards what it could not release: the hook is
/// the program's, and may come back for them.
pub(crate) fn reported_after<R>(call: impl FnOnce() -> R) -> R {
    let _flush = Flush(LATER.replace(Some(Vec::new())));
    call()
}

/// Puts back what was before, also when the call panics, and reports.
struct Flush(Option<Vec<(&'static str, CudaError)>>);

impl Drop for Flush {
    #[inline]
    fn drop(&mut self) {
        for (function, error) in LATER.replace(self.0.take()).into_iter().flatten() {
            failed(function, &error);
        }
    }
}

#[cold]
fn failed(function: &'static str, error: &CudaError) {
    let later = LATER.with_borrow_mut(|later| {
        let later = later.as_mut()?;
        later.push((function, error.clone()));
        Some(())
    });
    if later.is_some() {
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
