//! What is timed, and how: C on the driver API against another program, in one process.

mod c;
mod pair;

pub use c::C;
use pair::{Side, Step, Turn};

/// The kernel, as every program loads it.
pub const PTX: &str = include_str!("../fixtures/add.ptx");

/// Threads of the one block that is launched.
pub const THREADS: u32 = 32;

/// How often one length of chain is measured.
struct Plan {
    /// Kernels in the chain.
    n: usize,
    /// Pairs of each measure.
    pairs: usize,
    /// Launches in a batch: few enough that none waits for room in the stream.
    batch: usize,
}

const PLANS: [Plan; 5] = [
    Plan { n: 1, pairs: 400, batch: 10 },
    Plan { n: 10, pairs: 400, batch: 10 },
    Plan { n: 100, pairs: 400, batch: 10 },
    Plan { n: 1_000, pairs: 40, batch: 10 },
    Plan { n: 10_000, pairs: 8, batch: 3 },
];

/// Past this many kernels without a wait, a launch waits for room in the stream.
const MOST_IN_FLIGHT: usize = 500;

/// How often the sides change places while they capture. The graph that is made first, when there
/// is none, gets the better place in the driver's pools, and its next one gets that again.
const PLACES: usize = 4;

/// A way to call the driver.
pub trait Program: Sized {
    /// As the samples call it.
    const NAME: &str;
    /// A stream that captures.
    type Capture<'a>
    where
        Self: 'a;
    /// An instantiated graph. Its drop destroys it.
    type Exec;
    /// What goes wrong.
    type Error: std::fmt::Debug;

    /// The first device, a stream, the kernel, and a word that is zero.
    fn set_up() -> Result<Self, Self::Error>;
    /// Called before each of its turns.
    fn enter(&self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Called after each of its turns.
    fn leave(&self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Begins a capture in the thread-local mode.
    fn begin(&self) -> Result<Self::Capture<'_>, Self::Error>;
    /// Launches the kernel `n` times into the stream.
    fn kernels(&self, n: usize) -> Result<(), Self::Error>;
    /// Ends the capture and instantiates it.
    fn end(&self, capture: Self::Capture<'_>) -> Result<Self::Exec, Self::Error>;
    /// Launches the graph `times` times.
    fn launch(&self, exec: &Self::Exec, times: usize) -> Result<(), Self::Error>;
    /// Waits for the stream.
    fn synchronize(&self) -> Result<(), Self::Error>;
    /// The word.
    fn word(&self) -> Result<u32, Self::Error>;
}

/// Measures a program and C, and prints a line `program,measure,n,nanoseconds` for each sample.
/// The first sample of a program belongs to the first of C, and so on.
pub fn run<P: Program>() {
    // C comes second, since it takes the context that the program works in.
    let mut program = Side::<P>::set_up();
    let mut c = Side::<C>::set_up();
    for plan in &PLANS {
        measure([&mut c, &mut program], plan);
    }
    c.finish();
    program.finish();
}

fn measure(mut pair: [&mut dyn Turn; 2], plan: &Plan) {
    for place in 0..PLACES {
        pair.iter_mut().for_each(|side| side.clear());
        take_turns(&mut pair, Step::Capture, plan, plan.pairs / PLACES, place);
    }
    let mut steps = vec![Step::Launch, Step::LaunchAndWait];
    if plan.n <= MOST_IN_FLIGHT {
        steps.push(Step::Eager);
    }
    for step in steps {
        take_turns(&mut pair, step, plan, plan.pairs, 0);
    }
    pair.iter_mut().for_each(|side| side.clear());
}

/// Takes so many pairs of turns, of which the side at `first` takes the first.
fn take_turns(pair: &mut [&mut dyn Turn; 2], step: Step, plan: &Plan, pairs: usize, first: usize) {
    // The first of each is slower: the driver's and the allocator's pools grow.
    for index in 0..=pairs {
        for turn in 0..2 {
            pair[(first + index + turn) % 2].take(step, plan, index > 0);
        }
    }
}
