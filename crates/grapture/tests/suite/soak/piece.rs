//! A piece of work: a captured graph with all that it uses, and what is to come of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Event, Graph, GraphExec, PinnedBuffer,
    Stream, StreamGraphCapture, ThreadCaptureMode,
};

use super::Field;
use super::plan::{Numbers, Random, Step};
use crate::common::Setup;

/// The streams of a thread.
pub struct Streams {
    own: [Stream; 2],
    side: Stream,
}

pub fn streams(field: &Field) -> Streams {
    let setup = &field.setup;
    let own = [setup.stream(), Stream::per_thread(&setup.context)];
    Streams { own, side: setup.stream() }
}

impl Streams {
    fn any(&self, random: &mut Random) -> &Stream {
        &self.own[random.below(self.own.len())]
    }

    pub(super) fn own_and_side(&self) -> (&Stream, &Stream) {
        (&self.own[0], &self.side)
    }

    /// That of the thread. It has no order in which memory could be released.
    fn default(&self) -> &Stream {
        &self.own[1]
    }
}

/// Is counted while it lives.
pub(super) struct Token(Arc<AtomicUsize>);

impl Token {
    pub(super) fn new(field: &Field) -> Token {
        field.tokens.fetch_add(1, Ordering::SeqCst);
        Token(field.tokens.clone())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the work uses.
struct Parts {
    word: DeviceBuffer<u32>,
    saved: DeviceBuffer<u32>,
    /// Whether `saved` is in the order of a stream.
    ordered: bool,
    input: PinnedBuffer<u32>,
    output: PinnedBuffer<u32>,
    runs: Arc<AtomicU32>,
}

pub struct Piece {
    exec: GraphExec,
    graph: Option<Graph>,
    parts: Parts,
    steps: Vec<Step>,
    expected: Numbers,
}

/// What came of an attempt to make a piece.
pub enum Outcome {
    Piece(Box<Piece>),
    /// Nothing, as it was to be.
    Wanted,
}

pub(super) fn mode(random: &mut Random) -> CaptureMode {
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed][random.below(3)]
}

impl Parts {
    fn new(setup: &Setup, random: &mut Random, ordered: Option<&Stream>) -> (Parts, Numbers) {
        let context = &setup.context;
        let numbers = Numbers { word: random.value(), input: random.value(), ..Numbers::default() };
        let ordered = ordered.filter(|_| random.below(2) == 0);
        let saved = match ordered {
            Some(stream) => {
                let mut saved = DeviceBuffer::alloc_async(stream, 1).unwrap();
                saved.fill(0, stream).unwrap();
                // The graph can be launched on another stream.
                stream.synchronize().unwrap();
                saved
            }
            None => DeviceBuffer::zeroed(context, 1).unwrap(),
        };
        let parts = Parts {
            word: DeviceBuffer::from_slice(context, &[numbers.word]).unwrap(),
            saved,
            ordered: ordered.is_some(),
            input: PinnedBuffer::from_slice(context, &[numbers.input]).unwrap(),
            output: PinnedBuffer::zeroed(context, 1).unwrap(),
            runs: Arc::default(),
        };
        (parts, numbers)
    }

    fn record_all(
        &mut self,
        steps: &[Step],
        field: &Field,
        capture: &StreamGraphCapture<'_>,
        side: &Stream,
    ) -> CudaResult<()> {
        for (index, step) in steps.iter().enumerate() {
            self.record(*step, &field.setup, capture.stream(), side)?;
            // Makes and drops what a capture bars.
            if index % 5 == 0 {
                drop(DeviceBuffer::<u32>::alloc(&field.setup.context, 16)?);
                capture.retain(Token::new(field));
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        step: Step,
        setup: &Setup,
        stream: &Stream,
        side: &Stream,
    ) -> CudaResult<()> {
        match step {
            Step::Add(value) => setup.add(&mut self.word, value, stream),
            Step::MulAdd(factor, value) => setup.mul_add(&mut self.word, factor, value, stream),
            Step::Fill(value) => self.word.fill(value, stream),
            Step::Save => self.saved.copy_from(&self.word, stream),
            Step::Restore => self.word.copy_from(&self.saved, stream),
            Step::FromHost(value) => self.word.copy_from_host_staged(&[value], stream),
            Step::FromPinned => self.word.copy_from_pinned(&self.input, stream),
            Step::ToPinned => self.word.copy_to_pinned(&mut self.output, stream),
            Step::Count => {
                let runs = self.runs.clone();
                stream.host_function(move || {
                    runs.fetch_add(1, Ordering::SeqCst);
                })
            }
            Step::Fork(value) => {
                let (fork, join) = (Event::new(&setup.context)?, Event::new(&setup.context)?);
                fork.record(stream)?;
                fork.wait(side)?;
                setup.add(&mut self.saved, value, side)?;
                join.record(side)?;
                join.wait(stream)
            }
        }
    }
}

impl Piece {
    /// Captures some steps. Now and then the closure fails or panics half way.
    pub fn capture(field: &Field, random: &mut Random, streams: &Streams) -> Outcome {
        let stream = streams.any(random);
        let ordered = (stream != streams.default()).then_some(stream);
        let (mut parts, numbers) = Parts::new(&field.setup, random, ordered);
        let steps: Vec<_> = (0..random.below(12)).map(|_| Step::any(random)).collect();
        let breaks = match random.below(12) {
            0 => Break::Error,
            1 => Break::Panic,
            _ => Break::Never,
        };
        field.counts.captures.fetch_add(1, Ordering::Relaxed);
        let record = |capture: &StreamGraphCapture<'_>| {
            parts.record_all(&steps, field, capture, &streams.side)?;
            match breaks {
                Break::Never => Ok(()),
                Break::Error => Err(CudaError::NotFound),
                // Says nothing on the terminal.
                Break::Panic => resume_unwind(Box::new(Asked)),
            }
        };
        let mode = mode(random);
        let graph = catch_unwind(AssertUnwindSafe(|| stream.capture(mode, record)));
        let graph = match (graph, breaks) {
            (Ok(Ok(graph)), Break::Never) => graph,
            (Ok(Err(CudaError::NotFound)), Break::Error) => return asked(field),
            (Err(panic), Break::Panic) if panic.is::<Asked>() => return asked(field),
            (Ok(result), _) => panic!("{steps:?} on {stream:?}: {result:?}"),
            (Err(panic), _) => resume_unwind(panic),
        };
        let exec = graph.instantiate().unwrap();
        let graph = (random.below(2) == 0).then_some(graph);
        Outcome::Piece(Box::new(Piece { exec, graph, parts, steps, expected: numbers }))
    }

    /// Launches it some times, on whatever streams.
    pub fn launch(&mut self, field: &Field, random: &mut Random, streams: &Streams) {
        for _ in 0..1 + random.below(3) {
            self.exec.launch(streams.any(random)).unwrap();
            self.expected = self.expected.after(&self.steps);
            field.counts.launches.fetch_add(1, Ordering::Relaxed);
        }
        // Another thread may go on with it, for which this one's default stream is out of reach.
        streams.default().synchronize().unwrap();
    }

    /// Has it do something else from now on: the same with other values, or anything.
    pub fn change(&mut self, field: &Field, random: &mut Random, streams: &Streams) {
        let steps: Vec<_> = match random.below(3) {
            0 => (0..random.below(12)).map(|_| Step::any(random)).collect(),
            _ => self.steps.iter().map(|step| step.varied(random)).collect(),
        };
        // Memory in the order of a stream is not used on a default one.
        let stream = if self.parts.ordered { &streams.own[0] } else { streams.any(random) };
        let graph = stream.capture(mode(random), |capture| {
            self.parts.record_all(&steps, field, capture, &streams.side)
        });
        match self.exec.update(&graph.unwrap()) {
            Ok(_) => {
                self.steps = steps;
                self.graph = None;
                field.counts.updates.fetch_add(1, Ordering::Relaxed);
            }
            // It would be made anew, and another thread captures the stream of its last launch.
            Err(CudaError::Refused(_)) => _ = asked(field),
            Err(error) => panic!("{steps:?} for {:?}: {error}", self.steps),
        }
    }

    /// Compares all numbers, and drops it.
    pub fn check(self, field: &Field) {
        let Piece { exec, graph, parts, steps, expected } = self;
        // Its launches are in the order of each other: after another one, all are done.
        let stream = field.setup.stream();
        exec.launch(&stream).unwrap();
        let expected = expected.after(&steps);
        stream.synchronize().unwrap();
        let numbers = Numbers {
            word: parts.word.to_vec(&stream).unwrap()[0],
            saved: parts.saved.to_vec(&stream).unwrap()[0],
            input: read(&parts.input, field),
            output: read(&parts.output, field),
            runs: parts.runs.load(Ordering::SeqCst),
        };
        assert_eq!(numbers, expected, "{steps:?}");
        field.counts.checks.fetch_add(1, Ordering::Relaxed);
        drop(graph);
    }

    /// Drops its parts in some order, with its launches in flight.
    pub fn tear(self, random: &mut Random) {
        let Piece { exec, graph, parts, .. } = self;
        let Parts { word, saved, input, output, .. } = parts;
        let mut parts: Vec<Box<dyn Send>> = vec![
            Box::new(exec),
            Box::new(graph),
            Box::new(word),
            Box::new(saved),
            Box::new(input),
            Box::new(output),
        ];
        while !parts.is_empty() {
            drop(parts.swap_remove(random.below(parts.len())));
        }
    }
}

/// What was on some thread's default stream is waited for with the whole context, which is refused
/// as long as another thread captures.
fn read(pinned: &PinnedBuffer<u32>, field: &Field) -> u32 {
    let value = Cell::new(None);
    field.setup.wait_until(|| match pinned.read() {
        Ok(read) => value.replace(Some(read[0])).is_none(),
        Err(CudaError::Refused(_)) => false,
        Err(error) => panic!("{error}"),
    });
    value.get().unwrap()
}

#[derive(Clone, Copy)]
enum Break {
    Never,
    Error,
    Panic,
}

/// What a panic that was asked for carries.
struct Asked;

fn asked(field: &Field) -> Outcome {
    field.counts.failures.fetch_add(1, Ordering::Relaxed);
    Outcome::Wanted
}

/// A mistake of a program: it is told, and nothing else happens.
pub fn fail(field: &Field, random: &mut Random, streams: &Streams) {
    let (stream, side) = (&streams.own[0], &streams.side);
    let mut word = DeviceBuffer::<u32>::zeroed(&field.setup.context, 1).unwrap();
    let capture = StreamGraphCapture::begin(stream, mode(random).as_raw()).unwrap();
    capture.retain(Token::new(field));
    match random.below(4) {
        0 => drop(capture),
        1 => {
            assert!(stream.synchronize().is_err());
            assert!(word.to_vec(stream).is_err());
            capture.end().unwrap();
        }
        2 => {
            let fork = Event::new(&field.setup.context).unwrap();
            fork.record(stream).unwrap();
            fork.wait(side).unwrap();
            word.fill(1, side).unwrap();
            assert!(matches!(capture.end_graph(), Err(CudaError::Capture(_))));
        }
        _ => {
            let mode = ThreadCaptureMode::set(&field.setup.driver, CaptureMode::Relaxed).unwrap();
            word.fill(1, stream).unwrap();
            drop((word, mode));
            capture.end().unwrap().launch(side).unwrap();
        }
    }
    assert!(!stream.is_capturing() && !side.is_capturing());
    field.counts.failures.fetch_add(1, Ordering::Relaxed);
}
