//! Copies that the caller waits for, and copies between contexts in three dimensions.

use grapture_sys::*;

use super::Ptr;
use super::copy::{check_contexts, copy_now, device, from_2d, from_3d, now, place, submit};
use crate::capture;
use crate::sim::{Answer, Sim};
use crate::work::{CopyWork, Place, Work};

/// Does a copy that parameters described.
fn whole(sim: &Sim, copy: CopyWork) -> Answer {
    let work = (copy.bytes() > 0).then(|| Work::Copy(copy.tight()));
    now(sim, work)
}

pub(crate) fn cuMemcpy(
    sim: &Sim,
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
) -> Answer {
    let unified = |address| Place::linear(CU_MEMORYTYPE_UNIFIED, address);
    copy_now(sim, unified(source), unified(target), bytes)
}

pub(crate) fn cuMemcpyPeer(
    sim: &Sim,
    target: CUdeviceptr,
    target_context: Ptr<CUctx_st>,
    source: CUdeviceptr,
    source_context: Ptr<CUctx_st>,
    bytes: usize,
) -> Answer {
    check_contexts(&sim.lock(), [target_context, source_context])?;
    copy_now(sim, device(source), device(target), bytes)
}

pub(crate) fn cuMemcpy2D_v2(sim: &Sim, params: Ptr<CUDA_MEMCPY2D_v2>) -> Answer {
    whole(sim, from_2d(&params.read()?)?)
}

pub(crate) fn cuMemcpy2DUnaligned_v2(sim: &Sim, params: Ptr<CUDA_MEMCPY2D_v2>) -> Answer {
    cuMemcpy2D_v2(sim, params)
}

pub(crate) fn cuMemcpy3D_v2(sim: &Sim, params: Ptr<CUDA_MEMCPY3D_v2>) -> Answer {
    whole(sim, from_3d(&params.read()?)?)
}

/// The copy between contexts that parameters describe.
fn from_peer(sim: &Sim, p: &CUDA_MEMCPY3D_PEER_v1) -> Result<CopyWork, CUresult> {
    // SAFETY: handles, which are only compared.
    let contexts = [p.srcContext, p.dstContext].map(|context| unsafe { Ptr::trust(context) });
    check_contexts(&sim.lock(), contexts)?;
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

pub(crate) fn cuMemcpy3DPeer(sim: &Sim, params: Ptr<CUDA_MEMCPY3D_PEER_v1>) -> Answer {
    whole(sim, from_peer(sim, &params.read()?)?)
}

pub(crate) fn cuMemcpy3DPeerAsync(
    sim: &Sim,
    params: Ptr<CUDA_MEMCPY3D_PEER_v1>,
    stream: Ptr<CUstream_st>,
) -> Answer {
    let copy = from_peer(sim, &params.read()?)?;
    let mut state = sim.lock();
    let id = state.find_stream(stream.address())?;
    capture::check_uncapturable(&mut state, id)?;
    drop(state);
    submit(sim, stream, copy)
}
