//! [`Calls`]: how often each function was called, and which calls are to fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use grapture_sys::{CUresult, Function};

use crate::sim::lock;

/// The counts and the fault plan of a simulation.
pub(crate) struct Calls {
    counts: Box<[AtomicU64]>,
    planned: AtomicU64,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    faults: Vec<Planned>,
}

/// A call that is to fail: it is the one that counts `left` down to zero.
struct Planned {
    function: Option<Function>,
    left: u64,
    code: CUresult,
}

impl Calls {
    /// Nothing called, nothing planned.
    pub(crate) fn new() -> Calls {
        Calls {
            counts: Function::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            planned: AtomicU64::new(0),
            plan: Mutex::default(),
        }
    }

    /// Counts a call; an error if the plan says that it fails.
    pub(crate) fn enter(&self, function: Function) -> Result<(), CUresult> {
        // INVARIANT: there is one counter for each function of the table.
        self.counts[function as usize].fetch_add(1, Ordering::Relaxed);
        if self.planned.load(Ordering::Acquire) == 0 { Ok(()) } else { self.consult(function) }
    }

    fn consult(&self, function: Function) -> Result<(), CUresult> {
        let mut plan = lock(&self.plan);
        let mut code = None;
        for planned in &mut plan.faults {
            if planned.function.is_none_or(|wanted| wanted == function) {
                planned.left -= 1;
                if planned.left == 0 {
                    code = Some(planned.code);
                }
            }
        }
        plan.faults.retain(|planned| planned.left > 0);
        self.planned.store(plan.faults.len() as u64, Ordering::Release);
        code.map_or(Ok(()), Err)
    }

    /// Plans that the `nth` call from now on fails (1 is the next), of one function or of any.
    pub(crate) fn plan(&self, function: Option<Function>, nth: u64, code: CUresult) {
        let mut plan = lock(&self.plan);
        plan.faults.push(Planned { function, left: nth.max(1), code });
        self.planned.store(plan.faults.len() as u64, Ordering::Release);
    }

    /// Forgets the planned faults.
    pub(crate) fn clear_plan(&self) {
        lock(&self.plan).faults.clear();
        self.planned.store(0, Ordering::Release);
    }

    /// How often the function was called.
    pub(crate) fn count(&self, function: Function) -> u64 {
        // INVARIANT: there is one counter for each function of the table.
        self.counts[function as usize].load(Ordering::Relaxed)
    }

    /// How many calls there were.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Starts counting from zero.
    pub(crate) fn reset(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
    }
}
