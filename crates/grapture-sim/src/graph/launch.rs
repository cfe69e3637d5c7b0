//! The launch of an executable: its nodes become tasks.
//!
//! A node waits for the nodes that its edges come from, a root for the stream and for the launch
//! before. Programmatic and launch-order edges are kept like full ones, which is one of the orders
//! that they allow.

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUresult};

use super::definition::{LocalId, Node};
use super::executable::ExecGraph;
use super::memory::Allocation;
use super::params::{NodeParams, Placed};
use super::store::ExecId;
use super::work::GraphWork;
use crate::context::ContextCore;
use crate::engine::TaskId;
use crate::event::{Event, Recorded, Stamp};
use crate::handle::Id;
use crate::sim::{Sim, State};
use crate::stream::{self, Stream};
use crate::work::{Keep, Work};

/// What the tasks of a launch have in common.
struct Launch<'a> {
    sim: &'a Sim,
    state: &'a mut State,
    /// The context of the stream, for what has none of its own.
    context: Arc<ContextCore>,
}

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
        let (auto_free, before) = (this.flags.auto_free(), this.last);
        let plan = this.graph.clone();
        let stale = self.memory_plan(&plan, auto_free)?;
        let mut deps = self.predecessors(stream)?;
        deps.extend(before);
        for allocation in stale {
            deps.push(sim.engine.submit(deps.clone(), &context, Work::Free(allocation.address)));
        }
        let mut launch = Launch { sim, state: self, context: context.clone() };
        let ends = launch.graph(&plan, &deps)?;
        let ends = if ends.is_empty() { deps } else { ends };
        let last = sim.engine.submit(ends, &context, Work::Empty);
        hold_users(sim, &plan, &context, last);
        stream::replace_last(self, stream, last)?;
        self.graphs.exec_mut(exec)?.last = Some(last);
        Ok(())
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
        let last = sim.engine.submit(deps, &context, Work::Empty);
        stream::replace_last(self, stream, last)?;
        self.graphs.exec_mut(exec)?.last = Some(last);
        Ok(())
    }

    /// Refuses a launch that would bring living allocations to life again, or says which of them
    /// it has to free first. Then notes what lives when the launch is over.
    fn memory_plan(
        &mut self,
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
        for allocation in &allocated {
            allocation.set_live(true);
        }
        for address in freed {
            self.graphs.end_allocation(address);
        }
        Ok(stale)
    }
}

/// The allocations that a graph makes, and the addresses that it frees.
fn memory_nodes(graph: &ExecGraph, allocated: &mut Vec<Arc<Allocation>>, freed: &mut Vec<u64>) {
    for (id, node) in graph.def.nodes() {
        match &node.params {
            NodeParams::Alloc(allocation) => allocated.push(allocation.clone()),
            NodeParams::Free(address) => freed.push(*address),
            _ => {
                if let Some(child) = graph.children.get(&id) {
                    memory_nodes(child, allocated, freed);
                }
            }
        }
    }
}

/// Keeps the user objects of a launch until it is over. The task that does waits for the launch,
/// and nothing waits for it: a destructor holds nobody up.
fn hold_users(sim: &Sim, plan: &ExecGraph, context: &Arc<ContextCore>, last: TaskId) {
    let mut users = Vec::new();
    plan.all_users(&mut users);
    users.retain(|users| !users.is_empty());
    if !users.is_empty() {
        sim.engine.submit([last], context, Work::Hold(Keep::new(Arc::new(users))));
    }
}

impl Launch<'_> {
    /// Submits the nodes of a graph after `deps`; gives the tasks that nothing in it waits for.
    fn graph(&mut self, graph: &ExecGraph, deps: &[TaskId]) -> Result<Vec<TaskId>, CUresult> {
        let mut tasks: HashMap<LocalId, TaskId> = HashMap::new();
        let mut ends = Vec::new();
        for id in graph.order() {
            let node = graph.def.node(*id)?;
            let sources = node.dependencies().iter().filter_map(|edge| tasks.get(&edge.node));
            let mut after: Vec<TaskId> = sources.copied().collect();
            if after.is_empty() {
                after.extend_from_slice(deps);
            }
            let task = self.node(graph, *id, node, after)?;
            tasks.insert(*id, task);
            if node.dependents().is_empty() {
                ends.push(task);
            }
        }
        Ok(ends)
    }

    fn node(
        &mut self,
        graph: &ExecGraph,
        id: LocalId,
        node: &Node,
        mut after: Vec<TaskId>,
    ) -> Result<TaskId, CUresult> {
        let own = self.context.clone();
        let (context, work) = match &node.params {
            _ if graph.is_disabled(id) => (own, Work::Empty),
            NodeParams::Empty => (own, Work::Empty),
            NodeParams::Kernel(kernel) => {
                let Placed { context, work } = &kernel.launch;
                if self.state.functions.get(work.function).is_some() {
                    (context.clone(), Work::Kernel(work.clone()))
                } else {
                    (context.clone(), gone("a kernel whose module was unloaded"))
                }
            }
            NodeParams::Copy(copy) => (copy.context.clone(), Work::Copy(copy.work.clone())),
            NodeParams::Fill(fill) => (fill.context.clone(), Work::Fill(fill.work)),
            NodeParams::MemOps(ops) => (ops.context.clone(), Work::MemOps(ops.work.clone())),
            NodeParams::Host(host) => (own, Work::Host(*host)),
            NodeParams::Child(_) => {
                if let Some(child) = graph.children.get(&id) {
                    let ends = self.graph(child, &after)?;
                    after = if ends.is_empty() { after } else { ends };
                }
                (own, Work::Empty)
            }
            NodeParams::Record(event) => return Ok(self.record(*event, after)),
            NodeParams::Wait(event) => {
                let work = self.wait(*event, &mut after);
                (own, work)
            }
            NodeParams::Alloc(allocation) => {
                self.back_now(allocation);
                (own, Work::Graph(GraphWork::Allocate(allocation.clone())))
            }
            NodeParams::Free(address) => (own, Work::Free(*address)),
        };
        Ok(self.sim.engine.submit(after, &context, work))
    }

    /// Makes an allocation that outlives the launch known at once, so that a program can use the
    /// address in calls that follow.
    fn back_now(&self, allocation: &Allocation) {
        if allocation.is_live() {
            // Where there is no room, the node says so when it runs.
            let _ = self.sim.memory.back(allocation.address, allocation.bytes, allocation.device);
        }
    }

    /// Records an event: from now on it stands for this launch.
    fn record(&mut self, event: Id<Event>, after: Vec<TaskId>) -> TaskId {
        let stamp = Arc::new(Stamp::default());
        match self.state.events.get_mut(event) {
            Some(event) => {
                let work = Work::Record(stamp.clone());
                let task = self.sim.engine.submit(after, &self.context, work);
                event.recorded = Recorded::Task { task, stamp };
                task
            }
            None => {
                let work = gone("a node records an event that was destroyed");
                self.sim.engine.submit(after, &self.context, work)
            }
        }
    }

    /// Waits for the work that an event stands for now.
    fn wait(&self, event: Id<Event>, after: &mut Vec<TaskId>) -> Work {
        match self.state.events.get(event).map(|event| &event.recorded) {
            Some(Recorded::Task { task, .. }) => {
                after.push(*task);
                Work::Empty
            }
            Some(_) => Work::Empty,
            None => gone("a node waits for an event that was destroyed"),
        }
    }
}

fn gone(what: &str) -> Work {
    Work::Graph(GraphWork::Gone(format!("a graph launch: {what}").into()))
}
