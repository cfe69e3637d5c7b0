//! Functions: what they are and what can be set of them.

use core::ffi::c_char;

use grapture_sys::*;

use super::{Ptr, context_config};
use crate::device;
use crate::handle::Id;
use crate::module::{Function, KernelCode, Settings};
use crate::sim::{Answer, Sim, State};

/// The most of a multiprocessor's shared memory that can be asked for, in percent.
const MOST_CARVEOUT: i32 = 100;
/// The attributes from 10 on: cluster sizes that must be set, and how clusters are placed.
const CLUSTER_ATTRIBUTES: std::ops::RangeInclusive<u32> = 10..=15;

/// The function that a handle names, if its context is sound.
pub(crate) fn named(state: &State, function: Ptr<CUfunc_st>) -> Result<Id<Function>, CUresult> {
    let id = state.functions.find(function.address()).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    let function = state.functions.get(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    state.context(function.context)?;
    Ok(id)
}

fn sound<'a>(state: &'a State, function: Ptr<CUfunc_st>) -> Result<&'a Function, CUresult> {
    let id = named(state, function)?;
    state.functions.get(id).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

/// The value of an attribute; 1 if there is none of the number.
pub(super) fn attribute(
    code: &KernelCode,
    settings: &Settings,
    attribute: CUfunction_attribute,
    capability: u32,
) -> Result<i32, CUresult> {
    let set = settings.get(attribute.0 as i32);
    Ok(match attribute {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => code.max_threads as i32,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => code.shared_bytes as i32,
        CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => code.const_bytes as i32,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => code.local_bytes as i32,
        CU_FUNC_ATTRIBUTE_NUM_REGS => code.registers as i32,
        CU_FUNC_ATTRIBUTE_PTX_VERSION => code.target,
        CU_FUNC_ATTRIBUTE_BINARY_VERSION => capability as i32,
        CU_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => settings.max_dynamic_shared(code) as i32,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => set.unwrap_or(-1),
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => set.unwrap_or(cluster(code, 0)),
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => set.unwrap_or(cluster(code, 1)),
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => set.unwrap_or(cluster(code, 2)),
        other if CLUSTER_ATTRIBUTES.contains(&other.0) => set.unwrap_or(0),
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    })
}

/// The blocks of the cluster that the code demands, along an axis; zero where it demands none.
fn cluster(code: &KernelCode, axis: usize) -> i32 {
    code.required_cluster.and_then(|cluster| cluster.get(axis).copied()).unwrap_or(0) as i32
}

/// Sets an attribute; 1 if it cannot be set, or not so.
pub(super) fn set_attribute(
    code: &KernelCode,
    settings: &mut Settings,
    attribute: CUfunction_attribute,
    value: i32,
) -> Answer {
    let most_dynamic = (device::BLOCK_SHARED_OPTIN.saturating_sub(code.shared_bytes)) as i32;
    let good = match attribute {
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => (0..=most_dynamic).contains(&value),
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => (-1..=MOST_CARVEOUT).contains(&value),
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
        | CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
        | CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => value >= 0,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => true,
        CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => (0..=2).contains(&value),
        _ => false,
    };
    if !good {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let flag = attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    settings.set(attribute.0 as i32, if flag { i32::from(value != 0) } else { value });
    Ok(())
}

/// Tells where a parameter is; 1 if there is none of the number.
pub(super) fn param_info(
    code: &KernelCode,
    index: usize,
    offset: Ptr<usize>,
    size: Ptr<usize>,
) -> Answer {
    let param = code.params.get(index).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    offset.write(param.offset)?;
    size.offer(param.size);
    Ok(())
}

pub(crate) fn cuFuncGetAttribute(
    sim: &Sim,
    out: Ptr<i32>,
    which: CUfunction_attribute,
    function: Ptr<CUfunc_st>,
) -> Answer {
    out.required()?;
    let state = sim.lock();
    let function = sound(&state, function)?;
    let device = state.context(function.context)?.core.device;
    let capability = sim.config.device_config(device).capability();
    out.write(attribute(&function.code, &function.settings, which, capability)?)
}

pub(crate) fn cuFuncSetAttribute(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    which: CUfunction_attribute,
    value: i32,
) -> Answer {
    let mut state = sim.lock();
    let id = named(&state, function)?;
    let function = state.functions.get_mut(id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    set_attribute(&function.code, &mut function.settings, which, value)
}

pub(crate) fn cuFuncSetCacheConfig(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    config: CUfunc_cache,
) -> Answer {
    sound(&sim.lock(), function)?;
    context_config::check_cache(config)
}

pub(crate) fn cuFuncSetSharedMemConfig(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    config: CUsharedconfig,
) -> Answer {
    sound(&sim.lock(), function)?;
    context_config::check_banks(config)
}

pub(crate) fn cuFuncGetModule(sim: &Sim, out: Ptr<CUmodule>, function: Ptr<CUfunc_st>) -> Answer {
    let state = sim.lock();
    function.required()?;
    out.write(sound(&state, function)?.module.raw())
}

/// The name stays as long as the module.
pub(crate) fn cuFuncGetName(
    sim: &Sim,
    out: Ptr<*const c_char>,
    function: Ptr<CUfunc_st>,
) -> Answer {
    let state = sim.lock();
    out.write(sound(&state, function)?.code.name.as_ptr())
}

pub(crate) fn cuFuncGetParamInfo(
    sim: &Sim,
    function: Ptr<CUfunc_st>,
    index: usize,
    offset: Ptr<usize>,
    size: Ptr<usize>,
) -> Answer {
    let state = sim.lock();
    function.required()?;
    param_info(&sound(&state, function)?.code, index, offset, size)
}

/// Every function is loaded with its module.
pub(crate) fn cuFuncIsLoaded(
    sim: &Sim,
    out: Ptr<CUfunctionLoadingState>,
    function: Ptr<CUfunc_st>,
) -> Answer {
    sound(&sim.lock(), function)?;
    out.write(CU_FUNCTION_LOADING_STATE_LOADED)
}

pub(crate) fn cuFuncLoad(sim: &Sim, function: Ptr<CUfunc_st>) -> Answer {
    sound(&sim.lock(), function).map(drop)
}
