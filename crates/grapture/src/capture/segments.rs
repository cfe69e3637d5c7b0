//! [`Segments`]: work of which some cannot be captured, as graphs with calls between them.

use std::fmt;
use std::panic::Location;

use grapture_sys::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

use crate::capture::CaptureOptions;
use crate::capture::segment_capture::SegmentCapture;
use crate::capture::segment_error::{SegmentError, SegmentKind};
use crate::context::Context;
use crate::error::{CudaError, CudaResult};
use crate::graph::{Graph, GraphExec};
use crate::retain::LastLaunch;
use crate::stream::Stream;
use crate::tell;

/// Work that is called at every launch.
pub(super) type Eager<'env, S> = Box<dyn FnMut(&Stream, &mut S) -> CudaResult<()> + Send + 'env>;

/// Work of which some cannot be captured: executable graphs, and between them calls that run
/// eagerly, in the order in which they were recorded. A launch runs all of it.
///
/// [`Stream::capture_segments`] makes them. Eager work may borrow for `'env`, and is given an `S`
/// at each [launch](Segments::launch_with).
pub struct Segments<'env, S = ()> {
    context: Context,
    segments: Vec<Segment<'env, S>>,
    /// What pieces without nodes retain.
    _kept: Vec<Graph>,
    last: LastLaunch,
}

/// One of the [`Segments`]: a graph, or eager work.
pub struct Segment<'env, S = ()> {
    pub(super) location: &'static Location<'static>,
    pub(super) run: Run<'env, S>,
}

pub(super) enum Run<'env, S> {
    Graph(Box<GraphExec>),
    Eager(Eager<'env, S>),
}

impl Stream {
    /// Captures what `record` submits to the stream, but for what it marks by
    /// [`eager`](SegmentCapture::eager): that splits the capture, and is called between the pieces
    /// at every launch. While it is recorded, nothing runs.
    ///
    /// Everything that is not marked is captured as by [`capture`](Stream::capture), so what cannot
    /// be captured is an error. Forks are joined and temporaries dropped before eager work is
    /// marked. Between two pieces the stream captures nothing for a moment: another thread's work
    /// on it would run.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// # let stream = Stream::new(&context)?;
    /// struct Model {
    ///     words: DeviceBuffer<u32>,
    ///     seen: Vec<u32>,
    /// }
    /// let words = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let mut model = Model { words, seen: Vec::new() };
    ///
    /// let mut segments = Segments::capture(&stream, CaptureMode::ThreadLocal, |capture| {
    ///     model.words.fill(7, capture.stream())?;
    ///     capture.eager_with(|stream, model: &mut Model| {
    ///         model.seen = model.words.to_vec(stream)?; // waits, which no capture can
    ///         Ok(())
    ///     })?;
    ///     model.words.fill(8, capture.stream())
    /// })?;
    /// assert_eq!(segments.len(), 3);
    /// for _ in 0..2 {
    ///     segments.launch_with(&stream, &mut model)?;
    ///     assert_eq!(model.seen, [7, 7]);
    ///     assert_eq!(model.words.to_vec(&stream)?, [8, 8]);
    /// }
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `record` gives, then as [`capture`](Stream::capture).
    /// [`Segment`](CudaError::Segment) of a piece that is broken or cannot be made executable, also
    /// if `record` has passed over it.
    #[doc(alias = "cuStreamBeginCapture")]
    #[track_caller]
    pub fn capture_segments<'s, 'env>(
        &'s self,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&mut SegmentCapture<'s, 'env>) -> CudaResult<()>,
    ) -> CudaResult<Segments<'env>> {
        Segments::capture(self, options, record)
    }
}

impl<'env, S> Segments<'env, S> {
    /// [`Stream::capture_segments`], for eager work that is given a state at each launch.
    ///
    /// # Errors
    ///
    /// As [`Stream::capture_segments`].
    #[track_caller]
    pub fn capture<'s>(
        stream: &'s Stream,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&mut SegmentCapture<'s, 'env, S>) -> CudaResult<()>,
    ) -> CudaResult<Segments<'env, S>> {
        let options = options.into();
        let _span = tell::in_capture(options.mode());
        let mut capture = SegmentCapture::begin(stream, options)?;
        record(&mut capture)?;
        capture.end()
    }

    pub(super) fn new(
        context: Context,
        segments: Vec<Segment<'env, S>>,
        kept: Vec<Graph>,
    ) -> Segments<'env, S> {
        Segments { context, segments, _kept: kept, last: LastLaunch::Never }
    }

    /// Runs the segments in order, each after the one before on the stream: launches the graphs,
    /// and calls the eager work with the stream and the state. Blocks only if that does. A launch
    /// on another stream than the last comes after that one, as far as that was submitted.
    ///
    /// # Errors
    ///
    /// [`Segment`](CudaError::Segment) of the first segment that fails: those before it were
    /// submitted, those after it were not. So it is when eager work panics, which passes through.
    /// [`Refused`](CudaError::Refused): the stream is of another context, or it captures.
    #[doc(alias = "cuGraphLaunch")]
    #[track_caller]
    pub fn launch_with(&mut self, stream: &Stream, state: &mut S) -> CudaResult<()> {
        stream.require_context(&self.context, "stream")?;
        if stream.is_capturing() {
            return Err(into_a_capture());
        }
        self.last.precede(stream)?;
        let _noted = Noted { last: &mut self.last, stream };
        for (index, segment) in self.segments.iter_mut().enumerate() {
            let ran = match &mut segment.run {
                Run::Graph(exec) => exec.launch(stream),
                Run::Eager(work) => work(stream, state),
            };
            if let Err(error) = ran {
                return Err(SegmentError::of(index, segment.kind(), segment.location, error));
            }
        }
        Ok(())
    }

    /// Uploads the graphs on a stream without running them, so that the first launch is as fast as
    /// later ones.
    ///
    /// # Errors
    ///
    /// As [`GraphExec::upload`].
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&self, stream: &Stream) -> CudaResult<()> {
        for (index, segment) in self.segments.iter().enumerate() {
            let uploaded = segment.exec().map_or(Ok(()), |exec| exec.upload(stream));
            uploaded.map_err(|error| {
                SegmentError::of(index, segment.kind(), segment.location, error)
            })?;
        }
        Ok(())
    }

    /// The segments, in the order in which they run.
    pub fn segments(&self) -> &[Segment<'env, S>] {
        &self.segments
    }

    /// The executable graph of a segment, to change as any other: by its number among the
    /// segments. None for eager work.
    pub fn exec_mut(&mut self, segment: usize) -> Option<&mut GraphExec> {
        match &mut self.segments.get_mut(segment)?.run {
            Run::Graph(exec) => Some(exec),
            Run::Eager(_) => None,
        }
    }

    /// The number of segments. Pieces in which nothing was recorded are none.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The number of nodes in all graphs together.
    pub fn node_count(&self) -> usize {
        self.segments.iter().filter_map(Segment::exec).map(GraphExec::node_count).sum()
    }
}

impl Segments<'_> {
    /// [`launch_with`](Segments::launch_with) for eager work that needs no state.
    ///
    /// # Errors
    ///
    /// As [`launch_with`](Segments::launch_with).
    #[doc(alias = "cuGraphLaunch")]
    #[track_caller]
    pub fn launch(&mut self, stream: &Stream) -> CudaResult<()> {
        self.launch_with(stream, &mut ())
    }
}

impl<S> Segment<'_, S> {
    /// The executable graph; none if it is eager work.
    pub fn exec(&self) -> Option<&GraphExec> {
        match &self.run {
            Run::Graph(exec) => Some(exec),
            Run::Eager(_) => None,
        }
    }

    /// Whether it is eager work.
    pub fn is_eager(&self) -> bool {
        matches!(self.run, Run::Eager(_))
    }

    /// The line of the program where it begins.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    fn kind(&self) -> SegmentKind {
        if self.is_eager() { SegmentKind::Eager } else { SegmentKind::Graph }
    }
}

/// Notes a launch when it is over, however that came about.
struct Noted<'a> {
    last: &'a mut LastLaunch,
    stream: &'a Stream,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.last.note(self.stream);
    }
}

impl<S> fmt::Debug for Segments<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.segments).finish()
    }
}

impl<S> fmt::Debug for Segment<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.run {
            Run::Graph(exec) => exec.fmt(f),
            Run::Eager(_) => write!(f, "eager work ({})", crate::operation::Line(self.location)),
        }
    }
}

#[cold]
fn into_a_capture() -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "stream",
        "it is capturing, and segments have work that runs eagerly: launch them after the capture, \
         or on another stream",
    )
}
