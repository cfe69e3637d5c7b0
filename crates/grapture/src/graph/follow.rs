//! An executable graph that follows the changes of the graph that it was made of, node by node.

use std::ptr;

use grapture_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUgraphNode,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::exec_node::{is_refusal, set_kernel};
use crate::graph::update_error::UpdateError;
use crate::graph::{Graph, GraphExec, NodeId, NodeKind};

/// From how many times as many nodes on the driver is given the changed ones alone: to read and to
/// set one costs as much as to update it and to find that many others unchanged (measured: 0.3 µs,
/// and 0.13 and 0.05).
const WORTH: usize = 4;

/// How far an executable followed.
pub(super) enum Followed {
    /// It does what the graph says; so many nodes were changed.
    Wholly(usize),
    /// It is as it was: the changes are too many, or not known.
    NotAtAll,
    /// A node has not taken its parameters. If it is not the first, others have theirs, and the
    /// executable is marked so.
    Stopped(UpdateError),
}

impl GraphExec {
    /// Gives the nodes that have changed in the graph that this was made of their new parameters.
    /// With `strict` only where nothing can end half way.
    pub(super) fn follow(&mut self, graph: &Graph, strict: bool) -> CudaResult<Followed> {
        let same = self.key == graph.names().graph();
        let since = self.synced.filter(|_| same).and_then(|synced| graph.edits.since(synced));
        let Some(nodes) = since else { return Ok(Followed::NotAtAll) };
        let all = self.node_count.saturating_add(graph.count_around(&nodes)?);
        let few = nodes.len().saturating_mul(WORTH) <= all;
        // What the slots say of the nodes would have to follow as well.
        let slotted = self.slots.is_some() || graph.share().has_slots();
        if !few || (slotted && !nodes.is_empty()) || (strict && nodes.len() > 1) {
            return Ok(Followed::NotAtAll);
        }
        if !nodes.is_empty() {
            // Once for all: see `set_kernel`.
            let taken = self.context.clone().entered(|_| Ok(self.take_all(graph, &nodes)))?;
            if let Some(stopped) = taken? {
                return Ok(stopped);
            }
            self.replace_owners(graph);
            self.prepare();
        }
        self.synced = Some(graph.edits.revision());
        Ok(Followed::Wholly(nodes.len()))
    }

    /// Gives the nodes their parameters. Gives where that stopped.
    fn take_all(&mut self, graph: &Graph, nodes: &[NodeId]) -> CudaResult<Option<Followed>> {
        for (index, node) in nodes.iter().enumerate() {
            match self.take(graph, *node) {
                Ok(()) => {}
                // It has no such node if the graph around that was embedded later, and takes that
                // as a whole.
                Err(error) if node.is_inner() && is_refusal(&error) => {
                    if index > 0 {
                        self.half_way(graph, *node, &error);
                    }
                    return Ok(Some(Followed::NotAtAll));
                }
                Err(error) if index > 0 => return Ok(Some(self.half_way(graph, *node, &error))),
                Err(error) if is_refusal(&error) => return Ok(Some(stopped(graph, *node, &error))),
                Err(error) => {
                    // It cannot be known whether the node has taken them.
                    self.synced = None;
                    self.owners_mut().keep(graph.share().clone());
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    #[cold]
    fn half_way(&mut self, graph: &Graph, node: NodeId, error: &CudaError) -> Followed {
        self.synced = None;
        self.half_way.set(true);
        self.owners_mut().keep(graph.share().clone());
        self.prepare();
        stopped(graph, node, error)
    }

    /// Gives a node the parameters that it has in the graph.
    fn take(&self, graph: &Graph, node: NodeId) -> CudaResult<()> {
        let raw = graph.require_at_any_depth(node, "node")?;
        let place = graph.edits.place_of(node).unwrap_or(&graph.context);
        match graph.kind(raw)? {
            NodeKind::Kernel => {
                let params = graph.reader().raw_kernel(raw)?;
                // SAFETY: a live executable graph that no other thread uses now, a node of the
                // graph that it was made of, and that node's own parameters, which the graph keeps
                // alive and nobody changes meanwhile.
                unsafe { set_kernel(self, raw, &params) }
            }
            NodeKind::Memcpy => self.take_copy(raw, place),
            NodeKind::Memset => self.take_fill(raw, place),
            NodeKind::Host => self.take_host(raw),
            NodeKind::BatchMemOp => self.take_batch(raw),
            NodeKind::EventRecord => self.take_event(raw, true),
            NodeKind::EventWait => self.take_event(raw, false),
            NodeKind::ChildGraph => {
                let child = graph.reader().child(raw)?.raw;
                // SAFETY: as above, and a live graph, which the driver copies.
                check(unsafe {
                    (self.functions().cuGraphExecChildGraphNodeSetParams)(self.raw, raw, child)
                })
            }
            // No node of another kind is changed by itself.
            _ => Err(CudaError::NotSupported),
        }
    }

    fn take_copy(&self, node: CUgraphNode, place: &Context) -> CudaResult<()> {
        let (functions, context) = (self.functions(), place.as_raw());
        let mut params = CUDA_MEMCPY3D::default();
        // SAFETY: a copy node of a live graph, and a live out-pointer.
        check(unsafe { (functions.cuGraphMemcpyNodeGetParams)(node, &mut params) })?;
        // SAFETY: a live executable graph that no other thread uses now, a node of the graph that
        // it was made of, and that node's own parameters.
        check(unsafe {
            (functions.cuGraphExecMemcpyNodeSetParams)(self.raw, node, &params, context)
        })
    }

    fn take_fill(&self, node: CUgraphNode, place: &Context) -> CudaResult<()> {
        let (functions, context) = (self.functions(), place.as_raw());
        let mut params = CUDA_MEMSET_NODE_PARAMS::default();
        // SAFETY: a fill node of a live graph, and a live out-pointer.
        check(unsafe { (functions.cuGraphMemsetNodeGetParams)(node, &mut params) })?;
        // SAFETY: as in `take_copy`.
        check(unsafe {
            (functions.cuGraphExecMemsetNodeSetParams)(self.raw, node, &params, context)
        })
    }

    fn take_host(&self, node: CUgraphNode) -> CudaResult<()> {
        let functions = self.functions();
        let mut params = CUDA_HOST_NODE_PARAMS::default();
        // SAFETY: a host node of a live graph, and a live out-pointer.
        check(unsafe { (functions.cuGraphHostNodeGetParams)(node, &mut params) })?;
        // SAFETY: as in `take_copy`.
        check(unsafe { (functions.cuGraphExecHostNodeSetParams)(self.raw, node, &params) })
    }

    fn take_batch(&self, node: CUgraphNode) -> CudaResult<()> {
        let functions = self.functions();
        let mut params = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
        // SAFETY: a node of a live graph of that kind, and a live out-pointer.
        check(unsafe { (functions.cuGraphBatchMemOpNodeGetParams)(node, &mut params) })?;
        // SAFETY: as in `take_copy`. NVIDIA: the array is the node's own, and nobody changes that
        // meanwhile.
        check(unsafe { (functions.cuGraphExecBatchMemOpNodeSetParams)(self.raw, node, &params) })
    }

    fn take_event(&self, node: CUgraphNode, records: bool) -> CudaResult<()> {
        let functions = self.functions();
        let (get, set) = match records {
            true => (
                functions.cuGraphEventRecordNodeGetEvent,
                functions.cuGraphExecEventRecordNodeSetEvent,
            ),
            false => {
                (functions.cuGraphEventWaitNodeGetEvent, functions.cuGraphExecEventWaitNodeSetEvent)
            }
        };
        let mut event = ptr::null_mut();
        // SAFETY: a node of a live graph of that kind, and a live out-pointer.
        check(unsafe { get(node, &mut event) })?;
        // SAFETY: as in `take_copy`; the event is the graph's.
        check(unsafe { set(self.raw, node, event) })
    }
}

#[cold]
fn stopped(graph: &Graph, node: NodeId, error: &CudaError) -> Followed {
    Followed::Stopped(UpdateError::of_node(graph, node.as_raw(), error.code()))
}
