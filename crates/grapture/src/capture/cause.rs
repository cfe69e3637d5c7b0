//! The first cause of a failed capture, from what its threads have recorded.

use std::sync::atomic::Ordering;

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUresult,
};

use crate::capture::error::CaptureError;
use crate::capture::escape::Escapes;
use crate::capture::gate::CaptureGate;
use crate::capture::info::CaptureStatus;
use crate::capture::joins::{Entry, StreamId, id_of, unjoined};
use crate::capture::logged::{FailedOperation, Fork, LoggedOperation};
use crate::capture::recording::{Member, Recording, SharedRecording};
use crate::error::CudaError;
use crate::operation::{Operation, OperationSite};
use crate::stream::Stream;

/// An operation with which a capture was no longer valid.
pub(super) struct Failure {
    site: OperationSite,
    stream: StreamId,
    code: u32,
    after: Option<CaptureStatus>,
}

impl Failure {
    /// Of an operation on a stream that the driver just refused; `origin` is in the capture. The
    /// error is given back if it says nothing of that: it is still valid, or the context is lost.
    pub(super) fn of(
        origin: &Stream,
        stream: &Stream,
        operation: Operation,
        error: CudaError,
    ) -> Result<Failure, CudaError> {
        let error = stream.context().submission_failed(error, &operation);
        let after = origin.status_in_driver();
        if after == Ok(CU_STREAM_CAPTURE_STATUS_ACTIVE) || error.is_sticky() {
            return Err(error);
        }
        // SAFETY: in the call that submits the operation.
        let site = unsafe { operation.site() };
        let after = after.ok().map(CaptureStatus::from);
        let stream = stream.with_gate(|gate| id_of(gate));
        Ok(Failure { site, stream, code: error.code(), after })
    }

    pub(super) fn code(&self) -> u32 {
        self.code
    }
}

/// What is known of a capture on one of its threads.
pub(super) struct Cause<'a> {
    gate: &'a CaptureGate,
    own: Option<&'a Recording>,
    shared: &'a SharedRecording,
    /// What was recorded, in order; of the first thread only on that thread.
    log: Vec<Entry>,
    /// How many operations of the first thread come before the log.
    unseen: usize,
}

impl<'a> Cause<'a> {
    /// On the thread that began the capture, with what that has recorded.
    pub(super) fn of(
        gate: &'a CaptureGate,
        own: Option<&'a Recording>,
        shared: &'a SharedRecording,
    ) -> Cause<'a> {
        let log = own.map_or_else(Vec::new, |own| merged(id_of(gate), own, shared));
        let unseen = match own {
            Some(_) => 0,
            None => gate.recorded().load(Ordering::Relaxed),
        };
        Cause { gate, own, shared, log, unseen }
    }

    /// The last operation, if it is known here.
    pub(super) fn last(&self) -> Option<LoggedOperation> {
        let (index, entry) = if self.own.is_some() {
            (self.log.len().checked_sub(1)?, *self.log.last()?)
        } else {
            let (before, entry) = self.shared.operations.last()?;
            if *before != self.unseen {
                return None;
            }
            (self.recorded() - 1, *entry)
        };
        Some(self.logged(index, &entry))
    }

    /// How many operations were recorded.
    fn recorded(&self) -> usize {
        if self.own.is_some() { self.log.len() } else { self.unseen + self.shared.operations.len() }
    }

    /// The failure of the capture, of which the driver gives a code.
    pub(super) fn error(&self, code: u32) -> CaptureError {
        let barred = self.own.and_then(|own| {
            let origin = self.shared.origin()?;
            origin.context().barred().after(own.barred_before)
        });
        CaptureError {
            code,
            recorded: self.recorded(),
            last_operation: self.last(),
            first_failure: self.first_failure(),
            barred,
            forks: self.forks(),
            escapes: Escapes::default(),
            end: None,
            refused: false,
        }
    }

    fn first_failure(&self) -> Option<FailedOperation> {
        let others = &self.shared.operations;
        let own = self.own.and_then(|own| own.failure.as_ref()).map(|(before, failure)| {
            let between = others.iter().filter(|(after, _)| after <= before).count();
            (before + between, failure)
        });
        let shared = self.shared.failure.as_ref().map(|(before, failure)| (*before, failure));
        // What broke the capture tells more than who was answered that it is broken.
        let told = |code: u32| CUresult(code) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        let failures = own.into_iter().chain(shared);
        let (index, failure) = failures.min_by_key(|(before, f)| (told(f.code), *before))?;
        let operation = self.at(index, failure.site.clone(), failure.stream);
        Some(FailedOperation { operation, code: failure.code, after: failure.after })
    }

    /// The streams that joined. On another thread it is not known which are joined back.
    pub(super) fn forks(&self) -> Vec<Fork> {
        if self.own.is_none() {
            return Vec::new();
        }
        let unjoined = unjoined(&self.log, id_of(self.gate));
        let fork = |member: &Member| Fork {
            stream: member.stream.clone(),
            location: member.joined,
            unjoined: unjoined
                .get(&id_of(&member.gate))
                .and_then(|index| Some(self.logged(*index, self.log.get(*index)?))),
        };
        self.shared.members.iter().map(fork).collect()
    }

    /// The operation that made a node, by the number of the node.
    pub(super) fn of_node(&self, node: usize) -> Option<LoggedOperation> {
        let is_node = |(_, entry): &(usize, &Entry)| entry.operation.kind().is_node();
        let mut made = self.log.iter().enumerate().filter(is_node);
        made.nth(node).map(|(index, entry)| self.logged(index, entry))
    }

    fn logged(&self, index: usize, entry: &Entry) -> LoggedOperation {
        // SAFETY: it is in the log of a capture that is open, as `own` and the lock that `shared`
        // comes from show: the owners there have the kernel (O2).
        let site = unsafe { entry.operation.site() };
        self.at(index, site, entry.stream)
    }

    fn at(&self, index: usize, site: OperationSite, stream: StreamId) -> LoggedOperation {
        let member = self.shared.members.iter().find(|member| id_of(&member.gate) == stream);
        let stream = match member {
            Some(member) => member.stream.downgrade(),
            None => self.shared.origin.clone(),
        };
        LoggedOperation { index, site, stream, joined: member.map(|member| member.joined) }
    }
}

/// All operations in order: each of the others' after so many of the first thread's as had been
/// recorded before it.
fn merged(origin: StreamId, own: &Recording, shared: &SharedRecording) -> Vec<Entry> {
    let mut others = shared.operations.iter().peekable();
    let mut elsewhere = own.elsewhere.iter().peekable();
    let mut log = Vec::with_capacity(own.operations.len() + shared.operations.len());
    for (index, operation) in own.operations.iter().enumerate() {
        while let Some((_, entry)) = others.next_if(|(before, _)| *before <= index) {
            log.push(*entry);
        }
        let stream = elsewhere.next_if(|(at, _)| *at == index).map_or(origin, |(_, id)| *id);
        log.push(Entry { operation: *operation, stream });
    }
    log.extend(others.map(|(_, entry)| *entry));
    log
}
