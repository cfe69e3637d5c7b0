//! `cuGetProcAddress`: the functions by name and version.

use core::ffi::{c_char, c_void};

use grapture_sys::{
    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CU_GET_PROC_ADDRESS_SUCCESS,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUdriverProcAddressQueryResult, CUresult,
    Function,
};

use super::{Ptr, address_of, is_present};
use crate::sim::{Answer, Sim};

/// The flags 0 (by default) to 3; 2 asks for the functions with a null stream per thread.
const MOST_FLAGS: u64 = 3;
/// Drivers from here on refuse to be asked for what is newer than they are (13.0 does, 12.4 not).
const REFUSES_NEWER: i32 = 13_000;

pub(crate) fn cuGetProcAddress(
    sim: &Sim,
    symbol: Ptr<c_char>,
    out: Ptr<*mut c_void>,
    version: i32,
    flags: u64,
) -> Answer {
    match find(sim, symbol, version, flags)? {
        Ok(address) => out.write(address.cast_mut()),
        Err(_) => Err(CUDA_ERROR_NOT_FOUND),
    }
}

pub(crate) fn cuGetProcAddress_v2(
    sim: &Sim,
    symbol: Ptr<c_char>,
    out: Ptr<*mut c_void>,
    version: i32,
    flags: u64,
    status: Ptr<CUdriverProcAddressQueryResult>,
) -> Answer {
    let found = find(sim, symbol, version, flags)?;
    status.offer(found.err().unwrap_or(CU_GET_PROC_ADDRESS_SUCCESS));
    out.write(found.unwrap_or(std::ptr::null()).cast_mut())
}

/// The newest ABI of a name that is not newer than the version asked for, or why there is none.
fn find(
    sim: &Sim,
    symbol: Ptr<c_char>,
    version: i32,
    flags: u64,
) -> Result<Result<*const c_void, CUdriverProcAddressQueryResult>, CUresult> {
    let newer = version > sim.config.version() && sim.config.version() >= REFUSES_NEWER;
    if flags > MOST_FLAGS || newer {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let name = symbol.text()?.to_str().map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let named = Function::ALL.iter().copied().filter(|function| function.info().name == name);
    let mut present = named.filter(|function| is_present(sim, *function)).peekable();
    if present.peek().is_none() {
        return Ok(Err(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    }
    let best = present
        .filter(|function| version < 0 || function.info().since <= version)
        .max_by_key(|function| function.info().since);
    let per_thread = flags & u64::from(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.0) != 0;
    Ok(match best {
        Some(function) => Ok(address_of(sim.slot, function, per_thread)),
        None => Err(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
    })
}
