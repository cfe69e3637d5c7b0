//! Kernel launches: what a launch is checked for before it becomes [`Work`](crate::work::Work),
//! on a stream or as a node.

use core::ffi::c_void;
use std::sync::Arc;

use grapture_sys::*;

use crate::abi::Ptr;
use crate::context::Context;
use crate::device;
use crate::handle::Id;
use crate::module::{Function, KernelCode, Settings};
use crate::occupancy;
use crate::sim::{Answer, Sim, State};
use crate::work::{KernelWork, LaunchAttributes};

/// The most blocks of a cluster on every device, and on this one if the function allows it.
const CLUSTER: (u32, u32) = (8, 16);

/// The measures of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Blocks by axis.
    pub(crate) grid: [u32; 3],
    /// Threads of a block by axis.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
}

/// Why a launch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The code, and nothing else happens.
    Plain(CUresult),
    /// The measures are wrong: a capture that the launch was meant for is invalidated.
    Measures(CUresult),
}

impl Refusal {
    /// What the driver answers.
    pub(crate) fn code(self) -> CUresult {
        match self {
            Refusal::Plain(code) | Refusal::Measures(code) => code,
        }
    }
}

impl From<CUresult> for Refusal {
    fn from(code: CUresult) -> Refusal {
        Refusal::Plain(code)
    }
}

/// The function that a handle names: a function, or a kernel of a library, which is then loaded
/// into the context.
pub(crate) fn find_function(
    sim: &Sim,
    state: &mut State,
    handle: usize,
    context: Id<Context>,
) -> Result<Id<Function>, CUresult> {
    if let Some(kernel) = state.kernels.find(handle) {
        return state.function_of(sim, kernel, context);
    }
    state.functions.find(handle).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

/// A launch of a function in a context, checked.
pub(crate) fn prepare(
    state: &State,
    function: Id<Function>,
    context: Id<Context>,
    shape: Shape,
    attributes: LaunchAttributes,
    params: Ptr<*mut c_void>,
    extra: Ptr<*mut c_void>,
) -> Result<KernelWork, Refusal> {
    let known = state.functions.get(function).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    if known.context != context {
        return Err(Refusal::Plain(CUDA_ERROR_INVALID_HANDLE));
    }
    check_measures(&known.code, &known.settings, shape, attributes).map_err(Refusal::Measures)?;
    let params = pack(&known.code, params, extra)?;
    Ok(KernelWork {
        function,
        code: known.code.clone(),
        globals: known.globals.clone(),
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        params: params.into(),
        attributes,
        kept_cluster: None,
        conditionals: None,
    })
}

/// Grid, block, shared memory, clusters and cooperation against the limits of the device and of
/// the function.
fn check_measures(
    code: &Arc<KernelCode>,
    settings: &Settings,
    shape: Shape,
    attributes: LaunchAttributes,
) -> Answer {
    let within = |sizes: [u32; 3], limits: [u32; 3]| {
        sizes.iter().zip(limits).all(|(size, limit)| (1..=limit).contains(size))
    };
    let threads: u64 = shape.block.iter().map(|n| u64::from(*n)).product();
    let good = within(shape.grid, device::MAX_GRID)
        && within(shape.block, device::MAX_BLOCK)
        && threads <= code.max_threads as u64
        && code.required_block.is_none_or(|required| required == shape.block)
        && shape.shared_bytes as usize <= settings.max_dynamic_shared(code);
    if !good {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(cluster) = attributes.cluster.or(code.required_cluster) {
        check_cluster(code, settings, shape.grid, cluster)?;
    }
    if attributes.cooperative {
        let per_sm = occupancy::blocks(code, threads as usize, shape.shared_bytes as usize);
        let resident = (per_sm * device::MULTIPROCESSORS) as u64;
        if shape.grid.iter().map(|n| u64::from(*n)).product::<u64>() > resident {
            return Err(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        }
    }
    Ok(())
}

/// Whether a kernel node can have a cluster.
pub(crate) fn check_cluster_of_node(state: &State, work: &KernelWork, cluster: [u32; 3]) -> Answer {
    let known = state.functions.get(work.function).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    check_cluster(&work.code, &known.settings, work.grid, cluster)
}

fn check_cluster(
    code: &KernelCode,
    settings: &Settings,
    grid: [u32; 3],
    cluster: [u32; 3],
) -> Answer {
    if code.required_cluster.is_some_and(|required| required != cluster) {
        return Err(CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    let divides = grid.iter().zip(cluster).all(|(grid, size)| size > 0 && grid % size == 0);
    let (portable, large) = CLUSTER;
    let limit = if settings.allows_large_clusters() { large } else { portable };
    let blocks = cluster.iter().map(|n| u64::from(*n)).product::<u64>();
    if divides && blocks <= u64::from(limit) {
        Ok(())
    } else {
        Err(CUDA_ERROR_INVALID_CLUSTER_SIZE)
    }
}

/// The parameters as the kernel wants them, from pointers to each or from one buffer.
fn pack(
    code: &KernelCode,
    params: Ptr<*mut c_void>,
    extra: Ptr<*mut c_void>,
) -> Result<Vec<u8>, CUresult> {
    let mut packed = vec![0; code.param_bytes];
    if code.params.is_empty() {
        return Ok(packed);
    }
    if params.is_null() {
        let given = read_extra(extra.required()?)?;
        if given.is_empty() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // What a short buffer lacks is not looked at.
        let place = packed.get_mut(..given.len());
        place.ok_or(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)?.copy_from_slice(&given);
        return Ok(packed);
    }
    // A list that says nothing is none.
    if !extra.is_null() && extra.pointee(0)?.address() as u32 != CU_LAUNCH_PARAM_END_AS_INT {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    for (index, param) in code.params.iter().enumerate() {
        let bytes = params.pointee(index)?.cast::<u8>().read_all(param.size)?;
        let place = packed.get_mut(param.offset..param.offset + param.size);
        place.ok_or(CUDA_ERROR_INVALID_VALUE)?.copy_from_slice(&bytes);
    }
    Ok(packed)
}

/// The buffer that a list of options describes.
fn read_extra(extra: Ptr<*mut c_void>) -> Result<Vec<u8>, CUresult> {
    let (mut buffer, mut size) = (None, None);
    let mut index = 0;
    loop {
        let option = extra.pointee(index)?.address() as u32;
        match option {
            CU_LAUNCH_PARAM_END_AS_INT => break,
            CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT => {
                buffer = Some(extra.pointee(index + 1)?.cast::<u8>());
            }
            CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT => {
                size = Some(extra.pointee(index + 1)?.cast::<usize>().read()?);
            }
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
        index += 2;
    }
    match (buffer, size) {
        (Some(buffer), Some(size)) => buffer.read_all(size),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// The attributes of a launch: 801 for one that would change what runs and is not modelled.
pub(crate) fn read_attributes(
    attributes: Ptr<CUlaunchAttribute>,
    count: usize,
) -> Result<LaunchAttributes, CUresult> {
    let mut known = LaunchAttributes::default();
    for index in 0..count {
        let attribute = attributes.at(index)?;
        let id = attribute.cast::<CUlaunchAttributeID>().read()?;
        let value = attribute.cast::<u8>().at(std::mem::offset_of!(CUlaunchAttribute, value))?;
        known.set(id, value.cast())?;
    }
    Ok(known)
}
