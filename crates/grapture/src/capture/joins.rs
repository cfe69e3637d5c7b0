//! Which streams of a capture are joined back, found from its log when the driver says that one
//! is not.

use std::collections::HashMap;
use std::ptr;

use crate::capture::gate::CaptureGate;
use crate::operation::{Operation, OperationKind};

/// What tells one stream of a capture from the others: its gate, which the capture keeps alive.
pub(super) type StreamId = usize;

/// The stream of a gate.
pub(super) fn id_of(gate: &CaptureGate) -> StreamId {
    ptr::from_ref(gate).addr()
}

/// An operation of the log, and the stream that it was recorded on.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) stream: StreamId,
}

/// How many of the log's operations each stream's next operation comes after: those of each stream
/// up to a place in the log.
type Covered = HashMap<StreamId, usize>;

/// For each stream but `origin` that has work which the origin's next operation would not wait for:
/// the index of the last such operation.
pub(super) fn unjoined(log: &[Entry], origin: StreamId) -> HashMap<StreamId, usize> {
    let mut streams: HashMap<StreamId, Covered> = HashMap::new();
    let mut events: HashMap<usize, Covered> = HashMap::new();
    let mut last = HashMap::new();
    for (index, entry) in log.iter().enumerate() {
        let covered = streams.entry(entry.stream).or_default();
        match (entry.operation.kind(), entry.operation.event_id()) {
            (OperationKind::EventRecord, Some(event)) => {
                events.insert(event, covered.clone());
            }
            (OperationKind::EventWait, Some(event)) => {
                for (stream, count) in events.get(&event).into_iter().flatten() {
                    let known = covered.entry(*stream).or_default();
                    *known = (*known).max(*count);
                }
            }
            (OperationKind::AddDependencies, _) => {}
            // What it was after is let go of, and what it comes after now is not known here.
            (OperationKind::SetDependencies, _) => {
                covered.clear();
                last.remove(&entry.stream);
            }
            // A record and a wait make no node, everything else does.
            _ => {
                covered.insert(entry.stream, index + 1);
                last.insert(entry.stream, index);
            }
        }
    }
    let joined = streams.remove(&origin).unwrap_or_default();
    last.retain(|stream, index| {
        *stream != origin && joined.get(stream).is_none_or(|count| *count <= *index)
    });
    last
}
