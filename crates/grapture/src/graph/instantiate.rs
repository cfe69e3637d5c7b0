//! Making a graph executable.

use std::fmt;
use std::ptr;

use bitflags::bitflags;
use grapture_sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED,
    CUDA_GRAPH_INSTANTIATE_ERROR, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
    CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
    CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_PARAMS,
    CUDA_GRAPH_INSTANTIATE_SUCCESS, CUgraph, CUgraphExec, CUgraphInstantiateResult, Function,
};

use crate::context::Context;
use crate::driver::Driver;
use crate::error::{CudaError, CudaResult, check, write_code};
use crate::graph::exec::Made;
use crate::graph::launch_attributes::LaunchAttributes;
use crate::graph::source::{Captured, Source};
use crate::graph::{Graph, GraphExec, NodeId, NodeKind};
use crate::stream::Stream;
use crate::tell::{self, contained};
use tracing::span::EnteredSpan;

bitflags! {
    /// How an executable graph behaves.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InstantiateFlags: u32 {
        /// Each launch first frees what the launch before allocated and did not free.
        const AUTO_FREE_ON_LAUNCH = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0;
        /// Kernels can launch it. Not together with `AUTO_FREE_ON_LAUNCH`.
        const DEVICE_LAUNCH = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0;
        /// The nodes' own priorities count, not that of the stream of the launch.
        const USE_NODE_PRIORITY = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0;
    }
}

/// How a graph is made executable.
#[derive(Clone, Debug, Default)]
pub struct InstantiateOptions {
    flags: InstantiateFlags,
    upload: Option<Stream>,
}

impl InstantiateOptions {
    /// No flags, no upload.
    pub fn new() -> InstantiateOptions {
        InstantiateOptions::default()
    }

    /// Sets the flags.
    pub fn flags(mut self, flags: InstantiateFlags) -> InstantiateOptions {
        self.flags = flags;
        self
    }

    /// Has the executable graph uploaded on a stream at once, so that its first launch is as fast
    /// as later ones.
    pub fn upload_on(mut self, stream: &Stream) -> InstantiateOptions {
        self.upload = Some(stream.clone());
        self
    }
}

impl Graph {
    /// Makes the graph executable, with options.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_empty(&[])?;
    /// let options = InstantiateOptions::new().upload_on(&stream);
    /// let exec = graph.instantiate_with(&options.flags(InstantiateFlags::USE_NODE_PRIORITY))?;
    /// exec.launch(&stream)?;
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Instantiate`](CudaError::Instantiate), with the reason and the node where the driver
    /// tells (from 12.0). [`Refused`](CudaError::Refused): flags that exclude each other, or an
    /// upload stream of another context or that captures.
    /// [`NotSupported`](CudaError::NotSupported): flags need 11.4, an upload 12.0.
    #[doc(alias = "cuGraphInstantiateWithParams")]
    #[doc(alias = "cuGraphInstantiateWithFlags")]
    pub fn instantiate_with(&self, options: &InstantiateOptions) -> CudaResult<GraphExec> {
        if self.share().has_slots() {
            return self.instantiate_slotted(options);
        }
        self.instantiate_itself(options)
    }

    /// Makes the graph executable, and no copy of it: the names of its nodes are those of the
    /// executable's.
    pub(super) fn instantiate_itself(&self, options: &InstantiateOptions) -> CudaResult<GraphExec> {
        options.check(self)?;
        self.check_whole()?;
        if options.flags.contains(InstantiateFlags::DEVICE_LAUNCH) {
            self.refuse_pools("the device cannot launch it, since nothing orders such launches")?;
        }
        let count = self.node_count()?;
        let attributes = LaunchAttributes::of(self)?;
        let raw = told(count, || match &options.upload {
            None => self.instantiate_raw(options.flags),
            Some(stream) => stream
                .outside_capture(|| stream.unless_barred(|| self.with_params(options)))?
                .ok_or_else(crate::graph::exec::launch_into_capture),
        })?;
        Ok(GraphExec::of(self, raw, count, options.flags, attributes))
    }

    /// Makes the graph executable, and keeps it there: [`GraphExec::graph`] has it, and
    /// [`GraphExec::node`] changes the executable's nodes by its names.
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Graph::instantiate); the graph is dropped then.
    pub fn into_exec(mut self) -> CudaResult<GraphExec> {
        match self.take_plain() {
            Some(plain) => plain.into_exec(),
            None => self.instantiate_own(),
        }
    }

    /// [`into_exec`](Graph::into_exec) of any graph.
    fn instantiate_own(self) -> CudaResult<GraphExec> {
        self.check_whole()?;
        let node_count = self.node_count()?;
        let raw = told(node_count, || self.instantiate_raw(InstantiateFlags::empty()))?;
        Ok(self.with_exec(raw, node_count))
    }

    /// The executable that keeps the graph which it was made of.
    fn with_exec(self, raw: CUgraphExec, node_count: usize) -> GraphExec {
        let (flags, attributes) = (InstantiateFlags::empty(), LaunchAttributes::Unread);
        let revision = self.edits.revision();
        let made = Made { raw, node_count, flags, attributes, revision };
        let (context, key) = (self.context.clone(), self.names().graph());
        let share = self.share().clone();
        GraphExec::new(made, context, key, share, Source::of(self)).with_slots()
    }

    /// Refuses a graph of which a part is missing.
    #[inline]
    fn check_whole(&self) -> CudaResult<()> {
        self.check_bodies()?;
        self.require_frees()
    }

    fn instantiate_raw(&self, flags: InstantiateFlags) -> CudaResult<CUgraphExec> {
        // SAFETY: a live graph of the context.
        let made = unsafe { instantiate_raw(&self.context, self.raw, flags) };
        made.or_else(|error| self.instantiate_again(flags, error))
    }

    /// Asks again where the driver can say which node is at fault, and why. A driver that changes
    /// its mind in between has made the executable after all.
    #[cold]
    fn instantiate_again(
        &self,
        flags: InstantiateFlags,
        error: CudaError,
    ) -> CudaResult<CUgraphExec> {
        if self.context.driver().has(Function::cuGraphInstantiateWithParams) {
            return self.with_params(&InstantiateOptions::new().flags(flags));
        }
        Err(InstantiateError::of_code(error))
    }

    fn with_params(&self, options: &InstantiateOptions) -> CudaResult<CUgraphExec> {
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: u64::from(options.flags.bits()),
            hUploadStream: ptr::null_mut(),
            hErrNode_out: ptr::null_mut(),
            result_out: CUDA_GRAPH_INSTANTIATE_SUCCESS,
        };
        if let Some(stream) = &options.upload {
            params.flags |= u64::from(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0);
            params.hUploadStream = stream.raw();
        }
        let mut raw = ptr::null_mut();
        let made = self.context.enter_relaxed(|functions| {
            // SAFETY: a live graph, a live stream or none, and live out-pointers.
            check(unsafe {
                (functions.cuGraphInstantiateWithParams)(&mut raw, self.raw, &mut params)
            })
        });
        match made {
            Ok(()) => Ok(raw),
            Err(CudaError::NotSupported)
                if !self.context.driver().has(Function::cuGraphInstantiateWithParams) =>
            {
                Err(CudaError::NotSupported)
            }
            Err(lost @ CudaError::ContextLost(_)) => Err(lost),
            Err(error) => Err(self.failure(&error, &params)),
        }
    }

    fn failure(&self, error: &CudaError, params: &CUDA_GRAPH_INSTANTIATE_PARAMS) -> CudaError {
        let node = params.hErrNode_out;
        let node = (!node.is_null())
            .then(|| (self.id(node), self.kind(node).unwrap_or(NodeKind::Other(u32::MAX))));
        let result = Some(params.result_out.into());
        CudaError::Instantiate(Box::new(InstantiateError { code: error.code(), result, node }))
    }
}

impl Captured {
    /// Makes the graph executable, and keeps it there.
    #[inline]
    pub(crate) fn into_exec(self) -> CudaResult<GraphExec> {
        if self.share.waits() {
            return self.into_exec_slowly();
        }
        // SAFETY: a live graph, which is the only one of this value.
        let node_count = match unsafe { count(&self.context, self.raw) } {
            Ok(count) => count,
            Err(error) => return self.without_exec(error),
        };
        let flags = InstantiateFlags::empty();
        // SAFETY: as above.
        let made =
            in_span(node_count, || unsafe { instantiate_raw(&self.context, self.raw, flags) });
        let raw = match made {
            Ok(raw) => raw,
            Err(error) => return self.into_exec_again(node_count, error),
        };
        // What an update asks of the kernels' attributes can be asked when there is one.
        let attributes = LaunchAttributes::Unread;
        let made = Made { raw, node_count, flags, attributes, revision: 0 };
        // SAFETY: the graph is nobody else's from here on.
        let source = unsafe { Source::captured(self.raw, self.recorded) };
        Ok(GraphExec::new(made, self.context, self.key, self.share, source).with_slots())
    }

    /// The same once the memory that the nodes use is there.
    #[cold]
    fn into_exec_slowly(self) -> CudaResult<GraphExec> {
        Graph::captured(self)?.instantiate_own()
    }

    #[cold]
    fn without_exec(self, error: CudaError) -> CudaResult<GraphExec> {
        drop(Graph::from(self));
        Err(error)
    }

    #[cold]
    fn into_exec_again(self, node_count: usize, error: CudaError) -> CudaResult<GraphExec> {
        let (graph, flags) = (Graph::from(self), InstantiateFlags::empty());
        let raw = told(node_count, || graph.instantiate_again(flags, error))?;
        Ok(graph.with_exec(raw, node_count))
    }
}

/// How many nodes a graph has.
///
/// # Safety
///
/// It is a live one of the context.
#[inline]
unsafe fn count(context: &Context, graph: CUgraph) -> CudaResult<usize> {
    let mut count = 0;
    // SAFETY: a live graph, and a live out-pointer; without an array only the count is given.
    context.check(unsafe {
        (context.functions().cuGraphGetNodes)(graph, ptr::null_mut(), &mut count)
    })?;
    Ok(count)
}

/// Makes a graph executable.
///
/// # Safety
///
/// It is a live one of the context.
#[inline]
unsafe fn instantiate_raw(
    context: &Context,
    graph: CUgraph,
    flags: InstantiateFlags,
) -> CudaResult<CUgraphExec> {
    let driver = context.driver();
    let mut raw = ptr::null_mut();
    context.enter_relaxed(|functions| {
        if !driver.has(Function::cuGraphInstantiateWithFlags) {
            // SAFETY: the caller's promise.
            return unsafe { before_flags(driver, graph, flags, &mut raw) };
        }
        let flags = u64::from(flags.bits());
        // SAFETY: a live graph and a live out-pointer.
        check(unsafe { (functions.cuGraphInstantiateWithFlags)(&mut raw, graph, flags) })
    })?;
    Ok(raw)
}

/// Drivers before 11.4: the same arguments from 10.0 on, under two names.
///
/// # Safety
///
/// The graph is a live one.
#[cold]
unsafe fn before_flags(
    driver: &Driver,
    graph: CUgraph,
    flags: InstantiateFlags,
    raw: &mut CUgraphExec,
) -> CudaResult<()> {
    if !flags.is_empty() {
        return Err(CudaError::NotSupported);
    }
    let functions = driver.functions();
    let instantiate = if driver.has(Function::cuGraphInstantiate_v2) {
        functions.cuGraphInstantiate_v2
    } else {
        functions.cuGraphInstantiate
    };
    // SAFETY: a live graph and a live out-pointer; the node and the log may be null, with 0 as
    // the log's size.
    check(unsafe { instantiate(raw, graph, ptr::null_mut(), ptr::null_mut(), 0) })
}

/// Makes an executable of a graph with so many nodes, and tells of it.
fn told(
    nodes: usize,
    instantiate: impl FnOnce() -> CudaResult<CUgraphExec>,
) -> CudaResult<CUgraphExec> {
    in_span(nodes, instantiate).inspect_err(|error| {
        contained(|| tracing::debug!(%error, "a graph could not be instantiated"));
    })
}

/// Makes a call within the span of an instantiation.
#[inline]
fn in_span<R>(nodes: usize, call: impl FnOnce() -> R) -> R {
    #[cold]
    #[inline(never)]
    fn within<R>(_span: EnteredSpan, call: impl FnOnce() -> R) -> R {
        call()
    }
    match tell::in_instantiation(nodes) {
        None => call(),
        Some(span) => within(span, call),
    }
}

impl InstantiateOptions {
    fn check(&self, graph: &Graph) -> CudaResult<()> {
        let both = InstantiateFlags::AUTO_FREE_ON_LAUNCH | InstantiateFlags::DEVICE_LAUNCH;
        if self.flags.contains(both) {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "flags",
                "AUTO_FREE_ON_LAUNCH and DEVICE_LAUNCH exclude each other: choose one",
            ));
        }
        if !InstantiateFlags::all().contains(self.flags) {
            return Err(CudaError::refused(
                CUDA_ERROR_INVALID_VALUE,
                "flags",
                format!("{:#x} has a bit that is no flag", self.flags.bits()),
            ));
        }
        match &self.upload {
            Some(stream) => crate::graph::exec::check_launch_stream(&graph.context, stream),
            None => Ok(()),
        }
    }
}

/// A graph that could not be made executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstantiateError {
    code: u32,
    result: Option<InstantiateResult>,
    node: Option<(NodeId, NodeKind)>,
}

impl InstantiateError {
    fn of_code(error: CudaError) -> CudaError {
        match error {
            error @ (CudaError::NotSupported | CudaError::ContextLost(_)) => error,
            error => CudaError::Instantiate(Box::new(InstantiateError {
                code: error.code(),
                result: None,
                node: None,
            })),
        }
    }

    /// The driver's code.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The reason, from a driver that gives one (12.0).
    pub fn result(&self) -> Option<InstantiateResult> {
        self.result
    }

    /// The node at fault, where the driver names one.
    pub fn node(&self) -> Option<NodeId> {
        self.node.map(|(node, _)| node)
    }
}

impl fmt::Display for InstantiateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the graph could not be instantiated: ")?;
        write_code(f, self.code)?;
        if let Some(result) = self.result {
            write!(f, "; {result}")?;
        }
        if let Some((node, kind)) = self.node {
            write!(f, "; the node at fault is a {kind} ({node:?})")?;
        }
        Ok(())
    }
}

impl std::error::Error for InstantiateError {}

/// Why the driver did not instantiate a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InstantiateResult {
    /// It did.
    Success,
    /// A reason that has no name of its own, such as a bad argument.
    Error,
    /// The structure is not valid: a cycle, say.
    InvalidStructure,
    /// A node's operation cannot be launched from the device.
    NodeOperationNotSupported,
    /// The nodes are of several contexts where only one is allowed.
    MultipleContexts,
    /// A conditional handle belongs to no node.
    ConditionalHandleUnused,
    /// A reason that this version of the library does not know.
    Other(u32),
}

impl From<CUgraphInstantiateResult> for InstantiateResult {
    fn from(raw: CUgraphInstantiateResult) -> InstantiateResult {
        match raw {
            CUDA_GRAPH_INSTANTIATE_SUCCESS => InstantiateResult::Success,
            CUDA_GRAPH_INSTANTIATE_ERROR => InstantiateResult::Error,
            CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE => InstantiateResult::InvalidStructure,
            CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED => {
                InstantiateResult::NodeOperationNotSupported
            }
            CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED => {
                InstantiateResult::MultipleContexts
            }
            CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED => {
                InstantiateResult::ConditionalHandleUnused
            }
            other => InstantiateResult::Other(other.0),
        }
    }
}

impl fmt::Display for InstantiateResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InstantiateResult::Success => "the driver names no reason",
            InstantiateResult::Error => "an argument or a node is not valid",
            InstantiateResult::InvalidStructure => "its structure is not valid, a cycle for one",
            InstantiateResult::NodeOperationNotSupported => {
                "a node's operation cannot be launched from the device"
            }
            InstantiateResult::MultipleContexts => "its nodes are of several contexts",
            InstantiateResult::ConditionalHandleUnused => "a conditional handle belongs to no node",
            InstantiateResult::Other(number) => return write!(f, "reason {number}"),
        })
    }
}
