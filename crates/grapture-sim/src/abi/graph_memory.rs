//! Copy and fill nodes.

use core::ffi::c_void;
use std::sync::Arc;

use grapture_sys::*;

use super::Ptr;
use super::graph_node::{Place, add, exec_set, get, set};
use crate::context::ContextCore;
use crate::graph::{NodeParams, Placed};
use crate::sim::{Answer, Sim, State};
use crate::work::{self, CopyWork, FillWork, Origin};

/// The context that a node is made for: null stands for the current one.
pub(super) fn context(
    state: &mut State,
    context: *mut CUctx_st,
) -> Result<Arc<ContextCore>, CUresult> {
    let id = match context.addr() {
        0 => state.current()?,
        handle => state.contexts.find(handle).ok_or(CUDA_ERROR_INVALID_CONTEXT)?,
    };
    Ok(state.context(id)?.core.clone())
}

/// The copy of node parameters.
pub(super) fn copy(
    sim: &Sim,
    state: &State,
    context: Arc<ContextCore>,
    params: &CUDA_MEMCPY3D_v2,
) -> Result<NodeParams, CUresult> {
    let mut work = super::copy::from_3d(params)?;
    if work.bytes() == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    super::copy::check_planned(sim, &state.graphs, &work)?;
    work.note_origins(sim, &state.graphs);
    Ok(NodeParams::Copy(Placed { context, work }))
}

/// The parameters that describe a copy.
fn copy_params(copy: &CopyWork) -> CUDA_MEMCPY3D_v2 {
    let host = |place: &work::Place| match place.kind {
        CU_MEMORYTYPE_HOST => place.address as usize,
        _ => 0,
    };
    let device = |place: &work::Place| match place.kind {
        CU_MEMORYTYPE_HOST => 0,
        _ => place.address,
    };
    let (source, target) = (&copy.source, &copy.target);
    CUDA_MEMCPY3D_v2 {
        srcXInBytes: source.x,
        srcY: source.y,
        srcZ: source.z,
        srcMemoryType: source.kind,
        srcHost: std::ptr::with_exposed_provenance::<c_void>(host(source)),
        srcDevice: device(source),
        srcPitch: source.pitch,
        srcHeight: source.rows,
        dstXInBytes: target.x,
        dstY: target.y,
        dstZ: target.z,
        dstMemoryType: target.kind,
        dstHost: std::ptr::with_exposed_provenance_mut::<c_void>(host(target)),
        dstDevice: device(target),
        dstPitch: target.pitch,
        dstHeight: target.rows,
        WidthInBytes: copy.width,
        Height: copy.height,
        Depth: copy.depth,
        ..CUDA_MEMCPY3D_v2::default()
    }
}

pub(crate) fn cuGraphAddMemcpyNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_MEMCPY3D_v2>,
    ctx: Ptr<CUctx_st>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    let params = params.read()?;
    add(sim, place, |state, _| {
        let context = context(state, ctx.raw())?;
        copy(sim, state, context, &params)
    })
}

pub(crate) fn cuGraphMemcpyNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_MEMCPY3D_v2>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Copy(copy) => Some(copy_params(&copy.work)),
        _ => None,
    })
}

pub(crate) fn cuGraphMemcpyNodeSetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_MEMCPY3D_v2>,
) -> Answer {
    let params = params.read()?;
    set(sim, node, |state, old| match old {
        NodeParams::Copy(old) => copy(sim, state, old.context.clone(), &params),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    })
}

pub(crate) fn cuGraphExecMemcpyNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_MEMCPY3D_v2>,
    ctx: Ptr<CUctx_st>,
) -> Answer {
    let params = params.read()?;
    exec_set(sim, exec, node, |state, _| {
        let context = context(state, ctx.raw())?;
        copy(sim, state, context, &params)
    })
}

/// The fill of node parameters.
pub(super) fn fill(
    sim: &Sim,
    state: &State,
    context: Arc<ContextCore>,
    params: &CUDA_MEMSET_NODE_PARAMS_v1,
) -> Result<NodeParams, CUresult> {
    let element = params.elementSize as usize;
    let work = FillWork {
        address: params.dst,
        pitch: params.pitch,
        value: params.value,
        element,
        width: params.width,
        height: params.height,
    };
    let empty = work.address == 0 || work.width == 0 || work.height == 0;
    if !matches!(element, 1 | 2 | 4) || empty {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    super::fill::check_shape(&work)?;
    super::fill::check_planned(sim, &state.graphs, &work)?;
    Ok(NodeParams::Fill(Placed { context, work }))
}

pub(crate) fn cuGraphAddMemsetNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_MEMSET_NODE_PARAMS_v1>,
    ctx: Ptr<CUctx_st>,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    let params = params.read()?;
    add(sim, place, |state, _| {
        let context = context(state, ctx.raw())?;
        fill(sim, state, context, &params)
    })
}

pub(crate) fn cuGraphMemsetNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_MEMSET_NODE_PARAMS_v1>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Fill(fill) => Some(CUDA_MEMSET_NODE_PARAMS_v1 {
            dst: fill.work.address,
            pitch: fill.work.pitch,
            value: fill.work.value,
            elementSize: fill.work.element as u32,
            width: fill.work.width,
            height: fill.work.height,
        }),
        _ => None,
    })
}

pub(crate) fn cuGraphMemsetNodeSetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_MEMSET_NODE_PARAMS_v1>,
) -> Answer {
    let params = params.read()?;
    set(sim, node, |state, old| match old {
        NodeParams::Fill(old) => {
            // Of all that is done with nodes, this alone asks for a context, and for such memory.
            let plain = Origin::of(sim, &state.graphs, params.dst) == Origin::Plain;
            if !plain && state.current().is_err() {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            fill(sim, state, old.context.clone(), &params)
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    })
}

pub(crate) fn cuGraphExecMemsetNodeSetParams(
    sim: &Sim,
    exec: Ptr<CUgraphExec_st>,
    node: Ptr<CUgraphNode_st>,
    params: Ptr<CUDA_MEMSET_NODE_PARAMS_v1>,
    ctx: Ptr<CUctx_st>,
) -> Answer {
    let params = params.read()?;
    exec_set(sim, exec, node, |state, _| {
        let context = context(state, ctx.raw())?;
        fill(sim, state, context, &params)
    })
}
