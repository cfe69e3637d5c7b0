//! [`GraphDef`]: nodes in the order they were made, and the edges between them.
//!
//! A definition knows its nodes by [`LocalId`] alone, so that a copy of it is the same graph with
//! the same numbers; the handles of a program are kept beside it.

use std::collections::{BTreeMap, HashMap, HashSet};

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUresult};

use super::edge::{Edge, EdgeData};
use super::params::NodeParams;

/// The number of a node inside its graph, counted in the order of making and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LocalId(pub(crate) u32);

/// A node: what it does, and its edges both ways.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What it does.
    pub(crate) params: NodeParams,
    dependencies: Vec<Edge>,
    dependents: Vec<Edge>,
}

impl Node {
    /// The edges that lead here, in the order they were given.
    pub(crate) fn dependencies(&self) -> &[Edge] {
        &self.dependencies
    }

    /// The edges that leave here, in the order they were given.
    pub(crate) fn dependents(&self) -> &[Edge] {
        &self.dependents
    }

    /// Takes away the edge to a node; the last one comes into its place.
    fn forget_dependent(&mut self, node: LocalId) {
        if let Some(place) = self.dependents.iter().position(|edge| edge.node == node) {
            self.dependents.swap_remove(place);
        }
    }
}

/// An edge with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FullEdge {
    /// The node that comes first.
    pub(crate) from: LocalId,
    /// The node that waits for it.
    pub(crate) to: LocalId,
    /// What the edge carries.
    pub(crate) data: EdgeData,
}

/// The definition of a graph. It may hold a cycle: only instantiation looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphDef {
    nodes: BTreeMap<LocalId, Node>,
    next: LocalId,
}

impl GraphDef {
    /// The nodes in the order they were made.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = (LocalId, &Node)> {
        self.nodes.iter().map(|(key, node)| (*key, node))
    }

    /// The node with this key.
    pub(crate) fn node(&self, key: LocalId) -> Result<&Node, CUresult> {
        self.nodes.get(&key).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// The parameters of a node, to be replaced by ones of the same kind.
    pub(crate) fn params_mut(&mut self, key: LocalId) -> Result<&mut NodeParams, CUresult> {
        self.nodes.get_mut(&key).map(|node| &mut node.params).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// The nodes without dependencies, in the order they were made.
    pub(crate) fn roots(&self) -> impl Iterator<Item = LocalId> {
        self.nodes().filter(|(_, node)| node.dependencies.is_empty()).map(|(key, _)| key)
    }

    /// All edges: by the earlier node in the order of making, then in the order they were added.
    pub(crate) fn edges(&self) -> impl Iterator<Item = FullEdge> {
        self.nodes().flat_map(|(from, node)| {
            node.dependents.iter().map(move |edge| FullEdge {
                from,
                to: edge.node,
                data: edge.data,
            })
        })
    }

    /// Whether a node allocates or frees: nodes and edges of such a graph cannot be taken away.
    pub(crate) fn has_memory_nodes(&self) -> bool {
        self.nodes.values().any(|node| node.params.is_memory())
    }

    /// The number that the next node will have.
    pub(crate) fn next_id(&self) -> LocalId {
        self.next
    }

    /// Adds a node after the given dependencies.
    pub(crate) fn add_node(
        &mut self,
        params: NodeParams,
        dependencies: &[Edge],
    ) -> Result<LocalId, CUresult> {
        self.check_dependencies(dependencies, params.is_kernel())?;
        let id = self.next;
        self.next = LocalId(id.0.checked_add(1).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?);
        for edge in dependencies {
            if let Some(from) = self.nodes.get_mut(&edge.node) {
                from.dependents.push(Edge { node: id, data: edge.data });
            }
        }
        let dependencies = dependencies.to_vec();
        self.nodes.insert(id, Node { params, dependencies, dependents: Vec::new() });
        Ok(id)
    }

    /// Refuses a dependency list with a foreign node, a node named twice or an edge that does not
    /// fit its nodes.
    pub(crate) fn check_dependencies(
        &self,
        dependencies: &[Edge],
        to_kernel: bool,
    ) -> Result<(), CUresult> {
        let mut seen = HashSet::with_capacity(dependencies.len());
        for edge in dependencies {
            edge.data.check_ends(self.node(edge.node)?.params.is_kernel(), to_kernel)?;
            if !seen.insert(edge.node) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Refuses edges whose sources have not what they ask for; where they lead is open yet.
    pub(crate) fn check_sources(&self, edges: &[Edge]) -> Result<(), CUresult> {
        let check =
            |edge: &Edge| edge.data.check_ends(self.node(edge.node)?.params.is_kernel(), true);
        edges.iter().try_for_each(check)
    }

    /// Adds edges between nodes that are there, up to the first that is there already.
    pub(crate) fn add_edges(&mut self, edges: &[FullEdge]) -> Result<(), CUresult> {
        for edge in edges {
            let (from, to) = (self.node(edge.from)?, self.node(edge.to)?);
            edge.data.check_ends(from.params.is_kernel(), to.params.is_kernel())?;
            if edge.from == edge.to {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
        }
        for edge in edges {
            if self.has_edge(edge) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            if let Some(from) = self.nodes.get_mut(&edge.from) {
                from.dependents.push(Edge { node: edge.to, data: edge.data });
            }
            if let Some(to) = self.nodes.get_mut(&edge.to) {
                to.dependencies.push(Edge { node: edge.from, data: edge.data });
            }
        }
        Ok(())
    }

    fn has_edge(&self, edge: &FullEdge) -> bool {
        let dependencies = self.nodes.get(&edge.to).map_or(&[][..], Node::dependencies);
        dependencies.iter().any(|there| there.node == edge.from)
    }

    /// Takes edges away, up to the first that is not there, whatever they carry.
    pub(crate) fn remove_edges(&mut self, edges: &[FullEdge]) -> Result<(), CUresult> {
        for edge in edges {
            if !self.has_edge(edge) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            if let Some(from) = self.nodes.get_mut(&edge.from) {
                from.forget_dependent(edge.to);
            }
            if let Some(to) = self.nodes.get_mut(&edge.to) {
                to.dependencies.retain(|there| there.node != edge.from);
            }
        }
        Ok(())
    }

    /// A copy, in which each node is made again with its dependencies: the nodes that depend on one
    /// are in the order of their making.
    pub(crate) fn copied(&self) -> GraphDef {
        let mut copy = self.clone();
        for node in copy.nodes.values_mut() {
            node.dependents.sort_by_key(|edge| edge.node);
        }
        copy
    }

    /// Takes a node away with its edges; gives its parameters back.
    pub(crate) fn remove_node(&mut self, key: LocalId) -> Result<NodeParams, CUresult> {
        let node = self.nodes.remove(&key).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        for edge in &node.dependencies {
            if let Some(from) = self.nodes.get_mut(&edge.node) {
                from.forget_dependent(key);
            }
        }
        for edge in &node.dependents {
            if let Some(to) = self.nodes.get_mut(&edge.node) {
                to.dependencies.retain(|there| there.node != key);
            }
        }
        Ok(node.params)
    }

    /// Every node after all its dependencies, earlier-made nodes first among equals; or, if there is
    /// a cycle, a node of it.
    pub(crate) fn topological_order(&self) -> Result<Vec<LocalId>, LocalId> {
        let mut missing: HashMap<LocalId, usize> =
            self.nodes().map(|(key, node)| (key, node.dependencies.len())).collect();
        let mut ready: std::collections::BTreeSet<LocalId> = self.roots().collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(key) = ready.pop_first() {
            order.push(key);
            missing.remove(&key);
            for edge in self.nodes.get(&key).map_or(&[][..], Node::dependents) {
                if let Some(count) = missing.get_mut(&edge.node) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert(edge.node);
                    }
                }
            }
        }
        let of_cycle = if missing.is_empty() { None } else { self.node_of_cycle() };
        of_cycle.map_or(Ok(order), Err)
    }

    /// A node on a cycle, if there is one: the first that a walk comes back to, which goes backwards
    /// from the nodes that nothing depends on.
    fn node_of_cycle(&self) -> Option<LocalId> {
        let ends = self.nodes().filter(|(_, node)| node.dependents.is_empty());
        let starts = ends.chain(self.nodes()).map(|(key, _)| key);
        let mut done = HashSet::new();
        for start in starts {
            if done.contains(&start) {
                continue;
            }
            // The way to a node, each with how many of its dependencies were looked at.
            let mut path = vec![(start, 0)];
            while let Some((key, looked)) = path.last_mut() {
                let key = *key;
                let next = self.nodes.get(&key).and_then(|node| node.dependencies.get(*looked));
                *looked += 1;
                match next.map(|edge| edge.node) {
                    Some(node) if path.iter().any(|(on, _)| *on == node) => return Some(node),
                    Some(node) if !done.contains(&node) => path.push((node, 0)),
                    Some(_) => {}
                    None => {
                        done.insert(key);
                        path.pop();
                    }
                }
            }
        }
        None
    }

    /// The given nodes and all that they depend on, whatever the edges carry.
    pub(crate) fn ancestors(&self, of: impl IntoIterator<Item = LocalId>) -> HashSet<LocalId> {
        let mut found = HashSet::new();
        let mut open: Vec<LocalId> = of.into_iter().collect();
        while let Some(key) = open.pop() {
            if found.insert(key) {
                let edges = self.nodes.get(&key).map_or(&[][..], Node::dependencies);
                open.extend(edges.iter().map(|edge| edge.node));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(len: usize) -> (GraphDef, Vec<LocalId>) {
        let mut graph = GraphDef::default();
        let mut keys: Vec<LocalId> = Vec::new();
        for _ in 0..len {
            let after: Vec<Edge> = keys.last().map(|last| Edge::full(*last)).into_iter().collect();
            keys.push(graph.add_node(NodeParams::Empty, &after).expect("a node"));
        }
        (graph, keys)
    }

    fn edge(from: LocalId, to: LocalId) -> FullEdge {
        FullEdge { from, to, data: EdgeData::default() }
    }

    #[test]
    fn bad_edges_change_nothing_and_what_is_there_or_missing_ends_a_change() {
        let (mut graph, keys) = chain(3);
        let before: Vec<FullEdge> = graph.edges().collect();
        let [a, b, c] = keys[..] else { panic!("three nodes") };
        for bad in [edge(c, c), edge(a, LocalId(99))] {
            assert_eq!(graph.add_edges(&[edge(a, c), bad]), Err(CUDA_ERROR_INVALID_VALUE));
        }
        assert_eq!(graph.edges().collect::<Vec<_>>(), before);
        assert_eq!(graph.add_edges(&[edge(a, c), edge(a, b)]), Err(CUDA_ERROR_INVALID_VALUE));
        assert_eq!(graph.edges().count(), 3);
        assert_eq!(graph.remove_edges(&[edge(a, c), edge(c, a)]), Err(CUDA_ERROR_INVALID_VALUE));
        assert_eq!(graph.edges().collect::<Vec<_>>(), before);
    }

    #[test]
    fn a_cycle_is_accepted_and_found_later() {
        let (mut graph, keys) = chain(4);
        assert_eq!(graph.topological_order(), Ok(keys.clone()));
        graph.add_edges(&[edge(keys[2], keys[1])]).expect("edges that close a cycle are accepted");
        let on_cycle = graph.topological_order().expect_err("a cycle");
        assert!(on_cycle == keys[1] || on_cycle == keys[2]);
        graph.remove_edges(&[edge(keys[2], keys[1])]).expect("the edge is there");
        assert_eq!(graph.topological_order(), Ok(keys));
    }

    #[test]
    fn removing_a_node_removes_its_edges() {
        let (mut graph, keys) = chain(3);
        graph.remove_node(keys[1]).expect("a node");
        assert_eq!(graph.edges().count(), 0);
        assert_eq!(graph.roots().collect::<Vec<_>>(), vec![keys[0], keys[2]]);
        assert!(graph.remove_node(keys[1]).is_err());
    }

    #[test]
    fn a_dependency_named_twice_is_refused() {
        let (mut graph, keys) = chain(1);
        let twice = [Edge::full(keys[0]), Edge::full(keys[0])];
        let result = graph.add_node(NodeParams::Empty, &twice);
        assert_eq!(result, Err(CUDA_ERROR_INVALID_VALUE));
        assert_eq!(graph.nodes().len(), 1);
    }

    #[test]
    fn ancestors_are_what_lies_before() {
        let (graph, keys) = chain(3);
        assert_eq!(graph.ancestors([keys[1]]).len(), 2);
        assert!(!graph.ancestors([keys[1]]).contains(&keys[2]));
    }
}
