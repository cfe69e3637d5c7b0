//! [`GraphExec`]: an executable graph, and its launch.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use grapture_sys::{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUgraphExec, Function, Functions};

use crate::context::Context;
use crate::drop_error::report;
use crate::error::{CudaError, CudaResult, check};
use crate::graph::{Graph, InstantiateFlags};
use crate::operation::{Operation, OperationKind};
use crate::pinned::PinnedInner;
use crate::retain::{LastLaunch, Share};
use crate::stream::{Stream, other_context};
use crate::tell;

/// An executable graph. Each launch replays all of it with one driver call.
///
/// It owns what its nodes use (O2), also while a launch is in flight: dropping it then returns at
/// once, and what it owns is released when the launch is done. It needs no [`Graph`] and no
/// stream of the capture to be alive.
///
/// It can be sent to another thread, and not shared: NVIDIA forbids concurrent use of one.
pub struct GraphExec {
    raw: CUgraphExec,
    context: Context,
    node_count: usize,
    flags: InstantiateFlags,
    /// What the nodes use. Taken by the drop alone.
    share: Option<Share>,
    last_launch: RefCell<LastLaunch>,
    /// The graph that it was made of, where nobody else has it.
    source: Option<Graph>,
    // Not `Sync`, see above (O8).
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: a `CUgraphExec` belongs to no thread; one thread at a time uses it, since the type is
// not `Sync`. Its owners are `Send`.
unsafe impl Send for GraphExec {}

impl GraphExec {
    pub(super) fn of(
        graph: &Graph,
        raw: CUgraphExec,
        node_count: usize,
        flags: InstantiateFlags,
    ) -> GraphExec {
        GraphExec {
            raw,
            context: graph.context.clone(),
            node_count,
            flags,
            share: Some(graph.share().clone()),
            last_launch: RefCell::new(LastLaunch::Never),
            source: None,
            _not_sync: PhantomData,
        }
    }

    pub(super) fn with_source(mut self, graph: Graph) -> GraphExec {
        self.source = Some(graph);
        self
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The graph that it was made of, if it came from
    /// [`StreamGraphCapture::end`](crate::StreamGraphCapture::end), which keeps it here.
    pub fn graph(&self) -> Option<&Graph> {
        self.source.as_ref()
    }

    /// The raw handle. It stays valid as long as the executable graph lives.
    pub fn as_raw(&self) -> CUgraphExec {
        self.raw
    }

    /// The number of nodes, as the driver counted them when it was made.
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// The flags, as the driver has them; as they were asked for, from a driver before 12.0.
    ///
    /// # Errors
    ///
    /// As the driver answers.
    #[doc(alias = "cuGraphExecGetFlags")]
    pub fn flags(&self) -> CudaResult<InstantiateFlags> {
        if !self.context.driver().has(Function::cuGraphExecGetFlags) {
            return Ok(self.flags);
        }
        let mut flags = 0;
        // SAFETY: a live executable graph, and a live out-pointer.
        check(unsafe { (self.context.functions().cuGraphExecGetFlags)(self.raw, &mut flags) })?;
        Ok(InstantiateFlags::from_bits_retain(flags as u32))
    }

    /// Runs the graph once, in the order of the stream, which may be any of the context. Does not
    /// block. Launches of one executable graph never overlap, on whatever streams.
    ///
    /// # Errors
    ///
    /// [`Refused`](CudaError::Refused): the stream is of another context, or it captures, or the
    /// host holds pinned memory that the graph uses. An error of earlier work.
    #[doc(alias = "cuGraphLaunch")]
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> CudaResult<()> {
        stream.require_context(&self.context, "stream")?;
        // The host is kept off the pinned memory from before the launch on (O6).
        let pinned = self.share.as_ref().map_or(&[][..], Share::pinned);
        let _submissions = match pinned {
            [] => None,
            pinned => Some(PinnedInner::use_all(pinned, stream)?),
        };
        let operation = Operation::new(OperationKind::GraphLaunch);
        self.submit(stream, || {
            // SAFETY: a live executable graph that no other thread uses now (not `Sync`), and a
            // live stream. What the nodes touch is kept until the launch is done (O2).
            let launch =
                |functions: &Functions, raw| unsafe { (functions.cuGraphLaunch)(self.raw, raw) };
            stream.run(&operation, || stream.with(launch))?;
            tell::of_launch(self.node_count);
            self.last_launch.borrow_mut().note(stream);
            Ok(())
        })
    }

    /// Makes a call with the executable graph on the stream, unless that captures.
    #[inline]
    fn submit(&self, stream: &Stream, call: impl FnOnce() -> CudaResult<()>) -> CudaResult<()> {
        stream.route(|log| log.is_open().then(|| Err(launch_into_capture())), call)
    }

    /// Uploads the executable graph on a stream without running it, so that the first launch is as
    /// fast as later ones.
    ///
    /// # Errors
    ///
    /// As [`launch`](GraphExec::launch). [`NotSupported`](CudaError::NotSupported): the driver is
    /// older than 11.1.
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&self, stream: &Stream) -> CudaResult<()> {
        check_launch_stream(&self.context, stream)?;
        self.submit(stream, || {
            // SAFETY: a live executable graph that no other thread uses now, and a live stream.
            stream.with(|functions, raw| unsafe { (functions.cuGraphUpload)(self.raw, raw) })
        })
    }
}

/// Refuses a stream on which a graph cannot be launched.
#[inline]
pub(super) fn check_launch_stream(context: &Context, stream: &Stream) -> CudaResult<()> {
    if !context.same(stream.context()) {
        return Err(other_context("stream"));
    }
    if stream.is_capturing() {
        return Err(launch_into_capture());
    }
    Ok(())
}

#[cold]
pub(super) fn launch_into_capture() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and an executable graph cannot be launched into a capture: launch it on \
         another stream, or capture its work again here",
    )
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: ours, and the last use. A launch in flight is finished by the driver. The call
        // is one that a capture bars, so the thread's mode is relaxed around it (O9).
        let code = self
            .context
            .driver()
            .relaxed(|functions| unsafe { (functions.cuGraphExecDestroy)(self.raw) });
        report("cuGraphExecDestroy", check(code));
        if let Some(share) = self.share.take() {
            share.release(self.context.driver(), self.last_launch.replace(LastLaunch::Never));
        }
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec")
            .field("raw", &self.raw)
            .field("node_count", &self.node_count)
            .finish_non_exhaustive()
    }
}
