//! [`Graph`]: recorded work, to look at and to make executable.

mod exec;
mod instantiate;
mod node;
mod params;

use std::cell::Cell;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;

use grapture_sys::{
    CU_GRAPH_DEPENDENCY_TYPE_DEFAULT, CUDA_ERROR_INVALID_VALUE, CUgraph, CUgraphEdgeData,
    CUgraphNode, Function, Functions,
};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::retain::{LastLaunch, Owners, Retained, Share};

pub use exec::GraphExec;
pub use instantiate::{InstantiateError, InstantiateFlags, InstantiateOptions, InstantiateResult};
pub(crate) use node::GraphKey;
pub use node::{Edge, EdgeData, EdgePort, Node, NodeId, NodeKind};

/// A graph: operations as nodes, their order as edges. It owns what its nodes use (O2).
///
/// NVIDIA: graph objects are not internally synchronised, and even calls that seem to read must
/// not be made concurrently. So a graph can be sent to another thread, and not shared.
pub struct Graph {
    pub(super) raw: CUgraph,
    pub(super) key: GraphKey,
    pub(super) context: Context,
    /// What the nodes use. Taken by the drop alone.
    share: Option<Share>,
    // Not `Sync`, see above (O8).
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: a `CUgraph` belongs to no thread; one thread at a time uses it, since the type is not
// `Sync`. Its owners are `Send`.
unsafe impl Send for Graph {}

impl Graph {
    /// The graph of a capture, with what the capture retained.
    ///
    /// # Safety
    ///
    /// `raw` is a live graph that nobody else uses or destroys.
    pub(crate) unsafe fn captured(
        context: Context,
        raw: CUgraph,
        key: GraphKey,
        owners: Owners,
    ) -> CudaResult<Graph> {
        let ready = owners.wait_until_ready();
        let share = Some(Share::new(owners));
        let graph = Graph { raw, key, context, share, _not_sync: PhantomData };
        ready.map(|()| graph)
    }

    /// What the nodes use.
    pub(super) fn share(&self) -> &Share {
        // INVARIANT: only the drop takes it.
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
        self.raw
    }

    /// The number of nodes, as the driver counts them.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphGetNodes")]
    pub fn node_count(&self) -> CudaResult<usize> {
        let mut count = 0;
        // SAFETY: a live graph; with a null array the call only writes the count.
        check(unsafe {
            (self.functions().cuGraphGetNodes)(self.raw, ptr::null_mut(), &mut count)
        })?;
        Ok(count)
    }

    /// The nodes with their kinds, in the order in which they were made.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    pub fn nodes(&self) -> CudaResult<Vec<Node>> {
        let raw = self.list(|functions, nodes, count| {
            // SAFETY: a live graph; the array is null or has room for `count` nodes.
            unsafe { (functions.cuGraphGetNodes)(self.raw, nodes, count) }
        })?;
        raw.into_iter().map(|raw| Ok(Node { id: self.id(raw), kind: self.kind(raw)? })).collect()
    }

    /// The nodes that wait for no other.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphGetRootNodes")]
    pub fn roots(&self) -> CudaResult<Vec<NodeId>> {
        let raw = self.list(|functions, nodes, count| {
            // SAFETY: a live graph; the array is null or has room for `count` nodes.
            unsafe { (functions.cuGraphGetRootNodes)(self.raw, nodes, count) }
        })?;
        Ok(raw.into_iter().map(|raw| self.id(raw)).collect())
    }

    /// The dependencies with their edge data.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphGetEdges")]
    pub fn edges(&self) -> CudaResult<Vec<Edge>> {
        let mut count = 0;
        check(self.raw_edges(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &mut count))?;
        if count == 0 {
            // Measured: the driver refuses arrays without room.
            return Ok(Vec::new());
        }
        let mut from = vec![ptr::null_mut(); count];
        let mut to = vec![ptr::null_mut(); count];
        let full = CUgraphEdgeData {
            type_: CU_GRAPH_DEPENDENCY_TYPE_DEFAULT.0 as u8,
            ..CUgraphEdgeData::default()
        };
        let mut data = vec![full; count];
        check(self.raw_edges(from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr(), &mut count))?;
        let edges = from.into_iter().zip(to).zip(data).take(count);
        Ok(edges
            .map(|((from, to), data)| Edge {
                from: self.id(from),
                to: self.id(to),
                data: data.into(),
            })
            .collect())
    }

    /// Edge data came with driver 12.3; before it every dependency is a full one.
    fn raw_edges(
        &self,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: &mut usize,
    ) -> grapture_sys::CUresult {
        let functions = self.functions();
        if self.context.driver().has(Function::cuGraphGetEdges_v2) {
            // SAFETY: a live graph; the arrays are all null or all have room for `count` edges.
            unsafe { (functions.cuGraphGetEdges_v2)(self.raw, from, to, data, count) }
        } else {
            // SAFETY: as above.
            unsafe { (functions.cuGraphGetEdges)(self.raw, from, to, count) }
        }
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
        NodeId::of(self.key, raw)
    }

    pub(crate) fn kind(&self, raw: CUgraphNode) -> CudaResult<NodeKind> {
        let mut kind = grapture_sys::CUgraphNodeType(u32::MAX);
        // SAFETY: a node of this graph, and a live out-pointer.
        check(unsafe { (self.functions().cuGraphNodeGetType)(raw, &mut kind) })?;
        Ok(kind.into())
    }

    /// The protocol of two calls: the count, then the nodes.
    fn list(
        &self,
        call: impl Fn(&Functions, *mut CUgraphNode, &mut usize) -> grapture_sys::CUresult,
    ) -> CudaResult<Vec<CUgraphNode>> {
        let mut count = 0;
        check(call(self.functions(), ptr::null_mut(), &mut count))?;
        let mut nodes = vec![ptr::null_mut(); count];
        if count > 0 {
            check(call(self.functions(), nodes.as_mut_ptr(), &mut count))?;
            nodes.truncate(count);
        }
        Ok(nodes)
    }

    pub(super) fn functions(&self) -> &Functions {
        self.context.functions()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: ours, and the last use. Executables made from it live on, and so does what it
        // owns as long as one of them can run (O2). NVIDIA lists the call as one that a capture
        // may bar, so the thread's mode is relaxed around it (O9).
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuGraphDestroy)(self.raw) });
        report("cuGraphDestroy", check(code));
        if let Some(share) = self.share.take() {
            share.release(self.context.driver(), LastLaunch::Never);
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("raw", &self.raw).finish_non_exhaustive()
    }
}
