//! Allocation and free nodes.
//!
//! The address of an allocation node is set aside when the node is made, and stays through all
//! launches. Whether the allocation lives is known as calls are made, before anything runs: a launch
//! that would bring a living allocation to life again is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUresult};

use super::params::NodeParams;
use super::store::{GraphId, Graphs};
use crate::sim::Sim;

/// What an allocation node allocates.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Where.
    pub(crate) address: u64,
    /// How much.
    pub(crate) bytes: usize,
    /// On which device.
    pub(crate) device: usize,
    live: AtomicBool,
}

impl Allocation {
    /// Whether a launch has brought it to life and nothing has freed it since.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Notes a launch that leaves it alive, or a free.
    pub(crate) fn set_live(&self, live: bool) {
        self.live.store(live, Ordering::Release);
    }
}

impl Graphs {
    /// Sets an address aside for an allocation node of a graph.
    pub(crate) fn plan_allocation(
        &mut self,
        sim: &Sim,
        graph: GraphId,
        device: usize,
        bytes: usize,
    ) -> Result<Arc<Allocation>, CUresult> {
        if self.graph(graph)?.embedded_in.is_some() || bytes == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if bytes > sim.memory.total_bytes(device) {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let address = sim.memory.reserve(device, bytes)?;
        let live = AtomicBool::new(false);
        let allocation = Arc::new(Allocation { address, bytes, device, live });
        // What lives is known until it is freed, also when its graph is gone.
        self.allocations.retain(|_, known| known.is_live() || Arc::strong_count(known) > 1);
        self.allocations.insert(address, allocation.clone());
        Ok(allocation)
    }

    /// Checks that a graph can get a node that frees this address: it is that of an allocation
    /// node, this graph does not free it, and was never instantiated.
    pub(crate) fn plan_free(&self, graph: GraphId, address: u64) -> Result<(), CUresult> {
        self.allocation(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let graph = self.graph(graph)?;
        let frees = |params: &NodeParams| matches!(params, NodeParams::Free(at) if *at == address);
        let freed = graph.def.nodes().any(|(_, node)| frees(&node.params));
        if graph.embedded_in.is_some() || freed || graph.instantiated {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        Ok(())
    }

    /// The allocation of the allocation node with this address.
    pub(crate) fn allocation(&self, address: u64) -> Option<&Arc<Allocation>> {
        self.allocations.get(&address)
    }

    /// Whether all of a range lies in what some allocation node allocates.
    pub(crate) fn plans(&self, address: u64, len: usize) -> bool {
        let covers = |allocation: &Arc<Allocation>| {
            let offset = address.checked_sub(allocation.address);
            let end = offset.and_then(|offset| offset.checked_add(len as u64));
            end.is_some_and(|end| end <= allocation.bytes as u64)
        };
        self.allocations.values().any(covers)
    }

    /// Notes that a call frees an address; whether it is that of an allocation of a graph, alive.
    pub(crate) fn end_allocation(&self, address: u64) -> bool {
        self.allocation(address).is_some_and(|found| found.live.swap(false, Ordering::AcqRel))
    }
}
