//! [`SegmentCapture`]: a capture that is split by work that cannot be captured.

use std::fmt;
use std::mem;
use std::panic::Location;

use grapture_sys::{CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_UNJOINED};

use crate::capture::fork::JoinPolicy;
use crate::capture::segment_error::{SegmentError, SegmentKind};
use crate::capture::segments::{Eager, Run, Segment, Segments};
use crate::capture::{CaptureOptions, StreamGraphCapture};
use crate::error::{CudaError, CudaResult};
use crate::graph::Graph;
use crate::operation::Line;
use crate::stream::Stream;

/// A capture that [`Stream::capture_segments`] splits: the stream records, and
/// [`eager`](SegmentCapture::eager) marks what is to run between the pieces.
pub struct SegmentCapture<'s, 'env, S = ()> {
    stream: &'s Stream,
    options: CaptureOptions,
    /// The capture of the piece that is being recorded; none if it could not begin.
    open: Option<StreamGraphCapture<'s>>,
    /// The line where that piece begins.
    begun: &'static Location<'static>,
    done: Vec<Piece<'env, S>>,
    /// Pieces without nodes that were given values to keep.
    kept: Vec<Graph>,
    /// The first failure, also if the closure passes over it.
    failed: Option<CudaError>,
}

/// A segment that is recorded.
enum Piece<'env, S> {
    Graph(Graph, &'static Location<'static>),
    Eager(Eager<'env, S>, &'static Location<'static>),
}

impl<'s, 'env, S> SegmentCapture<'s, 'env, S> {
    #[track_caller]
    pub(super) fn begin(stream: &'s Stream, options: CaptureOptions) -> CudaResult<Self> {
        let open = Some(StreamGraphCapture::begin_with(stream, options)?);
        let (begun, failed) = (Location::caller(), None);
        let (done, kept) = (Vec::new(), Vec::new());
        Ok(SegmentCapture { stream, options, open, begun, done, kept, failed })
    }

    /// The stream.
    pub fn stream(&self) -> &'s Stream {
        self.stream
    }

    /// The capture of the piece that is being recorded, for what a capture can do: memory for the
    /// time of the piece, labels, conditional nodes, embedded graphs. It ends where the next eager
    /// work is marked, and nothing that borrows it can be held over that.
    ///
    /// # Errors
    ///
    /// The first failure, if the piece could not begin.
    pub fn capture(&self) -> CudaResult<&StreamGraphCapture<'s>> {
        match (&self.open, &self.failed) {
            (Some(open), _) => Ok(open),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(CudaError::from(CUDA_ERROR_ILLEGAL_STATE)),
        }
    }

    /// Ends the piece that is being recorded, and has `work` called at this place at every
    /// [launch](Segments::launch), with the stream of the launch. It is not called now: while the
    /// pieces are recorded nothing runs.
    ///
    /// What `work` may do is not limited: it can submit to the stream, wait for it, allocate, copy
    /// to ordinary memory, and call libraries that cannot be captured. What it submits to another
    /// stream it orders itself with this one.
    ///
    /// # Errors
    ///
    /// [`Segment`](CudaError::Segment): the piece is broken, or a stream that joined it is not
    /// joined back, as within [`Stream::fork`]. The whole recording fails then, also if the error
    /// is passed over.
    #[track_caller]
    pub fn eager<F>(&mut self, mut work: F) -> CudaResult<()>
    where
        F: FnMut(&Stream) -> CudaResult<()> + Send + 'env,
    {
        self.eager_with(move |stream, _| work(stream))
    }

    /// [`eager`](SegmentCapture::eager) work that is given the state of the
    /// [launch](Segments::launch_with) too, so that it need not borrow what the pieces use.
    ///
    /// # Errors
    ///
    /// As [`eager`](SegmentCapture::eager).
    #[track_caller]
    pub fn eager_with<F>(&mut self, work: F) -> CudaResult<()>
    where
        F: FnMut(&Stream, &mut S) -> CudaResult<()> + Send + 'env,
    {
        self.check()?;
        let line = Location::caller();
        self.end_piece()?;
        self.done.push(Piece::Eager(Box::new(work), line));
        // Also if the piece failed, since what comes next would run otherwise.
        let begun = StreamGraphCapture::begin_with(self.stream, self.options);
        self.begun = line;
        match begun {
            Ok(open) => self.open = Some(open),
            Err(error) => return Err(self.fail(error)),
        }
        self.check()
    }

    /// Ends the last piece, and makes all of them executable.
    #[track_caller]
    pub(super) fn end(mut self) -> CudaResult<Segments<'env, S>> {
        self.end_piece()?;
        self.check()?;
        let context = self.stream.context().clone();
        let mut segments = Vec::with_capacity(self.done.len());
        for (index, piece) in self.done.drain(..).enumerate() {
            segments.push(match piece {
                Piece::Eager(work, location) => Segment { location, run: Run::Eager(work) },
                Piece::Graph(graph, location) => {
                    let exec = graph.into_exec().map_err(|error| {
                        SegmentError::of(index, SegmentKind::Graph, location, error)
                    })?;
                    Segment { location, run: Run::Graph(Box::new(exec)) }
                }
            });
        }
        Ok(Segments::new(context, segments, mem::take(&mut self.kept)))
    }

    /// Ends the piece that is being recorded. A failure of its end is kept for later; an error here
    /// leaves it open.
    #[track_caller]
    fn end_piece(&mut self) -> CudaResult<()> {
        if let Some(line) = self.unjoined() {
            return Err(self.fail(unjoined(line)));
        }
        let Some(open) = self.open.take() else { return Ok(()) };
        match open.end_graph() {
            Ok(graph) => match graph.node_count() {
                Ok(0) if graph.retained().is_empty() => {}
                Ok(0) => self.kept.push(graph),
                Ok(_) => self.done.push(Piece::Graph(graph, self.begun)),
                Err(error) => drop(self.fail(error)),
            },
            Err(error) => drop(self.fail(error)),
        }
        Ok(())
    }

    /// The line by which a stream joined the piece that is not joined back, and will not be.
    fn unjoined(&self) -> Option<&'static Location<'static>> {
        let strict = self.options.joins() == JoinPolicy::Strict;
        self.open.as_ref().filter(|_| strict)?.first_unjoined()
    }

    /// Notes a failure of the piece that is being recorded, unless there was one before. Gives the
    /// first.
    #[cold]
    fn fail(&mut self, error: CudaError) -> CudaError {
        let (index, begun) = (self.done.len(), self.begun);
        let named = || SegmentError::of(index, SegmentKind::Graph, begun, error);
        self.failed.get_or_insert_with(named).clone()
    }

    fn check(&self) -> CudaResult<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

impl<S> fmt::Debug for SegmentCapture<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentCapture")
            .field("stream", &self.stream)
            .field("segments", &self.done.len())
            .finish_non_exhaustive()
    }
}

#[cold]
fn unjoined(line: &'static Location<'static>) -> CudaError {
    CudaError::refused(
        CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
        "capture",
        format!(
            "the stream that joined it at {} is not joined back where eager work ends it: mark \
             that work after the fork is joined, or before it",
            Line(line),
        ),
    )
}
