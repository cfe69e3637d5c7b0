//! Occupancy: what fits on a multiprocessor.

use std::sync::Arc;

use grapture_sys::*;

use super::{Ptr, function};
use crate::device;
use crate::launch;
use crate::module::KernelCode;
use crate::occupancy;
use crate::sim::{Answer, Sim};

/// The most blocks of a cluster that a function can have without setting anything.
const PORTABLE_CLUSTER: i32 = 8;

/// The code of a function, or of a kernel of a library.
fn code(sim: &Sim, function: Ptr<CUfunc_st>) -> Result<Arc<KernelCode>, CUresult> {
    limited(sim, function).map(|(code, _)| code)
}

/// The code, and the most bytes of dynamic shared memory that a launch may have.
fn limited(sim: &Sim, function: Ptr<CUfunc_st>) -> Result<(Arc<KernelCode>, usize), CUresult> {
    let mut state = sim.lock();
    state.current()?;
    let (code, settings) = match state.kernels.find(function.address()) {
        Some(kernel) => state.kernels.get(kernel).map(|k| (&k.code, &k.settings)),
        None => {
            let id = function::named(&state, function)?;
            state.functions.get(id).map(|f| (&f.code, &f.settings))
        }
    }
    .ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    Ok((code.clone(), settings.max_dynamic_shared(code)))
}

fn positive(size: i32) -> Result<usize, CUresult> {
    usize::try_from(size).ok().filter(|size| *size > 0).ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    sim: &Sim,
    out: Ptr<i32>,
    function: Ptr<CUfunc_st>,
    block: i32,
    dynamic_shared: usize,
) -> Answer {
    out.required()?;
    let (code, most_shared) = limited(sim, function)?;
    let block = positive(block)?;
    let fits = dynamic_shared <= most_shared;
    out.write(if fits { occupancy::blocks(&code, block, dynamic_shared) } else { 0 } as i32)
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    sim: &Sim,
    out: Ptr<i32>,
    function: Ptr<CUfunc_st>,
    block: i32,
    dynamic_shared: usize,
    flags: u32,
) -> Answer {
    check_flags(flags)?;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(sim, out, function, block, dynamic_shared)
}

/// Default, or caching without effect on the count.
fn check_flags(flags: u32) -> Answer {
    if flags <= 1 { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

pub(crate) fn cuOccupancyMaxPotentialBlockSize(
    sim: &Sim,
    grid: Ptr<i32>,
    block: Ptr<i32>,
    function: Ptr<CUfunc_st>,
    to_shared: CUoccupancyB2DSize,
    dynamic_shared: usize,
    limit: i32,
) -> Answer {
    grid.required()?;
    block.required()?;
    let (code, most_shared) = limited(sim, function)?;
    let limit = usize::try_from(limit).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let shared = |size: usize| match to_shared {
        // SAFETY: the caller passed a function of this type to be called with block sizes during
        // the call; no lock is held.
        Some(to_shared) => unsafe { to_shared(size as i32) },
        None => dynamic_shared,
    };
    let (blocks, size) = occupancy::best_block(&code, limit, most_shared, shared);
    grid.write(blocks as i32)?;
    block.write(size as i32)
}

pub(crate) fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    sim: &Sim,
    grid: Ptr<i32>,
    block: Ptr<i32>,
    function: Ptr<CUfunc_st>,
    to_shared: CUoccupancyB2DSize,
    dynamic_shared: usize,
    limit: i32,
    flags: u32,
) -> Answer {
    check_flags(flags)?;
    cuOccupancyMaxPotentialBlockSize(sim, grid, block, function, to_shared, dynamic_shared, limit)
}

pub(crate) fn cuOccupancyAvailableDynamicSMemPerBlock(
    sim: &Sim,
    out: Ptr<usize>,
    function: Ptr<CUfunc_st>,
    count: i32,
    block: i32,
) -> Answer {
    out.required()?;
    let (code, most_shared) = limited(sim, function)?;
    let (count, block) = (positive(count)?, positive(block)?);
    if occupancy::blocks(&code, block, 0) < count {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    out.write(occupancy::free_shared(&code, count).min(most_shared))
}

pub(crate) fn cuOccupancyMaxPotentialClusterSize(
    sim: &Sim,
    out: Ptr<i32>,
    function: Ptr<CUfunc_st>,
    config: Ptr<CUlaunchConfig>,
) -> Answer {
    out.required()?;
    code(sim, function)?;
    config.read()?;
    out.write(PORTABLE_CLUSTER)
}

pub(crate) fn cuOccupancyMaxActiveClusters(
    sim: &Sim,
    out: Ptr<i32>,
    function: Ptr<CUfunc_st>,
    config: Ptr<CUlaunchConfig>,
) -> Answer {
    out.required()?;
    let code = code(sim, function)?;
    let c = config.read()?;
    // SAFETY: the caller passed the struct as a launch configuration, whose `attrs` points to
    // `numAttrs` attributes during the call.
    let attributes = unsafe { Ptr::trust(c.attrs) };
    let attributes = launch::read_attributes(attributes, c.numAttrs as usize)?;
    let cluster = attributes.cluster.unwrap_or([1; 3]).iter().product::<u32>() as usize;
    if cluster == 0 || cluster > PORTABLE_CLUSTER as usize {
        return Err(CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    let threads = [c.blockDimX, c.blockDimY, c.blockDimZ].iter().product::<u32>() as usize;
    let blocks = occupancy::blocks(&code, threads, c.sharedMemBytes as usize);
    out.write((blocks * device::MULTIPROCESSORS / cluster) as i32)
}
