//! Conditional nodes in a capture: bodies that run or not, or again, as the device decides.

use std::panic::{Location, resume_unwind};

use grapture_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_SET_CAPTURE_DEPENDENCIES,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUgraph, CUgraphNode,
};

use crate::capture::StreamGraphCapture;
use crate::capture::body::{BodyPlace, BodyRecord, capture_body};
use crate::capture::info::RawInfo;
use crate::capture::nested::beside;
use crate::error::{CudaError, CudaResult};
use crate::graph::{
    Body, Branch, Branching, Condition, Decider, Decides, NodeId, Place, graph_nodes,
    launch_steering,
};
use crate::operation::{Operation, OperationKind};
use crate::reclaim::drop_contained;
use crate::stream::Stream;

/// Captures one body, by its number.
type Record<'a> = &'a mut dyn FnMut(usize, &StreamGraphCapture<'_>) -> CudaResult<()>;

impl StreamGraphCapture<'_> {
    /// A new condition for one conditional node of this capture, or of a body in it. Each launch
    /// begins with the `default`; without one, with what the launch before has left.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.3. As the driver
    /// answers. [`Refused`](CudaError::Refused) while a body of this capture is being captured:
    /// that of the body makes conditions too.
    #[doc(alias = "cuGraphConditionalHandleCreate")]
    #[track_caller]
    pub fn condition(&self, default: impl Into<Option<u32>>) -> CudaResult<Condition> {
        Branch::If.check(self.stream.driver())?;
        let (default, root) = (default.into(), self.nesting.root(&self.log));
        let made = self.log.paused(|_| {
            let info = active(self.stream)?;
            let context = self.stream.context();
            // SAFETY: the graph of a capture that is active and that nobody submits to meanwhile:
            // a broken one too keeps its graph until it is ended (measured).
            unsafe { Condition::create(context, info.graph, root, default) }
        });
        made.unwrap_or_else(|| Err(self.log.elsewhere()))
    }

    /// Captures a body that runs once if the condition is not zero when the stream's work so far
    /// is done. What the stream gets afterwards waits for it.
    ///
    /// The body is captured on a stream of its own, [`stream`](StreamGraphCapture::stream) of
    /// what the closure is given, and this capture's streams take nothing meanwhile. Bodies can
    /// have conditional nodes in turn, to any depth. A body can have kernels, copies, fills,
    /// conditional nodes, and graphs of these; anything else is refused at its end by the line
    /// that recorded it.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut wanted = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let condition = WordCondition::new(&wanted)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.if_(&condition, |body| out.fill(7, body.stream()))
    /// })?;
    /// let exec = graph.instantiate()?;
    /// exec.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [0]);
    /// wanted.fill(1, &stream)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `body` gives. [`Refused`](CudaError::Refused): a condition of another graph or of a
    /// node that there is, something that a body cannot have, another thread's capture, or one
    /// whose body is being captured. [`Capture`](CudaError::Capture) if a stream that joined the
    /// body was not joined back, or if the body is broken.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.3.
    ///
    /// After an error within a body this capture can only be given up: its end fails.
    #[doc(alias = "CU_GRAPH_COND_TYPE_IF")]
    #[track_caller]
    pub fn if_<F>(&self, condition: &impl Decides, body: F) -> CudaResult<()>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let mut body = Some(body);
        self.branch(Branch::If, condition, &mut |_, capture| {
            body.take().map_or(Ok(()), |body| body(capture))
        })
    }

    /// Captures two bodies, of which the first runs if the condition is not zero and the second if
    /// it is. Else as [`if_`](StreamGraphCapture::if_).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let wanted = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let (mut yes, mut no) = out.split_at_mut(1)?;
    /// let condition = WordCondition::new(&wanted)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.if_else(
    ///         &condition,
    ///         |body| yes.fill(7, body.stream()),
    ///         |body| no.fill(8, body.stream()),
    ///     )
    /// })?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [0, 8]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`if_`](StreamGraphCapture::if_), but [`NotSupported`](CudaError::NotSupported) from a
    /// driver before 12.8.
    #[track_caller]
    pub fn if_else<T, E>(&self, condition: &impl Decides, then: T, otherwise: E) -> CudaResult<()>
    where
        T: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
        E: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let (mut then, mut otherwise) = (Some(then), Some(otherwise));
        self.branch(Branch::IfElse, condition, &mut |index, capture| match index {
            0 => then.take().map_or(Ok(()), |body| body(capture)),
            _ => otherwise.take().map_or(Ok(()), |body| body(capture)),
        })
    }

    /// Captures a body that runs as long as the condition is not zero, which is looked at before
    /// each round. Else as [`if_`](StreamGraphCapture::if_).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// # let module = context.load_ptx(
    /// #     ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry down(.param .u64 p) {\
    /// #      .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [p]; ld.global.u32 %v, [%a];\
    /// #      sub.u32 %v, %v, 1; st.global.u32 [%a], %v; ret; }")?;
    /// let down = module.kernel("down")?; // takes one from a word
    /// let mut left = DeviceBuffer::from_slice(&context, &[1000u32])?;
    /// let condition = WordCondition::new(&left)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.while_(&condition, |body| {
    ///         let launch = down.launch_builder(1, 1).arg_mut(&mut left);
    ///         // SAFETY: `down` takes the address of a word.
    ///         unsafe { launch.launch(body.stream()) }
    ///     })
    /// })?;
    /// graph.instantiate()?.launch(&stream)?; // 1000 rounds, one call
    /// assert_eq!(left.to_vec(&stream)?, [0]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`if_`](StreamGraphCapture::if_).
    #[doc(alias = "CU_GRAPH_COND_TYPE_WHILE")]
    #[track_caller]
    pub fn while_<F>(&self, condition: &impl Decides, body: F) -> CudaResult<()>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let mut body = Some(body);
        self.branch(Branch::While, condition, &mut |_, capture| {
            body.take().map_or(Ok(()), |body| body(capture))
        })
    }

    /// Captures so many bodies, of which the one runs whose number, counted from 0, the condition
    /// is; none if there is none with that number. Else as [`if_`](StreamGraphCapture::if_).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 3)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     let condition = capture.condition(2)?;
    ///     capture.switch(&condition, 3, |case, body| {
    ///         out.view_mut(case..=case)?.fill(7, body.stream())
    ///     })
    /// })?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [0, 0, 7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`if_else`](StreamGraphCapture::if_else). [`Refused`](CudaError::Refused) for no cases.
    #[doc(alias = "CU_GRAPH_COND_TYPE_SWITCH")]
    #[track_caller]
    pub fn switch<F>(&self, condition: &impl Decides, cases: u32, mut body: F) -> CudaResult<()>
    where
        F: FnMut(usize, &StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        self.branch(Branch::Switch(cases), condition, &mut body)
    }

    #[track_caller]
    fn branch(
        &self,
        branch: Branch,
        condition: &dyn Decides,
        record: Record<'_>,
    ) -> CudaResult<()> {
        branch.check(self.stream.driver())?;
        let line = Location::caller();
        let decider = condition.decider();
        let before = self.nesting.failed();
        let fail = || _ = self.nesting.fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.0);
        let own;
        let condition = match decider {
            Decider::Condition(condition) => condition,
            Decider::Word(_) => {
                own = self.condition(None)?;
                &own
            }
        };
        let taken = condition.take(self.nesting.root(&self.log))?;
        if let Decider::Word(word) = decider {
            // A condition that no node goes by would bar instantiation.
            fail();
            launch_steering(condition, word, self.stream)?;
        }
        let names = self.log.names().ok_or_else(|| self.log.elsewhere())?;
        let (node, bodies) = self.add(branch, condition)?;
        taken.keep();
        // From here on the capture has a node whose bodies are not whole.
        fail();
        let suspended = self.log.suspend(line);
        let mut known = Vec::with_capacity(bodies.len());
        for (index, body) in bodies.into_iter().enumerate() {
            let recorded = self.capture_body(names.id(node), body, &mut |capture| {
                record(index, capture)?;
                match decider {
                    Decider::Word(word) if branch == Branch::While => {
                        launch_steering(condition, word, capture.stream)
                    }
                    _ => Ok(()),
                }
            });
            let mut body = recorded.inspect_err(|error| _ = self.nesting.fail(error.code()))?;
            if branch == Branch::While && decider.word().is_some() {
                // The kernel that reads the word again is the last one, and came by this line.
                body.notes.last_mut().into_iter().for_each(|note| note.set_line(line));
            }
            known.push(body);
        }
        drop(suspended);
        let branching = Branching::new(node, branch, condition, decider.word(), known);
        self.log.mark(|next, marks| marks.add_branching(next, branching));
        self.nesting.recover(before);
        Ok(())
    }

    /// Adds a conditional node, which the stream's next operation waits for. Gives it and its bodies.
    #[track_caller]
    fn add(
        &self,
        branch: Branch,
        condition: &Condition,
    ) -> CudaResult<(CUgraphNode, Vec<CUgraph>)> {
        let mut added_node = (std::ptr::null_mut(), Vec::new());
        let operation = Operation::new(OperationKind::Conditional);
        let added = self.log.record_alone(
            self.stream,
            operation,
            |_| {},
            || {
                let info = active(self.stream)?;
                let context = self.stream.context();
                let place = Place {
                    functions: context.functions(),
                    graph: info.graph,
                    after: info.dependencies,
                    count: info.count,
                };
                // SAFETY: the graph and the nodes of a capture that is active, valid until the next
                // call on it, which is this one: nobody else submits to it meanwhile.
                let made = unsafe { branch.add(context, &place, info.edges, condition.handle) };
                let (mut node, bodies) = made?;
                added_node = (node, bodies);
                let flags = CU_STREAM_SET_CAPTURE_DEPENDENCIES.0;
                let moved = self.stream.with(|functions, raw| {
                    // SAFETY: a live stream that captures, and a node of its capture.
                    unsafe {
                        (functions.cuStreamUpdateCaptureDependencies)(raw, &mut node, 1, flags)
                    }
                });
                // The node cannot be taken out again, and is in no order with the stream.
                moved.inspect_err(|error| _ = self.nesting.fail(error.code()))
            },
        );
        added.unwrap_or_else(|| Err(self.log.elsewhere()))?;
        Ok(added_node)
    }

    /// Captures one body of a node, on a stream of its own.
    fn capture_body(
        &self,
        node: NodeId,
        graph: CUgraph,
        record: &mut dyn FnMut(&StreamGraphCapture<'_>) -> CudaResult<()>,
    ) -> CudaResult<Body> {
        let stream = beside(self.stream)?;
        let root = self.nesting.root(&self.log);
        let outer = Some((self.log.clone(), self.stream.clone()));
        let place = BodyPlace { graph, root, after: &[], before: 0, names: None, outer };
        let BodyRecord { recorded, mut owners, notes, lost } =
            capture_body(&stream, place, record)?;
        if lost {
            self.nesting.lose();
        }
        if matches!(recorded, Ok(Ok(_))) {
            owners.put_in_body_of(node);
            self.log.retain(|kept| kept.append(&mut owners));
        }
        // What was recorded before a failure is never run.
        drop_contained(owners);
        recorded.unwrap_or_else(|payload| resume_unwind(payload))?;
        // SAFETY: the body of a node of this capture, which is recorded and that nobody changes.
        let nodes = unsafe { graph_nodes(self.stream.context(), graph) }?;
        Ok(Body { graph, notes: notes.notes(&nodes, |_| false) })
    }
}

/// What the driver tells of the stream's capture, if that is valid.
pub(super) fn active(stream: &Stream) -> CudaResult<RawInfo> {
    let info = stream.raw_capture_info().unwrap_or(Err(CudaError::NotSupported))?;
    if info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE {
        return Ok(info);
    }
    Err(CudaError::from(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED))
}
