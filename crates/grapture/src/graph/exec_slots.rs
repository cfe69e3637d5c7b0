//! [`ExecSlots`]: what the slots of an executable are set to, and where.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUdeviceptr, CUgraph, CUgraphNode,
};
use smallvec::SmallVec;

use crate::context::Context;
use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};
use crate::graph::copy_node::check_overlap;
use crate::graph::exec_node::unknown;
use crate::graph::{Graph, NodeId, NodeNames};
use crate::slot::{Bound, Identity, SlotChange, SlotWork, Target, Value, Work, no_rectangle};
use crate::stream::other_context_than;

/// The slots of an executable, and by whose nodes they are named.
pub(super) struct ExecSlots {
    /// The copy that the executable was made of, and how the nodes of the copied graph were named.
    copy: Option<(Graph, NodeNames)>,
    pub(super) table: SlotTable,
}

/// What the slots are set to, and the nodes that use them.
#[derive(Default)]
pub(super) struct SlotTable {
    nodes: Vec<Patched>,
    slots: HashMap<u64, State, BuildHasherDefault<Spread>>,
    /// Whether the executable has no graph for itself whose nodes name its own.
    nameless: bool,
}

/// A node that uses slots, with its parameters as they are now.
pub(super) struct Patched {
    path: SmallVec<[CUgraphNode; 1]>,
    pub(super) raw: CUgraphNode,
    pub(super) params: Params,
    made_of: Arc<SlotWork>,
}

pub(super) enum Params {
    /// The arguments are owned here, and what the parameters point to.
    Kernel(CUDA_KERNEL_NODE_PARAMS_v2, Arguments),
    Copy(CUDA_MEMCPY3D, CUcontext),
    Fill(CUDA_MEMSET_NODE_PARAMS, CUcontext),
}

struct State {
    value: Current,
    uses: Vec<(usize, Target)>,
    /// The nodes of those, each once.
    nodes: Vec<usize>,
    /// Whether a node has to be looked at again when it is set.
    shapes: bool,
}

/// What a slot is set to. Memory is kept alive by the owners of the executable, and not here.
#[derive(Debug)]
pub(super) enum Current {
    Bytes(SmallVec<[u8; 16]>),
    Memory {
        address: CUdeviceptr,
        /// Whether it is of the kind that most memory is of.
        plain: bool,
        context: Context,
    },
}

impl From<&Value> for Current {
    fn from(value: &Value) -> Current {
        match value {
            Value::Bytes(bytes) => Current::Bytes(bytes.clone()),
            Value::Memory(bound) => {
                let (plain, context) = (bound.owner.is_plain(), bound.owner.context().clone());
                Current::Memory { address: bound.address, plain, context }
            }
        }
    }
}

impl Current {
    /// The value of a slot of `T`.
    pub(super) fn read<T: Pod>(&self) -> Option<T> {
        match self {
            Current::Bytes(bytes) => bytemuck::try_pod_read_unaligned(bytes).ok(),
            Current::Memory { .. } => None,
        }
    }

    #[inline]
    fn written(&self) -> Written<'_> {
        match self {
            Current::Bytes(bytes) => Written::Bytes(bytes),
            Current::Memory { address, .. } => Written::Address(*address),
        }
    }
}

/// What is written into the parameters of a node.
#[derive(Clone, Copy)]
enum Written<'a> {
    Bytes(&'a [u8]),
    Address(CUdeviceptr),
}

impl<'a> From<&'a Value> for Written<'a> {
    #[inline]
    fn from(value: &'a Value) -> Written<'a> {
        match value {
            Value::Bytes(bytes) => Written::Bytes(bytes),
            Value::Memory(bound) => Written::Address(bound.address),
        }
    }
}

impl ExecSlots {
    /// Those of an executable that was made of this copy of a graph.
    pub(super) fn of_copy(copy: Graph, named: NodeNames) -> ExecSlots {
        let table = SlotTable::of(&copy);
        ExecSlots { copy: Some((copy, named)), table }
    }

    /// Those of an executable that keeps the graph.
    pub(super) fn of_source(graph: &Graph) -> ExecSlots {
        ExecSlots { copy: None, table: SlotTable::of(graph) }
    }

    /// Those of an executable whose graph is somebody's, who may change it: they stay as they are.
    pub(super) fn nameless(graph: &Graph) -> ExecSlots {
        let table = SlotTable { nameless: true, ..SlotTable::of(graph) };
        ExecSlots { copy: None, table }
    }

    /// Those of an executable that keeps a graph, of other nodes than its own.
    pub(super) fn named(table: SlotTable) -> ExecSlots {
        ExecSlots { copy: None, table }
    }

    pub(super) fn copy(&self) -> Option<CUgraph> {
        self.copy.as_ref().map(|(copy, _)| copy.raw)
    }

    /// The handle that the executable knows a node of `graph` by.
    pub(super) fn handle(
        &self,
        graph: &Graph,
        node: NodeId,
        raw: CUgraphNode,
    ) -> CudaResult<CUgraphNode> {
        let Some((copy, named)) = &self.copy else { return Ok(raw) };
        // A handle may have been another node's when the copy was made.
        let mut outermost = node;
        while let Some(outer) = graph.outer(outermost) {
            outermost = outer;
        }
        named.require(outermost, "node").map_err(|_| unknown())?;
        let found = graph.counterpart(node, copy, (0, copy.raw));
        found.map(NodeId::as_raw).map_err(|error| match error {
            CudaError::InvalidValue => unknown(),
            error => error,
        })
    }
}

impl SlotTable {
    fn of(graph: &Graph) -> SlotTable {
        let nodes = graph.slot_nodes().into_iter();
        SlotTable::new(nodes.map(|(work, place)| (work, place.path)))
    }

    pub(super) fn new(
        nodes: impl Iterator<Item = (Arc<SlotWork>, SmallVec<[CUgraphNode; 1]>)>,
    ) -> SlotTable {
        let mut table = SlotTable::default();
        for (work, path) in nodes {
            let Some(raw) = path.last().copied() else { continue };
            let index = table.nodes.len();
            for used in &work.uses {
                let state = table.slots.entry(used.slot.number()).or_insert_with(|| State {
                    value: Current::from(&used.initial),
                    uses: Vec::new(),
                    nodes: Vec::new(),
                    shapes: false,
                });
                state.uses.push((index, used.target));
                state.shapes |= !matches!(used.target, Target::Argument(_));
                if state.nodes.last() != Some(&index) {
                    state.nodes.push(index);
                }
            }
            let params = Params::of(&work.work);
            table.nodes.push(Patched { path, raw, params, made_of: work });
        }
        table
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots have nothing to say of a node any more that was changed by itself, nor of those in
    /// it.
    pub(super) fn forget(&mut self, node: CUgraphNode) {
        let gone = |index: &usize| {
            self.nodes.get(*index).is_none_or(|patched| patched.path.contains(&node))
        };
        for state in self.slots.values_mut() {
            state.uses.retain(|(index, _)| !gone(index));
            state.nodes.retain(|index| !gone(index));
        }
        self.slots.retain(|_, state| !state.nodes.is_empty());
    }

    pub(super) fn value(&self, slot: Identity) -> CudaResult<&Current> {
        self.state(slot).map(|state| &state.value)
    }

    #[inline]
    fn state(&self, slot: Identity) -> CudaResult<&State> {
        match self.slots.get(&slot.number()) {
            Some(_) if self.nameless => Err(nameless()),
            Some(state) => Ok(state),
            None => Err(not_used(slot)),
        }
    }

    /// Refuses what a slot cannot be set to.
    #[inline]
    pub(super) fn check(&self, change: &SlotChange) -> CudaResult<()> {
        let state = self.state(change.slot)?;
        match (&change.value, &state.value) {
            (Value::Memory(new), Current::Memory { plain, context, .. }) => {
                state.check_memory(new, *plain, context)
            }
            _ => Ok(()),
        }
    }

    /// The nodes that use one of the slots, each once.
    pub(super) fn affected(&self, changes: &[SlotChange]) -> Cow<'_, [usize]> {
        let states = |change: &SlotChange| self.slots.get(&change.slot.number());
        if let [change] = changes {
            return states(change).map(|state| &state.nodes[..]).unwrap_or_default().into();
        }
        let nodes = changes.iter().filter_map(states).flat_map(|state| &state.nodes);
        let mut nodes: Vec<_> = nodes.copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into()
    }

    /// Refuses shapes and places that the changes, which are written, have made.
    pub(super) fn check_nodes(&self, changes: &[SlotChange], nodes: &[usize]) -> CudaResult<()> {
        let shapes = |change: &SlotChange| {
            self.slots.get(&change.slot.number()).is_some_and(|state| state.shapes)
        };
        if !changes.iter().any(shapes) {
            return Ok(());
        }
        self.each(nodes).try_for_each(Patched::check)
    }

    #[inline]
    pub(super) fn each<'a>(&'a self, nodes: &'a [usize]) -> impl Iterator<Item = &'a Patched> {
        nodes.iter().filter_map(|index| self.nodes.get(*index))
    }

    /// Writes the new values into the parameters of the nodes.
    pub(super) fn write(&mut self, changes: &[SlotChange]) {
        for change in changes {
            let Some(state) = self.slots.get(&change.slot.number()) else { continue };
            write(&mut self.nodes, state, Written::from(&change.value));
        }
    }

    /// Writes the values from before again.
    #[cold]
    pub(super) fn restore(&mut self, changes: &[SlotChange]) {
        for change in changes {
            let Some(state) = self.slots.get(&change.slot.number()) else { continue };
            write(&mut self.nodes, state, state.value.written());
        }
    }

    /// Takes the new values for what the slots are set to.
    #[inline]
    pub(super) fn commit(&mut self, changes: &[SlotChange]) {
        for change in changes {
            let Some(state) = self.slots.get_mut(&change.slot.number()) else { continue };
            match (&mut state.value, &change.value) {
                (Current::Bytes(old), Value::Bytes(new)) => {
                    old.clear();
                    old.extend_from_slice(new);
                }
                (old, new) => *old = Current::from(new),
            }
        }
    }
}

#[inline]
fn write(nodes: &mut [Patched], state: &State, value: Written<'_>) {
    for (index, target) in &state.uses {
        if let Some(node) = nodes.get_mut(*index) {
            node.params.write(*target, value);
        }
    }
}

impl State {
    fn check_memory(&self, new: &Bound, plain: bool, context: &Context) -> CudaResult<()> {
        if !context.same(new.owner.context()) {
            return Err(other_context_than("slot", "memory of the slot"));
        }
        let is_copy = |target| matches!(target, Target::CopyTo | Target::CopyFrom);
        if self.uses.iter().any(|(_, target)| is_copy(*target)) && new.owner.is_plain() != plain {
            return Err(refused(
                "memory that was allocated in the order of a stream is of a kind of its own, and a \
                 copy in an executable keeps its kinds: give memory of the kind that the slot has, \
                 or make the executable anew",
            ));
        }
        Ok(())
    }
}

impl Patched {
    fn check(&self) -> CudaResult<()> {
        match (&self.params, &self.made_of.work) {
            (Params::Kernel(params, _), Work::Kernel(work)) => work.check_shape(
                Dim3::new(params.gridDimX, params.gridDimY, params.gridDimZ),
                Dim3::new(params.blockDimX, params.blockDimY, params.blockDimZ),
            ),
            (Params::Copy(params, _), _) => check_overlap(params),
            (Params::Fill(params, _), _) if params.dst % u64::from(params.elementSize) != 0 => {
                Err(refused("the memory is not aligned to the value that it is filled with"))
            }
            (Params::Fill(..), _) => Ok(()),
            (Params::Kernel(..), _) => Err(no_rectangle()),
        }
    }
}

impl Params {
    fn of(work: &Work) -> Params {
        let work = match work {
            Work::Kernel(work) => work,
            Work::Copy(params, context) => return Params::Copy(*params, context.as_raw()),
            Work::Fill(params, context) => return Params::Fill(*params, context.as_raw()),
        };
        let arguments = Arguments::new(&work.arguments, &work.starts);
        let params = CUDA_KERNEL_NODE_PARAMS_v2 {
            func: work.kernel.raw(),
            gridDimX: work.grid.x,
            gridDimY: work.grid.y,
            gridDimZ: work.grid.z,
            blockDimX: work.block.x,
            blockDimY: work.block.y,
            blockDimZ: work.block.z,
            sharedMemBytes: work.shared_bytes as u32,
            kernelParams: arguments.array(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: work.kernel.context().as_raw(),
        };
        Params::Kernel(params, arguments)
    }

    #[inline]
    fn write(&mut self, target: Target, value: Written<'_>) {
        match (self, target, value) {
            (Params::Kernel(_, arguments), Target::Argument(index), Written::Bytes(bytes)) => {
                arguments.write(index, bytes);
            }
            (Params::Kernel(_, arguments), Target::Argument(index), Written::Address(address)) => {
                arguments.write(index, &address.to_ne_bytes());
            }
            (Params::Kernel(params, _), Target::Grid | Target::Block, Written::Bytes(bytes)) => {
                let Ok(dimensions) = bytemuck::try_pod_read_unaligned(bytes) else { return };
                set_dimensions(params, target, dimensions);
            }
            (Params::Copy(params, _), Target::CopyTo, Written::Address(address)) => {
                params.dstDevice = address;
            }
            (Params::Copy(params, _), Target::CopyFrom, Written::Address(address)) => {
                params.srcDevice = address;
            }
            (Params::Fill(params, _), Target::Fill, Written::Address(address)) => {
                params.dst = address;
            }
            // What a target takes is what its slot is of.
            _ => {}
        }
    }
}

fn set_dimensions(params: &mut CUDA_KERNEL_NODE_PARAMS_v2, target: Target, of: Dim3) {
    if target == Target::Grid {
        (params.gridDimX, params.gridDimY, params.gridDimZ) = (of.x, of.y, of.z);
    } else {
        (params.blockDimX, params.blockDimY, params.blockDimZ) = (of.x, of.y, of.z);
    }
}

/// The arguments of a kernel, where the driver finds them.
///
/// By pointers, since others point there: a box would have what it owns for itself.
pub(super) struct Arguments {
    words: NonNull<[u64]>,
    /// Where each argument begins among the words.
    array: NonNull<[*mut c_void]>,
}

impl Arguments {
    fn new(words: &[u64], starts: &[usize]) -> Arguments {
        let words = NonNull::from(Box::leak(Box::<[u64]>::from(words)));
        let first = words.cast::<u64>().as_ptr();
        let array: Box<[_]> =
            starts.iter().map(|start| first.wrapping_add(*start).cast()).collect();
        Arguments { words, array: NonNull::from(Box::leak(array)) }
    }

    fn array(&self) -> *mut *mut c_void {
        if self.array.is_empty() { ptr::null_mut() } else { self.array.cast().as_ptr() }
    }

    #[inline]
    fn write(&mut self, index: usize, bytes: &[u8]) {
        // SAFETY: allocated in `new`, and nobody writes there.
        let array = unsafe { self.array.as_ref() };
        let Some(argument) = array.get(index) else { return };
        // SAFETY: the argument was made of as many bytes, since a slot has one type, and this one
        // has its words for itself. No driver call reads them now.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), argument.cast(), bytes.len()) };
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        // SAFETY: a box was made to this in `new`.
        drop(unsafe { Box::from_raw(self.words.as_ptr()) });
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.array.as_ptr()) });
    }
}

/// Spreads the numbers of slots, which are counted up.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // Both the lowest bits and the highest tell numbers apart then.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cold]
fn refused(problem: &str) -> CudaError {
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "slot", problem)
}

#[cold]
pub(super) fn not_used(slot: Identity) -> CudaError {
    let problem = format!(
        "no node of the executable graph uses {slot}: give it to a launch, a copy or a fill before \
         the graph is made executable, or update from a graph that has it"
    );
    CudaError::refused(CUDA_ERROR_INVALID_VALUE, "slot", problem)
}

#[cold]
fn nameless() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_INVALID_VALUE,
        "exec",
        "it keeps no graph whose nodes name its own, since the driver copies none with conditional \
         nodes or memory: make it with `Graph::into_exec` or `StreamGraphCapture::end`",
    )
}
