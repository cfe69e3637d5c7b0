//! What profilers and NVIDIA's own libraries ask of a driver.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::sim::{Answer, Sim};

/// Tables of functions that NVIDIA does not document, by number. There are none here: each number
/// is an unknown one.
pub(crate) fn cuGetExportTable(_: &Sim, out: Ptr<*const c_void>, id: Ptr<CUuuid>) -> Answer {
    out.write(std::ptr::null())?;
    id.required()?;
    Err(CUDA_ERROR_INVALID_VALUE)
}

/// No profiler listens.
pub(crate) fn cuProfilerStart(sim: &Sim) -> Answer {
    let mut state = sim.lock();
    state.current()?;
    capture::check_unsafe_call(&mut state)
}

pub(crate) fn cuProfilerStop(sim: &Sim) -> Answer {
    cuProfilerStart(sim)
}
