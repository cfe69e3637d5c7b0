//! [`UpdateError`]: why an executable graph could not be updated.

use std::fmt;

use grapture_sys::{
    CU_GRAPH_EXEC_UPDATE_ERROR, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
    CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_NOT_SUPPORTED, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphNode,
};

use crate::error::{CudaError, write_code};
use crate::graph::{Graph, NodeId, NodeKind, NodeParams, Note};

/// An executable graph that could not be updated. It is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateError {
    code: u32,
    reason: UpdateReason,
    node: Option<Blamed>,
    from: Option<Blamed>,
}

/// A node that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Blamed {
    kind: NodeKind,
    /// The name of the kernel.
    kernel: Option<String>,
    /// Its name and its place in the graph. None: it is in a graph that the graph embeds.
    place: Option<(NodeId, usize)>,
}

impl UpdateError {
    pub(super) fn of(graph: &Graph, code: u32, info: &CUgraphExecUpdateResultInfo) -> UpdateError {
        UpdateError {
            code,
            reason: UpdateReason::of(info.result, code),
            node: Blamed::of(graph, info.errorNode),
            from: Blamed::of(graph, info.errorFromNode),
        }
    }

    /// Kernels have launch attributes that the driver would not change, and not say so.
    pub(super) fn of_attributes(graph: &Graph, node: Option<NodeId>) -> UpdateError {
        UpdateError {
            code: CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.0,
            reason: UpdateReason::AttributesChanged,
            node: node.and_then(|node| Blamed::of(graph, node.as_raw())),
            from: None,
        }
    }

    /// The slots of the graph cannot be found in the executable.
    pub(super) fn of_slots(reason: UpdateReason) -> UpdateError {
        let code = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.0;
        UpdateError { code, reason, node: None, from: None }
    }

    /// A node of the executable that did not take what it was given.
    pub(super) fn of_node(graph: &Graph, node: CUgraphNode, code: u32) -> UpdateError {
        let node = Blamed::of(graph, node);
        let reason = match node.as_ref().map(|node| node.kind) {
            _ if code == CUDA_ERROR_INVALID_CLUSTER_SIZE.0 => UpdateReason::AttributesChanged,
            Some(NodeKind::ChildGraph) if code == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.0 => {
                UpdateReason::TopologyChanged
            }
            Some(NodeKind::Memcpy | NodeKind::Memset | NodeKind::BatchMemOp) => {
                UpdateReason::ParametersChanged
            }
            _ => UpdateReason::of(CU_GRAPH_EXEC_UPDATE_ERROR, code),
        };
        UpdateError { code, reason, node, from: None }
    }

    /// Whether the graph does not fit, and not the call or the driver's state.
    pub(super) fn is_of_the_graph(&self) -> bool {
        [CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.0, CUDA_ERROR_NOT_SUPPORTED.0].contains(&self.code)
    }

    /// The driver's code.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The reason.
    pub fn reason(&self) -> UpdateReason {
        self.reason
    }

    /// The node at fault, where there is one: a node of the graph that was to be taken.
    pub fn node(&self) -> Option<NodeId> {
        self.node.as_ref()?.place.map(|(id, _)| id)
    }

    /// The node that it depends on and should not, where that is what is wrong.
    pub fn from_node(&self) -> Option<NodeId> {
        self.from.as_ref()?.place.map(|(id, _)| id)
    }
}

impl Blamed {
    fn of(graph: &Graph, raw: CUgraphNode) -> Option<Blamed> {
        if raw.is_null() {
            return None;
        }
        let kind = graph.kind(raw).unwrap_or(NodeKind::Other(u32::MAX));
        let kernel = match graph.reader().params(raw, &Note::default()) {
            Ok(NodeParams::Kernel { name, .. }) => Some(name),
            _ => None,
        };
        let nodes = graph.nodes().unwrap_or_default();
        let index = nodes.iter().position(|node| node.id().as_raw() == raw);
        Some(Blamed { kind, kernel, place: index.map(|index| (graph.id(raw), index)) })
    }
}

impl fmt::Display for Blamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((_, index)) => write!(f, "node {index} of the graph, a {}", self.kind)?,
            None => write!(f, "a {} of a graph that the graph embeds", self.kind)?,
        }
        match &self.kernel {
            Some(name) => write!(f, " `{name}`"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the executable graph could not be updated: ")?;
        write_code(f, self.code)?;
        write!(f, "; {}", self.reason)?;
        if let Some(node) = &self.node {
            write!(f, "; at fault is {node}")?;
        }
        if let Some(from) = &self.from {
            write!(f, "; it depends on {from}")?;
        }
        f.write_str("; it is as it was: instantiate the graph, or update without `strict`")
    }
}

impl std::error::Error for UpdateError {}

impl From<UpdateError> for CudaError {
    fn from(error: UpdateError) -> CudaError {
        CudaError::Update(Box::new(error))
    }
}

/// Why an executable graph cannot be updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UpdateReason {
    /// A reason that has no name of its own.
    Error,
    /// The graph has other nodes or other dependencies, or the same in another order.
    TopologyChanged,
    /// A node is of another kind.
    NodeTypeChanged,
    /// A kernel node has another kernel: a driver before 11.2 cannot change it.
    FunctionChanged,
    /// Parameters are different that cannot be changed: the shape of a copy or a fill, the kind of
    /// the memory, the device.
    ParametersChanged,
    /// Something about the node, or the driver is older than 10.2.
    NotSupported,
    /// The kernel is of another context, or uses the device's own launches where the old one did
    /// not.
    UnsupportedFunctionChange,
    /// A kernel has other launch attributes, such as another cluster.
    AttributesChanged,
    /// The graph has slots, and it is not known which nodes of the executable use them: that was made
    /// of a graph without, which it did not keep, or another node is of the same kind, comes after
    /// the same nodes and before the same, so that the driver may take one for the other.
    Slots,
    /// A reason that this version of the library does not know.
    Other(u32),
}

impl UpdateReason {
    fn of(result: CUgraphExecUpdateResult, code: u32) -> UpdateReason {
        match result {
            _ if code == CUDA_ERROR_NOT_SUPPORTED.0 => UpdateReason::NotSupported,
            CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED => UpdateReason::TopologyChanged,
            CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED => UpdateReason::NodeTypeChanged,
            CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED => UpdateReason::FunctionChanged,
            CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED => UpdateReason::ParametersChanged,
            CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED => UpdateReason::NotSupported,
            CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE => {
                UpdateReason::UnsupportedFunctionChange
            }
            CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED => UpdateReason::AttributesChanged,
            CU_GRAPH_EXEC_UPDATE_ERROR => UpdateReason::Error,
            other if other.0 > CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED.0 => {
                UpdateReason::Other(other.0)
            }
            _ => UpdateReason::Error,
        }
    }
}

impl fmt::Display for UpdateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpdateReason::Error => "the driver names no reason",
            UpdateReason::TopologyChanged => {
                "the graph has other nodes or dependencies, or the same in another order"
            }
            UpdateReason::NodeTypeChanged => "a node is of another kind",
            UpdateReason::FunctionChanged => "a kernel node has another kernel",
            UpdateReason::ParametersChanged => {
                "parameters changed that are fixed, such as the shape of a copy"
            }
            UpdateReason::NotSupported => "the driver cannot update such a node or graph",
            UpdateReason::UnsupportedFunctionChange => {
                "a kernel is of another context, or launches kernels itself"
            }
            UpdateReason::AttributesChanged => "a kernel has other launch attributes",
            UpdateReason::Slots => {
                "the graph has slots, and it is not known which nodes of the executable use them"
            }
            UpdateReason::Other(number) => return write!(f, "reason {number}"),
        })
    }
}
