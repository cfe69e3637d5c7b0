//! The launch of an executable: its plan becomes tasks.
//!
//! A node waits for the nodes that its edges come from, a root for the stream and for the launch
//! before.

use std::any::Any;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUresult};

use super::executable::ExecGraph;
use super::memory::Allocation;
use super::order::Order;
use super::params::NodeParams;
use super::plan::{LaunchPlace, Plan};
use super::store::ExecId;
use super::work::GraphWork;
use crate::capture;
use crate::context::ContextCore;
use crate::engine::{Batch, TaskId};
use crate::event::Recorded;
use crate::handle::Id;
use crate::memory::AllocationKind;
use crate::sim::{Sim, State};
use crate::stream::{self, Stream};
use crate::work::{Keep, MemOp, Work};

impl State {
    /// Launches an executable on a stream.
    pub(crate) fn launch_graph(
        &mut self,
        sim: &Sim,
        exec: ExecId,
        stream: Id<Stream>,
    ) -> Result<(), CUresult> {
        let context = self.core_of(stream)?;
        let this = self.graphs.exec(exec)?;
        let (auto_free, before, launches) = (this.flags.auto_free(), this.last, this.launches);
        let graph = this.graph.clone();
        self.check_words(sim, &graph)?;
        let stale = self.memory_plan(sim, &graph, auto_free)?;
        let mut deps = self.predecessors(stream)?;
        deps.extend(before);
        for allocation in stale {
            deps.push(sim.engine.submit(deps.clone(), &context, Work::End(allocation)));
        }
        let words = self.graphs.exec_mut(exec)?.words(graph.handles);
        let order = Order::of_launch(sim, launches);
        let place = LaunchPlace { context: context.clone(), order, words: words.clone() };
        let plan = Plan::new(sim, self, &place, &graph)?;
        let mut batch = sim.engine.batch();
        let assigned = graph.assigned();
        if !assigned.is_empty() {
            let work = Work::Graph(GraphWork::Assign(words, assigned.into()));
            deps = vec![batch.submit(deps, &context, work)];
        }
        let tasks = plan.submit(&mut batch, &deps, order);
        let ends = if tasks.ends.is_empty() { deps } else { tasks.ends };
        let last = batch.submit(ends, &context, Work::Empty);
        hold_users(&mut batch, &graph, &context, last);
        drop(batch);
        capture::join_by_launch(self, stream, &plan.waits)?;
        self.record_marks(&plan, &tasks.all);
        stream::replace_last(self, stream, last)?;
        let this = self.graphs.exec_mut(exec)?;
        (this.last, this.launches, this.uploaded) = (Some(last), launches + 1, true);
        this.home = Some(context);
        Ok(())
    }

    /// Drops what an executable gave up. What launches used goes behind the last of them, on a
    /// thread of the engine; the rest is given back, to be dropped when no lock is held.
    pub(crate) fn retire<T: Any + Send + Sync>(
        sim: &Sim,
        (last, home): (Option<TaskId>, Option<Arc<ContextCore>>),
        value: T,
    ) -> Option<T> {
        let Some(home) = home else { return Some(value) };
        sim.engine.submit(last, &home, Work::Hold(Keep::new(Arc::new(value))));
        None
    }

    /// Makes events stand for the steps that record them.
    fn record_marks(&mut self, plan: &Plan, tasks: &[TaskId]) {
        for mark in &plan.marks {
            if let (Some(event), Some(task)) =
                (self.events.get_mut(mark.event), tasks.get(mark.step))
            {
                event.recorded = Recorded::Task { task: *task, stamp: mark.stamp.clone() };
            }
        }
    }

    /// Makes an executable ready on a stream. Everything is ready at once here; the order is kept.
    pub(crate) fn upload_graph(
        &mut self,
        sim: &Sim,
        exec: ExecId,
        stream: Id<Stream>,
    ) -> Result<(), CUresult> {
        let context = self.core_of(stream)?;
        let mut deps = self.predecessors(stream)?;
        deps.extend(self.graphs.exec(exec)?.last);
        let mut allocated = Vec::new();
        memory_nodes(&self.graphs.exec(exec)?.graph, &mut allocated, &mut Vec::new());
        check_room(sim, &allocated)?;
        self.graphs.take_chunks(&allocated);
        let last = sim.engine.submit(deps, &context, Work::Empty);
        stream::replace_last(self, stream, last)?;
        let this = self.graphs.exec_mut(exec)?;
        (this.last, this.uploaded) = (Some(last), true);
        Ok(())
    }

    /// Refuses a launch of memory operations on words that are not there, or that move.
    fn check_words(&self, sim: &Sim, graph: &ExecGraph) -> Result<(), CUresult> {
        let there = |(address, bytes): (u64, usize)| {
            let found = sim.memory.find(address).filter(|found| found.covers(address, bytes));
            match found {
                Some(found) => found.kind != AllocationKind::Managed,
                None => self.graphs.plans(address, bytes),
            }
        };
        for (_, node) in graph.def.nodes() {
            if let NodeParams::MemOps(node) = &node.params
                && !node.batch.work.iter().filter_map(MemOp::word).all(there)
            {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
        }
        graph.all_parts().try_for_each(|part| self.check_words(sim, part))
    }

    /// Refuses a launch that would bring living allocations to life again, or says which of them
    /// it has to free first. Then notes what lives when the launch is over.
    fn memory_plan(
        &mut self,
        sim: &Sim,
        graph: &ExecGraph,
        auto_free: bool,
    ) -> Result<Vec<Arc<Allocation>>, CUresult> {
        let mut allocated = Vec::new();
        let mut freed = Vec::new();
        memory_nodes(graph, &mut allocated, &mut freed);
        let stale: Vec<_> = allocated.iter().filter(|one| one.is_live()).cloned().collect();
        if !stale.is_empty() && !auto_free {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let comes = |freed: &Arc<Allocation>| allocated.iter().any(|one| Arc::ptr_eq(one, freed));
        if !freed.iter().all(|freed| freed.is_live() || comes(freed)) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        check_room(sim, &allocated)?;
        self.graphs.take_chunks(&allocated);
        for allocation in &allocated {
            allocation.set_live(true);
        }
        for allocation in freed {
            allocation.set_live(false);
        }
        Ok(stale)
    }
}

/// Refuses a launch of allocations for which there is no room.
fn check_room(sim: &Sim, allocated: &[Arc<Allocation>]) -> Result<(), CUresult> {
    let fits =
        |one: &Arc<Allocation>| one.is_live() || one.bytes <= sim.memory.free_bytes(one.device);
    if allocated.iter().all(fits) { Ok(()) } else { Err(CUDA_ERROR_OUT_OF_MEMORY) }
}

/// The allocations that a graph makes, and those that it frees.
fn memory_nodes(
    graph: &ExecGraph,
    allocated: &mut Vec<Arc<Allocation>>,
    freed: &mut Vec<Arc<Allocation>>,
) {
    for (_, node) in graph.def.nodes() {
        match &node.params {
            NodeParams::Alloc(allocation) => allocated.push(allocation.clone()),
            NodeParams::Free(allocation) => freed.push(allocation.clone()),
            _ => {}
        }
    }
    for part in graph.all_parts() {
        memory_nodes(part, allocated, freed);
    }
}

/// Keeps the user objects of a launch until it is over. The task that does waits for the launch,
/// and nothing waits for it: a destructor holds nobody up.
fn hold_users(batch: &mut Batch<'_>, graph: &ExecGraph, context: &Arc<ContextCore>, last: TaskId) {
    let mut users = Vec::new();
    graph.all_users(&mut users);
    users.retain(|users| !users.is_empty());
    if !users.is_empty() {
        batch.submit([last], context, Work::Hold(Keep::new(Arc::new(users))));
    }
}
