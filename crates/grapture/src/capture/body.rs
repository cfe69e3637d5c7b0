//! The body of a conditional node while it is captured: how it is checked and ended, and what a
//! body that failed means for the captures around it.

use std::cell::Cell;
use std::collections::HashSet;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use grapture_sys::{
    CU_STREAM_ADD_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, CUgraph,
    CUgraphNode, CUresult,
};

use crate::capture::{
    CaptureError, CaptureLog, CaptureMode, CapturePlace, Recorded, StreamGraphCapture, check_begin,
    into,
};
use crate::error::{CudaError, CudaResult};
use crate::graph::{GraphKey, NodeNames, body_leaves, body_misfit};
use crate::retain::Owners;
use crate::stream::Stream;

/// Where a capture stands among those of the bodies in it.
#[derive(Default)]
pub(crate) struct Nesting {
    /// The outermost graph, if this capture is of a body.
    root: Option<GraphKey>,
    /// The code with which a body of this capture failed: the capture is then of no use.
    failed: Cell<Option<u32>>,
    /// Whether the driver has destroyed a body that a node of this capture still has.
    lost: Cell<bool>,
}

impl Nesting {
    pub(super) fn of_body(root: GraphKey) -> Nesting {
        Nesting { root: Some(root), ..Nesting::default() }
    }

    /// The key of the outermost graph, in which conditions are made.
    pub(super) fn root(&self, log: &CaptureLog) -> GraphKey {
        self.root.unwrap_or(log.key())
    }

    /// Notes that a body failed. Gives what was noted before.
    pub(super) fn fail(&self, code: u32) -> Option<u32> {
        self.failed.replace(Some(code))
    }

    /// Takes that back.
    pub(super) fn recover(&self, before: Option<u32>) {
        self.failed.set(before);
    }

    /// Why the capture is of no use, if a body failed.
    pub(super) fn failed(&self) -> Option<u32> {
        self.failed.get()
    }

    /// Refuses a capture of which a body failed.
    #[inline]
    pub(super) fn check(&self) -> CudaResult<()> {
        self.failed.get().map_or(Ok(()), |code| Err(body_failed(code)))
    }

    /// Notes that the driver has destroyed a body. Measured: to destroy the graph that has the
    /// node then crashes, and so does everything that destroys it in passing. It is leaked.
    pub(super) fn lose(&self) {
        self.lost.set(true);
        self.failed.set(Some(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.0));
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.get()
    }
}

#[cold]
fn body_failed(code: u32) -> CudaError {
    CudaError::refused(
        CUresult(code),
        "capture",
        "the body of a conditional node failed while it was captured, so the node is not whole: \
         capture all of it again",
    )
}

/// Where a capture of a body goes.
pub(crate) struct BodyPlace<'a> {
    pub(crate) graph: CUgraph,
    /// The outermost graph that it is in.
    pub(crate) root: GraphKey,
    /// The nodes of it that what is captured comes after.
    pub(crate) after: &'a [CUgraphNode],
    /// How many nodes it has.
    pub(crate) before: usize,
    /// How they are named, if they are.
    pub(crate) names: Option<NodeNames>,
    /// The capture that the conditional node is in, and its stream there; none if it was built.
    pub(crate) outer: Option<(CaptureLog, Stream)>,
}

/// What the capture of a body has given.
pub(crate) struct BodyRecord {
    /// The nodes that come last on the stream; or what failed, or panicked.
    pub(crate) recorded: std::thread::Result<CudaResult<Vec<CUgraphNode>>>,
    /// What is used by what was captured.
    pub(crate) owners: Owners,
    /// What is known of what was captured.
    pub(crate) notes: Recorded,
    /// Whether the driver has destroyed the body: the graph that it is in has to be leaked.
    pub(crate) lost: bool,
}

/// Captures a body from the stream. It ends in any case.
pub(crate) fn capture_body(
    stream: &Stream,
    place: BodyPlace<'_>,
    record: &mut dyn FnMut(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> CudaResult<BodyRecord> {
    check_begin(stream)?;
    let BodyPlace { graph, root, after, before, names, outer } = place;
    // It bars no call of any thread: what other captures bar is as it was.
    let mode = CaptureMode::Relaxed;
    let capture = into::begin(stream, graph, after, mode, names, Nesting::of_body(root))?;
    if let Some((log, stream)) = outer {
        capture.log.set_place(CapturePlace::Part(log, stream));
    }
    let recorded = catch_unwind(AssertUnwindSafe(|| {
        record(&capture)?;
        capture.check_body(graph, before)?;
        capture.nesting.check()
    }));
    let last = capture.last_nodes();
    let (ended, owners, notes) = capture.end_body(graph, before);
    let recorded = recorded.map(|recorded| {
        recorded?;
        ended.map_err(CudaError::Capture)?;
        last
    });
    Ok(BodyRecord { recorded, owners, notes, lost: capture.nesting.is_lost() })
}

impl StreamGraphCapture<'_> {
    /// The nodes that come last on the stream.
    fn last_nodes(&self) -> CudaResult<Vec<CUgraphNode>> {
        let told = self.log.paused(|_| {
            let info = self.stream.raw_capture_info().unwrap_or(Err(CudaError::NotSupported))?;
            // SAFETY: the capture is paused, and there was no other call on it since.
            Ok(unsafe { info.nodes() }.to_vec())
        });
        told.unwrap_or(Err(CudaError::NotSupported))
    }

    /// Refuses what the body of a conditional node cannot have, by the line that recorded it. The
    /// driver would refuse it where the whole graph is made executable, and name no line.
    fn check_body(&self, body: CUgraph, before: usize) -> CudaResult<()> {
        // SAFETY: the graph of this capture, which only this thread adds to.
        let misfit = unsafe { body_misfit(self.stream.context(), body) }?;
        let Some((index, kind)) = misfit else { return Ok(()) };
        let what = match self.log.node_operation(index.wrapping_sub(before)) {
            Some(operation) => operation.to_string(),
            None => format!("its node {index}, a {kind},"),
        };
        Err(CudaError::refused(
            CUDA_ERROR_INVALID_VALUE,
            "body",
            format!(
                "{what} cannot be in the body of a conditional node, which has kernels, copies, \
                 fills, conditional nodes and graphs of these: do it before or after the node"
            ),
        ))
    }

    /// Ends the capture of a body. Gives whether that was right, what it uses, and what it recorded.
    fn end_body(
        &self,
        body: CUgraph,
        before: usize,
    ) -> (Result<(), Box<CaptureError>>, Owners, Recorded) {
        // To end it unjoined would be to lose the body: it is joined, and then refused.
        let joined = self.join_leaves(body, before);
        let closed = self.close(mem::take, || {
            if self.nesting.is_lost() {
                self.leave();
                return Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.0);
            }
            self.end_whole(body)?;
            match self.nesting.failed() {
                Some(code) => Err(code),
                None => joined,
            }
        });
        (closed.ended, closed.owners, closed.recorded)
    }

    /// Ends the driver's capture of a body, which is lost if that was not valid any more.
    fn end_whole(&self, body: CUgraph) -> Result<(), u32> {
        let invalid = CudaError::from(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        let end = || {
            let mut ended = std::ptr::null_mut();
            self.end_raw(&mut ended)?;
            if ended == body { Ok(()) } else { Err(invalid.clone()) }
        };
        end().map_err(|error| {
            // A call that failed before the driver saw the capture has left it open. In a context
            // that is lost nothing is destroyed any more.
            if !error.is_sticky() && (!self.is_active() || end().is_err()) {
                self.nesting.lose();
            }
            error.code()
        })
    }

    /// Has the stream wait for all that the capture has recorded. Gives an error if it did not.
    fn join_leaves(&self, body: CUgraph, before: usize) -> Result<(), u32> {
        let loose = self.log.take_loose();
        let joined: Option<CudaResult<bool>> = self.log.paused(|_| {
            let info = self.stream.raw_capture_info().unwrap_or(Err(CudaError::NotSupported))?;
            // SAFETY: the capture is paused, and there was no other call on it since.
            let known: HashSet<_> = unsafe { info.nodes() }.iter().copied().collect();
            // SAFETY: the graph of this capture, which only this thread adds to.
            let mut leaves = unsafe { body_leaves(self.stream.context(), body, before) }?;
            leaves.retain(|leaf| !known.contains(leaf));
            if !leaves.is_empty() {
                add_dependencies(self.stream, &mut leaves)?;
            }
            Ok(leaves.iter().all(|leaf| loose.contains(&leaf.addr())))
        });
        match joined {
            Some(Ok(false)) => Err(CUDA_ERROR_STREAM_CAPTURE_UNJOINED.0),
            // What cannot be asked is told by the end.
            Some(Ok(true) | Err(_)) | None => Ok(()),
        }
    }
}

fn add_dependencies(stream: &Stream, nodes: &mut [CUgraphNode]) -> CudaResult<()> {
    let flags = CU_STREAM_ADD_CAPTURE_DEPENDENCIES.0;
    stream.with(|functions, raw| {
        // SAFETY: a live stream that captures, and nodes of its capture.
        unsafe {
            (functions.cuStreamUpdateCaptureDependencies)(
                raw,
                nodes.as_mut_ptr(),
                nodes.len(),
                flags,
            )
        }
    })
}
