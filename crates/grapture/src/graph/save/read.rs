//! A graph from what a file holds.

use std::collections::HashMap;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_NOT_SUPPORTED, CUgraphEdgeData};

use crate::error::{CudaError, CudaResult};
use crate::graph::conditional::Branch;
use crate::graph::notes::NoteLine;
use crate::graph::save::bindings::{Bindings, BoundMemory};
use crate::graph::save::check::{check_edges, check_lives};
use crate::graph::save::format::{
    MemoryKind, Place, SavedBranch, SavedForm, SavedGraph, SavedMemory, SavedModule, SavedNode,
    SavedNodes, SavedOperation, SavedSteer, refused, sha256,
};
use crate::graph::steer::{steer, steering};
use crate::graph::{Condition, EdgeData, Graph, NodeId, WordCondition, body_misfit};
use crate::memory::BufferInner;
use crate::module::{JitOptions, Module};
use crate::retain::Owners;

/// # Safety
///
/// That of [`Graph::load`].
pub(super) unsafe fn loaded(saved: &SavedGraph, bindings: &Bindings) -> CudaResult<Graph> {
    let modules = saved.modules.iter();
    // SAFETY: the caller's promise.
    let modules = modules.map(|module| unsafe { self::module(module, bindings) });
    let modules = modules.collect::<CudaResult<_>>()?;
    let memory = saved.memory.iter().map(|memory| self::memory(memory, bindings));
    let memory = memory.collect::<CudaResult<_>>()?;
    let mut graph = Graph::new(&bindings.context)?;
    let conditions = saved.conditions.iter().map(|default| graph.condition(*default));
    let conditions: Vec<Condition> = conditions.collect::<CudaResult<_>>()?;
    // They stand as numbers in the arguments of kernels.
    if !conditions.iter().zip(1..).all(|(condition, number)| condition.handle == number) {
        return Err(CudaError::from(CUDA_ERROR_NOT_SUPPORTED));
    }
    let loader = Loader { saved, bindings, modules, memory, conditions };
    // SAFETY: the caller's promise.
    unsafe { loader.fill(&mut graph, &saved.top) }?;
    Ok(graph)
}

/// The module that is bound for an image, or else that of the image in the file.
///
/// # Safety
///
/// An image that is not text is a whole and well-formed one.
unsafe fn module(saved: &SavedModule, bindings: &Bindings) -> CudaResult<Module> {
    let sha = &saved.sha256;
    if let Some(bound) = bindings.modules.iter().find(|bound| bound.sha256 == *sha) {
        return Ok(bound.module.clone());
    }
    let image = saved.image.as_ref().ok_or_else(|| {
        refused(format!(
            "the module of the image with SHA-256 {sha} is not bound, and the file does not have it"
        ))
    })?;
    let image = image.bytes().filter(|image| sha256(image) == *sha).ok_or_else(|| {
        refused(format!("the image in it that should have SHA-256 {sha} is another one"))
    })?;
    // SAFETY: the caller's promise.
    unsafe { Module::from_image(&bindings.context, &image, JitOptions::new()) }
}

/// The memory that is bound by a name; none if a node allocates it.
fn memory<'a>(saved: &SavedMemory, bindings: &'a Bindings) -> CudaResult<Option<&'a BoundMemory>> {
    if saved.kind == MemoryKind::Graph {
        return Ok(None);
    }
    let name = &saved.name;
    let found =
        bindings.named(name).ok_or_else(|| refused(format!("the memory {name:?} is not bound")))?;
    if found.kind() != saved.kind {
        return Err(refused(format!(
            "the memory {name:?} is {:?} memory here, and was {:?} memory",
            found.kind(),
            saved.kind
        )));
    }
    if found.bytes < saved.bytes {
        return Err(refused(format!(
            "the memory {name:?} has {} bytes here, and had {}",
            found.bytes, saved.bytes
        )));
    }
    Ok(Some(found))
}

pub(super) struct Loader<'a> {
    saved: &'a SavedGraph,
    pub(super) bindings: &'a Bindings,
    pub(super) modules: Vec<Module>,
    /// None for what nodes allocate.
    memory: Vec<Option<&'a BoundMemory>>,
    conditions: Vec<Condition>,
}

/// What the nodes of one graph have allocated so far, by the number of the memory.
pub(super) type Allocated = HashMap<usize, Arc<BufferInner>>;

/// A place in memory that is there.
pub(super) struct Found<'a> {
    pub(super) address: u64,
    memory: FoundMemory<'a>,
}

enum FoundMemory<'a> {
    Bound(&'a BoundMemory),
    Allocated(&'a Arc<BufferInner>),
}

impl<'a> Found<'a> {
    pub(super) fn kind(&self) -> MemoryKind {
        match self.memory {
            FoundMemory::Bound(memory) => memory.kind(),
            FoundMemory::Allocated(_) => MemoryKind::Device,
        }
    }

    /// The device memory that it lies in.
    pub(super) fn device(&self) -> CudaResult<&'a Arc<BufferInner>> {
        let device = match self.memory {
            FoundMemory::Bound(memory) => memory.device(),
            FoundMemory::Allocated(memory) => Some(memory),
        };
        device.ok_or_else(|| refused("it has a word in memory of the host".to_owned()))
    }

    /// Keeps the memory alive for a node that reads it, or that may write it.
    pub(super) fn retain(&self, owners: &mut Owners, written: bool) {
        match self.memory {
            FoundMemory::Bound(memory) => memory.retain(owners, written),
            FoundMemory::Allocated(memory) => owners.retain_memory(memory),
        }
    }
}

impl Loader<'_> {
    /// Adds nodes to a graph that has none.
    ///
    /// # Safety
    ///
    /// That of [`Graph::load`].
    unsafe fn fill(&self, graph: &mut Graph, saved: &SavedNodes) -> CudaResult<()> {
        check_edges(saved)?;
        check_lives(saved)?;
        // The file says what comes after what, and that was just checked.
        graph.order_exactly(true);
        let mut before = vec![Vec::new(); saved.nodes.len()];
        let early = |from: usize, to: usize, data: EdgeData| from < to && data == EdgeData::FULL;
        let edges = saved.edges.iter();
        let edges: Vec<_> = edges.map(|edge| (edge.from, edge.to, data_of(edge))).collect();
        for (from, to, _) in edges.iter().filter(|(from, to, data)| early(*from, *to, *data)) {
            // INVARIANT: `check_edges` has found a node for both ends.
            before[*to].push(*from);
        }
        let (mut nodes, mut allocated) = (Vec::with_capacity(saved.nodes.len()), HashMap::new());
        for (index, (node, before)) in saved.nodes.iter().zip(before).enumerate() {
            // INVARIANT: only nodes that come before were kept.
            let after: Vec<NodeId> = before.into_iter().map(|node| nodes[node]).collect();
            // SAFETY: the caller's promise.
            let added = unsafe { self.add(graph, node, &after, &mut allocated) };
            let added = added.map_err(|error| within(index, error))?;
            graph.note_read(added, node.line.clone(), node.label.as_deref());
            nodes.push(added);
        }
        for (from, to, data) in
            edges.into_iter().filter(|(from, to, data)| !early(*from, *to, *data))
        {
            // INVARIANT: as above.
            graph.add_dependency_with(nodes[from], nodes[to], data)?;
        }
        graph.order_exactly(false);
        Ok(())
    }

    /// # Safety
    ///
    /// That of [`Graph::load`].
    unsafe fn add(
        &self,
        graph: &mut Graph,
        node: &SavedNode,
        after: &[NodeId],
        allocated: &mut Allocated,
    ) -> CudaResult<NodeId> {
        match &node.operation {
            SavedOperation::Empty => graph.add_empty(after),
            SavedOperation::Kernel(kernel) => {
                // SAFETY: the caller's promise.
                unsafe { self.add_kernel(graph, kernel, after, allocated) }
            }
            SavedOperation::Copy(copy) => graph.add_copy(self.copy(copy, allocated)?, after),
            SavedOperation::Fill(fill) => graph.add_fill(self.fill_of(fill, allocated)?, after),
            SavedOperation::Batch(words) => graph.add_batch(self.batch(words, allocated)?, after),
            SavedOperation::Host(name) => {
                let function = self.bindings.named_host(name).cloned();
                let function = function.ok_or_else(|| not_bound("function", name))?;
                graph.add_host(move || function(), after)
            }
            SavedOperation::EventRecord(name) => {
                let event = self.bindings.named_event(name);
                graph.add_event_record(event.ok_or_else(|| not_bound("event", name))?, after)
            }
            SavedOperation::EventWait(name) => {
                let event = self.bindings.named_event(name);
                graph.add_event_wait(event.ok_or_else(|| not_bound("event", name))?, after)
            }
            SavedOperation::Allocate(memory) => {
                let own = self.saved.memory.get(*memory);
                let own = own.filter(|memory| memory.kind == MemoryKind::Graph);
                let own = own.ok_or_else(|| refused("it allocates what is bound".to_owned()))?;
                let bytes = usize::try_from(own.bytes).unwrap_or(usize::MAX);
                let made = graph.alloc_memory(bytes, after)?;
                // INVARIANT: `alloc_memory` made it so.
                let known = made.graph_memory().expect("a node of a graph allocates it");
                let node = known.allocated_by;
                allocated.insert(*memory, made);
                Ok(node)
            }
            SavedOperation::Free(memory) => {
                let memory = allocated.get(memory);
                let memory =
                    memory.ok_or_else(|| refused("it frees what is not there".to_owned()))?;
                graph.free_memory(memory, after)
            }
            SavedOperation::Child(child) => {
                let mut inner = Graph::new(&self.bindings.context)?;
                // SAFETY: the caller's promise.
                unsafe { self.fill(&mut inner, child) }?;
                match inner.refuse_memory_nodes("") {
                    Ok(()) => graph.add_child(&inner, after),
                    Err(_) => graph.add_child_moved(inner, after),
                }
            }
            SavedOperation::Steer(saved) => self.steer(graph, saved, after, allocated),
            // SAFETY: the caller's promise.
            SavedOperation::Branch(branch) => unsafe {
                self.branch(graph, branch, after, allocated)
            },
        }
    }

    fn condition(&self, index: usize) -> CudaResult<&Condition> {
        let condition = self.conditions.get(index);
        condition.ok_or_else(|| refused(format!("it names condition {index}, and there is none")))
    }

    fn word(&self, place: Place, allocated: &Allocated) -> CudaResult<WordCondition> {
        let found = self.place(place, size_of::<u32>() as u64, allocated)?;
        if !found.address.is_multiple_of(size_of::<u32>() as u64) {
            return Err(refused("its word is not aligned to 4 bytes".to_owned()));
        }
        Ok(WordCondition { address: found.address, owner: found.device()?.clone() })
    }

    fn steer(
        &self,
        graph: &mut Graph,
        saved: &SavedSteer,
        after: &[NodeId],
        allocated: &Allocated,
    ) -> CudaResult<NodeId> {
        let (condition, word) =
            (self.condition(saved.condition)?, self.word(saved.word, allocated)?);
        let kernel = steering(&self.bindings.context)?;
        // SAFETY: the kernel takes a condition of this graph and the address of a word.
        unsafe { graph.add_kernel(steer(&kernel, condition, &word), after) }
    }

    /// # Safety
    ///
    /// That of [`Graph::load`].
    unsafe fn branch(
        &self,
        graph: &mut Graph,
        saved: &SavedBranch,
        after: &[NodeId],
        allocated: &Allocated,
    ) -> CudaResult<NodeId> {
        let branch = match (saved.form, saved.bodies.len()) {
            (SavedForm::If, 1) => Branch::If,
            (SavedForm::If, 2) => Branch::IfElse,
            (SavedForm::While, 1) => Branch::While,
            (SavedForm::Switch, bodies) => {
                Branch::Switch(u32::try_from(bodies).unwrap_or(u32::MAX))
            }
            (form, bodies) => {
                return Err(refused(format!("it is a `{form:?}` of {bodies} bodies")));
            }
        };
        let condition = self.condition(saved.condition)?;
        let word = saved.word.map(|word| self.word(word, allocated)).transpose()?;
        let node = graph.add_decided(branch, condition, after, &mut |index, body| {
            let body = body.graph_mut();
            // INVARIANT: there are as many bodies as the form says.
            let nodes = &saved.bodies[index];
            // SAFETY: the caller's promise.
            unsafe { self.fill(body, nodes) }?;
            // SAFETY: a live graph that is borrowed.
            let misfit = unsafe { body_misfit(body.context(), body.raw()) }?;
            misfit.map_or(Ok(()), |(node, kind)| {
                let problem = "cannot be in the body of a conditional node";
                Err(refused(format!("node {node} of body {index} is a {kind}, which {problem}")))
            })
        })?;
        graph.note_word(node, word.map(|word| word.address));
        Ok(node)
    }

    /// A place with so many bytes from there on.
    pub(super) fn place<'s>(
        &'s self,
        place: Place,
        bytes: u64,
        allocated: &'s Allocated,
    ) -> CudaResult<Found<'s>> {
        let Place { memory, offset } = place;
        let saved = self.saved.memory.get(memory);
        let saved =
            saved.ok_or_else(|| refused(format!("it names memory {memory}, and there is none")))?;
        let (start, has, found) = match self.memory.get(memory) {
            Some(Some(bound)) => (bound.start, bound.bytes, FoundMemory::Bound(bound)),
            _ => {
                let memory = allocated.get(&memory).ok_or_else(|| {
                    refused("it uses memory that no node before it allocates".to_owned())
                })?;
                (memory.address(), memory.bytes() as u64, FoundMemory::Allocated(memory))
            }
        };
        if offset.checked_add(bytes).is_none_or(|end| end > has) {
            let name = &saved.name;
            return Err(refused(format!("it reaches past the {has} bytes of the memory {name:?}")));
        }
        Ok(Found { address: start + offset, memory: found })
    }
}

fn data_of(edge: &crate::graph::save::format::SavedEdge) -> EdgeData {
    EdgeData::from(CUgraphEdgeData {
        from_port: edge.from_port,
        to_port: edge.to_port,
        type_: edge.kind,
        ..CUgraphEdgeData::default()
    })
}

#[cold]
fn not_bound(what: &str, name: &str) -> CudaError {
    refused(format!("the {what} {name:?} is not bound"))
}

/// Says at which node.
#[cold]
fn within(index: usize, error: CudaError) -> CudaError {
    match &error {
        CudaError::Refused(refusal) => {
            refused(format!("node {index}: {}: {}", refusal.what(), refusal.problem()))
        }
        _ => error,
    }
}

impl Graph {
    /// Notes what a file tells of a node.
    fn note_read(
        &mut self,
        node: NodeId,
        line: Option<crate::topology::SourceLine>,
        label: Option<&str>,
    ) {
        let note = self.built().notes.of(node);
        note.line = line.map(|line| NoteLine::Told(Arc::new(line)));
        note.label = label.map(Arc::from);
    }
}
