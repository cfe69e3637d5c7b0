//! One side of a pair: what it does in a turn, and what that took.

use std::io::{BufWriter, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Plan, Program, THREADS};

/// What a program does in one turn.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Captures the kernels, and makes the graph that the next steps launch.
    Capture,
    /// Launches the graph in a batch.
    Launch,
    /// Launches the graph once and waits for it.
    LaunchAndWait,
    /// Launches the kernels without a graph and waits for them.
    Eager,
}

/// A side, whatever its program.
pub(crate) trait Turn {
    /// Takes one turn, and keeps the times if `keep`.
    fn take(&mut self, step: Step, plan: &Plan, keep: bool);
    /// Destroys the graph.
    fn clear(&mut self);
}

/// A program, and what it has done so far.
pub(crate) struct Side<P: Program> {
    exec: Option<P::Exec>,
    program: P,
    /// Kernels that ran.
    ran: usize,
    samples: Vec<Sample>,
}

struct Sample {
    measure: &'static str,
    n: usize,
    nanoseconds: f64,
}

impl<P: Program> Side<P> {
    pub(crate) fn set_up() -> Side<P> {
        let program = P::set_up().expect("the device cannot be set up");
        Side { exec: None, program, ran: 0, samples: Vec::with_capacity(1 << 13) }
    }

    /// Checks that every kernel ran once, and prints the samples.
    pub(crate) fn finish(self) {
        self.program.enter().expect("the context can be entered");
        let word = self.program.word().expect("the word cannot be read");
        self.program.leave().expect("the context can be left");
        let expected = u32::try_from(self.ran).expect("the count fits") * THREADS;
        assert_eq!(word, expected, "kernels of {} were lost or ran twice", P::NAME);
        let mut out = BufWriter::new(std::io::stdout().lock());
        for Sample { measure, n, nanoseconds } in &self.samples {
            writeln!(out, "{},{measure},{n},{nanoseconds:.1}", P::NAME).expect("it can be written");
        }
    }

    fn capture(&mut self, plan: &Plan, keep: bool) -> Result<(), P::Error> {
        // What is destroyed in the background has time to go before anything is timed again.
        self.exec = None;
        rest(Duration::from_micros(30) + Duration::from_nanos(50) * plan.n as u32);
        let capture = self.program.begin()?;
        let start = Instant::now();
        self.program.kernels(plan.n)?;
        let captured = start.elapsed();
        let exec = self.program.end(capture)?;
        let ended = start.elapsed();
        self.exec = Some(exec);
        if keep {
            self.sample("capture_op", plan.n, captured, plan.n);
            self.sample("end_instantiate", plan.n, ended - captured, 1);
        }
        Ok(())
    }

    /// Launches the graph, and gives the times until the calls returned and until the work is done.
    fn launch(&mut self, plan: &Plan, times: usize) -> Result<(Duration, Duration), P::Error> {
        let exec = self.exec.as_ref().expect("a step before has captured");
        let start = Instant::now();
        self.program.launch(exec, times)?;
        let submitted = start.elapsed();
        self.program.synchronize()?;
        let done = start.elapsed();
        self.ran += times * plan.n;
        Ok((submitted, done))
    }

    fn eager(&mut self, plan: &Plan, keep: bool) -> Result<(), P::Error> {
        let start = Instant::now();
        self.program.kernels(plan.n)?;
        let submitted = start.elapsed();
        self.program.synchronize()?;
        let done = start.elapsed();
        self.ran += plan.n;
        if keep {
            self.sample("eager_op", plan.n, submitted, plan.n);
            self.sample("eager_sync", plan.n, done, 1);
        }
        Ok(())
    }

    fn step(&mut self, step: Step, plan: &Plan, keep: bool) -> Result<(), P::Error> {
        match step {
            Step::Capture => self.capture(plan, keep)?,
            Step::Launch => {
                let (submitted, _) = self.launch(plan, plan.batch)?;
                if keep {
                    self.sample("launch", plan.n, submitted, plan.batch);
                }
            }
            Step::LaunchAndWait => {
                let (_, done) = self.launch(plan, 1)?;
                if keep {
                    self.sample("launch_sync", plan.n, done, 1);
                }
            }
            Step::Eager => self.eager(plan, keep)?,
        }
        Ok(())
    }

    /// Notes a time that was taken for `count` calls.
    fn sample(&mut self, measure: &'static str, n: usize, taken: Duration, count: usize) {
        let nanoseconds = taken.as_nanos() as f64 / count as f64;
        self.samples.push(Sample { measure, n, nanoseconds });
    }
}

impl<P: Program> Turn for Side<P> {
    fn take(&mut self, step: Step, plan: &Plan, keep: bool) {
        self.program.enter().expect("the context cannot be entered");
        self.step(step, plan, keep).expect("a call failed");
        self.program.leave().expect("the context cannot be left");
    }

    fn clear(&mut self) {
        self.program.enter().expect("the context cannot be entered");
        self.exec = None;
        self.program.leave().expect("the context cannot be left");
        // What a graph that was launched owned may be released some milliseconds later.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Lets other threads of this core run, without letting the core fall asleep.
fn rest(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        thread::yield_now();
    }
}
