//! Tests that run on the simulated driver under its checks of memory and of races.

use std::time::{Duration, Instant};

use grapture::Driver;
use grapture_sim::{RaceCheck, SimConfig, Simulation};

use super::Setup;

/// As `both_tiers`; on the simulated driver, what the body makes it has to give back, nothing may
/// touch memory that is not there or was not written, and nothing may race.
macro_rules! checked_tiers {
    ($($name:ident),* $(,)?) => {
        mod sim_tier {
            $(
                #[test]
                fn $name() {
                    crate::common::checked::check(super::$name);
                }
            )*
        }

        mod gpu_tier {
            $(
                #[test]
                fn $name() {
                    super::$name(&crate::common::Setup::real());
                }
            )*
        }
    };
}
pub(crate) use checked_tiers;

/// What the simulated driver looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// That memory is there when it is used.
    Memory,
    /// Moreover that it was written before it is read, and that no uses race.
    All,
}

/// Runs the body on a simulated driver that looks for faults and races.
pub fn check(body: fn(&Setup)) {
    check_with(Checks::All, body);
}

/// Runs the body on a simulated driver with some of its checks.
pub fn check_with(checks: Checks, body: impl FnOnce(&Setup)) {
    let config = match checks {
        Checks::Memory => SimConfig::new(),
        Checks::All => SimConfig::new().races(RaceCheck::Report).check_uninitialised(true),
    };
    let sim = Simulation::new(config);
    {
        let setup = Setup::on(Driver::from(sim.driver()));
        body(&setup);
    }
    let limit = Instant::now() + Duration::from_secs(10);
    while !sim.live().is_clean() {
        assert!(Instant::now() < limit, "left over: {}\n{}", sim.live(), sim.leaks());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(sim.last_fault(), None);
    assert!(sim.races().is_empty(), "{:#?}", sim.races());
}
