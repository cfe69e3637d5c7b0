//! Conditional nodes of a graph that is built by hand.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUgraph};

use crate::error::{CudaError, CudaResult};
use crate::graph::conditional::{Branch, Condition, Decider, Decides, WordCondition};
use crate::graph::notes::{Body, Branching, Inner};
use crate::graph::steer::{steer, steering};
use crate::graph::{Graph, GraphBody, GraphKey, NodeId};
use crate::retain::{Owners, Share};
use crate::slot::SlotNode;
use crate::tell;

/// Builds one body, by its number.
type Build<'a> = &'a mut dyn FnMut(usize, &mut GraphBody<'_>) -> CudaResult<()>;

impl Graph {
    /// A new condition for one conditional node of this graph, or of a body in it. Each launch
    /// begins with the `default`; without one, with what the launch before has left.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](crate::CudaError::NotSupported): the driver is older than 12.3. As the
    /// driver answers.
    #[doc(alias = "cuGraphConditionalHandleCreate")]
    pub fn condition(&mut self, default: impl Into<Option<u32>>) -> CudaResult<Condition> {
        Branch::If.check(self.context.driver())?;
        // SAFETY: a live graph that is borrowed mutably.
        unsafe { Condition::create(&self.context, self.raw, self.root(), default.into()) }
    }

    /// Adds a node that runs a body once if the condition is not zero, after the nodes `after`.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut wanted = DeviceBuffer::from_slice(&context, &[1u32])?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let mut graph = Graph::new(&context)?;
    /// let condition = WordCondition::new(&wanted)?;
    /// graph.add_if(&condition, &[], |body| {
    ///     body.add_fill(FillNode::new(&mut out, 7)?, &[]).map(|_| ())
    /// })?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `body` gives; the node is removed then.
    /// [`Refused`](crate::CudaError::Refused): a condition of another graph or of a node that
    /// there is, or a node of another graph in `after`.
    /// [`NotSupported`](crate::CudaError::NotSupported): the driver is older than 12.3.
    #[doc(alias = "CU_GRAPH_COND_TYPE_IF")]
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
        let mut body = Some(body);
        self.add_branch(Branch::If, condition, after, &mut |_, graph| {
            body.take().map_or(Ok(()), |body| body(graph))
        })
    }

    /// Adds a node with two bodies, of which the first runs if the condition is not zero and the
    /// second if it is. Else as [`add_if`](Graph::add_if).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let mut yes = out.view_mut(..1)?;
    /// let mut graph = Graph::new(&context)?;
    /// let condition = graph.condition(0)?;
    /// graph.add_if_else(
    ///     &condition,
    ///     &[],
    ///     |body| body.add_fill(FillNode::new(&mut yes, 1)?, &[]).map(drop),
    ///     |body| body.add_empty(&[]).map(drop),
    /// )?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [0, 0]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`add_if`](Graph::add_if), but [`NotSupported`](crate::CudaError::NotSupported) from a
    /// driver before 12.8.
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
        let (mut then, mut otherwise) = (Some(then), Some(otherwise));
        self.add_branch(Branch::IfElse, condition, after, &mut |index, graph| match index {
            0 => then.take().map_or(Ok(()), |body| body(graph)),
            _ => otherwise.take().map_or(Ok(()), |body| body(graph)),
        })
    }

    /// Adds a node that runs a body as long as the condition is not zero, which is looked at
    /// before each round. Else as [`add_if`](Graph::add_if).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut going = DeviceBuffer::from_slice(&context, &[1u32])?;
    /// let mut graph = Graph::new(&context)?;
    /// let condition = WordCondition::new(&going)?;
    /// graph.add_while(&condition, &[], |body| {
    ///     body.add_fill(FillNode::new(&mut going, 0)?, &[]).map(drop)
    /// })?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(going.to_vec(&stream)?, [0]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`add_if`](Graph::add_if).
    #[doc(alias = "CU_GRAPH_COND_TYPE_WHILE")]
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
        let mut body = Some(body);
        self.add_branch(Branch::While, condition, after, &mut |_, graph| {
            body.take().map_or(Ok(()), |body| body(graph))
        })
    }

    /// Adds a node with so many bodies, of which the one runs whose number, counted from 0, the
    /// condition is; none if there is none with that number. Else as [`add_if`](Graph::add_if).
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut out = DeviceBuffer::<u32>::zeroed(&context, 3)?;
    /// let mut graph = Graph::new(&context)?;
    /// let condition = graph.condition(2)?;
    /// graph.add_switch(&condition, 3, &[], |case, body| {
    ///     body.add_fill(FillNode::new(&mut out.view_mut(case..=case)?, 7)?, &[]).map(drop)
    /// })?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(out.to_vec(&stream)?, [0, 0, 7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`add_if_else`](Graph::add_if_else). [`Refused`](crate::CudaError::Refused) for no
    /// cases.
    #[doc(alias = "CU_GRAPH_COND_TYPE_SWITCH")]
    #[track_caller]
    pub fn add_switch<F>(
        &mut self,
        condition: &impl Decides,
        cases: u32,
        after: &[NodeId],
        mut body: F,
    ) -> CudaResult<NodeId>
    where
        F: FnMut(usize, &mut GraphBody<'_>) -> CudaResult<()>,
    {
        self.add_branch(Branch::Switch(cases), condition, after, &mut body)
    }

    #[track_caller]
    fn add_branch(
        &mut self,
        branch: Branch,
        condition: &dyn Decides,
        after: &[NodeId],
        build: Build<'_>,
    ) -> CudaResult<NodeId> {
        branch.check(self.context.driver())?;
        let (decider, line) = (condition.decider(), Location::caller());
        let mut own = None;
        let condition = match decider {
            Decider::Condition(condition) => condition,
            Decider::Word(_) => own.insert(match self.built().spare.pop() {
                Some(spare) => spare,
                None => self.condition(None)?,
            }),
        };
        let built = self.decide(branch, (&decider, condition), line, after, build);
        if !matches!(built, Ok(Ok(_))) {
            // It cannot be destroyed, and would bar instantiation: the next word takes it.
            self.built().spare.extend(own);
        }
        built.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Adds a conditional node that goes by a condition, whoever sets that.
    #[track_caller]
    pub(super) fn add_decided(
        &mut self,
        branch: Branch,
        condition: &Condition,
        after: &[NodeId],
        build: Build<'_>,
    ) -> CudaResult<NodeId> {
        branch.check(self.context.driver())?;
        let (decider, line) = (Decider::Condition(condition), Location::caller());
        let built = self.decide(branch, (&decider, condition), line, after, build);
        built.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Adds a conditional node. What was made of it is removed if it fails, or panics.
    fn decide(
        &mut self,
        branch: Branch,
        (decider, condition): (&Decider<'_>, &Condition),
        line: &'static Location<'static>,
        after: &[NodeId],
        build: Build<'_>,
    ) -> std::thread::Result<CudaResult<NodeId>> {
        let taken = match condition.take(self.root()) {
            Ok(taken) => taken,
            Err(error) => return Ok(Err(error)),
        };
        let mut made = Vec::new();
        let built = catch_unwind(AssertUnwindSafe(|| {
            self.build_branch(branch, (decider, condition), line, after, build, &mut made)
        }));
        if matches!(built, Ok(Ok(_))) {
            taken.keep();
        } else {
            drop(taken);
            self.unmake(made);
        }
        built
    }

    /// Puts the nodes that it adds into `made`, also if it fails.
    fn build_branch(
        &mut self,
        branch: Branch,
        (decider, condition): (&Decider<'_>, &Condition),
        line: &'static Location<'static>,
        after: &[NodeId],
        build: Build<'_>,
        made: &mut Vec<NodeId>,
    ) -> CudaResult<NodeId> {
        let mut after = after.to_vec();
        if let Decider::Word(word) = decider {
            after = vec![self.add_steering(condition, word, line, &after)?];
            made.extend(&after);
        }
        let (context, mut bodies) = (self.context.clone(), Vec::new());
        let node = self.insert(&after, Owners::default(), |place, node| {
            let edges = ptr::null();
            // SAFETY: a live graph that is borrowed mutably, and nodes of it.
            let added = unsafe { branch.add(&context, place, edges, condition.handle) };
            (*node, bodies) = added?;
            Ok(())
        })?;
        made.push(node);
        self.set_line(node, line);
        let (mut owners, mut known) = (Owners::default(), Vec::with_capacity(bodies.len()));
        owners.come_from(line);
        for (index, raw) in bodies.into_iter().enumerate() {
            let (share, body, slots) = self.build_body(node, raw, &mut |body| {
                build(index, body)?;
                match decider {
                    Decider::Word(word) if branch == Branch::While => {
                        let leaves = body.leaves()?;
                        body.graph.add_steering(condition, word, line, &leaves).map(|_| ())
                    }
                    _ => Ok(()),
                }
            })?;
            owners.retain_graph(share);
            known.push(body);
            slots.iter().for_each(|slots| owners.retain_slots(slots));
        }
        let word = decider.word();
        let branching = Branching::new(node.as_raw(), branch, condition, word, known);
        self.built().notes.of(node).inner = Some(Inner::Branching(branching));
        let old = self.share_mut().set(node, owners);
        debug_assert!(old.is_none(), "the node is new");
        Ok(node)
    }

    /// Adds the kernel by which a word decides, for a node that came by that line.
    fn add_steering(
        &mut self,
        condition: &Condition,
        word: &WordCondition,
        line: &'static Location<'static>,
        after: &[NodeId],
    ) -> CudaResult<NodeId> {
        let kernel = steering(&self.context)?;
        // SAFETY: the kernel takes a condition of this graph and the address of a word.
        let node = unsafe { self.add_kernel(steer(&kernel, condition, word), after) }?;
        self.set_line(node, line);
        Ok(node)
    }

    /// Has `build` fill a body of a node of this graph. Gives what the body uses, the body, and its
    /// nodes with slots.
    fn build_body(
        &mut self,
        node: NodeId,
        raw: CUgraph,
        build: &mut dyn FnMut(&mut GraphBody<'_>) -> CudaResult<()>,
    ) -> CudaResult<(Share, Body, Vec<Arc<SlotNode>>)> {
        let (context, share) = (self.context.clone(), Share::new(Owners::default()));
        // SAFETY: the body of a node that is not removed before this returns. The node has it for
        // itself: it is taken out of this value before that is dropped.
        let mut graph = unsafe { Graph::of(context, raw, GraphKey::new(), share) };
        graph.built().body_of = Some(self.root());
        let built = catch_unwind(AssertUnwindSafe(|| build(&mut GraphBody { graph: &mut graph })));
        let lost = graph.raw != raw;
        let notes =
            if lost { Ok(Vec::new()) } else { graph.nodes().map(|nodes| graph.notes(&nodes)) };
        if lost {
            self.leak();
        } else {
            graph.raw = ptr::null_mut();
        }
        let built = built.unwrap_or_else(|payload| resume_unwind(payload));
        built?;
        if lost {
            return Err(incomplete());
        }
        graph.check_bodies()?;
        let slots = graph.slots_in_body_of(node);
        Ok((graph.share().clone(), Body { graph: raw, notes: notes? }, slots))
    }

    /// Removes nodes that are of no use, the last first.
    fn unmake(&mut self, made: Vec<NodeId>) {
        for node in made.into_iter().rev() {
            // A graph that was leaked has none of them any more.
            if self.require(node, "node").is_ok() && self.remove_node(node).is_err() {
                self.built().incomplete = true;
            }
        }
    }

    /// Leaves the driver's graph for ever, and goes on with an empty one: a node of it has a body
    /// that the driver has destroyed, and to destroy the graph too would crash (measured).
    pub(super) fn leak(&mut self) {
        tell::of_leak();
        let spare = Graph::new(&self.context);
        self.raw = ptr::null_mut();
        if let Ok(spare) = spare {
            *self = spare;
        }
    }

    /// The key of the outermost graph, in which conditions are made.
    pub(crate) fn root(&self) -> GraphKey {
        let body_of = self.built.as_ref().and_then(|built| built.body_of);
        body_of.unwrap_or(self.names().graph())
    }

    pub(super) fn is_body(&self) -> bool {
        self.built.as_ref().is_some_and(|built| built.body_of.is_some())
    }

    /// Refuses a graph of which a conditional node is not whole.
    #[inline]
    pub(super) fn check_bodies(&self) -> CudaResult<()> {
        match &self.built {
            Some(built) if built.incomplete => Err(incomplete()),
            _ => Ok(()),
        }
    }
}

#[cold]
fn incomplete() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "graph",
        "the body of a conditional node of it failed while it was made: make the graph again",
    )
}
