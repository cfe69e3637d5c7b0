//! [`Recorded`]: what a capture recorded, for who looks at its graph later.

use std::sync::Arc;

use crate::capture::{CaptureLog, StreamGraphCapture};
use crate::graph::{Branching, Inner, Node, NodeKind, Note};
use crate::operation::{Operation, OperationKind};

/// The operations of the thread that began a capture, and what is known of them. Only the kinds and
/// the lines are read, which outlive the kernels that the operations name.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    /// The only operation: a graph of one node is made in the least time.
    one: Option<Operation>,
    /// All of them, if there are more.
    more: Box<[Operation]>,
    marks: Marks,
}

/// What is known of operations, each with the number of the operation, in order.
#[derive(Clone, Default)]
pub(crate) struct Marks {
    /// Behind one word, since most captures have none and all move this about.
    #[expect(clippy::box_collection, reason = "a vector is three words")]
    list: Option<Box<Vec<(usize, Mark)>>>,
}

#[derive(Clone)]
enum Mark {
    /// The label that stands from this operation on.
    Label(Option<Arc<str>>),
    /// What is known of the nodes of a child graph.
    Child(Arc<[Note]>),
    /// A conditional node.
    Branching(Arc<Branching>),
}

impl Marks {
    /// Sets the label from the operation on that is to come next. Gives the one before.
    pub(super) fn set_label(&mut self, next: usize, label: Option<Arc<str>>) -> Option<Arc<str>> {
        let before = self.label_before(self.list().len()).cloned();
        self.add(next, Mark::Label(label));
        before
    }

    /// The label within the one that stands.
    pub(super) fn within(&self, label: &str) -> Arc<str> {
        match self.label_before(self.list().len()) {
            Some(outer) => format!("{outer} / {label}").into(),
            _ => label.into(),
        }
    }

    /// Notes what is known of the nodes of the child graph that was recorded last.
    pub(super) fn add_child(&mut self, next: usize, notes: Arc<[Note]>) {
        if let Some(last) = next.checked_sub(1) {
            self.add(last, Mark::Child(notes));
        }
    }

    /// Notes a conditional node.
    pub(super) fn add_branching(&mut self, next: usize, branching: Arc<Branching>) {
        self.add(next, Mark::Branching(branching));
    }

    fn add(&mut self, operation: usize, mark: Mark) {
        self.list.get_or_insert_default().push((operation, mark));
    }

    fn list(&self) -> &[(usize, Mark)] {
        self.list.as_ref().map_or(&[], |list| list)
    }

    fn of(&self, operation: usize) -> Option<&Arc<str>> {
        self.label_before(self.list().partition_point(|(from, _)| *from <= operation))
    }

    /// The label that the last of the first `end` marks has set.
    fn label_before(&self, end: usize) -> Option<&Arc<str>> {
        self.list().get(..end)?.iter().rev().find_map(|(_, mark)| match mark {
            Mark::Label(label) => Some(label.as_ref()),
            _ => None,
        })?
    }

    fn child(&self, operation: usize) -> Option<&Arc<[Note]>> {
        let before = self.list().partition_point(|(from, _)| *from < operation);
        let of = self.list().get(before..)?.iter().take_while(|(from, _)| *from == operation);
        of.into_iter().find_map(|(_, mark)| match mark {
            Mark::Child(notes) => Some(notes),
            _ => None,
        })
    }

    fn branchings(&self) -> impl Iterator<Item = &Arc<Branching>> {
        self.list().iter().filter_map(|(_, mark)| match mark {
            Mark::Branching(branching) => Some(branching),
            _ => None,
        })
    }
}

impl Recorded {
    #[inline]
    pub(super) fn new(operations: &[Operation], marks: Marks) -> Recorded {
        match operations {
            [] => Recorded { one: None, more: Box::default(), marks },
            [one] => Recorded { one: Some(*one), more: Box::default(), marks },
            more => Recorded { one: None, more: more.into(), marks },
        }
    }

    fn operations(&self) -> &[Operation] {
        if self.more.is_empty() { self.one.as_slice() } else { &self.more }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operations().is_empty() && self.marks.list().is_empty()
    }

    /// Whether a conditional node was recorded.
    pub(crate) fn has_branchings(&self) -> bool {
        self.marks.branchings().next().is_some()
    }

    /// What is known of the nodes, which are in the order in which they were made, and of which the
    /// last ones can be `added` after the capture.
    pub(crate) fn notes(&self, nodes: &[Node], added: impl Fn(usize) -> bool) -> Vec<Note> {
        let mut notes = self.sources(nodes, added).unwrap_or_default();
        notes.resize_with(nodes.len(), Note::default);
        for branching in self.marks.branchings() {
            let known = nodes.iter().zip(&mut notes);
            for (_, note) in known.filter(|(node, _)| node.id().as_raw() == branching.node) {
                note.inner = Some(Inner::Branching(branching.clone()));
            }
        }
        notes
    }

    /// The lines, the labels and the child graphs. Only if the nodes are those of the operations, one
    /// for one: else something else made a node, such as another thread or other hands, and which is
    /// not known.
    fn sources(&self, nodes: &[Node], added: impl Fn(usize) -> bool) -> Option<Vec<Note>> {
        let mut notes: Vec<Note> = Vec::with_capacity(nodes.len());
        for (index, operation) in self.operations().iter().enumerate() {
            let Some(kind) = node_of(operation.kind()) else { continue };
            if nodes.get(notes.len()).map(Node::kind) != Some(kind) {
                return None;
            }
            let mut note = Note::at(operation.location);
            note.label = self.marks.of(index).cloned();
            if kind == NodeKind::ChildGraph {
                note.inner = self.marks.child(index).cloned().map(Inner::Child);
            }
            notes.push(note);
        }
        (notes.len()..nodes.len()).all(added).then_some(notes)
    }

    /// Forgets all, since the nodes are no more those of the operations.
    pub(crate) fn forget(&mut self) {
        *self = Recorded::default();
    }
}

/// The kind of the node that an operation makes; none if it makes no node.
fn node_of(kind: OperationKind) -> Option<NodeKind> {
    Some(match kind {
        OperationKind::Kernel => NodeKind::Kernel,
        OperationKind::Copy => NodeKind::Memcpy,
        OperationKind::Fill => NodeKind::Memset,
        OperationKind::HostFunction => NodeKind::Host,
        // A launch of a graph is refused in a capture.
        OperationKind::EventRecord | OperationKind::EventWait | OperationKind::GraphLaunch => {
            return None;
        }
        OperationKind::SetDependencies | OperationKind::AddDependencies => return None,
        OperationKind::Empty => NodeKind::Empty,
        OperationKind::MemoryBatch => NodeKind::BatchMemOp,
        OperationKind::EventRecordExternal => NodeKind::EventRecord,
        OperationKind::EventWaitExternal => NodeKind::EventWait,
        OperationKind::ChildGraph => NodeKind::ChildGraph,
        OperationKind::Allocation => NodeKind::MemAlloc,
        OperationKind::Free => NodeKind::MemFree,
        OperationKind::Conditional => NodeKind::Conditional,
    })
}

impl StreamGraphCapture<'_> {
    /// Runs `record`, and has the nodes of the operations that this thread submits in it carry a
    /// label: [`Graph::topology`](crate::Graph::topology) and
    /// [`Graph::profile`](crate::Graph::profile) show it. Within another label it is added to that
    /// one, after a `/`. It costs nothing at each operation.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut buffer = DeviceBuffer::<u32>::zeroed(&context, 64)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     capture.labelled("reset", || buffer.fill(0, &stream))?;
    ///     stream.host_function(|| {})
    /// })?;
    /// let labels: Vec<_> = graph.topology()?.nodes().iter().map(|node| node.label().map(String::from)).collect();
    /// assert_eq!(labels, [Some("reset".to_owned()), None]);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn labelled<R>(&self, label: &str, record: impl FnOnce() -> R) -> R {
        let _label = Labelled::new(&self.log, label);
        record()
    }
}

/// What a capture records carries a label as long as this lives.
pub(super) struct Labelled<'a> {
    log: &'a CaptureLog,
    before: Option<Arc<str>>,
}

impl Labelled<'_> {
    pub(super) fn new<'a>(log: &'a CaptureLog, label: &str) -> Labelled<'a> {
        let before = log.mark(|next, marks| {
            let label = marks.within(label);
            marks.set_label(next, Some(label))
        });
        Labelled { log, before: before.flatten() }
    }
}

impl Drop for Labelled<'_> {
    fn drop(&mut self) {
        self.log.mark(|next, marks| marks.set_label(next, self.before.take()));
    }
}

#[cfg(test)]
mod tests {
    use super::{Marks, Recorded};
    use crate::graph::{GraphKey, Node, NodeKind, NodeNames, Note};
    use crate::operation::{Operation, OperationKind};
    use std::ptr::without_provenance_mut;

    fn recorded(kinds: &[OperationKind]) -> Recorded {
        let operations: Vec<_> = kinds.iter().map(|kind| Operation::new(*kind)).collect();
        Recorded::new(&operations, Marks::default())
    }

    /// Nodes of these kinds.
    fn nodes(kinds: &[NodeKind]) -> Vec<Node> {
        let names = NodeNames::of(GraphKey::new());
        let node = |(index, kind): (usize, &NodeKind)| Node {
            id: names.id(without_provenance_mut(index + 1)),
            kind: *kind,
        };
        kinds.iter().enumerate().map(node).collect()
    }

    #[test]
    fn a_node_has_a_source_only_if_all_have() {
        use OperationKind::{Copy, EventRecord, EventWait, Kernel};
        let recorded = recorded(&[Kernel, EventRecord, EventWait, Copy]);
        let count = |kinds: &[NodeKind]| {
            recorded.sources(&nodes(kinds), |_| false).map(|sources| sources.len())
        };
        assert_eq!(count(&[NodeKind::Kernel, NodeKind::Memcpy]), Some(2));
        assert_eq!(count(&[NodeKind::Memcpy, NodeKind::Kernel]), None);
        assert_eq!(count(&[NodeKind::Kernel]), None);
        assert_eq!(count(&[NodeKind::Kernel, NodeKind::Memcpy, NodeKind::Memcpy]), None);
        let last_was_added = |index| index == 2;
        let three = nodes(&[NodeKind::Kernel, NodeKind::Memcpy, NodeKind::Memcpy]);
        assert_eq!(recorded.sources(&three, last_was_added).map(|sources| sources.len()), Some(2));
        assert_eq!(recorded.notes(&three, last_was_added).len(), 3);
        assert_eq!(count(&[NodeKind::Kernel, NodeKind::Kernel, NodeKind::Memcpy]), None);
        let one = nodes(&[NodeKind::Kernel]);
        assert!(Recorded::default().sources(&one, |_| false).is_none());
        assert_eq!(Recorded::default().notes(&one, |_| false).len(), 1);
    }

    #[test]
    fn labels_stand_from_their_operation_to_the_next() {
        let mut marks = Marks::default();
        assert_eq!(marks.of(0), None);
        let before = marks.set_label(2, Some("outer".into()));
        assert_eq!(before, None);
        let inner = marks.within("inner");
        let outer = marks.set_label(3, Some(inner));
        // What is known of an operation ends no label.
        marks.add_child(5, [Note::default()].into());
        marks.set_label(5, outer);
        marks.set_label(6, before);
        let all: Vec<_> = (0..7).map(|index| marks.of(index).map(|label| &**label)).collect();
        let (outer, inner) = (Some("outer"), Some("outer / inner"));
        assert_eq!(all, [None, None, outer, inner, inner, outer, None]);
        let children: Vec<_> = (0..7).filter(|index| marks.child(*index).is_some()).collect();
        assert_eq!(children, [4]);
    }
}
