//! The nodes and edges of a graph, as the driver tells them.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use grapture_sys::{
    CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, CU_GRAPH_KERNEL_NODE_PORT_DEFAULT,
    CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_CONDITIONAL, CU_GRAPH_NODE_TYPE_EMPTY,
    CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
    CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, CU_GRAPH_NODE_TYPE_GRAPH, CU_GRAPH_NODE_TYPE_HOST,
    CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE,
    CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    CUDA_ERROR_INVALID_HANDLE, CUgraphEdgeData, CUgraphNode, CUgraphNodeType,
};

use crate::error::{CudaError, CudaResult};

/// Tells the nodes of one graph from those of another, also after the graph is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GraphKey(NonZeroU64);

impl GraphKey {
    pub(crate) fn new() -> GraphKey {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let last = LAST.fetch_add(1, Ordering::Relaxed);
        GraphKey(NonZeroU64::MIN.saturating_add(last))
    }
}

/// How the nodes of a graph are named.
#[derive(Clone, Debug)]
pub(crate) struct NodeNames {
    graph: GraphKey,
    /// How many nodes with a handle were removed, for each such handle: the driver uses them again.
    /// None: no node was.
    removed: Option<Box<Removed>>,
}

/// In a box of its own: hardly a graph has any.
#[derive(Clone, Debug, Default)]
struct Removed(BTreeMap<usize, u32>);

impl NodeNames {
    #[inline]
    pub(crate) fn of(graph: GraphKey) -> NodeNames {
        NodeNames { graph, removed: None }
    }

    pub(crate) fn graph(&self) -> GraphKey {
        self.graph
    }

    /// The name of the node that has the handle now.
    pub(crate) fn id(&self, raw: CUgraphNode) -> NodeId {
        NodeId { graph: self.graph, raw, turn: self.turn(raw), within: 0 }
    }

    /// Notes that the node with the handle was removed.
    pub(crate) fn remove(&mut self, raw: CUgraphNode) {
        *self.removed.get_or_insert_default().0.entry(raw.addr()).or_default() += 1;
    }

    /// The handle of a node that the graph has.
    pub(crate) fn require(&self, node: NodeId, what: &'static str) -> CudaResult<CUgraphNode> {
        let problem = if node.graph != self.graph {
            "it is a node of another graph: only a graph's own nodes can be named to it"
        } else if node.within != 0 {
            "it is a node of an embedded graph: such can be looked at and changed, but not ordered, \
             removed or added to"
        } else if node.turn != self.turn(node.raw) {
            "it was removed from the graph"
        } else {
            return Ok(node.raw);
        };
        Err(CudaError::refused(CUDA_ERROR_INVALID_HANDLE, what, problem))
    }

    fn turn(&self, raw: CUgraphNode) -> u32 {
        self.removed.as_ref().and_then(|removed| removed.0.get(&raw.addr()).copied()).unwrap_or(0)
    }
}

/// Names a node of one graph. It keeps nothing alive, and means nothing to another graph, or once
/// the node was removed: both refuse it by name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId {
    pub(super) graph: GraphKey,
    pub(super) raw: CUgraphNode,
    /// How many nodes with this handle the graph had before that were removed.
    pub(super) turn: u32,
    /// The number by which the graph knows an embedded one that it is in; 0: it is the graph's own.
    pub(super) within: u32,
}

// SAFETY: the handle is only compared here, and given to a driver call only by the graph that
// still has the node.
unsafe impl Send for NodeId {}
// SAFETY: nothing is read or written through the handle by way of a shared reference.
unsafe impl Sync for NodeId {}

impl NodeId {
    /// The driver's handle.
    pub fn as_raw(self) -> CUgraphNode {
        self.raw
    }

    /// Whether it is a node of an embedded graph.
    pub(super) fn is_inner(self) -> bool {
        self.within != 0
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({:p})", self.raw)
    }
}

/// A node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) kind: NodeKind,
}

impl Node {
    /// Its name.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// What it does.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }
}

macro_rules! node_kinds {
    ($($variant:ident = $raw:ident $text:literal;)*) => {
        /// What a node does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum NodeKind {
            $(#[doc = concat!("`", stringify!($raw), "`: ", $text, ".")] $variant,)*
            /// A kind that this version of the library does not know.
            Other(u32),
        }

        impl From<CUgraphNodeType> for NodeKind {
            fn from(raw: CUgraphNodeType) -> NodeKind {
                match raw {
                    $($raw => NodeKind::$variant,)*
                    other => NodeKind::Other(other.0),
                }
            }
        }

        impl fmt::Display for NodeKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(NodeKind::$variant => f.write_str($text),)*
                    NodeKind::Other(number) => write!(f, "node of type {number}"),
                }
            }
        }
    };
}

node_kinds! {
    Kernel = CU_GRAPH_NODE_TYPE_KERNEL "kernel";
    Memcpy = CU_GRAPH_NODE_TYPE_MEMCPY "memcpy";
    Memset = CU_GRAPH_NODE_TYPE_MEMSET "memset";
    Host = CU_GRAPH_NODE_TYPE_HOST "host function";
    ChildGraph = CU_GRAPH_NODE_TYPE_GRAPH "child graph";
    Empty = CU_GRAPH_NODE_TYPE_EMPTY "empty";
    EventWait = CU_GRAPH_NODE_TYPE_WAIT_EVENT "event wait";
    EventRecord = CU_GRAPH_NODE_TYPE_EVENT_RECORD "event record";
    ExternalSemaphoreSignal = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL "external semaphore signal";
    ExternalSemaphoreWait = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT "external semaphore wait";
    MemAlloc = CU_GRAPH_NODE_TYPE_MEM_ALLOC "memory allocation";
    MemFree = CU_GRAPH_NODE_TYPE_MEM_FREE "memory free";
    BatchMemOp = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP "batch memory operation";
    Conditional = CU_GRAPH_NODE_TYPE_CONDITIONAL "conditional";
}

/// A dependency: `to` waits for `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) data: EdgeData,
}

impl Edge {
    /// The node that goes first.
    pub fn from(&self) -> NodeId {
        self.from
    }

    /// The node that waits.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// What of `from` is waited for.
    pub fn data(&self) -> EdgeData {
        self.data
    }
}

/// What of a node a dependency waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EdgeData {
    from_port: u8,
    to_port: u8,
    kind: u8,
}

impl EdgeData {
    /// The whole node: what every dependency is unless it was asked for otherwise.
    pub const FULL: EdgeData = EdgeData { from_port: 0, to_port: 0, kind: 0 };

    /// Between two kernels: the second begins when every block of the first has triggered that or
    /// ended, and itself waits for the first's results (compute capability 9.0).
    pub const PROGRAMMATIC: EdgeData = EdgeData {
        from_port: CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
        to_port: 0,
        kind: CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.0 as u8,
    };

    /// From a kernel: the other node begins when every block of the kernel has begun.
    pub const LAUNCH_ORDER: EdgeData =
        EdgeData { from_port: CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER as u8, to_port: 0, kind: 0 };

    /// The point of `from` that is waited for.
    pub fn from_port(&self) -> EdgePort {
        match u32::from(self.from_port) {
            CU_GRAPH_KERNEL_NODE_PORT_DEFAULT => EdgePort::Full,
            CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC => EdgePort::Programmatic,
            CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER => EdgePort::LaunchOrder,
            other => EdgePort::Other(other),
        }
    }

    /// Whether the dependency is a programmatic one: `to` may start while `from` still runs.
    pub fn is_programmatic(&self) -> bool {
        u32::from(self.kind) == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.0
    }
}

impl From<EdgeData> for CUgraphEdgeData {
    fn from(data: EdgeData) -> CUgraphEdgeData {
        let EdgeData { from_port, to_port, kind } = data;
        CUgraphEdgeData { from_port, to_port, type_: kind, ..CUgraphEdgeData::default() }
    }
}

impl From<CUgraphEdgeData> for EdgeData {
    fn from(raw: CUgraphEdgeData) -> EdgeData {
        EdgeData { from_port: raw.from_port, to_port: raw.to_port, kind: raw.type_ }
    }
}

impl fmt::Debug for EdgeData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeData")
            .field("from_port", &self.from_port())
            .field("to_port", &self.to_port)
            .field("programmatic", &self.is_programmatic())
            .finish()
    }
}

/// The point of a node from which a dependency starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgePort {
    /// All of the node is done.
    Full,
    /// Every block of the kernel has triggered or ended.
    Programmatic,
    /// Every block of the kernel has begun.
    LaunchOrder,
    /// A port that this version of the library does not know.
    Other(u32),
}
