//! [`GraphWork`]: what graphs run beyond the operations of streams.

use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_OUT_OF_MEMORY};

use super::memory::Allocation;
use crate::context::ContextCore;
use crate::fault::Fault;
use crate::sim::Sim;
use crate::work::Next;

/// What graphs run beyond the operations of streams.
#[derive(Clone, Debug)]
pub(crate) enum GraphWork {
    /// Brings an allocation to life.
    Allocate(Arc<Allocation>),
    /// Fails: the node uses what was destroyed.
    Gone(Arc<str>),
}

impl GraphWork {
    /// Does it.
    pub(crate) fn run(&self, sim: &Arc<Sim>, _context: &Arc<ContextCore>) -> Result<Next, Fault> {
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
            GraphWork::Gone(what) => Err(Fault::new(CUDA_ERROR_LAUNCH_FAILED, &**what)),
        }
    }
}
