//! A graph that a capture adds to.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use grapture_sys::{CUgraph, CUgraphNode};

use crate::capture::Recorded;
use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaResult, check};
use crate::graph::{BatchNode, CopyNode, FillNode, Graph, Node, NodeId, NodeNames};
use crate::retain::{Owners, Share};
use crate::stream::Stream;

/// A graph before a capture adds to it.
pub(crate) struct CaptureTarget {
    /// The nodes that what is captured comes after.
    pub(crate) after: Vec<CUgraphNode>,
    /// The nodes that there are.
    before: HashSet<CUgraphNode>,
    /// What takes the graph's place if the driver destroys that.
    spare: Graph,
}

/// A graph that is the driver's: of an open capture, to add nodes to.
pub(crate) struct LentGraph(Graph);

impl Deref for LentGraph {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.0
    }
}

impl DerefMut for LentGraph {
    fn deref_mut(&mut self) -> &mut Graph {
        &mut self.0
    }
}

impl Drop for LentGraph {
    fn drop(&mut self) {
        // Its handle is never destroyed here.
        self.0.raw = std::ptr::null_mut();
    }
}

impl Graph {
    /// The graph of a capture, of which nothing is known but how its nodes are named.
    ///
    /// # Safety
    ///
    /// `raw` is a live graph that nobody else uses or destroys as long as the result lives.
    pub(crate) unsafe fn lent(context: Context, raw: CUgraph, names: NodeNames) -> LentGraph {
        let share = Share::new(Owners::default());
        // SAFETY: the caller's promise. The result takes the handle out before it is dropped.
        let mut graph = unsafe { Graph::of(context, raw, names.graph(), share) };
        graph.names = names;
        LentGraph(graph)
    }

    /// Prepares for a capture of the stream that adds to the graph.
    pub(crate) fn capture_target(
        &self,
        stream: &Stream,
        after: &[NodeId],
    ) -> CudaResult<CaptureTarget> {
        self.require_driver(stream.context(), "stream")?;
        let after: CudaResult<Vec<_>> =
            after.iter().map(|node| self.require(*node, "after")).collect();
        let before = self.reader().nodes()?.into_iter().collect();
        Ok(CaptureTarget { after: after?, before, spare: Graph::new(&self.context)? })
    }

    /// The handle, for the library itself.
    pub(crate) fn raw(&self) -> CUgraph {
        self.raw
    }

    pub(crate) fn names(&self) -> &NodeNames {
        &self.names
    }

    /// Keeps what a capture has added, and what that uses.
    pub(crate) fn keep_captured(
        &mut self,
        target: CaptureTarget,
        owners: Owners,
        recorded: Recorded,
    ) -> CudaResult<()> {
        self.edits.shape();
        let first = target.before.is_empty();
        let ready = owners.wait_until_ready();
        let nodes = match ready.and_then(|()| if first { Ok(Vec::new()) } else { self.nodes() }) {
            Ok(nodes) => nodes,
            Err(error) => {
                self.drop_captured(target);
                crate::reclaim::drop_contained(owners);
                return Err(error);
            }
        };
        self.share_mut().add(owners);
        if first {
            self.recorded = recorded;
            return Ok(());
        }
        let is_new = |node: &Node| !target.before.contains(&node.id().as_raw());
        let (new, old): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_new);
        self.settle(&old);
        self.keep_notes(&new, &recorded);
        Ok(())
    }

    /// Keeps what is known of nodes that a capture has added.
    pub(super) fn keep_notes(&mut self, nodes: &[Node], recorded: &Recorded) {
        let notes = recorded.notes(nodes, |_| false);
        for (node, note) in nodes.iter().zip(notes) {
            self.built().notes.set(node.id(), note);
        }
    }

    /// Removes what a capture has added. Where that cannot be, the graph is empty afterwards.
    pub(crate) fn drop_captured(&mut self, target: CaptureTarget) {
        self.edits.shape();
        let removed = self.reader().nodes().and_then(|nodes| {
            for node in nodes.into_iter().filter(|node| !target.before.contains(node)) {
                // SAFETY: a node of this graph, whose name means nothing from here on.
                check(unsafe { (self.functions().cuGraphDestroyNode)(node) })?;
                self.names.remove(node);
            }
            Ok(())
        });
        if removed.is_err() {
            report("cuGraphDestroyNode", removed);
            *self = target.spare;
        }
    }

    /// Takes the graph for destroyed by the driver, as it does with one whose capture was broken.
    pub(crate) fn lose(&mut self, target: CaptureTarget) {
        self.raw = std::ptr::null_mut();
        *self = target.spare;
    }
}

macro_rules! waits_for_its_memory {
    ($($node:ty),*) => {$(
        impl $node {
            /// Blocks until the memory that it uses is there.
            pub(crate) fn wait_until_ready(&self) -> CudaResult<()> {
                self.owners.wait_until_ready()
            }
        }
    )*};
}

waits_for_its_memory!(BatchNode, CopyNode, FillNode);
