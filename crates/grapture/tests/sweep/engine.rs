//! The engine: counts the driver calls of an operation, and fails each of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grapture::{CudaError, CudaResult};
use grapture_sys::{
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_STATUS_NONE, CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUDA_ERROR_UNKNOWN, CUresult, Function,
};

use crate::rules;
use crate::world::World;

/// What a call that fails answers.
const CODES: &[CUresult] = &[
    CUDA_ERROR_INVALID_VALUE,
    CUDA_ERROR_OUT_OF_MEMORY,
    CUDA_ERROR_NOT_SUPPORTED,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    CUDA_ERROR_UNKNOWN,
];

/// The same for calls of a function that was called before in the operation.
const LATER_CODES: &[CUresult] = &[CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN];

/// How many calls fail when a context is lost in an operation: more than any makes from then on.
const LAST_CALLS: u64 = 200;

/// After how many problems a row is left alone.
const ENOUGH: usize = 5;

/// An operation of the library.
///
/// The name is that of the public function, and may go on after a comma: `DeviceBuffer::fill, of
/// bytes`. `run` makes what the operation needs, and hands the operation to [`World::attempt`], or
/// to [`World::attempt_once`] if it cannot be done twice. More functions that the operation calls
/// are named by [`also`](Row::also).
pub struct Row {
    pub name: &'static str,
    pub also: &'static [&'static str],
    pub run: fn(&World),
    pub rules: RowRules,
}

/// Where a row departs from the rules for all.
#[derive(Clone, Copy, Default)]
pub struct RowRules {
    /// The operation does without these calls.
    pub tolerates: &'static [Function],
    /// If one of these fails, the library makes an error of its own of it.
    pub translates: &'static [Function],
    /// If one of these fails, a release cannot be made: it is reported, under the name of the
    /// release, and what it was for is leaked.
    pub leaks: &'static [Function],
}

/// A row.
pub const fn row(name: &'static str, run: fn(&World)) -> Row {
    let rules = RowRules { tolerates: &[], translates: &[], leaks: &[] };
    Row { name, also: &[], run, rules }
}

impl Row {
    pub const fn also(mut self, names: &'static [&'static str]) -> Row {
        self.also = names;
        self
    }

    pub const fn tolerates(mut self, functions: &'static [Function]) -> Row {
        self.rules.tolerates = functions;
        self
    }

    pub const fn translates(mut self, functions: &'static [Function]) -> Row {
        self.rules.translates = functions;
        self
    }

    pub const fn leaks(mut self, functions: &'static [Function]) -> Row {
        self.rules.leaks = functions;
        self
    }
}

/// What the next attempt is for.
#[derive(Clone, Copy)]
pub enum Plan {
    /// Nothing: the operation is to work.
    None,
    /// To count its driver calls.
    Count,
    /// To have one of them fail.
    Fail(Failure),
    /// To have it answer in a context that is lost.
    Lost,
    /// To have it answer while the context is lost: from its so many-th driver call on, each fails.
    Dying(u64),
}

/// The `nth` call of a function answers a code.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    function: Function,
    nth: u64,
    code: CUresult,
}

/// What came of an attempt.
#[derive(Default)]
pub struct Attempt {
    calls: Vec<(Function, u64)>,
    /// Why it was not as it should be.
    problems: Vec<String>,
}

/// What a sweep did.
#[derive(Default)]
pub struct Sum {
    pub calls: u64,
    pub failures: u64,
}

/// Waits until no other test runs: the hook for failed drops is one for the process.
pub fn alone() -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sweeps all rows; fails with everything that was not as it should be.
#[track_caller]
pub fn sweep(rows: &[Row]) -> Sum {
    let _alone = alone();
    let (mut sum, mut problems) = (Sum::default(), Vec::new());
    for row in rows {
        sweep_row(row, &mut sum, &mut problems);
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    sum
}

fn sweep_row(row: &Row, sum: &mut Sum, problems: &mut Vec<String>) {
    let mut world = World::new();
    for plan in [Plan::None, Plan::Count] {
        let attempt = run(&world, row, plan);
        problems.extend(
            attempt
                .problems
                .iter()
                .map(|problem| format!("{}, with nothing failing: {problem}", row.name)),
        );
        let Plan::Count = plan else { continue };
        let calls = attempt.calls;
        sum.calls += calls.iter().map(|(_, count)| count).sum::<u64>();
        let before = problems.len();
        for failure in failures(&calls) {
            // One cause brings many: the first few will do.
            if problems.len() >= before + ENOUGH {
                problems.push(format!("{}: and no more was tried", row.name));
                break;
            }
            sum.failures += 1;
            let attempt = run(&world, row, Plan::Fail(failure));
            problems.extend(attempt.problems.iter().map(|problem| {
                let Failure { function, nth, code } = failure;
                format!("{}, {function:?} #{nth} = {}: {problem}", row.name, code.0)
            }));
            if !attempt.problems.is_empty() {
                world = World::new();
            }
        }
    }
}

fn failures(calls: &[(Function, u64)]) -> impl Iterator<Item = Failure> + '_ {
    calls.iter().flat_map(|&(function, count)| {
        (1..=count).flat_map(move |nth| {
            // What is done about a code is done about it in every call of the function.
            let codes = if nth == 1 { CODES } else { LATER_CODES };
            codes.iter().map(move |&code| Failure { function, nth, code })
        })
    })
}

/// Runs a row by a plan. Gives what came of it.
fn run(world: &World, row: &Row, plan: Plan) -> Attempt {
    world.plan.set(plan);
    *world.attempt.borrow_mut() = Some(Attempt::default());
    world.reports.lock().unwrap().clear();
    RULES.set(row.rules);
    let ran = catch_unwind(AssertUnwindSafe(|| (row.run)(world)));
    world.sim.clear_failures();
    let mut attempt = world.attempt.borrow_mut().take().unwrap_or_default();
    if let Err(panic) = ran {
        attempt.problems.push(format!("the row panicked: {}", text(&*panic)));
    }
    if !matches!(plan, Plan::Lost | Plan::Dying(_)) {
        check_rest(world, row, &mut attempt);
    }
    attempt
}

/// Whether as much is alive as before, and what was reported is right.
fn check_rest(world: &World, row: &Row, attempt: &mut Attempt) {
    world.idle();
    let failed = match world.plan.get() {
        Plan::Fail(failure) => Some(failure),
        _ => None,
    };
    let (mut expected, mut leaked) = (world.alive.get(), false);
    for (name, error) in std::mem::take(&mut *world.reports.lock().unwrap()) {
        match failed.filter(|failure| error.code() == failure.code.0) {
            Some(failure) if rules::reports(failure.function, name) => {
                rules::leave(name, &mut expected);
            }
            Some(failure) if row.rules.leaks.contains(&failure.function) => leaked = true,
            _ => attempt.problems.push(format!("reported: {name}: {error}")),
        }
    }
    if leaked {
        world.alive.set(world.settled());
        return;
    }
    world.alive.set(expected);
    if let Err(left) = world.settle(&expected) {
        attempt.problems.push(left);
    }
}

thread_local! {
    /// The rules of the row that runs.
    static RULES: std::cell::Cell<RowRules> = const {
        std::cell::Cell::new(RowRules { tolerates: &[], translates: &[], leaks: &[] })
    };
}

impl World {
    /// Attempts an operation that can be done again.
    pub fn attempt<T>(&self, mut operation: impl FnMut() -> CudaResult<T>) {
        self.first(&mut operation);
        if let Plan::Lost | Plan::Dying(_) = self.plan.get() {
            return;
        }
        // On the same objects.
        match catch_unwind(AssertUnwindSafe(operation)) {
            Ok(Ok(again)) => drop(again),
            Ok(Err(error)) => self.problem(format!("a second time: {error}")),
            Err(panic) => self.problem(format!("a second time, a panic: {}", text(&*panic))),
        }
        self.assert_usable();
    }

    /// Attempts an operation that can be done once.
    pub fn attempt_once<T>(&self, operation: impl FnOnce() -> CudaResult<T>) {
        self.first(operation);
        if !matches!(self.plan.get(), Plan::Lost | Plan::Dying(_)) {
            self.assert_usable();
        }
    }

    fn first<T>(&self, operation: impl FnOnce() -> CudaResult<T>) {
        // What earlier work left over is not to be counted.
        self.idle();
        self.reports.lock().unwrap().clear();
        let current = self.current();
        match self.plan.get() {
            Plan::None | Plan::Count => self.sim.reset_calls(),
            Plan::Fail(Failure { function, nth, code }) => {
                self.sim.reset_calls();
                self.sim.fail(function, nth, code);
            }
            Plan::Lost => {
                self.lose();
                return self.first_lost(operation);
            }
            Plan::Dying(first) => {
                for nth in first..first + LAST_CALLS {
                    self.sim.fail_any(nth, CUDA_ERROR_LAUNCH_FAILED);
                }
                return self.first_lost(operation);
            }
        }
        let result = catch_unwind(AssertUnwindSafe(operation));
        self.sim.clear_failures();
        let count = |function: &Function| (*function, self.sim.calls(*function));
        let calls = Function::ALL.iter().map(count).filter(|(_, calls)| *calls > 0);
        let calls: Vec<_> = calls.collect();
        match result {
            Ok(result) => {
                self.judge(result.as_ref().map(|_| ()), &calls);
                self.check_thread(current);
                drop(result);
            }
            Err(panic) => self.problem(format!("a panic: {}", text(&*panic))),
        }
        if let Some(attempt) = &mut *self.attempt.borrow_mut() {
            attempt.calls = calls;
        }
    }

    /// Whether the result is what is expected.
    fn judge(&self, result: Result<(), &CudaError>, calls: &[(Function, u64)]) {
        let failed = match self.plan.get() {
            Plan::Fail(failure) => {
                let reached = calls.contains(&(failure.function, failure.nth))
                    || calls.iter().any(|&(f, n)| f == failure.function && n > failure.nth);
                reached.then_some(failure)
            }
            _ => None,
        };
        match (failed, result) {
            (None, Ok(())) => {}
            (None, Err(error)) => self.problem(format!("nothing failed, but: {error}")),
            (Some(failure), Ok(())) => {
                let tolerated = RULES.get().tolerates.contains(&failure.function)
                    || RULES.get().leaks.contains(&failure.function)
                    || rules::tolerates(failure.function, failure.code);
                if !tolerated {
                    self.problem("the operation succeeded".to_owned());
                }
            }
            (Some(failure), Err(error)) if error.code() == failure.code.0 => {}
            (Some(failure), Err(_)) if RULES.get().translates.contains(&failure.function) => {}
            (Some(_), Err(error)) => self.problem(format!("another error: {error}")),
        }
    }

    /// Whether the streams and the thread are as before.
    fn check_thread(&self, before: grapture_sys::CUcontext) {
        for (name, stream) in [("the stream", &self.stream), ("the side stream", &self.side)] {
            let status = self.status(stream);
            if status != CU_STREAM_CAPTURE_STATUS_NONE || stream.is_capturing() {
                self.problem(format!("{name} captures: {}", status.0));
            }
        }
        if self.mode() != CU_STREAM_CAPTURE_MODE_GLOBAL {
            self.problem(format!("the thread's mode is {}", self.mode().0));
        }
        if self.current() != before {
            let pops = matches!(
                self.plan.get(),
                Plan::Fail(Failure { function: Function::cuCtxPopCurrent_v2, .. })
            );
            self.pop();
            if !pops || self.current() != before {
                self.problem("another context is current".to_owned());
            }
        }
        if let Err(error) = self.context.synchronize() {
            self.problem(format!("the context cannot be waited for: {error}"));
        }
    }

    /// The operation in a context that is lost: it answers, and panics and hangs nowhere.
    fn first_lost<T>(&self, operation: impl FnOnce() -> CudaResult<T>) {
        match catch_unwind(AssertUnwindSafe(operation)) {
            // Whether a driver answers what needs no device is its own matter.
            Ok(_) => {}
            Err(panic) => self.problem(format!("a panic: {}", text(&*panic))),
        }
        if self.stream.is_capturing() || self.side.is_capturing() {
            self.problem("a stream captures".to_owned());
        }
    }

    fn problem(&self, problem: String) {
        if let Some(attempt) = &mut *self.attempt.borrow_mut() {
            attempt.problems.push(problem);
        }
    }
}

/// Runs all rows in contexts that are lost: before the operation, and at each of its driver calls.
#[track_caller]
pub fn sweep_lost(rows: &[&Row]) {
    let _alone = alone();
    let mut problems = Vec::new();
    for row in rows {
        let mut world = World::new();
        let calls = run(&world, row, Plan::Count).calls.iter().map(|(_, count)| count).sum();
        for plan in (1..=calls).map(Plan::Dying).chain([Plan::Lost]) {
            let attempt = run(&world, row, plan);
            let name = row.name;
            problems.extend(attempt.problems.iter().map(|problem| format!("{name}: {problem}")));
            // Nothing can have ended the driver's capture.
            if world.captures() {
                world = World::new();
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// What a panic said.
pub fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned()
}
