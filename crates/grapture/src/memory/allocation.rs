//! [`BufferInner`]: an allocation of device memory, which buffers and graphs share.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUdeviceptr};

use crate::capture::CaptureLog;
use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::NodeId;
use crate::host_function;
use crate::memory::graph_pool::Piece;
use crate::memory::in_graph::InGraph;
use crate::memory::launch_memory::LaunchMemory;
use crate::memory::ordered::Ordered;
use crate::reclaim::{put_off, puts_off, release_elsewhere};
use crate::stream::Stream;

/// An allocation of device memory.
pub(crate) struct BufferInner {
    address: CUdeviceptr,
    bytes: usize,
    context: Context,
    origin: Origin,
}

enum Origin {
    /// Nothing is allocated: the buffer has no bytes.
    Nothing,
    /// By `cuMemAlloc`, or taken over.
    Plain,
    /// In the order of a stream.
    Ordered(Ordered),
    /// By the graph that is being captured.
    InGraph(InGraph),
    /// Of a pool, for what is being captured.
    Pool(Piece),
    /// Somebody else's.
    Borrowed,
    /// By a node of a graph, which lives from that node to one that frees it.
    Graph(GraphMemory),
}

/// Who uses memory that a node of a graph allocates.
pub(crate) struct GraphMemory {
    pub(crate) allocated_by: NodeId,
    users: Mutex<GraphUsers>,
}

#[derive(Default)]
struct GraphUsers {
    nodes: Vec<NodeId>,
    freed: bool,
}

impl GraphMemory {
    pub(crate) fn is_freed(&self) -> bool {
        self.lock().freed
    }

    pub(crate) fn set_freed(&self) {
        self.lock().freed = true;
    }

    pub(crate) fn add_user(&self, node: NodeId) {
        let mut users = self.lock();
        if users.nodes.last() != Some(&node) {
            users.nodes.push(node);
        }
    }

    /// The nodes that use it, some of them more than once.
    pub(crate) fn users(&self) -> Vec<NodeId> {
        self.lock().nodes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, GraphUsers> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BufferInner {
    /// Allocates with a call of its own.
    pub(crate) fn alloc(context: &Context, bytes: usize) -> CudaResult<BufferInner> {
        let mut address = 0;
        if bytes > 0 {
            context.driver().with_room(|| {
                context.enter_relaxed(|functions| {
                    // SAFETY: the out-pointer is a live local; the context is current.
                    check(unsafe { (functions.cuMemAlloc_v2)(&mut address, bytes) })
                })
            })?;
        }
        let origin = if bytes > 0 { Origin::Plain } else { Origin::Nothing };
        Ok(BufferInner { address, bytes, context: context.clone(), origin })
    }

    /// Allocates in the order of a stream.
    pub(crate) fn alloc_ordered(stream: &Stream, bytes: usize) -> CudaResult<BufferInner> {
        let context = stream.context().clone();
        if bytes == 0 {
            return Ok(BufferInner { address: 0, bytes, context, origin: Origin::Nothing });
        }
        let (address, ordered) = Ordered::alloc(stream, bytes)?;
        Ok(BufferInner { address, bytes, context, origin: Origin::Ordered(ordered) })
    }

    /// Has an open capture record an allocation on the stream that began it.
    #[track_caller]
    pub(crate) fn alloc_in_graph(
        log: &CaptureLog,
        stream: &Stream,
        bytes: usize,
    ) -> CudaResult<BufferInner> {
        let context = stream.context().clone();
        if bytes == 0 {
            return Ok(BufferInner { address: 0, bytes, context, origin: Origin::Nothing });
        }
        let (address, memory) = InGraph::alloc(log, stream, bytes)?;
        Ok(BufferInner { address, bytes, context, origin: Origin::InGraph(memory) })
    }

    /// Memory of a pool, for an open capture.
    pub(crate) fn of_pool(
        context: &Context,
        address: CUdeviceptr,
        bytes: usize,
        piece: Piece,
    ) -> BufferInner {
        BufferInner { address, bytes, context: context.clone(), origin: Origin::Pool(piece) }
    }

    /// Takes what the last launch of a graph has left.
    pub(crate) fn take_from_graph(
        memory: &Arc<LaunchMemory>,
        context: &Context,
    ) -> CudaResult<BufferInner> {
        let ordered = Ordered::take_from_graph(memory)?;
        let (address, bytes, context) = (memory.address(), memory.bytes(), context.clone());
        Ok(BufferInner { address, bytes, context, origin: Origin::Ordered(ordered) })
    }

    /// # Safety
    ///
    /// `bytes` bytes at `address` are device memory of `context`; `owned`: they are one allocation
    /// of `cuMemAlloc`, which nobody else frees; else they outlive the result.
    pub(crate) unsafe fn from_raw(
        context: &Context,
        address: CUdeviceptr,
        bytes: usize,
        origin: RawOrigin,
    ) -> BufferInner {
        let origin = match origin {
            RawOrigin::Owned => Origin::Plain,
            RawOrigin::Borrowed => Origin::Borrowed,
        };
        BufferInner { address, bytes, context: context.clone(), origin }
    }

    #[inline]
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Memory that a node of a graph allocates.
    pub(crate) fn of_graph(
        context: &Context,
        address: CUdeviceptr,
        bytes: usize,
        allocated_by: NodeId,
    ) -> BufferInner {
        let memory = GraphMemory { allocated_by, users: Mutex::default() };
        BufferInner { address, bytes, context: context.clone(), origin: Origin::Graph(memory) }
    }

    /// What is known of it if a node of a graph allocates it.
    pub(crate) fn graph_memory(&self) -> Option<&GraphMemory> {
        match &self.origin {
            Origin::Graph(memory) => Some(memory),
            _ => None,
        }
    }

    /// Whether an operation with it needs no preparation.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.origin, Origin::Nothing | Origin::Plain | Origin::Borrowed)
    }

    /// Whether it is there only for what an open capture records.
    #[inline]
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.origin, Origin::InGraph(_) | Origin::Pool(_))
    }

    /// The memory, if a capture has recorded its allocation.
    #[inline]
    pub(crate) fn launch_memory(&self) -> Option<&Arc<LaunchMemory>> {
        match &self.origin {
            Origin::InGraph(memory) => Some(memory.memory()),
            _ => None,
        }
    }

    /// Has the capture record the release, if it recorded the allocation.
    pub(crate) fn free_in_graph(&self) -> CudaResult<()> {
        match &self.origin {
            Origin::InGraph(memory) => memory.free(),
            _ => Ok(()),
        }
    }

    /// Prepares for an operation on the stream that is about to be submitted or captured: for
    /// memory that was allocated in the order of another stream, has this one wait for that, and
    /// remembers that the release must wait for this one. For other memory it is nothing.
    #[inline]
    pub(crate) fn note_use(&self, stream: &Stream) -> CudaResult<()> {
        match &self.origin {
            Origin::Ordered(ordered) => ordered.note_use(stream),
            Origin::Graph(_) => Err(outside_its_graph()),
            Origin::InGraph(memory) => memory.note_use(stream),
            Origin::Pool(piece) => piece.note_use(stream),
            Origin::Nothing | Origin::Plain | Origin::Borrowed => Ok(()),
        }
    }

    /// Blocks until the memory is there for every stream.
    pub(crate) fn wait_until_ready(&self) -> CudaResult<()> {
        match &self.origin {
            Origin::Ordered(ordered) => ordered.wait_until_ready(),
            // Those of a graph come after what allocates it there.
            _ => Ok(()),
        }
    }
}

#[cold]
fn outside_its_graph() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "memory",
        "a node of a graph allocates it, and it is there only while that graph runs: use it in \
         nodes that are added to the same graph",
    )
}

/// Whose memory is made a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawOrigin {
    /// The buffer's from now on.
    Owned,
    /// Somebody else's.
    Borrowed,
}

impl BufferInner {
    /// What is to be released, out of an allocation that is dropped.
    fn take(&mut self) -> BufferInner {
        BufferInner {
            address: self.address,
            bytes: self.bytes,
            context: self.context.clone(),
            origin: mem::replace(&mut self.origin, Origin::Nothing),
        }
    }
}

impl Drop for BufferInner {
    fn drop(&mut self) {
        if host_function::is_running() {
            let taken = self.take();
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        match &mut self.origin {
            Origin::Nothing | Origin::Borrowed => {}
            // What a graph allocates is freed by it, or by what owns the graph's memory; and a
            // piece of a pool goes back there.
            Origin::Graph(_) | Origin::InGraph(_) | Origin::Pool(_) => {}
            Origin::Plain if puts_off() => {
                let taken = self.take();
                put_off(&self.context, taken);
            }
            Origin::Plain => {
                // SAFETY: made by `cuMemAlloc`, and this is the last handle: no buffer has it, and
                // no graph that can run (O2). Work in flight that was submitted without a capture
                // may still use it: the call waits for all of that (measured; NVIDIA lists it as
                // an implicit synchronisation). A capture of this thread would bar the call, so
                // the thread's mode is relaxed around it (O9).
                let code = self
                    .context
                    .driver()
                    .relaxed(|functions| unsafe { (functions.cuMemFree_v2)(self.address) });
                report("cuMemFree", check(code));
            }
            Origin::Ordered(ordered) => ordered.release(self.address),
        }
    }
}

impl fmt::Debug for BufferInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.address)
    }
}
