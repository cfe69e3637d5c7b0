//! Random programs of safe calls, right ones and wrong ones: whatever comes of them, no memory is
//! touched that is gone, no capture is broken by a call that could have been refused, and all is
//! given back at the end.

mod draws;

use crate::common::Setup;
use crate::common::checked::{Checks, check_with};
use grapture::{
    CaptureMode, CudaError, CudaResult, DeviceBuffer, Event, Graph, GraphExec, PinnedBuffer,
    Stream, StreamGraphCapture, StreamOptions,
};

use draws::Draws;

mod sim_tier {
    /// Programs that pick streams at random race; that is their own affair.
    #[test]
    fn random_programs_break_nothing() {
        super::check_with(super::Checks::Memory, |setup| super::run(setup, 150));
    }
}

mod gpu_tier {
    #[test]
    fn random_programs_break_nothing() {
        super::run(&crate::common::Setup::real(), 15);
    }
}

const STEPS: usize = 300;
const STREAMS: usize = 4;
const WORDS: usize = 64;

fn run(setup: &Setup, programs: u64) {
    let asked = std::env::var("GRAPTURE_RANDOM_PROGRAMS").ok();
    let programs = asked.map_or(0..programs, |text| {
        let (from, to) = text.split_once("..").unwrap();
        from.parse().unwrap()..to.parse().unwrap()
    });
    for seed in programs {
        let mut draws = Draws::of(seed, STEPS);
        if let Err(failure) = attempt(setup, &mut draws) {
            let shortest = shrink(setup, draws.steps().to_vec(), &failure);
            panic!("program {seed}: {failure}\nthe shortest program that fails so: {shortest}");
        }
    }
}

/// How a program went wrong.
struct Failure {
    call: &'static str,
    error: CudaError,
    calls: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\nafter\n{}", self.call, self.error, self.calls.join("\n"))
    }
}

fn attempt(setup: &Setup, draws: &mut Draws) -> Result<(), Failure> {
    let streams: Vec<_> = (0..STREAMS)
        .map(|index| {
            let options = StreamOptions::new().blocking(index == 1);
            Stream::with_options(&setup.context, options).unwrap()
        })
        .chain([Stream::per_thread(&setup.context)])
        .collect();
    let steps = draws.steps().len();
    let mut program = Program::new(setup, &streams, draws);
    let result = (0..steps).try_for_each(|step| {
        program.draws.start(step);
        program.step().map_err(|(call, error)| {
            program.note_captures();
            Failure { call, error, calls: std::mem::take(&mut program.calls) }
        })
    });
    drop(program);
    for stream in &streams {
        stream.synchronize().unwrap();
        setup.assert_usable(stream);
    }
    setup.driver.reclaim();
    result
}

fn shrink(setup: &Setup, steps: Vec<Vec<usize>>, failure: &Failure) -> String {
    let mut text = String::new();
    let fails = |steps: &[Vec<usize>]| {
        let same =
            |now: &Failure| (now.call, now.error.code()) == (failure.call, failure.error.code());
        // What runs beside it may have a part in it.
        let mut attempts = (0..2).map(|_| attempt(setup, &mut Draws::again(steps.to_vec())));
        let failed = attempts.find_map(|result| result.err().filter(same));
        failed.inspect(|failure| text = failure.to_string()).is_some()
    };
    draws::shortest(steps, fails);
    text
}

struct Program<'a> {
    setup: &'a Setup,
    streams: &'a [Stream],
    /// Of each stream.
    captures: Vec<Option<StreamGraphCapture<'a>>>,
    events: Vec<Event>,
    buffers: Vec<DeviceBuffer<u32>>,
    pinned: Vec<PinnedBuffer<u32>>,
    graphs: Vec<Graph>,
    execs: Vec<GraphExec>,
    draws: &'a mut Draws,
    /// What was done, for whoever has to find out why it went wrong.
    calls: Vec<String>,
}

type Step = Result<(), (&'static str, CudaError)>;

/// Refusals are what a wrong program gets. Nothing else may go wrong.
fn allowed(call: &'static str, result: CudaResult<()>) -> Step {
    match result {
        Ok(()) | Err(CudaError::Refused(_) | CudaError::NotReady) => Ok(()),
        Err(error) => Err((call, error)),
    }
}

/// Whether a node that records the event has run since it was recorded in a capture that has ended
/// only the driver knows.
fn known_by_the_driver(call: &'static str, result: CudaResult<()>) -> Step {
    match result {
        Err(CudaError::InvalidValue | CudaError::CapturedEvent) => Ok(()),
        result => allowed(call, result),
    }
}

impl<'a> Program<'a> {
    fn new(setup: &'a Setup, streams: &'a [Stream], draws: &'a mut Draws) -> Program<'a> {
        let mut program = Program {
            setup,
            streams,
            captures: streams.iter().map(|_| None).collect(),
            events: (0..4).map(|_| Event::new(&setup.context).unwrap()).collect(),
            buffers: Vec::new(),
            pinned: Vec::new(),
            graphs: Vec::new(),
            execs: Vec::new(),
            draws,
            calls: Vec::new(),
        };
        for _ in 0..4 {
            program.buffers.push(DeviceBuffer::zeroed(&setup.context, WORDS).unwrap());
            program.pinned.push(PinnedBuffer::zeroed(&setup.context, WORDS).unwrap());
        }
        program
    }

    fn below(&mut self, limit: usize) -> usize {
        self.draws.below(limit)
    }

    fn stream(&mut self, call: &str) -> &'a Stream {
        let index = self.below(self.streams.len());
        self.note(format!("{call} on stream {index}"));
        &self.streams[index]
    }

    fn note(&mut self, call: String) {
        self.calls.push(call);
    }

    /// Whether each stream captures, by the library and by the driver.
    fn note_captures(&mut self) {
        for (index, stream) in self.streams.iter().enumerate() {
            let (known, asked) = (stream.is_capturing(), stream.capture_info());
            let asked = asked.map(|info| info.status());
            self.calls.push(format!("stream {index}: captures {known}, by the driver {asked:?}"));
        }
    }

    /// Makes a call, after which every capture is as it should be.
    fn step(&mut self) -> Step {
        self.call()?;
        for capture in self.captures.iter().flatten() {
            if !capture.is_active() {
                return Err(("a capture is broken", CudaError::StreamCaptureInvalidated));
            }
        }
        Ok(())
    }

    fn call(&mut self) -> Step {
        match self.below(20) {
            0 | 1 => self.begin(),
            2 | 3 => self.end(),
            4..=9 => self.operate(),
            10..=13 => self.with_event(),
            14 => self.replace_memory(),
            15 | 16 => self.launch(),
            17 => self.ask(),
            18 => self.take_pinned(),
            _ => self.drop_something(),
        }
    }

    fn begin(&mut self) -> Step {
        let index = self.below(self.streams.len());
        let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
        let mode = modes[self.below(3)];
        self.note(format!("begin {mode:?} on stream {index}"));
        match StreamGraphCapture::begin(&self.streams[index], mode.as_raw()) {
            Ok(capture) => {
                capture.retain(vec![index]);
                self.captures[index] = Some(capture);
                Ok(())
            }
            Err(error) => allowed("begin", Err(error)),
        }
    }

    fn end(&mut self) -> Step {
        let index = self.below(self.streams.len());
        let Some(capture) = self.captures[index].take() else { return Ok(()) };
        self.note(format!("end stream {index}"));
        if self.below(4) == 0 {
            return Ok(());
        }
        match capture.end_graph() {
            Ok(graph) => {
                self.graphs.push(graph);
                Ok(())
            }
            // A fork that nobody joined is what a wrong program gets.
            Err(CudaError::Capture(error)) if error.code() == 904 => Ok(()),
            Err(error) => Err(("end", error)),
        }
    }

    fn operate(&mut self) -> Step {
        let (kind, one) = (self.below(9), self.below(self.buffers.len()));
        let (pinned, value) = (self.below(self.pinned.len()), self.below(100) as u32);
        let elsewhere = self.below(4) == 0;
        let stream = self.stream(&format!("operation {kind}, other thread: {elsewhere},"));
        let setup = self.setup;
        let mut first = self.buffers.swap_remove(one);
        let second = &mut self.buffers[0];
        let pinned = &mut self.pinned[pinned];
        let mut work = || match kind {
            0 => first.fill(value, stream),
            1 => first.copy_from(second, stream),
            2 => first.copy_from_host(&[value; WORDS], stream),
            3 => first.copy_from_pinned(pinned, stream),
            4 => first.copy_to_pinned(pinned, stream),
            5 => first.copy_to_host(&mut [0; WORDS], stream),
            // Holds the stream up, so that the program is ahead of what it submits.
            6 => {
                stream.host_function(move || (0..20 * value).for_each(|_| std::thread::yield_now()))
            }
            7 => setup.mul_add(second, 3, value, stream),
            _ => setup.add(&mut first, value, stream),
        };
        let result = if elsewhere {
            std::thread::scope(|scope| scope.spawn(work).join().unwrap())
        } else {
            work()
        };
        self.buffers.push(first);
        allowed("operate", result)
    }

    fn with_event(&mut self) -> Step {
        let (kind, event) = (self.below(8), self.below(self.events.len()));
        let stream = self.stream(&format!("event {event} call {kind}"));
        let event = &self.events[event];
        match kind {
            0..=2 => allowed("record", event.record(stream)),
            3 | 4 => known_by_the_driver("wait", event.wait(stream)),
            5 => allowed("record_external", event.record_external(stream)),
            6 => known_by_the_driver("wait_external", event.wait_external(stream)),
            _ => known_by_the_driver("is_complete", event.is_complete().map(drop)),
        }
    }

    fn replace_memory(&mut self) -> Step {
        let index = self.below(self.buffers.len());
        let made = match self.below(2) {
            0 => DeviceBuffer::zeroed(&self.setup.context, WORDS),
            _ => {
                let stream = self.stream("allocate");
                // What is read of it before it is written is nobody's concern here.
                DeviceBuffer::alloc_async(stream, WORDS)
            }
        };
        match made {
            Ok(buffer) => self.buffers[index] = buffer,
            Err(error) => return allowed("allocate", Err(error)),
        }
        let index = self.below(self.pinned.len());
        match PinnedBuffer::zeroed(&self.setup.context, WORDS) {
            Ok(pinned) => self.pinned[index] = pinned,
            Err(error) => return allowed("allocate pinned", Err(error)),
        }
        Ok(())
    }

    fn launch(&mut self) -> Step {
        if !self.graphs.is_empty() && self.below(2) == 0 {
            let index = self.below(self.graphs.len());
            let made = self.graphs[index].instantiate();
            self.execs.push(made.map_err(|error| ("instantiate", error))?);
        }
        if self.execs.is_empty() {
            return Ok(());
        }
        let exec = self.below(self.execs.len());
        let stream = self.stream("launch");
        allowed("launch", self.execs[exec].launch(stream))
    }

    fn ask(&mut self) -> Step {
        let kind = self.below(4);
        let stream = self.stream(&format!("question {kind}"));
        match kind {
            0 => allowed("synchronize", stream.synchronize()),
            1 => allowed("is_idle", stream.is_idle().map(drop)),
            2 => allowed("synchronize the context", self.setup.context.synchronize()),
            _ => allowed("capture_info", stream.capture_info().map(drop)),
        }
    }

    fn take_pinned(&mut self) -> Step {
        let (kind, index) = (self.below(4), self.below(self.pinned.len()));
        self.note(format!("pinned {index} call {kind}"));
        let pinned = &mut self.pinned[index];
        match kind {
            0 => allowed("read", pinned.read().map(drop)),
            1 => allowed("try_read", pinned.try_read().map(drop)),
            2 => allowed("write", pinned.write().map(|mut elements| elements.fill(1))),
            _ => allowed("try_write", pinned.try_write().map(drop)),
        }
    }

    fn drop_something(&mut self) -> Step {
        let index = self.below(8);
        match self.below(4) {
            0 if index < self.graphs.len() => drop(self.graphs.swap_remove(index)),
            1 if index < self.execs.len() => drop(self.execs.swap_remove(index)),
            2 if index < self.events.len() => {
                self.note(format!("new event {index}"));
                let made = Event::new(&self.setup.context);
                self.events[index] = made.map_err(|error| ("make an event", error))?;
            }
            _ => {
                let loaded = self.setup.context.load_ptx(crate::common::KERNELS);
                drop(loaded.map_err(|error| ("load", error))?);
            }
        }
        Ok(())
    }
}
