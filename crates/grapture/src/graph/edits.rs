//! [`Edits`]: what was changed in a graph since an executable was made of it.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::context::Context;
use crate::graph::NodeId;

/// How many changes of parameters are remembered: an executable that is further behind takes the
/// whole graph.
const REMEMBERED: usize = 1024;

/// The changes of a graph, so that an executable made of it can follow them alone.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// None as long as nothing was changed.
    changes: Option<Box<Changes>>,
    /// Where the nodes run that run in another context than the graph's: of copies and fills the
    /// driver does not tell it.
    places: Option<Box<Places>>,
    /// Whether others have the raw handle, and may change what they like.
    exposed: Cell<bool>,
}

#[derive(Debug, Default)]
struct Changes {
    /// How many there were.
    revision: u64,
    /// The last change of something else than the parameters of one node, or that is forgotten.
    whole: u64,
    /// The nodes whose parameters changed later, each with the number of the change.
    nodes: Vec<(u64, NodeId)>,
}

/// In a box of its own: hardly a graph has any.
#[derive(Debug, Default)]
struct Places(HashMap<NodeId, Context>);

impl Edits {
    /// Notes that the parameters of a node changed.
    pub(super) fn node(&mut self, node: NodeId) {
        let changes = self.change();
        if changes.nodes.len() >= REMEMBERED {
            changes.whole = changes.revision - 1;
            changes.nodes.clear();
        }
        changes.nodes.push((changes.revision, node));
    }

    /// Forgets changes of nodes that are no more: another change stands for them.
    pub(super) fn forget(&mut self, gone: impl Fn(NodeId) -> bool) {
        if let Some(changes) = &mut self.changes {
            changes.nodes.retain(|(_, node)| !gone(*node));
        }
        if let Some(places) = &mut self.places {
            places.0.retain(|node, _| !gone(*node));
        }
    }

    /// Notes where a node runs. None: in the context of the graph.
    pub(super) fn place(&mut self, node: NodeId, context: Option<&Context>) {
        match (context, &mut self.places) {
            (Some(context), places) => {
                places.get_or_insert_default().0.insert(node, context.clone());
            }
            (None, Some(places)) => drop(places.0.remove(&node)),
            (None, None) => {}
        }
    }

    /// Where a node runs that was made or changed by hand, if that is not the graph's context.
    pub(super) fn place_of(&self, node: NodeId) -> Option<&Context> {
        self.places.as_ref()?.0.get(&node)
    }

    /// Notes that something else changed: nodes, dependencies, attributes.
    pub(super) fn shape(&mut self) {
        let changes = self.change();
        changes.whole = changes.revision;
        changes.nodes.clear();
    }

    fn change(&mut self) -> &mut Changes {
        let changes = self.changes.get_or_insert_default();
        changes.revision += 1;
        changes
    }

    /// Whether nothing was changed, and nobody else can change it.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_none() && self.places.is_none() && !self.exposed.get()
    }

    pub(super) fn expose(&self) {
        self.exposed.set(true);
    }

    #[inline]
    pub(super) fn revision(&self) -> u64 {
        self.changes.as_ref().map_or(0, |changes| changes.revision)
    }

    /// The nodes whose parameters have changed since a revision, each once. None: more has, or may
    /// have.
    pub(super) fn since(&self, revision: u64) -> Option<Vec<NodeId>> {
        if self.exposed.get() {
            return None;
        }
        let Some(changes) = &self.changes else { return Some(Vec::new()) };
        if changes.whole > revision {
            return None;
        }
        let first = changes.nodes.partition_point(|(number, _)| *number <= revision);
        let mut seen = HashSet::new();
        let later = changes.nodes.get(first..).unwrap_or_default().iter().map(|(_, node)| *node);
        Some(later.filter(|node| seen.insert(*node)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Edits, REMEMBERED};
    use crate::graph::{GraphKey, NodeNames};

    #[test]
    fn changes_are_known_since_each_revision_until_they_are_forgotten() {
        let names = NodeNames::of(GraphKey::new());
        let id = |number| names.id(std::ptr::without_provenance_mut(number));
        let mut edits = Edits::default();
        edits.shape();
        let start = edits.revision();
        assert_eq!(edits.since(start), Some(vec![]));
        edits.node(id(1));
        let later = edits.revision();
        edits.node(id(2));
        edits.node(id(1));
        assert_eq!(edits.since(start), Some(vec![id(1), id(2)]));
        assert_eq!(edits.since(later), Some(vec![id(2), id(1)]));
        edits.shape();
        assert_eq!(edits.since(later), None);
        let start = edits.revision();
        for _ in 0..REMEMBERED {
            edits.node(id(3));
        }
        assert_eq!(edits.since(start), Some(vec![id(3)]));
        edits.node(id(4));
        assert_eq!(edits.since(start), None);
        assert_eq!(edits.since(edits.revision() - 1), Some(vec![id(4)]));
        edits.expose();
        assert_eq!(edits.since(edits.revision()), None);
    }
}
