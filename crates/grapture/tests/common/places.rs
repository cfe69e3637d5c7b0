//! The devices of a simulated driver, each with what is needed to run a kernel there.

use std::time::{Duration, Instant};

use grapture::{Context, CudaResult, DeviceBuffer, Driver, LaunchBuilder, Module, Stream};
use grapture_sim::{RaceCheck, SimConfig, Simulation};

/// A device of a driver, with what is needed to run a kernel there.
pub struct Place {
    pub context: Context,
    pub module: Module,
    pub stream: Stream,
}

impl Place {
    pub fn on(driver: &Driver, ordinal: usize) -> Place {
        let context = Context::new(&driver.device(ordinal).unwrap()).unwrap();
        let module = context.load_ptx(super::KERNELS).unwrap();
        let stream = Stream::new(&context).unwrap();
        Place { context, module, stream }
    }

    /// `word += value`
    #[track_caller]
    pub fn add(&self, word: &mut DeviceBuffer<u32>, value: u32) -> CudaResult<()> {
        let kernel = self.module.kernel("add")?;
        // SAFETY: `add` takes the address of a word and a value.
        unsafe { kernel.launch_builder(1, 1).arg_mut(word).value(value).launch(&self.stream) }
    }

    pub fn upload(&self, elements: &[u32]) -> DeviceBuffer<u32> {
        DeviceBuffer::from_slice(&self.context, elements).unwrap()
    }

    pub fn read(&self, words: &DeviceBuffer<u32>) -> Vec<u32> {
        words.to_vec(&self.stream).unwrap()
    }
}

/// A simulated driver that looks for races and reads of what nobody wrote.
pub fn places(devices: usize) -> (Simulation, Vec<Place>) {
    let config = SimConfig::new().devices(devices).races(RaceCheck::Report);
    let sim = Simulation::new(config.check_uninitialised(true));
    let driver = Driver::from(sim.driver());
    let places = (0..devices).map(|ordinal| Place::on(&driver, ordinal)).collect();
    (sim, places)
}

/// Nothing is left over, no fault was seen and no race.
#[track_caller]
pub fn assert_clean(sim: &Simulation, places: Vec<Place>) {
    let driver = places[0].context.driver().clone();
    drop(places);
    driver.reclaim();
    let limit = Instant::now() + Duration::from_secs(10);
    while !sim.live().is_clean() {
        assert!(Instant::now() < limit, "{}\n{}", sim.live(), sim.leaks());
        driver.reclaim();
    }
    assert_eq!(sim.last_fault(), None);
    assert!(sim.races().is_empty(), "{:#?}", sim.races());
}
