//! Which nodes of a graph no other node can be taken for.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// How often the nodes around a node are looked at again.
const ROUNDS: usize = 3;

/// For each node whether it is told from all others by its kind, what it depends on and what depends
/// on it. An update pairs the nodes of two graphs of one form by that alone: nodes that are alike
/// may be taken for one another (measured).
pub(super) fn distinct_nodes(kinds: &[impl Hash], before: &[Vec<usize>]) -> Vec<bool> {
    let mut after = vec![Vec::new(); before.len()];
    for (node, before) in before.iter().enumerate() {
        for first in before {
            if let Some(after) = after.get_mut(*first) {
                after.push(node);
            }
        }
    }
    let (down, up) = (chained(kinds, before, &after), chained(kinds, &after, before));
    let mut colours: Vec<u64> = down.iter().zip(&up).map(hash).collect();
    for _ in 0..ROUNDS {
        let around = |nodes: &Vec<usize>| sorted(nodes, &colours);
        let seen = colours.iter().zip(before.iter().zip(&after));
        colours = seen.map(|(own, (one, other))| hash((own, around(one), around(other)))).collect();
    }
    let mut count = HashMap::new();
    colours.iter().for_each(|colour| *count.entry(*colour).or_insert(0) += 1);
    colours.iter().map(|colour| count.get(colour) == Some(&1)).collect()
}

/// A colour for each node by those of the nodes `before` it, from the first ones on.
fn chained(kinds: &[impl Hash], before: &[Vec<usize>], after: &[Vec<usize>]) -> Vec<u64> {
    let mut colours = vec![0; before.len()];
    let mut waits: Vec<_> = before.iter().map(Vec::len).collect();
    let mut ready: Vec<_> = (0..before.len()).filter(|node| waits.get(*node) == Some(&0)).collect();
    while let Some(node) = ready.pop() {
        let (Some(kind), Some(before)) = (kinds.get(node), before.get(node)) else { continue };
        let colour = hash((kind, sorted(before, &colours)));
        if let Some(own) = colours.get_mut(node) {
            *own = colour;
        }
        for next in after.get(node).into_iter().flatten() {
            let Some(left) = waits.get_mut(*next) else { continue };
            *left = left.saturating_sub(1);
            if *left == 0 {
                ready.push(*next);
            }
        }
    }
    colours
}

fn sorted(nodes: &[usize], colours: &[u64]) -> Vec<u64> {
    let mut colours: Vec<_> = nodes.iter().filter_map(|node| colours.get(*node)).copied().collect();
    colours.sort_unstable();
    colours
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::distinct_nodes;

    #[test]
    fn the_nodes_of_a_chain_are_distinct() {
        let before: Vec<Vec<usize>> =
            (0..1_000).map(|node| (0..node).skip(node.max(1) - 1).collect()).collect();
        assert!(distinct_nodes(&[0; 1_000], &before).into_iter().all(|distinct| distinct));
    }

    #[test]
    fn branches_are_distinct_if_something_tells_them_apart() {
        // One node, two after it, and one after both.
        let diamond = [vec![], vec![0], vec![0], vec![1, 2]];
        assert_eq!(distinct_nodes(&[0; 4], &diamond), [true, false, false, true]);
        assert_eq!(distinct_nodes(&[0, 0, 1, 0], &diamond), [true; 4]);
        // A longer branch, and one from whose end nothing follows.
        let uneven = [vec![], vec![0], vec![0], vec![2], vec![1, 3]];
        assert_eq!(distinct_nodes(&[0; 5], &uneven), [true; 5]);
        let open = [vec![], vec![0], vec![0], vec![1]];
        assert_eq!(distinct_nodes(&[0; 4], &open), [true; 4]);
        // The order in which they were made does not matter.
        let late = [vec![2], vec![2], vec![], vec![0, 1]];
        assert_eq!(distinct_nodes(&[0; 4], &late), [false, false, true, true]);
        assert_eq!(distinct_nodes(&[0; 2], &[vec![], vec![]]), [false, false]);
        assert!(distinct_nodes(&[0; 0], &[]).is_empty());
    }
}
