//! [`Note`]: what is known of a node that the driver does not tell: the line and the label, and what
//! the graphs within it are.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use grapture_sys::{CUdeviceptr, CUgraph, CUgraphConditionalHandle, CUgraphNode};

use crate::error::CudaResult;
use crate::graph::conditional::Branch;
use crate::graph::{Condition, Graph, Node, NodeId, NodeKind};
use crate::topology::{ConditionalForm, SourceLine};

/// What is known of a node.
#[derive(Clone, Default)]
pub(crate) struct Note {
    pub(crate) line: Option<NoteLine>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) inner: Option<Inner>,
}

/// The line by which a node came.
#[derive(Clone)]
pub(crate) enum NoteLine {
    /// Of this program.
    Here(&'static Location<'static>),
    /// As a file tells it.
    Told(Arc<SourceLine>),
}

/// What is known of the graphs within a node.
#[derive(Clone)]
pub(crate) enum Inner {
    /// Of the nodes of a child graph, in their order.
    Child(Arc<[Note]>),
    /// Of a conditional node.
    Branching(Arc<Branching>),
}

/// A conditional node, of which the driver tells nothing but that it is one.
pub(crate) struct Branching {
    pub(crate) node: CUgraphNode,
    pub(crate) branch: Branch,
    /// What it goes by.
    pub(crate) handle: CUgraphConditionalHandle,
    /// What each launch begins with.
    pub(crate) default: Option<u32>,
    /// The word that is looked at, if it goes by one.
    pub(crate) word: Option<CUdeviceptr>,
    pub(crate) bodies: Vec<Body>,
}

/// The body of a conditional node: a graph that the driver owns by the node, and that nothing
/// changes any more.
pub(crate) struct Body {
    pub(crate) graph: CUgraph,
    /// Of its nodes, in their order.
    pub(crate) notes: Vec<Note>,
}

// SAFETY: handles belong to no thread. They are given to the driver by who borrows the graph that has
// the node, which one thread at a time does (O8).
unsafe impl Send for Branching {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Branching {}

impl Branching {
    pub(crate) fn new(
        node: CUgraphNode,
        branch: Branch,
        condition: &Condition,
        word: Option<CUdeviceptr>,
        bodies: Vec<Body>,
    ) -> Arc<Branching> {
        let (handle, default) = (condition.handle, condition.default);
        Arc::new(Branching { node, branch, handle, default, word, bodies })
    }

    pub(crate) fn form(&self) -> ConditionalForm {
        match self.branch {
            Branch::If | Branch::IfElse => ConditionalForm::If,
            Branch::While => ConditionalForm::While,
            Branch::Switch(_) => ConditionalForm::Switch,
        }
    }
}

impl Note {
    /// At a line of this program.
    pub(crate) fn at(line: &'static Location<'static>) -> Note {
        Note { line: Some(NoteLine::Here(line)), ..Note::default() }
    }

    pub(crate) fn set_line(&mut self, line: &'static Location<'static>) {
        self.line = Some(NoteLine::Here(line));
    }

    /// Whether nothing is known, of the graphs within it either.
    fn is_empty(&self) -> bool {
        self.line.is_none() && self.label.is_none() && self.inner.is_none()
    }

    /// Takes what is known by another one in its place.
    fn update(&mut self, other: &Note) {
        self.line = other.line.clone().or(self.line.take());
        self.label = other.label.clone().or(self.label.take());
        self.inner = other.inner.clone().or(self.inner.take());
    }

    pub(crate) fn source_line(&self) -> Option<SourceLine> {
        self.line.as_ref().map(|line| match line {
            NoteLine::Here(line) => (*line).into(),
            NoteLine::Told(line) => SourceLine::clone(line),
        })
    }

    /// What is known of the nodes of a child graph.
    pub(crate) fn child(&self) -> &[Note] {
        match &self.inner {
            Some(Inner::Child(notes)) => notes,
            _ => &[],
        }
    }

    /// What is known of the conditional node.
    pub(crate) fn branching(&self) -> Option<&Arc<Branching>> {
        match &self.inner {
            Some(Inner::Branching(branching)) => Some(branching),
            _ => None,
        }
    }
}

/// The notes of a graph by node: those of the nodes that were added by hand, or labelled.
#[derive(Default)]
pub(super) struct Notes {
    nodes: HashMap<NodeId, Note>,
}

impl Notes {
    pub(super) fn set(&mut self, node: NodeId, note: Note) {
        self.nodes.insert(node, note);
    }

    /// The note of a node, to change.
    pub(super) fn of(&mut self, node: NodeId) -> &mut Note {
        self.nodes.entry(node).or_default()
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    fn get(&self, node: NodeId) -> Option<&Note> {
        self.nodes.get(&node)
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied()
    }

    /// The same for a copy of the graph, whose nodes have other names.
    pub(super) fn renamed(&self, name: impl Fn(NodeId) -> Option<NodeId>) -> Notes {
        let renamed = |(node, note): (&NodeId, &Note)| Some((name(*node)?, note.clone()));
        Notes { nodes: self.nodes.iter().filter_map(renamed).collect() }
    }
}

impl Graph {
    /// What is known of each of the graph's nodes, which are these.
    pub(super) fn notes(&self, nodes: &[Node]) -> Vec<Note> {
        let own = self.built.as_ref().map(|built| &built.notes);
        let by_hand = |index: usize| {
            let node = nodes.get(index).and_then(|node| own?.get(node.id()));
            node.is_some_and(|note| note.line.is_some())
        };
        let mut notes = self.recorded.notes(nodes, by_hand);
        for (note, node) in notes.iter_mut().zip(nodes) {
            if let Some(own) = own.and_then(|own| own.get(node.id())) {
                note.update(own);
            }
            // Other hands can have removed the node: then its bodies are gone.
            if note.branching().is_some() && node.kind() != NodeKind::Conditional {
                note.inner = None;
            }
        }
        notes
    }

    /// What is known of one node.
    pub(super) fn note(&self, node: NodeId) -> CudaResult<Note> {
        let nodes = self.nodes()?;
        let index = nodes.iter().position(|other| other.id() == node);
        let note = index.and_then(|index| self.notes(&nodes).into_iter().nth(index));
        Ok(note.unwrap_or_default())
    }

    /// What is known of the nodes, to be kept where the graph is embedded; none if that is nothing.
    pub(crate) fn inner_notes(&self) -> CudaResult<Option<Arc<[Note]>>> {
        if self.built.is_none() && self.recorded.is_empty() {
            return Ok(None);
        }
        let notes = self.notes(&self.nodes()?);
        Ok(notes.iter().any(|note| !note.is_empty()).then(|| notes.into()))
    }

    /// Whether it has conditional nodes that are known.
    pub(super) fn has_branchings(&self) -> bool {
        let built = || self.built.iter().flat_map(|built| built.notes.nodes.values());
        self.recorded.has_branchings() || built().any(|note| note.branching().is_some())
    }

    /// Notes the word that a conditional node goes by at last.
    pub(super) fn note_word(&mut self, node: NodeId, word: Option<CUdeviceptr>) {
        if let Some(Inner::Branching(branching)) = &mut self.built().notes.of(node).inner
            && let Some(branching) = Arc::get_mut(branching)
        {
            branching.word = word;
        }
    }

    /// Keeps what is known of these nodes by their names, and no more by their order.
    pub(super) fn settle(&mut self, nodes: &[Node]) {
        if self.recorded.is_empty() {
            return;
        }
        let notes = self.notes(nodes);
        self.recorded.forget();
        let own = &mut self.built().notes;
        for (node, note) in nodes.iter().zip(notes).filter(|(_, note)| !note.is_empty()) {
            own.set(node.id(), note);
        }
    }
}

impl Graph {
    /// Gives a node a label, in the place of the one that it has, which
    /// [`topology`](Graph::topology) and [`profile`](Graph::profile) show.
    /// [`StreamGraphCapture::labelled`](crate::StreamGraphCapture::labelled) labels what is captured.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 64)?;
    /// let mut graph = Graph::new(&context)?;
    /// let reset = graph.add_fill(FillNode::new(&mut words, 0)?, &[])?;
    /// graph.set_label(reset, "reset")?;
    /// assert_eq!(graph.topology()?.nodes()[0].label(), Some("reset"));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::CudaError::Refused): a node of another graph, or that was removed.
    pub fn set_label(&mut self, node: NodeId, label: &str) -> CudaResult<()> {
        self.require(node, "node")?;
        self.built().notes.of(node).label = Some(label.into());
        Ok(())
    }
}

/// Whether the driver tells of graphs within nodes of the kind only through this library.
pub(super) fn has_graphs(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::ChildGraph | NodeKind::Conditional)
}
