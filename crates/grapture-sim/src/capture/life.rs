//! The begin and the end of a capture, with the graph that it fills.

use std::thread::ThreadId;

use grapture_sys::{CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUresult};

use super::sequence::merge;
use super::{Begin, CaptureMode, GraphId, Member, Sequence, StreamId};
use crate::graph::{Edge, Removed};
use crate::sim::State;
use crate::stream::StreamKind;

/// The graph that a capture is to fill.
pub(crate) struct Target {
    /// The graph.
    pub(crate) graph: GraphId,
    /// What the first operation depends on.
    pub(crate) set: Vec<Edge>,
}

/// What the end of a capture yields.
pub(crate) struct Ended {
    /// The graph, or why there is none.
    pub(crate) graph: Result<GraphId, CUresult>,
    /// What is left of a graph that nobody gets, to be dropped when no lock is held.
    #[allow(dead_code, reason = "kept for its drop")]
    pub(crate) removed: Removed,
}

impl State {
    /// Begins a capture into a new graph, or into one of the program's.
    pub(crate) fn begin_capture(
        &mut self,
        stream: StreamId,
        mode: CaptureMode,
        target: Option<Target>,
    ) -> Result<(), CUresult> {
        super::check_legacy(self, stream)?;
        let this = self.stream(stream)?;
        if this.kind == StreamKind::Legacy {
            return Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        let (context, blocking) = (this.context, this.kind.is_blocking());
        let owns_graph = target.is_none();
        if target.as_ref().is_some_and(|target| self.is_captured(target.graph)) {
            return Err(CUDA_ERROR_ILLEGAL_STATE);
        }
        let (graph, set) = match target {
            Some(target) => {
                let mut set = Vec::new();
                merge(&mut set, &target.set);
                (target.graph, set)
            }
            None => (self.graphs.create(), Vec::new()),
        };
        let thread = std::thread::current().id();
        let begin = Begin { mode, thread, origin: stream, graph, owns_graph };
        match self.captures.begin(begin, Member { context, blocking, set }) {
            Ok(_) => {
                self.graphs.graph_mut(graph)?.captured = true;
                Ok(())
            }
            Err(code) => {
                if owns_graph {
                    // It is empty, so that nothing of the program's goes with it.
                    drop(self.graphs.destroy(graph));
                }
                Err(code)
            }
        }
    }

    /// Whether a capture fills a graph: there can be one at a time.
    fn is_captured(&self, graph: GraphId) -> bool {
        self.graphs.graph(graph).is_ok_and(|graph| graph.captured)
    }

    /// Ends the capture that the stream began. `wanted` says that the program takes the graph. An
    /// error means that no capture has ended.
    pub(crate) fn end_capture(
        &mut self,
        stream: StreamId,
        thread: ThreadId,
        wanted: bool,
    ) -> Result<Ended, CUresult> {
        let (_, sequence) = self.captures.end(stream)?;
        let verdict = self.judge(&sequence, thread);
        // A capture that fails takes also a graph of the program's with it: a real driver does not
        // know that graph afterwards.
        let keep = verdict.is_ok() && (wanted || !sequence.begin.owns_graph);
        let removed = self.leave_graph(&sequence, keep)?;
        Ok(Ended { graph: verdict.map(|()| sequence.begin.graph), removed })
    }

    fn judge(&self, sequence: &Sequence, thread: ThreadId) -> Result<(), CUresult> {
        sequence.check_valid()?;
        sequence.check_thread(thread)?;
        sequence.check_joined(&self.graphs.graph(sequence.begin.graph)?.def)
    }

    /// Frees the graph of a capture that is over, and destroys it unless somebody gets it, or it
    /// belongs to a node.
    pub(super) fn leave_graph(
        &mut self,
        sequence: &Sequence,
        keep: bool,
    ) -> Result<Removed, CUresult> {
        let id = sequence.begin.graph;
        let graph = self.graphs.graph_mut(id)?;
        graph.captured = false;
        let keep = keep || graph.embedded_in.is_some();
        if keep { Ok(Removed::default()) } else { self.graphs.destroy(id) }
    }
}
