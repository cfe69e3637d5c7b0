//! [`GraphWork`]: what graphs run beyond the operations of streams.

use std::sync::Arc;

use grapture_sys::{
    CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_OUT_OF_MEMORY,
};

use super::conditional::{Branch, Conditional};
use super::memory::Allocation;
use super::order::Order;
use super::plan::Plan;
use crate::fault::Fault;
use crate::sim::Sim;
use crate::work::Next;

/// What graphs run beyond the operations of streams.
#[derive(Clone, Debug)]
pub(crate) enum GraphWork {
    /// Brings an allocation to life.
    Allocate(Arc<Allocation>),
    /// Gives conditional handles the values that a launch begins with.
    Assign(Arc<[Arc<Conditional>]>),
    /// Runs the body that a conditional handle chooses.
    Choose(Arc<Choice>),
    /// Fails: the node uses what was destroyed.
    Gone(Arc<str>),
}

/// The bodies of a conditional node, and what chooses among them.
#[derive(Debug)]
pub(crate) struct Choice {
    /// What decides.
    pub(crate) conditional: Arc<Conditional>,
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
            GraphWork::Assign(conditionals) => {
                for conditional in &**conditionals {
                    let word = conditional.default.to_ne_bytes();
                    sim.memory.write(conditional.address, &word).map_err(lost)?;
                }
                Ok(Next::Done)
            }
            GraphWork::Choose(choice) => choice.run(sim),
            GraphWork::Gone(what) => Err(Fault::new(CUDA_ERROR_LAUNCH_FAILED, &**what)),
        }
    }
}

impl Choice {
    /// Starts the chosen body. A loop comes back when the body is done.
    fn run(&self, sim: &Arc<Sim>) -> Result<Next, Fault> {
        let mut word = [0; 4];
        sim.memory.read(self.conditional.address, &mut word).map_err(lost)?;
        let chosen = self.branch.body(u32::from_ne_bytes(word));
        let Some(body) = chosen.and_then(|chosen| self.bodies.get(chosen)) else {
            return Ok(Next::Done);
        };
        if sim.engine.is_closing() {
            return Ok(Next::Done);
        }
        let ends = body.submit(&mut sim.engine.batch(), &[], self.order).ends;
        Ok(if self.branch == Branch::While { Next::Again(ends) } else { Next::After(ends) })
    }
}

fn lost(reason: impl std::fmt::Display) -> Fault {
    Fault::new(CUDA_ERROR_ILLEGAL_ADDRESS, format!("a conditional handle: {reason}"))
}
