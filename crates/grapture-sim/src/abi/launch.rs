//! Launches.

use core::ffi::c_void;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::launch::{self, Refusal, Shape};
use crate::sim::{Answer, Sim};
use crate::stream;
use crate::work::{LaunchAttributes, Work};

/// Puts a launch on a stream.
fn submit(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    shape: Shape,
    attributes: LaunchAttributes,
    stream: Ptr<CUstream_st>,
    params: Ptr<*mut c_void>,
    extra: Ptr<*mut c_void>,
) -> Answer {
    let mut state = sim.lock();
    let stream = state.find_stream(stream.address())?;
    let context = state.stream(stream)?.context;
    let function = launch::find_function(sim, &mut state, function.address(), context)?;
    capture::check_sound(&mut state, stream)?;
    match launch::prepare(&state, function, context, shape, attributes, params, extra) {
        Ok(kernel) => stream::submit(sim, &mut state, stream, Work::Kernel(kernel)),
        Err(refusal) => {
            if let Refusal::Measures(_) = refusal {
                capture::invalidate(&mut state, stream);
            }
            Err(refusal.code())
        }
    }
}

pub(crate) fn cuLaunchKernel(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: Ptr<CUstream_st>,
    params: Ptr<*mut c_void>,
    extra: Ptr<*mut c_void>,
) -> Answer {
    let shape =
        Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
    submit(sim, function, shape, LaunchAttributes::default(), stream, params, extra)
}

pub(crate) fn cuLaunchCooperativeKernel(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: Ptr<CUstream_st>,
    params: Ptr<*mut c_void>,
) -> Answer {
    let shape =
        Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
    let attributes = LaunchAttributes { cooperative: true, ..LaunchAttributes::default() };
    submit(sim, function, shape, attributes, stream, params, Ptr::null())
}

pub(crate) fn cuLaunchKernelEx(
    sim: &Sim,
    config: Ptr<CUlaunchConfig>,
    function: Ptr<CUfunc_st>,
    params: Ptr<*mut c_void>,
    extra: Ptr<*mut c_void>,
) -> Answer {
    let c = config.read()?;
    let shape = Shape {
        grid: [c.gridDimX, c.gridDimY, c.gridDimZ],
        block: [c.blockDimX, c.blockDimY, c.blockDimZ],
        shared_bytes: c.sharedMemBytes,
    };
    // SAFETY: the caller passed the struct as a launch configuration, whose `attrs` points to
    // `numAttrs` attributes during the call.
    let attributes = unsafe { Ptr::trust(c.attrs) };
    let attributes = launch::read_attributes(attributes, c.numAttrs as usize)?;
    // SAFETY: a handle, which is only compared.
    let stream = unsafe { Ptr::trust(c.hStream) };
    submit(sim, function, shape, attributes, stream, params, extra)
}
