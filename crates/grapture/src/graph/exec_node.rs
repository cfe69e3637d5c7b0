//! [`ExecNode`]: one node of an executable graph, to change.

use std::fmt;
use std::mem;
use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_INVALID_CLUSTER_SIZE,
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_NOT_SUPPORTED, CUDA_KERNEL_NODE_PARAMS_v2, CUgraphNode, Function,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult, check};
use crate::event::Event;
use crate::graph::node_ref::other_kind;
use crate::graph::pools::refuse_shared_pools;
use crate::graph::update_error::UpdateError;
use crate::graph::{BatchNode, CopyNode, FillNode, Graph, GraphExec, NodeId, NodeKind};
use crate::host_function::Call;
use crate::launch::{LaunchBuilder, before_contexts};
use crate::retain::{Owners, Share};

impl GraphExec {
    /// A node, to change, of an executable graph that keeps the graph that it was made of: from
    /// [`StreamGraphCapture::end`](crate::StreamGraphCapture::end) or
    /// [`Graph::into_exec`].
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::alloc(&context, 4)?;
    /// let mut graph = Graph::new(&context)?;
    /// let fill = graph.add_fill(FillNode::new(&mut words, 7)?, &[])?;
    /// let mut exec = graph.into_exec()?;
    /// exec.node(fill)?.set_fill(FillNode::new(&mut words, 8)?)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [8; 4]);
    ///
    /// exec.node(fill)?.set_enabled(false)?;
    /// words.fill(0, &stream)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [0; 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): it is no node of the graph that the executable was made of
    /// and keeps, or it was removed there.
    pub fn node(&mut self, node: NodeId) -> CudaResult<ExecNode<'_>> {
        let Some(source) = self.graph() else { return Err(no_source()) };
        let raw = source.require_at_any_depth(node, "node")?;
        Ok(ExecNode { exec: self, graph: None, id: node, raw })
    }

    /// A node, to change, of an executable graph that was made of `graph`, which the program
    /// keeps. It must be the graph whose nodes have the names: see [`update`](GraphExec::update).
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the executable was made of another graph, or it is no node
    /// of `graph`, or was removed there.
    pub fn node_of<'a>(&'a mut self, graph: &'a Graph, node: NodeId) -> CudaResult<ExecNode<'a>> {
        if self.key != graph.names().graph() {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_HANDLE,
                "graph",
                "the executable graph was not made of it: name the nodes by the graph that it was \
                 made of",
            ));
        }
        let raw = self.handle_of(graph, node)?;
        Ok(ExecNode { exec: self, graph: Some(graph), id: node, raw })
    }
}

/// A node of an executable graph, to change: from [`GraphExec::node`].
///
/// A change is for the launches to come: those in flight keep what they were launched with, and
/// what they use is kept until they are done. The graph that the executable was made of keeps what
/// it says. What the driver refuses leaves the node as it was. A node that was changed no longer
/// follows the [slots](crate::Slot) that it used.
pub struct ExecNode<'a> {
    exec: &'a mut GraphExec,
    /// The graph that has the name. None: the executable keeps it.
    graph: Option<&'a Graph>,
    id: NodeId,
    /// Good as long as that graph is borrowed or kept.
    raw: CUgraphNode,
}

impl ExecNode<'_> {
    /// Its name.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Has a kernel node run another launch: another kernel of the context too. The attributes of
    /// the node stay what they were.
    ///
    /// # Safety
    ///
    /// As for [`Graph::add_kernel`](crate::Graph::add_kernel), for each launch from now on.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): what [`LaunchBuilder::launch`] refuses, a launch that names
    /// attributes, which the driver would not change and not say so, or a node of another kind.
    /// [`Update`](CudaError::Update): the driver cannot change it so.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 10.1.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    #[track_caller]
    pub unsafe fn set_kernel(&mut self, launch: LaunchBuilder<'_>) -> CudaResult<()> {
        if launch.has_attributes() {
            return Err(attributes());
        }
        self.graph().require_driver(launch.context(), "kernel")?;
        let owners = launch.owners();
        let changed = launch.with_node(|params| {
            self.replace(NodeKind::Kernel, owners, |exec, raw| {
                // SAFETY: a live executable graph that no other thread uses now, a node of the
                // graph that it was made of, and the parameters of a live kernel, with live
                // arguments of the right number and sizes (checked), which the driver copies.
                unsafe { set_kernel(exec, raw, params) }
            })
        });
        changed.map_err(|error| self.elsewhere(launch.context(), error))
    }

    /// Has a copy node copy something else: one row, from and to memory of the kinds that it had.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, or memory of another context.
    /// [`Update`](CudaError::Update): the driver cannot change it so: rectangles, memory of other
    /// kinds, which memory that was allocated in the order of a stream is too.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 10.2.
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub fn set_copy(&mut self, copy: CopyNode) -> CudaResult<()> {
        self.graph().require_driver(&copy.context, "copy")?;
        let (params, context) = (copy.params, copy.context.as_raw());
        self.replace(NodeKind::Memcpy, copy.owners, |exec, raw| {
            // SAFETY: as in `set_kernel`, and parameters that the driver copies. Both ends lie
            // within memory (checked) that the executable keeps alive (O4).
            check(unsafe {
                (exec.functions().cuGraphExecMemcpyNodeSetParams)(exec.raw, raw, &params, context)
            })
        })
    }

    /// Has a fill node fill something else: one row, or a rectangle of the same shape.
    ///
    /// # Errors
    ///
    /// As [`set_copy`](ExecNode::set_copy).
    #[doc(alias = "cuGraphExecMemsetNodeSetParams")]
    pub fn set_fill(&mut self, fill: FillNode) -> CudaResult<()> {
        self.graph().require_driver(&fill.context, "fill")?;
        let (params, context) = (fill.params, fill.context.as_raw());
        self.replace(NodeKind::Memset, fill.owners, |exec, raw| {
            // SAFETY: as in `set_copy`.
            check(unsafe {
                (exec.functions().cuGraphExecMemsetNodeSetParams)(exec.raw, raw, &params, context)
            })
        })
    }

    /// Has a node of memory operations do others of the same kinds, at other words or with other
    /// values.
    ///
    /// # Errors
    ///
    /// As [`set_copy`](ExecNode::set_copy).
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.7.
    #[doc(alias = "cuGraphExecBatchMemOpNodeSetParams")]
    pub fn set_batch(&mut self, mut batch: BatchNode) -> CudaResult<()> {
        self.graph().require_driver(&batch.context, "batch")?;
        let owners = mem::take(&mut batch.owners);
        self.replace(NodeKind::BatchMemOp, owners, |exec, raw| {
            let params = batch.params();
            // SAFETY: as in `set_copy`: their words lie within memory that is kept alive.
            check(unsafe {
                (exec.functions().cuGraphExecBatchMemOpNodeSetParams)(exec.raw, raw, &params)
            })
        })
    }

    /// Has a host node call another function. What
    /// [`Stream::host_function`](crate::Stream::host_function) says of the function in a capture is
    /// true of this one.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 10.2.
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    #[track_caller]
    pub fn set_host(&mut self, function: impl Fn() + Send + Sync + 'static) -> CudaResult<()> {
        let call = Arc::new(Call::new(&self.exec.context, function));
        let mut owners = Owners::here();
        owners.retain(&call);
        let params = Call::params(&call);
        self.replace(NodeKind::Host, owners, |exec, raw| {
            // SAFETY: as in `set_copy`. The call lives as long as the executable can run it (O4).
            check(unsafe {
                (exec.functions().cuGraphExecHostNodeSetParams)(exec.raw, raw, &params)
            })
        })
    }

    /// Has a child graph node run what another graph of the same shape says now.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, or the graph of another
    /// context. [`Update`](CudaError::Update): the graph has another shape, or something that the
    /// driver cannot change. [`NotSupported`](CudaError::NotSupported): the driver is older than
    /// 11.1.
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    #[track_caller]
    pub fn set_child(&mut self, child: &Graph) -> CudaResult<()> {
        self.graph().require_driver(&child.context, "child")?;
        self.replace(NodeKind::ChildGraph, child.owners(), |exec, raw| {
            // SAFETY: as in `set_copy`, and a live graph that is borrowed, which the driver copies.
            check(unsafe {
                (exec.functions().cuGraphExecChildGraphNodeSetParams)(exec.raw, raw, child.raw)
            })
        })?;
        // What nodes within it were changed to use is used no more.
        let share = self.exec.owners().share();
        let edited = share.edited_nodes().filter(|node| self.graph().is_within(*node, self.id));
        let context = self.exec.context.clone();
        for node in edited.collect::<Vec<_>>() {
            self.exec.owners_mut().remove(node, context.driver());
        }
        self.exec.prepare();
        Ok(())
    }

    /// Has an event record node, or an event wait node, use another event.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind, or the event of another
    /// context (to record) or driver (to wait), or, to wait, was last recorded in a capture that is
    /// open.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.1.
    #[doc(alias = "cuGraphExecEventRecordNodeSetEvent")]
    #[doc(alias = "cuGraphExecEventWaitNodeSetEvent")]
    #[track_caller]
    pub fn set_event(&mut self, event: &Event) -> CudaResult<()> {
        let kind = self.graph().kind(self.raw)?;
        let records = kind == NodeKind::EventRecord;
        self.graph().require_driver(event.context(), "event")?;
        let named = if records { kind } else { NodeKind::EventWait };
        let owners = if records { event.record_owners() } else { event.wait_owners()? };
        self.replace(named, owners, |exec, raw| {
            let functions = exec.functions();
            let set = match records {
                true => functions.cuGraphExecEventRecordNodeSetEvent,
                false => functions.cuGraphExecEventWaitNodeSetEvent,
            };
            // SAFETY: as in `set_copy`, and an event that the executable keeps alive (O4).
            check(unsafe { set(exec.raw, raw, event.as_raw()) })
        })?;
        if records {
            event.recorded_by_a_node();
        }
        Ok(())
    }

    /// Switches the node on or off: a kernel, a copy or a fill. A node that is off does nothing at
    /// a launch, and what waits for it goes on. It keeps its parameters, and can be changed.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the node is of another kind.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.6.
    #[doc(alias = "cuGraphNodeSetEnabled")]
    pub fn set_enabled(&mut self, enabled: bool) -> CudaResult<()> {
        let set = self.exec.functions().cuGraphNodeSetEnabled;
        // SAFETY: a live executable graph that no other thread uses now, and a node of the graph
        // that it was made of.
        let done = check(unsafe { set(self.exec.raw, self.raw, u32::from(enabled)) });
        done.map_err(|error| self.no_switch(error))
    }

    /// Whether the node is on.
    ///
    /// # Errors
    ///
    /// As [`set_enabled`](ExecNode::set_enabled).
    #[doc(alias = "cuGraphNodeGetEnabled")]
    pub fn is_enabled(&self) -> CudaResult<bool> {
        let mut enabled = 0;
        // SAFETY: as in `set_enabled`, and a live out-pointer.
        let asked = check(unsafe {
            (self.exec.functions().cuGraphNodeGetEnabled)(self.exec.raw, self.raw, &mut enabled)
        });
        asked.map(|()| enabled != 0).map_err(|error| self.no_switch(error))
    }

    /// Changes what the node does by `set`, and what is kept alive for it.
    fn replace(
        &mut self,
        kind: NodeKind,
        owners: Owners,
        set: impl FnOnce(&GraphExec, CUgraphNode) -> CudaResult<()>,
    ) -> CudaResult<()> {
        owners.wait_until_ready()?;
        if owners.graph_memory().next().is_some() {
            return Err(graph_memory());
        }
        refuse_shared_pools(self.exec.owners().share(), &owners, Some(self.id))?;
        if owners.have_slots() {
            return Err(slots());
        }
        if let Err(error) = set(self.exec, self.raw) {
            let refused = is_refusal(&error);
            if !refused {
                // It cannot be known whether the node has taken them.
                self.exec.owners_mut().keep(Share::new(owners));
                self.exec.changed();
                self.exec.prepare();
            }
            return Err(if refused { self.failure(kind, error) } else { error });
        }
        self.exec.changed();
        let context = self.exec.context.clone();
        self.exec.forget_slots(self.raw);
        self.exec.owners_mut().set(self.id, owners, context.driver());
        self.exec.prepare();
        Ok(())
    }

    fn graph(&self) -> &Graph {
        // INVARIANT: `GraphExec::node` has found the source.
        self.graph.or_else(|| self.exec.graph()).expect("the executable keeps its graph")
    }

    /// Says why the driver did not take the parameters of a node of the kind.
    #[cold]
    fn failure(&self, kind: NodeKind, error: CudaError) -> CudaError {
        match self.graph().kind(self.raw) {
            _ if error == CudaError::NotSupported => error,
            Ok(known) if known != kind => other_kind(known, kind),
            _ if self.is_unknown() => unknown(),
            _ => UpdateError::of_node(self.graph(), self.raw, error.code()).into(),
        }
    }

    /// Says so if a kernel was refused because it is of another context than the node.
    #[cold]
    fn elsewhere(&self, context: &Context, error: CudaError) -> CudaError {
        let place = self.graph().reader().place_of_kernel(self.raw);
        match place {
            Ok(Some(place)) if place != context.as_raw() && is_refusal(&error) => {
                CudaError::refused(
                    CUDA_ERROR_INVALID_CONTEXT,
                    "kernel",
                    "it belongs to another context than the node, which keeps its own in an \
                     executable: change the node in the graph, and update the executable from there",
                )
            }
            _ => error,
        }
    }

    #[cold]
    fn no_switch(&self, error: CudaError) -> CudaError {
        match self.graph().kind(self.raw) {
            _ if error == CudaError::NotSupported || !is_refusal(&error) => error,
            Ok(NodeKind::Kernel | NodeKind::Memcpy | NodeKind::Memset) => unknown(),
            Ok(kind) => CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "node",
                format!("it is a {kind} node, and only kernels, copies and fills can be off"),
            ),
            Err(_) => error,
        }
    }

    /// Whether the executable is known not to have the node.
    fn is_unknown(&self) -> bool {
        let kind = self.graph().kind(self.raw);
        let can_ask = matches!(kind, Ok(NodeKind::Kernel | NodeKind::Memcpy | NodeKind::Memset));
        can_ask && self.is_enabled().is_err_and(|error| matches!(error, CudaError::Refused(_)))
    }
}

/// # Safety
///
/// A live executable graph, a node of the graph that it was made of, and the parameters of a live
/// kernel of its context.
pub(super) unsafe fn set_kernel(
    exec: &GraphExec,
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS_v2,
) -> CudaResult<()> {
    // The driver crashes if no context is current, also for parameters that name one (measured).
    exec.context.entered(|functions| {
        if exec.context.driver().has(Function::cuGraphExecKernelNodeSetParams_v2) {
            // SAFETY: the caller's promise.
            return check(unsafe {
                (functions.cuGraphExecKernelNodeSetParams_v2)(exec.raw, node, params)
            });
        }
        let old = before_contexts(params);
        // SAFETY: the caller's promise. The context that is current is the executable's.
        check(unsafe { (functions.cuGraphExecKernelNodeSetParams)(exec.raw, node, &old) })
    })
}

/// Whether the driver found the parameters wrong, and so has taken none of them (measured).
pub(super) fn is_refusal(error: &CudaError) -> bool {
    let refusals = [
        CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_NOT_SUPPORTED,
        CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
        CUDA_ERROR_INVALID_CLUSTER_SIZE,
    ];
    refusals.iter().any(|refusal| refusal.0 == error.code())
}

#[cold]
fn no_source() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_HANDLE,
        "exec",
        "it does not keep the graph that it was made of, whose nodes name its own: name that graph \
         with `node_of`, or make the executable with `Graph::into_exec`",
    )
}

#[cold]
pub(super) fn unknown() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_HANDLE,
        "node",
        "the executable graph has no such node: it was added to the graph, or embedded there, after \
         the executable was made of it",
    )
}

#[cold]
fn graph_memory() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "memory",
        "a node of a graph allocates it: change the node in that graph, and update the executable \
         from there",
    )
}

#[cold]
fn slots() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "slot",
        "a node that is changed by itself follows no slot: give it the values and the memory \
         themselves, or change it in the graph, and update the executable from there",
    )
}

#[cold]
fn attributes() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "kernel.attributes",
        "the driver changes no attributes of a node that is executable, and does not say so: leave \
         them out, and the node keeps its own, or change the graph and instantiate it",
    )
}

impl fmt::Debug for ExecNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecNode").field("id", &self.id).finish_non_exhaustive()
    }
}
