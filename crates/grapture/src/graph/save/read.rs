//! A graph from what a file holds.

use std::ptr;

use grapture_sys::{
    CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUgraphEdgeData,
};

use crate::error::{CudaError, CudaResult};
use crate::graph::save::bindings::{Bindings, BoundMemory, BoundModule};
use crate::graph::save::format::{
    MemoryKind, Place, SavedArgument, SavedCopy, SavedFill, SavedGraph, SavedKernel, SavedNode,
    SavedNodes, refused, unhex,
};
use crate::graph::{CopyNode, EdgeData, FillNode, Graph, NodeId};
use crate::launch::{LaunchBuilder, MemorySyncDomain};
use crate::retain::Owners;
use crate::topology::{OperationSpec, Topology, TopologyEdge, TopologyNode};

/// The size of an address in bytes.
const WORD: usize = size_of::<u64>();

/// # Safety
///
/// That of [`Graph::load`].
pub(super) unsafe fn loaded(saved: &SavedGraph, bindings: &Bindings) -> CudaResult<Graph> {
    let mut loader = Loader { bindings, modules: Vec::new(), memory: Vec::new() };
    for module in &saved.modules {
        let mut bound = bindings.modules.iter();
        let found = bound.find(|bound| bound.sha256 == module.sha256).ok_or_else(|| {
            let sha256 = &module.sha256;
            refused(format!("the module of the image with SHA-256 {sha256} is not bound"))
        })?;
        loader.modules.push(found);
    }
    for memory in &saved.memory {
        let name = &memory.name;
        let found = bindings
            .named(name)
            .ok_or_else(|| refused(format!("the memory {name:?} is not bound")))?;
        if found.kind() != memory.kind {
            return Err(refused(format!(
                "the memory {name:?} is {:?} memory here, and was {:?} memory",
                found.kind(),
                memory.kind
            )));
        }
        if found.bytes < memory.bytes {
            return Err(refused(format!(
                "the memory {name:?} has {} bytes here, and had {}",
                found.bytes, memory.bytes
            )));
        }
        loader.memory.push(found);
    }
    // SAFETY: the caller's promise.
    unsafe { loader.graph(&saved.top) }
}

struct Loader<'a> {
    bindings: &'a Bindings,
    modules: Vec<&'a BoundModule>,
    memory: Vec<&'a BoundMemory>,
}

impl Loader<'_> {
    /// # Safety
    ///
    /// That of [`Graph::load`].
    unsafe fn graph(&self, saved: &SavedNodes) -> CudaResult<Graph> {
        check_edges(saved)?;
        let mut graph = Graph::new(&self.bindings.context)?;
        let mut nodes = Vec::with_capacity(saved.nodes.len());
        for (index, node) in saved.nodes.iter().enumerate() {
            // SAFETY: the caller's promise.
            let added = unsafe { self.add(&mut graph, node) };
            nodes.push(added.map_err(|error| within(index, error))?);
        }
        for edge in &saved.edges {
            // INVARIANT: `check_edges` has found a node for both ends.
            let (from, to) = (nodes[edge.from], nodes[edge.to]);
            let data = CUgraphEdgeData {
                from_port: edge.from_port,
                to_port: edge.to_port,
                type_: edge.kind,
                ..CUgraphEdgeData::default()
            };
            graph.add_dependency_with(from, to, EdgeData::from(data))?;
        }
        Ok(graph)
    }

    /// # Safety
    ///
    /// That of [`Graph::load`].
    unsafe fn add(&self, graph: &mut Graph, node: &SavedNode) -> CudaResult<NodeId> {
        match node {
            SavedNode::Empty => graph.add_empty(&[]),
            // SAFETY: the caller's promise.
            SavedNode::Kernel(kernel) => unsafe { self.add_kernel(graph, kernel) },
            SavedNode::Copy(copy) => graph.add_copy(self.copy(copy)?, &[]),
            SavedNode::Fill(fill) => graph.add_fill(self.fill(fill)?, &[]),
            SavedNode::Child(child) => {
                // SAFETY: the caller's promise.
                let child = unsafe { self.graph(child) }?;
                graph.add_child(&child, &[])
            }
        }
    }

    /// # Safety
    ///
    /// That of [`Graph::load`].
    unsafe fn add_kernel(&self, graph: &mut Graph, saved: &SavedKernel) -> CudaResult<NodeId> {
        let module = self.modules.get(saved.module).ok_or_else(|| {
            refused(format!("it names module {}, and there is none", saved.module))
        })?;
        let kernel = module.module.kernel(&saved.name)?;
        let sizes = kernel.parameter_sizes().ok_or(CudaError::NotSupported)?;
        let mut owners = Owners::default();
        let arguments = saved.arguments.iter().map(|one| self.argument(one, &mut owners));
        let arguments: Vec<Vec<u8>> = arguments.collect::<CudaResult<_>>()?;
        if !arguments.iter().map(Vec::len).eq(sizes.iter().copied()) {
            return Err(refused(format!(
                "`{}` takes arguments of {sizes:?} bytes, and the file has others",
                saved.name
            )));
        }
        owners.wait_until_ready()?;
        let launch = kernel.launch_builder(saved.grid, saved.block);
        let launch = launch.shared_bytes(saved.shared_bytes).cooperative(saved.cooperative);
        let launch = with(launch, saved.priority, LaunchBuilder::priority);
        let launch = with(launch, saved.cluster, LaunchBuilder::cluster);
        let domain = saved.memory_sync_domain.map(MemorySyncDomain::from_number);
        let launch = with(launch, domain, LaunchBuilder::memory_sync_domain);
        let launch = arguments.iter().fold(launch, |launch, bytes| launch.bytes(bytes));
        graph.share_mut().add(owners);
        // SAFETY: the caller's promise. Numbers and sizes of the arguments are checked there, and
        // the graph keeps the bound memory alive.
        unsafe { graph.add_kernel(launch, &[]) }
    }

    /// The bytes of an argument, with addresses in the memory that is bound now.
    fn argument(&self, saved: &SavedArgument, owners: &mut Owners) -> CudaResult<Vec<u8>> {
        let mut bytes = unhex(&saved.bytes)
            .ok_or_else(|| refused("the bytes of an argument are not hexadecimal".to_owned()))?;
        for address in &saved.addresses {
            let (start, memory) = self.place(address.place, 1)?;
            memory.retain(owners, true);
            let end = address.at.checked_add(WORD);
            let word = end.and_then(|end| bytes.get_mut(address.at..end)).ok_or_else(|| {
                refused("an address reaches past the end of its argument".to_owned())
            })?;
            word.copy_from_slice(&start.to_le_bytes());
        }
        Ok(bytes)
    }

    /// The address of a place with so many bytes from there on, and the memory.
    fn place(&self, place: Place, bytes: u64) -> CudaResult<(u64, &BoundMemory)> {
        let memory = self.memory.get(place.memory).ok_or_else(|| {
            refused(format!("it names memory {}, and there is none", place.memory))
        })?;
        let end = place.offset.checked_add(bytes).filter(|end| *end <= memory.bytes);
        if end.is_none() {
            let (name, has) = (&memory.name, memory.bytes);
            return Err(refused(format!("it reaches past the {has} bytes of the memory {name:?}")));
        }
        Ok((memory.start + place.offset, memory))
    }

    fn copy(&self, saved: &SavedCopy) -> CudaResult<CopyNode> {
        let rows = |pitch| rectangle(saved.row_bytes, saved.rows, pitch);
        let (from, source) = self.place(saved.from, rows(saved.from_pitch)?)?;
        let (to, target) = self.place(saved.to, rows(saved.to_pitch)?)?;
        let mut params = CUDA_MEMCPY3D {
            WidthInBytes: saved.row_bytes as usize,
            Height: saved.rows as usize,
            Depth: 1,
            srcPitch: saved.from_pitch as usize,
            dstPitch: saved.to_pitch as usize,
            ..CUDA_MEMCPY3D::default()
        };
        match source.kind() {
            MemoryKind::Device => {
                (params.srcMemoryType, params.srcDevice) = (CU_MEMORYTYPE_DEVICE, from);
            }
            MemoryKind::Pinned => {
                let pointer = ptr::without_provenance(from as usize);
                (params.srcMemoryType, params.srcHost) = (CU_MEMORYTYPE_HOST, pointer);
            }
        }
        match target.kind() {
            MemoryKind::Device => {
                (params.dstMemoryType, params.dstDevice) = (CU_MEMORYTYPE_DEVICE, to);
            }
            MemoryKind::Pinned => {
                let pointer = ptr::without_provenance_mut(to as usize);
                (params.dstMemoryType, params.dstHost) = (CU_MEMORYTYPE_HOST, pointer);
            }
        }
        let mut owners = Owners::default();
        source.retain(&mut owners, false);
        target.retain(&mut owners, true);
        let context = self.bindings.context.clone();
        Ok(CopyNode { params, owners, context })
    }

    fn fill(&self, saved: &SavedFill) -> CudaResult<FillNode> {
        let most = match saved.element_bytes {
            1 => u32::from(u8::MAX),
            2 => u32::from(u16::MAX),
            4 => u32::MAX,
            other => return Err(refused(format!("it fills with elements of {other} bytes"))),
        };
        let row = saved.row_elements.checked_mul(saved.element_bytes);
        let row = row.ok_or_else(|| refused("its rows are too long".to_owned()))?;
        let (dst, memory) = self.place(saved.to, rectangle(row, saved.rows, saved.pitch)?)?;
        let aligned = dst.is_multiple_of(saved.element_bytes)
            && (saved.rows == 1 || saved.pitch.is_multiple_of(saved.element_bytes));
        if memory.kind() != MemoryKind::Device || saved.value > most || !aligned {
            let problem = "it fills memory of the host, or with a value that does not fit, or at a \
                           place that does not";
            return Err(refused(problem.to_owned()));
        }
        let params = CUDA_MEMSET_NODE_PARAMS {
            dst,
            pitch: saved.pitch as usize,
            value: saved.value,
            elementSize: saved.element_bytes as u32,
            width: saved.row_elements as usize,
            height: saved.rows as usize,
        };
        let mut owners = Owners::default();
        memory.retain(&mut owners, true);
        let context = self.bindings.context.clone();
        Ok(FillNode { params, owners, context })
    }
}

/// How many bytes there are from the first to the last of so many rows.
fn rectangle(row: u64, rows: u64, pitch: u64) -> CudaResult<u64> {
    if row == 0 || rows == 0 || rows > 1 && pitch < row {
        return Err(refused("its rows have no bytes, or lie upon one another".to_owned()));
    }
    let before = (rows - 1).checked_mul(pitch);
    let bytes = before.and_then(|before| before.checked_add(row));
    bytes.ok_or_else(|| refused("its rows reach past the end of any memory".to_owned()))
}

fn with<'a, T>(
    launch: LaunchBuilder<'a>,
    value: Option<T>,
    set: impl FnOnce(LaunchBuilder<'a>, T) -> LaunchBuilder<'a>,
) -> LaunchBuilder<'a> {
    match value {
        Some(value) => set(launch, value),
        None => launch,
    }
}

/// Refuses dependencies of nodes that there are not, given twice, or in a cycle.
fn check_edges(saved: &SavedNodes) -> CudaResult<()> {
    let nodes = vec![TopologyNode::new(OperationSpec::Empty); saved.nodes.len()];
    let edges = saved.edges.iter().map(|edge| TopologyEdge::new(edge.from, edge.to, false));
    let topology = Topology::new(nodes, edges.collect())?;
    match topology.edges().len() == saved.edges.len() {
        true => Ok(()),
        false => Err(refused("it has a dependency twice".to_owned())),
    }
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
