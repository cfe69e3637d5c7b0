//! A copy of a graph that takes the time at the end of each node.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use grapture_sys::{CU_EVENT_DEFAULT, CUDA_ERROR_NOT_SUPPORTED, CUgraphNode, Function};

use crate::error::{CudaError, CudaResult, check};
use crate::graph::read::Reader;
use crate::graph::{Graph, GraphExec, InstantiateOptions, Node, NodeId, NodeKind};
use crate::raw_event::RawEvent;

/// A copy of a graph in which a node that records an event hangs on each node, and one stands alone
/// to mark the beginning. Nothing waits for those, so the nodes follow one another as they did, also
/// those that begin early. Measured on an H200: between the nodes, the events would each add 2 to 3
/// microseconds to the path; before the first nodes, 2 to 20.
pub(super) struct Instrumented {
    pub(super) exec: GraphExec,
    /// The nodes of the graph, not of the copy.
    pub(super) nodes: Vec<NodeId>,
    /// For each node the indices of those that it waits for.
    pub(super) before: Vec<Vec<usize>>,
    /// The nodes of the copy, which lives on: the driver knows the executable's by them.
    copies: Vec<CUgraphNode>,
    _copy: Graph,
    start: Arc<RawEvent>,
    ends: Vec<Arc<RawEvent>>,
}

/// Whether nodes of the kind can be switched off.
fn has_switch(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Kernel | NodeKind::Memcpy | NodeKind::Memset)
}

/// When a node began and how long it took, in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start: Duration,
    pub(super) time: Duration,
}

impl Instrumented {
    /// Of a copy of the graph.
    pub(super) fn new(graph: &Graph, options: &InstantiateOptions) -> CudaResult<Instrumented> {
        let nodes = graph.nodes()?;
        nodes
            .iter()
            .enumerate()
            .try_for_each(|(index, node)| check_kind(index, node.kind(), true))?;
        let copy = graph.try_clone()?;
        let copies = nodes.iter().map(|node| graph.node_in(node.id(), &copy));
        let copies = copies.collect::<CudaResult<_>>()?;
        Instrumented::mark(copy, copies, &nodes, options)
    }

    /// Of a graph that was built as the one with these nodes was.
    pub(super) fn twin(twin: Graph, nodes: &[Node]) -> CudaResult<Instrumented> {
        nodes
            .iter()
            .enumerate()
            .try_for_each(|(index, node)| check_kind(index, node.kind(), false))?;
        let copies = twin.nodes()?.iter().map(Node::id).collect();
        Instrumented::mark(twin, copies, nodes, &InstantiateOptions::new())
    }

    /// Adds the marks to the graph, whose nodes `copies` do what the `nodes` do.
    fn mark(
        mut copy: Graph,
        copies: Vec<NodeId>,
        nodes: &[Node],
        options: &InstantiateOptions,
    ) -> CudaResult<Instrumented> {
        let before = dependencies(&copy, &copies)?;
        let context = copy.context().clone();
        let event = || RawEvent::with_flags(&context, CU_EVENT_DEFAULT.0).map(Arc::new);
        let start = event()?;
        let ends: Vec<_> = nodes.iter().map(|_| event()).collect::<CudaResult<_>>()?;

        // They outlive the last launch of the copy.
        copy.retain((start.clone(), ends.clone()));
        add_event(&copy, None, &start)?;
        let copies: Vec<CUgraphNode> = copies.iter().map(|node| node.as_raw()).collect();
        for (node, end) in copies.iter().zip(&ends) {
            add_event(&copy, Some(*node), end)?;
        }
        let exec = copy.instantiate_itself(options)?;
        let nodes = nodes.iter().map(Node::id).collect();
        Ok(Instrumented { exec, nodes, before, copies, _copy: copy, start, ends })
    }

    /// Switches off the nodes that are off in `exec`, which was made of the same graph.
    pub(super) fn switch_off_as(&self, graph: &Graph, exec: &GraphExec) -> CudaResult<()> {
        if !self.exec.context().driver().has(Function::cuGraphNodeSetEnabled) {
            return Ok(());
        }
        let pairs = self.nodes.iter().map(|node| node.as_raw()).zip(self.copies.iter().copied());
        self.switch_off(exec, graph.reader(), &pairs.collect::<Vec<_>>())
    }

    /// Switches off those nodes of the copy whose likes are off in `exec`, and within what they
    /// embed.
    fn switch_off(
        &self,
        exec: &GraphExec,
        graph: Reader<'_>,
        pairs: &[(CUgraphNode, CUgraphNode)],
    ) -> CudaResult<()> {
        let functions = self.exec.functions();
        for (node, copy) in pairs {
            let kind = graph.kind(*node)?;
            if kind == NodeKind::ChildGraph {
                let (inner, inner_copy) = (graph.child(*node)?, graph.child(*copy)?);
                // Of a copy the nodes are in the same order.
                let within = inner.nodes()?.into_iter().zip(inner_copy.nodes()?);
                self.switch_off(exec, inner, &within.collect::<Vec<_>>())?;
            }
            if !has_switch(kind) {
                continue;
            }
            let mut enabled = 1;
            // SAFETY: a live executable graph, a node of the live graph that it was made of (the
            // caller borrows both) or of one that this embeds, and a live out-pointer.
            let asked =
                unsafe { (functions.cuGraphNodeGetEnabled)(exec.as_raw(), *node, &mut enabled) };
            check(asked)?;
            if enabled == 0 {
                // SAFETY: a live executable graph that nobody else uses, and a node of the live graph
                // that it was made of, or of one that this embeds.
                check(unsafe { (functions.cuGraphNodeSetEnabled)(self.exec.as_raw(), *copy, 0) })?;
            }
        }
        Ok(())
    }

    /// The times of the last launch, which is done, and before which the stream reached `launched`.
    pub(super) fn read(&self, launched: &RawEvent) -> CudaResult<Vec<Interval>> {
        let ends: Vec<Duration> =
            self.ends.iter().map(|end| end.elapsed_since(launched)).collect::<CudaResult<_>>()?;
        let begin = self.start.elapsed_since(launched)?;
        Ok(intervals(&self.before, begin, &ends))
    }
}

/// What each node took, from when it and the beginning were marked, counted from the launch.
fn intervals(before: &[Vec<usize>], begin: Duration, ends: &[Duration]) -> Vec<Interval> {
    // Nothing orders the mark of the beginning, so it can come late: then the launch has to do.
    let late = ends.iter().any(|end| *end < begin);
    let begin = if late { Duration::ZERO } else { begin };
    let of = |(before, end): (&Vec<usize>, &Duration)| {
        let last = before.iter().filter_map(|node| ends.get(*node)).max();
        let start = last.copied().unwrap_or(begin);
        Interval { start: start.saturating_sub(begin), time: end.saturating_sub(start) }
    };
    before.iter().zip(ends).map(of).collect()
}

/// Refuses what cannot be `copied` by the driver if it has to be, or waits for somebody else at each
/// launch.
fn check_kind(index: usize, kind: NodeKind, copied: bool) -> CudaResult<()> {
    let why = match kind {
        NodeKind::MemAlloc | NodeKind::MemFree if copied => {
            "the driver copies no graph that has one: `Graph::profile_of` measures one that is built \
             twice"
        }
        NodeKind::ExternalSemaphoreSignal | NodeKind::ExternalSemaphoreWait => {
            "its other side would have to take part in every run: profile the work without it"
        }
        _ => return Ok(()),
    };
    let problem = format!("node {index} is a node of kind `{kind}`, and {why}");
    Err(CudaError::refused(CUDA_ERROR_NOT_SUPPORTED, "graph.nodes", problem))
}

/// Adds a node to the graph that records the event, which the graph keeps.
fn add_event(graph: &Graph, after: Option<CUgraphNode>, event: &RawEvent) -> CudaResult<()> {
    let mut node = ptr::null_mut();
    let dependencies = after.as_ref().map_or(ptr::null(), ptr::from_ref);
    let (count, event) = (usize::from(after.is_some()), event.as_raw());
    let add = graph.functions().cuGraphAddEventRecordNode;
    // SAFETY: a live graph, none or one of its nodes, a live event that the graph keeps (O2), and a
    // live out-pointer.
    check(unsafe { add(&mut node, graph.raw, dependencies, count, event) })
}

/// For each of the nodes the indices of those that it waits for.
fn dependencies(graph: &Graph, nodes: &[NodeId]) -> CudaResult<Vec<Vec<usize>>> {
    let index: HashMap<_, _> =
        nodes.iter().enumerate().map(|(index, node)| (node, index)).collect();
    let mut before = vec![Vec::new(); nodes.len()];
    for edge in graph.edges()? {
        if let (Some(from), Some(to)) = (index.get(&edge.from()), index.get(&edge.to())) {
            // INVARIANT: they are indices of nodes, and there is a list for each.
            before[*to].push(*from);
        }
    }
    Ok(before)
}

/// Whether the driver has nodes that record events.
pub(super) fn is_supported(graph: &Graph) -> bool {
    graph.context().driver().has(Function::cuGraphAddEventRecordNode)
}

#[cfg(test)]
mod tests {
    use super::intervals;
    use std::time::Duration;

    fn starts_and_times(before: &[&[usize]], begin: u64, ends: &[u64]) -> Vec<(u128, u128)> {
        let before: Vec<_> = before.iter().map(|nodes| nodes.to_vec()).collect();
        let ends: Vec<_> = ends.iter().map(|end| Duration::from_micros(*end)).collect();
        let intervals = intervals(&before, Duration::from_micros(begin), &ends);
        intervals.iter().map(|one| (one.start.as_micros(), one.time.as_micros())).collect()
    }

    #[test]
    fn a_node_counts_from_the_last_that_it_waits_for() {
        let diamond: &[&[usize]] = &[&[], &[0], &[0], &[1, 2]];
        let expected = [(0, 10), (10, 5), (10, 20), (30, 1)];
        assert_eq!(starts_and_times(diamond, 2, &[12, 17, 32, 33]), expected);
    }

    #[test]
    fn a_late_mark_of_the_beginning_does_not_count() {
        assert_eq!(starts_and_times(&[&[], &[]], 50, &[12, 70]), [(0, 12), (0, 70)]);
    }

    #[test]
    fn marks_that_come_in_another_order_give_no_negative_time() {
        assert_eq!(starts_and_times(&[&[], &[0]], 1, &[12, 11]), [(0, 11), (11, 0)]);
    }
}
