//! [`Calls`]: how often each function was called, and which calls are to fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use grapture_sys::{CUresult, Function};

use crate::origin::Origin;
use crate::sim::lock;

/// The counts and the fault plan of a simulation.
pub(crate) struct Calls {
    counts: Box<[AtomicU64]>,
    last: AtomicU64,
    planned: AtomicU64,
    plan: Mutex<Plan>,
}

struct Plan {
    faults: Vec<PlannedFailure>,
}

/// A call that is to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFailure {
    /// Whose calls are counted; nothing for those of all functions.
    function: Option<Function>,
    /// How many calls there are until then, itself included.
    left: u64,
    /// What it answers.
    code: CUresult,
}

impl PlannedFailure {
    /// Reads `function@nth=code,…`, where the function may be `any`.
    pub(crate) fn read_all(text: &str) -> Result<Vec<PlannedFailure>, String> {
        text.split(',').map(PlannedFailure::read).collect()
    }

    fn read(text: &str) -> Result<PlannedFailure, String> {
        let parts = text.trim().split_once('=');
        let parts = parts.and_then(|(call, code)| Some((call.split_once('@')?, code)));
        let ((name, nth), code) = parts.ok_or(format!("{text} is not function@nth=code"))?;
        let function = match name {
            "any" => None,
            name => Some(Function::from_symbol(name).ok_or(format!("there is no {name}"))?),
        };
        match (nth.parse(), code.parse()) {
            (Ok(left @ 1..), Ok(code)) => {
                Ok(PlannedFailure { function, left, code: CUresult(code) })
            }
            _ => Err(format!("{text} has no numbers from 1 on")),
        }
    }
}

impl Calls {
    /// Nothing called yet.
    pub(crate) fn new(failures: &[PlannedFailure]) -> Calls {
        Calls {
            counts: Function::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            last: AtomicU64::new(0),
            planned: AtomicU64::new(failures.len() as u64),
            plan: Mutex::new(Plan { faults: failures.to_vec() }),
        }
    }

    /// Counts a call, and gives its number.
    pub(crate) fn enter(&self, function: Function) -> Origin {
        // INVARIANT: there is one counter for each function of the table.
        self.counts[function as usize].fetch_add(1, Ordering::Relaxed);
        Origin::begin(function, self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// An error if the plan says that this call fails.
    pub(crate) fn check_plan(&self, function: Function) -> Result<(), CUresult> {
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
        plan.faults.push(PlannedFailure { function, left: nth.max(1), code });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_from_text() {
        let read = PlannedFailure::read_all("cuMemAlloc_v2@3=2, any@100=999").unwrap();
        let expected = [(Some(Function::cuMemAlloc_v2), 3, 2), (None, 100, 999)];
        let expected = expected.map(|(function, left, code)| PlannedFailure {
            function,
            left,
            code: CUresult(code),
        });
        assert_eq!(read, expected);
        for wrong in ["", "cuMemAlloc_v2", "cuMemAlloc_v2@1", "nope@1=2", "any@0=2", "any@1=x"] {
            assert!(PlannedFailure::read_all(wrong).is_err(), "{wrong}");
        }
    }
}
