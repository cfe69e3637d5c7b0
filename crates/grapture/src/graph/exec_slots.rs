//! [`ExecSlots`]: what the slots of an executable are set to, and where.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use bytemuck::Pod;
use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_KERNEL_NODE_PARAMS_v2, CUdeviceptr, CUgraph, CUgraphNode,
};
use smallvec::SmallVec;

use crate::context::Context;
use crate::dim3::Dim3;
use crate::error::{CudaError, CudaResult};
use crate::graph::copy_node::check_overlap;
use crate::graph::exec_node::unknown;
use crate::graph::slot_params::{Arguments, Params, Place};
use crate::graph::{Graph, NodeId, NodeNames};
use crate::memory::RawSlice;
use crate::slot::{Identity, SlotChange, SlotWork, Target, Value, Work, Written, no_rectangle};
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
    arguments: Arguments,
    /// Of each node, what a set has no need of.
    origins: Vec<Origin>,
    slots: HashMap<u64, State, BuildHasherDefault<Spread>>,
    /// Whether the executable has no graph for itself whose nodes name its own.
    nameless: bool,
}

/// A node that uses slots, with its parameters as they are now.
pub(super) struct Patched {
    pub(super) raw: CUgraphNode,
    pub(super) params: Params,
}

struct Origin {
    path: SmallVec<[CUgraphNode; 1]>,
    made_of: Arc<SlotWork>,
}

struct State {
    value: Current,
    /// Node by node.
    uses: Vec<(usize, Place)>,
    /// The nodes of those, each once.
    nodes: Vec<usize>,
    /// Whether a node has to be looked at again when it is set: not all uses are arguments.
    shapes: bool,
}

/// A slot that is nothing but arguments of kernels.
pub(super) struct OneSlot<'a> {
    nodes: &'a [Patched],
    arguments: &'a mut Arguments,
    state: &'a mut State,
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

    /// What has been written already is taken for what the slot is set to.
    #[inline]
    fn replace(&mut self, new: Written<'_>) {
        match (self, new) {
            (Current::Bytes(old), Written::Bytes(new)) if old.len() == new.len() => {
                old.copy_from_slice(new);
            }
            // Of the same context, and of the same kind where that counts: it was checked.
            (Current::Memory { address, .. }, Written::Memory(new)) => *address = new.address,
            // A slot has one type.
            _ => {}
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
        let found: Vec<_> = nodes.collect();
        let arguments = Arguments::for_all(found.iter().map(|(work, _)| &work.work));
        let mut table = SlotTable { arguments, ..SlotTable::default() };
        let mut at = 0;
        for (made_of, path) in found {
            let Some(raw) = path.last().copied() else { continue };
            let mut params = Params::of(&made_of.work);
            table.note_uses(&made_of, at);
            if let (Params::Kernel(params), Work::Kernel(work)) = (&mut params, &made_of.work)
                && let Some((array, end)) = table.arguments.place(at, work)
            {
                (params.kernelParams, at) = (array, end);
            }
            table.nodes.push(Patched { raw, params });
            table.origins.push(Origin { path, made_of });
        }
        table
    }

    /// Notes where the slots of the next node are written, whose arguments begin at a word.
    fn note_uses(&mut self, node: &SlotWork, at: usize) {
        let index = self.nodes.len();
        for used in &node.uses {
            let Some(place) = Place::of(used.target, &node.work, at) else { continue };
            let state = self.slots.entry(used.slot.number()).or_insert_with(|| State {
                value: Current::from(&used.initial),
                uses: Vec::new(),
                nodes: Vec::new(),
                shapes: false,
            });
            state.uses.push((index, place));
            state.shapes |= !matches!(used.target, Target::Argument(_));
            if state.nodes.last() != Some(&index) {
                state.nodes.push(index);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots have nothing to say of a node any more that was changed by itself, nor of those in
    /// it.
    pub(super) fn forget(&mut self, node: CUgraphNode) {
        let gone = |index: &usize| {
            self.origins.get(*index).is_none_or(|origin| origin.path.contains(&node))
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

    /// A slot, for a set of it alone. None: it has to be looked at what it makes of the nodes.
    #[inline]
    pub(super) fn one(&mut self, slot: Identity) -> CudaResult<Option<OneSlot<'_>>> {
        match self.slots.get_mut(&slot.number()) {
            Some(_) if self.nameless => Err(nameless()),
            Some(state) if state.shapes => Ok(None),
            Some(state) => {
                Ok(Some(OneSlot { nodes: &self.nodes, arguments: &mut self.arguments, state }))
            }
            None => Err(not_used(slot)),
        }
    }

    /// Refuses what a slot cannot be set to.
    pub(super) fn check(&self, change: &SlotChange<'_>) -> CudaResult<()> {
        self.state(change.slot)?.check(change.value)
    }

    /// The nodes that use one of the slots, each once.
    pub(super) fn affected(&self, changes: &[SlotChange<'_>]) -> Cow<'_, [usize]> {
        let states = |change: &SlotChange<'_>| self.slots.get(&change.slot.number());
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
    pub(super) fn check_nodes(
        &self,
        changes: &[SlotChange<'_>],
        nodes: &[usize],
    ) -> CudaResult<()> {
        let shapes = |change: &SlotChange<'_>| {
            self.slots.get(&change.slot.number()).is_some_and(|state| state.shapes)
        };
        if !changes.iter().any(shapes) {
            return Ok(());
        }
        nodes.iter().try_for_each(|index| {
            match (self.nodes.get(*index), self.origins.get(*index)) {
                (Some(node), Some(origin)) => node.check(&origin.made_of.work),
                _ => Ok(()),
            }
        })
    }

    #[inline]
    pub(super) fn each<'a>(&'a self, nodes: &'a [usize]) -> impl Iterator<Item = &'a Patched> {
        nodes.iter().filter_map(|index| self.nodes.get(*index))
    }

    /// Writes the new values into the parameters of the nodes.
    pub(super) fn write(&mut self, changes: &[SlotChange<'_>]) {
        for change in changes {
            let Some(state) = self.slots.get(&change.slot.number()) else { continue };
            write(&mut self.nodes, &mut self.arguments, state, change.value);
        }
    }

    /// Writes the values from before again.
    #[cold]
    pub(super) fn restore(&mut self, changes: &[SlotChange<'_>]) {
        for change in changes {
            let Some(state) = self.slots.get(&change.slot.number()) else { continue };
            match &state.value {
                Current::Bytes(old) => {
                    write_bytes(&mut self.nodes, &mut self.arguments, state, old);
                }
                Current::Memory { address, .. } => {
                    write_address(&mut self.nodes, &mut self.arguments, state, *address);
                }
            }
        }
    }

    /// Takes the new values for what the slots are set to.
    pub(super) fn commit(&mut self, changes: &[SlotChange<'_>]) {
        for change in changes {
            if let Some(state) = self.slots.get_mut(&change.slot.number()) {
                state.value.replace(change.value);
            }
        }
    }
}

impl OneSlot<'_> {
    /// Refuses what the slot cannot be set to.
    #[inline]
    pub(super) fn check(&self, value: Written<'_>) -> CudaResult<()> {
        self.state.check(value)
    }

    /// Writes the new value into the parameters of each node and has it given these, in one pass:
    /// they are at hand then.
    #[inline]
    pub(super) fn set(
        &mut self,
        value: Written<'_>,
        mut give: impl FnMut(CUgraphNode, &CUDA_KERNEL_NODE_PARAMS_v2) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let address;
        let bytes = match value {
            Written::Bytes(bytes) => bytes,
            Written::Memory(memory) => {
                address = memory.address.to_ne_bytes();
                &address
            }
        };
        let mut uses = self.state.uses.iter().peekable();
        while let Some((index, place)) = uses.next() {
            if let Place::Argument(word) = place {
                self.arguments.write(*word, bytes);
            }
            if uses.peek().is_some_and(|(next, _)| next == index) {
                continue;
            }
            if let Some(Patched { raw, params: Params::Kernel(params) }) = self.nodes.get(*index) {
                give(*raw, params)?;
            }
        }
        Ok(())
    }

    /// Takes the new value for what the slot is set to.
    #[inline]
    pub(super) fn commit(&mut self, value: Written<'_>) {
        self.state.value.replace(value);
    }
}

fn write(nodes: &mut [Patched], arguments: &mut Arguments, state: &State, value: Written<'_>) {
    match value {
        Written::Bytes(bytes) => write_bytes(nodes, arguments, state, bytes),
        Written::Memory(memory) => write_address(nodes, arguments, state, memory.address),
    }
}

fn write_bytes(nodes: &mut [Patched], arguments: &mut Arguments, state: &State, bytes: &[u8]) {
    for (index, place) in &state.uses {
        match (place, nodes.get_mut(*index)) {
            (Place::Argument(word), _) => arguments.write(*word, bytes),
            (place, Some(node)) => node.params.set_dimensions(*place, bytes),
            (_, None) => {}
        }
    }
}

fn write_address(
    nodes: &mut [Patched],
    arguments: &mut Arguments,
    state: &State,
    address: CUdeviceptr,
) {
    for (index, place) in &state.uses {
        match (place, nodes.get_mut(*index)) {
            (Place::Argument(word), _) => arguments.write(*word, &address.to_ne_bytes()),
            (place, Some(node)) => node.params.set_address(*place, address),
            (_, None) => {}
        }
    }
}

impl State {
    #[inline]
    fn check(&self, new: Written<'_>) -> CudaResult<()> {
        match (new, &self.value) {
            (Written::Memory(new), Current::Memory { plain, context, .. }) => {
                self.check_memory(new, *plain, context)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn check_memory(&self, new: RawSlice<'_>, plain: bool, context: &Context) -> CudaResult<()> {
        if !context.same(new.context()) {
            return Err(other_context_than("slot", "memory of the slot"));
        }
        if self.shapes && new.owner.is_plain() != plain && self.is_of_a_copy() {
            return Err(refused(
                "memory that was allocated in the order of a stream is of a kind of its own, and a \
                 copy in an executable keeps its kinds: give memory of the kind that the slot has, \
                 or make the executable anew",
            ));
        }
        Ok(())
    }

    fn is_of_a_copy(&self) -> bool {
        self.uses.iter().any(|(_, place)| matches!(place, Place::CopyTo | Place::CopyFrom))
    }
}

impl Patched {
    fn check(&self, made_of: &Work) -> CudaResult<()> {
        match (&self.params, made_of) {
            (Params::Kernel(params), Work::Kernel(work)) => work.check_shape(
                Dim3::new(params.gridDimX, params.gridDimY, params.gridDimZ),
                Dim3::new(params.blockDimX, params.blockDimY, params.blockDimZ),
            ),
            (Params::Copy(params, _), _) => check_overlap(params),
            (Params::Fill(params, _), _) if params.dst % u64::from(params.elementSize) != 0 => {
                Err(refused("the memory is not aligned to the value that it is filled with"))
            }
            (Params::Fill(..), _) => Ok(()),
            (Params::Kernel(_), _) => Err(no_rectangle()),
        }
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
