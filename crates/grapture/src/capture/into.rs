//! Captures into a graph that there is.

use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr;

use grapture_sys::{CUDA_ERROR_NOT_SUPPORTED, CUgraph, CUgraphNode, Function};

use crate::capture::body::Nesting;
use crate::capture::borrowed_log::BorrowedLog;
use crate::capture::escape::{EscapePolicy, Watch};
use crate::capture::log::Closed;
use crate::capture::{
    CaptureLog, CaptureMode, CapturePlace, JoinPolicy, StreamGraphCapture, check_begin,
};
use crate::error::{CudaError, CudaResult};
use crate::graph::{Graph, NodeId, NodeNames};
use crate::reclaim::drop_contained;
use crate::stream::Stream;

impl Stream {
    /// Captures what `record` submits to the stream into a graph that there is, after its nodes
    /// `after`. Gives the nodes that come last on the stream: those that what follows waits for.
    ///
    /// If `record` gives an error or panics, the graph is as it was before, unless it has nodes that
    /// allocate memory: then it is empty, since the driver removes no node from it. A capture that
    /// the driver finds broken takes the graph with it, and it is empty too. What was made
    /// executable before is not touched by that.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_fill(FillNode::new(&mut words, 1)?, &[])?;
    /// let last = stream.capture_into(&mut graph, &[first], CaptureMode::ThreadLocal, |_| {
    ///     words.view_mut(1..)?.fill(2, &stream)
    /// })?;
    /// graph.add_fill(FillNode::new(&mut words.view_mut(2..)?, 3)?, &last)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(words.to_vec(&stream)?, [1, 2, 3, 3]);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `record` gives; else [`Capture`](CudaError::Capture) if the capture was broken.
    /// [`Refused`](CudaError::Refused), with nothing changed: a node of another graph in `after`,
    /// or a stream that cannot be captured, captures already or is of another driver.
    /// [`NotSupported`](CudaError::NotSupported): the driver is older than 12.3.
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    #[track_caller]
    pub fn capture_into<F>(
        &self,
        graph: &mut Graph,
        after: &[NodeId],
        mode: CaptureMode,
        record: F,
    ) -> CudaResult<Vec<NodeId>>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let end = Location::caller();
        if !self.driver().has(Function::cuStreamBeginCaptureToGraph) {
            return Err(CudaError::from(CUDA_ERROR_NOT_SUPPORTED));
        }
        check_begin(self)?;
        let target = graph.capture_target(self, after)?;
        let (raw, names) = (graph.raw(), Some(graph.names().clone()));
        let nesting = Nesting::of_body(graph.root());
        let capture = begin(self, raw, &target.after, mode, names, nesting)?;
        let recorded = catch_unwind(AssertUnwindSafe(|| record(&capture)));
        let last = self.capture_info();
        let Closed { ended, owners, recorded: lines } = capture.end_driver(mem::take, end);
        let kept = match (ended, &recorded, &last) {
            (Ok(_), ..) if capture.nesting.is_lost() => {
                // As a broken one; it is leaked.
                graph.lose(target);
                drop_contained(owners);
                capture.nesting.check()
            }
            (Ok(_), Ok(Ok(())), Ok(_)) if capture.nesting.failed().is_some() => {
                graph.drop_captured(target);
                drop_contained(owners);
                capture.nesting.check()
            }
            (Ok(_), Ok(Ok(())), Ok(_)) => graph.keep_captured(target, owners, lines),
            (Ok(_), ..) => {
                graph.drop_captured(target);
                drop_contained(owners);
                Ok(())
            }
            (Err(error), ..) => {
                graph.lose(target);
                drop_contained(owners);
                Err(error)
            }
        };
        recorded.unwrap_or_else(|payload| resume_unwind(payload))?;
        kept?;
        Ok(last?.dependencies().unwrap_or_default().to_vec())
    }
}

/// Begins the driver's capture into a graph, whose nodes are named so. Who gets it ends it.
pub(super) fn begin<'s>(
    stream: &'s Stream,
    graph: CUgraph,
    after: &[CUgraphNode],
    mode: CaptureMode,
    names: Option<NodeNames>,
    nesting: Nesting,
) -> CudaResult<StreamGraphCapture<'s>> {
    let log = BorrowedLog::new(stream);
    let blocking = stream.is_blocking();
    let id = CaptureLog::open(&log, stream, || {
        let begin = || begin_raw(stream, graph, after, mode);
        stream.context().begin_capture(blocking, begin)?;
        // Without its number it is taken for its own at the end. To end it here would be to lose
        // the graph.
        let id = stream.capture_id().or_else(|_| stream.capture_id());
        Ok(id.ok().map(|(_, id)| id))
    })?;
    if let Some(names) = names {
        log.set_names(names);
    }
    log.set_place(CapturePlace::Graph);
    let (context, ended, watch) = (None, true, Watch::new(EscapePolicy::default()));
    let (join_policy, _not_send) = (JoinPolicy::Strict, PhantomData);
    Ok(StreamGraphCapture {
        stream,
        log,
        context,
        id,
        ended,
        watch,
        nesting,
        join_policy,
        blocking,
        _not_send,
    })
}

fn begin_raw(
    stream: &Stream,
    graph: CUgraph,
    after: &[CUgraphNode],
    mode: CaptureMode,
) -> CudaResult<()> {
    let (nodes, full) = (if after.is_empty() { ptr::null() } else { after.as_ptr() }, ptr::null());
    stream.with(|functions, raw| {
        // SAFETY: a live stream, a live graph that is borrowed mutably until the capture ends, and
        // nodes of it; without data the dependencies are full ones.
        unsafe {
            (functions.cuStreamBeginCaptureToGraph)(
                raw,
                graph,
                nodes,
                full,
                after.len(),
                mode.as_raw(),
            )
        }
    })
}
