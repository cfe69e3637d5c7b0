//! Forks of a stream: others run beside it for a while, and are joined back.

use std::panic::Location;

use crate::capture::{CaptureLog, StreamGraphCapture};
use crate::error::CudaResult;
use crate::event::Event;
use crate::stream::Stream;
use crate::tell::contained;

/// What the end of a capture does with streams that joined it and were not joined back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JoinPolicy {
    /// The capture fails, with the streams and the lines where they joined.
    #[default]
    Strict,
    /// The stream that began the capture first waits for all of them: their work is part of the
    /// graph. Not for the default stream of another thread than the one that ends the capture.
    JoinLeaves,
}

impl Stream {
    /// Runs `body` with the streams of `sides` forked from this one: what `body` submits to them
    /// comes after all work that this stream has now, and runs beside what it gets meanwhile. At
    /// the end this stream waits for them, also if `body` fails or panics. Does not block.
    ///
    /// While this stream captures, the others join the capture, and their work becomes branches of
    /// the graph; a stream may be one of another context. After the end, what a side stream still
    /// gets while the capture is open is a branch that nothing joins: fork it again first.
    ///
    /// ```
    /// # use grapture::*;
    /// # let driver = Driver::from(grapture_sim::driver(grapture_sim::SimConfig::default()));
    /// # let context = Context::new(&driver.device(0)?)?;
    /// let [stream, left, right] = [(); 3].map(|()| Stream::new(&context).unwrap());
    /// let mut a = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let mut b = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let graph = stream.capture(CaptureMode::ThreadLocal, |_| {
    ///     stream.fork(&[&left, &right], || {
    ///         a.fill(1, &left)?;
    ///         b.fill(2, &right)
    ///     })?;
    ///     a.copy_from(&b, &stream) // after both
    /// })?;
    /// assert_eq!(graph.edges()?.len(), 2);
    /// # Ok::<(), CudaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `body` gives, and as the driver answers; what was forked is joined first.
    /// [`Refused`](crate::CudaError::Refused), before `body` runs: a stream of `sides` is in
    /// another capture than this one, is the legacy stream while this one captures, or belongs to
    /// another driver.
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cuStreamWaitEvent")]
    #[track_caller]
    pub fn fork<R>(
        &self,
        sides: &[&Stream],
        body: impl FnOnce() -> CudaResult<R>,
    ) -> CudaResult<R> {
        let mut forked = Forked { from: self, sides: Vec::with_capacity(sides.len()) };
        if !sides.is_empty() {
            let point = Event::new(self.context())?;
            point.record(self)?;
            for side in sides.iter().filter(|side| !side.is_same(self)) {
                // Made first, so that nothing but the driver's own calls can keep a stream that
                // has joined from being joined back.
                let end = Event::new(side.context())?;
                point.wait(side)?;
                forked.sides.push((side, end));
            }
        }
        let result = body();
        let joined = forked.join();
        result.and_then(|value| joined.map(|()| value))
    }
}

/// The streams that run beside `from`, each with the event that marks its end. The drop joins what
/// a failure or a panic has left.
struct Forked<'a> {
    from: &'a Stream,
    sides: Vec<(&'a Stream, Event)>,
}

impl Forked<'_> {
    /// Joins all of them, and gives the first failure.
    #[track_caller]
    fn join(&mut self) -> CudaResult<()> {
        let mut first = Ok(());
        for (side, end) in self.sides.drain(..) {
            first = first.and(join(self.from, side, &end));
        }
        first
    }
}

impl Drop for Forked<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            contained(|| tracing::debug!(%error, "a forked stream could not be joined"));
        }
    }
}

/// Has `stream` wait for what `side` has now.
#[track_caller]
fn join(stream: &Stream, side: &Stream, end: &Event) -> CudaResult<()> {
    end.record(side)?;
    end.wait(stream)
}

impl StreamGraphCapture<'_> {
    /// The line by which a stream joined that is not joined back, if one is known.
    pub(super) fn first_unjoined(&self) -> Option<&'static Location<'static>> {
        self.log.first_unjoined()
    }

    /// Joins every stream that joined and was not joined back.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn join_all(&self) {
        if let Err(error) = join_leaves(&self.log, self.stream) {
            // The end says which streams are left, and what broke the capture.
            contained(|| tracing::debug!(%error, "a stream of the capture could not be joined"));
        }
    }
}

/// Joins every stream of the capture that this thread can.
#[track_caller]
fn join_leaves(log: &CaptureLog, stream: &Stream) -> CudaResult<()> {
    let mut first = Ok(());
    for side in log.members() {
        first = first.and(match Event::new(side.context()) {
            Ok(end) => join(stream, &side, &end),
            Err(error) => Err(error),
        });
    }
    first
}
