//! [`Engine`]: one graph of tasks that runs everything, from a stream's copies to the nodes of a
//! graph launch.
//!
//! A task runs once the tasks that it depends on are done. Streams are pointers to their last task
//! ([`crate::stream`]); an event is a pointer to a task. Among the tasks that could run, the one
//! with the least rank goes first; ranks are drawn in the order of submission, by the seed. Locks
//! are taken in the order state, then engine; work runs under neither.

mod worker;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::SimConfig;
use crate::context::ContextCore;
use crate::race::RaceLog;
use crate::sim::{Sim, lock};
use crate::work::Work;

/// How long the last handle of a simulation waits for work that is still running.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// How long it waits while nothing ends.
const QUIET_LIMIT: Duration = Duration::from_secs(2);

/// A task, for as long as anyone asks. Numbers rise in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TaskId(u64);

impl TaskId {
    /// Its number in the order of submission, from 1.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The task of a number.
    #[cfg(test)]
    pub(crate) fn from_number(number: u64) -> TaskId {
        TaskId(number)
    }
}

struct Task {
    context: Arc<ContextCore>,
    /// Taken while the task runs.
    work: Option<Work>,
    waits_for: usize,
    dependents: Vec<TaskId>,
    /// Among tasks that could run, the one with the least goes first.
    rank: u64,
}

#[derive(Default)]
struct Dag {
    last: u64,
    tasks: HashMap<TaskId, Task>,
    ready: BinaryHeap<Reverse<(u64, TaskId)>>,
    /// The tasks of each context that are not done.
    pending: HashMap<u64, BTreeSet<TaskId>>,
    /// What the next rank is drawn from.
    choice: u64,
    /// Threads, how many of them wait for work, and how many sit in something that may block.
    threads: Vec<JoinHandle<()>>,
    alive: usize,
    idle: usize,
    held_up: usize,
    finished: u64,
    paused: bool,
    closing: bool,
}

/// The scheduler of a simulation and its threads.
pub(crate) struct Engine {
    dag: Mutex<Dag>,
    /// Signalled when a task becomes ready, and at the end.
    work: Condvar,
    /// Signalled when a task is done.
    done: Condvar,
    /// Signalled when tasks are ready and no thread may be started for them, and at the end.
    short: Condvar,
    limit: usize,
    sim: OnceLock<Weak<Sim>>,
    /// Set when what still runs is to give up.
    stop: AtomicBool,
    /// What is known of the order of tasks, where races are looked for.
    pub(crate) races: Option<RaceLog>,
}

impl Engine {
    /// An engine without threads: they start with the first task.
    pub(crate) fn new(config: &SimConfig) -> Engine {
        Engine {
            dag: Mutex::new(Dag { choice: config.scheduler_seed(), ..Dag::default() }),
            work: Condvar::new(),
            done: Condvar::new(),
            short: Condvar::new(),
            limit: config.worker_count(),
            sim: OnceLock::new(),
            stop: AtomicBool::new(false),
            races: RaceLog::new(config.race_check()),
        }
    }

    /// Tells the engine the simulation that its work runs in.
    pub(crate) fn attach(&self, sim: &Arc<Sim>) {
        // A second call would name the same simulation.
        let _ = self.sim.set(Arc::downgrade(sim));
    }

    /// Adds a task that runs in a context once `deps` are done. Tasks of a context whose fault is
    /// set do nothing, but still end.
    pub(crate) fn submit(
        &self,
        deps: impl IntoIterator<Item = TaskId>,
        context: &Arc<ContextCore>,
        work: Work,
    ) -> TaskId {
        self.batch().submit(deps, context, work)
    }

    /// Begins to add tasks of which none starts before the last is added.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch { engine: self, dag: lock(&self.dag) }
    }

    /// Makes a task wait for others, or ready if there are none.
    fn hang(&self, dag: &mut Dag, id: TaskId, deps: &[TaskId]) {
        let mut waits_for = 0;
        for dep in deps {
            if *dep != id
                && let Some(task) = dag.tasks.get_mut(dep)
            {
                task.dependents.push(id);
                waits_for += 1;
            }
        }
        if let Some(task) = dag.tasks.get_mut(&id) {
            task.waits_for = waits_for;
        }
        if waits_for == 0 {
            self.ready(dag, id);
        }
    }

    /// Makes a task run as soon as a thread takes it.
    fn ready(&self, dag: &mut Dag, id: TaskId) {
        if let Some(task) = dag.tasks.get(&id) {
            dag.ready.push(Reverse((task.rank, id)));
            self.offer(dag);
        }
    }

    /// Sees to it that some thread takes what is ready.
    fn offer(&self, dag: &mut Dag) {
        if dag.paused {
            return;
        }
        if dag.idle > 0 {
            self.work.notify_one();
        }
        if dag.ready.len() > dag.idle {
            if dag.alive - dag.held_up < self.limit {
                self.grow(dag);
            } else {
                self.short.notify_one();
            }
        }
    }

    /// Whether the task is done, as the host wants to know.
    pub(crate) fn is_done(&self, id: TaskId) -> bool {
        let dag = lock(&self.dag);
        let done = !dag.tasks.contains_key(&id);
        if let (true, Some(races)) = (done, &self.races) {
            races.settle(id, TaskId(dag.last));
        }
        done
    }

    /// Waits until a task is done. Not to be called with the state locked.
    pub(crate) fn wait(&self, id: TaskId) {
        let dag = self.wait_until(|dag| !dag.tasks.contains_key(&id));
        if let Some(races) = &self.races {
            races.settle(id, TaskId(dag.last));
        }
    }

    /// Waits for everything that was submitted in a context so far.
    pub(crate) fn wait_context(&self, key: u64) {
        let last = TaskId(lock(&self.dag).last);
        let dag = self.wait_until(|dag| {
            let oldest = dag.pending.get(&key).and_then(BTreeSet::first);
            oldest.is_none_or(|oldest| *oldest > last)
        });
        if let Some(races) = &self.races {
            races.settle_context(key, last, TaskId(dag.last));
        }
    }

    /// The task that the calling thread runs has waited for a word: it comes after those that
    /// wrote the word, as far as they are done.
    pub(crate) fn awaited(&self, address: u64, bytes: u64) {
        if let (Some(races), Some(task)) = (&self.races, worker::running()) {
            races.awaited(task, address, bytes);
        }
    }

    /// How many tasks are not done.
    pub(crate) fn pending(&self) -> usize {
        lock(&self.dag).tasks.len()
    }

    fn wait_until(&self, mut reached: impl FnMut(&Dag) -> bool) -> MutexGuard<'_, Dag> {
        let mut dag = lock(&self.dag);
        while !reached(&dag) && !dag.closing {
            dag = wait(&self.done, dag);
        }
        dag
    }

    /// Holds all tasks back that have not started, or lets them go.
    pub(crate) fn set_paused(&self, paused: bool) {
        let mut dag = lock(&self.dag);
        dag.paused = paused;
        for _ in 0..dag.ready.len() {
            self.offer(&mut dag);
        }
        self.work.notify_all();
    }

    /// Whether the simulation is ending, so that endless work is to give up.
    pub(crate) fn is_closing(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What [`is_closing`](Engine::is_closing) reads, for loops that look themselves.
    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Lets work in flight finish, within limits, and ends the threads.
    pub(crate) fn close(&self) {
        self.set_paused(false);
        let limit = Instant::now() + CLOSE_LIMIT;
        let mut dag = lock(&self.dag);
        let mut quiet = (dag.finished, Instant::now());
        while !dag.tasks.is_empty() && Instant::now() < limit && quiet.1.elapsed() < QUIET_LIMIT {
            dag = wait_at_most(&self.done, dag, Duration::from_millis(50));
            if dag.finished != quiet.0 {
                quiet = (dag.finished, Instant::now());
            }
        }
        dag.closing = true;
        self.stop.store(true, Ordering::Relaxed);
        dag.ready.clear();
        for condition in [&self.work, &self.done, &self.short] {
            condition.notify_all();
        }
        while dag.alive > 0 && Instant::now() < limit + CLOSE_LIMIT {
            dag = wait_at_most(&self.done, dag, Duration::from_millis(50));
        }
        // A thread that is stuck in a host function keeps what it needs; it is left behind.
        let threads = if dag.alive == 0 { std::mem::take(&mut dag.threads) } else { Vec::new() };
        let abandoned = std::mem::take(&mut dag.tasks);
        drop(dag);
        drop(abandoned);
        for thread in threads {
            // A worker that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// Tasks that are added together.
pub(crate) struct Batch<'a> {
    engine: &'a Engine,
    dag: MutexGuard<'a, Dag>,
}

impl Batch<'_> {
    /// Adds a task, as [`Engine::submit`] does.
    pub(crate) fn submit(
        &mut self,
        deps: impl IntoIterator<Item = TaskId>,
        context: &Arc<ContextCore>,
        work: Work,
    ) -> TaskId {
        self.submit_behind(None, deps, context, work)
    }

    /// As [`submit`](Batch::submit), and the task runs behind another one, though nothing that the
    /// program asked for orders the two: they may still race.
    pub(crate) fn submit_behind(
        &mut self,
        behind: Option<TaskId>,
        deps: impl IntoIterator<Item = TaskId>,
        context: &Arc<ContextCore>,
        work: Work,
    ) -> TaskId {
        let dag = &mut *self.dag;
        dag.last += 1;
        let id = TaskId(dag.last);
        let rank = next_random(&mut dag.choice);
        let (key, context, work) = (context.key, context.clone(), Some(work));
        dag.pending.entry(key).or_default().insert(id);
        dag.tasks.insert(id, Task { context, work, waits_for: 0, dependents: vec![], rank });
        let mut deps: Vec<TaskId> = deps.into_iter().collect();
        if let Some(races) = &self.engine.races {
            races.begin(id, key);
            races.order(id, &deps);
            // What a task submits while it runs comes after what the task came after.
            races.order(id, worker::running().as_slice());
        }
        deps.extend(behind);
        self.engine.hang(dag, id, &deps);
        id
    }
}

/// The next number of a sequence (SplitMix64).
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Waits on a condition; a panic elsewhere does not poison the engine.
fn wait<'a>(condition: &Condvar, guard: MutexGuard<'a, Dag>) -> MutexGuard<'a, Dag> {
    condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn wait_at_most<'a>(
    condition: &Condvar,
    guard: MutexGuard<'a, Dag>,
    limit: Duration,
) -> MutexGuard<'a, Dag> {
    condition.wait_timeout(guard, limit).unwrap_or_else(std::sync::PoisonError::into_inner).0
}
