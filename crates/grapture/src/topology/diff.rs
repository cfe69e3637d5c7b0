//! [`TopologyDiff`]: what makes two topologies differ, in words.

use std::fmt;

use crate::topology::equivalence::Compared;
use crate::topology::pairing::pairs;
use crate::topology::show::OneLine;
use crate::topology::{OperationSpec, Topology, TopologyEdge, TopologyNode};

/// What makes two topologies differ: [`Topology::diff`] gives it. It is shown as one line for each
/// change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyDiff {
    changes: Vec<TopologyChange>,
}

/// A change from one topology to another. Nodes are named by their index: in the first topology
/// where they were removed, in the second where they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyChange {
    /// A node is gone.
    NodeRemoved {
        /// Its index in the first topology.
        index: usize,
        /// The node.
        node: Box<TopologyNode>,
    },
    /// A node is new.
    NodeAdded {
        /// Its index in the second topology.
        index: usize,
        /// The node.
        node: Box<TopologyNode>,
    },
    /// A node is there in both and something of it changed.
    NodeChanged {
        /// Its index in the second topology.
        index: usize,
        /// What the node is, in the second topology.
        node: String,
        /// What of it changed, such as `grid` or `argument 0`.
        what: String,
        /// The value in the first topology; none if there was none.
        from: Option<String>,
        /// The value in the second topology; none if there is none.
        to: Option<String>,
    },
    /// Within a graph that a node runs something changed.
    Inner {
        /// The node's index in the second topology.
        index: usize,
        /// Which graph of the node, such as `child graph` or `body 1`.
        graph: String,
        /// What changed there.
        change: Box<TopologyChange>,
    },
    /// A node waits no longer for another. Both are there in both topologies.
    EdgeRemoved(TopologyEdge),
    /// A node waits for another. If both are there in both topologies, it did not before.
    EdgeAdded(TopologyEdge),
}

impl Topology {
    /// What changed from this topology to `other`. Nothing: they are equal by `==`, and so are the
    /// labels and parameters of the nodes; the lines that recorded them do not count.
    ///
    /// Nodes are paired by what they do and by their surroundings; where several would do, by their
    /// order. The same two topologies give the same answer. A dependency on a node that is gone, or
    /// that is new and stands between two others, is told like any other.
    ///
    /// ```
    /// use grapture::StreamCapture;
    ///
    /// let record = |blocks: u32| {
    ///     let mut plan = StreamCapture::new();
    ///     plan.record_kernel("scale", blocks, 256, 0)?;
    ///     plan.record_host();
    ///     Ok::<_, grapture::CudaError>(plan.end())
    /// };
    /// let diff = record(4)?.diff(&record(8)?);
    /// assert_eq!(diff.to_string(), "node 0 (kernel scale): grid from 4 x 1 x 1 to 8 x 1 x 1");
    /// assert!(record(4)?.diff(&record(4)?).is_empty());
    /// # Ok::<(), grapture::CudaError>(())
    /// ```
    pub fn diff(&self, other: &Topology) -> TopologyDiff {
        let mut changes = Vec::new();
        if self.is_equal(other, Compared::All) {
            return TopologyDiff { changes };
        }
        // For each node of the first its partner in the second.
        let partners = pairs(self, other);
        for (index, node) in self.nodes.iter().enumerate() {
            if partners.get(index).is_none_or(Option::is_none) {
                changes.push(TopologyChange::NodeRemoved { index, node: Box::new(node.clone()) });
            }
        }
        let mut sources = vec![None; other.nodes.len()];
        for (index, partner) in partners.iter().enumerate() {
            if let Some(source) = partner.and_then(|partner| sources.get_mut(partner)) {
                *source = self.nodes.get(index);
            }
        }
        for (index, (node, source)) in other.nodes.iter().zip(sources).enumerate() {
            match source {
                Some(source) => node_changes(index, source, node, &mut changes),
                None => {
                    changes.push(TopologyChange::NodeAdded { index, node: Box::new(node.clone()) })
                }
            }
        }
        self.edge_changes(other, &partners, &mut changes);
        TopologyDiff { changes }
    }

    fn edge_changes(
        &self,
        other: &Topology,
        partners: &[Option<usize>],
        changes: &mut Vec<TopologyChange>,
    ) {
        let partner = |node: usize| partners.get(node).copied().flatten();
        let mut kept: Vec<_> = self
            .edges
            .iter()
            .filter_map(|edge| {
                let (from, to) = (partner(edge.from())?, partner(edge.to())?);
                Some(TopologyEdge::new(from, to, edge.is_programmatic()))
            })
            .collect();
        kept.sort_unstable();
        let gone = kept.iter().filter(|edge| other.edges.binary_search(edge).is_err());
        changes.extend(gone.map(|edge| TopologyChange::EdgeRemoved(*edge)));
        let new = other.edges.iter().filter(|edge| kept.binary_search(edge).is_err());
        changes.extend(new.map(|edge| TopologyChange::EdgeAdded(*edge)));
    }
}

/// What changed of a node that is there in both.
fn node_changes(
    index: usize,
    old: &TopologyNode,
    new: &TopologyNode,
    changes: &mut Vec<TopologyChange>,
) {
    let name = new.operation().title();
    let mut changed = |what: &str, from: Option<String>, to: Option<String>| {
        if from != to {
            let (node, what) = (name.clone(), what.to_owned());
            changes.push(TopologyChange::NodeChanged { index, node, what, from, to });
        }
    };
    let (before, after) = (properties(old), properties(new));
    let value = |of: &[(String, String)], name: &str| {
        of.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    for (what, from) in &before {
        changed(what, Some(from.clone()), value(&after, what));
    }
    for (what, to) in &after {
        if value(&before, what).is_none() {
            changed(what, None, Some(to.clone()));
        }
    }
    let old_graphs = old.operation().inner();
    for (place, (graph, new)) in new.operation().inner().into_iter().enumerate() {
        let empty = Topology::default();
        let old = old_graphs.get(place).map_or(&empty, |(_, old)| *old);
        changes.extend(old.diff(new).changes.into_iter().map(|change| TopologyChange::Inner {
            index,
            graph: graph.clone(),
            change: Box::new(change),
        }));
    }
}

/// What can change of a node, by name.
fn properties(node: &TopologyNode) -> Vec<(String, String)> {
    let mut properties: Vec<(&str, String)> = match node.operation() {
        OperationSpec::Kernel { name, grid, block, shared_bytes } => vec![
            ("name", name.clone()),
            ("grid", grid.to_string()),
            ("block", block.to_string()),
            ("shared bytes", shared_bytes.to_string()),
        ],
        OperationSpec::Copy { direction, bytes } => {
            vec![("direction", direction.to_string()), ("bytes", bytes.to_string())]
        }
        OperationSpec::Fill { bytes, value, element_bytes } => vec![
            ("bytes", bytes.to_string()),
            ("value", format!("{value:#x}")),
            ("element bytes", element_bytes.to_string()),
        ],
        OperationSpec::Conditional { form, bodies } => {
            vec![("form", form.to_string()), ("bodies", bodies.len().to_string())]
        }
        OperationSpec::Allocation { bytes } => vec![("bytes", bytes.to_string())],
        OperationSpec::BatchMemOp { operations } => vec![("operations", operations.to_string())],
        OperationSpec::Other(kind) => vec![("kind", kind.clone())],
        _ => Vec::new(),
    };
    properties.extend(node.label().map(|label| ("label", label.to_owned())));
    let own = properties.into_iter().map(|(name, value)| (name.to_owned(), value));
    let parameters = node.parameters().iter();
    own.chain(parameters.map(|one| (one.name().to_owned(), one.value().to_owned()))).collect()
}

impl TopologyDiff {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes: nodes that are gone, nodes that are new or changed, then dependencies.
    pub fn changes(&self) -> &[TopologyChange] {
        &self.changes
    }
}

impl fmt::Display for TopologyDiff {
    /// One line for each change; `no change` if there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no change");
        }
        for (place, change) in self.changes.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            change.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for TopologyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyChange::NodeRemoved { index, node } => {
                write!(f, "node {index} of the first is gone: {node}")
            }
            TopologyChange::NodeAdded { index, node } => write!(f, "node {index} is new: {node}"),
            TopologyChange::NodeChanged { index, node, what, from, to } => {
                write!(f, "node {index} ({}): {} ", OneLine(node), OneLine(what))?;
                match (from, to) {
                    (Some(from), Some(to)) => {
                        write!(f, "from {} to {}", OneLine(from), OneLine(to))
                    }
                    (None, Some(to)) => write!(f, "is new: {}", OneLine(to)),
                    (Some(from), None) => write!(f, "is gone: it was {}", OneLine(from)),
                    (None, None) => Ok(()),
                }
            }
            TopologyChange::Inner { index, graph, change } => {
                write!(f, "in the {graph} of node {index}: {change}")
            }
            TopologyChange::EdgeRemoved(edge) => {
                write!(
                    f,
                    "node {} waits no longer for node {}{}",
                    edge.to(),
                    edge.from(),
                    end(edge)
                )
            }
            TopologyChange::EdgeAdded(edge) => {
                write!(f, "node {} waits for node {}{}", edge.to(), edge.from(), end(edge))
            }
        }
    }
}

/// What is waited for, unless it is the end.
fn end(edge: &TopologyEdge) -> &'static str {
    if edge.is_programmatic() { ", programmatically" } else { "" }
}
