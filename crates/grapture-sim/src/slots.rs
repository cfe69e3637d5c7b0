//! Slots: C functions have no `self`, so each of a fixed number of simulations has its own copy of
//! every function, and a slot says which simulation that is.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::config::SimConfig;
use crate::sim::{Sim, lock};
use crate::work::in_host_function;

/// How many simulations can be alive at once in a process.
pub(crate) const SLOTS: usize = 32;
/// How long a new simulation waits for a slot.
const SLOT_LIMIT: Duration = Duration::from_secs(60);

static SIMS: [RwLock<Option<Arc<Sim>>>; SLOTS] = [const { RwLock::new(None) }; SLOTS];
static TAKEN: Mutex<Taken> = Mutex::new(Taken { slots: [false; SLOTS], number: 0 });
static FREED: Condvar = Condvar::new();

struct Taken {
    slots: [bool; SLOTS],
    /// The number of the last simulation, for its handles.
    number: u8,
}

thread_local! {
    static NULL_IS_PER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the call under way is one of the `_ptsz` functions, where the null stream is the
/// calling thread's own.
pub(crate) fn null_is_per_thread() -> bool {
    NULL_IS_PER_THREAD.get()
}

/// Runs `call` with the null stream meaning the calling thread's.
pub(crate) fn with_per_thread_null<R>(call: impl FnOnce() -> R) -> R {
    let before = NULL_IS_PER_THREAD.replace(true);
    let result = call();
    NULL_IS_PER_THREAD.set(before);
    result
}

/// The simulation of a slot.
pub(crate) fn sim(slot: usize) -> Option<Arc<Sim>> {
    SIMS.get(slot)?.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A simulation in its slot. The last owner's drop ends it.
pub(crate) struct Owner {
    pub(crate) sim: Arc<Sim>,
}

impl Owner {
    /// Starts a simulation in a free slot, and waits for one if need be.
    ///
    /// # Panics
    ///
    /// No slot became free within a minute.
    pub(crate) fn start(config: SimConfig) -> Owner {
        let (slot, number) = take_slot();
        let sim = Sim::new(config, slot, number);
        // INVARIANT: `take_slot` gives numbers below `SLOTS`.
        *SIMS[slot].write().unwrap_or_else(PoisonError::into_inner) = Some(sim.clone());
        Owner { sim }
    }
}

fn take_slot() -> (usize, u8) {
    let limit = Instant::now() + SLOT_LIMIT;
    let mut taken = lock(&TAKEN);
    loop {
        if let Some(slot) = taken.slots.iter().position(|taken| !taken) {
            // INVARIANT: `position` gives an index of this array.
            taken.slots[slot] = true;
            taken.number = taken.number.wrapping_add(1);
            return (slot, taken.number);
        }
        let left = limit.saturating_duration_since(Instant::now());
        assert!(
            !left.is_zero(),
            "{SLOTS} simulated drivers are alive in this process and none ended within a minute"
        );
        taken = FREED.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let sim = self.sim.clone();
        // The last handle may go inside a host function, on a thread that the end waits for.
        if in_host_function() {
            std::thread::spawn(move || end(&sim));
        } else {
            end(&sim);
        }
    }
}

/// Lets a simulation finish, and frees its slot.
fn end(sim: &Sim) {
    sim.engine.close();
    // INVARIANT: a simulation's slot is below `SLOTS`.
    *SIMS[sim.slot].write().unwrap_or_else(PoisonError::into_inner) = None;
    // INVARIANT: as above.
    lock(&TAKEN).slots[sim.slot] = false;
    FREED.notify_one();
}
