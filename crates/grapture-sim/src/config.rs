//! [`SimConfig`]: which driver is simulated, over which devices.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use crate::calls::PlannedFailure;
use crate::device_config::DeviceConfig;

use crate::race::RaceCheck;

/// What a simulated driver is like. The default is a driver of CUDA 13.0 with one device that
/// answers like an H200 with 4 GiB of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    driver_version: i32,
    devices: usize,
    every_device: DeviceConfig,
    single_devices: BTreeMap<usize, DeviceConfig>,
    seed: u64,
    workers: usize,
    races: RaceCheck,
    uninitialised: bool,
    replay: ReplayOrder,
    trace: Option<PathBuf>,
    failures: Vec<PlannedFailure>,
}

/// In which order a launch of a graph runs nodes between which no edge stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplayOrder {
    /// Side by side, as the workers come to them.
    #[default]
    Concurrent,
    /// One node after the other, and each launch of an executable in another of the orders that
    /// the edges allow: first as the nodes were made, then the other way round, then as the seed
    /// has it. A node that waits for what another one does, without an edge between them, may
    /// wait for ever.
    Permuted,
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
            every_device: DeviceConfig::default(),
            single_devices: BTreeMap::new(),
            seed: 0,
            workers,
            races: RaceCheck::Off,
            uninitialised: false,
            replay: ReplayOrder::default(),
            trace: None,
            failures: Vec::new(),
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

    /// What every device is like that [`device`](SimConfig::device) does not name.
    #[must_use]
    pub fn every_device(mut self, device: DeviceConfig) -> SimConfig {
        self.every_device = device;
        self
    }

    /// What the device with this ordinal is like.
    #[must_use]
    pub fn device(mut self, ordinal: usize, device: DeviceConfig) -> SimConfig {
        self.single_devices.insert(ordinal, device);
        self
    }

    /// The memory of every device that [`device`](SimConfig::device) does not name. It is taken
    /// from the host only as it is allocated.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> SimConfig {
        self.every_device = self.every_device.memory_bytes(bytes);
        self
    }

    /// Writes a line for each call to a file, which is made anew: the number of the call, the
    /// thread, the function with its arguments, the code, and what a call that makes something
    /// gave. A line is written when its call is over.
    #[must_use]
    pub fn trace(mut self, path: impl AsRef<Path>) -> SimConfig {
        self.trace = Some(path.as_ref().to_owned());
        self
    }

    /// The seed of the choice among operations that could run next. With one worker, nodes of a
    /// graph run in the same order in each run with the same seed.
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

    /// The order of the nodes of a graph between which no edge stands.
    #[must_use]
    pub fn replay_order(mut self, order: ReplayOrder) -> SimConfig {
        self.replay = order;
        self
    }

    /// The configuration that the environment asks for: `GRAPTURE_SIM_DRIVER_VERSION`,
    /// `GRAPTURE_SIM_DEVICES`, `GRAPTURE_SIM_MEMORY` (bytes), `GRAPTURE_SIM_CAPABILITY` (90 for
    /// 9.0), `GRAPTURE_SIM_SEED` and `GRAPTURE_SIM_WORKERS`, each a number;
    /// `GRAPTURE_SIM_DEVICE_NAME`; `GRAPTURE_SIM_TRACE`, a file; and `GRAPTURE_SIM_FAIL`, calls
    /// that are to fail, such as `cuMemAlloc_v2@3=2,any@100=999`: the third call of one function
    /// with code 2, and the hundredth of all with code 999.
    ///
    /// # Errors
    ///
    /// The text names the variable that cannot be read.
    pub fn from_env() -> Result<SimConfig, String> {
        let mut config = SimConfig::default();
        if let Some(version) = number("GRAPTURE_SIM_DRIVER_VERSION")? {
            config = config.driver_version(version);
        }
        if let Some(devices) = number("GRAPTURE_SIM_DEVICES")? {
            config = config.devices(devices);
        }
        config.every_device = device_from_env(config.every_device)?;
        if let Some(seed) = number("GRAPTURE_SIM_SEED")? {
            config = config.seed(seed);
        }
        if let Some(workers) = number("GRAPTURE_SIM_WORKERS")? {
            config = config.workers(workers);
        }
        if let Some(path) = std::env::var_os("GRAPTURE_SIM_TRACE") {
            config = config.trace(PathBuf::from(path));
        }
        if let Ok(text) = std::env::var("GRAPTURE_SIM_FAIL") {
            config.failures = PlannedFailure::read_all(&text)
                .map_err(|problem| format!("GRAPTURE_SIM_FAIL is \"{text}\": {problem}"))?;
        }
        Ok(config)
    }

    pub(crate) fn version(&self) -> i32 {
        self.driver_version
    }

    pub(crate) fn device_count(&self) -> usize {
        self.devices
    }

    /// What the device with an ordinal is like.
    pub(crate) fn device_config(&self, ordinal: usize) -> &DeviceConfig {
        self.single_devices.get(&ordinal).unwrap_or(&self.every_device)
    }

    /// The newest compute capability of all devices.
    pub(crate) fn newest_capability(&self) -> u32 {
        (0..self.devices).map(|ordinal| self.device_config(ordinal).capability()).max().unwrap_or(0)
    }

    pub(crate) fn trace_path(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    pub(crate) fn failures(&self) -> &[PlannedFailure] {
        &self.failures
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

    pub(crate) fn replay(&self) -> ReplayOrder {
        self.replay
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.workers
    }
}

/// A device as the environment changes it.
fn device_from_env(mut device: DeviceConfig) -> Result<DeviceConfig, String> {
    if let Some(bytes) = number("GRAPTURE_SIM_MEMORY")? {
        device = device.memory_bytes(bytes);
    }
    if let Some(capability) = number::<u32>("GRAPTURE_SIM_CAPABILITY")? {
        device = device.compute_capability(capability / 10, capability % 10);
    }
    if let Ok(name) = std::env::var("GRAPTURE_SIM_DEVICE_NAME") {
        device = device.name(name);
    }
    Ok(device)
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
