//! Which driver the program runs on, and why.

use grapture::{DRIVER_VARIABLE, Driver};

use crate::failure::Failure;

/// A driver, and why it is this one.
pub struct Chosen {
    /// The driver.
    pub driver: Driver,
    /// Whether it is the simulated one.
    pub simulated: bool,
    /// Why it is not the system's, if it is not.
    pub why: Option<String>,
}

/// The driver that the environment names; else the system's if it has a device; else the simulated
/// one.
pub fn choose() -> Result<Chosen, Failure> {
    if let Some(name) = named() {
        let driver = Driver::process_default().map_err(|error| {
            Failure::cannot(
                format!("use the driver that {DRIVER_VARIABLE}={name} names"),
                reason(&error),
            )
        })?;
        let why = Some(format!("{DRIVER_VARIABLE}={name}"));
        return Ok(Chosen { driver, simulated: name == "sim", why });
    }
    let why = match Driver::process_default() {
        Ok(driver) => match driver.device_count() {
            Ok(0) => format!("the driver {} has no device", driver.origin()),
            Ok(_) => return Ok(Chosen { driver, simulated: false, why: None }),
            Err(error) => {
                format!("the driver {} does not count its devices: {error}", driver.origin())
            }
        },
        Err(error) => reason(&error),
    };
    let simulated = grapture_sim::driver(grapture_sim::SimConfig::default());
    Ok(Chosen { driver: Driver::from(simulated), simulated: true, why: Some(why) })
}

/// What the environment says, if it says something.
pub fn named() -> Option<String> {
    let value = std::env::var_os(DRIVER_VARIABLE)?;
    (!value.is_empty()).then(|| value.to_string_lossy().into_owned())
}

/// Why the last loading failed: in full where the loader said it.
pub fn reason(error: &grapture::CudaError) -> String {
    match Driver::load_failure() {
        Some(failure) => failure.to_string(),
        None => error.to_string(),
    }
}
