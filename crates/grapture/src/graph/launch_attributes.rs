//! [`LaunchAttributes`]: what of the kernels of a graph an update leaves as it is, and does not say
//! so.

use std::collections::HashMap;

use grapture_sys::{
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_DEFAULT,
    CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue, Function,
};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::read::Reader;
use crate::graph::{Graph, NodeId, NodeKind};
use crate::kernel::required_cluster;

/// The attributes that an update takes at times, when another parameter of the kernel has changed
/// as well, and else leaves as they were (measured for the cluster, which can be seen).
const IDS: [CUlaunchAttributeID; 7] = [
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
];

/// The values of one kernel, in the order of `IDS`; zeros for what the driver does not tell. Then
/// the cluster that it is compiled for, which is no attribute of the node: an update to a kernel
/// that is compiled for none leaves it (measured).
type Values = ([[u8; size_of::<CUlaunchAttributeValue>()]; IDS.len()], [i32; 3]);

/// The attributes of a graph's kernels.
#[derive(Clone, Debug)]
pub(super) enum LaunchAttributes {
    /// Nobody has set one.
    Plain,
    Known(Box<Known>),
    /// They cannot be read.
    Unknown,
    /// They are read when they are asked for, from the graph that the executable keeps.
    Unread,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The values that there are, each once.
    distinct: Vec<Values>,
    /// Which of them each node has, and none for what is no kernel. Nodes of embedded graphs come
    /// after those of the graph.
    nodes: Vec<Option<usize>>,
    /// What each node depends on, in order: how the driver pairs the nodes of two graphs. Empty if
    /// all kernels have the same values, so that it does not matter.
    dependencies: Vec<Vec<usize>>,
}

impl LaunchAttributes {
    /// Those of a graph. Reads nothing as long as nobody can have set one: neither by this library
    /// nor, by a raw handle, in another way.
    pub(super) fn of(graph: &Graph) -> CudaResult<LaunchAttributes> {
        let can_be_set = graph.context.driver().has(Function::cuGraphKernelNodeGetAttribute);
        if !can_be_set || !graph.context.may_have_attributes() {
            return Ok(LaunchAttributes::Plain);
        }
        let mut known = Known::default();
        Ok(match known.read(&graph.reader())? {
            true => LaunchAttributes::Known(Box::new(known)),
            false => LaunchAttributes::Unknown,
        })
    }

    /// Whether an update from a graph with these leaves the kernels with the right ones.
    pub(super) fn fits(&self, new: &LaunchAttributes) -> bool {
        match (self, new) {
            (LaunchAttributes::Plain, LaunchAttributes::Plain) => true,
            (LaunchAttributes::Plain, LaunchAttributes::Known(known))
            | (LaunchAttributes::Known(known), LaunchAttributes::Plain) => known.is_plain(),
            (LaunchAttributes::Known(old), LaunchAttributes::Known(new)) => {
                let uniform = old.distinct.len() <= 1;
                if uniform { old.distinct == new.distinct } else { old == new }
            }
            _ => false,
        }
    }

    /// The first node of the graph, which has these, that has others than its like has here.
    pub(super) fn first_other(&self, new: &LaunchAttributes, graph: &Graph) -> Option<NodeId> {
        let nodes = graph.nodes().ok()?;
        let of = |known: &Known, index: usize| {
            let which = known.nodes.get(index).copied().flatten();
            which.and_then(|which| known.distinct.get(which).copied())
        };
        let kernels = nodes.iter().enumerate().filter(|(_, node)| node.kind() == NodeKind::Kernel);
        for (index, node) in kernels {
            let values = |attributes: &LaunchAttributes| match attributes {
                LaunchAttributes::Known(known) => of(known, index),
                _ => Some(plain()),
            };
            if values(self) != values(new) {
                return Some(node.id());
            }
        }
        None
    }
}

impl Known {
    /// Reads those of a graph, and of the graphs that it embeds. False: a part of it cannot be read.
    fn read(&mut self, graph: &Reader<'_>) -> CudaResult<bool> {
        let readable = self.read_nodes(graph)?;
        if readable && self.distinct.len() > 1 {
            self.read_dependencies(graph, 0)?;
        }
        Ok(readable)
    }

    fn read_nodes(&mut self, graph: &Reader<'_>) -> CudaResult<bool> {
        let mut embedding = Vec::new();
        for node in graph.nodes()? {
            let which = match graph.kind(node)? {
                NodeKind::Kernel => Some(self.place(values(graph, node)?)),
                // The bodies of conditional nodes are not told.
                NodeKind::Conditional => return Ok(false),
                NodeKind::ChildGraph => {
                    embedding.push(node);
                    None
                }
                _ => None,
            };
            self.nodes.push(which);
        }
        for node in embedding {
            if !self.read_nodes(&graph.child(node)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives how many nodes there are.
    fn read_dependencies(&mut self, graph: &Reader<'_>, first: usize) -> CudaResult<usize> {
        let nodes = graph.nodes()?;
        let place: HashMap<_, _> =
            nodes.iter().enumerate().map(|(index, node)| (*node, first + index)).collect();
        for node in &nodes {
            let before = graph.dependencies(*node)?;
            let before = before.iter().filter_map(|node| place.get(node).copied());
            self.dependencies.push(before.collect());
        }
        let mut next = first + nodes.len();
        for node in &nodes {
            if graph.kind(*node)? == NodeKind::ChildGraph {
                next = self.read_dependencies(&graph.child(*node)?, next)?;
            }
        }
        Ok(next)
    }

    /// The place of values among those that there are, the last ones first.
    fn place(&mut self, values: Values) -> usize {
        match self.distinct.iter().rposition(|known| *known == values) {
            Some(place) => place,
            None => {
                self.distinct.push(values);
                self.distinct.len() - 1
            }
        }
    }

    fn is_plain(&self) -> bool {
        self.distinct.iter().all(|values| *values == plain())
    }
}

/// The values of a kernel of which nobody has set one.
fn plain() -> Values {
    ([[0; size_of::<CUlaunchAttributeValue>()]; IDS.len()], [0; 3])
}

/// Whether a value is what a kernel has of which nobody has set it: a node that was captured can
/// tell others than one that was made.
fn is_as_unset(id: CUlaunchAttributeID, value: &[u8]) -> bool {
    let starts_with = |words: &[i32]| {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        bytes.zip(value).all(|(one, other)| one == *other)
    };
    match id {
        // A cluster of one block.
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => starts_with(&[1, 1, 1]),
        // Each domain stands for itself.
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => value.starts_with(&[0, 1]),
        CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
            starts_with(&[CU_SHAREDMEM_CARVEOUT_DEFAULT.0])
        }
        _ => false,
    }
}

/// The values of a kernel node.
fn values(graph: &Reader<'_>, node: CUgraphNode) -> CudaResult<Values> {
    let (mut attributes, _) = plain();
    for (bytes, id) in attributes.iter_mut().zip(IDS) {
        let mut value = CUlaunchAttributeValue { pad: [0; size_of::<CUlaunchAttributeValue>()] };
        // SAFETY: a kernel node of a live graph, and a live out-pointer.
        let asked = check(unsafe {
            (graph.functions().cuGraphKernelNodeGetAttribute)(node, id, &mut value)
        });
        match asked {
            // SAFETY: every byte was set above, and at most written over by the driver.
            Ok(()) => *bytes = unsafe { value.pad }.map(|byte| byte as u8),
            // An attribute that the driver does not know, or that no node has.
            Err(CudaError::InvalidValue | CudaError::NotSupported) => {}
            Err(error) => return Err(error),
        }
        if is_as_unset(id, bytes) {
            *bytes = [0; size_of::<CUlaunchAttributeValue>()];
        }
    }
    Ok((attributes, required_cluster(graph.context, graph.raw_kernel(node)?.func)?))
}
