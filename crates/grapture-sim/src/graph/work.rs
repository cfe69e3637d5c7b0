//! [`GraphWork`]: what graphs run beyond the operations of streams.

use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_OUT_OF_MEMORY};

use super::conditional::Branch;
use super::memory::Allocation;
use super::order::Order;
use super::plan::Plan;
use crate::fault::Fault;
use crate::sim::Sim;
use crate::work::{ConditionalWords, Next};

/// What graphs run beyond the operations of streams.
#[derive(Clone, Debug)]
pub(crate) enum GraphWork {
    /// Brings an allocation to life.
    Allocate(Arc<Allocation>),
    /// Gives conditional handles the values that a launch begins with.
    Assign(ConditionalWords, Arc<[(u64, u32)]>),
    /// Runs the body that a conditional handle chooses.
    Choose(Arc<Choice>),
    /// Fails: the node uses what was destroyed.
    Gone(Arc<str>),
}

/// The bodies of a conditional node, and what chooses among them.
#[derive(Debug)]
pub(crate) struct Choice {
    /// What decides: a handle and the values of all.
    pub(crate) handle: u64,
    /// The values.
    pub(crate) words: ConditionalWords,
    /// How.
    pub(crate) branch: Branch,
    /// The bodies.
    pub(crate) bodies: Vec<Plan>,
    /// The order of their steps.
    pub(crate) order: Order,
}

impl GraphWork {
    /// Does it.
    pub(crate) fn run(&self, sim: &Arc<Sim>) -> Result<Next, Fault> {
        match self {
            GraphWork::Allocate(allocation) => {
                let backed =
                    sim.memory.back(allocation.address, allocation.bytes, allocation.device);
                backed.map_err(|_| {
                    let text =
                        format!("no room for {} bytes of an allocation node", allocation.bytes);
                    Fault::new(CUDA_ERROR_OUT_OF_MEMORY, text)
                })?;
                Ok(Next::Done)
            }
            GraphWork::Assign(words, values) => {
                for (handle, value) in &**values {
                    words.set(*handle, *value);
                }
                Ok(Next::Done)
            }
            GraphWork::Choose(choice) => Ok(choice.run(sim)),
            GraphWork::Gone(what) => Err(Fault::new(CUDA_ERROR_LAUNCH_FAILED, &**what)),
        }
    }
}

impl Choice {
    /// Starts the chosen body. A loop comes back when the body is done.
    fn run(&self, sim: &Arc<Sim>) -> Next {
        let chosen = self.branch.body(self.words.get(self.handle));
        let body = chosen.and_then(|chosen| self.bodies.get(chosen));
        match body.filter(|_| !sim.engine.is_closing()) {
            Some(body) => {
                let ends = body.submit(&mut sim.engine.batch(), &[], self.order).ends;
                if self.branch == Branch::While { Next::Again(ends) } else { Next::After(ends) }
            }
            None => Next::Done,
        }
    }
}
