//! Setting the slots of an executable.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{CUgraph, CUgraphNode, CUresult, Function, Functions};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::exec_node::is_refusal;
use crate::graph::exec_owners::ExecOwners;
use crate::graph::exec_slots::{ExecSlots, Patched, SlotTable, not_used};
use crate::graph::slot_params::Params;
use crate::graph::slots::Twins;
use crate::graph::update_error::UpdateError;
use crate::graph::{Graph, GraphExec, UpdateReason};
use crate::launch::before_contexts;
use crate::memory::BufferInner;
use crate::retain::{Owners, Share};
use crate::slot::{Identity, Slot, SlotChange, SlotValue, Value, Written};

impl GraphExec {
    /// Sets a slot, in every node of the executable that uses it, for the launches to come: those in
    /// flight keep what they were launched with. Does not block. One driver call for each node.
    ///
    /// A [`Slot`] takes a value of its type, a [`BufferSlot`](crate::BufferSlot) a reference to
    /// device memory and a [`BufferSlotMut`](crate::BufferSlotMut) a mutable one, of the length that
    /// it has. The executable keeps the memory alive that it uses, and that of before no longer than
    /// a launch in flight does; what its graph owns stays with that.
    ///
    /// The slots of an executable are its own: the graph, its clones and other executables keep what
    /// they have. An [`update`](GraphExec::update) has the executable do what a graph says, and its
    /// slots are then what that graph begins with.
    ///
    /// Whatever fails, all nodes have the value of before. If not even that can be had, which takes
    /// two failures of the driver, the executable is not launched before it was updated.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), with nothing changed: no node uses the slot, its rule does not
    /// accept the value, memory of another length, context or kind (in a copy), memory that a graph
    /// allocates, the two ends of a copy overlap, a grid or block that
    /// [`LaunchBuilder::launch`](crate::LaunchBuilder::launch) refuses.
    /// [`Update`](CudaError::Update): the driver refuses it. As the driver answers.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    #[inline]
    pub fn set<S, V: SlotValue<S>>(&mut self, slot: &S, value: V) -> CudaResult<()> {
        value.with(slot, |change| self.set_slot(change))
    }

    /// Sets several slots at once: all of them or, if something fails, none. A node that uses more
    /// than one is given its parameters once.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// # let module = context.load_ptx(
    /// #     ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry put(.param .u64 p, .param .u32 v) {\
    /// #      .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\
    /// #      st.global.u32 [%a], %v; ret; }")?;
    /// let put = module.kernel("put")?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let mut other = DeviceBuffer::<u32>::zeroed(&context, 1)?;
    /// let (mut out, value, grid) = (BufferSlotMut::new(&mut words), Slot::new(1u32), Slot::new(Dim3::x(1)));
    /// let mut graph = Graph::new(&context)?;
    /// let launch = put.launch_builder(1, 1).grid_slot(&grid).arg_mut(&mut out).slot(&value);
    /// // SAFETY: `put` takes the address of a word, and any value, on any grid.
    /// unsafe { graph.add_kernel(launch, &[]) }?;
    /// let mut exec = graph.instantiate()?;
    /// exec.patch().set(&out, &mut other).set(&value, 7).set(&grid, 2).apply()?;
    /// exec.launch(&stream)?;
    /// assert_eq!(other.to_vec(&stream)?, [7]);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn patch(&mut self) -> SlotPatch<'_> {
        SlotPatch { exec: self, changes: Ok(Vec::new()) }
    }

    /// The value that a slot has in this executable.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): no node uses the slot.
    pub fn get<T: Pod>(&self, slot: &Slot<T>) -> CudaResult<T> {
        let slot = slot.identity();
        let Some(slots) = &self.slots else { return Err(not_used(slot)) };
        slots.table.value(slot)?.read().ok_or_else(|| not_used(slot))
    }

    /// Sets one slot: in one pass over its nodes, if it is nothing but arguments of kernels.
    fn set_slot(&mut self, change: SlotChange<'_>) -> CudaResult<()> {
        let versioned = self.context.driver().has(Function::cuGraphExecKernelNodeSetParams_v2);
        // It is counted before the driver writes: an atomic exchange waits for all that.
        let kept = to_keep(self.owners(), change);
        let Some(slots) = &mut self.slots else { return Err(not_used(change.slot)) };
        let Some(mut one) = slots.table.one(change.slot)?.filter(|_| versioned) else {
            return self.set_slots(&[change]);
        };
        one.check(change.value)?;
        let mut reached = 0;
        let given = self.context.entered(|functions| {
            one.set(change.value, |node, params| {
                reached += 1;
                // SAFETY: as in `give`.
                check(unsafe {
                    (functions.cuGraphExecKernelNodeSetParams_v2)(self.raw, node, params)
                })
            })
        });
        if let Err(error) = given {
            return Err(self.take_back_one(change, reached, error));
        }
        one.commit(change.value);
        self.changed();
        self.bind_memory(change.slot.number(), kept);
        Ok(())
    }

    #[cold]
    fn take_back_one(
        &mut self,
        change: SlotChange<'_>,
        reached: usize,
        error: CudaError,
    ) -> CudaError {
        let Some(mut slots) = self.slots.take() else { return error };
        let nodes = slots.table.affected(&[change]).iter().take(reached).copied().collect();
        let error = self.take_back(&mut slots.table, &[change], nodes, error);
        self.slots = Some(slots);
        error
    }

    fn set_slots(&mut self, changes: &[SlotChange<'_>]) -> CudaResult<()> {
        let mut slots = self.slots.take();
        let set = match (&mut slots, changes) {
            (Some(slots), _) => self.set_in(&mut slots.table, changes),
            (None, [change, ..]) => Err(not_used(change.slot)),
            (None, []) => Ok(()),
        };
        self.slots = slots;
        set
    }

    fn set_in(&mut self, table: &mut SlotTable, changes: &[SlotChange<'_>]) -> CudaResult<()> {
        changes.iter().try_for_each(|change| table.check(change))?;
        table.write(changes);
        let nodes = table.affected(changes);
        let set = table.check_nodes(changes, &nodes).map_err(|error| (0, error));
        let set = set.and_then(|()| self.give(table, &nodes));
        if let Err((reached, error)) = set {
            let nodes: Vec<_> = nodes.iter().take(reached).copied().collect();
            return Err(self.take_back(table, changes, nodes, error));
        }
        self.changed();
        table.commit(changes);
        for change in changes {
            let kept = to_keep(self.owners(), *change);
            self.bind_memory(change.slot.number(), kept);
        }
        Ok(())
    }

    /// Gives the nodes their parameters. If that fails: how many may have taken theirs.
    fn give(&self, table: &SlotTable, nodes: &[usize]) -> Result<(), (usize, CudaError)> {
        let versioned = self.context.driver().has(Function::cuGraphExecKernelNodeSetParams_v2);
        let mut reached = 0;
        let given = self.context.entered(|functions| {
            table.each(nodes).try_for_each(|node| {
                reached += 1;
                // SAFETY: a live executable graph that no other thread uses now, and a node of the
                // graph that it was made of, which it keeps for itself (O4, O8). Its parameters are
                // those that it was made with but for the slots', which are of the right sizes; the
                // caller of the launch has promised that the kernel is sound with them. The memory
                // lives (O4), and the driver copies the rest. The context is current.
                check(unsafe { self.give_node(functions, versioned, node) })
            })
        });
        given.map_err(|error| (reached, error))
    }

    /// # Safety
    ///
    /// The node has this kind and can have these parameters.
    #[inline]
    unsafe fn give_node(&self, functions: &Functions, versioned: bool, node: &Patched) -> CUresult {
        match &node.params {
            Params::Kernel(params) if versioned => {
                // SAFETY: the caller's promise.
                unsafe { (functions.cuGraphExecKernelNodeSetParams_v2)(self.raw, node.raw, params) }
            }
            Params::Kernel(params) => {
                let old = before_contexts(params);
                // SAFETY: the caller's promise.
                unsafe { (functions.cuGraphExecKernelNodeSetParams)(self.raw, node.raw, &old) }
            }
            Params::Copy(params, context) => {
                let params = &raw const **params;
                // SAFETY: the caller's promise.
                unsafe {
                    (functions.cuGraphExecMemcpyNodeSetParams)(self.raw, node.raw, params, *context)
                }
            }
            Params::Fill(params, context) => {
                // SAFETY: the caller's promise.
                unsafe {
                    (functions.cuGraphExecMemsetNodeSetParams)(self.raw, node.raw, params, *context)
                }
            }
        }
    }

    /// Gives the nodes, which may have taken the new values, those of before. If that fails too, the
    /// executable is launched no more until it was updated, and keeps what both use.
    #[cold]
    fn take_back(
        &mut self,
        table: &mut SlotTable,
        changes: &[SlotChange<'_>],
        mut nodes: Vec<usize>,
        error: CudaError,
    ) -> CudaError {
        table.restore(changes);
        let last = nodes.last().copied();
        if is_refusal(&error) {
            // The last one has taken nothing.
            nodes.pop();
        }
        if let Err((_, again)) = self.give(table, &nodes) {
            tracing::error!(%again, "slots could not be set back: the executable is half changed");
            let mut owners = Owners::here();
            for change in changes {
                if let Written::Memory(memory) = change.value {
                    owners.retain_memory(memory.owner);
                }
            }
            self.owners_mut().keep(Share::new(owners));
            self.changed();
            self.half_way.set(true);
            self.prepare();
        }
        let at = last.and_then(|last| table.each(&[last]).map(|node| node.raw).next());
        match at {
            Some(raw) if is_refusal(&error) => self.refusal(raw, error),
            _ => error,
        }
    }

    /// Says which node the driver refused to change.
    #[cold]
    fn refusal(&self, node: CUgraphNode, error: CudaError) -> CudaError {
        match self.graph() {
            _ if error == CudaError::NotSupported => error,
            Some(graph) => UpdateError::of_node(graph, node, error.code()).into(),
            None => error,
        }
    }
}

/// The memory of a change that nothing keeps for its slot yet.
#[inline]
fn to_keep(owners: &ExecOwners, change: SlotChange<'_>) -> Option<Arc<BufferInner>> {
    match change.value {
        Written::Memory(memory) if !owners.is_bound(change.slot.number(), memory.owner) => {
            Some(memory.owner.clone())
        }
        _ => None,
    }
}

/// What becomes of the slots when an executable is made and updated.
impl GraphExec {
    /// With the slots of the graph that it keeps.
    #[inline]
    pub(super) fn with_slots(mut self) -> GraphExec {
        if self.owners().share().has_slots() {
            self.find_slots();
        }
        self
    }

    #[cold]
    fn find_slots(&mut self) {
        self.slots = self.graph().map(|graph| Box::new(ExecSlots::of_source(graph)));
    }

    /// The handle by which the executable knows a node of the graph that it was made of.
    pub(super) fn handle_of(
        &self,
        graph: &Graph,
        node: crate::graph::NodeId,
    ) -> CudaResult<CUgraphNode> {
        let raw = graph.require_at_any_depth(node, "node")?;
        match &self.slots {
            Some(slots) => slots.handle(graph, node, raw),
            None => Ok(raw),
        }
    }

    /// The graph whose nodes name those of the executable, if nobody else has that.
    fn naming(&self) -> Option<CUgraph> {
        let copy = self.slots.as_ref().and_then(|slots| slots.copy());
        copy.or_else(|| self.graph().map(|source| source.raw))
    }

    /// Where the slots of `graph` are in the executable after an update from it.
    pub(super) fn slots_after(&self, graph: &Graph) -> CudaResult<SlotTable> {
        if !graph.share().has_slots() {
            return Ok(SlotTable::default());
        }
        let other = |reason| Err(UpdateError::of_slots(reason).into());
        let Some(naming) = self.naming() else { return other(UpdateReason::Slots) };
        let mut twins = Twins::new(&self.context, graph.share(), true);
        if twins.pairs(graph.raw, naming)?.is_none() {
            return other(UpdateReason::TopologyChanged);
        }
        let mut found = Vec::new();
        for (work, place) in graph.slot_nodes() {
            match twins.find((graph.raw, naming), &place)? {
                Some(path) => found.push((work, path)),
                None => return other(UpdateReason::Slots),
            }
        }
        Ok(SlotTable::new(found.into_iter()))
    }

    /// Has the slots be those of the graph that the executable was updated from.
    pub(super) fn take_slots(&mut self, table: SlotTable) {
        match &mut self.slots {
            Some(slots) => slots.table = table,
            None if table.is_empty() => {}
            None => self.slots = Some(Box::new(ExecSlots::named(table))),
        }
    }

    /// Has the slots leave alone a node that was changed by itself.
    pub(super) fn forget_slots(&mut self, node: CUgraphNode) {
        if let Some(slots) = &mut self.slots {
            slots.table.forget(node);
        }
    }
}

/// Slots of an executable that are about to be set together: from [`GraphExec::patch`].
#[must_use = "nothing is set before `apply`"]
pub struct SlotPatch<'a> {
    exec: &'a mut GraphExec,
    changes: CudaResult<Vec<(Identity, Value)>>,
}

impl SlotPatch<'_> {
    /// One more slot, and its value. Of a slot that is named twice the last value counts.
    pub fn set<S, V: SlotValue<S>>(mut self, slot: &S, value: V) -> Self {
        if let Ok(changes) = &mut self.changes {
            match value.with(slot, |change| Ok((change.slot, Value::from(change.value)))) {
                Ok(change) => {
                    changes.retain(|(known, _)| *known != change.0);
                    changes.push(change);
                }
                Err(error) => self.changes = Err(error),
            }
        }
        self
    }

    /// Sets them all.
    ///
    /// # Errors
    ///
    /// As [`GraphExec::set`], for the first that is wrong; none is set then.
    pub fn apply(self) -> CudaResult<()> {
        let changes = self.changes?;
        let lent = changes.iter().map(|(slot, value)| SlotChange::of(*slot, value.written()));
        self.exec.set_slots(&lent.collect::<Vec<_>>())
    }
}

impl fmt::Debug for SlotPatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPatch").field("changes", &self.changes).finish_non_exhaustive()
    }
}
