//! [`Layout`]: where the allocations of a graph lie.
//!
//! Two of them share an address where one is freed before the other is made, whatever the order of
//! a launch. Between others there is a gap, so that an access past an end is seen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use grapture_sys::CUresult;

use super::definition::{GraphDef, LocalId};
use super::edge::Edge;
use super::memory::{Allocation, Span};
use crate::memory::ALIGNMENT;
use crate::sim::Sim;

/// The fewest addresses that are set aside at once.
const REGION: usize = 4 << 20;

/// Addresses that were set aside for one graph.
#[derive(Clone, Copy, Debug)]
struct Region {
    device: usize,
    start: u64,
    len: u64,
}

/// Where the allocations of a graph lie.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    regions: Vec<Region>,
    blocks: Vec<Arc<Allocation>>,
    /// What they take together.
    pub(super) span: Arc<Span>,
}

/// The addresses that so many bytes take, the gap behind them included.
fn stride(bytes: usize) -> u64 {
    (bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT) as u64
}

fn overlap(block: &Allocation, start: u64, stride_of_other: u64) -> bool {
    block.address < start + stride_of_other && start < block.address + stride(block.bytes)
}

impl Layout {
    /// Whether an allocation is one of this graph.
    pub(super) fn holds(&self, allocation: &Arc<Allocation>) -> bool {
        self.blocks.iter().any(|block| Arc::ptr_eq(block, allocation))
    }

    /// An address for an allocation behind some nodes: the first that is free by then.
    pub(super) fn place(
        &mut self,
        sim: &Sim,
        def: &GraphDef,
        after: &[Edge],
        device: usize,
        bytes: usize,
    ) -> Result<u64, CUresult> {
        let need = stride(bytes);
        if let Some(address) = self.fit(def, after, device, need) {
            return Ok(address);
        }
        let len = REGION.max(need as usize);
        let start = sim.memory.reserve(device, len)?;
        self.regions.push(Region { device, start, len: len as u64 });
        Ok(start)
    }

    fn fit(&self, def: &GraphDef, after: &[Edge], device: usize, need: u64) -> Option<u64> {
        let past = def.ancestors(after.iter().map(|edge| edge.node));
        let freed = |block: &Arc<Allocation>| past.iter().any(|node| frees(def, *node, block));
        let taken: Vec<_> = self.blocks.iter().filter(|block| !freed(block)).collect();
        let mut starts: Vec<u64> = self.regions.iter().map(|region| region.start).collect();
        starts.extend(self.blocks.iter().map(|block| block.address + stride(block.bytes)));
        starts.sort_unstable();
        starts.into_iter().find(|start| {
            let inside = |region: &Region| {
                region.device == device
                    && *start >= region.start
                    && start + need <= region.start + region.len
            };
            self.regions.iter().any(inside)
                && !taken.iter().any(|block| overlap(block, *start, need))
        })
    }

    /// Adds an allocation at its place.
    pub(super) fn add(&mut self, allocation: Arc<Allocation>) {
        let need = stride(allocation.bytes);
        let mut fresh = true;
        for block in &self.blocks {
            if overlap(block, allocation.address, need) {
                fresh = false;
                block.shared.store(true, Ordering::Release);
                allocation.shared.store(true, Ordering::Release);
            }
        }
        if fresh {
            self.span.grow(allocation.bytes.next_multiple_of(ALIGNMENT));
        }
        self.blocks.push(allocation);
    }
}

/// Whether a node frees an allocation.
fn frees(def: &GraphDef, node: LocalId, block: &Arc<Allocation>) -> bool {
    let freed = def.node(node).ok().and_then(|node| node.params.freed());
    freed.is_some_and(|freed| Arc::ptr_eq(freed, block))
}
