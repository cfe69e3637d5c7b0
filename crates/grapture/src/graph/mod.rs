//! [`Graph`]: work that was recorded or built, to look at, to change and to make executable.

mod alike;
mod batch_node;
mod body;
mod body_nodes;
mod buckets;
mod build;
mod built;
mod cache;
mod captured;
mod child;
mod clone;
mod conditional;
mod copy_node;
mod edit;
mod edits;
mod exec;
mod exec_node;
mod exec_owners;
mod exec_set;
mod exec_slots;
mod fill_node;
mod follow;
mod graph_body;
mod inner;
mod instantiate;
mod launch_attributes;
mod memory;
mod node;
mod node_ref;
mod notes;
mod params;
mod pools;
mod profile;
mod read;
mod rebuild;
mod save;
mod slot_params;
mod slots;
mod source;
mod steer;
mod update;
mod update_error;

use std::cell::Cell;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use grapture_sys::{CUDA_ERROR_INVALID_VALUE, CUgraph, CUgraphNode, Functions};

use crate::capture::Recorded;
use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::host_function;
use crate::memory::BufferInner;
use crate::reclaim::{drop_contained, release_elsewhere};
use crate::retain::{Owners, Retained, Share};
use crate::topology::Topology;
use crate::topology::names::Names;

pub use batch_node::{BatchNode, MemoryOperation, WaitFor, Word};
pub(crate) use body_nodes::{body_leaves, body_misfit, graph_nodes};
pub use buckets::Buckets;
pub(crate) use build::Place;
use built::Built;
pub use cache::{CacheCounters, CacheLimits, CachedExec, GraphCache};
pub(crate) use captured::LentGraph;
pub(crate) use child::embedded;
pub(crate) use conditional::Branch;
pub use conditional::{Condition, Decider, Decides, WordCondition};
pub use copy_node::CopyNode;
use edits::Edits;
pub use exec::GraphExec;
pub(crate) use exec::launch_into_capture;
pub use exec_node::ExecNode;
pub use exec_set::SlotPatch;
pub use fill_node::FillNode;
pub use graph_body::GraphBody;
use inner::InnerGraphs;
pub use instantiate::{InstantiateError, InstantiateFlags, InstantiateOptions, InstantiateResult};
pub use memory::GraphBuffer;
pub use node::{Edge, EdgeData, EdgePort, Node, NodeId, NodeKind};
pub(crate) use node::{GraphKey, NodeNames};
pub use node_ref::{NodeMut, NodeRef};
pub(crate) use notes::{Body, Branching, Inner, Note};
pub use params::{CopyEnd, NodeParams};
pub use profile::{NodeProfile, Profile, Timing};
use read::Reader;
pub use save::Bindings;
pub(crate) use source::Captured;
pub(crate) use steer::launch_steering;
pub use update::{Outcome, UpdateOptions};
pub use update_error::{UpdateError, UpdateReason};

/// A graph: operations as nodes, their order as edges. It owns what its nodes use (O2).
///
/// It comes from a capture, or from [`Graph::new`] and the methods that add nodes, or from both.
///
/// NVIDIA: graph objects are not internally synchronised, and even calls that seem to read must
/// not be made concurrently. So a graph can be sent to another thread, and not shared.
pub struct Graph {
    pub(super) raw: CUgraph,
    names: NodeNames,
    /// The embedded graphs whose nodes were named.
    inner: InnerGraphs,
    pub(super) context: Context,
    /// What the nodes use. Taken by the drop, and by the executable that has it from then on.
    share: Option<Share>,
    /// What was changed in it.
    edits: Edits,
    /// The memory that its nodes allocate.
    allocations: Vec<Arc<BufferInner>>,
    /// The graph that it is a clone of.
    clone_of: Option<GraphKey>,
    /// What the capture recorded that made it.
    pub(super) recorded: Recorded,
    /// What was built by hand, if anything was.
    built: Option<Box<Built>>,
    // Not `Sync`, see above (O8).
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: a `CUgraph` belongs to no thread; one thread at a time uses it, since the type is not
// `Sync`. Its owners are `Send`.
unsafe impl Send for Graph {}

impl Graph {
    /// The graph of a capture, which owns what the capture retained once that is there.
    pub(crate) fn captured(captured: Captured) -> CudaResult<Graph> {
        let ready = captured.share.wait_until_there();
        let graph = Graph::from(captured);
        ready.map(|()| graph)
    }

    /// # Safety
    ///
    /// `raw` is a live graph that nobody else uses or destroys, and `share` is what its nodes use.
    unsafe fn of(context: Context, raw: CUgraph, key: GraphKey, share: Share) -> Graph {
        // SAFETY: the caller's promise.
        Graph::from(unsafe { Captured::new(context, raw, key, share, Recorded::default()) })
    }

    /// What the nodes use.
    pub(crate) fn share(&self) -> &Share {
        // INVARIANT: whoever takes it drops the graph.
        self.share.as_ref().expect("the graph has its share")
    }

    /// What the nodes use, to change.
    pub(super) fn share_mut(&mut self) -> &mut Share {
        // INVARIANT: as above.
        self.share.as_mut().expect("the graph has its share")
    }

    /// Keeps `value` alive as long as the graph, or anything made from it from now on, can run. It
    /// is dropped on a thread of the library after the last launch; if there was none, where the
    /// last of those is dropped.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut graph = stream.capture(CaptureMode::ThreadLocal, |_| Ok(()))?;
    /// graph.retain(String::from("what the nodes need"));
    /// assert_eq!(graph.retained()[0].to_string().split(", from ").next(),
    ///            Some("value of type alloc::string::String, 24 bytes"));
    /// # Ok::<(), CudaError>(())
    /// ```
    #[track_caller]
    pub fn retain<T: Send + 'static>(&mut self, value: T) {
        let mut owners = Owners::here();
        owners.retain_value(value);
        self.share_mut().add(owners);
    }

    /// What the graph keeps alive, each thing once: what a capture recorded, in that order, then
    /// what was added by hand, in no order. Embedded graphs' are among it.
    pub fn retained(&self) -> Vec<Retained> {
        self.share().retained()
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The raw handle. It stays valid as long as the graph lives.
    pub fn as_raw(&self) -> CUgraph {
        self.edits.expose();
        self.context.note_attributes();
        self.raw
    }

    /// The number of nodes, as the driver counts them.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphGetNodes")]
    pub fn node_count(&self) -> CudaResult<usize> {
        self.reader().node_count()
    }

    /// The nodes with their kinds, in the order in which they were made.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn nodes(&self) -> CudaResult<Vec<Node>> {
        let reader = self.reader();
        let nodes = reader.nodes()?.into_iter();
        nodes.map(|raw| Ok(Node { id: self.id(raw), kind: reader.kind(raw)? })).collect()
    }

    /// The nodes that wait for no other.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphGetRootNodes")]
    pub fn roots(&self) -> CudaResult<Vec<NodeId>> {
        Ok(self.reader().roots()?.into_iter().map(|raw| self.id(raw)).collect())
    }

    /// The dependencies with their edge data.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphGetEdges")]
    pub fn edges(&self) -> CudaResult<Vec<Edge>> {
        let edges = self.reader().edges()?.into_iter();
        Ok(edges
            .map(|(from, to, data)| Edge { from: self.id(from), to: self.id(to), data })
            .collect())
    }

    /// The graph as plain data: what each node does and which waits for which, the nodes in the
    /// order in which they were made.
    ///
    /// The names of kernels come from the driver (12.3), or from what the graph retains.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn topology(&self) -> CudaResult<Topology> {
        let notes = self.notes(&self.nodes()?);
        self.reader().described(&mut Names::new(&self.context), &notes)
    }

    /// Makes the graph executable.
    ///
    /// # Errors
    ///
    /// [`Instantiate`](CudaError::Instantiate), with the reason and the node where the driver tells.
    #[doc(alias = "cuGraphInstantiate")]
    pub fn instantiate(&self) -> CudaResult<GraphExec> {
        self.instantiate_with(&InstantiateOptions::new())
    }

    /// Writes the driver's own description of the graph to a file, in the language of Graphviz.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_empty(&[])?;
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("graph.dot");
    /// graph.write_debug_dot(&path, false)?;
    /// assert!(std::fs::read_to_string(&path).unwrap().starts_with("digraph"));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OperatingSystem`](CudaError::OperatingSystem): the file cannot be written.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.3.
    #[doc(alias = "cuGraphDebugDotPrint")]
    pub fn write_debug_dot(&self, path: impl AsRef<Path>, verbose: bool) -> CudaResult<()> {
        let path = path.as_ref();
        let text = path.to_str().and_then(|text| CString::new(text).ok()).ok_or_else(|| {
            CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "path",
                format!("{} is not UTF-8 or has a NUL in it", path.display()),
            )
        })?;
        let flags = if verbose { grapture_sys::CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE.0 } else { 0 };
        // SAFETY: a live graph and a NUL-terminated path.
        check(unsafe { (self.functions().cuGraphDebugDotPrint)(self.raw, text.as_ptr(), flags) })
    }

    pub(super) fn id(&self, raw: CUgraphNode) -> NodeId {
        self.names.id(raw)
    }

    /// The driver's handle of a node, if the graph has it.
    pub(crate) fn require(&self, node: NodeId, what: &'static str) -> CudaResult<CUgraphNode> {
        self.names.require(node, what)
    }

    pub(crate) fn kind(&self, raw: CUgraphNode) -> CudaResult<NodeKind> {
        self.reader().kind(raw)
    }

    /// The graph, to read.
    fn reader(&self) -> Reader<'_> {
        // SAFETY: a live graph that is borrowed meanwhile.
        unsafe { Reader::new(self.raw, &self.context, self.share()) }
    }

    pub(super) fn functions(&self) -> &Functions {
        self.context.functions()
    }
}

impl From<Captured> for Graph {
    #[inline]
    fn from(captured: Captured) -> Graph {
        let Captured { context, raw, key, share, recorded } = captured;
        Graph {
            raw,
            names: NodeNames::of(key),
            inner: InnerGraphs::default(),
            context,
            share: Some(share),
            edits: Edits::default(),
            allocations: Vec::new(),
            recorded,
            clone_of: None,
            built: None,
            _not_sync: PhantomData,
        }
    }
}

impl Graph {
    /// What is to be released, out of a graph that is dropped.
    fn take(&mut self) -> Graph {
        Graph {
            raw: self.raw,
            names: self.names.clone(),
            inner: InnerGraphs::default(),
            context: self.context.clone(),
            share: self.share.take(),
            edits: Edits::default(),
            allocations: Vec::new(),
            clone_of: None,
            recorded: Recorded::default(),
            built: self.built.take(),
            _not_sync: PhantomData,
        }
    }

    /// Takes out all that there is to a graph that nothing was changed in; none of another one.
    fn take_plain(&mut self) -> Option<Captured> {
        let plain = self.edits.is_empty()
            & self.allocations.is_empty()
            & self.clone_of.is_none()
            & self.inner.is_empty()
            & self.built.is_none();
        if !plain {
            return None;
        }
        let (context, key) = (self.context.clone(), self.names.graph());
        let (share, recorded) = (self.share.take()?, mem::take(&mut self.recorded));
        let raw = mem::replace(&mut self.raw, ptr::null_mut());
        Some(Captured { context, raw, key, share, recorded })
    }

    /// Destroys the driver's graph.
    fn destroy(&self) {
        // It has no handle any more if it moved into a node, or the driver destroyed it.
        if self.raw.is_null() {
            return;
        }
        // SAFETY: ours, and the last use. Executables made from it live on, and so does what
        // it owns as long as one of them can run (O2). NVIDIA lists the call as one that a
        // capture may bar, so the thread's mode is relaxed around it (O9).
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuGraphDestroy)(self.raw) });
        report("cuGraphDestroy", check(code));
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if host_function::is_running() {
            let taken = self.take();
            release_elsewhere(self.context.driver(), taken);
            return;
        }
        self.destroy();
        if let Some(share) = self.share.take() {
            drop_contained(share);
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("raw", &self.raw).finish_non_exhaustive()
    }
}
