//! [`GraphPool`]: the memory of a device that graphs take for their allocations.
//!
//! It comes in chunks. A launch takes chunks that no living allocation of another graph is in, and
//! more of them where those are too few; they stay until they are trimmed.

use std::collections::BTreeMap;
use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, CUDA_ERROR_INVALID_VALUE,
    CUgraphMem_attribute, CUresult,
};

use super::memory::Allocation;
use super::store::Graphs;

/// The bytes of a chunk.
const CHUNK: usize = 32 << 20;

/// The chunks of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GraphPool {
    chunks: usize,
    /// The most that there were, since each of the two marks was set back.
    high_used: usize,
    high_reserved: usize,
}

/// The chunks that the graphs of some allocations take on a device, each graph counted once.
fn chunks<'a>(
    allocations: impl Iterator<Item = &'a Arc<Allocation>>,
    device: usize,
) -> BTreeMap<usize, usize> {
    let on_device = allocations.filter(|allocation| allocation.device == device);
    on_device
        .map(|allocation| {
            let graph = Arc::as_ptr(&allocation.span).addr();
            (graph, allocation.span.bytes().div_ceil(CHUNK))
        })
        .collect()
}

impl Graphs {
    /// Takes the chunks that a launch of these allocations needs.
    pub(super) fn take_chunks(&mut self, allocations: &[Arc<Allocation>]) {
        let devices: std::collections::BTreeSet<usize> =
            allocations.iter().map(|allocation| allocation.device).collect();
        for device in devices {
            let needed = chunks(allocations.iter(), device);
            let mut held = self.living_chunks(device);
            held.extend(needed);
            let total = held.values().sum();
            let pool = self.pools.entry(device).or_default();
            pool.chunks = pool.chunks.max(total);
            pool.high_used = pool.high_used.max(pool.chunks);
            pool.high_reserved = pool.high_reserved.max(pool.chunks);
        }
    }

    fn living_chunks(&self, device: usize) -> BTreeMap<usize, usize> {
        chunks(self.allocations.values().filter(|allocation| allocation.is_live()), device)
    }

    /// Gives the chunks back that no living allocation is in.
    pub(crate) fn trim(&mut self, device: usize) {
        let held = self.living_chunks(device).values().sum();
        if let Some(pool) = self.pools.get_mut(&device) {
            pool.chunks = pool.chunks.min(held);
        }
    }

    /// The bytes that an attribute of the memory of graphs tells.
    pub(crate) fn memory_attribute(
        &self,
        device: usize,
        attribute: CUgraphMem_attribute,
    ) -> Result<u64, CUresult> {
        let pool = self.pools.get(&device).copied().unwrap_or_default();
        let chunks = match attribute {
            CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT | CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => {
                pool.chunks
            }
            CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => pool.high_used,
            CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => pool.high_reserved,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        Ok((chunks * CHUNK) as u64)
    }

    /// Sets a mark of the most that there was back to what there is.
    pub(crate) fn reset_mark(
        &mut self,
        device: usize,
        attribute: CUgraphMem_attribute,
    ) -> Result<(), CUresult> {
        let pool = self.pools.entry(device).or_default();
        match attribute {
            CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => pool.high_used = pool.chunks,
            CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => pool.high_reserved = pool.chunks,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
}
