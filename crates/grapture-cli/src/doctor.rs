//! `grapture doctor`: the driver, its devices, and what it can do.

use grapture::{Driver, Feature, LoadError};

use crate::driver::{named, reason};
use crate::failure::Failure;

/// Prints what there is. Without a driver it says why, and what each feature would need.
pub fn run() -> Result<(), Failure> {
    let driver = Driver::process_default();
    match &driver {
        Ok(driver) => {
            println!("driver   {}, CUDA {}", driver.origin(), driver.version());
            print_devices(driver);
        }
        Err(error) => print_failure(error),
    }
    println!();
    println!("{:<34} {:>5}  here", "feature", "needs");
    for feature in Feature::ALL {
        let here = driver.as_ref().is_ok_and(|driver| driver.supports(*feature));
        let (name, needs) = (feature.to_string(), feature.since().to_string());
        println!("{name:<34} {needs:>5}  {}", if here { "yes" } else { "no" });
    }
    match driver {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::Wrong("there is no CUDA driver to use".to_owned())),
    }
}

fn print_devices(driver: &Driver) {
    match driver.device_count() {
        Ok(0) => println!("devices  none"),
        Ok(count) => {
            for ordinal in 0..count {
                let label = if ordinal == 0 { "devices" } else { "" };
                println!("{label:<8} {}", device(driver, ordinal));
            }
        }
        Err(error) => println!("devices  cannot be counted: {error}"),
    }
}

/// A device in one line, or why it cannot be used.
fn device(driver: &Driver, ordinal: usize) -> String {
    let described = driver.device(ordinal).and_then(|device| {
        let (major, minor) = device.compute_capability()?;
        let gib = device.total_memory_bytes()? as f64 / f64::from(1 << 30);
        Ok(format!(
            "{ordinal}: {}, compute capability {major}.{minor}, {gib:.1} GiB",
            device.name()?
        ))
    });
    described.unwrap_or_else(|error| format!("{ordinal}: cannot be used: {error}"))
}

fn print_failure(error: &grapture::CudaError) {
    println!("driver   none");
    match Driver::load_failure() {
        Some(LoadError::NotFound { attempts }) => {
            for attempt in attempts {
                println!("         {}: {}", attempt.name, attempt.reason);
            }
        }
        _ => println!("         {}", reason(error)),
    }
    if named().is_none() {
        println!("         GRAPTURE_DRIVER=sim selects the simulated driver");
    }
}
