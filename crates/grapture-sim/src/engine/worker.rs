//! The threads of the engine: take a ready task, run it, release what waited for it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use grapture_sys::{CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_UNKNOWN};

use super::{Dag, Engine, TaskId, wait, wait_at_most};
use crate::context::ContextCore;
use crate::fault::Fault;
use crate::memory::accesses::Accesses;
use crate::sim::{Sim, lock};
use crate::work::{Next, Work};

thread_local! {
    static RUNNING: Cell<Option<TaskId>> = const { Cell::new(None) };
}

/// The task that the calling thread runs.
pub(super) fn running() -> Option<TaskId> {
    RUNNING.get()
}

/// After this long without progress, threads that all are busy count as held up.
const STALL: Duration = Duration::from_millis(20);
/// More threads than this are never started.
const MOST_THREADS: usize = 512;

impl Engine {
    /// Starts one more thread.
    pub(super) fn grow(&self, dag: &mut Dag) {
        let Some(sim) = self.sim.get().and_then(std::sync::Weak::upgrade) else { return };
        if dag.closing || dag.alive >= MOST_THREADS {
            return;
        }
        if dag.threads.is_empty() {
            let watched = sim.clone();
            let watch = move || watched.engine.watch();
            if let Ok(thread) = std::thread::Builder::new().name("sim-watch".into()).spawn(watch) {
                dag.alive += 1;
                dag.held_up += 1;
                dag.threads.push(thread);
            }
        }
        let name = format!("sim-worker-{}", dag.threads.len());
        let run = move || sim.engine.serve(&sim);
        if let Ok(thread) = std::thread::Builder::new().name(name).spawn(run) {
            dag.alive += 1;
            dag.threads.push(thread);
        }
    }

    /// The life of a worker.
    fn serve(&self, sim: &Arc<Sim>) {
        let mut dag = lock(&self.dag);
        while !dag.closing {
            if dag.alive - dag.held_up > self.limit.max(1) + 1 && dag.ready.is_empty() {
                break;
            }
            match dag.choose() {
                Some(id) => {
                    // This may have been the last thread that the watch counted on.
                    if dag.is_short() {
                        self.short.notify_one();
                    }
                    dag = self.execute(sim, dag, id);
                }
                None => {
                    dag.idle += 1;
                    dag = wait(&self.work, dag);
                    dag.idle -= 1;
                }
            }
        }
        dag.alive -= 1;
        drop(dag);
        self.done.notify_all();
    }

    /// Runs a task with the engine unlocked.
    fn execute<'a>(
        &'a self,
        sim: &Arc<Sim>,
        mut dag: MutexGuard<'a, Dag>,
        id: TaskId,
    ) -> MutexGuard<'a, Dag> {
        let Some(task) = dag.tasks.get_mut(&id) else { return dag };
        let context = task.context.clone();
        let Some(work) = task.work.take() else { return dag };
        let blocks = work.may_block();
        if blocks {
            dag.held_up += 1;
            self.offer(&mut dag);
        }
        if let (true, Some(races)) = (work.calls_program(), &self.races) {
            races.settle_before(id, TaskId(dag.last));
        }
        drop(dag);
        let mut accesses = self.races.as_ref().map(|_| Accesses::default());
        RUNNING.set(Some(id));
        let next = run(sim, &context, &work, accesses.as_mut());
        RUNNING.set(None);
        let named = accesses.map(|accesses| (work.name(), accesses));
        let work = match &next {
            Next::Again(_) => Some(work),
            Next::Done | Next::After(_) => {
                drop(work);
                None
            }
        };
        dag = lock(&self.dag);
        if blocks {
            dag.held_up -= 1;
        }
        dag.finished += 1;
        if let Some((name, accesses)) = named {
            self.look_for_races(sim, &dag, id, &context, (name, accesses));
        }
        match next {
            Next::Done => self.finish(&mut dag, id),
            Next::After(deps) | Next::Again(deps) => {
                if let Some(races) = &self.races {
                    races.order(id, &deps);
                }
                if let Some(task) = dag.tasks.get_mut(&id) {
                    // Without work left, the task only waits: it then ends as nothing.
                    task.work = Some(work.unwrap_or(Work::Empty));
                }
                self.hang(&mut dag, id, &deps);
            }
        }
        dag
    }

    /// Compares what a task did with what others did that nothing orders with it.
    fn look_for_races(
        &self,
        sim: &Arc<Sim>,
        dag: &Dag,
        id: TaskId,
        context: &Arc<ContextCore>,
        done: (String, Accesses),
    ) {
        let Some(log) = &self.races else { return };
        let oldest = dag.tasks.keys().filter(|other| **other != id).min().copied();
        let races = log.finish(id, done, oldest, &sim.memory);
        if let (Some(first), true) = (races.first(), log.breaks()) {
            let fault = Fault::new(CUDA_ERROR_LAUNCH_FAILED, first.to_string());
            sim.note_fault(&fault);
            context.break_with(fault);
        }
    }

    /// Takes a task out and readies what waited for it alone.
    fn finish(&self, dag: &mut Dag, id: TaskId) {
        let Some(task) = dag.tasks.remove(&id) else { return };
        if let Some(pending) = dag.pending.get_mut(&task.context.key) {
            pending.remove(&id);
            if pending.is_empty() {
                dag.pending.remove(&task.context.key);
            }
        }
        for dependent in task.dependents {
            if let Some(waiting) = dag.tasks.get_mut(&dependent) {
                waiting.waits_for -= 1;
                if waiting.waits_for == 0 {
                    dag.ready.push(dependent);
                    self.offer(dag);
                }
            }
        }
        self.done.notify_all();
    }

    /// Starts a thread whenever tasks are ready and nothing has moved for a while: some kernel
    /// polls for what only another task can bring.
    fn watch(&self) {
        let mut dag = lock(&self.dag);
        while !dag.closing {
            if !dag.is_short() {
                dag = wait(&self.short, dag);
                continue;
            }
            let (before, since) = (dag.finished, Instant::now());
            while since.elapsed() < STALL && !dag.closing {
                dag = wait_at_most(&self.short, dag, STALL);
            }
            if dag.is_short() && dag.finished == before {
                self.grow(&mut dag);
            }
        }
        dag.alive -= 1;
        drop(dag);
        self.done.notify_all();
    }
}

impl Dag {
    /// Whether tasks are ready and every thread is busy.
    fn is_short(&self) -> bool {
        !self.ready.is_empty() && self.idle == 0 && !self.paused
    }

    /// One of the ready tasks, by the seed.
    fn choose(&mut self) -> Option<TaskId> {
        if self.ready.is_empty() || self.paused {
            return None;
        }
        // SplitMix64.
        self.choice = self.choice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.choice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let index = (mixed % self.ready.len() as u64) as usize;
        Some(self.ready.swap_remove(index))
    }
}

/// Runs work, unless its context is broken; breaks the context if the work fails.
fn run(
    sim: &Arc<Sim>,
    context: &Arc<ContextCore>,
    work: &Work,
    accesses: Option<&mut Accesses>,
) -> Next {
    if context.fault().is_some() && !work.runs_after_fault() {
        return Next::Done;
    }
    // A mistake in the simulator itself must not leave the task undone for ever.
    let outcome = catch_unwind(AssertUnwindSafe(|| work.run(sim, context, accesses)));
    let outcome = outcome.unwrap_or_else(|_| {
        Err(Fault::new(CUDA_ERROR_UNKNOWN, "the simulated driver panicked: see standard error"))
    });
    match outcome {
        Ok(next) => next,
        Err(fault) => {
            sim.note_fault(&fault);
            context.break_with(fault);
            Next::Done
        }
    }
}
