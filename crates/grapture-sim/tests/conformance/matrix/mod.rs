//! The matrix of unsafe calls: what each call answers beside a capture on a stream that is not
//! ordered with the legacy stream, for every mode of the capture, from the thread that began it
//! and from another one in every mode of that thread. One call, one case.
//!
//! A line reads `code/status/end`: what the call answered, the status of the capture after it, and
//! the code of its end. The first letter before it is the capture's mode (global, thread-local,
//! relaxed), the second that of the other thread.

mod contexts;
mod graphs;
mod memory;
mod modules;
mod pools;
mod streams;

use std::ops::Deref;

use crate::rig::{GLOBAL, RELAXED, Rig, THREAD_LOCAL};
use crate::transcript::{quietly, saw};

/// Makes cases of calls: `name(m) { set up; m.call(|| the call); clean up }`.
macro_rules! matrix {
    ($($name:ident($matrix:ident) $body:block)*) => {
        $(
            fn $name(rig: &crate::rig::Rig) {
                crate::matrix::every_mode(rig, |$matrix| $body);
            }
        )*
        tiers! { both { $($name),* } }
    };
}
use matrix;

const MODES: [(&str, u32); 3] = [("G", GLOBAL), ("T", THREAD_LOCAL), ("R", RELAXED)];

/// One field of the matrix.
struct Field<'a> {
    rig: &'a Rig,
    capture: (&'static str, u32),
    /// The mode of the other thread that calls; none for the thread of the capture.
    thread: Option<(&'static str, u32)>,
}

impl Deref for Field<'_> {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        self.rig
    }
}

/// A call that is handed to another thread, which the caller waits for.
struct Handed<F>(F);

// SAFETY: what the calls of the matrix hold is handles, which the driver lets any thread use, and
// borrows of locals of the thread that waits meanwhile.
unsafe impl<F> Send for Handed<F> {}

impl<F: FnOnce() -> u32> Handed<F> {
    fn call(self) -> u32 {
        (self.0)()
    }
}

impl Field<'_> {
    /// Calls during a capture; whether the call succeeded.
    fn call(&self, call: impl FnOnce() -> u32) -> bool {
        let stream = self.rig.stream;
        let (code, status, end) = quietly(|| {
            self.rig.begin(stream, self.capture.1);
            let call = Handed(call);
            let code = match self.thread {
                None => call.call(),
                Some((_, mode)) => self.rig.elsewhere(mode, || call.call()),
            };
            (code, self.rig.status(stream), self.rig.end_and_count(stream).0)
        });
        let thread = self.thread.map_or("own", |(name, _)| name);
        saw(&format!("{} {thread}", self.capture.0), format_args!("{code}/{status}/{end}"));
        code == 0
    }
}

fn every_mode(rig: &Rig, case: impl Fn(&Field<'_>)) {
    for capture in MODES {
        let threads = std::iter::once(None).chain(MODES.into_iter().map(Some));
        for thread in threads {
            case(&Field { rig, capture, thread });
        }
    }
}
