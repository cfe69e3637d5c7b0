//! What of a file can be checked before anything is made of it.

use std::collections::HashMap;

use crate::error::CudaResult;
use crate::graph::save::format::{
    Place, SavedEdge, SavedNodes, SavedOperation, SavedWord, refused,
};
use crate::topology::{OperationSpec, Topology, TopologyEdge, TopologyNode};

/// Refuses dependencies of nodes that there are not, given twice, or in a cycle.
pub(super) fn check_edges(saved: &SavedNodes) -> CudaResult<()> {
    let nodes = vec![TopologyNode::new(OperationSpec::Empty); saved.nodes.len()];
    let edges = saved.edges.iter().map(|edge| TopologyEdge::new(edge.from, edge.to, false));
    let topology = Topology::new(nodes, edges.collect())?;
    match topology.edges().len() == saved.edges.len() {
        true => Ok(()),
        false => Err(refused("it has a dependency twice".to_owned())),
    }
}

/// Refuses memory that a node does not use between the one that allocates it and the one that frees
/// it, in the order of the dependencies, which are of these nodes.
pub(super) fn check_lives(saved: &SavedNodes) -> CudaResult<()> {
    let (mut made, mut freed) = (HashMap::new(), HashMap::new());
    for (index, node) in saved.nodes.iter().enumerate() {
        let other = match node.operation {
            SavedOperation::Allocate(memory) => made.insert(memory, index),
            SavedOperation::Free(memory) => freed.insert(memory, index),
            _ => None,
        };
        if other.is_some() {
            return Err(refused(format!("node {index} allocates or frees memory a second time")));
        }
    }
    for (memory, start) in &made {
        let Some(end) = freed.get(memory) else {
            return Err(refused(format!("no node frees the memory that node {start} allocates")));
        };
        let (after, before) = (reached(saved, *start, false), reached(saved, *end, true));
        let outside = saved.nodes.iter().enumerate().find(|(index, node)| {
            let uses = index == end || places(&node.operation).any(|place| place == *memory);
            let within = |reached: &[bool]| reached.get(*index).copied().unwrap_or(false);
            uses && !(within(&after) && within(&before))
        });
        if let Some((index, _)) = outside {
            return Err(refused(format!(
                "node {index} uses memory before it is there or when it may be freed"
            )));
        }
    }
    Ok(())
}

/// Which nodes come after a node, itself included; or before it, `backwards`.
fn reached(saved: &SavedNodes, from: usize, backwards: bool) -> Vec<bool> {
    let is_full = |edge: &&SavedEdge| edge.kind == 0 && edge.from_port == 0;
    let mut next = vec![Vec::new(); saved.nodes.len()];
    for edge in saved.edges.iter().filter(is_full) {
        let (from, to) = if backwards { (edge.to, edge.from) } else { (edge.from, edge.to) };
        // INVARIANT: the edges are of these nodes.
        next[from].push(to);
    }
    let (mut reached, mut open) = (vec![false; saved.nodes.len()], vec![from]);
    while let Some(node) = open.pop() {
        // INVARIANT: as above.
        if !std::mem::replace(&mut reached[node], true) {
            open.extend(&next[node]);
        }
    }
    reached
}

/// The memory that an operation uses, by number.
fn places(operation: &SavedOperation) -> Box<dyn Iterator<Item = usize> + '_> {
    let of = |place: &Place| place.memory;
    match operation {
        SavedOperation::Kernel(kernel) => {
            let addresses = kernel.arguments.iter().flat_map(|argument| &argument.addresses);
            Box::new(addresses.map(move |address| of(&address.place)))
        }
        SavedOperation::Copy(copy) => Box::new([of(&copy.from), of(&copy.to)].into_iter()),
        SavedOperation::Fill(fill) => Box::new([of(&fill.to)].into_iter()),
        SavedOperation::Batch(words) => Box::new(words.iter().filter_map(move |word| match word {
            SavedWord::Barrier => None,
            SavedWord::Write32(word) => Some(of(&word.to)),
            SavedWord::Write64(word) => Some(of(&word.to)),
            SavedWord::Wait32(word) => Some(of(&word.word)),
            SavedWord::Wait64(word) => Some(of(&word.word)),
        })),
        SavedOperation::Steer(steer) => Box::new([of(&steer.word)].into_iter()),
        SavedOperation::Branch(branch) => Box::new(branch.word.iter().map(of)),
        SavedOperation::Empty
        | SavedOperation::Child(_)
        | SavedOperation::Host(_)
        | SavedOperation::EventRecord(_)
        | SavedOperation::EventWait(_)
        | SavedOperation::Allocate(_)
        | SavedOperation::Free(_) => Box::new(std::iter::empty()),
    }
}
