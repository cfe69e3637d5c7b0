//! Equality of topologies up to the order of their nodes.

use std::collections::HashMap;
use std::hash::Hash;

use petgraph::algo::is_isomorphic_matching;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::topology::{Topology, TopologyNode};

/// How often the colours are refined: enough for what programs make, and each round costs time.
const MAX_ROUNDS: usize = 16;

impl PartialEq for Topology {
    /// Whether both are equal up to the order of their nodes.
    fn eq(&self, other: &Topology) -> bool {
        self.is_equivalent(other)
    }
}

impl Eq for Topology {}

impl Topology {
    /// Whether the nodes can be paired with those of `other` so that the operations and all
    /// dependencies agree. It is what `==` means.
    pub fn is_equivalent(&self, other: &Topology) -> bool {
        self.is_equal(other, Compared::Operations)
    }

    /// Whether the nodes can be paired so that what is compared and all dependencies agree.
    pub(super) fn is_equal(&self, other: &Topology, compared: Compared) -> bool {
        if self.nodes.len() != other.nodes.len() || self.edges.len() != other.edges.len() {
            return false;
        }
        let same = |(ours, theirs): (&TopologyNode, &TopologyNode)| compared.are_same(ours, theirs);
        if self.edges == other.edges && self.nodes.iter().zip(&other.nodes).all(same) {
            return true;
        }
        let Some((ours, theirs)) = colours(self, other, compared) else { return false };
        match pairing(&ours, &theirs) {
            Pairing::None => false,
            Pairing::Only(partners) => self.agrees(other, &partners),
            Pairing::Several => {
                let (ours, theirs) = (self.coloured(&ours), other.coloured(&theirs));
                is_isomorphic_matching(&ours, &theirs, |a, b| a == b, |a, b| a == b)
            }
        }
    }

    /// Whether the dependencies agree when node `n` is paired with `partners[n]`.
    fn agrees(&self, other: &Topology, partners: &[usize]) -> bool {
        let mut edges: Vec<_> = self
            .edges
            .iter()
            // INVARIANT: there is a partner for every node, and edges name nodes.
            .map(|edge| (partners[edge.from], partners[edge.to], edge.programmatic))
            .collect();
        edges.sort_unstable();
        edges.into_iter().eq(other.edges.iter().map(|edge| (edge.from, edge.to, edge.programmatic)))
    }

    /// The neighbours of each node, those before or those behind it.
    pub(super) fn neighbours(&self, behind: bool) -> Vec<Vec<(usize, bool)>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            let (node, neighbour) =
                if behind { (edge.from, edge.to) } else { (edge.to, edge.from) };
            // INVARIANT: edges name nodes.
            neighbours[node].push((neighbour, edge.programmatic));
        }
        neighbours
    }

    /// The graph with a colour for each node, and for each pair of nodes the kinds of edges
    /// between them.
    fn coloured(&self, colours: &[usize]) -> DiGraph<usize, u8> {
        let mut graph = DiGraph::with_capacity(self.nodes.len(), self.edges.len());
        for colour in colours {
            graph.add_node(*colour);
        }
        let mut kinds: HashMap<(usize, usize), u8> = HashMap::new();
        for edge in &self.edges {
            *kinds.entry((edge.from, edge.to)).or_default() |= 1 << u8::from(edge.programmatic);
        }
        for ((from, to), kinds) in kinds {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), kinds);
        }
        graph
    }
}

/// What of the nodes counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// What they do.
    Operations,
    /// Also their labels and parameters.
    All,
}

impl Compared {
    /// Whether two nodes are the same to the letter, as far as it counts.
    fn are_same(self, ours: &TopologyNode, theirs: &TopologyNode) -> bool {
        let by_operation = ours.operation() == theirs.operation();
        match self {
            Compared::Operations => by_operation,
            // What is within an operation is compared by the operations there alone.
            Compared::All => ours.is_same(theirs) && ours.operation().inner().is_empty(),
        }
    }
}

/// What the colours say of how nodes can be paired.
enum Pairing {
    None,
    /// For each node its only partner.
    Only(Vec<usize>),
    /// Some colour is that of several nodes.
    Several,
}

fn pairing(ours: &[usize], theirs: &[usize]) -> Pairing {
    let sorted = |colours: &[usize]| {
        let mut nodes: Vec<_> = colours.iter().copied().zip(0..).collect();
        nodes.sort_unstable();
        nodes
    };
    let (ours, theirs): (Vec<(usize, usize)>, Vec<_>) = (sorted(ours), sorted(theirs));
    if !ours.iter().map(|(colour, _)| colour).eq(theirs.iter().map(|(colour, _)| colour)) {
        return Pairing::None;
    }
    if ours.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
        return Pairing::Several;
    }
    let mut partners = vec![0; ours.len()];
    for ((_, node), (_, partner)) in ours.into_iter().zip(theirs) {
        // INVARIANT: `ours` has each index of a node once.
        partners[node] = partner;
    }
    Pairing::Only(partners)
}

/// A number for each node of both, such that nodes that could be paired have the same one. None:
/// the operations alone tell that they cannot be equal.
fn colours(
    ours: &Topology,
    theirs: &Topology,
    compared: Compared,
) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut operations = Operations::new(compared);
    let mut colours = [ours, theirs].map(|topology| operations.of(topology));
    if !same_colours(&colours) {
        return None;
    }
    // In the order of the dependencies one pass tells each node all that comes before it, and
    // backwards all that comes behind.
    for behind in [false, true] {
        let mut numbers = Numbers::default();
        let neighbours = [ours, theirs].map(|topology| topology.neighbours(behind));
        for ((topology, colours), neighbours) in
            [ours, theirs].into_iter().zip(&mut colours).zip(&neighbours)
        {
            let mut order = topology.sorted();
            if behind {
                order.reverse();
            }
            for node in order {
                // INVARIANT: the order has the indices of the nodes.
                colours[node] = numbers.of(signature(node, colours, neighbours));
            }
        }
    }
    refine(ours, theirs, &mut colours);
    let [ours, theirs] = colours;
    Some((ours, theirs))
}

/// Tells nodes apart by the colours of their neighbours, until that tells no more of them apart.
fn refine(ours: &Topology, theirs: &Topology, colours: &mut [Vec<usize>; 2]) {
    let before = [ours, theirs].map(|topology| topology.neighbours(false));
    let behind = [ours, theirs].map(|topology| topology.neighbours(true));
    let mut classes = 0;
    for _ in 0..MAX_ROUNDS {
        let mut numbers = Numbers::default();
        for ((colours, before), behind) in colours.iter_mut().zip(&before).zip(&behind) {
            *colours = (0..colours.len())
                .map(|node| {
                    let (colour, before) = signature(node, colours, before);
                    let (_, behind) = signature(node, colours, behind);
                    numbers.of((colour, before, behind))
                })
                .collect();
        }
        if numbers.0.len() == classes || !same_colours(colours) {
            return;
        }
        classes = numbers.0.len();
    }
}

fn same_colours([ours, theirs]: &[Vec<usize>; 2]) -> bool {
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    ours.sort_unstable();
    theirs.sort_unstable();
    ours == theirs
}

/// The colour of a node and those of its neighbours, in an order that does not depend on theirs.
pub(super) fn signature(
    node: usize,
    colours: &[usize],
    neighbours: &[Vec<(usize, bool)>],
) -> (usize, Vec<(usize, bool)>) {
    // INVARIANT: there is a colour and a list for every node, and the lists name nodes.
    let mut around: Vec<_> =
        neighbours[node].iter().map(|(other, kind)| (colours[*other], *kind)).collect();
    around.sort_unstable();
    (colours[node], around)
}

/// Small numbers for values, the same for equal ones.
pub(super) struct Numbers<K>(HashMap<K, usize>);

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Numbers(HashMap::new())
    }
}

impl<K: Hash + Eq> Numbers<K> {
    pub(super) fn of(&mut self, key: K) -> usize {
        let next = self.0.len();
        *self.0.entry(key).or_insert(next)
    }
}

/// Small numbers for operations, the same for equal ones.
pub(super) struct Operations<'a> {
    compared: Compared,
    numbers: Numbers<(String, Vec<usize>)>,
    /// Inner graphs can be equal and written in a different order: they are compared in turn.
    inner: Vec<&'a Topology>,
}

impl<'a> Operations<'a> {
    pub(super) fn new(compared: Compared) -> Operations<'a> {
        Operations { compared, numbers: Numbers::default(), inner: Vec::new() }
    }

    pub(super) fn of(&mut self, topology: &'a Topology) -> Vec<usize> {
        topology.nodes.iter().map(|node| self.number(node)).collect()
    }

    fn number(&mut self, node: &'a TopologyNode) -> usize {
        let inner = node.operation().inner();
        let mut text = match inner.is_empty() {
            true => format!("{:?}", node.operation()),
            // It says the kind and the number of graphs, which follow.
            false => node.operation().to_string(),
        };
        if self.compared == Compared::All {
            text += &format!("{:?}{:?}", node.label(), node.parameters());
        }
        let inner = inner.into_iter().map(|(_, graph)| self.inner_number(graph)).collect();
        self.numbers.of((text, inner))
    }

    fn inner_number(&mut self, graph: &'a Topology) -> usize {
        let compared = self.compared;
        let known = self.inner.iter().position(|known| known.is_equal(graph, compared));
        known.unwrap_or_else(|| {
            self.inner.push(graph);
            self.inner.len() - 1
        })
    }
}
