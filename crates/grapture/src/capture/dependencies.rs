//! What the next operation of a capturing stream waits for, and how that is changed.

use std::ptr;

use grapture_sys::{
    CU_STREAM_ADD_CAPTURE_DEPENDENCIES, CU_STREAM_SET_CAPTURE_DEPENDENCIES,
    CUDA_ERROR_ILLEGAL_STATE, CUgraphEdgeData, CUgraphNode, CUresult, CUstream,
    CUstreamUpdateCaptureDependencies_flags, Function, Functions,
};

use crate::capture::{StreamGraphCapture, conditional};
use crate::error::{CudaError, CudaResult};
use crate::graph::{EdgeData, NodeId, NodeNames};
use crate::operation::{Operation, OperationKind};
use crate::stream::Stream;

impl StreamGraphCapture<'_> {
    /// The nodes that the stream's next operation waits for: after an operation, the node that it
    /// has become. [`Stream::capture_info`] tells it of any stream.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.3. As the driver
    /// answers, and [`StreamCaptureInvalidated`](CudaError::StreamCaptureInvalidated) of a broken
    /// capture.
    #[doc(alias = "cuStreamGetCaptureInfo")]
    pub fn dependencies(&self) -> CudaResult<Vec<NodeId>> {
        let told = self.log.paused(|names| {
            let info = conditional::active(self.stream)?;
            // SAFETY: the capture is paused, and there was no other call on it since.
            let nodes = unsafe { info.nodes() };
            Ok(nodes.iter().map(|node| names.id(*node)).collect())
        });
        told.unwrap_or_else(|| Err(self.log.elsewhere()))
    }

    /// [`Stream::set_capture_dependencies`] of the stream that began the capture.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 3)?;
    /// let (mut left, mut right) = words.split_at_mut(1)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     left.fill(1, &stream)?;
    ///     let first = capture.dependencies()?;
    ///     capture.set_dependencies(&[])?; // what follows waits for nothing
    ///     right.fill(2, &stream)?;
    ///     capture.add_dependencies(&first)?; // and what follows now, for both
    ///     right.view_mut(1..)?.fill(3, &stream)
    /// })?;
    /// assert_eq!((graph.roots()?.len(), graph.edges()?.len()), (2, 2));
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Stream::set_capture_dependencies`].
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[track_caller]
    pub fn set_dependencies(&self, nodes: &[NodeId]) -> CudaResult<()> {
        self.stream.set_capture_dependencies(nodes)
    }

    /// [`Stream::set_capture_dependencies_with`] of the stream that began the capture.
    ///
    /// # Errors
    ///
    /// As [`Stream::set_capture_dependencies_with`].
    #[doc(alias = "cuStreamUpdateCaptureDependencies_v2")]
    #[track_caller]
    pub fn set_dependencies_with(&self, nodes: &[(NodeId, EdgeData)]) -> CudaResult<()> {
        self.stream.set_capture_dependencies_with(nodes)
    }

    /// [`Stream::add_capture_dependencies`] of the stream that began the capture.
    ///
    /// # Errors
    ///
    /// As [`Stream::add_capture_dependencies`].
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[track_caller]
    pub fn add_dependencies(&self, nodes: &[NodeId]) -> CudaResult<()> {
        self.stream.add_capture_dependencies(nodes)
    }
}

impl Stream {
    /// Has what this stream, which captures, gets next wait for these nodes of the capture, and for
    /// nothing else. With none, it waits for nothing. Does not block.
    ///
    /// From there on nothing orders the stream's work with what it got before, but these nodes: as in
    /// a graph that is [built](crate::Graph::new), operations that use the same memory run in any
    /// order then, or at once. What is let go of so need not be joined.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused), and the capture stays valid: the stream does not capture, a
    /// node is one of another graph, another thread began the capture or a part of that is being
    /// captured, or a [`Temporary`](crate::Temporary) or [`Scratch`](crate::Scratch) of it is alive,
    /// which the order of its streams keeps.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 11.3. As
    /// the driver answers.
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[doc(alias = "CU_STREAM_SET_CAPTURE_DEPENDENCIES")]
    #[track_caller]
    pub fn set_capture_dependencies(&self, nodes: &[NodeId]) -> CudaResult<()> {
        self.check_order()?;
        self.change_dependencies(nodes, &[], OperationKind::SetDependencies)
    }

    /// [`set_capture_dependencies`](Stream::set_capture_dependencies), and says what of each node is
    /// waited for: with [`EdgeData::PROGRAMMATIC`], a kernel that comes next begins while the one
    /// before still runs.
    ///
    /// # Errors
    ///
    /// As [`set_capture_dependencies`](Stream::set_capture_dependencies). As the driver answers if
    /// the data does not fit the nodes. [`NotSupported`](CudaError::NotSupported): the driver is
    /// older than 12.3.
    #[doc(alias = "cuStreamUpdateCaptureDependencies_v2")]
    #[track_caller]
    pub fn set_capture_dependencies_with(&self, nodes: &[(NodeId, EdgeData)]) -> CudaResult<()> {
        self.check_order()?;
        let (nodes, data): (Vec<_>, Vec<CUgraphEdgeData>) =
            nodes.iter().map(|(node, data)| (*node, CUgraphEdgeData::from(*data))).unzip();
        self.change_dependencies(&nodes, &data, OperationKind::SetDependencies)
    }

    /// Has what this stream, which captures, gets next wait for these nodes of the capture too. Does
    /// not block.
    ///
    /// # Errors
    ///
    /// As [`set_capture_dependencies`](Stream::set_capture_dependencies), but memory does not
    /// matter.
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[doc(alias = "CU_STREAM_ADD_CAPTURE_DEPENDENCIES")]
    #[track_caller]
    pub fn add_capture_dependencies(&self, nodes: &[NodeId]) -> CudaResult<()> {
        self.change_dependencies(nodes, &[], OperationKind::AddDependencies)
    }

    /// Refuses another order of the stream while memory is kept allocated by that which it has.
    fn check_order(&self) -> CudaResult<()> {
        let log = self.capture_log().ok_or_else(no_capture)?;
        if log.has_temporaries() {
            return Err(keeps_order(
                "a temporary or scratch of the capture is alive, which the order of the streams keeps allocated \
                 while it is used: drop it first, or add dependencies instead",
            ));
        }
        Ok(())
    }

    /// Changes them by nodes with data; without data they are waited for whole.
    #[track_caller]
    fn change_dependencies(
        &self,
        nodes: &[NodeId],
        data: &[CUgraphEdgeData],
        kind: OperationKind,
    ) -> CudaResult<()> {
        let operation = Operation::new(kind);
        let log = self.capture_log().ok_or_else(no_capture)?;
        let function = match data {
            [] => Function::cuStreamUpdateCaptureDependencies,
            _ => Function::cuStreamUpdateCaptureDependencies_v2,
        };
        if !self.driver().has(function) {
            return Err(CudaError::NotSupported);
        }
        let named = |names: &NodeNames| {
            nodes.iter().map(|node| names.require(*node, "nodes")).collect::<CudaResult<Vec<_>>>()
        };
        let mut named = log.paused(named).unwrap_or_else(|| Err(log.elsewhere()))?;
        let mut before = Vec::new();
        let change = || {
            if kind == OperationKind::SetDependencies {
                let info = conditional::active(self)?;
                // SAFETY: nobody else submits to the capture, and there was no other call since.
                before = unsafe { info.nodes() }.to_vec();
            }
            // SAFETY: nodes of the capture, of which none is ever removed while it is open.
            self.with(|functions, raw| unsafe {
                update(functions, raw, &mut named, data, flags_of(kind).0)
            })
        };
        if kind == OperationKind::SetDependencies {
            log.note_reorder();
        }
        let changed = log.record_alone(self, operation, |_| {}, change);
        log.note_loose(&before);
        changed.unwrap_or_else(|| Err(log.elsewhere()))
    }
}

/// # Safety
///
/// A live stream, and nodes of its capture; there is data for none of them or for each.
unsafe fn update(
    functions: &Functions,
    stream: CUstream,
    nodes: &mut [CUgraphNode],
    data: &[CUgraphEdgeData],
    flags: u32,
) -> CUresult {
    let count = nodes.len();
    let list = if nodes.is_empty() { ptr::null_mut() } else { nodes.as_mut_ptr() };
    if data.is_empty() {
        // SAFETY: the caller's promise. The first version of the call makes full dependencies.
        return unsafe {
            (functions.cuStreamUpdateCaptureDependencies)(stream, list, count, flags)
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        (functions.cuStreamUpdateCaptureDependencies_v2)(stream, list, data.as_ptr(), count, flags)
    }
}

fn flags_of(kind: OperationKind) -> CUstreamUpdateCaptureDependencies_flags {
    match kind {
        OperationKind::SetDependencies => CU_STREAM_SET_CAPTURE_DEPENDENCIES,
        _ => CU_STREAM_ADD_CAPTURE_DEPENDENCIES,
    }
}

#[cold]
fn no_capture() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_ILLEGAL_STATE,
        "stream",
        "it is not capturing, and only a capture has dependencies: wait for an event instead",
    )
}

#[cold]
fn keeps_order(problem: &str) -> CudaError {
    CudaError::refused(CUDA_ERROR_ILLEGAL_STATE, "nodes", problem)
}
