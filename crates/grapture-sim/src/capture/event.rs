//! Events inside captures: a record notes what a stream depends on, a wait merges that in.

use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_MERGE,
    CUresult,
};

use super::StreamId;
use super::captures::Captures;
use super::sequence::{Member, SequenceId};
use crate::graph::Edge;

/// What an event stands for while its last record was in a capture. It keeps that meaning when the
/// capture is over, and is then good for nothing until it is recorded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The capture.
    pub(crate) sequence: SequenceId,
    /// What the stream depended on.
    pub(crate) set: Vec<Edge>,
}

/// An event that a stream is to wait for, by its last record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited<'a> {
    /// It was never recorded.
    Nothing,
    /// It stands for work that runs.
    Work,
    /// It was recorded in a capture.
    Captured(&'a Mark),
}

/// What a wait for an event comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Neither side is captured: the stream waits for the recorded work.
    Ordinary,
    /// The capture has noted it; nothing runs.
    Captured,
}

impl Captures {
    /// What an event that the stream records now stands for; nothing if the stream does not
    /// capture.
    pub(crate) fn mark(&self, stream: StreamId) -> Result<Option<Mark>, CUresult> {
        let Some(sequence) = self.capturing(stream)? else { return Ok(None) };
        let member = self.sequence(sequence).and_then(|found| found.members.get(&stream));
        let set = member.map(|member| member.set.clone()).unwrap_or_default();
        Ok(Some(Mark { sequence, set }))
    }

    /// Makes a stream wait for an event. `newcomer` describes the stream in case it joins.
    pub(crate) fn wait(
        &mut self,
        stream: StreamId,
        event: Awaited<'_>,
        newcomer: impl FnOnce() -> Member,
    ) -> Result<Wait, CUresult> {
        match (self.capturing(stream)?, event) {
            (None, Awaited::Captured(mark)) => {
                self.check_open(mark.sequence)?;
                self.enter(stream, mark.sequence);
                self.merge(stream, mark, newcomer);
                Ok(Wait::Captured)
            }
            (None, _) => Ok(Wait::Ordinary),
            (Some(_), Awaited::Nothing) => Ok(Wait::Captured),
            (Some(id), Awaited::Work) => Err(self.broken(id, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)),
            (Some(id), Awaited::Captured(mark)) if mark.sequence == id => {
                self.merge(stream, mark, newcomer);
                Ok(Wait::Captured)
            }
            (Some(id), Awaited::Captured(mark)) => {
                self.check_open(mark.sequence).map_err(|code| self.broken(id, code))?;
                self.invalidate(mark.sequence);
                Err(self.broken(id, CUDA_ERROR_STREAM_CAPTURE_MERGE))
            }
        }
    }

    /// Breaks a capture and gives the code on.
    fn broken(&mut self, id: SequenceId, code: CUresult) -> CUresult {
        self.invalidate(id);
        code
    }

    /// Refuses an event whose capture is over or broken.
    fn check_open(&self, id: SequenceId) -> Result<(), CUresult> {
        if self.is_open(id) { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }

    fn merge(&mut self, stream: StreamId, mark: &Mark, newcomer: impl FnOnce() -> Member) {
        if let Some(sequence) = self.sequence_mut(mark.sequence) {
            sequence.join(stream, newcomer, &mark.set);
        }
    }
}
