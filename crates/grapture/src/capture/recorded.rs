//! [`Recorded`]: what a capture recorded, for who looks at its graph later.

use std::panic::Location;
use std::sync::Arc;

use crate::capture::{CaptureLog, StreamGraphCapture};
use crate::graph::NodeKind;
use crate::operation::{Operation, OperationKind};

/// The operations of the thread that began a capture, and their labels. Only the kinds and the lines
/// are read, which outlive the kernels that the operations name.
#[derive(Default)]
pub(crate) struct Recorded {
    /// The only operation: a graph of one node is made in the least time.
    one: Option<Operation>,
    /// All of them, if there are more.
    more: Box<[Operation]>,
    labels: Labels,
}

/// The labels, in order.
#[derive(Default)]
pub(crate) struct Labels {
    /// Behind one word, since most captures have none and all move this about.
    #[expect(clippy::box_collection, reason = "a vector is three words")]
    list: Option<Box<Vec<Standing>>>,
}

/// From which operation on which label stands.
type Standing = (usize, Option<Arc<str>>);

/// Where a node of a captured graph comes from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) line: &'static Location<'static>,
    pub(crate) label: Option<&'a str>,
}

impl Labels {
    /// Sets the label from the operation on that is to come next. Gives the one before.
    pub(super) fn set(&mut self, next: usize, label: Option<Arc<str>>) -> Option<Arc<str>> {
        let list = self.list.get_or_insert_default();
        let before = list.last().and_then(|(_, label)| label.clone());
        list.push((next, label));
        before
    }

    /// The label within the one that stands.
    pub(super) fn within(&self, label: &str) -> Arc<str> {
        match self.list().last() {
            Some((_, Some(outer))) => format!("{outer} / {label}").into(),
            _ => label.into(),
        }
    }

    fn of(&self, operation: usize) -> Option<&str> {
        let after = self.list().partition_point(|(from, _)| *from <= operation);
        self.list().get(after.checked_sub(1)?)?.1.as_deref()
    }

    fn list(&self) -> &[Standing] {
        self.list.as_ref().map_or(&[], |list| list)
    }
}

impl Recorded {
    #[inline]
    pub(super) fn new(operations: &[Operation], labels: Labels) -> Recorded {
        match operations {
            [] => Recorded { one: None, more: Box::default(), labels },
            [one] => Recorded { one: Some(*one), more: Box::default(), labels },
            more => Recorded { one: None, more: more.into(), labels },
        }
    }

    fn operations(&self) -> &[Operation] {
        if self.more.is_empty() { self.one.as_slice() } else { &self.more }
    }

    /// Where the nodes come from, in the order in which they were made: those of these kinds, of
    /// which the last ones can be `added` after the capture. Only if the others are those of the
    /// operations, one for one: else something else made a node, such as another thread or other
    /// hands, and which is not known.
    pub(crate) fn sources(
        &self,
        kinds: &[NodeKind],
        added: impl Fn(usize) -> bool,
    ) -> Option<Vec<Source<'_>>> {
        let mut sources = Vec::with_capacity(kinds.len());
        for (index, operation) in self.operations().iter().enumerate() {
            let Some(kind) = node_of(operation.kind()) else { continue };
            if kinds.get(sources.len()) != Some(&kind) {
                return None;
            }
            sources.push(Source { line: operation.location, label: self.labels.of(index) });
        }
        (sources.len()..kinds.len()).all(added).then_some(sources)
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
        let before = log.label(|next, labels| {
            let label = labels.within(label);
            labels.set(next, Some(label))
        });
        Labelled { log, before: before.flatten() }
    }
}

impl Drop for Labelled<'_> {
    fn drop(&mut self) {
        self.log.label(|next, labels| labels.set(next, self.before.take()));
    }
}

#[cfg(test)]
mod tests {
    use super::{Labels, Recorded};
    use crate::graph::NodeKind;
    use crate::operation::{Operation, OperationKind};

    fn recorded(kinds: &[OperationKind]) -> Recorded {
        let operations: Vec<_> = kinds.iter().map(|kind| Operation::new(*kind)).collect();
        Recorded::new(&operations, Labels::default())
    }

    #[test]
    fn a_node_has_a_source_only_if_all_have() {
        use OperationKind::{Copy, EventRecord, EventWait, Kernel};
        let recorded = recorded(&[Kernel, EventRecord, EventWait, Copy]);
        let count =
            |kinds: &[NodeKind]| recorded.sources(kinds, |_| false).map(|sources| sources.len());
        assert_eq!(count(&[NodeKind::Kernel, NodeKind::Memcpy]), Some(2));
        assert_eq!(count(&[NodeKind::Memcpy, NodeKind::Kernel]), None);
        assert_eq!(count(&[NodeKind::Kernel]), None);
        assert_eq!(count(&[NodeKind::Kernel, NodeKind::Memcpy, NodeKind::Memcpy]), None);
        let last_was_added = |index| index == 2;
        let three = [NodeKind::Kernel, NodeKind::Memcpy, NodeKind::Memcpy];
        assert_eq!(recorded.sources(&three, last_was_added).map(|sources| sources.len()), Some(2));
        assert_eq!(count(&[NodeKind::Kernel, NodeKind::Kernel, NodeKind::Memcpy]), None);
        assert!(Recorded::default().sources(&[NodeKind::Kernel], |_| false).is_none());
    }

    #[test]
    fn labels_stand_from_their_operation_to_the_next() {
        let mut labels = Labels::default();
        assert_eq!(labels.of(0), None);
        let before = labels.set(2, Some("outer".into()));
        assert_eq!(before, None);
        let inner = labels.within("inner");
        let outer = labels.set(3, Some(inner));
        labels.set(5, outer);
        labels.set(6, before);
        let all: Vec<_> = (0..7).map(|index| labels.of(index)).collect();
        let (outer, inner) = (Some("outer"), Some("outer / inner"));
        assert_eq!(all, [None, None, outer, inner, inner, outer, None]);
    }
}
