//! [`GraphBody`]: the body of a conditional node while it is built.

use std::fmt;
use std::ops::Deref;
use std::panic::resume_unwind;

use grapture_sys::CUDA_ERROR_INVALID_VALUE;

use crate::capture::{BodyPlace, StreamGraphCapture, capture_body};
use crate::error::{CudaError, CudaResult};
use crate::graph::body_nodes::{body_leaves, body_misfit};
use crate::graph::conditional::{Condition, Decides};
use crate::graph::{CopyNode, FillNode, Graph, NodeId};
use crate::launch::LaunchBuilder;
use crate::stream::Stream;

/// The body of a conditional node: a graph that is part of the node. It has what a body can have;
/// to read it, it is a [`Graph`].
pub struct GraphBody<'a> {
    /// Its handle is the driver's, and is never destroyed here.
    pub(super) graph: &'a mut Graph,
}

impl Deref for GraphBody<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl GraphBody<'_> {
    /// [`Graph::add_kernel`].
    ///
    /// # Safety
    ///
    /// As for [`Graph::add_kernel`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_kernel`].
    #[track_caller]
    pub unsafe fn add_kernel(
        &mut self,
        launch: LaunchBuilder<'_>,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        // SAFETY: the caller's promise.
        unsafe { self.graph.add_kernel(launch, after) }
    }

    /// [`Graph::add_copy`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_copy`].
    #[track_caller]
    pub fn add_copy(&mut self, copy: CopyNode, after: &[NodeId]) -> CudaResult<NodeId> {
        self.graph.add_copy(copy, after)
    }

    /// [`Graph::add_fill`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_fill`].
    #[track_caller]
    pub fn add_fill(&mut self, fill: FillNode, after: &[NodeId]) -> CudaResult<NodeId> {
        self.graph.add_fill(fill, after)
    }

    /// [`Graph::add_empty`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_empty`].
    #[track_caller]
    pub fn add_empty(&mut self, after: &[NodeId]) -> CudaResult<NodeId> {
        self.graph.add_empty(after)
    }

    /// [`Graph::add_child`], for a graph with such nodes as a body can have.
    ///
    /// # Errors
    ///
    /// As [`Graph::add_child`]. [`Refused`](CudaError::Refused): a node that a body cannot have.
    #[track_caller]
    pub fn add_child(&mut self, child: &Graph, after: &[NodeId]) -> CudaResult<NodeId> {
        // SAFETY: a live graph that is borrowed.
        let misfit = unsafe { body_misfit(child.context(), child.as_raw()) }?;
        if let Some((index, kind)) = misfit {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "child",
                format!(
                    "its node {index} is a {kind}, which a conditional node's body cannot have"
                ),
            ));
        }
        child.refuse_pools(
            "a body that is built cannot have it: capture the body and embed it there",
        )?;
        self.graph.add_child(child, after)
    }

    /// [`Graph::condition`]: one for a node in this body.
    ///
    /// # Errors
    ///
    /// As [`Graph::condition`].
    pub fn condition(&mut self, default: impl Into<Option<u32>>) -> CudaResult<Condition> {
        self.graph.condition(default)
    }

    /// [`Graph::add_if`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_if`].
    #[track_caller]
    pub fn add_if<F>(
        &mut self,
        condition: &impl Decides,
        after: &[NodeId],
        body: F,
    ) -> CudaResult<NodeId>
    where
        F: FnOnce(&mut GraphBody<'_>) -> CudaResult<()>,
    {
        self.graph.add_if(condition, after, body)
    }

    /// [`Graph::add_if_else`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_if_else`].
    #[track_caller]
    pub fn add_if_else<T, E>(
        &mut self,
        condition: &impl Decides,
        after: &[NodeId],
        then: T,
        otherwise: E,
    ) -> CudaResult<NodeId>
    where
        T: FnOnce(&mut GraphBody<'_>) -> CudaResult<()>,
        E: FnOnce(&mut GraphBody<'_>) -> CudaResult<()>,
    {
        self.graph.add_if_else(condition, after, then, otherwise)
    }

    /// [`Graph::add_while`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_while`].
    #[track_caller]
    pub fn add_while<F>(
        &mut self,
        condition: &impl Decides,
        after: &[NodeId],
        body: F,
    ) -> CudaResult<NodeId>
    where
        F: FnOnce(&mut GraphBody<'_>) -> CudaResult<()>,
    {
        self.graph.add_while(condition, after, body)
    }

    /// [`Graph::add_switch`].
    ///
    /// # Errors
    ///
    /// As [`Graph::add_switch`].
    #[track_caller]
    pub fn add_switch<F>(
        &mut self,
        condition: &impl Decides,
        cases: u32,
        after: &[NodeId],
        body: F,
    ) -> CudaResult<NodeId>
    where
        F: FnMut(usize, &mut GraphBody<'_>) -> CudaResult<()>,
    {
        self.graph.add_switch(condition, cases, after, body)
    }

    /// Captures what `record` submits to the stream into the body, after its nodes `after`, as
    /// [`Stream::capture_into`] does for a graph. Gives the nodes that come last on the stream.
    ///
    /// # Errors
    ///
    /// What `record` gives; then the conditional node is not made. Else as
    /// [`StreamGraphCapture::if_`].
    pub fn capture<F>(
        &mut self,
        stream: &Stream,
        after: &[NodeId],
        record: F,
    ) -> CudaResult<Vec<NodeId>>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let graph = &mut *self.graph;
        graph.require_driver(stream.context(), "stream")?;
        let after: CudaResult<Vec<_>> =
            after.iter().map(|node| graph.require(*node, "after")).collect();
        let (mut record, before) = (Some(record), graph.node_count()?);
        let place = BodyPlace {
            graph: graph.raw,
            root: graph.root(),
            after: &after?,
            before,
            names: Some(graph.names().clone()),
            outer: None,
        };
        let captured = capture_body(stream, place, &mut |capture| {
            record.take().map_or(Ok(()), |record| record(capture))
        })?;
        graph.built().incomplete |= !matches!(captured.recorded, Ok(Ok(_)));
        if captured.lost {
            // The driver destroyed it.
            graph.leak();
        }
        let last = captured.recorded.unwrap_or_else(|payload| resume_unwind(payload))?;
        captured.owners.wait_until_ready().inspect_err(|_| graph.built().incomplete = true)?;
        graph.share_mut().add(captured.owners);
        let nodes = graph.nodes()?;
        graph.keep_notes(nodes.get(before..).unwrap_or_default(), &captured.notes);
        Ok(last.into_iter().map(|node| graph.id(node)).collect())
    }

    /// The body, to add what was checked.
    pub(super) fn graph_mut(&mut self) -> &mut Graph {
        self.graph
    }

    /// The nodes that no other waits for.
    pub(super) fn leaves(&self) -> CudaResult<Vec<NodeId>> {
        // SAFETY: a live graph that is borrowed.
        let leaves = unsafe { body_leaves(&self.graph.context, self.graph.raw, 0) }?;
        Ok(leaves.into_iter().map(|node| self.graph.id(node)).collect())
    }
}

impl fmt::Debug for GraphBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBody").field("raw", &self.graph.raw).finish_non_exhaustive()
    }
}
