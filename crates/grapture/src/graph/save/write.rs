//! A graph as what a file holds.

use std::collections::{HashMap, HashSet};

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUgraphEdgeData, CUgraphNode};

use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::graph::conditional::Branch;
use crate::graph::read::Reader;
use crate::graph::rebuild::gather;
use crate::graph::save::bindings::Bindings;
use crate::graph::save::format::{
    MemoryKind, Place, SavedAddress, SavedArgument, SavedBranch, SavedCopy, SavedEdge, SavedFill,
    SavedForm, SavedGraph, SavedImage, SavedKernel, SavedMemory, SavedModule, SavedNode,
    SavedNodes, SavedOperation, SavedSteer, hex,
};
use crate::graph::save::write_words;
use crate::graph::steer::steering;
use crate::graph::{Branching, CopyEnd, Graph, NodeKind, NodeParams, Note};
use crate::launch::KernelAttribute;
use crate::topology::names::Names;

/// The size of an address in bytes.
const WORD: usize = size_of::<u64>();
/// The name of the kernel by which a word decides.
const STEER: &str = "steer";

pub(super) fn saved(graph: &Graph, bindings: &Bindings) -> CudaResult<SavedGraph> {
    let modules = bindings.modules.iter().map(|bound| SavedModule {
        sha256: bound.sha256.clone(),
        image: bound.image.as_deref().map(SavedImage::of),
    });
    let memory = bindings.memory.iter().map(|bound| SavedMemory {
        name: bound.name.clone(),
        kind: bound.kind(),
        bytes: bound.bytes,
    });
    let ranges = bindings.memory.iter().map(|bound| (bound.start, bound.bytes)).collect();
    let nodes = graph.nodes()?;
    let notes = graph.notes(&nodes);
    let conditions = conditions(&notes)?;
    let mut writer = Writer {
        bindings,
        context: &graph.context,
        names: Names::new(&graph.context),
        path: String::new(),
        memory: memory.collect(),
        ranges,
    };
    let top = writer.nodes(&graph.reader(), &notes)?;
    Ok(SavedGraph { modules: modules.collect(), memory: writer.memory, conditions, top })
}

/// What each launch begins with, for the conditions that nodes with these notes go by. They are
/// numbers, counted from 1, and stand as such in the arguments of kernels.
fn conditions(notes: &[Note]) -> CudaResult<Vec<Option<u32>>> {
    let mut branchings = Vec::new();
    gather(notes, &mut branchings);
    branchings.sort_unstable_by_key(|branching| branching.handle);
    if branchings.iter().zip(1..).all(|(branching, number)| branching.handle == number) {
        return Ok(branchings.iter().map(|branching| branching.default).collect());
    }
    Err(CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "graph.nodes",
        "there is a condition that no conditional node goes by",
    ))
}

pub(super) struct Writer<'a> {
    bindings: &'a Bindings,
    context: &'a Context,
    /// To tell an address from a number.
    names: Names<'a>,
    /// The node that is written, through the graphs that it lies in.
    path: String,
    /// What is bound, then what nodes allocate.
    memory: Vec<SavedMemory>,
    /// Where each of that begins, and how many bytes it has.
    ranges: Vec<(u64, u64)>,
}

impl Writer<'_> {
    fn nodes(&mut self, reader: &Reader<'_>, notes: &[Note]) -> CudaResult<SavedNodes> {
        let raw = reader.nodes()?;
        let (mut nodes, nothing) = (Vec::with_capacity(raw.len()), Note::default());
        for (index, node) in raw.iter().enumerate() {
            let outer = self.path.len();
            self.path += &format!("{}{index}", if outer == 0 { "node " } else { "." });
            let note = notes.get(index).filter(|_| notes.len() == raw.len()).unwrap_or(&nothing);
            let operation = self.node(reader, *node, note)?;
            let label = note.label.as_deref().map(str::to_owned);
            nodes.push(SavedNode { label, line: note.source_line(), operation });
            self.path.truncate(outer);
        }
        self.check_freed(&nodes)?;
        let index: HashMap<_, _> =
            raw.iter().enumerate().map(|(index, node)| (*node, index)).collect();
        let edges = reader.edges()?.into_iter().filter_map(|(from, to, data)| {
            let data = CUgraphEdgeData::from(data);
            let (from, to) = (*index.get(&from)?, *index.get(&to)?);
            let (from_port, to_port) = (data.from_port, data.to_port);
            Some(SavedEdge { from, to, from_port, to_port, kind: data.type_ })
        });
        Ok(SavedNodes { nodes, edges: edges.collect() })
    }

    /// Refuses memory that each launch leaves.
    fn check_freed(&self, nodes: &[SavedNode]) -> CudaResult<()> {
        let freed = nodes.iter().filter_map(|node| match node.operation {
            SavedOperation::Free(memory) => Some(memory),
            _ => None,
        });
        let freed: HashSet<_> = freed.collect();
        let left = nodes.iter().position(|node| match node.operation {
            SavedOperation::Allocate(memory) => !freed.contains(&memory),
            _ => false,
        });
        let Some(node) = left else { return Ok(()) };
        let path =
            if self.path.is_empty() { "node ".to_owned() } else { format!("{}.", self.path) };
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            "graph.nodes",
            format!("{path}{node}: no node frees the memory that it allocates"),
        ))
    }

    fn node(
        &mut self,
        reader: &Reader<'_>,
        node: CUgraphNode,
        note: &Note,
    ) -> CudaResult<SavedOperation> {
        if let Some(branching) = note.branching() {
            return self.branching(reader, branching);
        }
        let kind = reader.kind(node)?;
        if kind == NodeKind::ChildGraph {
            let child = self.nodes(&reader.child(node)?, note.child())?;
            return Ok(SavedOperation::Child(child));
        }
        match reader.params(node, note)? {
            NodeParams::Empty => Ok(SavedOperation::Empty),
            NodeParams::Host => self.host(note),
            params @ NodeParams::Kernel { .. } => self.kernel(reader, node, params),
            NodeParams::Memcpy { target, source, width_bytes, height, depth } => {
                self.copy(&target, &source, (width_bytes, height, depth))
            }
            NodeParams::Memset { address, value, element_bytes, width, height, pitch_bytes } => {
                Ok(SavedOperation::Fill(SavedFill {
                    to: self.place(address)?,
                    pitch: pitch_bytes as u64,
                    value,
                    element_bytes: element_bytes as u64,
                    row_elements: width as u64,
                    rows: height.max(1) as u64,
                }))
            }
            NodeParams::EventRecord(event) => Ok(SavedOperation::EventRecord(self.event(event)?)),
            NodeParams::EventWait(event) => Ok(SavedOperation::EventWait(self.event(event)?)),
            NodeParams::BatchMemOp(operations) => {
                let words = operations.iter().map(|one| write_words::saved(self, one));
                Ok(SavedOperation::Batch(words.collect::<CudaResult<_>>()?))
            }
            NodeParams::MemAlloc { address, bytes } => {
                let name = format!("allocated by {}", self.path);
                let (kind, bytes) = (MemoryKind::Graph, bytes as u64);
                self.memory.push(SavedMemory { name, kind, bytes });
                self.ranges.push((address, bytes));
                Ok(SavedOperation::Allocate(self.memory.len() - 1))
            }
            NodeParams::MemFree { address } => {
                Ok(SavedOperation::Free(self.place(address)?.memory))
            }
            _ => Err(self.refused(&format!("its kind is `{kind}`, which has no form in a file"))),
        }
    }

    fn branching(&mut self, reader: &Reader<'_>, node: &Branching) -> CudaResult<SavedOperation> {
        let form = match node.branch {
            Branch::If | Branch::IfElse => SavedForm::If,
            Branch::While => SavedForm::While,
            Branch::Switch(_) => SavedForm::Switch,
        };
        let word = node.word.map(|word| self.place(word)).transpose()?;
        let mut bodies = Vec::with_capacity(node.bodies.len());
        let outer = self.path.len();
        for (index, body) in node.bodies.iter().enumerate() {
            self.path += &format!(".body {index}");
            bodies.push(self.nodes(&reader.body(body), &body.notes)?);
            self.path.truncate(outer);
        }
        let condition = self.condition(node.handle)?;
        Ok(SavedOperation::Branch(SavedBranch { form, condition, word, bodies }))
    }

    fn condition(&self, handle: u64) -> CudaResult<usize> {
        let index = handle.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index.ok_or_else(|| self.refused("its condition is none of the graph"))
    }

    fn host(&self, note: &Note) -> CudaResult<SavedOperation> {
        let name = note.label.as_deref().filter(|name| self.bindings.named_host(name).is_some());
        let name = name.ok_or_else(|| {
            self.refused(&format!(
                "it calls a function of the host, and {}: label the node with a name that \
                 `Bindings::host` gives a function",
                match &note.label {
                    Some(label) => format!("none is bound by its label {label:?}"),
                    None => "has no label".to_owned(),
                }
            ))
        })?;
        Ok(SavedOperation::Host(name.to_owned()))
    }

    fn event(&self, event: grapture_sys::CUevent) -> CudaResult<String> {
        let known = self.bindings.events.iter().find(|(_, bound)| bound.as_raw() == event);
        let name = known.map(|(name, _)| name.clone());
        name.ok_or_else(|| self.refused("its event is not bound: `Bindings::event` adds it"))
    }

    fn kernel(
        &mut self,
        reader: &Reader<'_>,
        node: CUgraphNode,
        params: NodeParams,
    ) -> CudaResult<SavedOperation> {
        let NodeParams::Kernel { name, grid, block, shared_bytes, arguments, attributes } = params
        else {
            return Err(self.refused("it is no kernel"));
        };
        let arguments = arguments
            .ok_or_else(|| self.refused("the driver does not tell the arguments of its kernel"))?;
        if name == STEER && self.is_steering(reader, node)? {
            return self.steer(&arguments);
        }
        let mut kernel = SavedKernel {
            module: self.module(reader, node)?,
            name,
            grid,
            block,
            shared_bytes,
            arguments: Vec::with_capacity(arguments.len()),
            priority: None,
            cluster: None,
            cooperative: false,
            memory_sync_domain: None,
        };
        for bytes in &arguments {
            kernel.arguments.push(self.argument(bytes)?);
        }
        attributes.iter().for_each(|attribute| kernel.set(*attribute));
        Ok(SavedOperation::Kernel(kernel))
    }

    /// Whether a kernel is the library's own.
    fn is_steering(&self, reader: &Reader<'_>, node: CUgraphNode) -> CudaResult<bool> {
        let own = steering(self.context)?;
        let module = reader.module_of(node)?;
        Ok(module.is_some_and(|module| module.as_raw() == own.module().as_raw()))
    }

    fn steer(&self, arguments: &[Box<[u8]>]) -> CudaResult<SavedOperation> {
        let number = |index: usize| {
            let bytes =
                arguments.get(index).and_then(|bytes| <[u8; WORD]>::try_from(&**bytes).ok());
            bytes.map(u64::from_le_bytes).ok_or_else(|| self.refused("it has other arguments"))
        };
        let condition = self.condition(number(0)?)?;
        Ok(SavedOperation::Steer(SavedSteer { condition, word: self.place(number(1)?)? }))
    }

    fn copy(
        &self,
        target: &CopyEnd,
        source: &CopyEnd,
        (row_bytes, height, depth): (usize, usize, usize),
    ) -> CudaResult<SavedOperation> {
        if depth > 1 {
            return Err(self.refused("it copies a volume, which has no form in a file"));
        }
        Ok(SavedOperation::Copy(SavedCopy {
            from: self.place(source.address())?,
            from_pitch: source.pitch_bytes() as u64,
            to: self.place(target.address())?,
            to_pitch: target.pitch_bytes() as u64,
            row_bytes: row_bytes as u64,
            rows: height.max(1) as u64,
        }))
    }

    /// Which of the modules the kernel of a node is of.
    fn module(&self, reader: &Reader<'_>, node: CUgraphNode) -> CudaResult<usize> {
        let module = reader.module_of(node)?;
        let bound = self.bindings.modules.iter();
        let known = |raw| bound.clone().position(|bound| bound.module.as_raw() == raw);
        module.and_then(|module| known(module.as_raw())).ok_or_else(|| {
            self.refused("the module of its kernel is not bound: `Bindings::module` adds it")
        })
    }

    fn argument(&mut self, bytes: &[u8]) -> CudaResult<SavedArgument> {
        let (mut bytes, mut addresses) = (bytes.to_vec(), Vec::new());
        for (index, word) in bytes.chunks_exact_mut(WORD).enumerate() {
            let mut address = [0; WORD];
            address.copy_from_slice(word);
            let address = u64::from_le_bytes(address);
            match self.known(address) {
                Some(place) => {
                    // It means nothing elsewhere, and would make each file another one.
                    word.fill(0);
                    addresses.push(SavedAddress { at: index * WORD, place });
                }
                None if self.names.known(address).is_some() => return Err(self.not_bound()),
                None => {}
            }
        }
        Ok(SavedArgument { bytes: hex(&bytes), addresses })
    }

    pub(super) fn place(&self, address: u64) -> CudaResult<Place> {
        self.known(address).ok_or_else(|| self.not_bound())
    }

    fn known(&self, address: u64) -> Option<Place> {
        let holds =
            |(start, bytes): &(u64, u64)| address.checked_sub(*start).is_some_and(|at| at < *bytes);
        let (bound, own) = self.ranges.split_at_checked(self.bindings.memory.len())?;
        // What is freed can be allocated again by a later node, at the same address.
        let own = own.iter().rposition(holds).map(|index| bound.len() + index);
        let memory = own.or_else(|| bound.iter().position(holds))?;
        let (start, _) = self.ranges.get(memory)?;
        Some(Place { memory, offset: address - start })
    }

    #[cold]
    fn not_bound(&self) -> CudaError {
        self.refused(
            "it uses memory that is not bound: `Bindings::memory` and `Bindings::pinned` add it; \
             copies from ordinary memory of the host cannot be saved",
        )
    }

    #[cold]
    pub(super) fn refused(&self, problem: &str) -> CudaError {
        let problem = format!("{}: {problem}", self.path);
        CudaError::refused(CUDA_ERROR_INVALID_VALUE, "graph.nodes", problem)
    }
}

impl SavedKernel {
    fn set(&mut self, attribute: KernelAttribute) {
        match attribute {
            KernelAttribute::Priority(priority) => {
                self.priority = (priority != 0).then_some(priority);
            }
            KernelAttribute::Cluster(cluster) => self.cluster = Some(cluster),
            KernelAttribute::Cooperative(cooperative) => self.cooperative = cooperative,
            KernelAttribute::MemorySyncDomain(domain) => {
                self.memory_sync_domain = Some(domain.number()).filter(|number| *number != 0);
            }
        }
    }
}
