//! The C functions under their exported names, for the shared library that stands in for
//! `libcuda.so.1`. They lead to one simulation in slot 0, which the environment configures
//! ([`SimConfig::from_env`]) and which lives as long as the process.

use core::ffi::{c_char, c_void};
use std::sync::OnceLock;

use grapture_sys::*;

use crate::abi;
use crate::config::SimConfig;
use crate::slots::Owner;

static OWNER: OnceLock<Owner> = OnceLock::new();

/// Starts the simulation with the first call.
fn start() -> usize {
    let owner = OWNER.get_or_init(|| {
        let config = SimConfig::from_env().unwrap_or_else(|problem| {
            eprintln!("grapture-sim: {problem}; it is ignored, as are the other settings");
            SimConfig::default()
        });
        Owner::start(config)
    });
    owner.sim.slot
}

macro_rules! define {
    ($($symbol:ident = $name:literal @ $since:literal ($($arg:ident: $ty:ty),* $(,)?);)*) => {$(
        /// The driver's function of this name.
        ///
        /// # Safety
        ///
        /// The arguments are as the CUDA driver API demands.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        #[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($arg: $ty),*) -> CUresult {
            // SAFETY: the caller's promise.
            unsafe { abi::entry::$symbol(start(), $($arg),*) }
        }
    )*};
}

driver_functions!(define);
