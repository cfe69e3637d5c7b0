//! [`SimConfig`]: which driver is simulated, over which devices.

use std::num::NonZero;

use crate::race::RaceCheck;

/// What a simulated driver is like. The default is a driver of CUDA 13.0 with one device that
/// answers like an H200 with 4 GiB of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    driver_version: i32,
    devices: usize,
    memory_bytes: usize,
    seed: u64,
    workers: usize,
    races: RaceCheck,
    uninitialised: bool,
}

/// The newest driver that is simulated.
pub(crate) const NEWEST_DRIVER: i32 = 13_000;
/// The oldest driver that is simulated.
pub(crate) const OLDEST_DRIVER: i32 = 9_020;

impl Default for SimConfig {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(2, NonZero::get).max(2);
        SimConfig {
            driver_version: NEWEST_DRIVER,
            devices: 1,
            memory_bytes: 4 << 30,
            seed: 0,
            workers,
            races: RaceCheck::Off,
            uninitialised: false,
        }
    }
}

impl SimConfig {
    /// The default: see the type.
    pub fn new() -> SimConfig {
        SimConfig::default()
    }

    /// The CUDA version of the driver (1000 × major + 10 × minor), kept within 9.2 and 13.0. What
    /// a newer driver brought is missing.
    #[must_use]
    pub fn driver_version(mut self, version: i32) -> SimConfig {
        self.driver_version = version.clamp(OLDEST_DRIVER, NEWEST_DRIVER);
        self
    }

    /// How many devices there are.
    #[must_use]
    pub fn devices(mut self, devices: usize) -> SimConfig {
        self.devices = devices;
        self
    }

    /// No device: `cuInit` answers `CUDA_ERROR_NO_DEVICE`.
    #[must_use]
    pub fn no_device(self) -> SimConfig {
        self.devices(0)
    }

    /// The memory of each device. It is taken from the host only as it is allocated.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> SimConfig {
        self.memory_bytes = bytes;
        self
    }

    /// The seed of the choice among operations that could run next. With one worker, a run with
    /// the same seed makes the same choices.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> SimConfig {
        self.seed = seed;
        self
    }

    /// How many threads execute operations, at least one. More are started while all of them are
    /// held up (a host function that waits, a kernel that polls).
    #[must_use]
    pub fn workers(mut self, workers: usize) -> SimConfig {
        self.workers = workers.max(1);
        self
    }

    /// Whether operations that nothing orders are compared by the memory that they access, and what
    /// happens when they race. Kernels run many times slower then.
    #[must_use]
    pub fn races(mut self, check: RaceCheck) -> SimConfig {
        self.races = check;
        self
    }

    /// Whether a kernel that reads device memory which nobody wrote since it was allocated breaks
    /// its context, with `CUDA_ERROR_LAUNCH_FAILED`. A real driver never answers so: there the
    /// value is whatever was in the memory.
    #[must_use]
    pub fn check_uninitialised(mut self, check: bool) -> SimConfig {
        self.uninitialised = check;
        self
    }

    /// The configuration that the environment asks for: `GRAPTURE_SIM_DRIVER_VERSION`,
    /// `GRAPTURE_SIM_DEVICES`, `GRAPTURE_SIM_MEMORY` (bytes), `GRAPTURE_SIM_SEED` and
    /// `GRAPTURE_SIM_WORKERS`, each a number.
    ///
    /// # Errors
    ///
    /// The text names the variable that is not a number.
    pub fn from_env() -> Result<SimConfig, String> {
        let mut config = SimConfig::default();
        if let Some(version) = number("GRAPTURE_SIM_DRIVER_VERSION")? {
            config = config.driver_version(version);
        }
        if let Some(devices) = number("GRAPTURE_SIM_DEVICES")? {
            config = config.devices(devices);
        }
        if let Some(bytes) = number("GRAPTURE_SIM_MEMORY")? {
            config = config.memory_bytes(bytes);
        }
        if let Some(seed) = number("GRAPTURE_SIM_SEED")? {
            config = config.seed(seed);
        }
        if let Some(workers) = number("GRAPTURE_SIM_WORKERS")? {
            config = config.workers(workers);
        }
        Ok(config)
    }

    pub(crate) fn version(&self) -> i32 {
        self.driver_version
    }

    pub(crate) fn device_count(&self) -> usize {
        self.devices
    }

    pub(crate) fn memory(&self) -> usize {
        self.memory_bytes
    }

    pub(crate) fn scheduler_seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn race_check(&self) -> RaceCheck {
        self.races
    }

    pub(crate) fn checks_uninitialised(&self) -> bool {
        self.uninitialised
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.workers
    }
}

fn number<T: std::str::FromStr>(variable: &str) -> Result<Option<T>, String> {
    match std::env::var(variable) {
        Err(_) => Ok(None),
        Ok(text) => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("{variable} is \"{text}\", which is not a number")),
        },
    }
}
