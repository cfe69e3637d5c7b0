//! [`Sequence`]: one capture, from its begin to its end, with the streams that are in it.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::ThreadId;

use grapture_sys::{
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUresult,
};

use super::mode::CaptureMode;
use super::{ContextId, GraphId, StreamId};
use crate::graph::{Edge, EdgeData, GraphDef, LocalId};

/// The number of a capture, unique and increasing over the life of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SequenceId(pub(crate) u64);

/// A stream that is in a capture.
#[derive(Debug)]
pub(crate) struct Member {
    /// The context of the stream.
    pub(crate) context: ContextId,
    /// Whether the legacy stream waits for it and it for the legacy stream.
    pub(crate) blocking: bool,
    /// What the next operation of the stream will depend on.
    pub(crate) set: Vec<Edge>,
}

/// How a capture is begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    /// Whom it bars.
    pub(crate) mode: CaptureMode,
    /// The thread that began it.
    pub(crate) thread: ThreadId,
    /// The stream that it was begun on.
    pub(crate) origin: StreamId,
    /// The graph that it fills.
    pub(crate) graph: GraphId,
    /// Whether the graph was made for it, rather than given by the program.
    pub(crate) owns_graph: bool,
}

/// One capture.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// How it was begun.
    pub(crate) begin: Begin,
    /// Whether a call has broken it.
    pub(crate) invalidated: bool,
    /// The streams in it, the origin among them.
    pub(crate) members: BTreeMap<StreamId, Member>,
    /// What was captured and nothing captured later waits for.
    open: BTreeSet<LocalId>,
}

impl Sequence {
    /// A capture with its origin alone.
    pub(crate) fn new(begin: Begin, origin: Member) -> Sequence {
        let members = BTreeMap::from([(begin.origin, origin)]);
        Sequence { begin, invalidated: false, members, open: BTreeSet::new() }
    }

    /// What the next node of the stream depends on; `programmatic` lets it begin before the kernels
    /// among them have ended.
    pub(crate) fn dependencies(
        &self,
        stream: StreamId,
        graph: &GraphDef,
        programmatic: bool,
    ) -> Vec<Edge> {
        let set = self.members.get(&stream).map_or(&[][..], |member| &member.set);
        if programmatic { soften(set, graph) } else { set.to_vec() }
    }

    /// Notes the node that an operation of the stream became: it alone is what comes next.
    pub(crate) fn captured(&mut self, stream: StreamId, node: LocalId) {
        let Some(member) = self.members.get_mut(&stream) else { return };
        // Every edge joins, also one that lets the new kernel start early.
        for edge in member.set.drain(..) {
            self.open.remove(&edge.node);
        }
        member.set.push(Edge::full(node));
        self.open.insert(node);
    }

    /// Replaces what the stream depends on (`set`) or adds to it. What is dropped needs no join.
    pub(crate) fn update(&mut self, stream: StreamId, edges: Vec<Edge>, replace: bool) {
        let Some(member) = self.members.get_mut(&stream) else { return };
        if replace {
            let mut set = Vec::new();
            merge(&mut set, &edges);
            for edge in std::mem::replace(&mut member.set, set) {
                if !member.set.iter().any(|kept| kept.node == edge.node) {
                    self.open.remove(&edge.node);
                }
            }
        } else {
            merge(&mut member.set, &edges);
        }
    }

    /// Makes the stream wait for what an event of this capture stands for; a stream outside joins.
    pub(crate) fn join(
        &mut self,
        stream: StreamId,
        newcomer: impl FnOnce() -> Member,
        set: &[Edge],
    ) {
        let member = self.members.entry(stream).or_insert_with(newcomer);
        merge(&mut member.set, set);
    }

    /// Whether the thread may end the capture.
    pub(crate) fn check_thread(&self, thread: ThreadId) -> Result<(), CUresult> {
        let anyone = self.begin.mode == CaptureMode::Relaxed;
        if anyone || self.begin.thread == thread {
            Ok(())
        } else {
            Err(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        }
    }

    /// Whether all that was captured has been joined to the origin.
    pub(crate) fn check_joined(&self, graph: &GraphDef) -> Result<(), CUresult> {
        let origin = self.members.get(&self.begin.origin);
        let set = origin.map_or(&[][..], |member| &member.set);
        let joined = graph.ancestors(set.iter().map(|edge| edge.node));
        // A node that the program added joins what it waits for (H200, driver 13.0).
        let last =
            |node: &LocalId| graph.node(*node).is_ok_and(|node| node.dependents().is_empty());
        let open = |node: &LocalId| !joined.contains(node) && last(node);
        if self.open.iter().any(open) { Err(CUDA_ERROR_STREAM_CAPTURE_UNJOINED) } else { Ok(()) }
    }

    /// Refuses further work once the capture is broken.
    pub(crate) fn check_valid(&self) -> Result<(), CUresult> {
        if self.invalidated { Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) } else { Ok(()) }
    }
}

/// Adds edges to a set, each node once.
pub(super) fn merge(set: &mut Vec<Edge>, more: &[Edge]) {
    for edge in more {
        if !set.iter().any(|there| there.node == edge.node) {
            set.push(*edge);
        }
    }
}

/// The edges of a kernel that begins before the kernels it depends on have ended: programmatic
/// serialization.
fn soften(set: &[Edge], graph: &GraphDef) -> Vec<Edge> {
    let soft = |edge: &Edge| {
        let kernel = graph.node(edge.node).is_ok_and(|node| node.params.is_kernel());
        let data =
            if kernel && edge.data.is_default() { EdgeData::PROGRAMMATIC } else { edge.data };
        Edge { node: edge.node, data }
    };
    set.iter().map(soft).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::NodeParams;
    use crate::handle::{Id, Object};

    fn id<T: Object>(number: usize) -> Id<T> {
        Id::claimed((T::KIND as usize) << 56 | number << 4).expect("a handle of this kind")
    }

    fn member() -> Member {
        Member { context: id(1), blocking: false, set: Vec::new() }
    }

    /// A capture, its graph, its origin and another stream.
    struct Case {
        sequence: Sequence,
        graph: GraphDef,
        origin: StreamId,
        fork: StreamId,
    }

    impl Case {
        fn new() -> Case {
            let (origin, fork) = (id(1), id(2));
            let thread = std::thread::current().id();
            let mode = CaptureMode::Global;
            let begin = Begin { mode, thread, origin, graph: id(1), owns_graph: true };
            let sequence = Sequence::new(begin, member());
            Case { sequence, graph: GraphDef::default(), origin, fork }
        }

        fn work(&mut self, stream: StreamId) -> LocalId {
            let set = self.sequence.dependencies(stream, &self.graph, false);
            let node = self.graph.add_node(NodeParams::Empty, &set).expect("a node");
            self.sequence.captured(stream, node);
            node
        }

        fn link(&mut self, from: StreamId, to: StreamId) {
            let set = self.sequence.dependencies(from, &self.graph, false);
            self.sequence.join(to, member, &set);
        }

        fn joined(&self) -> bool {
            self.sequence.check_joined(&self.graph).is_ok()
        }
    }

    #[test]
    fn a_fork_is_joined_by_a_wait_or_by_work_of_another_fork_that_is() {
        let mut case = Case::new();
        let (origin, fork, second) = (case.origin, case.fork, id(3));
        case.link(origin, fork);
        assert!(case.joined(), "nothing was captured");
        case.work(fork);
        assert!(!case.joined());
        case.link(fork, second);
        case.work(second);
        assert!(!case.joined());
        case.link(second, origin);
        assert!(case.joined(), "through the second fork");
        case.work(second);
        assert!(!case.joined());
    }

    #[test]
    fn an_edge_that_does_not_wait_for_all_of_a_node_joins() {
        let mut case = Case::new();
        let (origin, fork) = (case.origin, case.fork);
        case.link(origin, fork);
        let node = case.work(fork);
        let early = Edge { node, data: EdgeData::PROGRAMMATIC };
        assert!(!case.joined());
        case.sequence.update(origin, vec![early], false);
        assert!(case.joined());
    }

    #[test]
    fn what_the_program_drops_or_joins_itself_needs_no_join() {
        let mut case = Case::new();
        let (origin, fork) = (case.origin, case.fork);
        case.link(origin, fork);
        case.work(fork);
        case.sequence.update(fork, Vec::new(), true);
        assert!(case.joined(), "dropped");
        let node = case.work(fork);
        assert!(!case.joined());
        let joint = case.graph.add_node(NodeParams::Empty, &[Edge::full(node)]).expect("a node");
        case.sequence.update(origin, vec![Edge::full(joint)], true);
        assert!(case.joined(), "joined by a node of the program's");
        let node = case.work(fork);
        assert!(!case.joined());
        case.graph.add_node(NodeParams::Empty, &[Edge::full(node)]).expect("a node");
        assert!(case.joined(), "waited for by a node of the program's that nothing waits for");
    }
}
