//! Fills.

use grapture_sys::*;

use super::{Ptr, copy};
use crate::capture;
use crate::graph::Graphs;
use crate::sim::{Answer, Sim};
use crate::stream;
use crate::work::{FillWork, Work};

fn row(address: CUdeviceptr, value: u32, element: usize, width: usize) -> FillWork {
    FillWork { address, pitch: 0, value, element, width, height: 1 }
}

/// What every fill has to obey: alignment, and rows that do not overlap.
pub(crate) fn check_shape(fill: &FillWork) -> Answer {
    let bytes = fill.width.checked_mul(fill.element).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let aligned = fill.address.is_multiple_of(fill.element as u64);
    let rows_apart =
        fill.height <= 1 || (fill.pitch >= bytes && fill.pitch.is_multiple_of(fill.element));
    if aligned && rows_apart { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// What a fill that runs now has to obey besides: memory that exists.
fn check_memory(sim: &Sim, fill: &FillWork) -> Answer {
    let extent = fill.extent().ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if sim.memory.covers(fill.address, extent) { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// As [`check_memory`], for a fill node: it may lie in what an allocation node will provide.
pub(crate) fn check_planned(sim: &Sim, graphs: &Graphs, fill: &FillWork) -> Answer {
    let extent = fill.extent().ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if graphs.plans(fill.address, extent) { Ok(()) } else { check_memory(sim, fill) }
}

/// Puts a fill on a stream. A captured fill is not held against the memory that exists.
fn submit(sim: &Sim, stream: Ptr<CUstream_st>, fill: FillWork) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_sound(&mut state, id)?;
    check_shape(&fill)?;
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    if !capture::is_capturing(&state, id) {
        check_memory(sim, &fill)?;
    }
    stream::submit(sim, &mut state, id, Work::Fill(fill))
}

fn fill_now(sim: &Sim, fill: FillWork) -> Answer {
    copy::now(sim, None)?;
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    check_shape(&fill)?;
    check_memory(sim, &fill)?;
    copy::now(sim, Some(Work::Fill(fill)))
}

pub(crate) fn cuMemsetD8_v2(sim: &Sim, target: CUdeviceptr, value: u8, count: usize) -> Answer {
    fill_now(sim, row(target, value.into(), 1, count))
}

pub(crate) fn cuMemsetD32_v2(sim: &Sim, target: CUdeviceptr, value: u32, count: usize) -> Answer {
    fill_now(sim, row(target, value, 4, count))
}

pub(crate) fn cuMemsetD16_v2(sim: &Sim, target: CUdeviceptr, value: u16, count: usize) -> Answer {
    fill_now(sim, row(target, value.into(), 2, count))
}

pub(crate) fn cuMemsetD2D8_v2(
    sim: &Sim,
    target: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
) -> Answer {
    fill_now(sim, FillWork { pitch, height, ..row(target, value.into(), 1, width) })
}

pub(crate) fn cuMemsetD2D16_v2(
    sim: &Sim,
    target: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
) -> Answer {
    fill_now(sim, FillWork { pitch, height, ..row(target, value.into(), 2, width) })
}

pub(crate) fn cuMemsetD2D32_v2(
    sim: &Sim,
    target: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
) -> Answer {
    fill_now(sim, FillWork { pitch, height, ..row(target, value, 4, width) })
}

pub(crate) fn cuMemsetD8Async(
    sim: &Sim,
    target: CUdeviceptr,
    value: u8,
    count: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, row(target, value.into(), 1, count))
}

pub(crate) fn cuMemsetD16Async(
    sim: &Sim,
    target: CUdeviceptr,
    value: u16,
    count: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, row(target, value.into(), 2, count))
}

pub(crate) fn cuMemsetD32Async(
    sim: &Sim,
    target: CUdeviceptr,
    value: u32,
    count: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, row(target, value, 4, count))
}

pub(crate) fn cuMemsetD2D8Async(
    sim: &Sim,
    target: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, FillWork { pitch, height, ..row(target, value.into(), 1, width) })
}

pub(crate) fn cuMemsetD2D16Async(
    sim: &Sim,
    target: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, FillWork { pitch, height, ..row(target, value.into(), 2, width) })
}

pub(crate) fn cuMemsetD2D32Async(
    sim: &Sim,
    target: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, FillWork { pitch, height, ..row(target, value, 4, width) })
}
