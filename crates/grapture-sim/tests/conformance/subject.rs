//! [`Subject`]: the driver that a case is about.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use grapture_sim::{SimConfig, Simulation};
use grapture_sys::Driver;

/// Set in the process of a test that runs alone.
const ALONE: &str = "GRAPTURE_TEST_ALONE";
/// How long such a process may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A driver, and the controls of the simulated one.
pub struct Subject {
    pub driver: Driver,
    pub sim: Option<Simulation>,
}

impl Subject {
    /// A simulated driver of its own.
    pub fn simulated() -> Subject {
        Subject::with(SimConfig::default())
    }

    /// As [`simulated`](Subject::simulated), like this.
    pub fn with(config: SimConfig) -> Subject {
        let sim = Simulation::new(config);
        Subject { driver: sim.driver(), sim: Some(sim) }
    }

    /// The driver of the system, loaded once.
    pub fn real() -> Subject {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        let load = || match Driver::load() {
            Ok(driver) => driver,
            Err(error) => panic!("the gpu tier needs a driver: {error}"),
        };
        Subject { driver: DRIVER.get_or_init(load).clone(), sim: None }
    }
}

/// Runs the test with this name in a process of its own: what it breaks is not what the others
/// stand on. In that process, runs `body`.
pub fn in_a_process(name: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let (_, name) = name.split_once("::").expect("a path that begins with the crate");
    let program = std::env::current_exe().expect("the path of this program");
    let mut child = Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the process of the test");
    let limit = Instant::now() + LIMIT;
    let mut late = false;
    while child.try_wait().expect("the state of the process").is_none() {
        if Instant::now() > limit {
            late = true;
            child.kill().expect("the end of the process");
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("what the process wrote");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success() && !late,
        "{}{}\n{}{}",
        output.status,
        if late { ", after too long" } else { "" },
        said(&output.stdout),
        said(&output.stderr),
    );
}
