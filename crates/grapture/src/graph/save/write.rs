//! A graph as what a file holds.

use std::collections::HashMap;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUgraphEdgeData, CUgraphNode};

use crate::error::{CudaError, CudaResult};
use crate::graph::read::Reader;
use crate::graph::save::bindings::Bindings;
use crate::graph::save::format::{
    Place, SavedAddress, SavedArgument, SavedCopy, SavedEdge, SavedFill, SavedGraph, SavedKernel,
    SavedMemory, SavedModule, SavedNode, SavedNodes, hex,
};
use crate::graph::{Graph, NodeKind, NodeParams, Note};
use crate::launch::KernelAttribute;
use crate::topology::names::Names;

/// The size of an address in bytes.
const WORD: usize = size_of::<u64>();

pub(super) fn saved(graph: &Graph, bindings: &Bindings) -> CudaResult<SavedGraph> {
    let modules = bindings.modules.iter();
    let modules = modules.map(|bound| SavedModule { sha256: bound.sha256.clone() }).collect();
    let memory = bindings.memory.iter().map(|bound| SavedMemory {
        name: bound.name.clone(),
        kind: bound.kind(),
        bytes: bound.bytes,
    });
    let memory = memory.collect();
    let mut writer = Writer { bindings, names: Names::new(&graph.context), path: String::new() };
    let top = writer.nodes(&graph.reader())?;
    Ok(SavedGraph { modules, memory, top })
}

struct Writer<'a> {
    bindings: &'a Bindings,
    /// To tell an address from a number.
    names: Names<'a>,
    /// The node that is written, through the graphs that it lies in.
    path: String,
}

impl Writer<'_> {
    fn nodes(&mut self, reader: &Reader<'_>) -> CudaResult<SavedNodes> {
        let raw = reader.nodes()?;
        let mut nodes = Vec::with_capacity(raw.len());
        for (index, node) in raw.iter().enumerate() {
            let outer = self.path.len();
            self.path += &format!("{}{index}", if outer == 0 { "node " } else { "." });
            nodes.push(self.node(reader, *node)?);
            self.path.truncate(outer);
        }
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

    fn node(&mut self, reader: &Reader<'_>, node: CUgraphNode) -> CudaResult<SavedNode> {
        let kind = reader.kind(node)?;
        if kind == NodeKind::ChildGraph {
            return Ok(SavedNode::Child(self.nodes(&reader.child(node)?)?));
        }
        match reader.params(node, &Note::default())? {
            NodeParams::Empty => Ok(SavedNode::Empty),
            NodeParams::Kernel { name, grid, block, shared_bytes, arguments, attributes } => {
                let arguments = arguments.ok_or_else(|| {
                    self.refused("the driver does not tell the arguments of its kernel")
                })?;
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
                Ok(SavedNode::Kernel(kernel))
            }
            NodeParams::Memcpy { target, source, width_bytes, height, depth } => {
                if depth > 1 {
                    return Err(self.refused("it copies a volume, which has no form in a file"));
                }
                Ok(SavedNode::Copy(SavedCopy {
                    from: self.place(source.address())?,
                    from_pitch: source.pitch_bytes() as u64,
                    to: self.place(target.address())?,
                    to_pitch: target.pitch_bytes() as u64,
                    row_bytes: width_bytes as u64,
                    rows: height.max(1) as u64,
                }))
            }
            NodeParams::Memset { address, value, element_bytes, width, height, pitch_bytes } => {
                Ok(SavedNode::Fill(SavedFill {
                    to: self.place(address)?,
                    pitch: pitch_bytes as u64,
                    value,
                    element_bytes: element_bytes as u64,
                    row_elements: width as u64,
                    rows: height.max(1) as u64,
                }))
            }
            _ => Err(self.refused(&format!("its kind is `{kind}`, which has no form in a file"))),
        }
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
            match self.bound(address) {
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

    fn place(&self, address: u64) -> CudaResult<Place> {
        self.bound(address).ok_or_else(|| self.not_bound())
    }

    fn bound(&self, address: u64) -> Option<Place> {
        let holds =
            |start: u64, bytes: u64| address.checked_sub(start).is_some_and(|at| at < bytes);
        let bound = self.bindings.memory.iter();
        let memory = bound.clone().position(|bound| holds(bound.start, bound.bytes))?;
        let start = self.bindings.memory.get(memory)?.start;
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
    fn refused(&self, problem: &str) -> CudaError {
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
