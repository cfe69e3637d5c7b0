//! Stream capture: which streams are in which capture, and what every call may do meanwhile.
//!
//! All of it is bookkeeping under the lock of [`crate::sim::State`]; the C functions are in
//! [`crate::abi`].

mod captures;
mod event;
mod info;
mod life;
mod mode;
mod seams;
mod sequence;

use crate::handle::Id;

pub(crate) use captures::{Captures, Status};
pub(crate) use event::Mark;
pub(crate) use life::Target;
pub(crate) use mode::CaptureMode;
pub(crate) use seams::{
    Taken, allocate, check_context_wait, check_event_question, check_event_wait, check_legacy,
    check_sound, check_stream_wait, check_uncapturable, check_unsafe_call, free, invalidate,
    is_capturing, join_by_launch, record, record_event, stream_destroyed, wait_event,
};
pub(crate) use sequence::{Begin, Member, Sequence, SequenceId};

/// A stream.
pub(crate) type StreamId = Id<crate::stream::Stream>;
/// An event.
pub(crate) type EventId = Id<crate::event::Event>;
/// A context.
pub(crate) type ContextId = Id<crate::context::Context>;
/// A graph.
pub(crate) type GraphId = Id<crate::graph::Graph>;
