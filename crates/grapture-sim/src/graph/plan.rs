//! [`Plan`]: what a launch of a graph runs, ready to be submitted.
//!
//! A plan is made of an executable as a call is made, with the state locked; the engine takes it
//! whole. The bodies of conditional nodes are plans of their own, which their node submits when its
//! value is known. Programmatic and launch-order edges are kept like full ones, which is one of the
//! orders that they allow.

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::CUresult;

use super::definition::{LocalId, Node};
use super::executable::ExecGraph;
use super::memory::Allocation;
use super::order::Order;
use super::params::{NodeParams, Placed};
use super::work::{Choice, GraphWork};
use crate::context::ContextCore;
use crate::engine::TaskId;
use crate::event::{Event, Recorded, Stamp};
use crate::handle::Id;
use crate::sim::{Sim, State};
use crate::work::{ConditionalWords, KernelWork, Work};

/// A node, or a place where the ends of a child graph meet.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Where it runs.
    pub(crate) context: Arc<ContextCore>,
    /// What it does.
    pub(crate) work: Work,
    /// The earlier steps that it waits for; those without any wait for what the launch waits for.
    pub(crate) after: Vec<usize>,
    /// What it waits for beyond the launch.
    pub(crate) also: Option<TaskId>,
}

/// An event that stands for a step once it is submitted.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The step.
    pub(crate) step: usize,
    /// The event.
    pub(crate) event: Id<Event>,
    /// When the step ran.
    pub(crate) stamp: Arc<Stamp>,
}

/// The steps of a graph, each behind those that it waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The steps.
    pub(crate) steps: Vec<Step>,
    /// The steps that record events.
    pub(crate) marks: Vec<Mark>,
    /// The events that steps wait for as they were recorded before the launch.
    pub(crate) waits: Vec<Id<Event>>,
}

impl Plan {
    /// What a launch of a graph runs.
    pub(crate) fn new(
        sim: &Sim,
        state: &State,
        place: &LaunchPlace,
        graph: &ExecGraph,
    ) -> Result<Plan, CUresult> {
        let mut planner = Planner { sim, state, place, plan: Plan::default() };
        planner.graph(graph, &[])?;
        Ok(planner.plan)
    }

    /// For each step, whether another one waits for it.
    pub(crate) fn awaited(&self) -> Vec<bool> {
        let mut awaited = vec![false; self.steps.len()];
        for before in self.steps.iter().flat_map(|step| &step.after) {
            if let Some(awaited) = awaited.get_mut(*before) {
                *awaited = true;
            }
        }
        awaited
    }
}

/// What the steps of a launch have in common.
pub(crate) struct LaunchPlace {
    /// The context of the stream, for what has none of its own.
    pub(crate) context: Arc<ContextCore>,
    /// The order of the steps.
    pub(crate) order: Order,
    /// The values of the conditional handles.
    pub(crate) words: ConditionalWords,
}

struct Planner<'a> {
    sim: &'a Sim,
    state: &'a State,
    place: &'a LaunchPlace,
    plan: Plan,
}

impl Planner<'_> {
    /// Plans a graph behind some steps; gives the steps that nothing in it waits for.
    fn graph(&mut self, graph: &ExecGraph, behind: &[usize]) -> Result<Vec<usize>, CUresult> {
        let mut places: HashMap<LocalId, usize> = HashMap::new();
        let mut ends = Vec::new();
        for id in graph.order() {
            let node = graph.def.node(*id)?;
            let sources = node.dependencies().iter().filter_map(|edge| places.get(&edge.node));
            let mut after: Vec<usize> = sources.copied().collect();
            if after.is_empty() {
                after.extend_from_slice(behind);
            }
            let place = self.node(graph, *id, node, after)?;
            places.insert(*id, place);
            if node.dependents().is_empty() {
                ends.push(place);
            }
        }
        Ok(ends)
    }

    fn node(
        &mut self,
        graph: &ExecGraph,
        id: LocalId,
        node: &Node,
        mut after: Vec<usize>,
    ) -> Result<usize, CUresult> {
        let mut also = None;
        let own = self.place.context.clone();
        let (context, work) = match &node.params {
            _ if graph.is_disabled(id) => (own, Work::Empty),
            NodeParams::Empty => (own, Work::Empty),
            NodeParams::Kernel(kernel) => {
                let Placed { context, work } = &kernel.launch;
                (context.clone(), self.kernel(work.clone()))
            }
            NodeParams::Copy(copy) => (copy.context.clone(), Work::Copy(copy.work.clone())),
            NodeParams::Fill(fill) => (fill.context.clone(), Work::Fill(fill.work)),
            NodeParams::MemOps(node) => {
                let Placed { context, work } = &node.batch;
                (context.clone(), Work::MemOps(work.clone()))
            }
            NodeParams::Host(host) => (own, Work::Host(*host)),
            NodeParams::Child(_) => {
                if let [child] = graph.parts(id) {
                    let ends = self.graph(child, &after)?;
                    after = if ends.is_empty() { after } else { ends };
                }
                (own, Work::Empty)
            }
            NodeParams::Conditional(node) => {
                let bodies = graph.parts(id).iter();
                let bodies = bodies.map(|body| self.body(body)).collect::<Result<_, _>>()?;
                let (conditional, branch, order) =
                    (&node.conditional, node.branch, self.place.order);
                let (handle, words) = (conditional.handle, self.place.words.clone());
                let choice = Choice { handle, words, branch, bodies, order };
                (conditional.context.clone(), Work::Graph(GraphWork::Choose(Arc::new(choice))))
            }
            NodeParams::Record(event) => (own, self.record(*event)),
            NodeParams::Wait(event) => {
                let recorded = self.plan.marks.iter().rev().find(|mark| mark.event == *event);
                match recorded {
                    Some(mark) => {
                        after.push(mark.step);
                        (own, Work::Empty)
                    }
                    None => {
                        self.plan.waits.push(*event);
                        let (task, work) = self.wait(*event);
                        also = task;
                        (own, work)
                    }
                }
            }
            NodeParams::Alloc(allocation) => {
                self.back_now(allocation);
                (own, Work::Graph(GraphWork::Allocate(allocation.clone())))
            }
            NodeParams::Free(allocation) => (own, Work::End(allocation.clone())),
        };
        self.plan.steps.push(Step { context, work, after, also });
        Ok(self.plan.steps.len() - 1)
    }

    /// The work of a kernel, which can set conditional handles where the graph has some.
    fn kernel(&self, mut work: KernelWork) -> Work {
        if !self.state.functions.contains(work.function) {
            return gone("a kernel whose module was unloaded");
        }
        let words = &self.place.words;
        work.conditionals = (words.len() > 0).then(|| words.clone());
        Work::Kernel(work)
    }

    /// The plan of a graph that a conditional node may run.
    fn body(&self, graph: &ExecGraph) -> Result<Plan, CUresult> {
        Plan::new(self.sim, self.state, self.place, graph)
    }

    /// Makes an allocation that outlives the launch known at once, so that a program can use the
    /// address in calls that follow.
    fn back_now(&self, allocation: &Allocation) {
        if allocation.is_live() && !allocation.is_shared() {
            // Where there is no room, the node says so when it runs.
            let _ = self.sim.memory.back(allocation.address, allocation.bytes, allocation.device);
        }
    }

    /// The work of recording an event, which from the launch on stands for it.
    fn record(&mut self, event: Id<Event>) -> Work {
        if !self.state.events.contains(event) {
            return gone("a node records an event that was destroyed");
        }
        let stamp = Arc::new(Stamp::default());
        let step = self.plan.steps.len();
        self.plan.marks.push(Mark { step, event, stamp: stamp.clone() });
        Work::Record(stamp)
    }

    /// The task that an event stands for now, and what waits for it.
    fn wait(&self, event: Id<Event>) -> (Option<TaskId>, Work) {
        match self.state.events.get(event).map(|event| &event.recorded) {
            Some(Recorded::Task { task, .. }) => (Some(*task), Work::Empty),
            Some(_) => (None, Work::Empty),
            None => (None, gone("a node waits for an event that was destroyed")),
        }
    }
}

fn gone(what: &str) -> Work {
    Work::Graph(GraphWork::Gone(format!("a graph launch: {what}").into()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A plan of nothing but joins, each behind some of the ones before.
    pub(in crate::graph) fn plan_of(after: &[&[usize]]) -> Plan {
        let context = ContextCore::new(0, 0, Arc::default());
        let step = |after: &&[usize]| Step {
            context: context.clone(),
            work: Work::Empty,
            after: after.to_vec(),
            also: None,
        };
        Plan { steps: after.iter().map(step).collect(), ..Plan::default() }
    }

    #[test]
    fn a_step_is_awaited_where_another_names_it() {
        assert_eq!(plan_of(&[&[], &[0], &[0]]).awaited(), [true, false, false]);
    }
}
