//! [`NodeParams`]: what a node does.

use std::sync::Arc;

use grapture_sys::{
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_CONDITIONAL, CU_GRAPH_NODE_TYPE_EMPTY,
    CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_GRAPH, CU_GRAPH_NODE_TYPE_HOST,
    CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE,
    CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    CUgraphNodeType,
};

use super::batch::BatchNode;
use super::conditional::ConditionalNode;
use super::memory::Allocation;
use super::store::GraphId;
use crate::context::ContextCore;
use crate::event::Event;
use crate::handle::Id;
use crate::module::Kernel;
use crate::work::{CopyWork, FillWork, HostWork, KernelWork};

/// Work that belongs to a context whatever stream the graph is launched on.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    /// The context.
    pub(crate) context: Arc<ContextCore>,
    /// The work.
    pub(crate) work: T,
}

/// A kernel launch, with the argument pointers that a program can ask back.
#[derive(Clone, Debug)]
pub(crate) struct KernelNode {
    /// The launch.
    pub(crate) launch: Placed<KernelWork>,
    /// The addresses of the arguments inside the launch's own copy of them. They stay good as long
    /// as the node has these parameters.
    pub(crate) arguments: Arc<[usize]>,
    /// The kernel of a library that the node was made by.
    pub(crate) library: Option<Id<Kernel>>,
}

impl KernelNode {
    /// The node of a launch.
    pub(crate) fn new(context: Arc<ContextCore>, work: KernelWork) -> KernelNode {
        let base = work.params.as_ptr().expose_provenance();
        let arguments = work.code.params.iter().map(|param| base + param.offset).collect();
        KernelNode { launch: Placed { context, work }, arguments, library: None }
    }
}

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum NodeParams {
    /// Nothing: a place where edges meet.
    Empty,
    /// Launches a kernel.
    Kernel(KernelNode),
    /// Copies memory.
    Copy(Placed<CopyWork>),
    /// Fills memory.
    Fill(Placed<FillWork>),
    /// Calls a function of the program.
    Host(HostWork),
    /// Waits for and writes words of memory.
    MemOps(BatchNode),
    /// Runs the graph that the node embeds.
    Child(GraphId),
    /// Runs one of the graphs that the node owns, or none.
    Conditional(ConditionalNode),
    /// Records an event.
    Record(Id<Event>),
    /// Waits for the work that an event stands for at the launch.
    Wait(Id<Event>),
    /// Brings an allocation to life at its fixed address.
    Alloc(Arc<Allocation>),
    /// Ends the life of an allocation.
    Free(Arc<Allocation>),
}

impl NodeParams {
    /// The C type of such a node.
    pub(crate) fn kind(&self) -> CUgraphNodeType {
        match self {
            NodeParams::Empty => CU_GRAPH_NODE_TYPE_EMPTY,
            NodeParams::Kernel(_) => CU_GRAPH_NODE_TYPE_KERNEL,
            NodeParams::Copy(_) => CU_GRAPH_NODE_TYPE_MEMCPY,
            NodeParams::Fill(_) => CU_GRAPH_NODE_TYPE_MEMSET,
            NodeParams::Host(_) => CU_GRAPH_NODE_TYPE_HOST,
            NodeParams::MemOps(_) => CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
            NodeParams::Child(_) => CU_GRAPH_NODE_TYPE_GRAPH,
            NodeParams::Conditional(_) => CU_GRAPH_NODE_TYPE_CONDITIONAL,
            NodeParams::Record(_) => CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            NodeParams::Wait(_) => CU_GRAPH_NODE_TYPE_WAIT_EVENT,
            NodeParams::Alloc(_) => CU_GRAPH_NODE_TYPE_MEM_ALLOC,
            NodeParams::Free(_) => CU_GRAPH_NODE_TYPE_MEM_FREE,
        }
    }

    /// Takes the parameters of a node of the same kind, but keeps the graphs that it owns. `uploaded`
    /// says that its executable was.
    pub(crate) fn take(&mut self, new: &NodeParams, uploaded: bool) {
        match (self, new) {
            (NodeParams::Child(_), _) => {}
            (NodeParams::Conditional(old), NodeParams::Conditional(new)) => {
                old.conditional = new.conditional.clone();
            }
            (NodeParams::Kernel(old), NodeParams::Kernel(new)) => {
                let before = std::mem::replace(old, new.clone());
                old.launch.work.update_cluster(&before.launch.work, uploaded);
            }
            (old, new) => *old = new.clone(),
        }
    }

    /// Whether it launches a kernel, the one thing with ports.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self, NodeParams::Kernel(_))
    }

    /// The graphs that the node owns.
    pub(crate) fn embedded(&self) -> &[GraphId] {
        match self {
            NodeParams::Child(graph) => std::slice::from_ref(graph),
            NodeParams::Conditional(node) => &node.bodies,
            _ => &[],
        }
    }

    /// What it frees.
    pub(crate) fn freed(&self) -> Option<&Arc<Allocation>> {
        match self {
            NodeParams::Free(allocation) => Some(allocation),
            _ => None,
        }
    }

    /// Whether it allocates or frees.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, NodeParams::Alloc(_) | NodeParams::Free(_))
    }

    /// Whether an executable may turn it off.
    pub(crate) fn can_be_disabled(&self) -> bool {
        matches!(self, NodeParams::Kernel(_) | NodeParams::Copy(_) | NodeParams::Fill(_))
    }
}
