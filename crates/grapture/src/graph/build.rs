//! Building a graph by hand.

use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_KERNEL_NODE_PARAMS_v2, CUgraph,
    CUgraphNode, Function, Functions,
};

use crate::context::Context;
use crate::error::{CudaError, CudaResult, check};
use crate::event::Event;
use crate::graph::pools::refuse_shared_pools;
use crate::graph::{BatchNode, CopyNode, FillNode, Graph, GraphKey, NodeId};
use crate::host_function::Call;
use crate::launch::{LaunchBuilder, before_contexts};
use crate::memory::GraphMemory;
use crate::retain::{Owners, Share};
use crate::stream::other_context_than;

/// What a call that adds a node gets.
pub(crate) struct Place<'a> {
    pub(crate) functions: &'a Functions,
    pub(crate) graph: CUgraph,
    pub(crate) after: *const CUgraphNode,
    pub(crate) count: usize,
}

impl Graph {
    /// An empty graph, to build.
    ///
    /// Each node comes after those that are named with it; `&[]` for none. A node runs as soon as
    /// these are done: nothing but the dependencies orders it, whatever memory it uses. The graph
    /// keeps alive what its nodes use, and so does whatever is made from it (O2).
    ///
    /// Adding a node does not block, unless it uses memory that was allocated in the order of a
    /// stream: that is waited for.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let input = PinnedBuffer::from_slice(&context, &[1u32, 2, 3, 4])?;
    /// let mut output = PinnedBuffer::<u32>::zeroed(&context, 4)?;
    /// let mut buffer = DeviceBuffer::<u32>::alloc(&context, 4)?;
    ///
    /// let mut graph = Graph::new(&context)?;
    /// let load = graph.add_copy(CopyNode::from_pinned(&mut buffer, &input)?, &[])?;
    /// let clear = graph.add_fill(FillNode::new(&mut buffer.view_mut(2..)?, 0)?, &[load])?;
    /// graph.add_copy(CopyNode::to_pinned(&mut output, &buffer)?, &[clear])?;
    ///
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(*output.read()?, [1, 2, 0, 0]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As the driver answers. [`NotSupported`](CudaError::NotSupported): the driver is older than
    /// 10.0.
    #[doc(alias = "cuGraphCreate")]
    pub fn new(context: &Context) -> CudaResult<Graph> {
        let mut raw = ptr::null_mut();
        // SAFETY: a live out-pointer; there are no flags yet.
        check(unsafe { (context.functions().cuGraphCreate)(&mut raw, 0) })?;
        let share = Share::new(Owners::default());
        // SAFETY: it was just made, and is nobody else's.
        Ok(unsafe { Graph::of(context.clone(), raw, GraphKey::new(), share) })
    }

    /// Adds a node that runs a kernel, after the nodes `after`. The attributes that the launch
    /// names (cluster, cooperative, priority, memory sync domain) become the node's.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// # let module = context.load_ptx(
    /// #     ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry one(.param .u64 p) {\
    /// #      .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [p]; mov.u32 %v, 1;\
    /// #      st.global.u32 [%a], %v; ret; }")?;
    /// let kernel = module.kernel("one")?;
    /// let mut word = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let mut graph = Graph::new(&context)?;
    /// // SAFETY: `one` takes the address of a word.
    /// unsafe { graph.add_kernel(kernel.launch_builder(1, 1).arg_mut(&mut word), &[]) }?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(word.to_vec(&stream)?, [1]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`LaunchBuilder::launch`], for each launch of the graph.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): what [`LaunchBuilder::launch`] refuses, programmatic
    /// serialization (which is the dependency's: [`EdgeData::PROGRAMMATIC`](crate::EdgeData)), and
    /// a node of another graph in `after`. As the driver answers.
    #[doc(alias = "cuGraphAddKernelNode")]
    #[track_caller]
    pub unsafe fn add_kernel(
        &mut self,
        launch: LaunchBuilder<'_>,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        self.require_place(launch.context(), "kernel")?;
        let owners = launch.owners();
        let context = self.context.clone();
        let node = launch.with_node(|params| {
            self.insert(after, owners, |place, node| {
                // SAFETY: the parameters are those of a live kernel, with live arguments of the
                // right number and sizes (checked); the driver copies them in the call. What they
                // are the addresses of is the graph's, or the caller's promise.
                unsafe { add_kernel(&context, place, node, params) }?;
                for attribute in launch.node_attributes() {
                    let (id, value) = (attribute.id, attribute.value);
                    // SAFETY: the kernel node that was just made, and a live value for the id.
                    let code = unsafe {
                        (place.functions.cuGraphKernelNodeSetAttribute)(*node, id, &value)
                    };
                    check(code)?;
                }
                Ok(())
            })
        })?;
        self.set_line(node, Location::caller());
        Ok(node)
    }

    /// Adds a node that copies, after the nodes `after`.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`, or memory of another
    /// context. As the driver answers.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    #[track_caller]
    pub fn add_copy(&mut self, copy: CopyNode, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_place(&copy.context, "copy")?;
        let (context, params) = (copy.context.as_raw(), copy.params);
        let node = self.insert(after, copy.owners, |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and parameters that the driver copies. Both ends
            // lie within memory (checked) that the graph keeps alive (O2).
            check(unsafe {
                (functions.cuGraphAddMemcpyNode)(node, graph, after, count, &params, context)
            })
        })?;
        self.note_place(node, &copy.context);
        Ok(node)
    }

    /// Adds a node that fills, after the nodes `after`.
    ///
    /// # Errors
    ///
    /// As [`add_copy`](Graph::add_copy).
    #[doc(alias = "cuGraphAddMemsetNode")]
    #[track_caller]
    pub fn add_fill(&mut self, fill: FillNode, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_place(&fill.context, "fill")?;
        let (context, params) = (fill.context.as_raw(), fill.params);
        let node = self.insert(after, fill.owners, |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and parameters that the driver copies. The target
            // lies within memory (checked) that the graph keeps alive (O2).
            check(unsafe {
                (functions.cuGraphAddMemsetNode)(node, graph, after, count, &params, context)
            })
        })?;
        self.note_place(node, &fill.context);
        Ok(node)
    }

    /// Adds a node that calls a function on a thread of the driver at every launch, after the nodes
    /// `after`. What [`Stream::host_function`](crate::Stream::host_function) says of the function
    /// in a capture is true of this one.
    ///
    /// ```
    /// # use grapture::*;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// static RUNS: AtomicU32 = AtomicU32::new(0);
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_host(|| _ = RUNS.fetch_add(1, Ordering::Relaxed), &[])?;
    /// let exec = graph.instantiate()?;
    /// exec.launch(&stream)?;
    /// exec.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(RUNS.load(Ordering::Relaxed), 2);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`. As the driver answers;
    /// the function is dropped then.
    #[doc(alias = "cuGraphAddHostNode")]
    #[track_caller]
    pub fn add_host(
        &mut self,
        function: impl Fn() + Send + Sync + 'static,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        self.add_call(&Arc::new(Call::new(&self.context, function)), after)
    }

    /// Adds a node that makes a call at every launch.
    #[track_caller]
    pub(crate) fn add_call(&mut self, call: &Arc<Call>, after: &[NodeId]) -> CudaResult<NodeId> {
        let mut owners = Owners::here();
        owners.retain(call);
        let params = Call::params(call);
        self.insert(after, owners, |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and parameters that the driver copies. The call
            // lives as long as the graph can run (O2).
            check(unsafe { (functions.cuGraphAddHostNode)(node, graph, after, count, &params) })
        })
    }

    /// Adds a node that does nothing, after the nodes `after`: for others to wait for.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`. As the driver answers.
    #[doc(alias = "cuGraphAddEmptyNode")]
    #[track_caller]
    pub fn add_empty(&mut self, after: &[NodeId]) -> CudaResult<NodeId> {
        self.insert(after, Owners::default(), |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph and nodes of it.
            check(unsafe { (functions.cuGraphAddEmptyNode)(node, graph, after, count) })
        })
    }

    /// Adds a node that records the event at every launch, after the nodes `after`, for work
    /// outside to wait for.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let (half, mut words) = (Event::new(&context)?, DeviceBuffer::<u32>::zeroed(&context, 4)?);
    /// let mut graph = Graph::new(&context)?;
    /// let fill = graph.add_fill(FillNode::new(&mut words, 7)?, &[])?;
    /// graph.add_event_record(&half, &[fill])?;
    /// graph.instantiate()?.launch(&stream)?;
    /// // Another stream goes on when the words are filled.
    /// let other = Stream::new(&context)?;
    /// half.wait(&other)?;
    /// assert_eq!(words.to_vec(&other)?, [7; 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`, or an event of another
    /// context. [`NotSupported`](CudaError::NotSupported): the driver is older than 11.1.
    #[doc(alias = "cuGraphAddEventRecordNode")]
    #[track_caller]
    pub fn add_event_record(&mut self, event: &Event, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_place(event.context(), "event")?;
        let node = self.insert(after, event.record_owners(), |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and an event that the graph keeps alive (O2).
            check(unsafe {
                (functions.cuGraphAddEventRecordNode)(node, graph, after, count, event.as_raw())
            })
        })?;
        event.recorded_by_a_node();
        Ok(node)
    }

    /// Adds a node that waits, at every launch, for the event's last record outside, after the
    /// nodes `after`.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let (ready, mut words) = (Event::new(&context)?, DeviceBuffer::<u32>::zeroed(&context, 4)?);
    /// let mut copies = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let mut graph = Graph::new(&context)?;
    /// let wait = graph.add_event_wait(&ready, &[])?;
    /// graph.add_copy(CopyNode::device(&mut copies, &words)?, &[wait])?;
    /// let exec = graph.instantiate()?;
    /// let producer = Stream::new(&context)?;
    /// words.fill(7, &producer)?;
    /// ready.record(&producer)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(copies.to_vec(&stream)?, [7; 4]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): a node of another graph in `after`, or an event of another
    /// driver or that was last recorded in a capture that is open. [`NotSupported`](CudaError::NotSupported): the driver is older than 11.1.
    #[doc(alias = "cuGraphAddEventWaitNode")]
    #[track_caller]
    pub fn add_event_wait(&mut self, event: &Event, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_driver(event.context(), "event")?;
        self.insert(after, event.wait_owners()?, |place, node| {
            let Place { functions, graph, after, count } = *place;
            // SAFETY: a live graph, nodes of it, and an event that the graph keeps alive (O2).
            check(unsafe {
                (functions.cuGraphAddEventWaitNode)(node, graph, after, count, event.as_raw())
            })
        })
    }

    /// Adds a node that writes words and waits for words, after the nodes `after`.
    ///
    /// # Errors
    ///
    /// As [`add_copy`](Graph::add_copy). [`NotSupported`](CudaError::NotSupported): the driver is
    /// older than 11.7, or the device cannot do one of the operations.
    #[doc(alias = "cuGraphAddBatchMemOpNode")]
    #[track_caller]
    pub fn add_batch(&mut self, mut batch: BatchNode, after: &[NodeId]) -> CudaResult<NodeId> {
        self.require_place(&batch.context, "batch")?;
        let owners = std::mem::take(&mut batch.owners);
        self.insert(after, owners, |place, node| {
            let Place { functions, graph, after, count } = *place;
            let params = batch.params();
            // SAFETY: a live graph, nodes of it, and operations that the driver copies. Their words
            // lie within memory (checked) that the graph keeps alive (O2).
            check(unsafe {
                (functions.cuGraphAddBatchMemOpNode)(node, graph, after, count, &params)
            })
        })
    }

    /// Adds a node by `add`, which may fail after it has made one, at the caller's line, and keeps
    /// what it uses.
    #[track_caller]
    pub(super) fn insert(
        &mut self,
        after: &[NodeId],
        owners: Owners,
        add: impl FnOnce(&Place<'_>, &mut CUgraphNode) -> CudaResult<()>,
    ) -> CudaResult<NodeId> {
        owners.wait_until_ready()?;
        refuse_shared_pools(self.share(), &owners, None)?;
        let mut nodes = Vec::with_capacity(after.len());
        for node in after {
            let raw = self.require(*node, "after")?;
            // The driver refuses a node that is named twice (measured).
            if !nodes.contains(&raw) {
                nodes.push(raw);
            }
        }
        // Memory that a node of the graph allocates is there behind that node.
        for memory in owners.graph_memory() {
            let raw = self.require_memory(memory)?;
            if !self.is_ordered_exactly() && !nodes.contains(&raw) {
                nodes.push(raw);
            }
        }
        let functions = self.context.functions();
        let after = if nodes.is_empty() { ptr::null() } else { nodes.as_ptr() };
        let place = Place { functions, graph: self.raw, after, count: nodes.len() };
        let mut raw = ptr::null_mut();
        if let Err(error) = add(&place, &mut raw) {
            if !raw.is_null() {
                // SAFETY: a node of this graph that nobody knows.
                let code = unsafe { (functions.cuGraphDestroyNode)(raw) };
                // The graph of a capture gives none back (measured): who adds to that breaks it then.
                if code != CUDA_ERROR_ILLEGAL_STATE {
                    crate::drop_error::report("cuGraphDestroyNode", check(code));
                }
            }
            return Err(error);
        }
        let id = self.id(raw);
        self.edits.shape();
        owners.slot_nodes().for_each(|node| node.name(id));
        owners.graph_memory().for_each(|memory| memory.add_user(id));
        if !owners.is_empty() {
            let old = self.share_mut().set(id, owners);
            debug_assert!(old.is_none(), "a name is of one node only");
        }
        self.set_line(id, Location::caller());
        Ok(id)
    }

    /// The node that allocates the memory, if it is of this graph and nothing has freed it.
    pub(super) fn require_memory(&self, memory: &GraphMemory) -> CudaResult<CUgraphNode> {
        if memory.is_freed() {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "memory",
                "a node of the graph frees it already: add what uses it before",
            ));
        }
        self.require(memory.allocated_by, "memory")
    }

    /// Refuses a context in which no node of this graph can run: the body of a conditional node has
    /// nodes of one context alone.
    pub(super) fn require_place(&self, context: &Context, what: &'static str) -> CudaResult<()> {
        match self.is_body() && !self.context.same(context) {
            true => Err(other_context_than(what, "body")),
            false => self.require_driver(context, what),
        }
    }

    /// Notes the context in which a node runs.
    pub(super) fn note_place(&mut self, node: NodeId, context: &Context) {
        let other = !self.context.same(context);
        self.edits.place(node, other.then_some(context));
    }

    pub(super) fn require_driver(&self, context: &Context, what: &'static str) -> CudaResult<()> {
        if self.context.driver().same(context.driver()) {
            return Ok(());
        }
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            what,
            "it belongs to another driver than the graph: make both from one `Driver`",
        ))
    }
}

/// Without a context that is current the driver crashes, whatever the parameters say (measured).
///
/// # Safety
///
/// The parameters are those of a live kernel of the context, with its arguments.
pub(super) unsafe fn add_kernel(
    context: &Context,
    place: &Place<'_>,
    node: &mut CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS_v2,
) -> CudaResult<()> {
    let Place { functions, graph, after, count } = *place;
    let mut add = || {
        if context.driver().has(Function::cuGraphAddKernelNode_v2) {
            // SAFETY: the caller's promise; a live graph and nodes of it.
            return unsafe {
                (functions.cuGraphAddKernelNode_v2)(node, graph, after, count, params)
            };
        }
        let old = before_contexts(params);
        // SAFETY: as above. The node acts on the context that is current, which is the graph's.
        unsafe { (functions.cuGraphAddKernelNode)(node, graph, after, count, &old) }
    };
    context.entered(|_| check(add()))
}
