//! [`Topology`]: what a graph does and in which order, as plain data.

mod describe;
mod diff;
mod dot;
mod equivalence;
mod json;
mod mermaid;
pub(crate) mod names;
mod node;
mod pairing;
pub(crate) mod show;
mod spec;
mod text;

use grapture_sys::CUDA_ERROR_INVALID_VALUE;
use serde::{Deserialize, Serialize};

use crate::error::{CudaError, CudaResult};

pub use diff::{TopologyChange, TopologyDiff};
pub use node::{NodeParameter, SourceLine, TopologyNode};
pub use spec::{ConditionalForm, CopyDirection, OperationSpec};

/// What a graph does and in which order, as plain data: no handle, no address, no driver.
///
/// [`Graph::topology`](crate::Graph::topology) reads it from a graph, and
/// [`StreamCapture::end`](crate::StreamCapture::end) gives it for a plan, so that a test can say:
/// what was captured is what was planned.
///
/// Two of them are equal if they are **up to the order of the nodes**: if the nodes of one can be
/// paired with those of the other so that the operations and all dependencies agree. The answer is
/// exact. Labels, lines and [parameters](TopologyNode::parameters) do not count, since a plan has
/// none; [`diff`](Topology::diff) compares them too. It takes little time for what programs make (10,000 nodes in a chain: milliseconds);
/// only graphs of many nodes that nothing tells apart but the whole can take long.
///
/// ```
/// use grapture::{OperationSpec, Topology, TopologyEdge, TopologyNode};
///
/// let nodes = vec![TopologyNode::new(OperationSpec::Host), TopologyNode::new(OperationSpec::Empty)];
/// let one = Topology::new(nodes.clone(), vec![TopologyEdge::new(0, 1, false)])?;
/// let reversed = nodes.into_iter().rev().collect();
/// let other = Topology::new(reversed, vec![TopologyEdge::new(1, 0, false)])?;
/// assert_eq!(one, other);
/// # Ok::<(), grapture::CudaError>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Topology {
    nodes: Vec<TopologyNode>,
    /// In rising order, each once.
    edges: Vec<TopologyEdge>,
}

/// What a file says, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    nodes: Vec<TopologyNode>,
    edges: Vec<TopologyEdge>,
}

impl TryFrom<Unchecked> for Topology {
    type Error = CudaError;

    fn try_from(unchecked: Unchecked) -> CudaResult<Topology> {
        Topology::new(unchecked.nodes, unchecked.edges)
    }
}

/// A dependency of a [`Topology`]: node `to` waits for node `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyEdge {
    from: usize,
    to: usize,
    #[serde(default)]
    programmatic: bool,
}

impl TopologyEdge {
    /// Node `to` waits for node `from`; `programmatic`: it may begin while `from` still runs, and
    /// waits by itself.
    pub const fn new(from: usize, to: usize, programmatic: bool) -> TopologyEdge {
        TopologyEdge { from, to, programmatic }
    }

    /// The index of the node that goes first.
    pub const fn from(&self) -> usize {
        self.from
    }

    /// The index of the node that waits.
    pub const fn to(&self) -> usize {
        self.to
    }

    /// Whether `to` may begin while `from` still runs.
    pub const fn is_programmatic(&self) -> bool {
        self.programmatic
    }
}

impl Topology {
    /// A topology of these nodes and dependencies. An edge that is given twice counts once.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): an edge names a node that there is not, or the edges form
    /// a cycle.
    pub fn new(nodes: Vec<TopologyNode>, mut edges: Vec<TopologyEdge>) -> CudaResult<Topology> {
        for edge in &edges {
            let last = edge.from.max(edge.to);
            if last >= nodes.len() {
                return Err(refused(format!(
                    "{} -> {} names node {last}, and there are {} nodes, counted from 0",
                    edge.from,
                    edge.to,
                    nodes.len()
                )));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let topology = Topology { nodes, edges };
        match topology.on_a_cycle() {
            None => Ok(topology),
            Some(node) => {
                Err(refused(format!("they form a cycle, and node {node} waits for it or is on it")))
            }
        }
    }

    /// The nodes; an edge names them by their index.
    pub fn nodes(&self) -> &[TopologyNode] {
        &self.nodes
    }

    /// The dependencies, in rising order.
    pub fn edges(&self) -> &[TopologyEdge] {
        &self.edges
    }

    /// The nodes in an order in which each comes after those that it waits for. Fewer than all:
    /// there is a cycle.
    pub(crate) fn sorted(&self) -> Vec<usize> {
        let mut waits_for = vec![0usize; self.nodes.len()];
        for edge in &self.edges {
            // INVARIANT: `new` has checked both ends of every edge.
            waits_for[edge.to] += 1;
        }
        let mut order: Vec<usize> =
            (0..self.nodes.len()).filter(|node| waits_for[*node] == 0).collect();
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for edge in self.edges_from(node) {
                waits_for[edge.to] -= 1;
                if waits_for[edge.to] == 0 {
                    order.push(edge.to);
                }
            }
        }
        order
    }

    fn edges_from(&self, node: usize) -> &[TopologyEdge] {
        let start = self.edges.partition_point(|edge| edge.from < node);
        let end = self.edges.partition_point(|edge| edge.from <= node);
        self.edges.get(start..end).unwrap_or(&[])
    }

    fn on_a_cycle(&self) -> Option<usize> {
        let order = self.sorted();
        if order.len() == self.nodes.len() {
            return None;
        }
        let mut free = vec![false; self.nodes.len()];
        for node in order {
            // INVARIANT: the order has indices of nodes.
            free[node] = true;
        }
        free.iter().position(|free| !free)
    }
}

#[cold]
fn refused(problem: String) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "topology.edges", problem)
}
