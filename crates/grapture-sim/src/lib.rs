//! A simulated CUDA driver: the ABI of the real one, its error codes, its streams that run beside
//! the program, and kernels that run by interpreting their PTX. It needs no GPU.
//!
//! ```
//! use grapture_sim::{SimConfig, Simulation};
//! use grapture_sys::Function;
//!
//! let sim = Simulation::new(SimConfig::default());
//! let driver = sim.driver();
//! let mut count = 0;
//! // SAFETY: the out-pointer is a live local.
//! let code = unsafe { (driver.functions().cuDeviceGetCount)(&mut count) };
//! assert_eq!((code.0, count), (0, 1));
//! assert_eq!(sim.calls(Function::cuDeviceGetCount), 1);
//! assert!(sim.live().is_clean());
//! ```
//!
//! The way of a call: a C function of one slot (`slots`) counts it and asks the fault plan
//! (`calls`), then calls the function of the same name in `abi`, which checks its arguments
//! against the objects in `sim::State` and hands work to the `engine`.

mod abi;
mod calls;
mod capture;
mod config;
mod console;
mod context;
mod device;
mod device_config;
mod engine;
mod event;
#[cfg(feature = "export")]
mod export;
mod fault;
mod graph;
mod handle;
mod launch;
mod leak;
mod live;
pub mod memory;
mod module;
mod occupancy;
mod origin;
pub mod ptx;
mod race;
mod sim;
mod simulation;
mod slots;
mod stream;
mod trace;
mod work;

pub use config::{ReplayOrder, SimConfig};
pub use device_config::DeviceConfig;
pub use leak::{Leaks, LiveObject};
pub use live::LiveObjects;
pub use origin::Origin;
pub use race::{Race, RaceCheck, RaceSide};
pub use simulation::{Simulation, driver};
