//! Copies.

use core::ffi::c_void;
use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use crate::capture;
use crate::graph::Graphs;
use crate::sim::{Answer, Sim, State};
use crate::stream;
use crate::work::{CopyWork, Origin, Place, Work};

pub(super) fn device(address: CUdeviceptr) -> Place {
    Place::linear(CU_MEMORYTYPE_DEVICE, address)
}

fn host<T>(pointer: Ptr<T>) -> Place {
    Place::linear(CU_MEMORYTYPE_HOST, pointer.address() as u64)
}

/// What a copy has to obey: 1 if its ends do not exist or are too small.
pub(crate) fn check(sim: &Sim, copy: &CopyWork) -> Answer {
    [&copy.source, &copy.target].into_iter().try_for_each(|end| {
        let (first, len) = range(copy, end)?;
        check_memory(sim, end, first, len)
    })
}

/// As [`check`], for a copy in a graph: an end may lie in what an allocation node will provide.
pub(crate) fn check_planned(sim: &Sim, graphs: &Graphs, copy: &CopyWork) -> Answer {
    [&copy.source, &copy.target].into_iter().try_for_each(|end| {
        let (first, len) = range(copy, end)?;
        if graphs.plans(first, len) { Ok(()) } else { check_memory(sim, end, first, len) }
    })
}

/// The addresses from the first to the last byte of an end.
fn range(copy: &CopyWork, place: &Place) -> Result<(u64, usize), CUresult> {
    if place.kind == CU_MEMORYTYPE_ARRAY {
        // No array has a handle here.
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let row = place.x.checked_add(copy.width).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let rows = place.y.checked_add(copy.height).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let narrow = place.pitch != 0 && place.pitch < row;
    let low = copy.depth > 1 && place.rows != 0 && place.rows < rows;
    if narrow || low {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let first = copy.row(place, 0, 0).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let last = copy.row(place, copy.height.saturating_sub(1), copy.depth.saturating_sub(1));
    let last = last.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok((first, (last - first) as usize + copy.width))
}

fn check_memory(sim: &Sim, place: &Place, first: u64, len: usize) -> Answer {
    let on_host = matches!(place.kind, CU_MEMORYTYPE_HOST | CU_MEMORYTYPE_UNIFIED);
    match sim.memory.snapshot().place(first, len) {
        Ok(crate::memory::Place::Allocated { .. }) => Ok(()),
        Ok(crate::memory::Place::Host) if on_host => Ok(()),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Whether an end is memory of the program that the driver knows nothing of.
fn is_pageable(sim: &Sim, copy: &CopyWork, place: &Place) -> bool {
    copy.row(place, 0, 0).is_some_and(|first| sim.memory.find(first).is_none())
}

/// Puts a copy on a stream. A pageable source is taken at the call, and the call waits for a copy
/// into a pageable target, unless the stream captures.
pub(super) fn submit(sim: &Sim, stream: Ptr<CUstream_st>, mut copy: CopyWork) -> Answer {
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_sound(&mut state, id)?;
    if copy.bytes() == 0 {
        return Ok(());
    }
    if capture::is_capturing(&state, id) {
        check_planned(sim, &state.graphs, &copy)?;
        return stream::submit(sim, &mut state, id, Work::Copy(copy));
    }
    check(sim, &copy)?;
    if is_pageable(sim, &copy, &copy.source) {
        let bytes = copy.read_source(sim).map_err(|fault| fault.code)?;
        copy.staged = Some(Arc::from(bytes));
    }
    let waits = is_pageable(sim, &copy, &copy.target);
    stream::submit(sim, &mut state, id, Work::Copy(copy))?;
    let core = state.core_of(id)?;
    let last = state.stream(id)?.last;
    drop(state);
    if let Some(task) = last.filter(|_| waits) {
        sim.engine.wait(task);
        return core.check();
    }
    Ok(())
}

/// Does work on the default stream and waits for it; where there is none, the stream is used all the
/// same.
pub(super) fn now(sim: &Sim, work: Option<Work>) -> Answer {
    let mut state = sim.lock();
    state.current()?;
    let stream = state.find_stream(0)?;
    capture::check_uncapturable(&mut state, stream)?;
    let Some(work) = work else { return Ok(()) };
    if let Work::Copy(copy) = &work {
        check(sim, copy)?;
    }
    let core = state.core_of(stream)?;
    let task = stream::run_now(sim, &mut state, stream, work)?;
    drop(state);
    sim.engine.wait(task);
    core.check()
}

pub(super) fn copy_now(sim: &Sim, source: Place, target: Place, bytes: usize) -> Answer {
    let work = (bytes > 0).then(|| Work::Copy(CopyWork::linear(source, target, bytes)));
    now(sim, work)
}

pub(crate) fn cuMemcpyHtoD_v2(
    sim: &Sim,
    target: CUdeviceptr,
    source: Ptr<c_void>,
    bytes: usize,
) -> Answer {
    copy_now(sim, host(source), device(target), bytes)
}

pub(crate) fn cuMemcpyDtoH_v2(
    sim: &Sim,
    target: Ptr<c_void>,
    source: CUdeviceptr,
    bytes: usize,
) -> Answer {
    copy_now(sim, device(source), host(target), bytes)
}

pub(crate) fn cuMemcpyDtoD_v2(
    sim: &Sim,
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
) -> Answer {
    copy_now(sim, device(source), device(target), bytes)
}

pub(crate) fn cuMemcpyHtoDAsync_v2(
    sim: &Sim,
    target: CUdeviceptr,
    source: Ptr<c_void>,
    bytes: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, CopyWork::linear(host(source), device(target), bytes))
}

pub(crate) fn cuMemcpyDtoHAsync_v2(
    sim: &Sim,
    target: Ptr<c_void>,
    source: CUdeviceptr,
    bytes: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, CopyWork::linear(device(source), host(target), bytes))
}

pub(crate) fn cuMemcpyDtoDAsync_v2(
    sim: &Sim,
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, CopyWork::linear(device(source), device(target), bytes))
}

pub(crate) fn cuMemcpyAsync(
    sim: &Sim,
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let unified = |address| Place::linear(CU_MEMORYTYPE_UNIFIED, address);
    submit(sim, stream, CopyWork::linear(unified(source), unified(target), bytes))
}

/// The contexts that a copy is between: null, or contexts that there are.
pub(super) fn check_contexts(state: &State, contexts: [Ptr<CUctx_st>; 2]) -> Answer {
    let known = |context: &Ptr<CUctx_st>| {
        context.is_null() || state.contexts.find(context.address()).is_some()
    };
    if contexts.iter().all(known) { Ok(()) } else { Err(CUDA_ERROR_INVALID_CONTEXT) }
}

pub(crate) fn cuMemcpyPeerAsync(
    sim: &Sim,
    target: CUdeviceptr,
    target_context: Ptr<CUctx_st>,
    source: CUdeviceptr,
    source_context: Ptr<CUctx_st>,
    bytes: usize,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let mut state = sim.lock();
    check_contexts(&state, [target_context, source_context])?;
    let id = state.find_stream(stream.address())?;
    capture::check_uncapturable(&mut state, id)?;
    drop(state);
    submit(sim, stream, CopyWork::linear(device(source), device(target), bytes))
}

/// One end of a copy, from its memory type with the two addresses of which that chooses one, its
/// offsets, and its pitch with the rows of a slice.
pub(super) fn place(
    (kind, host, device): (CUmemorytype, *const c_void, CUdeviceptr),
    [x, y, z]: [usize; 3],
    (pitch, rows): (usize, usize),
) -> Result<Place, CUresult> {
    let address = match kind {
        CU_MEMORYTYPE_HOST => host.expose_provenance() as u64,
        CU_MEMORYTYPE_DEVICE | CU_MEMORYTYPE_UNIFIED => device,
        // An array too: none has a handle here.
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    Ok(Place { kind, address, x, y, z, pitch, rows, origin: Origin::Plain })
}

/// The copy that the parameters of a two-dimensional copy describe.
pub(super) fn from_2d(p: &CUDA_MEMCPY2D_v2) -> Result<CopyWork, CUresult> {
    let source = place(
        (p.srcMemoryType, p.srcHost, p.srcDevice),
        [p.srcXInBytes, p.srcY, 0],
        (p.srcPitch, 0),
    )?;
    let target = place(
        (p.dstMemoryType, p.dstHost.cast_const(), p.dstDevice),
        [p.dstXInBytes, p.dstY, 0],
        (p.dstPitch, 0),
    )?;
    let (width, height) = (p.WidthInBytes, p.Height);
    Ok(CopyWork { source, target, width, height, depth: 1, staged: None })
}

pub(crate) fn cuMemcpy2DAsync_v2(
    sim: &Sim,
    params: Ptr<CUDA_MEMCPY2D_v2>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, from_2d(&params.read()?)?.tight())
}

pub(crate) fn cuMemcpy3DAsync_v2(
    sim: &Sim,
    params: Ptr<CUDA_MEMCPY3D_v2>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    submit(sim, stream, from_3d(&params.read()?)?.tight())
}

/// The copy that the parameters of a three-dimensional copy or of a copy node describe.
pub(crate) fn from_3d(p: &CUDA_MEMCPY3D_v2) -> Result<CopyWork, CUresult> {
    let source = place(
        (p.srcMemoryType, p.srcHost, p.srcDevice),
        [p.srcXInBytes, p.srcY, p.srcZ],
        (p.srcPitch, p.srcHeight),
    )?;
    let target = place(
        (p.dstMemoryType, p.dstHost.cast_const(), p.dstDevice),
        [p.dstXInBytes, p.dstY, p.dstZ],
        (p.dstPitch, p.dstHeight),
    )?;
    let (width, height, depth) = (p.WidthInBytes, p.Height, p.Depth);
    Ok(CopyWork { source, target, width, height, depth, staged: None })
}
