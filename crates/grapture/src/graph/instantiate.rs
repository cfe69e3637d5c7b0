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
    CUDA_GRAPH_INSTANTIATE_SUCCESS, CUgraphExec, CUgraphInstantiateResult, Function, Functions,
};

use crate::error::{CudaError, CudaResult, check, write_code};
use crate::graph::launch_attributes::LaunchAttributes;
use crate::graph::{Graph, GraphExec, NodeId, NodeKind};
use crate::stream::Stream;
use crate::tell::{self, contained};

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
    /// # Errors
    ///
    /// [`Instantiate`](CudaError::Instantiate), with the reason and the node where the driver
    /// tells (from 12.0). [`Refused`](CudaError::Refused): flags that exclude each other, or an
    /// upload stream of another context or that captures.
    /// [`NotSupported`](CudaError::NotSupported): flags need 11.4, an upload 12.0.
    #[doc(alias = "cuGraphInstantiateWithParams")]
    #[doc(alias = "cuGraphInstantiateWithFlags")]
    pub fn instantiate_with(&self, options: &InstantiateOptions) -> CudaResult<GraphExec> {
        self.make_executable(options, || LaunchAttributes::of(self))
    }

    /// `attributes` gives what is known of the kernels' launch attributes.
    fn make_executable(
        &self,
        options: &InstantiateOptions,
        attributes: impl FnOnce() -> CudaResult<LaunchAttributes>,
    ) -> CudaResult<GraphExec> {
        options.check(self)?;
        self.require_frees()?;
        if options.flags.contains(InstantiateFlags::DEVICE_LAUNCH) {
            self.refuse_pools("the device cannot launch it, since nothing orders such launches")?;
        }
        let node_count = self.node_count()?;
        let attributes = attributes()?;
        let _span = tell::in_instantiation(node_count);
        let raw = self.instantiate_raw(options).inspect_err(|error| {
            contained(|| tracing::debug!(%error, "a graph could not be instantiated"));
        })?;
        Ok(GraphExec::of(self, raw, node_count, options.flags, attributes))
    }

    /// Makes the graph executable, and keeps it there: [`GraphExec::graph`] has it, and
    /// [`GraphExec::node`] changes the executable's nodes by its names.
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Graph::instantiate); the graph is dropped then.
    pub fn into_exec(self) -> CudaResult<GraphExec> {
        let options = InstantiateOptions::new();
        // What an update asks of the graph can be asked when there is one.
        let exec = self.make_executable(&options, || Ok(LaunchAttributes::Unread))?;
        Ok(exec.with_source(self))
    }

    fn instantiate_raw(&self, options: &InstantiateOptions) -> CudaResult<CUgraphExec> {
        let driver = self.context.driver();
        if let Some(stream) = &options.upload {
            return stream
                .outside_capture(|| stream.unless_barred(|| self.with_params(options)))?
                .ok_or_else(crate::graph::exec::launch_into_capture);
        }
        let mut raw = ptr::null_mut();
        let flags = options.flags.bits();
        let made = self.context.enter_relaxed(|functions| {
            if driver.has(Function::cuGraphInstantiateWithFlags) {
                // SAFETY: a live graph and a live out-pointer.
                check(unsafe {
                    (functions.cuGraphInstantiateWithFlags)(&mut raw, self.raw, u64::from(flags))
                })
            } else if flags == 0 {
                self.before_flags(functions, &mut raw)
            } else {
                Err(CudaError::NotSupported)
            }
        });
        match made {
            Ok(()) => Ok(raw),
            // Asked again where the driver can say which node and why. A driver that changes its
            // mind in between has made the executable after all.
            Err(_) if driver.has(Function::cuGraphInstantiateWithParams) => {
                self.with_params(options)
            }
            Err(error) => Err(InstantiateError::of_code(error)),
        }
    }

    /// Drivers before 11.4: the same arguments from 10.0 on, under two names.
    fn before_flags(&self, functions: &Functions, raw: &mut CUgraphExec) -> CudaResult<()> {
        let driver = self.context.driver();
        let instantiate = if driver.has(Function::cuGraphInstantiate_v2) {
            functions.cuGraphInstantiate_v2
        } else {
            functions.cuGraphInstantiate
        };
        // SAFETY: a live graph and a live out-pointer; the node and the log may be null, with 0 as
        // the log's size.
        check(unsafe { instantiate(raw, self.raw, ptr::null_mut(), ptr::null_mut(), 0) })
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
        graph.check_bodies()?;
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
