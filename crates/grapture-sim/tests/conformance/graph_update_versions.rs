//! Both versions of the function that updates an executable: the reasons and the nodes that each
//! gives, and how each pairs the nodes.

use std::ptr::{null, null_mut};

use grapture_sys::*;

use crate::graph_update::Kind::{self, Empty, Fill, Host};
use crate::graph_update::{Plan, build, conditional_graph, fill, holder, update};
use crate::rig::Rig;
use crate::steering::{IF, SWITCH, Steering};
use crate::transcript::{quietly, saw};

tiers! {
    both {
        the_first_version_tells_its_reasons,
        graphs_that_differ_at_random,
    }
}

/// The same updates by both versions of the function, each of an executable of its own.
fn the_first_version_tells_its_reasons(rig: &Rig) {
    let steering = Steering::new(rig);
    let both = |what: &str, old: CUgraph, new: CUgraph, names: &[CUgraphNode]| {
        let exec = rig.instantiate(old);
        let (mut node, mut result) = (null_mut(), CUgraphExecUpdateResult(77));
        let code = cu!(rig, cuGraphExecUpdate(exec, new, &mut node, &mut result));
        let place = names.iter().position(|name| *name == node);
        ok!(rig, cuGraphExecDestroy(exec));
        let exec = rig.instantiate(old);
        saw(what, ((code, result.0, place, node.is_null()), update(rig, exec, new, names)));
        rig.release(old, exec);
        ok!(rig, cuGraphDestroy(new));
    };
    let plans: [(&str, Plan<'_>, Plan<'_>); 7] = [
        ("the same", &[(Empty, &[])], &[(Empty, &[])]),
        ("more nodes", &[(Empty, &[])], &[(Empty, &[]), (Empty, &[])]),
        ("more ends", &[(Empty, &[]), (Empty, &[0])], &[(Empty, &[]), (Empty, &[])]),
        ("fewer ends", &[(Empty, &[]), (Empty, &[])], &[(Empty, &[]), (Empty, &[0])]),
        (
            "more edges",
            &[(Empty, &[]), (Empty, &[0]), (Empty, &[1])],
            &[(Empty, &[]), (Empty, &[]), (Empty, &[0, 1])],
        ),
        (
            "another edge",
            &[(Empty, &[]), (Empty, &[]), (Empty, &[0]), (Empty, &[0, 1])],
            &[(Empty, &[]), (Empty, &[]), (Empty, &[0]), (Empty, &[1, 0])],
        ),
        ("another kind", &[(Empty, &[])], &[(Fill, &[])]),
    ];
    for (what, old, new) in plans {
        let ((old, _), (new, names)) = (build(rig, old), build(rig, new));
        both(what, old, new, &names);
    }
    let ((old, _), (new, names)) =
        (holder(rig, &[(Empty, &[])]), holder(rig, &[(Empty, &[]), (Empty, &[])]));
    both("more nodes in an embedded graph", old, new, &names);
    let (old, new) = (rig.new_graph(), rig.new_graph());
    steering.adds(old, &[], 0, 1);
    let node = steering.adds(new, &[], 0, 1);
    let cooperative = CUlaunchAttributeValue { cooperative: 1 };
    let id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    ok!(rig, cuGraphKernelNodeSetAttribute(node, id, &cooperative));
    both("another attribute", old, new, &[node]);
    let rows = |height| {
        let graph = rig.new_graph();
        let fill = CUDA_MEMSET_NODE_PARAMS_v1 { height, pitch: 64, ..fill(rig, 0) };
        let node: CUgraphNode =
            make!(rig, cuGraphAddMemsetNode(graph, null(), 0, &fill, rig.context));
        (graph, node)
    };
    let ((old, _), (new, node)) = (rows(2), rows(3));
    both("other rows", old, new, &[node]);
    for (what, kind, default) in [("another condition", SWITCH, 1), ("another default", IF, 0)] {
        let (old, _, _) = conditional_graph::<1>(rig, &steering, IF, (1, 1));
        let (new, node, _) = conditional_graph::<1>(rig, &steering, kind, (default, 1));
        both(what, old, new, &[node]);
    }
    let edges = |data: *const CUgraphEdgeData| {
        let graph = rig.new_graph();
        let nodes = [steering.adds(graph, &[], 0, 1), steering.adds(graph, &[], 0, 1)];
        ok!(rig, cuGraphAddDependencies_v2(graph, &nodes[0], &nodes[1], data, 1));
        (graph, nodes)
    };
    let early = CUgraphEdgeData { from_port: 1, type_: 1, ..Default::default() };
    let ((old, _), (new, nodes)) = (edges(null()), edges(&early));
    both("programmatic instead of full", old, new, &nodes);
    let ((old, _), (new, nodes)) = (edges(&early), edges(null()));
    both("full instead of programmatic", old, new, &nodes);
    let ((old, _), (new, nodes)) = (edges(&early), edges(&early));
    both("programmatic", old, new, &nodes);
}

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

type Nodes = Vec<(Kind, Vec<usize>)>;

/// A graph in which each node comes after some of those before it.
fn random_nodes(random: &mut Random) -> Nodes {
    let count = 2 + random.below(4);
    (0..count)
        .map(|node| {
            let kind = [Empty, Fill, Host, Empty][random.below(4)];
            let mut after: Vec<usize> = (0..node).filter(|_| random.below(2) == 0).collect();
            if after.len() > 1 && random.below(2) == 0 {
                after.reverse();
            }
            (kind, after)
        })
        .collect()
}

/// The same nodes made in another order, as far as the edges allow.
fn made_otherwise(nodes: &Nodes, random: &mut Random) -> Nodes {
    let mut places: Vec<usize> = Vec::new();
    while places.len() < nodes.len() {
        let ready = |node: &usize| {
            !places.contains(node) && nodes[*node].1.iter().all(|after| places.contains(after))
        };
        let ready: Vec<usize> = (0..nodes.len()).filter(ready).collect();
        places.push(ready[random.below(ready.len())]);
    }
    let now = |node: &usize| places.iter().position(|place| place == node).expect("a place");
    let moved = |place: &usize| (nodes[*place].0, nodes[*place].1.iter().map(now).collect());
    places.iter().map(moved).collect()
}

/// Changes a node, an edge or the order of edges, or nothing.
fn changed(mut nodes: Nodes, random: &mut Random) -> Nodes {
    let node = random.below(nodes.len());
    match random.below(6) {
        0 => nodes[node].0 = [Empty, Fill, Host][random.below(3)],
        1 => nodes[node].1.reverse(),
        2 => drop(nodes[node].1.pop()),
        3 if node > 0 => {
            let after = random.below(node);
            if !nodes[node].1.contains(&after) {
                nodes[node].1.push(after);
            }
        }
        _ => {}
    }
    nodes
}

fn graphs_that_differ_at_random(rig: &Rig) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..120 {
        let from = random_nodes(&mut random);
        let to = made_otherwise(&from, &mut random);
        let to = changed(to, &mut random);
        let plan = |nodes: &Nodes| {
            let plan: Vec<(Kind, &[usize])> =
                nodes.iter().map(|(kind, after)| (*kind, &after[..])).collect();
            build(rig, &plan)
        };
        let ((old, _), (new, names)) = (plan(&from), plan(&to));
        let exec = rig.instantiate(old);
        let (mut node, mut result) = (null_mut(), CUgraphExecUpdateResult(77));
        let update_first = || cu!(rig, cuGraphExecUpdate(exec, new, &mut node, &mut result));
        let code = quietly(update_first);
        ok!(rig, cuGraphExecDestroy(exec));
        let place = names.iter().position(|name| *name == node);
        let exec = rig.instantiate(old);
        let second = quietly(|| update(rig, exec, new, &names));
        rig.release(old, exec);
        ok!(rig, cuGraphDestroy(new));
        saw(&format!("{} to {}", text(&from), text(&to)), ((code, result.0, place), second));
    }
}

/// Each node by its kind and the ones before it.
fn text(nodes: &Nodes) -> String {
    let node = |(kind, after): &(Kind, Vec<usize>)| {
        let after: String = after.iter().map(ToString::to_string).collect();
        format!("{}{after}", &format!("{kind:?}")[..1])
    };
    nodes.iter().map(node).collect::<Vec<_>>().join(" ")
}
