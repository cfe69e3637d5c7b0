//! Events: an event is a pointer to a task.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use grapture_sys::CUevent_st;

use crate::capture::Mark;
use crate::context::Context;
use crate::engine::TaskId;
use crate::handle::{Id, Kind, Object};

/// The time at which an event's task ran.
#[derive(Debug, Default)]
pub(crate) struct Stamp(OnceLock<Instant>);

impl Stamp {
    /// The event happens now.
    pub(crate) fn set_now(&self) {
        // A record runs once.
        let _ = self.0.set(Instant::now());
    }

    /// When it happened.
    pub(crate) fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

/// What an event was last recorded as.
#[derive(Clone, Debug)]
pub(crate) enum Recorded {
    /// Never.
    Never,
    /// Behind the work of a stream or in a graph launch.
    Task {
        /// The task to wait for.
        task: TaskId,
        /// When it ran.
        stamp: Arc<Stamp>,
    },
    /// In a capture.
    Captured(Mark),
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its context.
    pub(crate) context: Id<Context>,
    /// Its flags.
    pub(crate) flags: u32,
    /// What it was last recorded as.
    pub(crate) recorded: Recorded,
}

impl Object for Event {
    const KIND: Kind = Kind::Event;
    type Raw = CUevent_st;
}
