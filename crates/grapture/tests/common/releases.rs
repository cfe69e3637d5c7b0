//! Releases that fail.

use std::cell::Cell;
use std::time::{Duration, Instant};

use grapture::{CudaError, Driver, set_drop_error_hook};
use grapture_sim::Simulation;

thread_local! {
    /// How many releases have failed on the thread.
    pub static FAILED_RELEASES: Cell<usize> = const { Cell::new(0) };
}

/// Has the failed releases of each thread counted from now on.
pub fn count_failed_releases() {
    let count = |_: &str, _: &CudaError| FAILED_RELEASES.set(FAILED_RELEASES.get() + 1);
    set_drop_error_hook(Some(Box::new(count)));
}

/// Waits until nothing is left in the driver, but for what the failed call was to destroy.
#[track_caller]
pub fn assert_clean(sim: &Simulation, driver: &Driver, what: &str) {
    let left = FAILED_RELEASES.take();
    let limit = Instant::now() + Duration::from_secs(10);
    while sim.leaks().objects.len() > left || left == 0 && !sim.live().is_clean() {
        assert!(Instant::now() < limit, "{what}: {:?}", sim.leaks());
        driver.reclaim();
        std::thread::sleep(Duration::from_millis(1));
    }
}
