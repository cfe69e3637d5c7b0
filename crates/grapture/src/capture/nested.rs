//! Captures within captures: a part that becomes one node.

use std::panic::Location;

use grapture_sys::Function;

use crate::capture::escape::EscapePolicy;
use crate::capture::recorded::Labelled;
use crate::capture::{CaptureLog, CaptureMode, CaptureOptions, CapturePlace, StreamGraphCapture};
use crate::error::{CudaError, CudaResult};
use crate::graph::Graph;
use crate::stream::{Stream, StreamOptions};

impl StreamGraphCapture<'_> {
    /// Captures what `record` submits to a stream of its own as a graph, and adds that here as one
    /// node with this label, at this place of the stream. Gives the graph, which can be
    /// [embedded](StreamGraphCapture::embed) again.
    ///
    /// The stream is [`stream`](StreamGraphCapture::stream) of what the closure is given; those of
    /// this capture take nothing meanwhile. If `record` fails or panics, this capture is as it was
    /// before.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |capture| {
    ///     let block = capture.child("block", |inner| words.fill(1, inner.stream()))?;
    ///     words.view_mut(1..)?.fill(2, &stream)?;
    ///     capture.embed(&block)
    /// })?;
    /// let topology = graph.topology()?;
    /// assert_eq!(topology.nodes()[0].label(), Some("block"));
    /// assert_eq!(graph.node_count()?, 3);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `record` gives, and as [`Stream::capture`] and [`Graph::embed`]: a part that allocates
    /// memory is for [`child_moved`](StreamGraphCapture::child_moved).
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[track_caller]
    pub fn child<F>(&self, label: &str, record: F) -> CudaResult<Graph>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        embed_child(&self.log, self.stream, label, record)
    }

    /// [`child`](StreamGraphCapture::child) whose graph moves into the node, so that it may allocate
    /// memory. Not within another part.
    ///
    /// # Errors
    ///
    /// What `record` gives, and as [`Stream::capture`] and [`Graph::embed_moved`].
    #[doc(alias = "CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE")]
    #[track_caller]
    pub fn child_moved<F>(&self, label: &str, record: F) -> CudaResult<()>
    where
        F: FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
    {
        let graph = capture_child(&self.log, self.stream, record)?;
        let _label = Labelled::new(&self.log, label);
        graph.embed_moved(self.stream)
    }
}

impl Stream {
    /// Runs `work` with a stream to submit to. While this stream captures, what `work` submits becomes
    /// one node of the capture, a child graph with this label; else it is submitted to this stream.
    /// So a function can mark a part of its work without knowing whether it is captured.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// fn block(words: &mut DeviceBuffer<u32>, stream: &Stream) -> CudaResult<()> {
    ///     stream.as_child("block", |stream| {
    ///         words.fill(1, stream)?;
    ///         words.view_mut(1..)?.fill(2, stream)
    ///     })
    /// }
    /// let mut words = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// block(&mut words, &stream)?; // runs
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |_| block(&mut words, &stream))?;
    /// assert_eq!(graph.nodes()?[0].kind(), NodeKind::ChildGraph);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `work` gives. While this stream captures, as [`StreamGraphCapture::child`].
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[track_caller]
    pub fn as_child<R>(
        &self,
        label: &str,
        work: impl FnOnce(&Stream) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let Some(log) = self.capture_log() else { return work(self) };
        let mut result = None;
        embed_child(&log, self, label, |capture| {
            result = Some(work(capture.stream())?);
            Ok(())
        })?;
        // INVARIANT: the closure ran to its end.
        Ok(result.expect("the work has a result"))
    }
}

/// Captures a part of a capture, and embeds it on `stream`.
#[track_caller]
fn embed_child(
    log: &CaptureLog,
    stream: &Stream,
    label: &str,
    record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> CudaResult<Graph> {
    let graph = capture_child(log, stream, record)?;
    let _label = Labelled::new(log, label);
    graph.embed(stream)?;
    Ok(graph)
}

/// Captures a part of a capture on a stream of the library's.
#[track_caller]
fn capture_child(
    log: &CaptureLog,
    stream: &Stream,
    record: impl FnOnce(&StreamGraphCapture<'_>) -> CudaResult<()>,
) -> CudaResult<Graph> {
    let line = Location::caller();
    if !stream.driver().has(Function::cuStreamUpdateCaptureDependencies) {
        return Err(CudaError::NotSupported);
    }
    // Only the thread that began it has its part, and can give that up for a time.
    log.paused(|_| ()).ok_or_else(|| log.elsewhere())?;
    let inner = beside(stream)?;
    // It bars no call of any thread, and what escapes from it escapes from the capture around it.
    let options = CaptureOptions::new(CaptureMode::Relaxed).escapes(EscapePolicy::Ignore);
    let _suspended = log.suspend(line);
    inner.capture_with(options, |capture| {
        capture.log().set_place(CapturePlace::Part(log.clone(), stream.clone()));
        record(capture)
    })
}

/// A stream beside another one, of the same context and priority.
pub(super) fn beside(stream: &Stream) -> CudaResult<Stream> {
    let priority = StreamOptions::new().priority(stream.priority()?);
    Stream::with_options(stream.context(), priority)
}
