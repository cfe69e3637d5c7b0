//! [`Simulation`]: a simulated driver with its controls.

use std::fmt;
use std::sync::Arc;

use grapture_sys::{CUresult, Driver, Function, LoadError};

use crate::abi;
use crate::config::SimConfig;
use crate::live::LiveObjects;
use crate::race::{Race, RaceLog};
use crate::slots::Owner;

/// A simulated driver with its controls. A clone controls the same driver; the driver ends with
/// the last of the clones and of the [`Driver`]s made of them.
#[derive(Clone)]
pub struct Simulation {
    owner: Arc<Owner>,
}

/// A simulated driver, without its controls.
///
/// # Panics
///
/// The configuration has no device: see [`Simulation::load`]. As [`Simulation::new`].
pub fn driver(config: SimConfig) -> Driver {
    Simulation::new(config).driver()
}

impl Simulation {
    /// Starts a simulated driver. There can be 32 of them in a process; the next one waits.
    ///
    /// # Panics
    ///
    /// No driver ended within a minute to make room for this one.
    pub fn new(config: SimConfig) -> Simulation {
        Simulation { owner: Arc::new(Owner::start(config)) }
    }

    /// The driver.
    ///
    /// # Panics
    ///
    /// The configuration has no device: see [`load`](Simulation::load).
    pub fn driver(&self) -> Driver {
        match self.load() {
            Ok(driver) => driver,
            Err(error) => panic!("{error}"),
        }
    }

    /// The driver, or why it does not start.
    ///
    /// # Errors
    ///
    /// `cuInit` fails: there is no device, or [`fail`](Simulation::fail) made it fail.
    pub fn load(&self) -> Result<Driver, LoadError> {
        let owner = self.owner.clone();
        let resolver = move |info| abi::address(&owner.sim, info);
        // SAFETY: `abi::address` gives the functions that `driver_functions!` made from the same
        // lines as the table, so the signatures agree; the code is never unloaded, and the
        // resolver owns the simulation that it leads to.
        unsafe { Driver::from_resolver("the simulated driver", resolver) }
    }

    /// How often a function was called.
    pub fn calls(&self, function: Function) -> u64 {
        self.owner.sim.calls.count(function)
    }

    /// How many calls of all functions there were.
    pub fn total_calls(&self) -> u64 {
        self.owner.sim.calls.total()
    }

    /// Starts counting calls from zero.
    pub fn reset_calls(&self) {
        self.owner.sim.calls.reset();
    }

    /// Makes the `nth` call of a function from now on (1 is the next) do nothing but answer
    /// `code`.
    pub fn fail(&self, function: Function, nth: u64, code: CUresult) {
        self.owner.sim.calls.plan(Some(function), nth, code);
    }

    /// Makes the `nth` call from now on, of whichever function, do nothing but answer `code`.
    pub fn fail_any(&self, nth: u64, code: CUresult) {
        self.owner.sim.calls.plan(None, nth, code);
    }

    /// Forgets the failures that were asked for and have not happened.
    pub fn clear_failures(&self) {
        self.owner.sim.calls.clear_plan();
    }

    /// What is alive.
    pub fn live(&self) -> LiveObjects {
        let sim = &self.owner.sim;
        let mut live = LiveObjects::default();
        sim.lock().count(&mut live);
        sim.memory.count(&mut live);
        live.pending = sim.engine.pending();
        live
    }

    /// What the last operation that broke a context did: which kernel, where, which memory.
    pub fn last_fault(&self) -> Option<String> {
        self.owner.sim.last_fault()
    }

    /// The races found so far, in the order in which their second operations ended; none unless
    /// [`SimConfig::races`] asks for them.
    pub fn races(&self) -> Vec<Race> {
        self.owner.sim.engine.races.as_ref().map(RaceLog::found).unwrap_or_default()
    }

    /// Holds back all operations that have not started.
    pub fn pause(&self) {
        self.owner.sim.engine.set_paused(true);
    }

    /// Lets operations run again after [`pause`](Simulation::pause).
    pub fn resume(&self) {
        self.owner.sim.engine.set_paused(false);
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sim = &self.owner.sim;
        f.debug_struct("Simulation").field("slot", &sim.slot).field("config", &sim.config).finish()
    }
}
