//! The path through a graph that takes longest.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

/// The path whose nodes take longest together: `before[n]` are the nodes that node `n` waits for,
/// and `order` has each node after those. Among equal ones, that of the nodes that came first.
pub(super) fn critical_path(
    before: &[Vec<usize>],
    order: &[usize],
    times: &[Duration],
) -> Vec<usize> {
    let mut ends = vec![Duration::ZERO; times.len()];
    let mut came_from = vec![None; times.len()];
    for node in order.iter().copied() {
        // INVARIANT: there is a time and a list for every node, and the lists name nodes.
        let last = before[node].iter().copied().min_by_key(|near| (Reverse(ends[*near]), *near));
        came_from[node] = last;
        ends[node] = last.map_or(Duration::ZERO, |last| ends[last]) + times[node];
    }
    // Nothing waits for the last node, also if the time of that is nothing.
    let waited_for: HashSet<usize> = before.iter().flatten().copied().collect();
    let last = (0..ends.len())
        .filter(|node| !waited_for.contains(node))
        .min_by_key(|node| (Reverse(ends[*node]), *node));
    let mut path: Vec<usize> = std::iter::successors(last, |node| came_from[*node]).collect();
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::critical_path;
    use std::time::Duration;

    fn path(before: &[&[usize]], times: &[u64]) -> Vec<usize> {
        let before: Vec<_> = before.iter().map(|nodes| nodes.to_vec()).collect();
        let order: Vec<_> = (0..times.len()).collect();
        let times: Vec<_> = times.iter().map(|time| Duration::from_micros(*time)).collect();
        critical_path(&before, &order, &times)
    }

    #[test]
    fn it_is_the_longest_and_not_the_one_of_most_nodes() {
        assert!(path(&[], &[]).is_empty());
        assert_eq!(path(&[&[], &[0], &[1]], &[1, 1, 1]), [0, 1, 2]);
        assert_eq!(path(&[&[], &[0], &[0], &[1, 2]], &[1, 5, 4, 1]), [0, 1, 3]);
        assert_eq!(path(&[&[], &[0], &[0], &[1, 2]], &[1, 4, 5, 1]), [0, 2, 3]);
        assert_eq!(path(&[&[], &[0], &[1], &[]], &[1, 1, 1, 9]), [3]);
        assert_eq!(path(&[&[], &[0], &[1]], &[1, 1, 0]), [0, 1, 2]);
    }

    #[test]
    fn among_equal_ones_the_first_nodes_are_taken() {
        assert_eq!(path(&[&[], &[0], &[0], &[2, 1]], &[1, 4, 4, 1]), [0, 1, 3]);
        assert_eq!(path(&[&[], &[]], &[0, 0]), [0]);
    }
}
