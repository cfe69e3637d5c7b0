//! Nodes that are added to an open capture by hand.

use std::sync::{Arc, MutexGuard};

use crate::capture::child::invalidate;
use crate::capture::recording::SharedRecording;
use crate::capture::{StreamGraphCapture, conditional};
use crate::error::{CudaError, CudaResult};
use crate::event::Event;
use crate::graph::{BatchNode, CopyNode, FillNode, Graph, LentGraph, NodeId};
use crate::host_function::Call;
use crate::launch::LaunchBuilder;
use crate::operation::{Operation, OperationKind};
use crate::retain::Owners;

/// The graph of an open capture while a node is added to it: no other thread submits meanwhile.
struct Adding<'a> {
    graph: LentGraph,
    _shared: MutexGuard<'a, SharedRecording>,
}

impl StreamGraphCapture<'_> {
    /// Adds a node that runs a kernel to the graph that is being captured, after its nodes `after`.
    ///
    /// The nodes that the `add_` methods make are in no order but that: they come after what is named
    /// with them, of what was captured or added so far, and what the streams of the capture get next
    /// does not wait for them, until
    /// [`add_dependencies`](StreamGraphCapture::add_dependencies) or
    /// [`set_dependencies`](StreamGraphCapture::set_dependencies) says so. The names stay those of
    /// the nodes when the capture has become a graph. It does not block, unless the node uses memory
    /// that was allocated in the order of a stream: that is waited for.
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
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     words.fill(7, &stream)?;
    ///     let filled = capture.dependencies()?;
    ///     // SAFETY: `one` takes the address of a word.
    ///     let one = unsafe {
    ///         capture.add_kernel(kernel.launch_builder(1, 1).arg_mut(&mut words), &filled)
    ///     }?;
    ///     capture.set_dependencies(&[one])?;
    ///     words.view_mut(1..)?.fill(8, &stream) // after the kernel
    /// })?;
    /// assert_eq!(graph.edges()?.len(), 2);
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [1, 8]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`LaunchBuilder::launch`], for each launch of the graph.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and the capture stays valid: what
    /// [`Graph::add_kernel`] refuses, such as a node of another graph in `after`; a
    /// [`Temporary`](crate::Temporary), which is kept in order by the streams alone; a capture that
    /// another thread began, or of which a part is being captured.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.3. As the driver
    /// answers.
    #[doc(alias = "cuGraphAddKernelNode")]
    #[track_caller]
    pub unsafe fn add_kernel(
        &self,
        launch: LaunchBuilder<'_>,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        let operation = launch.operation();
        launch.owners().wait_until_ready()?;
        let mut adding = self.adding()?;
        // What an attribute costs is asked for only where there is one.
        let before = launch.has_attributes().then(|| adding.graph.node_count());
        // SAFETY: the caller's promise.
        let added = unsafe { adding.graph.add_kernel(launch, after) };
        if added.is_err() && before.is_some_and(|before| before != adding.graph.node_count()) {
            // An attribute was refused. The node cannot be taken out again (measured).
            drop(adding);
            invalidate(self.stream);
            return self.failed(operation, added);
        }
        self.added(adding, operation, added)
    }

    /// Adds a node that copies. Else as [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_copy`].
    #[doc(alias = "cuGraphAddMemcpyNode")]
    #[track_caller]
    pub fn add_copy(&self, copy: CopyNode, after: &[NodeId]) -> CudaResult<NodeId> {
        let operation = copy.operation();
        copy.wait_until_ready()?;
        let mut adding = self.adding()?;
        let added = adding.graph.add_copy(copy, after);
        self.added(adding, operation, added)
    }

    /// Adds a node that fills. Else as [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_fill`].
    #[doc(alias = "cuGraphAddMemsetNode")]
    #[track_caller]
    pub fn add_fill(&self, fill: FillNode, after: &[NodeId]) -> CudaResult<NodeId> {
        let operation = fill.operation();
        fill.wait_until_ready()?;
        let mut adding = self.adding()?;
        let added = adding.graph.add_fill(fill, after);
        self.added(adding, operation, added)
    }

    /// Adds a node that calls a function on a thread of the driver at every launch. Else as
    /// [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_host`].
    #[doc(alias = "cuGraphAddHostNode")]
    #[track_caller]
    pub fn add_host(
        &self,
        function: impl Fn() + Send + Sync + 'static,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        let operation = Operation::new(OperationKind::HostFunction);
        // It outlives the lock: what it captured may submit to the capture when it is dropped.
        let call = Arc::new(Call::new(self.stream.context(), function));
        let mut adding = self.adding()?;
        let added = adding.graph.add_call(&call, after);
        self.added(adding, operation, added)
    }

    /// Adds a node that does nothing, for others to wait for. Else as
    /// [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel).
    #[doc(alias = "cuGraphAddEmptyNode")]
    #[track_caller]
    pub fn add_empty(&self, after: &[NodeId]) -> CudaResult<NodeId> {
        let mut adding = self.adding()?;
        let added = adding.graph.add_empty(after);
        self.added(adding, Operation::new(OperationKind::Empty), added)
    }

    /// Adds a node that records the event at every launch. Else as
    /// [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_event_record`].
    #[doc(alias = "cuGraphAddEventRecordNode")]
    #[track_caller]
    pub fn add_event_record(&self, event: &Event, after: &[NodeId]) -> CudaResult<NodeId> {
        let mut adding = self.adding()?;
        let added = adding.graph.add_event_record(event, after);
        self.added(adding, Operation::new(OperationKind::EventRecordExternal), added)
    }

    /// Adds a node that waits, at every launch, for the event's last record outside. Else as
    /// [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_event_wait`].
    #[doc(alias = "cuGraphAddEventWaitNode")]
    #[track_caller]
    pub fn add_event_wait(&self, event: &Event, after: &[NodeId]) -> CudaResult<NodeId> {
        let mut adding = self.adding()?;
        let added = adding.graph.add_event_wait(event, after);
        self.added(adding, Operation::new(OperationKind::EventWaitExternal), added)
    }

    /// Adds a node that writes words and waits for words. Else as
    /// [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_batch`].
    #[doc(alias = "cuGraphAddBatchMemOpNode")]
    #[track_caller]
    pub fn add_batch(&self, batch: BatchNode, after: &[NodeId]) -> CudaResult<NodeId> {
        batch.wait_until_ready()?;
        let mut adding = self.adding()?;
        let added = adding.graph.add_batch(batch, after);
        self.added(adding, Operation::new(OperationKind::MemoryBatch), added)
    }

    /// Adds a node that runs a copy of another graph, which
    /// [`embed`](StreamGraphCapture::embed) puts into the order of the stream. Else as
    /// [`add_kernel`](StreamGraphCapture::add_kernel).
    ///
    /// # Errors
    ///
    /// As [`add_kernel`](StreamGraphCapture::add_kernel) and [`Graph::add_child`], and for a graph
    /// that uses a [`GraphPool`](crate::GraphPool).
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[track_caller]
    pub fn add_child(&self, child: &Graph, after: &[NodeId]) -> CudaResult<NodeId> {
        child.refuse_pools("embed it, which puts it into the order of the stream")?;
        let notes = child.inner_notes()?;
        let mut adding = self.adding()?;
        let added = adding.graph.add_child(child, after);
        let added = self.added(adding, Operation::new(OperationKind::ChildGraph), added);
        if let (Ok(_), Some(notes)) = (&added, notes) {
            self.log.mark(|next, marks| marks.add_child(next, notes));
        }
        added
    }

    /// The graph that is being captured, to add a node to.
    fn adding(&self) -> CudaResult<Adding<'_>> {
        let names = self.log.paused(Clone::clone).ok_or_else(|| self.log.elsewhere())?;
        let shared = self.log.keep_others_out();
        let info = conditional::active(self.stream)?;
        let context = self.stream.context().clone();
        // SAFETY: the graph of a capture that was valid just now. A broken one too keeps its graph
        // until it is ended (measured), and this thread, which began it, ends it and is here. The
        // others submit nothing meanwhile.
        let graph = unsafe { Graph::lent(context, info.graph, names) };
        Ok(Adding { graph, _shared: shared })
    }

    /// Notes a node that was added, or why it was not.
    fn added(
        &self,
        adding: Adding<'_>,
        operation: Operation,
        added: CudaResult<NodeId>,
    ) -> CudaResult<NodeId> {
        let share = adding.graph.share().clone();
        let slots = adding.graph.own_slots();
        drop(adding);
        let Ok(node) = added else { return self.failed(operation, added) };
        self.log.note_loose(&[node.as_raw()]);
        let retain = |owners: &mut Owners| {
            if !share.is_empty() {
                owners.retain_graph(share);
            }
            slots.iter().for_each(|slots| owners.retain_slots(slots));
        };
        let noted = self.log.record(self.stream, operation, retain, || Ok(()));
        noted.unwrap_or(Ok(())).map(|()| node)
    }

    /// What to answer for a node that was not added: the first cause, if the capture is broken.
    #[cold]
    fn failed(&self, operation: Operation, added: CudaResult<NodeId>) -> CudaResult<NodeId> {
        match added {
            Err(error @ (CudaError::Refused(_) | CudaError::NotSupported)) => Err(error),
            Err(error) => {
                let noted = self.log.record(self.stream, operation, |_| {}, || Err(error.clone()));
                Err(noted.and_then(Result::err).unwrap_or(error))
            }
            added => added,
        }
    }
}
