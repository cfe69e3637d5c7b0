//! Which node of one topology is which of another, where they differ.

use std::collections::HashMap;
use std::hash::Hash;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::topology::equivalence::{Compared, Numbers, Operations, signature};
use crate::topology::{OperationSpec, Topology};

/// How many rounds of neighbours tell equal nodes apart at first. Each round less lets nodes pair
/// that a change came closer to.
const ROUNDS: usize = 3;
/// Up to how many pairs of nodes the order counts: to align more takes too long.
const MAX_ALIGNED: usize = 1 << 26;

/// For each node of `old` its partner in `new`.
///
/// First the nodes are paired that are the same from the first one on, and from the last one back,
/// since mostly one program made both; then those that are the same in the same surroundings, then in ever less of
/// them, then those that have the same name, and last those of the same kind that a partner of a
/// neighbour ties together. Among those that nothing tells apart, the order decides.
pub(super) fn pairs(old: &Topology, new: &Topology) -> Vec<Option<usize>> {
    let mut pairing =
        Pairing { partners: vec![None; old.nodes.len()], taken: vec![false; new.nodes.len()] };
    for compared in [Compared::All, Compared::Operations] {
        let mut operations = Operations::new(compared);
        let own = [old, new].map(|topology| operations.of(topology));
        if compared == Compared::All {
            pairing.add_ends(old, new, &own);
        }
        for [old, new] in surroundings([old, new], own).into_iter().rev() {
            pairing.add(&old, &new);
        }
    }
    let names = [old, new].map(|topology| keys(topology, OperationSpec::title));
    pairing.add(&names[0], &names[1]);
    let kinds =
        [old, new].map(|topology| keys(topology, |operation| operation.kind_name().to_owned()));
    while pairing.add_tied(old, new, &kinds) {}
    pairing.partners
}

/// A colour for each node of both, by itself, by its neighbours too, by theirs too, and so on.
fn surroundings(both: [&Topology; 2], own: [Vec<usize>; 2]) -> Vec<[Vec<usize>; 2]> {
    let before = both.map(|topology| topology.neighbours(false));
    let behind = both.map(|topology| topology.neighbours(true));
    let mut rounds = vec![own];
    for _ in 0..ROUNDS {
        let mut numbers = Numbers::default();
        // INVARIANT: there is the round of the nodes themselves.
        let last = &rounds[rounds.len() - 1];
        let next = [0, 1].map(|side| {
            let colours: &Vec<usize> = &last[side];
            (0..colours.len())
                .map(|node| {
                    let before = signature(node, colours, &before[side]);
                    numbers.of((before, signature(node, colours, &behind[side])))
                })
                .collect()
        });
        rounds.push(next);
    }
    rounds
}

struct Pairing {
    partners: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl Pairing {
    /// Pairs the first nodes of both as long as each is the same and waits for the same, and the
    /// last ones as long as each is the same and the same wait for it.
    fn add_ends(&mut self, old: &Topology, new: &Topology, own: &[Vec<usize>; 2]) {
        let most = own[0].len().min(own[1].len());
        let before = (old.neighbours(false), new.neighbours(false));
        // INVARIANT: there is a colour and a list of neighbours for each node of both.
        let same =
            |node: &usize| own[0][*node] == own[1][*node] && before.0[*node] == before.1[*node];
        let first = (0..most).take_while(same).count();
        (0..first).for_each(|node| self.pair(node, node));

        let behind = (old.neighbours(true), new.neighbours(true));
        let (ours, theirs) = (own[0].len(), own[1].len());
        for back in 1..=most - first {
            let (node, partner) = (ours - back, theirs - back);
            // Counted from the end, so that they can be compared.
            let from_end = |near: &[(usize, bool)], len: usize| -> Vec<_> {
                near.iter().map(|(near, kind)| (len - near, *kind)).collect()
            };
            if own[0][node] != own[1][partner]
                || from_end(&behind.0[node], ours) != from_end(&behind.1[partner], theirs)
            {
                return;
            }
            self.pair(node, partner);
        }
    }

    fn pair(&mut self, node: usize, partner: usize) {
        // INVARIANT: they are nodes of the two.
        self.partners[node] = Some(partner);
        self.taken[partner] = true;
    }

    /// Pairs the nodes that have no partner yet and the same key: as many as possible so that the
    /// order of both is kept, then the others.
    fn add<K: Hash + Eq + Ord>(&mut self, old: &[K], new: &[K]) {
        let ours: Vec<usize> = free(&self.partners, Option::is_none);
        let theirs: Vec<usize> = free(&self.taken, |taken| !taken);
        if ours.len().saturating_mul(theirs.len()) <= MAX_ALIGNED {
            // INVARIANT: there is a key for each node of both.
            let keys: Vec<&K> = ours.iter().map(|node| &old[*node]).collect();
            let their_keys: Vec<&K> = theirs.iter().map(|node| &new[*node]).collect();
            for same in capture_diff_slices(Algorithm::Patience, &keys, &their_keys) {
                if let DiffOp::Equal { old_index, new_index, len } = same {
                    let (ours, theirs) = (&ours[old_index..][..len], &theirs[new_index..][..len]);
                    ours.iter().zip(theirs).for_each(|(node, partner)| self.pair(*node, *partner));
                }
            }
        }
        self.add_rest(old, new);
    }

    /// Pairs the nodes that have no partner yet and the same key, one after the other.
    fn add_rest<K: Hash + Eq>(&mut self, old: &[K], new: &[K]) {
        let mut rest: HashMap<&K, Vec<usize>> = HashMap::new();
        for node in free(&self.taken, |taken| !taken).into_iter().rev() {
            // INVARIANT: there is a key for each node of both.
            rest.entry(&new[node]).or_default().push(node);
        }
        for node in free(&self.partners, Option::is_none) {
            if let Some(partner) = rest.get_mut(&old[node]).and_then(Vec::pop) {
                self.pair(node, partner);
            }
        }
    }

    /// Pairs nodes of the same kind whose neighbours are partners, or that have no neighbours.
    /// Gives whether there were any.
    fn add_tied(&mut self, old: &Topology, new: &Topology, kinds: &[Vec<String>; 2]) -> bool {
        let ties = [false, true].map(|behind| (old.neighbours(behind), new.neighbours(behind)));
        let mut found = false;
        for node in 0..self.partners.len() {
            if self.partners[node].is_some() {
                continue;
            }
            let partner = (0..self.taken.len()).find(|other| {
                // INVARIANT: there is a kind and a list of neighbours for each node of both.
                let tied = ties.iter().any(|(old, new)| {
                    let (ours, theirs) = (&old[node], &new[*other]);
                    ours.iter().any(|(near, _)| {
                        self.partners[*near]
                            .is_some_and(|near| theirs.iter().any(|(their, _)| *their == near))
                    })
                });
                let alone =
                    ties.iter().all(|(old, new)| old[node].is_empty() && new[*other].is_empty());
                !self.taken[*other] && kinds[0][node] == kinds[1][*other] && (tied || alone)
            });
            if let Some(partner) = partner {
                self.pair(node, partner);
                found = true;
            }
        }
        found
    }
}

/// The indices of those that are free.
fn free<T>(nodes: &[T], is_free: impl Fn(&T) -> bool) -> Vec<usize> {
    nodes.iter().enumerate().filter(|(_, node)| is_free(node)).map(|(index, _)| index).collect()
}

fn keys(topology: &Topology, key: impl Fn(&OperationSpec) -> String) -> Vec<String> {
    topology.nodes.iter().map(|node| key(node.operation())).collect()
}
