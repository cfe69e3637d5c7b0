//! [`SlotNode`]: what a graph remembers of a node that uses slots.

use std::sync::{Arc, OnceLock};

use grapture_sys::{CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUgraphNode};
use smallvec::SmallVec;

use crate::context::Context;
use crate::dim3::Dim3;
use crate::graph::NodeId;
use crate::kernel::KernelInner;
use crate::launch::Attributes;
use crate::retain::{Retain, RetainedKind};
use crate::slot::{Identity, Value};

/// A node that uses slots, as one of the owners of its graph (O2): it goes where these go.
pub(crate) struct SlotNode {
    /// Set once the node is made.
    place: OnceLock<NodePlace>,
    work: Arc<SlotWork>,
}

/// Where a node is.
#[derive(Clone)]
pub(crate) struct NodePlace {
    /// The node of the graph that it is, or is within.
    pub(crate) top: NodeId,
    /// That node's handle, then that of a node of its graph, and so on: the last is the node's own.
    pub(crate) path: SmallVec<[CUgraphNode; 1]>,
    /// Whether one of those graphs is the body of a conditional node.
    pub(crate) in_body: bool,
}

/// All that the driver is to be given anew when one of the slots is set.
pub(crate) struct SlotWork {
    pub(crate) work: Work,
    pub(crate) uses: Vec<SlotUse>,
}

pub(crate) enum Work {
    Kernel(KernelWork),
    Copy(CUDA_MEMCPY3D, Context),
    Fill(CUDA_MEMSET_NODE_PARAMS, Context),
}

pub(crate) struct KernelWork {
    pub(crate) kernel: Arc<KernelInner>,
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: usize,
    pub(crate) attributes: Attributes,
    /// Each from the beginning of a word on.
    pub(crate) arguments: Vec<u64>,
    /// The word at which each argument begins.
    pub(crate) starts: Vec<usize>,
}

/// One use of a slot by a node.
#[derive(Clone, Debug)]
pub(crate) struct SlotUse {
    pub(crate) slot: Identity,
    pub(crate) target: Target,
    /// What the slot was made with.
    pub(crate) initial: Value,
}

/// What of a node a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The argument of this number.
    Argument(usize),
    Grid,
    Block,
    CopyTo,
    CopyFrom,
    Fill,
}

// SAFETY: the kernel, the contexts and the memory are `Send + Sync`; what the parameters of a copy
// and of a fill point to is only told to the driver.
unsafe impl Send for SlotWork {}
// SAFETY: as above, and nothing of it is changed.
unsafe impl Sync for SlotWork {}

// SAFETY: the handles are only compared, and given to driver calls by who has the graph for itself
// (O8).
unsafe impl Send for NodePlace {}
// SAFETY: as above, and nothing of it is changed.
unsafe impl Sync for NodePlace {}

impl SlotNode {
    /// Of a node that is about to be made.
    pub(crate) fn new(work: Arc<SlotWork>) -> Arc<SlotNode> {
        Arc::new(SlotNode { place: OnceLock::new(), work })
    }

    /// Of a node that there is.
    pub(crate) fn at(place: NodePlace, work: Arc<SlotWork>) -> Arc<SlotNode> {
        Arc::new(SlotNode { place: place.into(), work })
    }

    /// Says where the node is, if that is not known yet.
    pub(crate) fn set_place(&self, place: impl FnOnce() -> NodePlace) {
        self.place.get_or_init(place);
    }

    /// Says which node of a graph it is, if that is not known yet.
    pub(crate) fn name(&self, node: NodeId) {
        self.set_place(|| NodePlace::of(node));
    }

    /// None: the node was not made after all.
    pub(crate) fn place(&self) -> Option<&NodePlace> {
        self.place.get()
    }

    pub(crate) fn work(&self) -> &Arc<SlotWork> {
        &self.work
    }
}

impl NodePlace {
    /// That of a node of the graph itself.
    pub(crate) fn of(node: NodeId) -> NodePlace {
        let path = SmallVec::from_slice(&[node.as_raw()]);
        NodePlace { top: node, path, in_body: false }
    }

    /// That of a node whose graph is the body of a conditional node.
    pub(crate) fn in_body_of(&self, node: NodeId) -> NodePlace {
        let mut path = SmallVec::from_slice(&[node.as_raw()]);
        path.extend_from_slice(&self.path);
        NodePlace { top: node, path, in_body: true }
    }
}

impl Retain for SlotNode {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Slots
    }

    fn bytes(&self) -> usize {
        match &self.work.work {
            Work::Kernel(work) => size_of_val(&work.arguments[..]),
            Work::Copy(..) | Work::Fill(..) => 0,
        }
    }
}
