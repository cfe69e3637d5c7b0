//! [`Built`]: what a graph needs only if it was built by hand.

use std::collections::HashMap;
use std::panic::Location;

use crate::graph::notes::{Note, Notes};
use crate::graph::{Condition, Graph, GraphKey, NodeId};

/// What a graph has because nodes were added, changed or labelled by hand.
#[derive(Default)]
pub(super) struct Built {
    /// The outermost graph that it is in, if it is the body of a conditional node.
    pub(super) body_of: Option<GraphKey>,
    /// Conditions that the next conditional node by a word takes.
    pub(super) spare: Vec<Condition>,
    /// Whether a conditional node of it is not whole.
    pub(super) incomplete: bool,
    /// Whether nodes get the dependencies that are named and no others, while it is loaded.
    pub(super) exact: bool,
    /// What is known of the nodes.
    pub(super) notes: Notes,
    /// If it is a copy that the library made: for each node of the original its own.
    pub(super) copied: HashMap<NodeId, NodeId>,
}

impl Graph {
    pub(super) fn built(&mut self) -> &mut Built {
        self.built.get_or_insert_default()
    }

    /// Has nodes get the dependencies that are named and no others: those of the memory that they use
    /// are known to be among them.
    pub(super) fn order_exactly(&mut self, exact: bool) {
        self.built().exact = exact;
    }

    pub(super) fn is_ordered_exactly(&self) -> bool {
        self.built.as_ref().is_some_and(|built| built.exact)
    }

    /// Notes the line by which a node was added.
    pub(super) fn set_line(&mut self, node: NodeId, line: &'static Location<'static>) {
        self.built().notes.set(node, Note::at(line));
    }
}
