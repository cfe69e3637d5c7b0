//! The C functions under their exported names, for the shared library that stands in for
//! `libcuda.so.1`: each as it is, and once more with `_ptsz` and with `_ptds` behind its name, where
//! the null stream is the calling thread's own (a program that is compiled for that asks for one of
//! the two, by function). They lead to one simulation in slot 0, which the environment configures
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
        stay_loaded();
        let config = SimConfig::from_env().unwrap_or_else(|problem| {
            eprintln!("grapture-sim: {problem}; it is ignored, as are the other settings");
            SimConfig::default()
        });
        Owner::start(config)
    });
    owner.sim.slot
}

/// Keeps the library in the process: its threads run its code until the process ends, also after
/// a program closed its handle of the library.
#[cfg(unix)]
fn stay_loaded() {
    use core::ffi::c_int;

    /// What the loader says of an address.
    #[repr(C)]
    struct Found {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        address: *mut c_void,
    }
    const LAZY: c_int = 1;
    unsafe extern "C" {
        fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    }

    let none = std::ptr::null_mut();
    let mut found =
        Found { file: std::ptr::null(), base: none, symbol: std::ptr::null(), address: none };
    // SAFETY: the address is that of a static of this library, and the result a live local with
    // the layout of the system's `Dl_info`.
    let known = unsafe { dladdr((&raw const OWNER).cast(), &mut found) };
    if known != 0 && !found.file.is_null() {
        // The handle is never closed: that is the point.
        // SAFETY: the loader gave the file's name, which is NUL-terminated; the library is
        // loaded already, so that no initialiser runs.
        unsafe { dlopen(found.file, LAZY) };
    }
}

#[cfg(not(unix))]
fn stay_loaded() {}

macro_rules! per_thread {
    ($symbol:ident, $suffix:literal, ($($arg:ident: $ty:ty),*)) => {
        const _: () = {
            /// # Safety
            ///
            /// The arguments are as the CUDA driver API demands.
            #[allow(non_snake_case, reason = "the names are the driver's")]
            #[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
            #[unsafe(export_name = concat!(stringify!($symbol), $suffix))]
            unsafe extern "C" fn function($($arg: $ty),*) -> CUresult {
                start();
                // SAFETY: the caller's promise.
                unsafe { abi::entry::$symbol(abi::PER_THREAD, $($arg),*) }
            }
        };
    };
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

        per_thread!($symbol, "_ptsz", ($($arg: $ty),*));
        per_thread!($symbol, "_ptds", ($($arg: $ty),*));
    )*};
}

driver_functions!(define);
