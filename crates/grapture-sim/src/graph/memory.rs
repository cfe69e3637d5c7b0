//! Allocation and free nodes.
//!
//! The address of an allocation node is set aside when the node is made, and stays through all
//! launches. Whether the allocation lives is known as calls are made, before anything runs: a launch
//! that would bring a living allocation to life again is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY, CUmemAccessDesc,
    CUresult,
};

use super::edge::Edge;
use super::layout::Layout;
use super::store::{GraphId, Graphs};
use crate::sim::Sim;

/// More bytes have no addresses.
const MOST_BYTES: usize = 1 << 44;

/// What an allocation node allocates.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Where.
    pub(crate) address: u64,
    /// How much.
    pub(crate) bytes: usize,
    /// On which device.
    pub(crate) device: usize,
    /// The rights that it was asked for with.
    pub(crate) access: AccessList,
    /// What the allocations of its graph take together.
    pub(super) span: Arc<Span>,
    /// Whether another one has the same address at another time of a launch.
    pub(super) shared: AtomicBool,
    live: AtomicBool,
    /// Whether a node of its own graph frees it, or nodes of others do.
    freed_at_home: AtomicBool,
    freed_elsewhere: AtomicBool,
    /// Whether an executable was made of its graph since it is there, or was to be made.
    instantiated: AtomicBool,
}

/// Access rights in their C form.
#[derive(Clone, Default)]
pub(crate) struct AccessList(pub(crate) Box<[CUmemAccessDesc]>);

impl fmt::Debug for AccessList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rights", self.0.len())
    }
}

/// The bytes of all that a graph allocates, what shares an address counted once.
#[derive(Debug, Default)]
pub(super) struct Span(AtomicUsize);

impl Span {
    /// The bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Adds some.
    pub(super) fn grow(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::AcqRel);
    }
}

/// What a new allocation node asks for.
#[derive(Debug)]
pub(crate) struct Request {
    /// On which device.
    pub(crate) device: usize,
    /// How much.
    pub(crate) bytes: usize,
    /// With which rights.
    pub(crate) access: AccessList,
}

impl Allocation {
    /// Notes that an executable is made of its graph.
    pub(super) fn set_instantiated(&self) {
        self.instantiated.store(true, Ordering::Release);
    }

    /// Whether a launch has brought it to life and nothing has freed it since.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Notes a launch that leaves it alive, or a free.
    pub(crate) fn set_live(&self, live: bool) {
        self.live.store(live, Ordering::Release);
    }

    /// Whether another one has the same address at another time of a launch.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }
}

impl Graphs {
    /// Sets an address aside for an allocation node of a graph, behind some nodes: one that was
    /// freed by then may be used again.
    pub(crate) fn plan_allocation(
        &mut self,
        sim: &Sim,
        graph: GraphId,
        after: &[Edge],
        request: Request,
    ) -> Result<Arc<Allocation>, CUresult> {
        let Request { device, bytes, access } = request;
        if bytes == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if self.graph(graph)?.embedded_in.is_some() && !self.is_body(graph)? {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        let this = self.graph_mut(graph)?;
        this.memory = true;
        if bytes > MOST_BYTES {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        this.def.check_dependencies(after, false)?;
        let Layout { span, .. } = &this.layout;
        let span = span.clone();
        let address = this.layout.place(sim, &this.def, after, device, bytes)?;
        let flag = || AtomicBool::new(false);
        let allocation = Arc::new(Allocation {
            address,
            bytes,
            device,
            access,
            span,
            shared: flag(),
            live: flag(),
            freed_at_home: flag(),
            freed_elsewhere: flag(),
            instantiated: flag(),
        });
        this.layout.add(allocation.clone());
        // What lives is known until it is freed, also when its graph is gone.
        self.allocations.retain(|_, known| known.is_live() || Arc::strong_count(known) > 1);
        self.allocations.insert(address, allocation.clone());
        Ok(allocation)
    }

    /// The allocation that a new node of a graph frees: this graph does not free it yet, and it was in
    /// no executable. One that other graphs free is not for its own graph any more, and the other
    /// way round.
    pub(crate) fn plan_free(
        &mut self,
        graph: GraphId,
        address: u64,
    ) -> Result<Arc<Allocation>, CUresult> {
        if self.graph(graph)?.embedded_in.is_some() && !self.is_body(graph)? {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        self.graph_mut(graph)?.memory = true;
        let allocation = self.allocation(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let graph = self.graph(graph)?;
        let mut frees = graph.def.nodes().filter_map(|(_, node)| node.params.freed());
        let freed = frees.any(|freed| Arc::ptr_eq(freed, allocation));
        let own = graph.layout.holds(allocation);
        let (by_this, by_that) = if own {
            (&allocation.freed_at_home, &allocation.freed_elsewhere)
        } else {
            (&allocation.freed_elsewhere, &allocation.freed_at_home)
        };
        let instantiated = own && allocation.instantiated.load(Ordering::Acquire);
        if freed || instantiated || by_that.load(Ordering::Acquire) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        by_this.store(true, Ordering::Release);
        Ok(allocation.clone())
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
