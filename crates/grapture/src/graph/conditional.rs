//! [`Condition`]: what conditional nodes go by, and how such a node is made.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grapture_sys::{
    CU_GRAPH_COND_ASSIGN_DEFAULT, CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_SWITCH,
    CU_GRAPH_COND_TYPE_WHILE, CU_GRAPH_NODE_TYPE_CONDITIONAL, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_ERROR_INVALID_VALUE, CUdeviceptr, CUgraph, CUgraphConditionalHandle,
    CUgraphConditionalNodeType, CUgraphNode, CUgraphNodeParams, Function,
};

use crate::context::Context;
use crate::driver::{Driver, DriverVersion};
use crate::error::{CudaError, CudaResult, check};
use crate::graph::GraphKey;
use crate::graph::build::Place;
use crate::memory::{BufferInner, DeviceSlice, RawSlice, sealed};

/// The driver that has `switch`, and `if` with an `else`.
const CHOICES_SINCE: DriverVersion = DriverVersion::new(12, 8);

/// A number that kernels of a graph set and that one conditional node of it goes by.
///
/// [`StreamGraphCapture::condition`](crate::StreamGraphCapture::condition) and
/// [`Graph::condition`](crate::Graph::condition) make one. A kernel takes it as an argument
/// ([`LaunchBuilder::condition`](crate::LaunchBuilder::condition)), which in its code is the
/// `cudaGraphConditionalHandle` that it gives to `cudaGraphSetConditional`. The node has to come
/// after the kernel.
///
/// A graph with a condition that no node goes by cannot be made executable.
#[doc(alias = "cudaGraphConditionalHandle")]
pub struct Condition {
    pub(crate) handle: CUgraphConditionalHandle,
    /// The graph, in which all others are where it is set and where it decides.
    pub(crate) graph: GraphKey,
    /// What each launch begins with; none: what the one before has left.
    pub(crate) default: Option<u32>,
    /// Whether a node goes by it.
    taken: AtomicBool,
}

/// A word of device memory that a conditional node goes by, as it is when the node is reached.
///
/// A kernel of this library reads it there, and for a loop after each round: whoever writes the
/// word needs to know nothing of conditions.
#[derive(Clone)]
pub struct WordCondition {
    pub(super) address: CUdeviceptr,
    pub(super) owner: Arc<BufferInner>,
}

/// What a conditional node can go by: a [`Condition`] or a [`WordCondition`].
///
/// No other type can implement it.
pub trait Decides: sealed::Sealed {
    #[doc(hidden)]
    fn decider(&self) -> Decider<'_>;
}

/// Which of the two it is.
#[doc(hidden)]
#[derive(Debug)]
pub enum Decider<'a> {
    /// A number that kernels of the graph set.
    Condition(&'a Condition),
    /// A word.
    Word(&'a WordCondition),
}

impl Decider<'_> {
    /// The address of the word.
    pub(crate) fn word(&self) -> Option<CUdeviceptr> {
        match self {
            Decider::Condition(_) => None,
            Decider::Word(word) => Some(word.address),
        }
    }
}

/// How a conditional node chooses among its bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    If,
    IfElse,
    While,
    /// Among so many.
    Switch(u32),
}

impl WordCondition {
    /// The condition that is the first word of device memory.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the memory is empty, or a slot.
    pub fn new(word: &(impl DeviceSlice<u32> + ?Sized)) -> CudaResult<WordCondition> {
        if word.slot().is_some() {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "word",
                "it is a slot, and a condition stays by its word: give the memory itself",
            ));
        }
        let raw = word.raw();
        if raw.bytes == 0 {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "word",
                "it is empty, and a condition is a word: give a view that begins with it",
            ));
        }
        Ok(WordCondition { address: raw.address, owner: raw.owner.clone() })
    }
}

impl sealed::Sealed for WordCondition {}
impl sealed::Sealed for Condition {}

impl DeviceSlice<u32> for WordCondition {
    fn raw(&self) -> RawSlice<'_> {
        RawSlice { address: self.address, bytes: size_of::<u32>(), owner: &self.owner }
    }
}

impl Decides for Condition {
    fn decider(&self) -> Decider<'_> {
        Decider::Condition(self)
    }
}

impl Decides for WordCondition {
    fn decider(&self) -> Decider<'_> {
        Decider::Word(self)
    }
}

impl Condition {
    /// A new condition of a graph, or of the one that it is embedded in.
    ///
    /// # Safety
    ///
    /// `raw` is a live graph of the context that nobody else uses now, and `graph` is the key of
    /// the outermost one that it is in.
    pub(crate) unsafe fn create(
        context: &Context,
        raw: CUgraph,
        graph: GraphKey,
        default: Option<u32>,
    ) -> CudaResult<Condition> {
        let flags = if default.is_some() { CU_GRAPH_COND_ASSIGN_DEFAULT } else { 0 };
        let (mut handle, value) = (0, default.unwrap_or(0));
        let create = context.functions().cuGraphConditionalHandleCreate;
        // SAFETY: the caller's promise, a live context, and a live out-pointer.
        check(unsafe { create(&mut handle, raw, context.as_raw(), value, flags) })?;
        Ok(Condition { handle, graph, default, taken: AtomicBool::new(false) })
    }

    /// Takes the condition for a node of the graph.
    pub(crate) fn take(&self, graph: GraphKey) -> CudaResult<Taken<'_>> {
        let problem = if self.graph != graph {
            "it belongs to another graph: make it from the graph or the capture that the node is in"
        } else if self.taken.swap(true, Ordering::Relaxed) {
            "a conditional node goes by it already: make one condition for each node"
        } else {
            return Ok(Taken { condition: Some(self) });
        };
        Err(CudaError::refused(CUDA_ERROR_INVALID_VALUE, "condition", problem))
    }
}

/// A condition that is taken, and given back unless it is kept.
pub(crate) struct Taken<'a> {
    condition: Option<&'a Condition>,
}

impl Taken<'_> {
    /// Has the node keep it.
    pub(crate) fn keep(mut self) {
        self.condition = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(condition) = self.condition {
            condition.taken.store(false, Ordering::Relaxed);
        }
    }
}

impl Branch {
    /// How many bodies there are.
    pub(crate) fn bodies(self) -> u32 {
        match self {
            Branch::If | Branch::While => 1,
            Branch::IfElse => 2,
            Branch::Switch(cases) => cases,
        }
    }

    fn kind(self) -> CUgraphConditionalNodeType {
        match self {
            Branch::If | Branch::IfElse => CU_GRAPH_COND_TYPE_IF,
            Branch::While => CU_GRAPH_COND_TYPE_WHILE,
            Branch::Switch(_) => CU_GRAPH_COND_TYPE_SWITCH,
        }
    }

    /// Refuses what the driver cannot do.
    pub(crate) fn check(self, driver: &Driver) -> CudaResult<()> {
        let functions = [
            Function::cuGraphConditionalHandleCreate,
            Function::cuGraphAddNode_v2,
            Function::cuStreamBeginCaptureToGraph,
        ];
        let old = functions.iter().any(|function| !driver.has(*function));
        let choice = matches!(self, Branch::IfElse | Branch::Switch(_));
        if old || choice && driver.version() < CHOICES_SINCE {
            return Err(CudaError::NotSupported);
        }
        if self == Branch::Switch(0) {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "cases",
                "there are 0, and a `switch` has at least one",
            ));
        }
        Ok(())
    }

    /// Adds a conditional node at the place. Gives it, and the graphs that are its bodies.
    ///
    /// # Safety
    ///
    /// The place is in a live graph of the context that nobody else uses now, and its edge data is
    /// null or that of its nodes.
    pub(crate) unsafe fn add(
        self,
        context: &Context,
        place: &Place<'_>,
        edges: *const grapture_sys::CUgraphEdgeData,
        handle: CUgraphConditionalHandle,
    ) -> CudaResult<(CUgraphNode, Vec<CUgraph>)> {
        let mut node = std::ptr::null_mut();
        let mut params =
            CUgraphNodeParams { type_: CU_GRAPH_NODE_TYPE_CONDITIONAL, ..Default::default() };
        params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle,
            type_: self.kind(),
            size: self.bodies(),
            phGraph_out: std::ptr::null_mut(),
            ctx: context.as_raw(),
        };
        let Place { functions, graph, after, count } = *place;
        // SAFETY: the caller's promise, and live out-pointers.
        check(unsafe {
            (functions.cuGraphAddNode_v2)(&mut node, graph, after, edges, count, &mut params)
        })?;
        // SAFETY: the call succeeded, so this is the part that it has filled in.
        let made = unsafe { params.__bindgen_anon_1.conditional };
        // SAFETY: NVIDIA: an array of `size` graphs, the driver's, which lives as the node does.
        let bodies = unsafe { std::slice::from_raw_parts(made.phGraph_out, made.size as usize) };
        Ok((node, bodies.to_vec()))
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl fmt::Debug for WordCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordCondition").field("address", &self.address).finish_non_exhaustive()
    }
}
