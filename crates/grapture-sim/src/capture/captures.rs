//! [`Captures`]: every capture in progress, and the rules of what a call may do while there are any.

use std::collections::{BTreeMap, HashMap};
use std::thread::ThreadId;

use grapture_sys::{
    CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUresult,
    CUstreamCaptureMode,
};

use super::event::Mark;
use super::info::Info;
use super::sequence::{Begin, Member, Sequence, SequenceId};
use super::{ContextId, StreamId};

/// The state of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Its work runs.
    None,
    /// Its work becomes nodes.
    Active(SequenceId),
    /// Its capture is broken and waits for its end.
    Invalidated(SequenceId),
}

/// All captures of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    last: u64,
    sequences: BTreeMap<SequenceId, Sequence>,
    streams: HashMap<StreamId, SequenceId>,
    /// The arrays that the last question about each stream gave out.
    pub(super) answers: HashMap<StreamId, Info>,
}

impl Captures {
    /// None. Captures have no handles, so they do not need the number of the simulation.
    pub(crate) fn new(_simulation: u8) -> Captures {
        Captures::default()
    }

    /// How many streams are in captures.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The state of a stream.
    pub(crate) fn status(&self, stream: StreamId) -> Status {
        let Some(id) = self.streams.get(&stream) else { return Status::None };
        match self.sequences.get(id) {
            Some(sequence) if sequence.invalidated => Status::Invalidated(*id),
            Some(_) => Status::Active(*id),
            None => Status::None,
        }
    }

    /// Whether the capture is in progress and sound.
    pub(crate) fn is_open(&self, id: SequenceId) -> bool {
        self.sequences.get(&id).is_some_and(|sequence| !sequence.invalidated)
    }

    /// The capture with this number, if it is in progress.
    pub(crate) fn sequence(&self, id: SequenceId) -> Option<&Sequence> {
        self.sequences.get(&id)
    }

    /// As [`sequence`](Captures::sequence), to change it.
    pub(crate) fn sequence_mut(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        self.sequences.get_mut(&id)
    }

    /// The capture that an operation of the stream goes into; nothing if the operation runs.
    pub(crate) fn capturing(&self, stream: StreamId) -> Result<Option<SequenceId>, CUresult> {
        match self.status(stream) {
            Status::None => Ok(None),
            Status::Active(id) => Ok(Some(id)),
            Status::Invalidated(_) => Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Begins a capture.
    pub(crate) fn begin(&mut self, begin: Begin, origin: Member) -> Result<SequenceId, CUresult> {
        if self.streams.contains_key(&begin.origin) {
            return Err(CUDA_ERROR_ILLEGAL_STATE);
        }
        self.last += 1;
        let id = SequenceId(self.last);
        self.streams.insert(begin.origin, id);
        self.sequences.insert(id, Sequence::new(begin, origin));
        Ok(id)
    }

    /// Takes out the capture that `stream` began; what it yields is judged by the caller. On an
    /// error nothing ends, but an end on a forked stream breaks the capture.
    pub(crate) fn end(&mut self, stream: StreamId) -> Result<(SequenceId, Sequence), CUresult> {
        let id = self.streams.get(&stream).copied().ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
        let origin = self.sequences.get(&id).map(|sequence| sequence.begin.origin);
        if origin != Some(stream) {
            self.invalidate(id);
            return Err(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        let sequence = self.take(id).ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
        Ok((id, sequence))
    }

    fn take(&mut self, id: SequenceId) -> Option<Sequence> {
        let sequence = self.sequences.remove(&id)?;
        self.streams.retain(|_, member_of| *member_of != id);
        Some(sequence)
    }

    /// Breaks a capture: nothing goes into it any more, and its end yields no graph.
    pub(crate) fn invalidate(&mut self, id: SequenceId) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.invalidated = true;
        }
    }

    /// Breaks the capture that the stream is in, if it is in one: a call on it failed in a way that
    /// the capture does not survive.
    pub(crate) fn invalidate_stream(&mut self, stream: StreamId) {
        if let Some(id) = self.streams.get(&stream).copied() {
            self.invalidate(id);
        }
    }

    fn invalidate_where(&mut self, mut broken: impl FnMut(&Sequence) -> bool) -> bool {
        let mut any = false;
        for sequence in self.sequences.values_mut() {
            if broken(sequence) {
                sequence.invalidated = true;
                any = true;
            }
        }
        any
    }

    /// A call that does work which no stream sees: a capture that bars the thread breaks.
    pub(crate) fn unsafe_call(
        &mut self,
        thread: ThreadId,
        mode: CUstreamCaptureMode,
    ) -> Result<(), CUresult> {
        let barred = self.invalidate_where(|sequence| {
            sequence.begin.mode.bars(sequence.begin.thread == thread, mode)
        });
        if barred { Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// A call that waits for all work of a context: each capture with a stream of it breaks.
    pub(crate) fn context_call(&mut self, context: ContextId) -> Result<(), CUresult> {
        let barred = self.invalidate_where(|sequence| {
            sequence.members.values().any(|member| member.context == context)
        });
        if barred { Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// A use of the legacy stream of a context: it would have to wait for the blocking streams, and
    /// each capture that has one breaks.
    pub(crate) fn legacy_call(&mut self, context: ContextId) -> Result<(), CUresult> {
        let barred = self.invalidate_where(|sequence| holds_up_legacy(sequence, context));
        if barred { Err(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
    }

    /// A question about the capture of the legacy stream: as its use, but nothing breaks.
    pub(crate) fn legacy_question(&self, context: ContextId) -> Result<(), CUresult> {
        let barred = self.sequences.values().any(|sequence| holds_up_legacy(sequence, context));
        if barred { Err(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
    }

    /// A call that a capturing stream cannot take (a wait for it, a query, a graph launch, a
    /// callback): the capture breaks, and one that is broken says the same.
    pub(crate) fn uncapturable_call(&mut self, stream: StreamId) -> Result<(), CUresult> {
        let (Status::Active(id) | Status::Invalidated(id)) = self.status(stream) else {
            return Ok(());
        };
        self.invalidate(id);
        Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }

    /// The host waits for an event that was recorded in a capture, or asks after it: the capture
    /// breaks, if it is neither over nor broken.
    pub(crate) fn event_call(&mut self, mark: &Mark) -> CUresult {
        let code = self.event_question(mark);
        self.invalidate(mark.sequence);
        code
    }

    /// A question about such an event that breaks nothing.
    pub(crate) fn event_question(&self, mark: &Mark) -> CUresult {
        if self.is_open(mark.sequence) {
            CUDA_ERROR_CAPTURED_EVENT
        } else {
            CUDA_ERROR_INVALID_VALUE
        }
    }

    /// Notes that a stream has entered a capture.
    pub(super) fn enter(&mut self, stream: StreamId, id: SequenceId) {
        self.streams.insert(stream, id);
    }

    /// Forgets a destroyed stream. A capture that it began is over, and gives its leavings back; one
    /// that it had joined goes on, and still wants to have joined what the stream captured.
    pub(crate) fn forget_stream(&mut self, stream: StreamId) -> Option<Sequence> {
        self.answers.remove(&stream);
        let id = self.streams.get(&stream).copied()?;
        if self.sequences.get(&id)?.begin.origin == stream {
            return self.take(id);
        }
        self.streams.remove(&stream);
        self.sequences.get_mut(&id)?.members.remove(&stream);
        None
    }
}

fn holds_up_legacy(sequence: &Sequence, context: ContextId) -> bool {
    sequence.members.values().any(|member| member.blocking && member.context == context)
}
