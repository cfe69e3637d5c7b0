//! [`Order`]: in which of the legal orders the steps of a plan run.

use crate::config::ReplayOrder;
use crate::engine::{Batch, TaskId, next_random};
use crate::sim::Sim;

use super::plan::Plan;

/// The order of the steps of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Steps between which no edge stands run side by side.
    Concurrent,
    /// One after the other, as they were made.
    Forward,
    /// One after the other, the last one first where the edges allow it.
    Backward,
    /// One after the other, by the numbers that come from this one.
    Random(u64),
}

/// The tasks of a plan.
pub(crate) struct Submitted {
    /// Those of all steps.
    pub(crate) all: Vec<TaskId>,
    /// Those that no other step waits for.
    pub(crate) ends: Vec<TaskId>,
}

impl Order {
    /// The order of the launch with this number of an executable.
    pub(crate) fn of_launch(sim: &Sim, number: u64) -> Order {
        match (sim.config.replay(), number) {
            (ReplayOrder::Concurrent, _) => Order::Concurrent,
            (ReplayOrder::Permuted, 0) => Order::Forward,
            (ReplayOrder::Permuted, 1) => Order::Backward,
            (ReplayOrder::Permuted, number) => {
                let mut state = sim.config.scheduler_seed() ^ number.rotate_left(32);
                Order::Random(next_random(&mut state))
            }
        }
    }

    /// All steps, each behind those that it waits for.
    fn steps(self, plan: &Plan) -> Vec<usize> {
        let mut state = match self {
            Order::Concurrent | Order::Forward => return (0..plan.steps.len()).collect(),
            Order::Backward => 0,
            Order::Random(state) => state,
        };
        let mut missing: Vec<usize> = plan.steps.iter().map(|step| step.after.len()).collect();
        let mut dependents = vec![Vec::new(); plan.steps.len()];
        for (index, step) in plan.steps.iter().enumerate() {
            for before in &step.after {
                // INVARIANT: a step waits for earlier steps of its own plan.
                dependents[*before].push(index);
            }
        }
        let mut ready: Vec<usize> = (0..missing.len()).filter(|step| missing[*step] == 0).collect();
        let mut order = Vec::with_capacity(missing.len());
        while !ready.is_empty() {
            let place = match self {
                Order::Random(_) => (next_random(&mut state) % ready.len() as u64) as usize,
                // INVARIANT: something is ready.
                _ => ready.len() - 1,
            };
            let step = ready.remove(place);
            order.push(step);
            for dependent in std::mem::take(&mut dependents[step]) {
                missing[dependent] -= 1;
                if missing[dependent] == 0 {
                    let place = ready.partition_point(|other| *other < dependent);
                    ready.insert(place, dependent);
                }
            }
        }
        order
    }
}

impl Plan {
    /// Adds the steps as tasks; those that wait for no other step wait for `deps`.
    pub(crate) fn submit(&self, batch: &mut Batch<'_>, deps: &[TaskId], order: Order) -> Submitted {
        let mut tasks: Vec<Option<TaskId>> = vec![None; self.steps.len()];
        let mut before = None;
        for index in order.steps(self) {
            // INVARIANT: an order names the steps of its plan.
            let step = &self.steps[index];
            let inner = step.after.iter().filter_map(|before| tasks[*before]);
            let mut after: Vec<TaskId> = inner.chain(step.also).collect();
            if step.after.is_empty() {
                after.extend_from_slice(deps);
            }
            let task = batch.submit_behind(before, after, &step.context, step.work.clone());
            tasks[index] = Some(task);
            before = (order != Order::Concurrent).then_some(task);
        }
        let all: Vec<TaskId> = tasks.into_iter().flatten().collect();
        let awaited = self.awaited();
        let end = |(task, awaited): (&TaskId, bool)| (!awaited).then_some(*task);
        let ends = all.iter().zip(awaited).filter_map(end).collect();
        Submitted { all, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::plan::tests::plan_of;

    #[test]
    fn orders_are_legal_and_differ() {
        // A diamond beside a lone step.
        let plan = plan_of(&[&[], &[0], &[0], &[1, 2], &[]]);
        assert_eq!(Order::Forward.steps(&plan), [0, 1, 2, 3, 4]);
        assert_eq!(Order::Backward.steps(&plan), [4, 0, 2, 1, 3]);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let order = Order::Random(seed).steps(&plan);
            let place = |step| order.iter().position(|other| *other == step);
            for (index, step) in plan.steps.iter().enumerate() {
                assert!(step.after.iter().all(|before| place(*before) < place(index)));
            }
            assert_eq!(order, Order::Random(seed).steps(&plan), "the same seed, the same order");
            seen.insert(order);
        }
        assert_eq!(seen.len(), 10, "all that there are");
    }
}
