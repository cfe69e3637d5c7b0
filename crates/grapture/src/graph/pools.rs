//! Graphs that use a pool, as parts of others.

use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED};

use crate::error::{CudaError, CudaResult};
use crate::graph::{Graph, NodeId};
use crate::memory::PoolUse;
use crate::retain::{Owners, Share};

impl Graph {
    /// Refuses what a graph that uses a pool cannot.
    pub(crate) fn refuse_pools(&self, cannot: &str) -> CudaResult<()> {
        if self.share().pools().next().is_none() {
            return Ok(());
        }
        Err(CudaError::refused(
            CUDA_ERROR_NOT_SUPPORTED,
            "graph",
            format!("it uses memory of a pool again along its dependencies: {cannot}"),
        ))
    }
}

/// Refuses a graph for a node of another one that uses the same pool already: nothing orders the
/// two. `node` is the one that it is for, if there is one.
pub(super) fn refuse_shared_pools(
    share: &Share,
    owners: &Owners,
    node: Option<NodeId>,
) -> CudaResult<()> {
    let same = |one: &Arc<PoolUse>, other: &Arc<PoolUse>| Arc::ptr_eq(one.pool(), other.pool());
    let shared = |used: &Arc<PoolUse>| share.pools_beside(node).any(|other| same(used, other));
    if !owners.pools().any(shared) {
        return Ok(());
    }
    Err(CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "child",
        "it uses a pool that another node of the graph uses, and nothing orders the two: capture \
         the graph and embed both there, or give each a pool of its own",
    ))
}
