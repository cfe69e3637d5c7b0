//! What the driver tells of a capture, in arrays that it owns.

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    CU_STREAM_CAPTURE_STATUS_NONE, CUDA_ERROR_INVALID_VALUE, CUgraphEdgeData, CUgraphNode,
    CUresult, CUstreamCaptureStatus,
};

use super::{GraphId, SequenceId, Status, StreamId};
use crate::sim::State;

/// What the next operation of a stream depends on, as the arrays that a program reads.
#[derive(Debug, Default)]
pub(crate) struct Info {
    nodes: Vec<usize>,
    edges: Vec<CUgraphEdgeData>,
    /// Whether some edge says more than "depends on".
    pub(crate) annotated: bool,
}

impl Info {
    /// The handles of the nodes.
    pub(crate) fn nodes(&self) -> *const CUgraphNode {
        // A handle is an integer that nobody dereferences: the array holds it as one.
        self.nodes.as_ptr().cast()
    }

    /// What the edges carry.
    pub(crate) fn edges(&self) -> *const CUgraphEdgeData {
        self.edges.as_ptr()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl Status {
    /// The C value.
    pub(crate) fn to_raw(self) -> CUstreamCaptureStatus {
        match self {
            Status::None => CU_STREAM_CAPTURE_STATUS_NONE,
            Status::Active(_) => CU_STREAM_CAPTURE_STATUS_ACTIVE,
            Status::Invalidated(_) => CU_STREAM_CAPTURE_STATUS_INVALIDATED,
        }
    }
}

impl State {
    /// The graph and the dependencies of a capturing stream. The arrays stay as they are until the
    /// next such question about the stream, or until it is destroyed.
    pub(crate) fn capture_info(
        &mut self,
        stream: StreamId,
        id: SequenceId,
    ) -> Result<(GraphId, &Info), CUresult> {
        let sequence = self.captures.sequence(id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let graph = sequence.begin.graph;
        let handles = self.graphs.graph(graph)?;
        let set = sequence.members.get(&stream).map_or(&[][..], |member| &member.set);
        let info = Info {
            nodes: set.iter().map(|edge| handles.handle(edge.node).addr()).collect(),
            edges: set.iter().map(|edge| edge.data.to_raw()).collect(),
            annotated: set.iter().any(|edge| !edge.data.is_default()),
        };
        self.captures.answers.insert(stream, info);
        let info = self.captures.answers.get(&stream).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        Ok((graph, info))
    }
}
