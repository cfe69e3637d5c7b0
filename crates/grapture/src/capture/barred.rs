//! Calls of this library that are no operations and that the driver refused for the sake of a
//! capture: they may have broken it.
//!
//! Such a call is refused before the driver sees it, but for a wait for an event or for the legacy
//! stream, if the event is recorded in a capture, or a blocking stream begins to capture, on another
//! thread between the check and the driver call. Nothing is held over such a wait: what it waits for
//! may be that very thread.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use grapture_sys::{CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};

use crate::error::write_code;
use crate::operation::Line;

/// How many calls are remembered.
const KEPT: usize = 16;

/// A call that the driver refused since it would not do in a capture, and that broke one perhaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarredCall {
    function: &'static str,
    location: &'static Location<'static>,
    code: u32,
    thread: ThreadId,
}

impl BarredCall {
    /// The function of this library, such as `Event::synchronize`.
    pub fn function(&self) -> &'static str {
        self.function
    }

    /// The line of the program that called it.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// What the driver answered.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The thread that called it.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }
}

impl fmt::Display for BarredCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.function, Line(self.location))?;
        if self.thread != thread::current().id() {
            f.write_str(" on another thread")?;
        }
        f.write_str(", which the driver answered with \"")?;
        write_code(f, self.code)?;
        f.write_str("\"")
    }
}

/// The last such calls in a context.
#[derive(Default)]
pub(crate) struct BarredCalls {
    count: AtomicU64,
    /// Each with how many there were before.
    last: Mutex<Vec<(u64, BarredCall)>>,
}

impl BarredCalls {
    /// How many there were so far.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Remembers a call that failed, if it is one that may have broken a capture.
    #[cold]
    pub(crate) fn note(
        &self,
        function: &'static str,
        location: &'static Location<'static>,
        code: u32,
    ) {
        if !is_barred(code) {
            return;
        }
        let call = BarredCall { function, location, code, thread: thread::current().id() };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == KEPT {
            last.remove(0);
        }
        last.push((self.count.fetch_add(1, Ordering::Relaxed), call));
    }

    /// The first that is remembered after the first `count` ones.
    #[cold]
    pub(crate) fn after(&self, count: u64) -> Option<BarredCall> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().find(|(before, _)| *before >= count).map(|(_, call)| call.clone())
    }
}

/// Whether a capture is what an error is about.
pub(crate) fn is_barred(code: u32) -> bool {
    (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.0..=CUDA_ERROR_CAPTURED_EVENT.0).contains(&code)
}
