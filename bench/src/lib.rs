//! What is timed, and how: the same for every program. `c/bench.c` is its twin in C; a change here
//! is a change there.

use std::time::Instant;

/// The kernel, as every program loads it.
pub const PTX: &str = include_str!("../fixtures/add.ptx");

/// Threads of the one block that is launched.
pub const THREADS: u32 = 32;

/// How often one length of chain is measured.
struct Plan {
    /// Kernels in the chain.
    n: usize,
    /// Captures, each with its end and instantiation.
    captures: usize,
    /// Batches of launches, and single launches with a wait.
    launches: usize,
    /// Launches in a batch: few enough that none waits for room in the stream.
    batch: usize,
}

const PLANS: [Plan; 5] = [
    Plan { n: 1, captures: 400, launches: 400, batch: 10 },
    Plan { n: 10, captures: 300, launches: 300, batch: 10 },
    Plan { n: 100, captures: 100, launches: 200, batch: 10 },
    Plan { n: 1_000, captures: 15, launches: 30, batch: 10 },
    Plan { n: 10_000, captures: 3, launches: 8, batch: 3 },
];

/// Past this many kernels without a wait, a launch waits for room in the stream.
const MOST_IN_FLIGHT: usize = 500;

/// A way to call the driver.
pub trait Program: Sized {
    /// A stream that captures.
    type Capture<'a>
    where
        Self: 'a;
    /// An instantiated graph.
    type Exec;
    /// What goes wrong.
    type Error: std::fmt::Debug;

    /// The first device, a stream, the kernel, and a word that is zero.
    fn set_up() -> Result<Self, Self::Error>;
    /// Begins a capture in the thread-local mode.
    fn begin(&self) -> Result<Self::Capture<'_>, Self::Error>;
    /// Launches the kernel `n` times into the stream.
    fn kernels(&self, n: usize) -> Result<(), Self::Error>;
    /// Ends the capture and instantiates it.
    fn end(&self, capture: Self::Capture<'_>) -> Result<Self::Exec, Self::Error>;
    /// Launches the graph.
    fn launch(&self, exec: &Self::Exec) -> Result<(), Self::Error>;
    /// Waits for the stream.
    fn synchronize(&self) -> Result<(), Self::Error>;
    /// The word.
    fn word(&self) -> Result<u32, Self::Error>;
}

/// Measures, and prints a line `measure,n,nanoseconds` for each sample.
pub fn run<P: Program>() {
    let program = P::set_up().expect("the device cannot be set up");
    let mut kernels = 0;
    for plan in &PLANS {
        kernels += measure(&program, plan).expect("a call failed");
    }
    let word = program.word().expect("the word cannot be read");
    let expected = u32::try_from(kernels).expect("the count fits") * THREADS;
    assert_eq!(word, expected, "kernels were lost or ran twice");
}

/// Measures one length, and gives how many kernels ran.
fn measure<P: Program>(program: &P, plan: &Plan) -> Result<usize, P::Error> {
    let exec = captures(program, plan)?;
    let mut ran = launches(program, plan, &exec)?;
    if plan.n <= MOST_IN_FLIGHT {
        for index in 0..=plan.launches {
            let start = Instant::now();
            program.kernels(plan.n)?;
            let submitted = start.elapsed();
            program.synchronize()?;
            let done = start.elapsed();
            if index > 0 {
                sample("eager_op", plan.n, submitted.as_nanos() as f64 / plan.n as f64);
                sample("eager_sync", plan.n, done.as_nanos() as f64);
            }
        }
        ran += (plan.launches + 1) * plan.n;
    }
    Ok(ran)
}

fn captures<P: Program>(program: &P, plan: &Plan) -> Result<P::Exec, P::Error> {
    let mut last = None;
    for index in 0..=plan.captures {
        let capture = program.begin()?;
        let start = Instant::now();
        program.kernels(plan.n)?;
        let captured = start.elapsed();
        let exec = program.end(capture)?;
        let ended = start.elapsed();
        // The first of each is slower: the driver's and the allocator's pools grow.
        if index > 0 {
            sample("capture_op", plan.n, captured.as_nanos() as f64 / plan.n as f64);
            sample("end_instantiate", plan.n, (ended - captured).as_nanos() as f64);
        }
        last = Some(exec);
    }
    Ok(last.expect("one more than the plan says"))
}

fn launches<P: Program>(program: &P, plan: &Plan, exec: &P::Exec) -> Result<usize, P::Error> {
    for index in 0..=plan.launches {
        let start = Instant::now();
        for _ in 0..plan.batch {
            program.launch(exec)?;
        }
        let submitted = start.elapsed();
        program.synchronize()?;
        if index > 0 {
            sample("launch", plan.n, submitted.as_nanos() as f64 / plan.batch as f64);
        }
    }
    for _ in 0..plan.launches {
        let start = Instant::now();
        program.launch(exec)?;
        program.synchronize()?;
        sample("launch_sync", plan.n, start.elapsed().as_nanos() as f64);
    }
    Ok(((plan.launches + 1) * plan.batch + plan.launches) * plan.n)
}

fn sample(measure: &str, n: usize, nanoseconds: f64) {
    println!("{measure},{n},{nanoseconds:.1}");
}
