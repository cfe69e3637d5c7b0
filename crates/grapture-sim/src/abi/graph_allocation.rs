//! Allocation and free nodes, and the memory that they take.

use grapture_sys::*;

use super::Ptr;
use super::array::read_handles;
use super::graph_node::{Place, add, get};
use crate::graph::{AccessList, NodeParams, Request};
use crate::sim::{Answer, Sim, State};

/// The description of an allocation, checked.
fn request(state: &State, params: Ptr<CUDA_MEM_ALLOC_NODE_PARAMS>) -> Result<Request, CUresult> {
    let given = params.read()?;
    // The description begins with that of a pool.
    let pool: CUmemPoolProps = params.cast().read()?;
    let [kind, id] = super::pool::location_of(params.cast())?;
    let device = id as usize;
    if pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || kind == CU_MEM_LOCATION_TYPE_INVALID.0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if pool.handleTypes.0 != 0 || kind != CU_MEM_LOCATION_TYPE_DEVICE.0 {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    if device >= state.devices.len() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller passed the struct, whose array the driver's documentation demands to be
    // of so many rights that can be read during the call.
    let list = unsafe { Ptr::trust(given.accessDescs) };
    let rights = read_handles(list, given.accessDescCount)?;
    let readable = |right: &CUmemAccessDesc| right.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if !rights.iter().all(readable) {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    let access = AccessList(rights.into_boxed_slice());
    Ok(Request { device, bytes: given.bytesize, access })
}

/// Adds an allocation node; its parameters then tell the address.
pub(super) fn allocate(
    sim: &Sim,
    place: Place<'_>,
    params: Ptr<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    let mut state = sim.lock();
    let (graph, edges) = place.resolve(&state)?;
    let mut given = params.read()?;
    let request = request(&state, params)?;
    let allocation = state.graphs.plan_allocation(sim, graph, &edges, request)?;
    given.dptr = allocation.address;
    let node = state.graphs.add_node(graph, NodeParams::Alloc(allocation), &edges)?;
    params.write(given)?;
    place.out.write(state.graphs.node_handle(node))
}

pub(crate) fn cuGraphAddMemAllocNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    params: Ptr<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    allocate(sim, Place { out, graph, dependencies, data: Ptr::null(), count }, params)
}

pub(crate) fn cuGraphMemAllocNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    get(sim, node, out, |params| match params {
        NodeParams::Alloc(allocation) => {
            let mut answer = CUDA_MEM_ALLOC_NODE_PARAMS::default();
            answer.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
            answer.poolProps.location.type_ = CU_MEM_LOCATION_TYPE_DEVICE;
            answer.poolProps.location.__bindgen_anon_1.id = allocation.device as i32;
            answer.bytesize = allocation.bytes;
            answer.dptr = allocation.address;
            let rights = &allocation.access.0;
            if !rights.is_empty() {
                answer.accessDescs = rights.as_ptr();
                answer.accessDescCount = rights.len();
            }
            Some(answer)
        }
        _ => None,
    })
}

pub(crate) fn cuGraphAddMemFreeNode(
    sim: &Sim,
    out: Ptr<CUgraphNode>,
    graph: Ptr<CUgraph_st>,
    dependencies: Ptr<CUgraphNode>,
    count: usize,
    address: CUdeviceptr,
) -> Answer {
    let place = Place { out, graph, dependencies, data: Ptr::null(), count };
    add(sim, place, |state, graph| state.graphs.plan_free(graph, address).map(NodeParams::Free))
}

pub(crate) fn cuGraphMemFreeNodeGetParams(
    sim: &Sim,
    node: Ptr<CUgraphNode_st>,
    out: Ptr<CUdeviceptr>,
) -> Answer {
    get(sim, node, out, |params| params.freed().map(|allocation| allocation.address))
}

/// The ordinal of a device.
fn ordinal(state: &mut State, device: CUdevice) -> Result<usize, CUresult> {
    state.device(device)?;
    usize::try_from(device).map_err(|_| CUDA_ERROR_INVALID_DEVICE)
}

pub(crate) fn cuDeviceGraphMemTrim(sim: &Sim, device: CUdevice) -> Answer {
    let mut state = sim.lock();
    let device = ordinal(&mut state, device)?;
    state.graphs.trim(device);
    Ok(())
}

pub(crate) fn cuDeviceGetGraphMemAttribute(
    sim: &Sim,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: Ptr<core::ffi::c_void>,
) -> Answer {
    let mut state = sim.lock();
    let device = ordinal(&mut state, device)?;
    let bytes = state.graphs.memory_attribute(device, attribute)?;
    value.cast::<u64>().write(bytes)
}

/// A mark of the most that there was is set back by setting it to zero.
pub(crate) fn cuDeviceSetGraphMemAttribute(
    sim: &Sim,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: Ptr<core::ffi::c_void>,
) -> Answer {
    let mut state = sim.lock();
    let device = ordinal(&mut state, device)?;
    if value.cast::<u64>().read()? != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    state.graphs.reset_mark(device, attribute)
}
